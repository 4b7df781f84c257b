"""Does a server stay flat under steady load: no error, no growing memory, no leaking files?

    python -m benchmarks.serve_load [seconds] [requests per second]

Requests of one row at the given rate (300), and of 100 rows at a sixth of it, open loop, on two workers. Memory and
files are those after ten seconds of the same load, and at the end, each time without the client's connections.
"""

from __future__ import annotations

import asyncio

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import Client, Server, Tally, folder_of_models, make_table, open_loop, post, serving


async def load(server: Server, seconds: float, rate: float) -> None:
    """Print outcomes and latencies, memory and files."""
    rows = make_table(100, seed=2).to_pylist()
    one, many = post("/score", {"rows": rows[:1]}), post("/score", {"rows": rows})

    async def send(seconds: float) -> tuple[Tally, Tally]:
        client = Client(server.port)
        tallies = await asyncio.gather(
            open_loop(client, one, rate, seconds), open_loop(client, many, rate / 6, seconds)
        )
        client.close()
        await asyncio.sleep(2)  # until the server has noticed
        return tallies

    await send(10)
    before = server.kilobytes(), server.open_files()
    found = await send(seconds)
    after = server.kilobytes(), server.open_files()
    for name, rate_of, tally in zip(("one row", "100 rows"), (rate, rate / 6), found):
        print(f"{name:9} at {rate_of:.0f}/s for {seconds:g} s: {tally}")
    print(f"memory of the workers {before[0] / 1024:.1f} -> {after[0] / 1024:.1f} MB, files {before[1]} -> {after[1]}")


if __name__ == "__main__":
    given = numbers_asked_for(__doc__, seconds=60.0, rate=300.0)
    with folder_of_models(0) as [path], serving(path, "--workers", 2) as running:
        asyncio.run(load(running, *given))
