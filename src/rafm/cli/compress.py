"""`rafm compress`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.terminal import counted
from .arguments import Duplicates, Format, Json, ModelPath, print_json, read_options
from .outputs import check_output

if TYPE_CHECKING:
    from ..model.file import Saved


def compress(
    model: ModelPath,
    out: Annotated[str, typer.Option(metavar="SMALL", help="Model file to write.")],
    max_parameters: Annotated[int | None, typer.Option(help="Maximum number of parameters.")] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Maximum size of the file.")] = None,
    level: Annotated[
        int | None, typer.Option(help="RaFM: keep the levels up to this one (B_{1,p} of the paper).")
    ] = None,
    bits: Annotated[
        int | None, typer.Option(metavar="16|8|6|4", help="Bits per coordinate of a vector, instead of 32.")
    ] = None,
    valid: Annotated[str | None, typer.Option(metavar="DATA", help="Labelled rows to evaluate both models on.")] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Make a model smaller: shorter vectors, fewer bits or levels.

    Vectors are rotated to their principal axes, which changes no score, and then cut. In an FM or DiFacto, each vector
    gets its own length: frequent features with large coordinates keep most. In a RaFM, each level is cut to a lower
    rank. `rafm train --ranks auto` does the same and fine-tunes the result, which is better.

    --bits rounds the coordinates of each vector to integers with one scale per vector, after any cut. The model is
    scored from the packed vectors. 8 bits lose nothing measurable, 4 bits little.
    """
    from ..compress.budget import compress as compress_saved
    from ..model.file import load, save

    check_output(out)
    saved = load(model)
    small = compress_saved(saved, max_parameters, max_bytes, level, bits)
    found = {name: _described(one, valid, format, duplicates) for name, one in (("before", saved), ("after", small))}
    found["after"]["bytes"] = save(out, small)
    if json:
        print_json({"out": out, **found})
    else:
        _print_both(found)
        print(f"saved {out}: {counted(small.model.n_parameters, 'parameter')}, {found['after']['bytes']} bytes")


def _described(saved: Saved, valid: str | None, format: str, duplicates: str) -> dict[str, Any]:
    """Return size and metrics of a model."""
    from ..model.file import file_bytes
    from ..predictor import Predictor

    found: dict[str, Any] = {"parameters": saved.model.n_parameters, "bytes": file_bytes(saved)}
    if valid is not None:
        metrics = Predictor(saved).evaluate(valid, read_options("binary", format, duplicates))
        found |= {name: metrics[name] for name in saved.model.loss.metrics}
    return found


def _print_both(found: dict[str, dict[str, Any]]) -> None:
    """Print a table with one line for each model."""
    names = list(found["before"])
    print("       " + "".join(f" {name:>18}" for name in names))
    for which, values in found.items():
        shown = (f"{value:.6f}" if isinstance(value, float) else str(value) for value in values.values())
        print(f"{which:7}" + "".join(f" {text:>18}" for text in shown))
