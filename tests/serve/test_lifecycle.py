"""A server loses no request: while its model is replaced, a worker is killed, or it is told to stop."""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from subprocess import PIPE

import pytest
from commands import run_alone
from fitted import long_tail, make
from serving import Server, ask, serving, until

from rafm import Scorer


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with two models, and the score that each gives to {"0": 1}."""
    folder = tmp_path_factory.mktemp("models")
    X, y = long_tail()
    scores = {}
    for name, l2 in (("a", 0.001), ("b", 0.5)):
        make(l2=l2).fit(X, y).save(folder / f"{name}.rafm")
        scores[name] = Scorer(folder / f"{name}.rafm").score({0: 1.0})
    assert scores["a"] != scores["b"]
    return folder, scores


class Clients:
    """Threads that ask all the time, each on a connection that it keeps as long as the server does."""

    def __init__(self, server, number=3, retries=0):
        self.server, self.retries, self.found, self.failures, self.refused = server, retries, [], [], 0
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(number)]

    def run(self):
        with contextlib.ExitStack() as stack:
            self.keep_asking(stack)

    def keep_asking(self, stack):
        connection = None
        while not self.stopped.is_set():
            is_new = connection is None
            if is_new:
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
                stack.callback(connection.close)
                try:
                    connection.connect()
                except (ConnectionRefusedError, ConnectionResetError) as error:
                    if isinstance(error, ConnectionResetError) and not self.server.is_told_to_stop:
                        self.failures.append(repr(error))
                    self.refused += 1
                    return
            for attempt in range(self.retries + 1):
                try:
                    answer = ask(connection, "/score", {"rows": [{"0": 1.0}]})
                    break
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    if is_new and self.server.is_told_to_stop and isinstance(error, ConnectionResetError):
                        self.refused += (
                            1  # made in the moment in which the listener closed; nobody has read its request
                        )
                        return
                    if attempt == self.retries:
                        self.failures.append(repr(error))
                        return
            self.found.append((answer.status, answer.json()))
            if answer.headers.get("connection") == "close":
                connection.close()
                connection = None

    def __enter__(self):
        [thread.start() for thread in self.threads]
        until(lambda: self.found)
        return self

    def __exit__(self, *_):
        self.stopped.set()
        [thread.join() for thread in self.threads]


def replace(folder, source):
    """Put a file in the place of the served one, at once."""
    shutil.copy(source, folder / "new")
    os.replace(folder / "new", folder / "served.rafm")


@pytest.mark.slow
def test_models_are_replaced_and_workers_killed_under_load(files, tmp_path):
    folder, scores = files
    shutil.copy(folder / "a.rafm", tmp_path / "served.rafm")
    with serving(tmp_path / "served.rafm", tmp_path, "--workers", 2, "--reload-seconds", 0.1) as server:
        until(lambda: server.metric("rafm_workers_ready") == 2)
        with Clients(server) as clients:
            bad = bytearray((folder / "b.rafm").read_bytes())
            bad[-5] ^= 1
            (tmp_path / "bad").write_bytes(bad)
            replace(tmp_path, tmp_path / "bad")
            until(lambda: server.metric("rafm_model_reload_failures_total") == 2)
            assert server.ask("/score", {"rows": [{"0": 1.0}]}).json()["score"] == [scores["a"]]
            replace(tmp_path, folder / "b.rafm")
            until(lambda: server.metric("rafm_model_reloads_total") == 2)
            after = len(clients.found)
            until(lambda: len(clients.found) > after + 10)
        assert clients.failures == []
        assert {status for status, _ in clients.found} == {200}
        versions = {(found["sha256"], found["score"][0]) for _, found in clients.found}
        assert {score for _, score in versions} == {scores["a"], scores["b"]}
        assert len(versions) == 2  # each answer is of one model
        assert clients.found[-1][1]["score"] == [scores["b"]]
        assert "kept the model before" in server.errors()
        assert server.ask("/v2/models/served").json()["versions"] == [clients.found[-1][1]["sha256"]]

        old = server.workers()
        with Clients(server, retries=1) as clients:
            os.kill(old[0], signal.SIGKILL)
            until(lambda: len({*server.workers()} - {*old}) == 1 and server.metric("rafm_workers_ready") == 2)
        assert clients.failures == []
        assert old[1] in server.workers()
        assert server.metric("rafm_worker_starts_total") == 3


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_answers_what_it_has_taken(files, tmp_path):
    folder, _ = files
    with serving(folder / "a.rafm", tmp_path, "--drain-seconds", 1) as server:
        with Clients(server) as clients, socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\n")
            before = len(clients.found)
            until(lambda: len(clients.found) > before + 5)
            server.is_told_to_stop = True
            os.kill(server.process.pid, signal.SIGTERM)
            answer = until(lambda: (found := server.ask("/v2/health/ready")).status == 503 and found)
            assert answer.headers["connection"] == "close"
            slow.sendall(b'{"rows": [{"0": 1.0}]}  ')
            slow.settimeout(120)
            text = b"".join(iter(lambda: slow.recv(4096), b""))
            assert server.process.wait(120) == 0
            until(lambda: clients.refused + len(clients.failures) == 3)  # at the end, nobody listens
        assert text.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in text
        assert clients.failures == []
        assert {status for status, _ in clients.found} == {200}


@pytest.fixture
def of_ids(files, tmp_path):
    with serving(files[0] / "a.rafm", tmp_path) as server:
        yield server


@pytest.mark.slow
def test_a_model_of_ids_outlives_clients_that_leave_but_not_its_supervisor(files, of_ids):
    check_scores(Scorer(files[0] / "a.rafm"), of_ids)
    taken = run_alone("serve", files[0] / "a.rafm", "--port", of_ids.port)
    assert (taken.code, taken.error()) == (6, f"127.0.0.1:{of_ids.port}: Address already in use")
    [worker] = of_ids.workers()
    open_files = len(os.listdir(f"/proc/{worker}/fd"))
    for number in range(200):
        with socket.create_connection(("127.0.0.1", of_ids.port)) as leaving:
            leaving.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"[: 20 + number])
    assert of_ids.ask("/score", {"rows": [{"0": 1.0}]}).status == 200
    until(lambda: of_ids.metric("rafm_requests_in_flight") == 1)  # the one that asks
    assert len(os.listdir(f"/proc/{worker}/fd")) <= open_files + 1
    assert "Traceback" not in of_ids.errors()
    of_ids.process.kill()
    until(lambda: not is_running(worker))


def check_scores(scorer, server):
    """Compare rows and tensors of a model of ids with the library."""
    rows = [{"3": 2.0, "0": 1.0}, {"59": 1.0}, {}]
    scores = scorer.score(rows).tolist()
    ids, values = [[3, 0], [59, 0], [0, None]], [[2.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    tensors = [
        {"name": "ids", "shape": [3, 2], "datatype": "INT64", "data": ids},
        {"name": "values", "shape": [3, 2], "datatype": "FP32", "data": values},
    ]
    assert server.ask("/score", {"rows": rows}).json()["score"] == scores
    assert server.ask("/v2/models/a/infer", {"inputs": tensors}).json()["outputs"][0]["data"] == scores
    assert server.ask("/columns").json()["ids"]
    assert "patternProperties" in server.ask("/openapi.json").json()["components"]["schemas"]["Row"]


def is_running(number):
    with contextlib.suppress(OSError), open(f"/proc/{number}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
def test_connections_above_the_limit_are_told_so(files, tmp_path):
    with serving(files[0] / "a.rafm", tmp_path, "--max-connections", 5) as server, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        for _ in range(20):
            answer = server.ask("/score", {"rows": [{"0": 1.0}] * 500})
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.error() == "too many connections"
        stack.close()
        until(lambda: server.ask("/score", {"rows": [{"0": 1.0}]}).status == 200)


@pytest.fixture
def starting(files):
    """Start a server in a process group of its own; return it once its worker exists, which imports for a while."""
    command = [sys.executable, "-m", "rafm", "serve", str(files[0] / "a.rafm"), "--port", "0"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as process:
        server = Server(process, 0, "")
        until(server.workers)
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3])
def test_ctrl_c_while_a_worker_starts_ends_a_server_with_one_line(starting, seconds):  # case 129
    time.sleep(seconds)
    os.killpg(starting.pid, signal.SIGINT)  # as a terminal does
    assert starting.communicate(timeout=120) == ("", "error: interrupted\n")
    assert starting.returncode == 130


@pytest.mark.slow
def test_a_hangup_while_a_worker_starts_is_no_end(starting):
    starting.send_signal(signal.SIGHUP)
    assert starting.stdout.readline().startswith("serving ")
