"""`python -m experiments.paper`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rafm.cli.app import EPILOG, run
from rafm.cli.outputs import Command

PROGRAM = "python -m experiments.paper"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(cls=Command, epilog=EPILOG)
def paper(
    artefacts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Any of frontier sampling figure1 table1 figure3 table2 tables34 update-rules figure4 (default: all)."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Rough results in five minutes instead of two hours.")] = False,
    authors_protocol: Annotated[
        bool,
        typer.Option(
            "--authors-protocol",
            help="Like the authors' scripts: count features in test rows too, and clip predictions.",
        ),
    ] = False,
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory for results and figures.")] = "rafm-paper",
    page: Annotated[str | None, typer.Option(metavar="FILE", help="Page to write (default: DIR/results.md).")] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Directory of data sets (default: $RAFM_DATA, else ./rafm-data)."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of training processes.")] = 2,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help='figure4: train on a Ray cluster ("local" starts one, "auto" or HOST:PORT joins one), and compare '
            'with one process without Ray; "none" trains that one alone.',
        ),
    ] = None,
    stream_rows: Annotated[
        int | None, typer.Option(min=1000, help="Rows per day in figure4; full scale needs millions.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing; write the page from the results in DIR.")
    ] = False,
) -> None:
    """Reproduce the tables and figures of the paper.

    Writes a page that compares them with the paper's. The command can be interrupted and rerun.
    """
    from dataclasses import replace
    from pathlib import Path

    from ..datasets import data_folder
    from .budget import FULL, QUICK
    from .command import reproduce

    folder = Path(out)
    target = Path(page) if page else folder / "results.md"
    budget = QUICK if quick else FULL
    if stream_rows is not None:
        budget = replace(budget, stream_rows_per_day=stream_rows)
    switches = ((" --quick", quick), (" --authors-protocol", authors_protocol), (" --stored", stored))
    values = ((" --stream-rows", stream_rows), (" --ray", ray))
    given = [name for name, is_on in switches if is_on] + [f"{name} {value}" for name, value in values if value]
    command = f"{PROGRAM}{''.join(given)}"  # the page states how to reproduce it
    reproduce(
        artefacts or [],
        budget,
        data_folder(data),
        folder,
        target,
        workers,
        authors_protocol,
        command,
        lambda text: print(text, file=sys.stderr, flush=True),
        stored,
        ray,
    )
    print(f"written: {target}")


def main() -> None:
    """Run the command line."""
    run(app, PROGRAM)


if __name__ == "__main__":
    main()
