"""Ctrl-C and SIGTERM end a command with one line, and are not lost where Python, or compiled code, drops exceptions.

Python drops what is raised in callbacks of imports and of the compiler, and extension modules clear what is raised
while they are imported. So a signal that arrives during an import is repeated until that is over, and one that was
dropped is repeated as well.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from _thread import interrupt_main
from types import FrameType
from typing import Any

REPEAT_SECONDS = 0.01  # after which the callback that dropped a signal has ended
IMPORT_SECONDS = 5.0  # an import that takes longer is interrupted
IMPORTS = "<frozen importlib"


class Terminated(SystemExit):
    """SIGTERM arrived: unwind, so that files are cleaned up."""


class KeptSignals:
    """Lets Ctrl-C and SIGTERM end what runs in a block: later if an import is under way, and again if dropped.

    Handlers that others have set stay.
    """

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.dropped: BaseException | None = None
        self.repeating: threading.Timer | None = None
        self.since: float | None = None  # when a signal began to wait for an import

    def __enter__(self) -> None:
        self.outermost = sys._getframe(1)  # imports around it are those of the program that runs a command
        self.hook, sys.unraisablehook = sys.unraisablehook, self._take
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
            self.before = {number: one for number, one in usual.items() if signal.getsignal(number) is one}
        for number in self.before:
            signal.signal(number, self.on_signal)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._forget()
        for number, usual in self.before.items():
            signal.signal(number, usual)
        sys.unraisablehook = self.hook
        # the compiler fails for lack of what a callback was to do, and that error is not worth telling
        if self.dropped is not None and kind is not None and issubclass(kind, Exception):
            raise self.dropped from None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise what a signal stands for, unless that might be lost."""
        if self._is_importing(frame):
            self.since = time.monotonic() if self.since is None else self.since
            if time.monotonic() - self.since < IMPORT_SECONDS:
                self._repeat(number)
                return
        self._forget()
        raise Terminated(128 + number) if number == signal.SIGTERM else KeyboardInterrupt

    def _is_importing(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self.outermost:
            if frame.f_code.co_filename.startswith(IMPORTS):
                return True
            frame = frame.f_back
        return False

    def _repeat(self, number: int) -> None:
        self._forget()
        self.repeating = threading.Timer(REPEAT_SECONDS, _send, [number])
        self.repeating.daemon = True
        self.repeating.start()

    def _forget(self) -> None:
        if self.repeating is not None:
            self.repeating.cancel()

    def _take(self, unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt | Terminated):
            self.dropped = unraisable.exc_value
            self._repeat(signal.SIGTERM if isinstance(self.dropped, Terminated) else signal.SIGINT)
        else:
            self.hook(unraisable)


def _send(number: int) -> None:
    """Send a signal to the main thread, which wakes it; on Windows, it notices once it runs."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        interrupt_main(signal.Signals(number))
