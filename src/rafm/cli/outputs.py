"""Outputs of commands: none may be an input of the same command, and all must be writable before any work is done."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from ..read.compression import STDIN

OUTPUTS = ("out", "events", "study", "plot", "page")  # parameters that name a file to write
FILES = (
    "FILE",
    "DATA",
    "MODEL",
    "DATA|MODEL",
    "CONTEXTS",
    "PATH",
)  # metavars of files; those that are no output are read
UPDATED = {("out", "resume_from")}  # a model may replace the one that it continues


class Command(TyperCommand):
    """A command that refuses to write to one of its inputs."""

    def invoke(self, ctx: Any) -> Any:
        """Compare all files of the command, then run it."""
        check_files({parameter.name: parameter.metavar for parameter in ctx.command.params}, ctx.params)
        return super().invoke(ctx)


def check_files(metavars: dict[str, Any], given: dict[str, Any]) -> None:
    """Reject an output that is an input or another output.

    metavars: of all parameters of the command, by name; one of FILES marks an input, unless its name is in OUTPUTS.
    """
    from ..errors import ConfigError

    named = {name: path for name, path in given.items() if isinstance(path, str) and path != STDIN}
    outputs = {name: path for name, path in named.items() if name in OUTPUTS}
    inputs = {name: path for name, path in named.items() if name not in OUTPUTS and metavars.get(name) in FILES}
    for name, path in outputs.items():
        other = "output" if name == "out" else f"--{name}"
        if any(_is_same(path, read) for one, read in inputs.items() if (name, one) not in UPDATED):
            raise ConfigError(f"{path} is an input and would be overwritten; choose another {other}", key=name)
    for one, name in combinations(outputs, 2):
        if _is_same(outputs[one], outputs[name]) and not Path(outputs[one]).is_char_device():  # such as /dev/null
            raise ConfigError(f"{outputs[name]} is named by --{one} and --{name}; choose different files", key=name)


def _is_same(one: str, other: str) -> bool:
    """Tell whether two paths name the same file, through links and different spellings, or would once it exists."""
    first, second = Path(one), Path(other)
    try:
        return first.samefile(second) if first.exists() and second.exists() else first.resolve() == second.resolve()
    except (OSError, ValueError, RuntimeError):  # not a path, or a loop of links: opening it tells
        return False


def check_output(out: str) -> None:
    """Reject an output path that cannot be written."""
    from ..errors import ConfigError
    from ..files.atomic import check_writable

    if out == STDIN:
        raise ConfigError('the output must be a file, not "-"; for a file of that name, write ./-', key="out")
    folder = Path(out).parent
    if not folder.is_dir():
        raise FileNotFoundError(2, "the output directory does not exist", str(folder))
    if Path(out).is_dir():
        raise IsADirectoryError(21, "is a directory; give a file name", out)
    check_writable(out)
