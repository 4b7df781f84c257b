"""What does a server do with twice the load that it can take? It refuses the excess at once, and the rest stays quick.

    python -m benchmarks.serve_overload [rounds] [seconds]

Batches of 1000 rows, open loop, on one worker. Each round measures the capacity (what two clients get answered, each
waiting for its answer), then sends half of it, then twice of it. The figure is the p99 of admitted requests at twice
the capacity over that at half of it: all rounds together, and again for the calmest third of the rounds, those in which
worker and client waited least for a core that other programs had, which the kernel counts. The first second at a rate
is not counted, since a burst may wait: up to 16 batches. Refusals are 503 with Retry-After. One-row requests run beside
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
from collections import Counter

import numpy as np

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import (
    Client,
    Cores,
    Server,
    Tally,
    folder_of_models,
    make_table,
    open_loop,
    post,
    saturation,
    serving,
    waited_for_a_core,
)

LEAD_SECONDS, CAPACITY_SECONDS, SINGLES = 1.0, 1.0, 20
TIMING = re.compile(rb"server-timing: read;dur=(\S+), wait;dur=(\S+), work;dur=(\S+), cpu;dur=(\S+)\r", re.I)
WAYS, FACTORS = ("client", "server", "cpu"), (0.5, 2.0)


class Window:
    """What was measured at one rate for some seconds."""

    def __init__(self) -> None:
        self.milliseconds: list[tuple[float, ...]] = []  # of admitted requests, in the order of WAYS
        self.refused, self.outcomes, self.singles = [], Counter[str](), Tally()
        self.cores = np.zeros(3)  # of the worker, the client and everything else
        self.work: list[float] = []
        self.waited = 0.0  # seconds for a core

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
        self.cores = self.cores + other.cores
        self.waited += other.waited

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
    cores, before = Cores(server), waited_for_a_core(server)
    many, found.singles = await asyncio.gather(
        open_loop(client, batch, rate, seconds), open_loop(other, one, SINGLES, seconds)
    )
    found.cores, found.waited = cores.used(), waited_for_a_core(server) - before
    found.outcomes, found.refused = many.outcomes, many.refused
    for each, head in zip(many.seconds, many.heads):
        read, wait, work, cpu = (float(part) for part in TIMING.search(head).groups())  # type: ignore[union-attr]
        found.milliseconds.append((1e3 * each, read + wait + work, cpu))
        found.work.append(work)
    return found


def report(name: str, rounds: list[list[Window]], seconds: float) -> None:
    """Print what rounds have in common."""
    total = [Window() for _ in FACTORS]
    for pair in rounds:
        for whole, window in zip(total, pair):
            whole.add(window)
    time, cores = 2 * seconds * len(rounds), sum(whole.cores for whole in total) / (2 * len(rounds))
    waited = sum(whole.waited for whole in total) / time
    print(f"{name}: waited for a core for {waited:.0%} of the time; cores of worker, client, others: {cores}")
    for factor, whole in zip(FACTORS, total):
        print(f"  {factor:g} x capacity: {whole}")
    for way in WAYS:
        half, twice = (whole.p99(way) for whole in total)
        each = sorted(pair[1].p99(way) / pair[0].p99(way) for pair in rounds)
        print(f"  p99 at twice / at half, {way:6}: {twice / half:.2f}; median of rounds {np.median(each):.2f}")


async def main(server: Server, rounds: int, seconds: float) -> None:
    """Print what became of the requests."""
    rows, clients = make_table(1000, seed=2).to_pylist(), [Client(server.port), Client(server.port)]
    requests = [post("/score", {"rows": rows}), post("/score", {"rows": rows[:1]})]
    await saturation(clients[0], requests[0], 1.0, 2)
    found: list[list[Window]] = []
    for _ in range(rounds):
        capacity = await saturation(clients[0], requests[0], CAPACITY_SECONDS, 2)
        found.append([await measure(server, clients, requests, factor * capacity, seconds) for factor in FACTORS])
    found.sort(key=lambda pair: sum(window.waited for window in pair))
    report("all rounds", found, seconds)
    report("calmest third", found[: max(rounds // 3, 1)], seconds)
    for client in clients:
        client.close()


if __name__ == "__main__":
    np.set_printoptions(precision=2, suppress=True)
    given = numbers_asked_for(__doc__, rounds=12, seconds=3.0)
    with folder_of_models(0) as [path], serving(path) as running:
        asyncio.run(main(running, *given))
