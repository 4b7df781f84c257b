"""What are the limits of the machine, and which share of them does training reach?

Per nonzero and factor, the kernels do the following with AdaGrad (one access is a float32 read or written):

    step                        where             flops                        accesses
    add v x to a sum            add_scaled        v x, add, square, add: 4     read v, read and write the sum
    tail: norm of the gradient  combined_norm     2 multiply, add, square,     read v, read the sum
                                                  add: 5
    tail: step                  combine           2 multiply, add: 3           read v, read the sum, write v
    head: add to its gradient   combine           2 multiply, add: 3           read the sum, read and write the gradient

and per row and factor, the groups' sums are cleared (2 writes) and joined (2 reads, 1 write; add, square, add: 3
flops). Frequent features are heads, infrequent ones tails; see kernels/tables.py.
The sums stay in the L1 cache. The vector of a tail is fetched once from the L2 cache or memory, wherever the records
fit, and written back: 8 bytes; that of a head stays in the cache. So an update takes at least its flops at the speed of
a loop of multiply-adds, and at least its bytes at the bandwidth of the L2 cache or, if the records are larger, of the
memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .clock import least_seconds

FORWARD_FLOPS, TAIL_FLOPS, HEAD_FLOPS, ROW_FLOPS = 4, 8, 3, 3
FORWARD_ACCESSES, TAIL_ACCESSES, HEAD_ACCESSES, ROW_ACCESSES = 3, 5, 3, 5
VECTOR_BYTES = 8  # a factor is fetched and written back once
DEGREE = 32  # multiply-adds per element in the loop that measures flops
FALLBACK_CACHE = 1 << 20


class Work(NamedTuple):
    """Work of one factor update: flops, bytes of all accesses, bytes moved between the records and the L1 cache."""

    flops: float
    accessed: float
    moved: float


class Limits(NamedTuple):
    """What one core of this machine can do per second, and the size of its L2 cache."""

    flops: float
    cache_bytes: float
    memory_bytes: float
    cache_size: int


def work_per_factor(per_row: float, head_share: float) -> Work:
    """Return the work of an update for rows with this many nonzeros, of which head_share are heads.

    >>> work_per_factor(per_row=10, head_share=0.0)
    Work(flops=12.3, accessed=34.0, moved=8.0)
    """
    flops = FORWARD_FLOPS + head_share * HEAD_FLOPS + (1 - head_share) * TAIL_FLOPS + ROW_FLOPS / per_row
    accesses = FORWARD_ACCESSES + head_share * HEAD_ACCESSES + (1 - head_share) * TAIL_ACCESSES + ROW_ACCESSES / per_row
    return Work(flops, 4 * accesses, (1 - head_share) * VECTOR_BYTES)


def bound(work: Work, limits: Limits, record_bytes: int) -> tuple[float, str]:
    """Return the minimum seconds of an update, and the limiting resource.

    >>> limits = Limits(flops=60e9, cache_bytes=80e9, memory_bytes=10e9, cache_size=1 << 20)
    >>> bound(Work(12, 34, 8), limits, 1 << 19), bound(Work(12, 34, 8), limits, 1 << 30)
    ((2e-10, 'arithmetic'), (8e-10, 'memory'))
    """
    store, rate = (
        ("cache", limits.cache_bytes) if record_bytes <= limits.cache_size else ("memory", limits.memory_bytes)
    )
    return max((work.flops / limits.flops, "arithmetic"), (work.moved / rate, store))


@njit(fastmath=True, error_model="numpy")
def _total(numbers, repeats):  # type: ignore[no-untyped-def]
    """Sum an array repeatedly."""
    total = np.float32(0)
    for again in range(repeats):
        part = np.float32(again)  # depends on the iteration, or the compiler would hoist the sum out of the loop
        for i in range(numbers.size):
            part += numbers[i]
        total += part
    return total


@njit(fastmath=True, error_model="numpy")
def _polynomials(numbers, repeats):  # type: ignore[no-untyped-def]
    """Evaluate a polynomial of each element repeatedly."""
    c = np.float32(0.1)
    for _ in range(repeats):
        for i in range(numbers.size):
            y = numbers[i]
            for _ in range(DEGREE):
                y = y * y + c  # fast-math would fold a linear recurrence into one step
            numbers[i] = y


def cache_size() -> int:
    """Return the size of a core's L2 cache as reported by the system, or 1 MB if unknown."""
    path = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    text = path.read_text().strip() if path.exists() else ""
    return int(text[:-1]) << 10 if text.endswith("K") else FALLBACK_CACHE


def measure_limits(stream_megabytes: float, threads: int = 1) -> dict[str, Any]:
    """Measure one core: multiply-adds in the L1 cache, and bandwidth of the L2 cache and of memory."""
    near, near_repeats = np.ones(1024, np.float32), 2000
    middle = np.ones(cache_size() // 8, np.float32)  # half of the cache
    middle_repeats = max(1, (1 << 28) // middle.nbytes)
    far = np.ones(int(stream_megabytes * 1e6 / 4), np.float32)
    for warm in (_total, _polynomials):
        warm(near, 1)
    flops = least_seconds(lambda: _polynomials(near, near_repeats), 7).elapsed
    cached = least_seconds(lambda: _total(middle, middle_repeats), 5).elapsed
    streamed = least_seconds(lambda: _total(far, 1), 5).elapsed
    return Limits(
        flops=2.0 * DEGREE * near.size * near_repeats / flops,
        cache_bytes=middle.nbytes * middle_repeats / cached,
        memory_bytes=far.nbytes / streamed,
        cache_size=cache_size(),
    )._asdict()


def compare_with_limits(limits: Limits, speed: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare rafm's single-threaded epochs with the limits."""
    lines = []
    for line in speed["lines"]:
        if line["who"] != "rafm" or line["threads"] != 1 or "failed" in line:
            continue
        shape = speed["shapes"][line["shape"]]
        work = work_per_factor(shape["nonzeros"] / shape["rows"], line["head_share"])
        least, binds = bound(work, limits, line["record_bytes"])
        taken = line["cpu"] / (shape["nonzeros"] * line["rank"])
        found = {"shape": line["shape"], "rank": line["rank"], **work._asdict(), "seconds": taken}
        lines.append({**found, "least_seconds": least, "binds": binds, "share": least / taken})
    return lines
