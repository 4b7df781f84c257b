"""Write a model for use without rafm. A target is one line here and one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from ..errors import ConfigError
from ..files.atomic import PathLike, write_atomically
from ..model.file import Saved

TARGETS = {  # module, the function in it that yields the file in parts, and a description
    "onnx": (".onnx:onnx_model", "an ONNX graph; needs the package onnx, of the extra export"),
    "c": (".c:c_source", "one C99 file without dependencies"),
    "python": (".python:python_source", "one Python file that needs the standard library alone"),
}


SUFFIXES = {".onnx": "onnx", ".c": "c", ".py": "python"}


def target_of(path: PathLike) -> str:
    """Return the target of a file by its name.

    >>> target_of("model.c")
    'c'
    """
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"name the file {', '.join('*' + known for known in SUFFIXES)}, or choose a format: "
            f"to={' or '.join(map(repr, TARGETS))}; found {Path(path).name!r}",
            key="to",
        )
    return SUFFIXES[suffix]


def note_of(saved: Saved, to: str) -> str | None:
    """Return what is worth knowing about an export, or None."""
    if to == "onnx":
        from .onnx import note_of as note_of_graph

        return note_of_graph(saved)
    if to == "c" and saved.encoder is not None:
        return "the C file takes feature ids, not columns; the Python file encodes rows: --to python, then --encode"
    return None


def export(saved: Saved, to: str, path: PathLike) -> int:
    """Write a model in the form of a target; return the number of bytes."""
    if to not in TARGETS:
        raise ConfigError(f"to must be one of {', '.join(TARGETS)}, found {to!r}", key="to")
    saved.model.plan.traits.check("be exported", key="to")
    module, name = TARGETS[to][0].split(":")
    parts: Callable[[Saved], Iterable[str | bytes]] = getattr(import_module(module, __package__), name)
    chunks = [part.encode() if isinstance(part, str) else part for part in parts(saved)]
    return write_atomically(path, [b"".join(chunks)])
