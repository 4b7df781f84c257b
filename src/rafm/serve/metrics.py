"""Counters that all workers share, and their Prometheus text.

They lie in one piece of memory, in which each worker writes to a place of its own; whoever is asked adds them up. What
a killed worker has counted stays, since its successor goes on at the same place.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator

ROUTES = ("score", "recommend", "infer", "other")
CODES = (200, 400, 401, 404, 405, 408, 413, 422, 500, 503)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
SINGLE = ("heartbeat", "ready", "in_flight", "rows", "reloads", "failed_reloads", "starts")
DIGESTS = ("sha256", "contract")  # of the served file; of what its requests and answers have
SHA_CELLS = 8  # 64 digits in cells of 8 bytes
CELL_BYTES = 8

NAMES = [
    *SINGLE,
    *(f"requests {route} {code}" for route in ROUTES for code in CODES),
    *(f"bucket {route} {place}" for route in ROUTES for place in range(len(BOUNDS) + 1)),
    *(f"seconds {route}" for route in ROUTES),
]
PLACES = {name: place for place, name in enumerate(NAMES)}
WORKER_CELLS = len(NAMES) + len(DIGESTS) * SHA_CELLS


class SharedMetrics:
    """The counters of all workers; `worker` is the one whose counters change."""

    def __init__(self, file_number: int, n_workers: int, worker: int = 0):
        self.file_number, self.n_workers, self.worker = file_number, n_workers, worker
        self._bytes = mmap.mmap(file_number, self.n_bytes(n_workers))
        # 8-byte cells are written at once, so that readers never see half a number
        self._cells = memoryview(self._bytes).cast("d")

    @staticmethod
    def n_bytes(n_workers: int) -> int:
        """Return the size of the shared memory."""
        return n_workers * WORKER_CELLS * CELL_BYTES

    @classmethod
    def create(cls, n_workers: int) -> SharedMetrics:
        """Return new counters in a file without a name, which the workers inherit."""
        with tempfile.TemporaryFile() as file:
            file.truncate(cls.n_bytes(n_workers))
            return cls(os.dup(file.fileno()), n_workers)

    def _place(self, name: str, worker: int | None = None) -> int:
        return (self.worker if worker is None else worker) * WORKER_CELLS + PLACES[name]

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a counter of this worker."""
        self._cells[self._place(name)] += amount

    def set(self, name: str, value: float, worker: int | None = None) -> None:
        """Set a value of a worker (default: this one)."""
        self._cells[self._place(name, worker)] = value

    def get(self, name: str, worker: int) -> float:
        """Return a value of a worker."""
        return self._cells[self._place(name, worker)]

    def total(self, name: str) -> float:
        """Return the sum over the workers."""
        return sum(self.get(name, worker) for worker in range(self.n_workers))

    def beat(self) -> None:
        """Note that this worker is alive."""
        self.set("heartbeat", time.monotonic())

    def set_digest(self, name: str, digits: str) -> None:
        """Note one of DIGESTS of the model that this worker serves."""
        start = self._start(name, self.worker)
        self._bytes[start : start + len(digits)] = digits.encode()

    def digest(self, name: str, worker: int) -> str:
        """Return a digest of the model that a worker serves, or has served before it died; "" if none yet."""
        start = self._start(name, worker)
        return self._bytes[start : start + SHA_CELLS * CELL_BYTES].strip(b"\0").decode()

    def _start(self, name: str, worker: int) -> int:
        return (worker * WORKER_CELLS + len(NAMES) + DIGESTS.index(name) * SHA_CELLS) * CELL_BYTES

    def count_request(self, route: str, code: int, seconds: float) -> None:
        """Count an answered request."""
        route = route if route in ROUTES else "other"  # labels must be few
        self.add(f"requests {route} {code if code in CODES else 500}")
        self.add(f"bucket {route} {bisect_left(BOUNDS, seconds)}")
        self.add(f"seconds {route}", seconds)

    def text(self) -> str:
        """Return all counters in Prometheus' text format."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _heading("rafm_requests_total", "counter", "Requests by route and status.")
        for route in ROUTES:
            for code in CODES:
                if count := self.total(f"requests {route} {code}"):
                    yield f'rafm_requests_total{{route="{route}",code="{code}"}} {count:.17g}'
        yield from _heading("rafm_request_seconds", "histogram", "Time from the head of a request to its answer.")
        for route in ROUTES:
            yield from self._histogram(route)
        yield from self._singles()
        yield from _heading("rafm_model_info", "gauge", "SHA-256 of the model file that each worker serves.")
        for worker in range(self.n_workers):
            sha256 = self.digest("sha256", worker)
            yield f'rafm_model_info{{worker="{worker}",sha256="{sha256}"}} 1'

    def _histogram(self, route: str) -> Iterator[str]:
        count = 0.0
        for place, bound in enumerate((*map(str, BOUNDS), "+Inf")):
            count += self.total(f"bucket {route} {place}")
            yield f'rafm_request_seconds_bucket{{route="{route}",le="{bound}"}} {count:.17g}'
        yield f'rafm_request_seconds_sum{{route="{route}"}} {self.total(f"seconds {route}"):.17g}'
        yield f'rafm_request_seconds_count{{route="{route}"}} {count:.17g}'

    def _singles(self) -> Iterator[str]:
        for name, kind, cell, text in (
            ("rafm_rows_total", "counter", "rows", "Rows scored."),
            ("rafm_model_reloads_total", "counter", "reloads", "Replaced model files that were loaded."),
            (
                "rafm_model_reload_failures_total",
                "counter",
                "failed_reloads",
                "Replaced model files that were refused.",
            ),
            ("rafm_worker_starts_total", "counter", "starts", "Worker processes started."),
            ("rafm_requests_in_flight", "gauge", "in_flight", "Requests being answered."),
            ("rafm_workers_ready", "gauge", "ready", "Workers that accept requests."),
        ):
            yield from _heading(name, kind, text)
            yield f"{name} {self.total(cell):.17g}"


def _heading(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
