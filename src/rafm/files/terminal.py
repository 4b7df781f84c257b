"""Safe terminal output: control characters are escaped, and closed streams are handled.

Names of columns, files, classes and values are untrusted. Printed verbatim, they could move the cursor, change the
window title or hide the text that follows, so the output streams of all commands pass through here.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

# C0 and C1 controls except tab and line feed; characters that reorder or hide text; surrogates, which have no encoding.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def printable(text: str) -> str:
    r"""Escape the characters that a terminal would interpret.

    >>> printable("red\x1b[31m\nname")
    'red\\x1b[31m\nname'
    """
    return _UNSAFE.sub(_escape, text)


def counted(number: int, noun: str, style: str = "") -> str:
    """Return a number with its noun, in the plural if needed; style: of the number, as for `format`.

    >>> counted(1, "row"), counted(2000, "row"), counted(2000, "row", ",")
    ('1 row', '2000 rows', '2,000 rows')
    """
    return f"{number:{style}} {noun}{'' if number == 1 else 's'}"


def one_line(text: str) -> str:
    r"""Escape line feeds too, so that a message stays on one line.

    >>> one_line("a file\nerror: none")
    'a file\\nerror: none'
    """
    return printable(text).replace("\n", "\\n")


class SafeStream(io.TextIOBase):
    """A text stream that escapes control characters; `unescaped` is the stream below, for a progress bar.

    If the stream below was closed before the program started, writing fails as with any closed file.
    """

    def __init__(self, stream: TextIO | None, name: str):
        self.unescaped, self.name = stream, name

    def _open(self) -> TextIO:
        if self.unescaped is None:
            raise OSError(errno.EBADF, "is closed", self.name)
        return self.unescaped

    def write(self, text: str) -> int:
        with self._naming():
            return self._open().write(printable(text))

    def write_bytes(self, data: bytes) -> None:
        """Write bytes as they are, and flush them."""
        with self._naming():
            self._open().buffer.write(data)
            self._open().buffer.flush()

    def flush(self) -> None:
        if self.unescaped is not None:
            with self._naming():
                self.unescaped.flush()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Add the name of the stream to errors, such as a full disk."""
        try:
            yield
        except OSError as error:
            if error.filename is None and not isinstance(error, BrokenPipeError):
                error.filename = self.name
            raise

    def isatty(self) -> bool:
        return self.unescaped is not None and self.unescaped.isatty()

    def fileno(self) -> int:
        return self._open().fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.unescaped, "encoding", None) or "utf-8"


class NullStream(io.TextIOBase):
    """Discards messages if standard error is closed, so that they do not end up among the results."""

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Redirect standard output and standard error through SafeStream."""
    errors = NullStream() if sys.stderr is None else SafeStream(sys.stderr, "standard error")
    output = SafeStream(sys.stdout, "standard output")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        yield


def occupy_descriptors() -> None:
    """Open the null device for closed standard streams; otherwise a file could get descriptor 1 and all output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # open returns the lowest free descriptor
        pass
    os.close(descriptor)


def say(text: str) -> None:
    """Print text with control characters escaped."""
    print(printable(text))


def print_to_open_stream(text: str) -> None:
    """Print text to standard error or, if that is closed, to standard output, if it is open."""
    stream = sys.stderr or sys.stdout
    if stream is not None:
        with contextlib.suppress(OSError):
            print(printable(text), file=stream, flush=True)
