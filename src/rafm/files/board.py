"""Print lines as they come and, on a terminal, show below them what is going on."""

from __future__ import annotations

from typing import Any, Self, TextIO

from .terminal import printable


class PlainBoard:
    """Prints lines to a pipe or a file."""

    def __init__(self, out: TextIO):
        self.out = out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *leaving: object) -> None:
        pass

    def show(self, lines: list[str]) -> None:
        """Print lines."""
        if lines:
            print(printable("\n".join(lines)), file=self.out, flush=True)

    def update(self, event: Any) -> None:
        """Leave out what only a terminal shows."""


class LiveBoard:
    """Prints lines on a terminal; subclasses set `below` to what rich draws below them."""

    below: Any

    def __init__(self, out: TextIO):
        from rich.console import Console

        file = getattr(out, "unescaped", out)
        self.console: Any = Console(file=file, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self.below.start()
        return self

    def __exit__(self, *leaving: object) -> None:
        self.below.stop()

    def show(self, lines: list[str]) -> None:
        """Print lines above."""
        if lines:
            self.console.print(printable("\n".join(lines)))
