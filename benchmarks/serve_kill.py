"""What is lost when workers are killed? Only the requests that they had open.

    python -m benchmarks.serve_kill [seconds] [requests per second]

kill -9 of a worker every 5 seconds under load, on two workers. One client does not retry: what it loses are the
requests that the killed workers had open. Another retries once on a new connection and must lose nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import Client, Server, folder_of_models, make_table, open_loop, post, serving

PAUSE = 5.0


async def kill(server: Server, seconds: float) -> int:
    """Kill a worker now and then; return the number of kills."""
    kills, draw = 0, random.Random(0)
    for _ in range(int(seconds / PAUSE)):
        await asyncio.sleep(PAUSE)
        os.kill(draw.choice(server.workers()), signal.SIGKILL)
        kills += 1
    return kills


async def main(server: Server, seconds: float, rate: float) -> None:
    """Print what became of the requests."""
    request = post("/score", {"rows": make_table(10, seed=2).to_pylist()[:1]})
    plain, retrying = Client(server.port), Client(server.port, retries=1)
    found = await asyncio.gather(
        open_loop(plain, request, rate, seconds), open_loop(retrying, request, rate, seconds), kill(server, seconds)
    )
    without, once, kills = found
    print(f"{kills} kills in {seconds:g} s at 2 x {rate:.0f} requests/s")
    print(f"without retry: {without}; lost per kill {without.outcomes['lost'] / max(kills, 1):.1f}")
    print(f"with one retry: {once}")
    plain.close(), retrying.close()


if __name__ == "__main__":
    given = numbers_asked_for(__doc__, seconds=60.0, rate=100.0)
    with folder_of_models(0) as [path], serving(path, "--workers", 2) as running:
        asyncio.run(main(running, *given))
