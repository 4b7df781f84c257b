"""Where do wide steps stop scaling? A model, with estimates for servers of 8, 16 and 64 cores.

    python -m benchmarks.scaling_model [--bandwidth 100,200,400] [--step-rows 4096,16384] [--cores 1,2,8,16,64] ...

Measured: nanoseconds per nonzero of one thread and two threads to one, by `bench_wide.py speed --rows 300000` (given as
--ns and --two), and with --measure bandwidths here, in the best of many short rounds. Counted, on rows like Criteo's:
bytes per nonzero, and how evenly the pieces of a step divide. All about more than two cores is an estimate. It assumes:

* A step takes the longer of computing and memory traffic, and then what threads must do one after another.
* Computing. Both phases take half of the time; threads take chunks of 64 rows and 64 shares of the features in order,
  so a phase takes as long as the thread with most to do. A nonzero costs what it costs one thread, and more for lines
  that another core wrote: with p threads a share (p - 1) / p of them. That cost is such that two threads are as fast as
  measured (none, if they are more than twice as fast as one). A line of another cache costs --far times as much.
* Traffic. --cores-per-cache cores share a cache of --cache MB. With one cache, memory delivers the rows, their index,
  and the records that the last steps did not use, which are also written back. With several, each reads the records of
  its chunks and shares, and the sums of the rows, as another one wrote them; all that counts as memory traffic.
* One after another. A line that threads take turns at costs --line nanoseconds a turn: the counter of tickets, those of
  two barriers, and the sums of chunks, which every thread adds up for itself.

What limits: "memory", or what costs most among "lines" of other cores, "turns", and "pieces" that do not divide evenly;
"cores" if none of these costs a tenth of the time that cores need.
"""

from __future__ import annotations

import argparse
import heapq
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from threading import Barrier
from typing import NamedTuple

import numpy as np
from numba import njit

from benchmarks.bench.shapes import Rows as Drawn
from benchmarks.bench.shapes import criteo_shaped
from rafm.jit.barrier import GATE_STRIDE, take_ticket
from rafm.kernels.tables import CHUNK_ROWS, SHARES, IndexedRows, Rows
from rafm.plan.layout import RecordLayout
from rafm.plan.ranks import RankPlan
from rafm.plan.scratch import LINE_BYTES
from rafm.plan.steps import FEATURE_COST, index_steps
from rafm.train.steps.affinity import pinned_to
from rafm.train.steps.wide_engine import joined_tables

RANKS, MEASURED_NS, MEASURED_TWO = "8,32,128", "13.4,17.5,53.3", "1.87,1.845,2.12"
TOTAL_BYTES = 24  # of loss, slope and squares of a chunk
TICKETS = 1_000_000
FREE = 0.9  # a core that gives less of its time to a task is busy otherwise
PROBE_SECONDS, PIECES = 10.0, 8  # of rounds that measure a rate; pieces of an array, one of which is read in a round
PROBED_MEGABYTES, PROBED_RECORD = 192, 48  # of the arrays that are read to measure bandwidth; floats of rank 32


