"""`rafm export`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Json, ModelPath, check_output, print_json


def export(
    model: ModelPath,
    to: Annotated[str, typer.Option(metavar="onnx|c|python", help="What to write.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="File to write.")],
    json: Json = False,
) -> None:
    """Write a model for use without rafm: as an ONNX graph, a C99 file or a Python file.

    All of them predict as `rafm predict` does, up to rounding. The C file is a library and a program that reads libsvm
    lines. The Python file needs the standard library alone and takes rows of ids or of raw values. The ONNX graph takes
    ids and values, or raw columns if ONNX can encode all of them; it needs the package onnx, of the extra `export`.
    """
    from ..errors import ConfigError
    from ..export.export import export as export_saved
    from ..export.export import note_of
    from ..model.file import load

    check_output(out, model)
    saved = load(model)
    try:
        n_bytes = export_saved(saved, to, out)
    except ConfigError as error:
        raise ConfigError(str(error).replace("to must", "--to must"), key=error.key) from None
    note = note_of(saved, to)
    if json:
        return print_json({"out": out, "to": to, "bytes": n_bytes, **({"note": note} if note else {})})
    if note is not None:
        print(f"note: {note}")
    print(f"saved {out}: {to}, {n_bytes} bytes")
