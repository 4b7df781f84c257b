"""The supervisor: binds the port, starts workers, replaces those that die, and stops them in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

from .metrics import SharedMetrics
from .settings import Settings

TICK_SECONDS = 0.05
SILENT_SECONDS = 30.0  # a worker without a sign of life for this long is killed
UNTIL_READY = (signal.SIGINT, signal.SIGHUP)  # are held back in a worker until it handles them
LONGEST_PAUSE_SECONDS = 10.0  # before a worker that keeps dying is started again
BACKLOG = 2048
INTERRUPTED = 130  # exit code


@dataclass
class Place:
    """A worker slot: its process, and when it may be started again."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0  # deaths in a row before it was ready
    start_at: float = field(default=0.0)


class Supervisor:
    """Runs the workers of a server."""

    def __init__(self, settings: Settings, say: Callable[[str], Any] = print):
        self.settings, self.say = settings, say
        self.listener = bind(settings.host, settings.port)
        self.metrics = SharedMetrics.create(settings.workers)
        self.places = [Place(number) for number in range(settings.workers)]
        # A pipe that nobody writes to: its end of file tells the workers that they are alone.
        self._parent, self._alive = os.pipe()  # closed with this process, however it ends
        self._signals: list[int] = []

    @property
    def address(self) -> str:
        """Address of the server."""
        host, port = self.listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> int:
        """Serve until a signal to stop; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        try:
            if (code := self._start_all()) is not None:
                return code
            while not self._has_stop_signal():
                for place in self.places:
                    self._tend(place)
                time.sleep(TICK_SECONDS)
            return self._stop()
        finally:
            for place in self.places:
                if place.process is not None and place.process.poll() is None:
                    place.process.kill()

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)

    def _has_stop_signal(self) -> bool:
        """Pass SIGHUP on; return whether another signal came."""
        while signal.SIGHUP in self._signals:
            self._signals.remove(signal.SIGHUP)
            self._send(signal.SIGHUP)
        return bool(self._signals)

    def _send(self, number: int) -> None:
        for place in self.places:
            if place.process is not None and place.process.poll() is None:
                place.process.send_signal(number)

    def _start_all(self) -> int | None:
        """Start one worker, which reports what is wrong with the model, then the others; return a failure."""
        for place in self.places:
            self._start(place)
            while place.number == 0 and not self._is_ready(place):
                assert place.process is not None
                if (code := place.process.poll()) is not None:  # it has said why
                    return code if code > 0 else 1
                if self._has_stop_signal():  # nobody was served yet
                    return INTERRUPTED if self._signals[-1] == signal.SIGINT else 0
                time.sleep(TICK_SECONDS)
        sha256 = self.metrics.digest("sha256", 0)
        self.say(f"serving {self.settings.model} (sha256 {sha256}) on {self.address}")
        return None

    def _start(self, place: Place) -> None:
        self.metrics.set("ready", 0, place.number)
        self.metrics.set("heartbeat", time.monotonic(), place.number)
        files = {"listener": self.listener.fileno(), "metrics": self.metrics.file_number, "parent": self._parent}
        given = json.dumps({"settings": asdict(self.settings), "worker": place.number, **files})
        command = [sys.executable, "-m", "rafm.serve.worker", given]
        signal.pthread_sigmask(signal.SIG_BLOCK, UNTIL_READY)  # inherited
        try:
            place.process = subprocess.Popen(command, pass_fds=[*files.values()], stdin=subprocess.DEVNULL)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, UNTIL_READY)

    def _is_ready(self, place: Place) -> bool:
        return self.metrics.get("ready", place.number) == 1

    def _tend(self, place: Place) -> None:
        """Replace a worker that died or hangs; one that keeps dying is given longer and longer pauses."""
        if place.process is None:
            if time.monotonic() >= place.start_at:
                self._start(place)
            return
        code = place.process.poll()
        if code is None:
            self._kill_silent(place)
            return
        # Dying before it was ready again and again has a reason that trying faster does not remove.
        place.failures = 0 if self._is_ready(place) else place.failures + 1
        pause = 0.0 if place.failures == 0 else min(0.1 * 2**place.failures, LONGEST_PAUSE_SECONDS)
        self.metrics.set("ready", 0, place.number)
        self.metrics.set("in_flight", 0, place.number)
        print(f"worker {place.number} ended with code {code}; starting another", file=sys.stderr, flush=True)
        place.process, place.start_at = None, time.monotonic() + pause

    def _kill_silent(self, place: Place) -> None:
        assert place.process is not None
        is_silent = time.monotonic() - self.metrics.get("heartbeat", place.number) > SILENT_SECONDS
        if self._is_ready(place) and is_silent:
            print(f"worker {place.number} does not answer; killing it", file=sys.stderr, flush=True)
            place.process.kill()

    def _stop(self) -> int:
        """Let the workers finish; kill those that take too long. Return 0 if none did."""
        self.listener.close()  # or the system would go on to accept connections that nobody answers
        self._send(self._signals[-1])
        limit = time.monotonic() + self.settings.drain_seconds + self.settings.timeout_seconds + 5
        running = [place.process for place in self.places if place.process is not None]
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, limit - time.monotonic()))
        late = [process for process in running if process.poll() is None]
        for process in late:
            process.kill()
        return 1 if late else 0


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier run may linger
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(getattr(error, "errno", None) or 0, reason, f"{host}:{port}") from None
    listener.setblocking(False)  # several workers wake up for one connection, and only one gets it
    return listener
