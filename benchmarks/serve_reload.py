"""Is a request lost, or answered by two models, while the model file is replaced again and again?

    python -m benchmarks.serve_reload [seconds] [requests per second]

Every second the file is replaced: by another model, or, one time in three, by one with a flipped bit, which must be
refused. No request may fail, and every answer must name one of the two good files.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import Client, Server, folder_of_models, get, make_table, open_loop, post, serving


async def swap(files: list[Path], served: Path, seconds: float) -> None:
    """Replace the served file every second."""
    for number in range(int(seconds)):
        await asyncio.sleep(1)
        new = served.with_suffix(".new")
        shutil.copy(files[number % len(files)], new)
        os.replace(new, served)


async def main(server: Server, files: list[Path], served: Path, seconds: float, rate: float) -> None:
    """Print what became of the requests."""
    request, client = post("/score", {"rows": make_table(10, seed=2).to_pylist()[:1]}), Client(server.port)
    tally, _ = await asyncio.gather(open_loop(client, request, rate, seconds), swap(files, served, seconds))
    good = {hashlib.sha256(path.read_bytes()).hexdigest()[:8] for path in files[:2]}
    print(f"{int(seconds)} replacements in {seconds:g} s at {rate:.0f} requests/s: {tally}")
    print(f"answers by version: {dict(tally.versions)}; all of a good file: {({*tally.versions}) <= good}")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(get("/metrics").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    lines = (await reader.read()).decode().splitlines()
    print("; ".join(line for line in lines if line.startswith("rafm_model_reload")))
    writer.close()
    client.close()


if __name__ == "__main__":
    given = numbers_asked_for(__doc__, seconds=30.0, rate=200.0)
    with folder_of_models(0, 1) as paths:
        damaged = bytearray(paths[0].read_bytes())
        damaged[-9] ^= 4
        (paths[0].parent / "damaged").write_bytes(damaged)
        target = Path(shutil.copy(paths[0], paths[0].parent / "served.rafm"))
        with serving(target, "--workers", 2, "--reload-seconds", 0.2) as running:
            every = [paths[1], paths[0], paths[0].parent / "damaged"]
            asyncio.run(main(running, every, target, *given))
