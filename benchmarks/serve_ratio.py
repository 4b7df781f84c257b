"""Is one-row scoring as quick as a route that does nothing, and do batches keep up with the library?

    python benchmarks/serve_ratio.py [pairs] [seconds]

A bare route (/v2/health/live) and one-row scoring take turns in the same server, open loop, at half of the rate that
saturates scoring. The figure is the median of the pairs' ratios of p99; it is void if the bare p99 varies by more than
1.5 between quartiles. Batches of 1000 rows are compared with the same JSON parsed, scored by `Scorer` and written by
this process, and with `predict_proba` of a ready Arrow table; CPU seconds of the server's workers against our own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import warnings

import numpy as np
from serving import Client, Server, Tally, folder_of_models, get, make_table, open_loop, post, saturation, serving

from rafm import Scorer, load

BATCH, BATCHES = 1000, 20


async def ratio(server: Server, pairs: int, seconds: float) -> None:
    """Print the ratio of the two routes."""
    row = make_table(10, seed=2).to_pylist()[3]
    client, bare, score = Client(server.port), get("/v2/health/live"), post("/score", {"rows": [row]})
    for request in (bare, score):
        await saturation(client, request, 1.0)
    rate = await saturation(client, score) / 2
    found = []
    for _ in range(pairs):
        one, two = await open_loop(client, bare, rate, seconds), await open_loop(client, score, rate, seconds)
        assert {*one.outcomes} == {*two.outcomes} == {"200"}, (one, two)
        found.append((one.percentile(99), two.percentile(99), one.percentile(50), two.percentile(50)))
    client.close()
    p99, p50 = [two / one for one, two, _, _ in found], [two / one for *_, one, two in found]
    low, high = np.percentile([one for one, *_ in found], [25, 75])
    verdict = "void: the bare route varies" if high > 1.5 * low else "valid"
    print(f"{rate:.0f} requests/s, {pairs} pairs of {seconds:g} s; p99 of the bare route {low:.2f} to {high:.2f} ms")
    print(f"ratio of p99: median {np.median(p99):.2f} ({verdict}); ratio of p50: median {np.median(p50):.2f}")


def cpu_of(server: Server) -> float:
    """Return the CPU seconds of the workers."""
    ticks = 0
    for worker in server.workers():
        with open(f"/proc/{worker}/stat") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def batches(server: Server, path: str) -> None:
    """Print how fast batches are, compared with the library."""
    table = make_table(BATCH, seed=3)
    content = {"rows": table.to_pylist()}
    text, client, scorer, model = json.dumps(content), Client(server.port), Scorer(path), load(path)

    def by_scorer() -> str:
        rows = json.loads(text)["rows"]
        scores = scorer.score(rows)
        return json.dumps({"score": scores.tolist(), "probability": scorer.link(scores).tolist()})

    request, rounds = post("/score", content), []
    await client.ask(request, Tally())
    by_scorer(), model.predict_proba(table)
    for _ in range(5):
        times = []
        begin = cpu_of(server)
        for _ in range(BATCHES):
            await client.ask(request, Tally())
        times.append(cpu_of(server) - begin)
        for work in (by_scorer, lambda: model.predict_proba(table)):
            begin = time.process_time()
            for _ in range(BATCHES):
                work()
            times.append(time.process_time() - begin)
        rounds.append(times)
    client.close()
    served, own, frame = BATCH * BATCHES / np.median(rounds, axis=0)
    print(f"batches of {BATCH} rows, rows per CPU second: server {served:,.0f}; Scorer with JSON {own:,.0f}; ", end="")
    print(f"predict_proba of a ready table {frame:,.0f}; server / Scorer {served / own:.2f}")


def main(pairs: int, seconds: float) -> None:
    """Run both."""
    warnings.simplefilter("ignore")
    with folder_of_models(0) as [path], serving(path) as server:
        asyncio.run(ratio(server, pairs, seconds))
        asyncio.run(batches(server, str(path)))


if __name__ == "__main__":
    given = [*map(float, sys.argv[1:])]
    main(*(int(given[0]) if given else 10, given[1] if len(given) > 1 else 4.0))
