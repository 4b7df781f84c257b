"""Is a request lost when a server is told to stop under load?

    python -m benchmarks.serve_drain [stops] [requests per second]

SIGTERM under load, again and again. One client looks at readiness, as a load balancer does, and stops sending when it
is told so; another goes on until it is refused. No request that was sent may be lost, and the exit code must be 0.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import Client, Server, Tally, at_rate, folder_of_models, get, make_table, post, serving


async def send(client: Client, request: bytes, rate: float, is_over: asyncio.Event) -> Tally:
    """Send requests at a rate until it is over; wait for their answers."""
    tally, tasks = Tally(), []
    async for due in at_rate(rate, 60):
        if is_over.is_set():
            break
        tasks.append(asyncio.create_task(client.ask(request, tally, due)))
        if tally.outcomes["refused"]:
            is_over.set()
    await asyncio.gather(*tasks)
    return tally


async def stop(server: Server, is_over: asyncio.Event) -> float:
    """Tell the server to stop; set the event when readiness says so. Return the seconds until it has ended."""
    await asyncio.sleep(2)
    begin, probe = time.perf_counter(), Client(server.port)
    server.process.send_signal(signal.SIGTERM)
    while await probe.ask(get("/v2/health/ready"), Tally()) == 200:
        await asyncio.sleep(0.1)
    is_over.set()
    while server.process.poll() is None:
        await asyncio.sleep(0.02)
    return time.perf_counter() - begin


async def one_stop(server: Server, rate: float) -> tuple[Tally, Tally, float]:
    """Return the outcomes of both clients, and the seconds until the end."""
    request = post("/score", {"rows": make_table(10, seed=2).to_pylist()[:1]})
    polite, stubborn = Client(server.port), Client(server.port)
    told, never = asyncio.Event(), asyncio.Event()
    first, second, seconds = await asyncio.gather(
        send(polite, request, rate, told), send(stubborn, request, rate, never), stop(server, told)
    )
    polite.close(), stubborn.close()
    return first, second, seconds


def main(path: Path, stops: int, rate: float) -> None:
    """Print what became of the requests."""
    totals = Tally(), Tally()
    for _ in range(stops):
        with serving(path, "--workers", 2, "--drain-seconds", 1) as server:
            *tallies, seconds = asyncio.run(one_stop(server, rate))
            assert server.process.wait() == 0, server.process.returncode
        for total, tally in zip(totals, tallies):
            total.outcomes.update(tally.outcomes)
            total.seconds += tally.seconds
        print(f"stopped in {seconds:.1f} s with exit code 0")
    print(f"looks at readiness: {totals[0]}")
    print(f"goes on until it is refused: {totals[1]}")


if __name__ == "__main__":
    given = numbers_asked_for(__doc__, stops=5, rate=100.0)
    with folder_of_models(0) as [file]:
        main(file, *given)
