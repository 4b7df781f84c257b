"""A real server outlives what strangers send: bodies that stand for gigabytes, heads that mean something else."""

import asyncio
import contextlib
import re
import socket

import numpy as np
import pyarrow as pa
import pytest
from fitted import make
from serving import serving
from starlette.requests import Request
from warm import run_script

from rafm.serve.app import Application
from rafm.serve.metrics import SharedMetrics
from rafm.serve.requests import BodyReader, RequestError
from rafm.serve.served import ModelStore
from rafm.serve.settings import Settings

ALLOWED = 2**26  # bytes that a short body may need
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
N_ROWS = 400


def plain(n):
    """Return columns that the model takes."""
    return {
        "word": pa.array([f"w{i % 5}" for i in range(n)]),
        "when": pa.array([f"2024-01-{1 + i % 28:02} {i % 24:02}:00" for i in range(n)]),
        "tags": pa.array([["t1", "t2"][: i % 3] for i in range(n)]),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the file of a model with a column of text, one of times and one of lists."""
    folder = tmp_path_factory.mktemp("hostile")
    kinds = {"word": "category", "when": "datetime", "tags": "list"}
    labels = np.random.default_rng(0).integers(0, 2, N_ROWS)  # no column tells them
    make(model="lr", columns=kinds).fit(pa.table(plain(N_ROWS)), labels).save(folder / "m.rafm")
    return folder / "m.rafm"


@pytest.fixture(scope="module")
def server(model):
    with serving(model, model.parent, "--timeout-seconds", 3) as found:
        yield found


def stream_of(columns):
    sink, table = pa.BufferOutputStream(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def memory_of(server):
    """Return the most megabytes that the worker has ever held, and its process."""
    [worker] = server.workers()
    with open(f"/proc/{worker}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) // 1000, worker


def shared(value, n):
    """Return n cells that share the bytes of one value."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([value]))


def views(value, n):
    """Return n views of one text."""
    each = np.zeros((n, 4), np.int32)
    each[:, :2] = len(value), np.frombuffer(value[:4].encode(), np.int32)[0]
    buffers = [None, pa.py_buffer(each.tobytes()), pa.py_buffer(value.encode())]
    return pa.Array.from_buffers(pa.string_view(), n, buffers)


def one_each(elements):
    return pa.ListArray.from_arrays(pa.array(np.arange(len(elements) + 1, dtype=np.int32)), elements)


LONG = "x" * 700_000
BOMBS = {
    "views": {"word": views(LONG, N_ROWS)},
    "lists of views": {"tags": one_each(views(LONG, N_ROWS))},
    "a time in a dictionary": {"when": shared("2024-01-01 00:00" + " " * 700_000, N_ROWS)},
    "a dictionary": {"word": shared(LONG, N_ROWS)},
    "lists of a dictionary": {"tags": one_each(shared(LONG, N_ROWS))},
    "a dictionary of lists": {"tags": shared(["t1"] * 100_000, N_ROWS)},
    "an unknown column": {"more": views(LONG, N_ROWS)},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_table_that_stands_for_gigabytes_is_refused_before_it_is_expanded(server, name):  # case 119
    before, worker = memory_of(server)
    body = stream_of({**plain(N_ROWS), **BOMBS[name]})
    answer = server.ask("/score", body, headers=ARROW)
    assert (answer.status, len(body) < 2**20) == (413, True)
    assert re.search(rf"needs \d{{9}} bytes .* but {ALLOWED} are allowed for a body of {len(body)};", answer.error())
    after, same = memory_of(server)
    assert (after - before < 50, same) == (True, worker)
    assert "Traceback" not in server.errors()


def test_a_dictionary_that_many_batches_refer_to_counts_for_each(server):  # case 119
    sink, table = pa.BufferOutputStream(), pa.table({**plain(N_ROWS), "word": shared("x" * 10**6, N_ROWS)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for row in range(N_ROWS):
            writer.write_table(table[row : row + 1])
    answer = server.ask("/score", sink.getvalue().to_pybytes(), headers=ARROW)
    assert (answer.status, "once every cell has its own" in answer.error()) == (413, True)


def test_dictionaries_views_and_lists_of_usual_size_are_scored(server):
    columns = plain(N_ROWS)
    coded = {
        "word": columns["word"].dictionary_encode(),
        "when": columns["when"].cast(pa.string_view()),
        "tags": columns["tags"].cast(pa.list_(pa.string_view())),
    }
    answers = [server.ask("/score", stream_of(each), headers=ARROW).json() for each in (columns, coded)]
    assert answers[0]["score"] == answers[1]["score"]


@pytest.mark.parametrize("ask_for_memory", [lambda: pa.allocate_buffer(1 << 60), lambda: bytearray(1 << 60)])
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_machine_without_memory_is_told_apart_from_a_bad_request(model, ask_for_memory, size):  # case 119
    settings = Settings(str(model))
    app = Application(settings, ModelStore(settings), SharedMetrics.create(1))

    async def receive():
        return {"type": "http.request", "body": b" " * size}

    with pytest.raises(RequestError, match="the request needs too much memory") as caught:
        asyncio.run(app.work(Request({"type": "http"}, receive), lambda model, body: ask_for_memory()))
    assert caught.value.status == 413


def test_a_body_for_which_there_is_no_memory_is_told_apart_from_a_bad_request():  # case 119
    async def receive():
        raise MemoryError

    with pytest.raises(RequestError, match="the request needs too much memory") as caught:
        asyncio.run(BodyReader(100).read(Request({"type": "http"}, receive)))
    assert caught.value.status == 413


PARSED_WITHOUT_MEMORY = """
import resource
from rafm.serve.requests import parse_json
body = b'{"rows": [' + b"1," * (1 << 23) + b"1]}"
with open("/proc/self/statm") as file:
    limit = int(file.read().split()[0]) * resource.getpagesize() + (1 << 22)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    parse_json(body)
except MemoryError as error:
    print("no memory:", error)
"""


def test_json_that_there_is_no_memory_to_parse_is_told_apart_from_what_is_no_json():  # case 119
    assert run_script(PARSED_WITHOUT_MEMORY).stdout.startswith("no memory: ")


def talk(server, *parts):
    """Send bytes on a connection, each part after an answer or a moment; return all answers until it is closed."""
    answers = b""
    with socket.create_connection(("127.0.0.1", server.port)) as sock, contextlib.suppress(ConnectionError):
        for part in parts:
            sock.sendall(part)
            sock.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                answers += sock.recv(1 << 16)
        sock.settimeout(120)
        while found := sock.recv(1 << 16):
            answers += found
    return answers


def statuses(answers):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answers)]


HIDDEN = b"GET /v2 HTTP/1.1\r\nHost: hidden\r\n\r\n"  # must stay what it is: a body
GET, POST = (b"%s /v2/health/live HTTP/1.1\r\nHost: x\r\n" % method for method in (b"GET", b"POST"))
LENGTH = b"Content-Length: %d\r\n" % len(HIDDEN)
H2C, WEBSOCKET = (b"Connection: Upgrade\r\nUpgrade: %s\r\n" % name for name in (b"h2c", b"websocket"))
CHUNKED = b"Transfer-Encoding: chunked\r\n"
UPGRADES = {
    "h2c": [POST + H2C + LENGTH + b"\r\n" + HIDDEN],
    "h2c, and the body later": [POST + H2C + LENGTH + b"\r\n", HIDDEN],
    "h2c, and the head in two parts": [POST + H2C[:-5], H2C[-5:] + LENGTH + b"\r\n", HIDDEN],
    "a WebSocket": [POST + WEBSOCKET + LENGTH + b"\r\n", HIDDEN],
    "chunks": [POST + H2C + CHUNKED + b"\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)],
    "CONNECT": [b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n" + LENGTH + b"\r\n", HIDDEN],
    "after another request": [GET + b"\r\n", POST + H2C + LENGTH + b"\r\n", HIDDEN],
}


@pytest.mark.parametrize("name", UPGRADES)
def test_the_body_of_a_request_that_upgrades_is_no_request(server, name):  # case 120
    answers = talk(server, *UPGRADES[name])
    assert statuses(answers) == ([200, 400] if name == "after another request" else [400])
    assert b"cannot upgrade" in answers
    assert b'"name"' not in answers


def test_a_request_without_a_body_is_answered_and_its_upgrade_ignored(server):  # case 120
    for more in (b"", b"Content-Length: 0\r\n"):
        answers = talk(server, GET + H2C + more + b"\r\n", HIDDEN, HIDDEN)
        assert (statuses(answers), b"connection: close" in answers) == ([200], True)


def test_answers_come_in_order_before_what_is_no_request(server):  # case 120
    for garbage in (b"\x00\xff garbage\r\n\r\n", POST + H2C + LENGTH + b"\r\n" + HIDDEN):
        answers = talk(server, GET + b"\r\n" + garbage)
        assert (statuses(answers), b'"live":true' in answers, b'"name"' in answers) == ([200], True, False)
    assert statuses(talk(server, POST.replace(b"/v2/health/live", b"/score") + CHUNKED + b"\r\n", b"zz\r\n")) == [400]
    assert "Traceback" not in server.errors()
