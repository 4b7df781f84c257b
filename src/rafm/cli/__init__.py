"""Command line: `main` is what `rafm` calls; the commands are in app.py, whose imports take a while."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Run the command line, which ends the process with an exit code.

    Until the commands are imported, Ctrl-C ends the process at once. An exception would show what was being imported,
    or get lost in a callback of the import system.
    """
    try:
        _replace_handler(signal.default_int_handler, _end)
        from .app import run

        _replace_handler(_end, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        _end()


def _replace_handler(before: Any, after: Any) -> None:
    """Change what Ctrl-C does, unless somebody else did."""
    if signal.getsignal(signal.SIGINT) is before:
        with suppress(ValueError):  # of threads: only the main one may
            signal.signal(signal.SIGINT, after)


def _end(*_: object) -> None:
    """End the process as Ctrl-C does."""
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(130)
