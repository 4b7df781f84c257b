"""Is one-row scoring as quick as a route that does nothing, and do batches keep up with the library?

    python -m benchmarks.serve_ratio [pairs] [seconds]

A bare route (/v2/health/live) and one-row scoring take turns in the same server, over the same connections: pairs of
short windows, in random order, open loop, at half of the rate that saturates scoring, which is measured again every few
pairs. The figure is the ratio of the p99 of all windows together, with the interval that holds 90 % of the ratios when
pairs are drawn anew (bootstrap). Client and server share the cores with whatever else runs. So it is printed again for
the calmest quarter of the pairs: those in which worker and client waited least for a core that other programs had,
which the kernel counts. If they waited for more than a tenth of that time too, no p99 means anything; the ratio of the
server's CPU time per request, which is printed first, still does.

Batches of 1000 rows, as JSON rows, tensors and Arrow, are compared with what the library does with
the same rows as Python objects (`Scorer.predict`), and with `predict_proba` of a ready Arrow table; CPU seconds of
the server's workers against our own, in turns.
"""

from __future__ import annotations

import asyncio
import time
import warnings

import numpy as np
import pyarrow as pa

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import (
    Client,
    Cores,
    Server,
    Tally,
    cpu_of,
    folder_of_models,
    get,
    make_table,
    open_loop,
    post,
    post_bytes,
    saturation,
    serving,
    waited_for_a_core,
)
from rafm import Scorer, load

BATCH, BATCHES, REQUESTS, ROUNDS = 1000, 40, 500, 7
RESAMPLES, PAIRS_PER_RATE = 500, 5
ARROW = "application/vnd.apache.arrow.stream"


async def ratio(server: Server, pairs: int, seconds: float) -> None:
    """Print the ratio of the two routes."""
    row, draw = make_table(10, seed=2).to_pylist()[3], np.random.default_rng(0)
    client, requests = Client(server.port), [get("/v2/health/live"), post("/score", {"rows": [row]})]
    await compare_cpu(server, client, *requests)
    for request in requests:
        await saturation(client, request, 1.0)
    cores, rates = Cores(server), []
    windows: list[list[np.ndarray]] = []  # latencies of both routes by pair
    waits = np.zeros(pairs)
    for pair in range(pairs):
        if pair % PAIRS_PER_RATE == 0:
            rates.append(rate := await saturation(client, requests[1], 2 * seconds) / 2)
        windows.append([np.zeros(0), np.zeros(0)])
        before = waited_for_a_core(server)
        for route in draw.permutation(2):
            tally = await open_loop(client, requests[route], rate, seconds)
            assert {*tally.outcomes} == {"200"}, f"refused requests: {tally}"
            windows[-1][route] = 1e3 * np.array(tally.seconds)
        waits[pair] = (waited_for_a_core(server) - before) / (2 * seconds)
    client.close()
    print(f"{min(rates):.0f} to {max(rates):.0f} requests/s, {pairs} pairs of {seconds:g} s; ", end="")
    print(f"cores of worker, client, others: {cores.used()}")
    order = np.argsort(waits)
    for name, chosen in (("all pairs", order), ("calmest quarter", order[: max(pairs // 4, 1)])):
        print(f"{name}: waited for a core for {waits[chosen].mean():.0%} of the time")
        for share in (50, 99):
            print(f"  p{share}: {_compared(windows, chosen, share, draw)}")


def _compared(windows: list[list[np.ndarray]], chosen: np.ndarray, share: float, draw: np.random.Generator) -> str:
    def both(pairs: np.ndarray) -> np.ndarray:
        return np.array([np.percentile(np.concatenate([windows[i][k] for i in pairs]), share) for k in (0, 1)])

    again = [both(draw.choice(chosen, chosen.size)) for _ in range(RESAMPLES)]
    low, high = np.percentile([score / bare for bare, score in again], [5, 95])
    bare, score = both(chosen)
    return f"bare {bare:.2f} ms, one row {score:.2f} ms, ratio {score / bare:.2f} ({low:.2f} to {high:.2f})"


async def compare_cpu(server: Server, client: Client, *requests: bytes) -> None:
    """Print the CPU time of the server per request of two routes."""
    rounds = []
    for _ in range(ROUNDS):
        times = []
        for request in requests:
            begin = cpu_of(server)
            for _ in range(REQUESTS):
                assert await client.ask(request, Tally()) == 200
            times.append(1e6 * (cpu_of(server) - begin) / REQUESTS)
        rounds.append(times)
    bare, score = np.median(rounds, axis=0)
    print(f"CPU of the server per request: bare {bare:.0f} us, one row {score:.0f} us, ratio {score / bare:.2f}")


def bodies_of(table: pa.Table) -> dict[str, bytes]:
    """Return requests that score a table, by the form of their rows."""
    n_rows, infer, texts = table.num_rows, "/v2/models/model-0/infer", table.select([f"c{i}" for i in range(5)])
    columns = [(name, "BYTES" if name in texts.column_names else "FP64") for name in table.column_names]
    tensors = [{"name": name, "shape": [n_rows], "datatype": kind} for name, kind in columns]
    as_json = [{**one, "data": table[one["name"]].to_pylist()} for one in tensors]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = f"Content-Type: {ARROW}\r\nAccept: {ARROW}\r\n"
    return {
        "JSON rows": post("/score", {"rows": table.to_pylist()}),
        "JSON tensors": post(infer, {"inputs": as_json}),
        "Arrow": post_bytes("/score", sink.getvalue().to_pybytes(), arrow),
    }


async def batches(server: Server, path: str) -> None:
    """Print how fast batches are, compared with the library."""
    table = make_table(BATCH, seed=3)
    rows, client, scorer, model = table.to_pylist(), Client(server.port), Scorer(path), load(path)
    library = {"Scorer": lambda: scorer.predict(rows), "predict_proba": lambda: model.predict_proba(table)}
    requests = bodies_of(table)
    for request in requests.values():
        assert await client.ask(request, Tally()) == 200
    for work in library.values():
        work()
    rounds: dict[str, list[float]] = {name: [] for name in (*requests, *library)}
    for _ in range(ROUNDS):
        for name, request in requests.items():
            begin = cpu_of(server)
            for _ in range(BATCHES):
                await client.ask(request, Tally())
            rounds[name].append(cpu_of(server) - begin)
        for name, work in library.items():
            begin = time.process_time()
            for _ in range(BATCHES):
                work()
            rounds[name].append(time.process_time() - begin)
    client.close()
    speed = {name: BATCH * BATCHES / np.median(times) for name, times in rounds.items()}
    print(f"batches of {BATCH} rows, thousand rows per CPU second, and share of the library's speed")
    print(f"{'':16}{'k rows/s':>9}{'/ Scorer of dicts':>19}{'/ predict_proba of a table':>28}")
    for name, rate in speed.items():
        print(f"{name:16}{rate / 1e3:9.0f}{rate / speed['Scorer']:19.2f}{rate / speed['predict_proba']:28.2f}")


def main(pairs: int, seconds: float) -> None:
    """Run both."""
    warnings.simplefilter("ignore")
    np.set_printoptions(precision=2, suppress=True)
    with folder_of_models(0) as [path], serving(path) as server:
        asyncio.run(ratio(server, pairs, seconds))
        asyncio.run(batches(server, str(path)))


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, pairs=200, seconds=0.1))