@dataclass(frozen=True)
class Step:
    """What the steps of indexed rows are made of."""

    rows: IndexedRows

    @cached_property
    def size(self) -> int:
        """Rows of a step."""
        return int(self.rows.firsts[1])

    @cached_property
    def nonzeros(self) -> float:
        """Nonzeros per row."""
        return self.rows.indices.size / self.rows.labels.size

    @cached_property
    def whole(self) -> int:
        """Number of steps of full size."""
        return self.rows.labels.size // self.size

    @cached_property
    def chunks(self) -> np.ndarray:
        """Nonzeros of each chunk of each step."""
        bounds = self.rows.indptr[: self.whole * self.size + 1 : CHUNK_ROWS]
        return np.diff(bounds).reshape(self.whole, -1)

    @cached_property
    def shares(self) -> np.ndarray:
        """Cost of each share of each step, in nonzeros."""
        bounds = self.rows.shares[: self.whole]
        return np.diff(self.rows.starts[bounds] + FEATURE_COST * bounds)

    @cached_property
    def stream(self) -> float:
        """Bytes per row that are read once in an epoch: rows in the first phase, their index in the second."""
        per_nonzero = ("indices", "values", "entry_rows", "entry_values")
        found = self.nonzeros * sum(getattr(self.rows, name).itemsize for name in per_nonzero)
        found += sum(getattr(self.rows, name).itemsize for name in ("indptr", "labels", "weights", "weights"))
        return found + self.distinct(1) * (self.rows.features.itemsize + self.rows.starts.itemsize)

    def distinct(self, parts: int) -> float:
        """Return the distinct features per row, each counted once in each of so many parts of a step."""
        n, firsts = self.size // parts, self.rows.firsts[: min(self.whole, 4)]
        ends = [
            self.rows.indptr[first + n * part : first + n * part + n + 1] for first in firsts for part in range(parts)
        ]
        return float(np.mean([np.unique(self.rows.indices[end[0] : end[-1]]).size for end in ends])) / n

    def fresh(self, steps: int) -> float:
        """Return the share of a step's features that none of so many steps before it had."""
        last, found, seen = np.full(int(self.rows.features.max()) + 1, -(10**6)), 0, 0
        ends = np.append(self.rows.shares[: self.whole, 0], self.rows.shares[self.whole - 1, -1])
        for s in range(self.whole):
            features = self.rows.features[ends[s] : ends[s + 1]]
            if s >= self.whole // 2:
                found, seen = found + int((last[features] < s - steps).sum()), seen + features.size
            last[features] = s
        return found / seen


