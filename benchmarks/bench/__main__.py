"""`python -m benchmarks.bench`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rafm.cli.app import EPILOG, run
from rafm.cli.arguments import Json, print_json
from rafm.cli.outputs import Command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(cls=Command, epilog=EPILOG)
def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="Benchmarks to run: race speed roofline parse growth memory (default: all)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few settings; takes minutes.")] = False,
    peers: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Libraries to compare with, e.g. xlearn,vw (default: all installed)."),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for bench.json, bench.txt and figures.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="Multiply the number of rows and bytes.")] = 1.0,
    json: Json = False,
) -> None:
    """Benchmark rafm against other installed libraries.

    Measures training, scoring, parsing and memory on generated rows.

    The headline is the time from a text file to a validation loss. Peers: xlearn, vw, myfm, lightgbm, sklearn, river,
    torch as Python packages; libFM and ffm-train as programs. A peer that crashes or hangs is reported and skipped.
    """
    from pathlib import Path

    from .budget import FULL, QUICK
    from .command import choose_parts, choose_peers, run_bench, write_results
    from .report import report_lines

    named = None if peers is None else [name for name in peers.split(",") if name]  # --peers '' means none
    chosen = choose_parts(parts or []), choose_peers(named)
    budget = (QUICK if quick else FULL).scaled(scale)
    result = run_bench(*chosen, budget, lambda text: print(text, file=sys.stderr, flush=True))
    stream = sys.stderr if json else sys.stdout  # with --json, stdout holds JSON only
    print("\n".join(report_lines(result)), file=stream)
    if out is not None:
        written = ", ".join(map(str, write_results(result, Path(out))))
        print(f"written: {written}", file=stream)
    if json:
        print_json(result)


def main() -> None:
    """Run the command line."""
    run(app, "python -m benchmarks.bench")


if __name__ == "__main__":
    main()
