"""Text on its way to people: control characters are shown, not obeyed, and a closed stream is no surprise.

Names of columns, files, classes and values come from strangers. Printed as they are, they could move the cursor, change
the title of a window or hide what follows; so every stream that a command prints to passes through here.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# Controls of both blocks but tab and line feed; marks that reorder or hide text; halves of pairs, which no file takes.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def printable(text: str) -> str:
    r"""Return text in which characters that a terminal would obey are written out.

    >>> printable("red\x1b[31m\nname")
    'red\\x1b[31m\nname'
    """
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Return printable text in which line feeds are written out too, since a message is one line.

    >>> one_line("a file\nerror: none")
    'a file\\nerror: none'
    """
    return printable(text).replace("\n", "\\n")


class SafeStream(io.TextIOBase):
    """A stream for people, on top of one that takes any text; `obeyed` is the latter, for a bar that moves the cursor.

    Without a stream below, since it was closed before we started, writing fails as on any closed file.
    """

    def __init__(self, stream: TextIO | None, name: str):
        self.obeyed, self.name = stream, name

    def _open(self) -> TextIO:
        if self.obeyed is None:
            raise OSError(errno.EBADF, "is closed", self.name)
        return self.obeyed

    def write(self, text: str) -> int:
        return self._open().write(printable(text))

    def flush(self) -> None:
        if self.obeyed is not None:
            self.obeyed.flush()

    def isatty(self) -> bool:
        return self.obeyed is not None and self.obeyed.isatty()

    def fileno(self) -> int:
        return self._open().fileno()

    @property
    def buffer(self) -> Any:
        return self._open().buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.obeyed, "encoding", None) or "utf-8"


class Silence(io.TextIOBase):
    """Where messages go if standard error is closed: nowhere, rather than among the results."""

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Let all that is printed meanwhile pass through SafeStream."""
    errors = Silence() if sys.stderr is None else SafeStream(sys.stderr, "standard error")
    output = SafeStream(sys.stdout, "standard output")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        yield


def occupy_descriptors() -> None:
    """Open nothing in place of standard streams that are closed, lest a file gets their numbers and what is printed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def say(text: str) -> None:
    """Print text for people."""
    print(printable(text))


def last_words(text: str) -> None:
    """Print text on standard error or, if that is closed, on standard output; if both are, on neither."""
    stream = sys.stderr or sys.stdout
    if stream is not None:
        with contextlib.suppress(OSError):
            print(printable(text), file=stream, flush=True)
