"""`rafm bench`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .arguments import Json, print_json


def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="race speed roofline parse growth memory; all unless given."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few settings: minutes, for a look.")] = False,
    peers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Such as xlearn,vw; all installed unless given, '' for none.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where bench.json, bench.txt and pictures go.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="Times as many rows and bytes of everything.")] = 1.0,
    json: Json = False,
) -> None:
    """Measure training, scoring, parsing and memory on generated rows, beside every other library that is installed.

    The headline is the time from a text file to a validation loss. Peers: xlearn, vw, myfm, lightgbm, sklearn, river,
    torch as Python packages; libFM and ffm-train as programs. One that crashes or hangs is reported and passed over.
    """
    from pathlib import Path

    from ..lab.bench.budget import FULL, QUICK
    from ..lab.bench.command import choose_parts, choose_peers, run_bench, write_results
    from ..lab.bench.report import report_lines

    named = None if peers is None else [name for name in peers.split(",") if name]
    chosen = choose_parts(parts or []), choose_peers(named)
    budget = (QUICK if quick else FULL).scaled(scale)
    result = run_bench(*chosen, budget, lambda text: print(text, file=sys.stderr, flush=True))
    stream = sys.stderr if json else sys.stdout
    print("\n".join(report_lines(result)), file=stream)
    if out is not None:
        written = ", ".join(map(str, write_results(result, Path(out))))
        print(f"written: {written}", file=stream)
    if json:
        print_json(result)
