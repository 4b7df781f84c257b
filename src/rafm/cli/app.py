"""Command line: parse, call the library, print. Heavy modules are imported only when a command runs."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

import typer

from ..errors import DataWarning, RafmError
from ..files.terminal import occupy_descriptors, one_line, print_to_open_stream, safe_streams
from ..jit.compiling import told_to
from ..read.without_pandas import WithoutPandas
from .clusters import ray
from .compiling import CompileNote
from .compress import compress
from .convert import convert
from .demo import demo
from .evaluate import evaluate
from .explain import explain, importance
from .export import export
from .inspect import inspect
from .interrupts import KeptSignals, Terminated
from .outputs import Command
from .predict import predict
from .recommend import recommend, similar
from .report import report
from .serve import serve
from .spelling import in_flags, usage_message
from .train import train
from .tune import tune
from .warmup import warmup

# Depending on its version, Typer vendors click or imports it; take the class from whichever copy is in use.
ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

EPILOG = "Add --debug to see where an error came from."

app = typer.Typer(
    name="rafm",
    help="Factorization machines that give every feature the rank its data can support.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    train,
    tune,
    evaluate,
    predict,
    inspect,
    explain,
    importance,
    similar,
    recommend,
    report,
    serve,
    convert,
    compress,
    export,
    demo,
    warmup,
):
    app.command(cls=Command, epilog=EPILOG)(command)
app.add_typer(ray, name="ray")
MAX_ERROR_CHARS = 300  # of an unexpected error, whose message may quote a whole file


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")
) -> None:
    """Factorization machines that give every feature the rank its data can support.

    Exit codes: 0 ok, 1 internal error, 2 usage or configuration, 3 data, 4 model file, 5 diverged, 6 input/output or
    resources, 130 interrupted, 143 terminated. Any command takes --debug to show where an error came from.
    """
    if version:
        from .. import __version__

        print(f"rafm {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@functools.cache
def parser_of(program: typer.Typer) -> Any:
    """Return the commands of a program as typer parses them; it would rebuild them for every call of `program`."""
    return typer.main.get_command(program)


def run(program: typer.Typer = app, name: str = "rafm") -> NoReturn:
    """Run the command line of a program; turn errors into one line on stderr and an exit code."""
    atexit.register(gc.freeze)  # skips the final garbage collection, which takes about 0.1 s
    arguments = sys.argv[1:]
    debug = "--debug" in arguments  # taken out by hand, so that it may stand anywhere
    occupy_descriptors()
    try:
        # standalone_mode=False below: typer would otherwise print its own errors and choose the exit code
        with (
            KeptSignals(),
            safe_streams(),
            warnings.catch_warnings(),
            WithoutPandas(),
            told_to(CompileNote(sys.stderr)),
        ):
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _show_warning
            given = [argument for argument in arguments if argument != "--debug"]
            code = parser_of(program).main(given, prog_name=name, standalone_mode=False)
            sys.stdout.flush()
    except Terminated:
        fail("terminated", 143)
    except (BrokenPipeError, SystemExit) as leaving:  # `| head` closed the pipe; some versions of typer exit on that
        if isinstance(leaving, SystemExit) and not isinstance(leaving.__context__, BrokenPipeError):
            raise
        # Python flushes stdout once more at exit, which would fail on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", 130)
    except Exception as error:
        if debug:
            print_to_open_stream(traceback.format_exc().rstrip())
            sys.exit(1)
        fail(*describe(error))
    if code == 130:  # some versions of typer turn Ctrl-C into this return value
        fail("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line."""
    text = message.in_flags() if isinstance(message, DataWarning) else in_flags(str(message))
    print(f"warning: {one_line(text)}", file=sys.stderr)


def describe(error: Any) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    if isinstance(error, RafmError):
        parts = [str(part) for name in ("path", "line", "column") if (part := getattr(error, name, None)) is not None]
        place = ":".join(parts) + ": " if getattr(error, "path", None) else ""
        return place + in_flags(str(error).removeprefix(place)), error.exit_code
    if isinstance(error, ClickException):
        return usage_message(error), 2
    if (
        isinstance(error, OSError) and error.filename is not None and error.strerror
    ):  # str(error) would start with "[Errno 2]"
        return f"{error.filename}: {error.strerror}", 6
    if isinstance(error, OSError | MemoryError):
        return str(error) or "out of memory", 6  # MemoryError usually has no message
    message = " ".join(f"{type(error).__name__}: {error}".split())
    advice = "run again with --debug for the traceback, and please report it"
    return f"internal error: {message[:MAX_ERROR_CHARS]} ({advice})", 1


def fail(message: str, code: int) -> NoReturn:
    """Print one line on stderr and exit."""
    print_to_open_stream(f"error: {one_line(message)}")
    sys.exit(code)
