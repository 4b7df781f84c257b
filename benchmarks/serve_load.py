"""Does a server stay flat under steady load: no error, no growing memory, no leaking files?

    python benchmarks/serve_load.py [seconds] [requests per second]

Requests of one row at the given rate (300), and of 100 rows at a sixth of it, open loop, on two workers.
"""

from __future__ import annotations

import asyncio
import sys

from serving import Client, Server, folder_of_models, make_table, open_loop, post, serving


async def load(server: Server, seconds: float, rate: float) -> None:
    """Print outcomes and latencies, memory and files."""
    rows, client = make_table(100, seed=2).to_pylist(), Client(server.port)
    one, many = post("/score", {"rows": rows[:1]}), post("/score", {"rows": rows})
    await asyncio.gather(open_loop(client, one, rate, 3), open_loop(client, many, rate / 6, 3))
    before = server.kilobytes(), server.open_files()
    found = await asyncio.gather(open_loop(client, one, rate, seconds), open_loop(client, many, rate / 6, seconds))
    after = server.kilobytes(), server.open_files()
    client.close()
    for name, rate_of, tally in zip(("one row", "100 rows"), (rate, rate / 6), found):
        print(f"{name:9} at {rate_of:.0f}/s for {seconds:g} s: {tally}")
    print(f"memory of the workers {before[0] / 1024:.1f} -> {after[0] / 1024:.1f} MB, files {before[1]} -> {after[1]}")


if __name__ == "__main__":
    given = [*map(float, sys.argv[1:])]
    with folder_of_models(0) as [path], serving(path, "--workers", 2) as running:
        asyncio.run(load(running, given[0] if given else 60.0, given[1] if len(given) > 1 else 300.0))
