"""What the benchmarks of the server share: a model, a server, open-loop clients and their figures.

An open-loop client sends requests at given times, whether or not earlier ones are answered, and measures from the time
at which a request was due. So a server that stalls cannot slow the clients down and look better than it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rafm import RaFMClassifier

ROWS, RANKS = 5_000, (8, 32, 128)


def make_table(n_rows: int, seed: int = 0) -> pa.Table:
    """Return a table of five categories with a long tail, and three numbers."""
    draw = np.random.default_rng(seed)
    texts = {f"c{i}": [f"v{x}" for x in draw.zipf(1.3, n_rows) % 10_000] for i in range(5)}
    return pa.table({**texts, **{f"n{i}": draw.lognormal(0, 2, n_rows) for i in range(3)}})


def save_models(folder: Path, *seeds: int) -> list[Path]:
    """Train a model of each seed; return their files."""
    table, labels, paths = make_table(ROWS), np.random.default_rng(1).integers(0, 2, ROWS), []
    for seed in seeds:
        path = folder / f"model-{seed}.rafm"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = RaFMClassifier(ranks=RANKS, n_epochs=1, validation_fraction=0, random_state=seed)
            model.fit(table, labels).save(path)
        paths.append(path)
    return paths


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in text.split()]

    def kilobytes(self) -> int:
        """Return the resident memory of the workers."""
        status = "".join(Path(f"/proc/{worker}/status").read_text() for worker in self.workers())
        return sum(int(kilobytes) for kilobytes in re.findall(r"VmRSS:\s+(\d+)", status))

    def open_files(self) -> int:
        """Return the number of open files of the workers."""
        return sum(len(os.listdir(f"/proc/{worker}/fd")) for worker in self.workers())


def _scheduled(process: int | str) -> np.ndarray:
    """Return the seconds for which the threads of a process have run, and waited for a core, both summed up."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum((np.array((task / "schedstat").read_text().split()[:2], float) for task in tasks), np.zeros(2)) / 1e9


def cpu_of(server: Server) -> float:
    """Return the CPU seconds of the workers."""
    return float(sum(_scheduled(worker)[0] for worker in server.workers()))


def waited_for_a_core(server: Server) -> float:
    """Return the seconds for which the workers and this process could run, but other programs did."""
    return float(sum(_scheduled(process)[1] for process in (*server.workers(), "self")))


def busy_seconds() -> float:
    """Return the CPU seconds of everything on this machine."""
    fields = [*map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # less idle and waiting for disks


class Cores:
    """How many cores the workers, the client and everything else have used since the beginning."""

    def __init__(self, server: Server):
        self.server, self.begin = server, self._clocks(server)

    @staticmethod
    def _clocks(server: Server) -> np.ndarray:
        return np.array([time.perf_counter(), cpu_of(server), time.process_time(), busy_seconds()])

    def used(self) -> np.ndarray:
        """Return the three numbers."""
        seconds, workers, client, busy = self._clocks(self.server) - self.begin
        return np.array([workers, client, busy - workers - client]) / seconds


@contextlib.contextmanager
def serving(model: Path, *flags: Any) -> Iterator[Server]:
    """Run a server on a free port."""
    command = [sys.executable, "-m", "rafm", "serve", str(model), "--port", "0", *map(str, flags)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            assert found, "the server did not start"
            yield Server(process, int(found[1]))
        finally:
            process.kill()


@contextlib.contextmanager
def folder_of_models(*seeds: int) -> Iterator[list[Path]]:
    """Yield model files in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield save_models(Path(folder), *seeds)


def post(path: str, content: Any) -> bytes:
    """Return the bytes of a request."""
    return post_bytes(path, json.dumps(content).encode())


def post_bytes(path: str, body: bytes, headers: str = "") -> bytes:
    """Return the bytes of a request with this body; headers: further ones, each with its end of line."""
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def get(path: str) -> bytes:
    """Return the bytes of a request without a body."""
    return b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()


@dataclass
class Tally:
    """What became of requests: seconds, heads and versions of the answered ones, seconds of the refused, and counts."""

    seconds: list[float] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies in milliseconds."""
        return 1e3 * float(np.percentile(self.seconds, share)) if self.seconds else float("nan")

    def __str__(self) -> str:
        found = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        return f"{found}; p50 {self.percentile(50):.1f} ms, p99 {self.percentile(99):.1f} ms"


class Client:
    """Connections that are kept, up to a number of them at a time."""

    def __init__(self, port: int, retries: int = 0):
        self.port, self.retries = port, retries
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, request: bytes, tally: Tally, due: float | None = None) -> int:
        """Send a request; tally its outcome: a status, "refused" before it was sent, or "lost"."""
        due = time.perf_counter() if due is None else due
        for attempt in range(self.retries + 1):
            outcome, head, body = await self._once(request, fresh=attempt > 0)
            if outcome not in ("lost", "refused"):
                break
        tally.outcomes[outcome] += 1
        if outcome == "200":
            tally.seconds.append(time.perf_counter() - due)
            tally.heads.append(head)
            if found := re.search(rb'"sha256":"([0-9a-f]{8})', body):
                tally.versions[found[1].decode()] += 1
        elif outcome == "503":
            tally.refused.append(time.perf_counter() - due)
        return int(outcome) if outcome.isdigit() else 0

    async def _once(self, request: bytes, fresh: bool) -> tuple[str, bytes, bytes]:
        self.idle = [one for one in self.idle if not one[0].at_eof()]  # closed meanwhile, as any client notices
        try:
            if fresh or not self.idle:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            else:
                reader, writer = self.idle.pop()
        except OSError:
            return "refused", b"", b""
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"\r\ncontent-length: (\d+)", head, re.I)[1])  # type: ignore[index]
            body = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return "lost", b"", b""
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self.idle.append((reader, writer))
        return head[9:12].decode(), head, body

    def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self.idle:
            writer.close()


async def at_rate(per_second: float, seconds: float) -> AsyncIterator[float]:
    """Yield the times at which requests are due, when they are."""
    begin = time.perf_counter()
    for number in range(int(per_second * seconds)):
        due = begin + number / per_second
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        yield due


async def open_loop(client: Client, request: bytes, per_second: float, seconds: float) -> Tally:
    """Send a request at a rate for some time; return what became of them."""
    tally, tasks = Tally(), []
    async for due in at_rate(per_second, seconds):
        tasks.append(asyncio.create_task(client.ask(request, tally, due)))
    await asyncio.gather(*tasks)
    return tally


async def saturation(client: Client, request: bytes, seconds: float = 2.0, at_a_time: int = 8) -> float:
    """Return the requests per second that a few clients get answered, each waiting for its answer."""
    tally, end = Tally(), time.perf_counter() + seconds

    async def run() -> None:
        while time.perf_counter() < end:
            await client.ask(request, tally)

    await asyncio.gather(*(run() for _ in range(at_a_time)))
    return tally.outcomes["200"] / seconds
