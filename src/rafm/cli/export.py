"""`rafm export`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Json, ModelPath, print_json
from .outputs import check_output


def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(metavar="onnx|c|python", help="Format to write.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="File to write.")],
    json: Json = False,
) -> None:
    """Write a model as C, Python or ONNX, for use without rafm.

    All of them predict like `rafm predict`, up to rounding. The C99 file is a library and a program that reads libsvm
    lines. The Python file needs only the standard library and takes rows of ids or of raw values. The ONNX graph takes
    ids and values, or raw columns if ONNX can encode all of them; writing it needs the extra `export`.
    """
    from ..export.export import export as export_saved
    from ..export.export import note_of
    from ..model.file import load

    check_output(out)
    saved = load(model)
    n_bytes, note = export_saved(saved, to, out), note_of(saved, to)
    if json:
        return print_json({"out": out, "to": to, "bytes": n_bytes, **({"note": note} if note else {})})
    if note is not None:
        print(f"note: {note}")
    print(f"saved {out}: {to}, {n_bytes} bytes")
