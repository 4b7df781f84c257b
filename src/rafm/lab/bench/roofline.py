"""What does the machine allow, and which share of it does training reach?

Per nonzero and factor the kernels of kernels.py do this with AdaGrad (one access is a float32 read or written):

    step                        where             flops                        accesses
    add v x to a sum            add_scaled        v x, add, square, add: 4     read v, read and write the sum
    tail: norm of the gradient  combined_norm     2 multiply, add, square,     read v, read the sum
                                                  add: 5
    tail: step                  combine           2 multiply, add: 3           read v, read the sum, write v
    head: add to its gradient   combine           2 multiply, add: 3           read the sum, read and write the gradient

and per row and factor: the groups' sums are cleared (2 writes) and joined (2 reads, 1 write; add, square, add: 3
flops).
The sums stay in the first cache. A tail's vector comes from where the records fit, once, and goes back: 8 bytes; a
head's stays near. So an update cannot take less than its flops at the speed of a loop of multiply-adds, nor less than
its bytes at the bandwidth of the second cache or, if the records are larger than that, of the memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .clock import least_seconds

FORWARD_FLOPS, TAIL_FLOPS, HEAD_FLOPS, ROW_FLOPS = 4, 8, 3, 3
FORWARD_ACCESSES, TAIL_ACCESSES, HEAD_ACCESSES, ROW_ACCESSES = 3, 5, 3, 5
VECTOR_BYTES = 8  # a factor is fetched once and goes back once
DEGREE = 32  # multiply-adds per number in the loop of flops
FALLBACK_CACHE = 1 << 20


class Work(NamedTuple):
    """What one factor update does: flops, bytes by all accesses, bytes between the records and the first cache."""

    flops: float
    accessed: float
    moved: float


class Limits(NamedTuple):
    """What one core of this machine can do per second, and the size of its second cache."""

    flops: float
    cache_bytes: float
    memory_bytes: float
    cache_size: int


def work_per_factor(per_row: float, head_share: float) -> Work:
    """Return the work of an update on rows of so many nonzeros, of which a share are heads.

    >>> work_per_factor(per_row=10, head_share=0.0)
    Work(flops=12.3, accessed=34.0, moved=8.0)
    """
    flops = FORWARD_FLOPS + head_share * HEAD_FLOPS + (1 - head_share) * TAIL_FLOPS + ROW_FLOPS / per_row
    accesses = FORWARD_ACCESSES + head_share * HEAD_ACCESSES + (1 - head_share) * TAIL_ACCESSES + ROW_ACCESSES / per_row
    return Work(flops, 4 * accesses, (1 - head_share) * VECTOR_BYTES)


def bound(work: Work, limits: Limits, record_bytes: int) -> tuple[float, str]:
    """Return the least seconds of an update, and what binds.

    >>> limits = Limits(flops=60e9, cache_bytes=80e9, memory_bytes=10e9, cache_size=1 << 20)
    >>> bound(Work(12, 34, 8), limits, 1 << 19), bound(Work(12, 34, 8), limits, 1 << 30)
    ((2e-10, 'arithmetic'), (8e-10, 'memory'))
    """
    place, rate = (
        ("cache", limits.cache_bytes) if record_bytes <= limits.cache_size else ("memory", limits.memory_bytes)
    )
    return max((work.flops / limits.flops, "arithmetic"), (work.moved / rate, place))


@njit(fastmath=True, error_model="numpy")
def _total(numbers, repeats):  # type: ignore[no-untyped-def]
    """Add up numbers, several times."""
    total = np.float32(0)
    for again in range(repeats):
        part = np.float32(again)
        for i in range(numbers.size):
            part += numbers[i]
        total += part
    return total


@njit(fastmath=True, error_model="numpy")
def _polynomials(numbers, repeats):  # type: ignore[no-untyped-def]
    """Replace numbers by a polynomial of theirs, several times."""
    c = np.float32(0.1)
    for _ in range(repeats):
        for i in range(numbers.size):
            y = numbers[i]
            for _ in range(DEGREE):
                y = y * y + c  # what is linear would be folded into one step
            numbers[i] = y


def cache_size() -> int:
    """Return the size of the second cache of a core as the system tells it, or a megabyte."""
    path = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    text = path.read_text().strip() if path.exists() else ""
    return int(text[:-1]) << 10 if text.endswith("K") else FALLBACK_CACHE


def measure_limits(stream_megabytes: float, threads: int = 1) -> dict[str, Any]:
    """Measure one core: multiply-adds on numbers in the first cache, reading from the second, and from memory."""
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


def place(limits: Limits, speed: dict[str, Any]) -> list[dict[str, Any]]:
    """Set rafm's epochs on one thread against the limits."""
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
