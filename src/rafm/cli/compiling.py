"""Report on stderr that the first run compiles: one line in a pipe, a line that is rewritten on a terminal."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TextIO

from ..jit.compiling import can_keep_code

REDRAW_SECONDS = 0.1
NOTE = "compiling for this machine, which takes up to half a minute"


class CompileNote:
    """Prints one note at the first kernel; on a terminal, a line below shows what is being compiled."""

    def __init__(self, stream: TextIO):
        self.stream, self.is_said, self.drawn = stream, False, 0.0
        self.terminal = getattr(stream, "unescaped", stream) if stream.isatty() else None

    def started(self, kernel: str) -> None:
        if not self.is_said:
            self.is_said = True
            later = "later runs start at once" if can_keep_code() else "there is no directory to keep the code in"
            with suppress(OSError):
                print(f"{NOTE} ({later})", file=self.stream, flush=True)
        self._draw(f"compiling {kernel}")

    def compiled_part(self, kernel: str, parts: int, seconds: float) -> None:
        if time.perf_counter() - self.drawn > REDRAW_SECONDS:
            self._draw(f"compiling {kernel}: {parts} functions done after {seconds:.0f} s")

    def finished(self, kernel: str, seconds: float) -> None:
        self._draw("")

    def _draw(self, text: str) -> None:
        """Replace the line on a terminal."""
        self.drawn = time.perf_counter()
        if self.terminal is not None:
            with suppress(OSError):
                self.terminal.write(f"\r\x1b[K{text}")
                self.terminal.flush()
