"""Parse the command lines of benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.bench.contestants import is_installed
from benchmarks.bench.peers import PEERS
from benchmarks.bench.shapes import SHAPES, Rows


def asked_for(description: str) -> Iterator[tuple[Rows, list[str], list[int]]]:
    """Yield the rows of every shape of the command line, with its peers and ranks."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--peers", default=",".join(filter(is_installed, PEERS)))
    parser.add_argument("--ranks", default="8,32,128,512")
    options = parser.parse_args()
    for shape in options.shapes.split(","):
        rows = SHAPES[shape]()
        print(f"\n{rows}")
        yield rows, [peer for peer in options.peers.split(",") if peer], [*map(int, options.ranks.split(","))]


def numbers_asked_for(description: str, **defaults: float) -> list[float]:
    """Return the numbers of the command line, in order; those that are missing by default, all of its type."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, default in defaults.items():
        parser.add_argument(name, nargs="?", type=type(default), default=default, help=f"default: {default}")
    return [*vars(parser.parse_args()).values()]
