"""What do two threads bring, alone and with a busy neighbour?

    python -m benchmarks.bench_threads [--shapes frappe,criteo] [--ranks 8,32,128,512]

Seconds by the clock of epochs of a plain FM, one and two threads taking turns: first on their own (the best of each,
and the means), then beside a process that keeps one core busy (means). Of two cores, three that want to run leave two
threads 4/3 and one thread 2/3 to 1; so a slowdown of 1.5 is the lost share; threads that wait badly show far more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.arguments import asked_for
from benchmarks.bench.shapes import Rows
from benchmarks.bench.trainee import Trainee

WARM, TURNS = 4, 12  # in the first turns beside a neighbour a crew notices it
BUSY = "while True: pass"


@contextmanager
def neighbour() -> Iterator[None]:
    """Keep one core busy."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def take_turns(crews: list[Trainee]) -> np.ndarray:
    """Return the seconds by the clock of each crew's epochs."""
    spent = np.empty((len(crews), WARM + TURNS))
    for turn in range(WARM + TURNS):
        for number, crew in enumerate(crews):
            begin = time.perf_counter()
            crew.epoch()
            spent[number, turn] = time.perf_counter() - begin
    return spent[:, WARM:]


def compare(rows: Rows, rank: int) -> str:
    """Return the five ratios."""
    crews = [Trainee(rows, "fm", (rank,), threads) for threads in (1, 2)]
    for crew in crews:
        crew.check()
        crew.settle()
    calm = take_turns(crews)
    with neighbour():
        busy = take_turns(crews).mean(axis=1)
    best, mean = calm.min(axis=1), calm.mean(axis=1)
    ratios = (best[0] / best[1], mean[0] / mean[1], busy[0] / busy[1], *(busy / mean))
    return " ".join(f"{ratio:6.2f}" for ratio in ratios)


def main() -> None:
    """Print one line per shape and rank."""
    print("one / two threads: best, mean, beside a busy process; slowdown beside it: of one, of two")
    for rows, _, ranks in asked_for(__doc__):
        for rank in ranks:
            print(f"{rank:5} " + compare(rows, rank), flush=True)


if __name__ == "__main__":
    main()
