"""What does a server do with twice the load that it can take? It refuses the excess at once, and the rest stays quick.

    python benchmarks/serve_overload.py [rounds] [seconds]

Batches of 1000 rows, open loop, on one worker. Each round measures the capacity (what two clients get answered, each
waiting for its answer), then sends half of it, then twice of it. The figure is the p99 of admitted requests at twice
the capacity over that at half of it, all rounds together, and its range over the rounds. The first second at a rate is
not counted, since a burst may wait: up to 16 batches. Refusals are 503 with Retry-After. One-row requests run beside
the batches at a low rate.

Times are taken in three ways, because the client shares the cores with the server:

  client  from the time at which a request was due to its answer: what a user sees, but with the client's own delays
  server  from the head of a request to its answer, by the header Server-Timing
  cpu     CPU time of the worker in between, of all its threads: its queue, the work, and the cost of refusals, as on a
          machine with a core for the worker alone; what other programs take from it does not count
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter

import numpy as np
from serving import Client, Cores, Server, Tally, folder_of_models, make_table, open_loop, post, saturation, serving

LEAD_SECONDS, CAPACITY_SECONDS, SINGLES = 1.0, 1.0, 20
TIMING = re.compile(rb"server-timing: read;dur=(\S+), wait;dur=(\S+), work;dur=(\S+), cpu;dur=(\S+)\r", re.I)
WAYS = ("client", "server", "cpu")


class Window:
    """What was measured at one rate for some seconds."""

    def __init__(self) -> None:
        self.milliseconds: list[tuple[float, ...]] = []  # of admitted requests, in the order of WAYS
        self.refused, self.outcomes, self.singles = [], Counter[str](), Tally()
        self.cores = np.zeros(3)  # of the worker, the client and everything else
        self.work: list[float] = []

    def p99(self, way: str) -> float:
        """Return the p99 of a time in milliseconds."""
        return float(np.percentile([each[WAYS.index(way)] for each in self.milliseconds], 99))

    def add(self, other: Window) -> None:
        """Add what was measured in another round."""
        self.milliseconds += other.milliseconds
        self.refused += other.refused
        self.work += other.work
        self.outcomes += other.outcomes
        self.singles.seconds += other.singles.seconds
        self.cores += other.cores

    def __str__(self) -> str:
        times = np.percentile(self.milliseconds, [50, 99], axis=0).T
        shown = "; ".join(f"{way} p50 {p50:.1f} p99 {p99:.1f}" for way, (p50, p99) in zip(WAYS, times))
        refused = f"{1e3 * np.median(self.refused):.1f} ms" if self.refused else "-"
        return (
            f"{dict(self.outcomes)}; admitted, ms: {shown}; work p50 {np.median(self.work):.1f}\n"
            f"        refusals p50 {refused}; one row p99 {self.singles.percentile(99):.1f} ms"
        )


async def measure(server: Server, clients: list[Client], requests: list[bytes], rate: float, seconds: float) -> Window:
    """Send batches at a rate, with single rows beside them."""
    found, (client, other), (batch, one) = Window(), clients, requests
    await open_loop(client, batch, rate, LEAD_SECONDS)
    cores = Cores(server)
    many, found.singles = await asyncio.gather(
        open_loop(client, batch, rate, seconds), open_loop(other, one, SINGLES, seconds)
    )
    found.cores = cores.used()
    found.outcomes, found.refused = many.outcomes, many.refused
    for each, head in zip(many.seconds, many.heads):
        read, wait, work, cpu = (float(part) for part in TIMING.search(head).groups())  # type: ignore[union-attr]
        found.milliseconds.append((1e3 * each, read + wait + work, cpu))
        found.work.append(work)
    return found


async def main(server: Server, rounds: int, seconds: float) -> None:
    """Print what became of the requests."""
    rows, clients = make_table(1000, seed=2).to_pylist(), [Client(server.port), Client(server.port)]
    requests = [post("/score", {"rows": rows}), post("/score", {"rows": rows[:1]})]
    await saturation(clients[0], requests[0], 1.0, 2)
    total, ratios = {0.5: Window(), 2.0: Window()}, {way: [] for way in WAYS}
    for _ in range(rounds):
        capacity = await saturation(clients[0], requests[0], CAPACITY_SECONDS, 2)
        half, twice = [await measure(server, clients, requests, factor * capacity, seconds) for factor in total]
        for way in WAYS:
            ratios[way].append(twice.p99(way) / half.p99(way))
        total[0.5].add(half), total[2.0].add(twice)
        print(
            f"capacity {capacity:.0f}/s; cores of worker, client, others: {(half.cores + twice.cores) / 2}", flush=True
        )
    for factor, found in total.items():
        print(f"{factor:g} x capacity: {found}")
    for way in WAYS:
        whole, each = total[2.0].p99(way) / total[0.5].p99(way), ratios[way]
        spread = f"rounds {min(each):.2f} to {max(each):.2f}, median {np.median(each):.2f}"
        print(f"p99 at twice / at half, {way:6}: {whole:.2f}; {spread}")
    for client in clients:
        client.close()


if __name__ == "__main__":
    np.set_printoptions(precision=2, suppress=True)
    given = [*map(float, sys.argv[1:])]
    with folder_of_models(0) as [path], serving(path) as running:
        asyncio.run(main(running, int(given[0]) if given else 5, given[1] if len(given) > 1 else 5.0))
