"""What do two threads bring, alone and with a busy neighbour?

    python benchmarks/bench_threads.py [--shapes frappe,criteo] [--ranks 8,32,128,512]

Mean seconds by the clock of an epoch of a plain FM, one and two threads taking turns: first on their own, then beside a
process that keeps one core busy. Of two cores, three that want to run leave two threads 4/3 of a core and one
thread 2/3 to 1; so a slowdown of 1.5 is the lost share, and threads that spun for one another would show far more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rafm.bench.shapes import SHAPES
from rafm.bench.trainee import Trainee

WARM, TURNS = 4, 12  # the first turns of a crew are trials of both ways
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


def take_turns(crews: list[Trainee]) -> list[float]:
    """Return the mean seconds by the clock that each took for an epoch."""
    spent = [0.0] * len(crews)
    for turn in range(WARM + TURNS):
        for number, crew in enumerate(crews):
            begin = time.perf_counter()
            crew.epoch()
            spent[number] += (time.perf_counter() - begin) * (turn >= WARM)
    return [seconds / TURNS for seconds in spent]


def main() -> None:
    """Print one line per shape and rank."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="frappe,criteo")
    parser.add_argument("--ranks", default="8,32,128,512")
    chosen = parser.parse_args()
    print(f"{'shape':>8} {'rank':>5} {'two threads':>12} {'beside a busy process':>22} {'slowdown of one, two':>21}")
    for shape in chosen.shapes.split(","):
        rows = SHAPES[shape]()
        for rank in map(int, chosen.ranks.split(",")):
            crews = [Trainee(rows, "fm", (rank,), threads) for threads in (1, 2)]
            for crew in crews:
                crew.check()
            one, two = take_turns(crews)
            with neighbour():
                slow_one, slow_two = take_turns(crews)
            line = f"{shape:>8} {rank:5} {one / two:12.2f} {slow_one / slow_two:22.2f}"
            print(f"{line} {slow_one / one:15.2f} {slow_two / two:5.2f}", flush=True)


if __name__ == "__main__":
    main()
