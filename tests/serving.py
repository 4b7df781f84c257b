"""Run real servers on free ports of the loopback, and talk to them with the standard library."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

PATIENCE = 120  # seconds for anything to happen; nothing is expected to take a hundredth of it


@dataclass
class Answer:
    """What a server answered."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body, parse_constant=lambda name: AssertionError(name))

    def error(self):
        """Return the message of an error, which must be an object of one key."""
        found = self.json()
        assert [*found] == ["error"]
        return found["error"]


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen
    port: int
    log: str
    token: str | None = None
    headers: dict = field(default_factory=dict)
    is_told_to_stop: bool = False

    def ask(self, path, content=None, method=None, headers=None, timeout=PATIENCE):
        """Send a request on a connection of its own; content: bytes, or what becomes JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            return ask(connection, path, content, method, {**self.headers, **(headers or {})})

    def metric(self, name):
        """Return the sum of a metric over its labels."""
        text = self.ask("/metrics").body.decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.M))

    def workers(self):
        """Return the process ids of the workers."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(children) as file:
            return [int(number) for number in file.read().split()]

    def errors(self):
        with open(self.log) as file:
            return file.read()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def ask(connection, path, content=None, method=None, headers=None):
    """Send a request and read its answer."""
    body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def until(happens, seconds=PATIENCE):
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def serving(model, folder, *flags, token=None):
    """Run a server on a free port."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "rafm", "serve", str(model), "--port", "0", *map(str, flags)]
    if token is not None:
        (folder / "token").write_text(f"{token}\n")
        command += ["--token-file", str(folder / "token")]
    with (
        open(log, "w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            found = re.search(r"on http://127\.0\.0\.1:(\d+)$", line.strip())
            assert found, (line, log.read_text())
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            yield Server(process, int(found[1]), str(log), token, headers)
        finally:
            process.kill()
            process.wait()
