"""`rafm demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="Directory for rows, models and the figure.")] = "rafm-demo",
    rows: Annotated[int, typer.Option(min=1000, help="Number of rows to generate.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Random seed. Equal seeds give equal logs and models.")] = 0,
) -> None:
    """Generate a click log, train several models and compare them.

    The log has a long tail. The models are a linear one, FMs of ranks 8 and 32, and the default of `rafm train`.
    """
    from ..demo.comparison import run_demo

    run_demo(out, rows, seed)
