"""`rafm paper`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def paper(
    artefacts: Annotated[
        list[str] | None,
        typer.Argument(help="figure1 table1 figure3 table2 tables34 frontier update-rules figure4; all unless given."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Five minutes instead of two hours; for a look, not a verdict.")
    ] = False,
    authors_protocol: Annotated[
        bool, typer.Option("--authors-protocol", help="Also count over test rows and clip, as the authors' scripts do.")
    ] = False,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where results and figures go.")] = "rafm-paper",
    page: Annotated[str | None, typer.Option(metavar="FILE", help="The page; FOLDER/results.md unless given.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of data sets, instead of RAFM_DATA or rafm-data.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that train at a time.")] = 2,
    stream_rows: Annotated[
        int | None, typer.Option(min=1000, help="Rows per day of the stream of figure4; millions for full scale.")
    ] = None,
) -> None:
    """Run the paper's tables and figures again, and write a page that compares. A second call continues the first."""
    from dataclasses import replace
    from pathlib import Path

    from ..datasets import data_folder
    from ..lab.paper.budget import FULL, QUICK
    from ..lab.paper.command import reproduce

    folder = Path(out)
    target = Path(page) if page else folder / "results.md"
    words = [" --quick" * quick, " --authors-protocol" * authors_protocol]
    budget = QUICK if quick else FULL
    if stream_rows is not None:
        budget = replace(budget, stream_rows_per_day=stream_rows)
        words.append(f" --stream-rows {stream_rows}")
    command = "rafm paper" + "".join(words)
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
    )
    print(f"written: {target}")
