"""Does a server stay up, and small, under requests that are wrong, cut short, slow, or far too long?

    python -m benchmarks.serve_bad [requests]

Random bytes and mutated requests, of whose clients half leave before the answer, a body without end, idle connections
and senders of a byte per second; good requests run beside them and must all be answered. Memory and files of the worker
are printed before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import Client, Server, folder_of_models, make_table, open_loop, post, serving

AT_A_TIME, IDLE, SLOW = 50, 500, 50


async def throw(port: int, data: bytes, draw: random.Random) -> str:
    """Send bytes, perhaps leave before the answer; return its status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if draw.random() < 0.5:
            return "left"
        async with asyncio.timeout(0.5):
            return (await reader.read(12))[9:12].decode("ascii", "replace") or "closed"
    except (OSError, TimeoutError):
        return "no answer"
    finally:
        writer.close()


async def drip(port: int) -> str:
    """Send a byte per second until the server has enough; return what it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(reader.read(12))
    with contextlib.suppress(OSError):
        for byte in post("/score", {"rows": []}):
            writer.write(bytes([byte]))
            if (await asyncio.wait([answer], timeout=1))[0]:
                break
    writer.close()
    return (await answer)[9:12].decode() or "closed"


def mutated(request: bytes, draw: random.Random) -> bytes:
    """Return a request with bytes changed, inserted or cut off."""
    data = bytearray(request)
    for _ in range(draw.randint(1, 8)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data[: draw.randint(1, len(data))]) if draw.random() < 0.3 else bytes(data)


async def flood(port: int, n_requests: int) -> dict[str, int]:
    """Send wrong requests; return the number of each outcome."""
    draw, request = random.Random(0), post("/score", {"rows": make_table(3, seed=2).to_pylist(), "explain": 3})
    outcomes: dict[str, int] = {}
    for _ in range(n_requests // AT_A_TIME):
        wrong = [mutated(request, draw) if draw.random() < 0.8 else draw.randbytes(200) for _ in range(AT_A_TIME)]
        for outcome in await asyncio.gather(*(throw(port, data, draw) for data in wrong)):
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


async def endless(port: int, megabytes: int) -> str:
    """Send a body in chunks until the server has enough; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /score HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    answer = asyncio.create_task(reader.read(12))
    for _ in range(16 * megabytes):
        if answer.done():
            break
        writer.write(b"10000\r\n%s\r\n" % (b" " * 65536))
        with contextlib.suppress(OSError):
            await writer.drain()
    head = await answer
    writer.close()
    return head[9:12].decode()


async def main(server: Server, n_requests: int) -> None:
    """Print what became of the requests, and the memory."""
    client, good = Client(server.port), post("/score", {"rows": make_table(3, seed=2).to_pylist()})
    await flood(server.port, 500)
    before = server.workers(), server.kilobytes(), server.open_files()
    others = asyncio.create_task(open_loop(client, good, 20, max(5.0, n_requests / 400)))
    outcomes = await flood(server.port, n_requests)
    status = await endless(server.port, 500)
    largest = server.kilobytes()
    idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(IDLE)]
    slow = Counter(await asyncio.gather(*(drip(server.port) for _ in range(SLOW))))
    closed = sum(reader.at_eof() for reader, _ in idle)
    tally = await others
    for _, writer in idle:
        writer.close()
    client.close()
    await asyncio.sleep(3)
    print(f"{n_requests} wrong requests: {outcomes}; a body without end: {status}")
    print(f"{SLOW} senders of a byte per second: {dict(slow)}; {closed} of {IDLE} idle connections closed")
    print(f"good ones beside them: {tally}")
    print(
        f"memory {before[1] / 1024:.1f} -> {largest / 1024:.1f} MB, files {before[2]} -> {server.open_files()}; ",
        end="",
    )
    print("same worker" if server.workers() == before[0] else "the worker died")


if __name__ == "__main__":
    given = numbers_asked_for(__doc__, requests=10_000)
    with folder_of_models(0) as [path], serving(path, "--timeout-seconds", 2) as running:
        asyncio.run(main(running, *given))
