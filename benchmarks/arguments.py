"""What benchmarks of rows and ranks are asked for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rafm.lab.bench.peers import installed
from rafm.lab.bench.shapes import SHAPES, Rows


def asked_for(description: str) -> Iterator[tuple[Rows, list[str], list[int]]]:
    """Yield the rows of every shape of the command line, with its peers and ranks."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--peers", default=",".join(installed()))
    parser.add_argument("--ranks", default="8,32,128,512")
    options = parser.parse_args()
    for shape in options.shapes.split(","):
        rows = SHAPES[shape]()
        print(f"\n{rows}")
        yield rows, [peer for peer in options.peers.split(",") if peer], [*map(int, options.ranks.split(","))]
