"""A real server answers as the library does, and refuses what it cannot take."""

import hashlib
import json
import socket
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from commands import run_alone
from fitted import make
from serving import serving, until
from tables import mixed

from rafm import load

COLUMNS = ("word", "user", "price", "tags")
TOKEN = "s3cret-token"


def table_of(n_rows, seed=0):
    return mixed(n_rows, seed)[0].select(COLUMNS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def model(folder):
    """Return a model of a table, as the loaded estimator; its file is served."""
    table, labels = table_of(400), mixed(400)[0]["y"].to_numpy()
    kinds = {"user": "category", "price": "number", "tags": {"kind": "list"}, "word": "category"}
    make(columns=kinds).fit(table, labels).save(folder / "clicks.rafm")
    pyarrow.csv.write_csv(pa.table({"word": ["w1", "w2", "w0"]}), folder / "items.csv")
    return load(folder / "clicks.rafm")


@pytest.fixture(scope="module")
def server(model, folder):
    flags = ("--workers", 2, "--items", folder / "items.csv", "--timeout-seconds", 3, "--max-body-bytes", 100_000)
    with serving(folder / "clicks.rafm", folder, *flags, "--max-rows", 500, token=TOKEN) as found:
        yield found


def expected(model, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.decision_function(table), model.predict_proba(table)[:, 1]


def sha256(folder):
    return hashlib.sha256((folder / "clicks.rafm").read_bytes()).hexdigest()


@pytest.mark.parametrize("n_rows", [1, 3, 150, 400])
def test_scores_are_those_of_the_library_and_name_the_file(server, model, folder, n_rows):
    table = table_of(n_rows, seed=1)
    scores, probabilities = expected(model, table)
    answer = server.ask("/score", {"rows": table.to_pylist()}).json()
    assert answer == {
        "model": "clicks",
        "sha256": sha256(folder),
        "score": scores.tolist(),
        "probability": probabilities.tolist(),
    }
    as_lists = [[row[name] for name in COLUMNS] for row in table.to_pylist()]
    assert server.ask("/score", {"rows": as_lists}).json() == answer


def test_work_that_waits_for_its_turn_tells_its_times(server):
    long, short = (server.ask("/score", {"rows": table_of(n_rows).to_pylist()}) for n_rows in (400, 1))
    parts = [part.partition(";dur=") for part in long.headers["server-timing"].split(", ")]
    assert [name for name, _, _ in parts] == ["read", "wait", "work", "cpu"]
    assert all(float(milliseconds) >= 0 for *_, milliseconds in parts)
    assert "server-timing" not in short.headers


def test_an_explanation_adds_up_and_unknown_columns_are_named(server, model):
    table = table_of(2, seed=2)
    rows = [{**row, "colour": "red", "<b>": 1} for row in table.to_pylist()]
    answer = server.ask("/score", {"rows": rows, "explain": 2}).json()
    assert answer["ignored"] == ["<b>", "colour"]
    for found, own in zip(answer["explanation"], model.explain(table)):
        assert found == json.loads(json.dumps(own.to_dict(2)))
        whole = found["bias"] + sum(term["value"] for term in found["terms"]) + found["rest"]
        assert whole == pytest.approx(found["score"], abs=1e-5)


def test_tensors_score_as_rows_do(server, model, folder):
    table = table_of(40, seed=3)
    scores, probabilities = expected(model, table)
    tags = [[*row, None, None, None][:3] for row in table["tags"].to_pylist()]
    inputs = [
        {"name": "word", "shape": [40], "datatype": "BYTES", "data": table["word"].to_pylist()},
        {"name": "user", "shape": [40, 1], "datatype": "INT64", "data": table["user"].to_pylist()},
        {"name": "price", "shape": [40], "datatype": "FP64", "data": table["price"].to_pylist()},
        {"name": "tags", "shape": [40, 3], "datatype": "BYTES", "data": tags},
    ]
    found = server.ask("/v2/models/clicks/infer", {"id": "seven", "inputs": inputs}).json()
    version = sha256(folder)
    assert (found["model_name"], found["model_version"], found["id"]) == ("clicks", version, "seven")
    by_name = {output["name"]: output for output in found["outputs"]}
    np.testing.assert_array_equal(by_name["score"]["data"], scores)
    np.testing.assert_array_equal(by_name["probability"]["data"], probabilities)
    assert by_name["score"]["shape"] == [40]
    one = {"inputs": inputs, "outputs": [{"name": "score"}]}
    versioned = server.ask(f"/v2/models/clicks/versions/{version}/infer", one).json()
    assert versioned["outputs"] == [by_name["score"]]


def test_tensors_of_bytes_are_refused_with_the_way_out(server):
    answer = server.ask("/v2/models/clicks/infer", b"{}\0\0", headers={"Inference-Header-Content-Length": "2"})
    assert answer.status == 400
    assert answer.error() == "tensors must be JSON, not bytes; for speed, send an Arrow stream to /score"
    assert server.ask("/v2").json()["extensions"] == []


ARROW = "application/vnd.apache.arrow.stream"


def stream_of(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=150 if table.num_rows < 10**6 else None)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("n_rows", [0, 1, 400])
def test_arrow_streams_score_as_the_library_does(server, model, folder, n_rows):
    table = table_of(n_rows, seed=7) if n_rows else table_of(1).slice(1)
    coded = table.set_column(0, "word", table["word"].dictionary_encode()).append_column("colour", pa.nulls(n_rows))
    scores, probabilities = expected(model, table) if n_rows else (np.zeros(0), np.zeros(0))
    as_json = server.ask("/score", stream_of(coded), headers={"Content-Type": ARROW}).json()
    assert (as_json["score"], as_json["probability"]) == (scores.tolist(), probabilities.tolist())
    assert (as_json["sha256"], as_json["ignored"]) == (sha256(folder), ["colour"])
    found = server.ask("/score", stream_of(coded), headers={"Content-Type": f"{ARROW}; x=y", "Accept": ARROW})
    assert found.headers["content-type"] == ARROW
    answer = pa.ipc.open_stream(found.body).read_all()
    assert answer.schema.metadata == {b"model": b"clicks", b"sha256": sha256(folder).encode()}
    np.testing.assert_array_equal(answer["score"].to_numpy(), scores)
    np.testing.assert_array_equal(answer["probability"].to_numpy(), probabilities)


def nulls(kind, n_rows):
    return pa.table({name: pa.nulls(n_rows, kind) for name in COLUMNS})


GOOD = table_of(20, seed=8)
BAD_STREAMS = {
    "nothing": (b"", 400),
    "JSON": (b'{"rows": []}', 400),
    "cut off": (stream_of(GOOD)[:700], 400),
    "compressed": (stream_of(GOOD, compression="zstd"), 400),
    "compressed words": (stream_of(pa.table({"word": GOOD["word"].dictionary_encode()}), compression="lz4"), 400),
    "not UTF-8": (stream_of(GOOD).replace(b"w0", b"\xff\xff"), 400),
    "a column too few": (stream_of(GOOD.select(COLUMNS[1:])), 422),
    "a column twice": (stream_of(GOOD.append_column("price", GOOD["price"])), 422),
    "another type": (stream_of(GOOD.set_column(0, "word", pa.array([True] * 20))), 422),
    "a type that no model takes": (stream_of(GOOD.append_column("when", nulls(pa.time32("s"), 20)["word"])), 422),
    "infinite": (stream_of(GOOD.set_column(2, "price", pa.array([float("inf")] * 20))), 422),
    "beyond its range": (stream_of(GOOD.set_column(2, "price", pa.array([1e17] * 20))), 422),
    "too many rows": (stream_of(table_of(501)), 422),
    "too many rows without bytes": (stream_of(nulls(pa.null(), 10**7)), 422),
    "lists without bytes": (
        stream_of(GOOD.set_column(3, "tags", pa.FixedSizeListArray.from_arrays(pa.nulls(2 * 10**7), 10**6))),
        413,
    ),
}


@pytest.mark.parametrize("case", BAD_STREAMS)
def test_a_bad_stream_is_refused_in_one_object(server, case):
    body, status = BAD_STREAMS[case]
    answer = server.ask("/score", body, headers={"Content-Type": ARROW})
    assert (answer.status, bool(answer.error())) == (status, True)
    assert "Traceback" not in server.errors()


def test_the_protocol_describes_server_and_model(server, folder):
    assert server.ask("/v2").json()["name"] == "rafm"
    about = server.ask("/v2/models/clicks").json()
    assert about["versions"] == [sha256(folder)]
    assert {one["name"]: one["datatype"] for one in about["inputs"]} == {
        "word": "BYTES",
        "user": "FP64",
        "price": "FP64",
        "tags": "BYTES",
    }
    assert [one["name"] for one in about["outputs"]] == ["score", "probability"]
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert server.ask(path, headers={"Authorization": ""}).status == 200
    assert server.ask("/v2/models/clicks/ready").status == 200


def test_recommendations_are_those_of_the_library(server, model):
    users = pa.table({"user": [1, 2], "price": [5.0, 1.0], "tags": [["t1"], []]})
    items = pa.table({"word": ["w1", "w2", "w0"]})
    expected = model.recommend(users, items, top=2, exclude=[np.array([0]), np.array([], int)])
    request = {"contexts": users.to_pylist(), "top": 2, "exclude": [[1], []]}
    for more in ({}, {"items": items.to_pylist()}):
        found = server.ask("/recommend", {**request, **more}).json()["contexts"]
        assert [[one["item"] - 1 for one in context["items"]] for context in found] == expected.items.tolist()
        np.testing.assert_array_equal(
            [[one["score"] for one in context["items"]] for context in found], expected.scores
        )
    assert found[0]["items"][0]["features"][0].startswith("word=")


ROW = {"word": "w1", "user": 1, "price": 2.0, "tags": []}
TENSOR = {"name": "word", "shape": [2], "datatype": "BYTES", "data": ["w1", "w2"]}
BAD = {
    "no JSON": ("/score", b"{rows", 400),
    "not UTF-8": ("/score", b'{"rows": ["\xff"]}', 400),
    "NaN": ("/score", b'{"rows": [{"price": NaN}]}', 400),
    "infinite": ("/score", b'{"rows": [{"price": -Infinity}]}', 400),
    "deep": ("/score", b'{"rows": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", 400),
    "many digits": ("/score", b'{"rows": [{"price": ' + b"9" * 5000 + b"}]}", 400),
    "empty": ("/score", b"", 400),
    "no object": ("/score", b"[]", 400),
    "no rows": ("/score", {}, 400),
    "unknown key": ("/score", {"rows": [], "explian": 3}, 400),
    "rows of text": ("/score", {"rows": ["w1"]}, 400),
    "explain text": ("/score", {"rows": [], "explain": "yes"}, 400),
    "explain too much": ("/score", {"rows": [], "explain": 10**6}, 422),
    "explain too many": ("/score", {"rows": [ROW] * 200, "explain": 1}, 422),
    "wrong type": ("/score", {"rows": [{**ROW, "user": True}]}, 422),
    "too large": ("/score", {"rows": [{**ROW, "price": 1e300}]}, 422),
    "overflow": ("/score", b'{"rows": [{"word": "", "user": 1, "price": 1e999, "tags": []}]}', 400),
    "surrogate": ("/score", b'{"rows": [{"word": "\\ud800", "user": 1, "price": 1, "tags": ["\\ud800", 1]}]}', 400),
    "missing column": ("/score", {"rows": [{"word": "w1"}]}, 422),
    "too few cells": ("/score", {"rows": [["w1"]]}, 422),
    "too many rows": ("/score", {"rows": [ROW] * 501}, 422),
    "unknown model": ("/v2/models/other/infer", {"inputs": []}, 404),
    "unknown version": ("/v2/models/clicks/versions/1/infer", {"inputs": []}, 404),
    "unknown address": ("/scores", {"rows": []}, 404),
    "no inputs": ("/v2/models/clicks/infer", {}, 400),
    "inputs of text": ("/v2/models/clicks/infer", {"inputs": "word"}, 400),
    "no context": ("/recommend", {"contexts": 3}, 400),
    "beyond its range": ("/score", {"rows": [{**ROW, "user": 9.3e18}]}, 422),
    "integer beyond 64 bits": ("/score", {"rows": [{**ROW, "user": 2**63}]}, 422),
    "one of many beyond its range": ("/score", {"rows": [ROW] * 300 + [{**ROW, "user": -1e19}]}, 422),
    "one of many of another type": ("/score", {"rows": [ROW] * 300 + [{**ROW, "word": True}]}, 422),
    "parameters of text": ("/v2/models/clicks/infer", {"inputs": [{**TENSOR, "parameters": "none"}]}, 400),
    "unknown input": ("/v2/models/clicks/infer", {"inputs": [{**TENSOR, "name": "colour"}]}, 422),
    "wrong datatype": ("/v2/models/clicks/infer", {"inputs": [{**TENSOR, "datatype": "INT8", "data": [1, 2]}]}, 422),
    "inputs twice": ("/v2/models/clicks/infer", {"inputs": [TENSOR, TENSOR]}, 422),
    "unequal inputs": (
        "/v2/models/clicks/infer",
        {"inputs": [TENSOR, {**TENSOR, "name": "user", "datatype": "FP32", "shape": [1], "data": [1]}]},
        422,
    ),
    "missing input": ("/v2/models/clicks/infer", {"inputs": [TENSOR]}, 422),
    "unknown output": ("/v2/models/clicks/infer", {"inputs": [TENSOR], "outputs": [{"name": "class"}]}, 400),
    "exclude nothing": ("/recommend", {"contexts": [], "exclude": None}, 400),
    "exclude for others": ("/recommend", {"contexts": [], "exclude": [[1]]}, 422),
    "exclude too much": ("/recommend", {"contexts": [{"user": 1}], "exclude": [[2**31]]}, 400),
    "exclude zero": ("/recommend", {"contexts": [ROW], "exclude": [[0]]}, 400),
    "exclude unknown": ("/recommend", {"contexts": [{"user": 1}], "exclude": [[9]]}, 422),
    "column on both sides": ("/recommend", {"contexts": [ROW]}, 422),
}
for change, status in (
    ({"shape": [3]}, 422),
    ({"shape": [-1]}, 400),
    ({"shape": [2, 1, 1]}, 400),
    ({"shape": "2"}, 400),
    ({"shape": [10**400]}, 400),
    ({"shape": [2.5]}, 400),
    ({"datatype": "FP8"}, 400),
    ({"datatype": ["BYTES"]}, 400),
    ({"data": ["w1", 2]}, 422),
    ({"data": "w1"}, 400),
    ({"data": [["w1"], "w2"]}, 422),
    ({"name": 7}, 400),
    ({"extra": 1}, 400),
):
    BAD[f"tensor {change}"] = ("/v2/models/clicks/infer", {"inputs": [{**TENSOR, **change}]}, status)


def test_ids_may_be_numbers_or_text(server):  # case 135
    found = [
        server.ask("/score", {"rows": [{**ROW, "user": id}]}).json()["score"] for id in (1, 1.0, "1", "1.0", "new")
    ]
    assert found[0] == found[1] == found[2] == found[3] != found[4]
    as_text = GOOD.set_column(1, "user", GOOD["user"].cast(pa.string()))
    answers = [server.ask("/score", stream_of(one), headers={"Content-Type": ARROW}) for one in (GOOD, as_text)]
    assert answers[0].json()["score"] == answers[1].json()["score"]


def test_rows_are_counted_from_one(server):
    less = {name: cell for name, cell in ROW.items() if name != "user"}
    for wrong in (less, {**ROW, "price": 1e300}):
        for n_before in (0, 1, 170):
            answer = server.ask("/score", {"rows": [*[ROW] * n_before, wrong]})
            assert (answer.status, f"row {n_before + 1}" in answer.error()) == (422, True), answer.error()


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_is_refused_in_one_object(server, case):
    path, content, status = BAD[case]
    answer = server.ask(path, content)
    assert (answer.status, bool(answer.error())) == (status, True)
    assert "Traceback" not in server.errors()


def test_a_wrong_method_is_told_the_right_one(server):
    answer = server.ask("/score")
    assert (answer.status, answer.headers["allow"], answer.error()) == (405, "POST", "this address has no such method")
    assert server.ask("/v2", method="DELETE").status == 405


@pytest.mark.parametrize("given", [None, "", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ü"])
def test_a_wrong_token_opens_nothing_and_is_not_logged(server, given):
    headers = {"Authorization": (given or "").encode("latin-1")}
    for path, content in (("/score", {"rows": []}), ("/metrics", None), ("/openapi.json", None), ("/columns", None)):
        answer = server.ask(path, content, headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in server.errors()


def test_a_long_body_is_refused_with_and_without_its_length(server):
    long = b'{"rows": [' + b" " * 150_000 + b"]}"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(long), long)
    for body, headers in ((long, {}), (chunked, {"Transfer-Encoding": "chunked"})):
        answer = server.ask("/score", body, headers=headers)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert "100000 bytes" in answer.error()


def test_slow_clients_are_closed_and_others_served(server):
    starts = (b"", b"POST /sc", b"\r\n", b"POST /score HTTP/1.1\r\nHost: x\r\nAuthor")
    body = f"POST /score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 99\r\n\r\n{{"
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in (*starts, body)]
    for sock, start in zip(sockets, (*starts, body.encode())):
        sock.sendall(start)
    assert server.ask("/score", {"rows": [ROW]}).status == 200
    answers = []
    for sock in sockets:
        sock.settimeout(120)
        answers.append(b"".join(iter(lambda sock=sock: sock.recv(4096), b"")))
        sock.close()
    assert answers[:-1] == [b""] * 4
    assert answers[-1].startswith(b"HTTP/1.1 408 ")


def test_a_long_head_is_refused(server):
    answer = server.ask("/v2", headers={"X-Long": "x" * 40_000})
    assert answer.status == 400
    answer = server.ask("/v2", headers={f"X-{number}": "x" for number in range(200)})
    assert answer.status == 400


def test_metrics_count_requests_and_rows_of_all_workers(server):
    rows = server.metric("rafm_rows_total")
    for _ in range(10):
        server.ask("/score", {"rows": [ROW] * 3})
    assert server.metric("rafm_rows_total") == rows + 30
    text = server.ask("/metrics").body.decode()
    counts = [line for line in text.splitlines() if line.startswith('rafm_requests_total{route="score",code="200"}')]
    assert len(counts) == 1
    assert until(lambda: server.metric("rafm_workers_ready") == 2)
    assert "# TYPE rafm_request_seconds histogram" in text


def test_the_document_names_every_route_and_the_columns(server):
    document = server.ask("/openapi.json").json()
    assert {*document["components"]["schemas"]["Row"]["properties"]} == {*COLUMNS}
    for path, methods in document["paths"].items():
        assert server.ask(path, {} if "post" in methods else None).status in (200, 400), path


def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path):
    (tmp_path / "bad.rafm").write_bytes(b"not a model")
    ran = run_alone("serve", tmp_path / "bad.rafm", "--port", 0)
    assert (ran.code, "bad.rafm" in ran.error()) == (4, True)