@dataclass(frozen=True)
class Server:
    """What is assumed of a machine."""

    cache: float
    cores_per_cache: int
    line: float
    far: float

    def caches(self, cores: int) -> int:
        """Return the number of caches that so many cores have."""
        return -(-cores // self.cores_per_cache)

    def others(self, cores: int) -> float:
        """Return the share of lines that another core wrote, those of another cache counted `far` times."""
        near = min(cores, self.cores_per_cache)
        return (near - 1 + self.far * (cores - near)) / cores


@dataclass(frozen=True)
class Rank:
    """A rank, with what was measured at it and its places in memory."""

    rank: int
    nanoseconds: float
    two: float

    @cached_property
    def layout(self) -> RecordLayout:
        """Records of an FM trained by AdaGrad."""
        return RecordLayout(RankPlan("fm", (self.rank,), (1, 1, 0)), with_states=True)

    @cached_property
    def record(self) -> int:
        """Bytes of a record."""
        return 4 * self.layout.strides[1]

    @cached_property
    def sums(self) -> int:
        """Bytes of the sums of a row, with its scalars."""
        return 4 * int(joined_tables(self.layout.tables()).row)

    @cached_property
    def vector(self) -> int:
        """Bytes of a vector, and of the sums that the second phase reads per nonzero."""
        return 4 * self.layout.widths[0]

    @cached_property
    def moved(self) -> float:
        """Nanoseconds per nonzero if all lines were written by another core: two threads pay half of it."""
        return max(0.0, 2 * self.nanoseconds * (2 / self.two - 1))


def indexed(drawn: Drawn, size: int) -> IndexedRows:
    """Return rows as training has them in memory, with the index of steps of this size."""
    n_rows, ones = drawn.labels.size, np.ones(drawn.labels.size, np.float32)
    rows = Rows(drawn.indptr, drawn.indptr[1:], drawn.indices.astype(np.int32), drawn.values, drawn.labels, ones)
    return index_steps(rows, np.append(np.arange(0, n_rows, size), n_rows))


# ---- The model


def near_bytes(step: Step, rank: Rank) -> float:
    """Return bytes per nonzero that come from the core's or the shared cache: a record, a row's sums, the stream."""
    return rank.record + rank.vector + (step.stream + rank.sums) / step.nonzeros


def memory_bytes(step: Step, rank: Rank, server: Server, cores: int) -> float:
    """Return bytes per nonzero of memory traffic."""
    caches, own = server.caches(cores), step.distinct(1)
    in_step = step.size * (own * rank.record + rank.sums + step.stream)
    if caches > 1:
        records, sums = (step.distinct(caches) + 2 * own) * rank.record, rank.sums + caches * rank.vector
    else:
        records, sums = 2 * own * step.fresh(int(server.cache * 1e6 / in_step)) * rank.record, 0
    if step.size * rank.sums > server.cache * 1e6:  # then they are fetched for every nonzero
        sums = rank.sums + int(step.nonzeros * rank.vector)
    return (step.stream + records + sums) / step.nonzeros


def longest(pieces: np.ndarray, cores: int) -> float:
    """Return the work of the busiest thread as a share of all, if threads take pieces in order; the mean over steps."""
    found = []
    for costs in pieces:
        busy = [0.0] * cores
        for cost in costs:
            heapq.heapreplace(busy, busy[0] + float(cost))
        found.append(max(busy) / costs.sum())
    return float(np.mean(found))


def turns(chunks: int, cores: int) -> int:
    """Return how often a thread waits for a line in a step: for the tickets of all, its own, barriers and sums."""
    if cores == 1:
        return 0
    tickets = sum(cores + -(-pieces // cores) + 1 for pieces in (chunks, SHARES))
    return tickets + 2 * cores + -(-chunks * TOTAL_BYTES // LINE_BYTES)


def estimate(step: Step, rank: Rank, server: Server, cores: int, traffic: float) -> tuple[float, str]:
    """Return nanoseconds per nonzero, of which memory traffic takes so many, and what limits them."""
    work = rank.nanoseconds + rank.moved * server.others(cores)
    phases = (longest(step.chunks, cores) + longest(step.shares, cores)) / 2
    serial = turns(step.chunks.shape[1], cores) * server.line / (step.size * step.nonzeros)
    even = rank.nanoseconds / cores
    lost = {"turns": serial, "lines": work / cores - even, "pieces": work * (phases - 1 / cores)}
    worst = max(lost, key=lambda name: lost[name])
    if traffic > work * phases:
        return traffic + serial, "memory"
    return work * phases + serial, worst if lost[worst] > even / 10 else "cores"


# ---- This machine


@njit(nogil=True, fastmath=True, error_model="numpy")
def _read(numbers, places, width):  # type: ignore[no-untyped-def]
    """Sum `width` numbers at each of some places."""
    total = np.float32(0)
    for place in places:
        for k in range(width):
            total += numbers[place + np.uint64(k)]
    return total


@njit(nogil=True)
def _draw(gate, n):  # type: ignore[no-untyped-def]
    """Take tickets."""
    for _ in range(n):
        take_ticket(gate, 0)


class Rate(NamedTuple):
    """What tasks did per nanosecond in their best round, and how much of their cores' time they had in it."""

    speed: float
    share: float

    def __str__(self) -> str:
        return f"{self.speed:.1f}" + (f" (disturbed: {self.share:.0%} of the cores)" if self.share < FREE else "")


def best_rate(tasks: Sequence[Callable[[int], object]], amount: float) -> Rate:
    """Return the speed of simultaneous tasks of this amount each, in the best of the rounds that were least disturbed.

    A round is shorter than what the system usually gives a thread before it lets another program have the core, so
    some rounds are undisturbed even if cores are busy. Rounds in which tasks ran one after another do not count.
    """
    together, cores = Barrier(len(tasks)), sorted(os.sched_getaffinity(0))

    def timed(number: int, place: int) -> tuple[float, float, float]:
        with pinned_to({cores[place % len(cores)]}):
            together.wait()
            begun, cpu = time.perf_counter(), time.thread_time()
            tasks[place](number)
            return begun, time.perf_counter(), time.thread_time() - cpu

    found, until = Rate(0.0, 0.0), time.monotonic() + PROBE_SECONDS
    with ThreadPoolExecutor(len(tasks)) as pool:
        for number in count():
            each = [*pool.map(partial(timed, number), range(len(tasks)))]
            elapsed = max(end for _, end, _ in each) - min(begun for begun, _, _ in each)
            share = sum(cpu for _, _, cpu in each) / len(tasks) / elapsed
            now = Rate(len(tasks) * amount / elapsed / 1e9, share)
            found = max(found, now, key=lambda rate: (min(rate.share, FREE), rate.speed))
            if time.monotonic() > until:
                return found
    raise AssertionError


def measure() -> None:
    """Print the bandwidth of one and two cores, and what a line costs that they take turns at."""
    array = np.ones(PROBED_MEGABYTES * 250_000 // PROBED_RECORD * PROBED_RECORD, np.float32)
    ascending = np.arange(0, array.size, PROBED_RECORD, dtype=np.uint64)  # unsigned, or the sum is not vectorised
    _read(array, ascending[:1], PROBED_RECORD)
    draw, piece = np.random.default_rng(0), ascending.size // PIECES
    for name, orders in {
        "streaming": [ascending, np.roll(ascending, ascending.size // 2)],
        "records of 192 bytes in random order": [draw.permutation(ascending) for _ in range(2)],
    }.items():

        def read(order: np.ndarray, number: int) -> None:
            first = number % PIECES * piece  # another piece in every round, so that none is in a cache
            _read(array, order[first : first + piece], PROBED_RECORD)

        tasks = [partial(read, order) for order in orders]
        one, two = (best_rate(tasks[:n], array.nbytes / PIECES) for n in (1, 2))
        print(f"{name}: {one} GB/s of one core, {two} of two")
    gate = np.zeros(GATE_STRIDE, np.int64)
    _draw(gate, 1)

    def take(number: int) -> None:
        _draw(gate, TICKETS)

    one, two = (best_rate([take] * n, TICKETS) for n in (1, 2))
    shares = f" ({two.share:.0%} of the cores)" if two.share < FREE else ""
    print(f"a ticket: {1 / one.speed:.1f} ns of one core alone, {1 / two.speed:.1f} of two that take turns{shares}")


# ---- Tables


def print_bytes(step: Step, ranks: list[Rank], server: Server, cores: list[int]) -> None:
    """Print bytes per nonzero, one line per rank."""
    rows = f"{step.nonzeros:.0f} nonzeros, {step.distinct(1):.1f} distinct features"
    uneven = step.shares.max(axis=1).mean() / step.shares.mean()
    print(f"\nsteps of {step.size} rows: {rows} per row, {step.chunks.shape[1]} chunks, ", end="")
    print(f"{SHARES} shares (the largest {uneven:.2f} times the mean)")
    print(" rank  bytes per nonzero from caches, from memory on " + ", ".join(map(str, cores)) + " cores")
    for rank in ranks:
        found = [f"{memory_bytes(step, rank, server, n):6.0f}" for n in cores]
        print(f"{rank.rank:5} {near_bytes(step, rank):6.0f}  " + " ".join(found))


def print_speeds(step: Step, ranks: list[Rank], server: Server, cores: list[int], bandwidths: list[float]) -> None:
    """Print speed to that of one thread, one line per rank and number of cores."""
    at = ", ".join(f"{bandwidth:g}" for bandwidth in bandwidths)
    print(f" rank cores  speed to one thread, and what limits it, at {at} GB/s")
    for rank in ranks:
        for n in cores:
            moved = memory_bytes(step, rank, server, n)
            found = [estimate(step, rank, server, n, moved / b) for b in bandwidths]
            shown = " ".join(f"{rank.nanoseconds / time:6.1f} {binds:6}" for time, binds in found)
            known = {1: 1.0, 2: rank.two}.get(n)
            kind = f"measured {known:.2f}, by the model" if known else "estimate"
            print(f"{rank.rank:5} {n:5}  {kind:29} {shown}")


def numbers(text: str) -> list[float]:
    """Return the numbers of a list."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    texts = {"ranks": RANKS, "ns": MEASURED_NS, "two": MEASURED_TWO, "cores": "1,2,8,16,64"}
    for name, usual in (texts | {"bandwidth": "100,200,400", "step-rows": "4096,16384"}).items():
        parser.add_argument(f"--{name}", default=usual)
    for name, size in {"cache": 32.0, "line": 100.0, "far": 3.0}.items():
        parser.add_argument(f"--{name}", type=float, default=size)
    parser.add_argument("--cores-per-cache", type=int, default=8)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--measure", action="store_true", help="measure bandwidths of this machine too")
    given = parser.parse_args()
    if given.measure:
        measure()
    ranks = [Rank(int(r), ns, two) for r, ns, two in zip(numbers(given.ranks), numbers(given.ns), numbers(given.two))]
    server = Server(given.cache, given.cores_per_cache, given.line, given.far)
    cores, drawn = [int(n) for n in numbers(given.cores)], criteo_shaped(given.rows)
    for size in numbers(given.step_rows):
        step = Step(indexed(drawn, int(size)))
        print_bytes(step, ranks, server, cores)
        print_speeds(step, ranks, server, cores, numbers(given.bandwidth))


if __name__ == "__main__":
    main()
