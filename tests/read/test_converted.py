"""Converted files: nothing in them can change unnoticed, and they are used only with what they were made for."""

import os
import shutil
import signal
import subprocess
import time
import zlib

import numpy as np
import pyarrow as pa
import pytest
from commands import finish, rows_of_pairs, run, start

import rafm.rows.blocks
from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec
from rafm.errors import DataError
from rafm.files.container import container_chunks, parse_container
from rafm.model.file import load
from rafm.read.converted.layout import KIND, Blocks, Conversion, description
from rafm.read.converted.reader import ArrowRows
from rafm.read.converted.writer import write_arrow
from rafm.rows.arrow import array_of
from rafm.rows.blocks import take_rows
from rafm.rows.checked import Batch, check_batch

DATA, USAGE = 3, 2
INT32 = pa.int32()


def table_text(n, seed, first=0):
    """Return CSV text whose label two columns tell together; first: the number of the first user."""
    draw = np.random.default_rng(seed)
    lines = ["click,user,item"]
    for _ in range(n):
        user, item = first + draw.integers(20), draw.integers(15)
        lines.append(f"{int((user + item) % 2 == 0)},u{user:02d},i{item}")
    return "\n".join(lines) + "\n"


def auc(model, data):
    judged = run("evaluate", model, data, "--json")
    assert judged.code == 0, judged.err
    return judged.json()["auc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two tables, each converted by itself, and a model of the first."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "a.csv").write_text(table_text(600, 0))
    (folder / "b.csv").write_text(table_text(600, 1, first=1))
    for name in "ab":
        assert run("convert", folder / f"{name}.csv", folder / f"{name}.arrow", "--label", "click").code == 0
    assert train(folder, "a.csv", "m.rafm", "--label", "click").code == 0
    return folder


def train(folder, data, out, *options):
    return run("train", folder / data, "--out", folder / out, "--ranks", "2,4", "--epochs", "6", "--l2", 0, *options)


# ---- Used with what they were made for


USES = {
    "evaluate": ("evaluate", "m.rafm", "b.arrow"),
    "predict": ("predict", "m.rafm", "b.arrow"),
    "--valid": ("train", "a.arrow", "--valid", "b.arrow", "--out", "no.rafm"),
    "--valid of a table": ("train", "a.csv", "--label", "click", "--valid", "b.arrow", "--out", "no.rafm"),
    "--resume-from": ("train", "b.arrow", "--resume-from", "m.rafm", "--out", "no.rafm"),
}


def within(folder, arguments):
    return [folder / argument if "." in argument else argument for argument in arguments]


@pytest.mark.parametrize("arguments", USES.values(), ids=USES)
def test_rows_of_another_encoder_are_refused_by_both_names_and_the_way_out(folder, arguments):  # case 93
    ran = run(*within(folder, arguments))
    assert ran.code == DATA
    message = ran.err.splitlines()[-1]
    assert message.startswith(f"error: {folder / 'b.arrow'}: its encoder is ")
    assert ("that of the training rows is " in message) == ("--valid" in arguments)
    assert message.count("features of item, user") == 2
    assert "rafm convert IN OUT --like" in message
    assert not (folder / "no.rafm").exists()


@pytest.mark.parametrize("like", ["m.rafm", "a.arrow"])
def test_rows_converted_like_a_model_are_scored_as_their_source(folder, tmp_path, like):  # case 93
    out = tmp_path / "like.arrow"
    made = run("convert", folder / "b.csv", out, "--like", folder / like)
    assert made.code == 0, made.err
    assert auc(folder / "m.rafm", out) == auc(folder / "m.rafm", folder / "b.csv") > 0.9
    assert run("predict", folder / "m.rafm", out).out == run("predict", folder / "m.rafm", folder / "b.csv").out
    judged = run("train", folder / "a.arrow", "--valid", out, "--out", tmp_path / "m", "--epochs", "1", "--ranks", "2")
    assert judged.code == 0, judged.err


@pytest.mark.parametrize("option", [["--label", "click"], ["--min-count", "2"], ["--column", "user=category"]])
def test_the_columns_of_a_model_cannot_be_said_differently(folder, tmp_path, option):
    ran = run("convert", folder / "b.csv", tmp_path / "o.arrow", "--like", folder / "m.rafm", *option)
    assert ran.code == USAGE
    assert f"{option[0]} cannot be combined with --like" in ran.error()


def test_task_and_index_base_cannot_contradict_the_model(folder, tmp_path):
    for option in (["--task", "regression"], ["--index-base", "1"]):
        ran = run("convert", folder / "b.csv", tmp_path / "o.arrow", "--like", folder / "m.rafm", *option)
        assert ran.code == USAGE
        assert f"{' '.join(option)} contradicts --like" in ran.error()


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    """Return a folder with rows of ids that count from 1 and from 0, converted, and models of both."""
    folder = tmp_path_factory.mktemp("ids")
    for base in (0, 1):
        (folder / f"{base}.svm").write_text(rows_of_pairs(600, base=base))
        made = run("convert", folder / f"{base}.svm", folder / f"{base}.arrow", "--index-base", base)
        assert made.code == 0, made.err
        trained = train(folder, f"{base}.arrow", f"{base}.rafm")
        assert trained.code == 0, trained.err
    return folder


def test_the_index_base_travels_into_the_model(ids):  # case 94
    assert [load(ids / f"{base}.rafm").index_base for base in (0, 1)] == [0, 1]
    for base in (0, 1):
        model = ids / f"{base}.rafm"
        assert auc(model, ids / f"{base}.svm") == auc(model, ids / f"{base}.arrow") > 0.9


@pytest.mark.parametrize("command", ["evaluate", "predict", "--resume-from", "--valid"])
def test_another_index_base_is_refused(ids, command):  # case 94
    used = {
        "--resume-from": ("train", ids / "0.arrow", "--resume-from", ids / "1.rafm", "--out", ids / "no"),
        "--valid": ("train", ids / "1.arrow", "--valid", ids / "0.arrow", "--out", ids / "no"),
    }
    ran = run(*used.get(command, (command, ids / "1.rafm", ids / "0.arrow")))
    assert ran.code == DATA
    whose = "the training rows" if command == "--valid" else "the model"
    assert f"0.arrow: its ids start from 0, those of {whose} from 1. " in ran.err
    assert "rafm convert IN OUT --like" in ran.err


def test_an_index_base_or_task_that_contradicts_the_file_is_refused(ids):  # cases 94 and 95
    for option, value in (("--index-base", "0"), ("--task", "regression")):
        ran = run("train", ids / "1.arrow", "--out", ids / "no", option, value)
        assert ran.code == USAGE
        assert f"drop {option}" in ran.error()
    assert run("train", ids / "1.arrow", "--out", ids / "same", "--index-base", 1, "--task", "binary").code == 0


def test_rows_for_another_task_are_refused(ids, tmp_path):  # case 95
    (tmp_path / "r.svm").write_text("".join(f"{k % 5 + 1} {k % 7}:1\n" for k in range(100)))
    assert run("convert", tmp_path / "r.svm", tmp_path / "r.arrow", "--task", "regression").code == 0
    assert run("train", tmp_path / "r.arrow", "--out", tmp_path / "r.rafm").code == 0
    assert load(tmp_path / "r.rafm").model.loss.task == "regression"  # the file's, though binary is the default
    for command in ("evaluate", "predict"):
        ran = run(command, ids / "0.rafm", tmp_path / "r.arrow")
        assert ran.code == DATA
        assert "converted for --task regression, but the task of the model is binary. " in ran.error()
    ran = run("train", ids / "0.arrow", "--valid", tmp_path / "r.arrow", "--out", tmp_path / "no")
    assert (ran.code, "but the task of the training rows is binary" in ran.err) == (DATA, True)


# ---- Nothing changes unnoticed


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return a small converted table of several blocks, with labels and weights."""
    table = pa.table({"y": [0.0, 1, 1, 0, 1], "w": [1.0, 2, 1, 1, 3], "c": ["a", "b", "a", None, "c"], "n": range(5)})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(label="y", weight="w"))
    path = tmp_path_factory.mktemp("small") / "rows.arrow"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rafm.rows.blocks, "BLOCK_ROWS", 2)
        write_arrow(path, [check_batch(rows)], Conversion("binary"), encoder=encoder)
    return path


def read_all(path):
    rows = ArrowRows(path)
    return rows.encoder, [rows.block(number) for number in range(rows.n_blocks)]


def test_a_flipped_bit_anywhere_is_an_error_of_the_data(small, tmp_path):  # case 96
    whole, path = small.read_bytes(), tmp_path / "flipped.arrow"
    assert len(read_all(small)[1]) == 3
    draw = np.random.default_rng(0)
    for place in range(0, len(whole), 3):  # numbers of the format have four bytes and more
        changed = bytearray(whole)
        changed[place] ^= 1 << int(draw.integers(8))
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"flipped\.arrow: "):
            read_all(path)


def test_an_early_end_anywhere_is_an_error_of_the_data(small, tmp_path):  # case 96
    whole, path = small.read_bytes(), tmp_path / "cut.arrow"
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            read_all(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError):
        read_all(path)


def forged(path, batch, about=None, n_features=10, tensors=None, offsets=None):
    """Write a file with right checksums, whatever is in the record batch and the description.

    offsets: instead of those of `record`, which Arrow would not let be wrong.
    """
    schema = batch.schema.with_metadata({"rafm": "2"})
    empty, whole = pa.BufferOutputStream(), pa.BufferOutputStream()
    pa.ipc.new_file(empty, schema).close()
    empty = empty.getvalue().to_pybytes()
    head = len(empty) - 18 - int.from_bytes(empty[-10:-6], "little")
    with pa.ipc.new_file(whole, schema) as writer:
        writer.write_batch(batch)
        end = whole.tell()
    whole = whole.getvalue().to_pybytes()
    if offsets is not None:
        whole = whole.replace(np.array([0, 2, 3], np.int32).tobytes(), np.array(offsets, np.int32).tobytes())
    sums = [zlib.crc32(part) for part in (whole[:head], whole[head:end], whole[end:])]
    blocks = Blocks(np.array([head, end]), np.array([batch.num_rows]), np.array(sums))
    told = b"".join(description(Conversion("binary"), None, n_features, blocks))
    if about is not None or tensors is not None:
        header, known = parse_container(told)
        told = b"".join(container_chunks({**known, **(tensors or {})}, {**header, **(about or {})}))
    path.write_bytes(whole[: end + 8] + told + len(told).to_bytes(8, "little") + whole[end + 8 :])
    return path


def lists(offsets, items, kind=INT32, nulls=None):
    """Return an array of lists that nobody checks."""
    buffers = [None if nulls is None else pa.py_buffer(bytes([nulls])), pa.py_buffer(np.array(offsets, np.int32))]
    items = pa.array(items, kind)
    return pa.Array.from_buffers(pa.list_(kind), len(offsets) - 1, buffers, -1, 0, [items])


def record(offsets=(0, 2, 3), ids=(1, 2, 3), values=(1, 1, 1), labels=(0, 1), **changes):
    columns = {
        "label": array_of(np.array(labels)),
        "ids": lists(offsets, ids),
        "values": lists(offsets, values, pa.float32()),
    }
    return pa.record_batch({**columns, **changes})


FORGED = {
    "an id out of range": record(ids=(1, 2, 10)),
    "a negative id": record(ids=(1, -2, 3)),
    "a value that is NaN": record(values=(1, np.nan, 1)),
    "an infinite value": record(values=(1, np.inf, 1)),
    "a label that is NaN": record(labels=(0, np.nan)),
    "a label that is not binary": record(labels=(0, 7)),
    "a negative weight": pa.record_batch(
        {
            "label": array_of(np.array([0, 1])),
            "weight": array_of(np.array([1, -1])),
            "ids": lists((0, 2, 3), (1, 2, 3)),
            "values": lists((0, 2, 3), (1, 1, 1), pa.float32()),
        }
    ),
    "other offsets for values": record().set_column(2, "values", lists((0, 1, 3), (1, 1, 1), pa.float32())),
    "a null list": record().set_column(1, "ids", lists((0, 2, 3), (1, 2, 3), nulls=0b10)),
    "a null id": record().set_column(1, "ids", pa.array([[1, None], [3]], pa.list_(pa.int32()))),
    "a null label": record().set_column(0, "label", pa.array([0, None], pa.float32())),
    "wide values": record().set_column(2, "values", lists((0, 2, 3), (1, 1, 1), pa.float64())),
    "ids of text": record().set_column(1, "ids", pa.array([["a"], ["b"]])),
    "labels of text": record().set_column(0, "label", pa.array(["0", "1"])),
    "no ids": record().drop_columns(["ids"]),
    "one column more": record(other=pa.array([1, 2])),
    "columns in another order": record().select(["label", "values", "ids"]),
}
BAD_DESCRIPTIONS = {
    "kind": {"about": {"kind": "model"}},
    "version of tomorrow": {"about": {"version": 3}},
    "version of text": {"about": {"version": "2"}},
    "task": {"about": {"task": 7}},
    "index base": {"about": {"index_base": 2}},
    "truth as index base": {"about": {"index_base": True}},
    "features": {"about": {"n_features": -1}},
    "more features than there can be": {"about": {"n_features": 2**63}},
    "source": {"about": {"source": []}},
    "encoder": {"about": {"encoder": {"version": 1, "columns": [], "table": {}}}},
    "encoder of nonsense": {"about": {"encoder": {"a": 1}}},
    "ends beyond the file": {"tensors": {"ends": np.array([400, 2**60])}},
    "ends that fall": {"tensors": {"ends": np.array([2**60, 400])}},
    "ends of fractions": {"tensors": {"ends": np.array([1.0, 2.0])}},
    "no ends": {"tensors": {"ends": np.zeros(0, np.int64)}},
    "rows": {"tensors": {"rows": np.array([3])}},
    "negative rows": {"tensors": {"rows": np.array([-2])}},
    "checksums": {"tensors": {"checksums": np.array([1, 2])}},
}
BAD_OFFSETS = {"beyond the data": (0, 2, 10**6), "fall": (0, 3, 2), "start late": (1, 2, 3), "negative": (0, -5, 3)}
CASES = {
    **{name: {"batch": batch} for name, batch in FORGED.items()},
    **{f"description: {name}": {"batch": record(), **changes} for name, changes in BAD_DESCRIPTIONS.items()},
    **{f"offsets: {name}": {"batch": record(), "offsets": found} for name, found in BAD_OFFSETS.items()},
}


@pytest.fixture(scope="module")
def of_ids(tmp_path_factory):
    """Return a model of 10 ids."""
    folder = tmp_path_factory.mktemp("of_ids")
    rows = check_batch(Batch(np.arange(11), np.arange(10), np.ones(10), 10, np.arange(10) % 2))
    write_arrow(folder / "rows.arrow", [rows], Conversion("binary"))
    assert run("train", folder / "rows.arrow", "--out", folder / "m.rafm", "--ranks", "2", "--epochs", "1").code == 0
    return folder / "m.rafm"


def test_what_is_forged_here_is_otherwise_right(tmp_path, of_ids):
    path = forged(tmp_path / "right.arrow", record())
    assert ArrowRows(path).block(0).indices.tolist() == [1, 2, 3]
    for arguments in (["inspect", path], ["evaluate", of_ids, path], ["train", path, "--out", tmp_path / "m"]):
        assert run(*arguments).code == 0


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_forged_files_are_one_line_in_every_command(case, tmp_path, of_ids):  # case 96
    path = forged(tmp_path / "forged.arrow", **case)
    commands = (
        ["train", path, "--out", tmp_path / "m.rafm"],
        ["evaluate", of_ids, path],
        ["predict", of_ids, path],
        ["inspect", path],
    )
    for arguments in commands:
        ran = run(*arguments)
        assert (ran.code, ran.out) == (DATA, ""), (arguments, ran)
        assert ran.error().startswith(f"{path}: ")
    assert not (tmp_path / "m.rafm").exists()


def test_files_of_other_versions_and_programs_are_refused(tmp_path):
    path = tmp_path / "old.arrow"
    for metadata, message in (
        ({"rafm": '{"version": 1}'}, "converted by an older version; convert it again"),
        ({}, "an Arrow file, but not written by `rafm convert`"),
    ):
        with pa.ipc.new_file(path, record().schema.with_metadata(metadata)) as writer:
            writer.write_batch(record())
        for command in ("inspect", "train"):
            ran = run(command, path, *(["--out", tmp_path / "m"] if command == "train" else []))
            assert (ran.code, ran.error()) == (DATA, f"{path}: {message}")


def test_a_model_file_has_another_kind(of_ids):
    assert parse_container(of_ids.read_bytes())[0].get("kind") != KIND


# ---- Changed while they are read


@pytest.fixture
def many_blocks(tmp_path):
    """Return a converted file of many blocks, another one as long, and a source that reads the first."""
    draw, paths = np.random.default_rng(0), []
    for name in ("first", "second"):
        ids = draw.integers(0, 1000, 40_000).astype(np.int32)
        rows = check_batch(Batch(np.arange(0, 40_001, 2), ids, np.ones(40_000), 1000, draw.integers(0, 2, 20_000)))
        paths.append(tmp_path / f"{name}.arrow")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rafm.rows.blocks, "BLOCK_ROWS", 1000)
            write_arrow(paths[-1], [take_rows(rows, 0, 20_000)], Conversion("binary"))
    return paths


def test_a_file_that_is_replaced_is_read_on_as_it_was(many_blocks):  # case 97
    first, second = many_blocks
    source, expected = ArrowRows(first), ArrowRows(shutil.copy(first, first.with_suffix(".copy")))
    source.block(0)
    os.replace(second, first)
    for number in range(source.n_blocks):
        np.testing.assert_array_equal(source.block(number).indices, expected.block(number).indices)


@pytest.mark.parametrize("change", ["written over", "cut"])
def test_a_file_that_changes_in_place_is_an_error(many_blocks, change):  # case 97
    first, second = many_blocks
    source = ArrowRows(first)
    source.block(0)
    if change == "cut":
        os.truncate(first, 1000)
    else:
        with open(first, "r+b") as file:
            file.write(second.read_bytes())
    with pytest.raises(DataError, match=r"changed after it was written|ends early"):
        [source.block(number) for number in range(source.n_blocks)]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["replaced", "written over", "cut"])
def test_training_survives_what_happens_to_its_file(many_blocks, tmp_path, change):  # case 97
    first, second = many_blocks
    arguments = [
        "train",
        first,
        "--out",
        tmp_path / "m",
        "--ranks",
        "2",
        "--epochs",
        "100000",
        "--max-seconds",
        "20",
        "--valid-share",
        "0",
        "--memory",
        "0",
    ]
    process = start(*arguments, stdin=subprocess.DEVNULL)
    for line in iter(process.stdout.readline, b""):
        if line.split()[:1] == [b"2"]:
            break
    if change == "replaced":
        os.replace(second, first)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert finish(process).code == 130
        return
    if change == "cut":
        os.truncate(first, 5000)
    else:
        subprocess.run(["cp", second, first], check=True)
    ran = finish(process)
    assert ran.code == DATA, ran
    assert ran.err.startswith(f"error: {first}: ")
    assert ran.err.count("\n") == 1


# ---- Convert again


OPTIONS = {
    "another minimum count": ["--min-count", "3"],
    "another column": ["--column", "item=category"],
    "another label": ["--label", "item_id"],
    "a given format": ["--format", "csv"],
    "other duplicates": ["--duplicates", "sum"],
    "a maximum of features": ["--max-features", "1000000"],
    "longer lines": ["--max-line-bytes", "1000000"],
    "wide ids": ["--wide-ids"],
    "another task": ["--task", "regression"],
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_other_options_convert_again(options, tmp_path):  # case 98
    data, out, usual = tmp_path / "t.csv", tmp_path / "t.arrow", ["--label", "click"]
    data.write_text("click,item,item_id\n" + "".join(f"{k % 2},i{k % 9},{k % 2}\n" for k in range(50)))
    if options[0] in ("--duplicates", "--max-features", "--max-line-bytes"):  # for rows of ids
        data, usual = tmp_path / "t.svm", []
        data.write_text("".join(f"{k % 2} {k % 9}:1\n" for k in range(50)))
    assert "saved" in run("convert", data, out, *usual).out
    assert "kept" in run("convert", data, out, *usual).out
    assert "saved" in run("convert", data, out, *usual, *options).out
    assert "kept" in run("convert", data, out, *usual, *options).out


def test_another_model_converts_again(folder, tmp_path):  # case 98
    out, other = tmp_path / "o.arrow", tmp_path / "b.rafm"
    assert run("train", folder / "b.csv", "--label", "click", "--out", other, "--epochs", "1", "--ranks", "2").code == 0
    given = ("convert", folder / "b.csv", out, "--like")
    found = [run(*given, model).out.split()[0] for model in (folder / "m.rafm", folder / "m.rafm", other, other)]
    assert found == ["saved", "kept", "saved", "kept"]
    assert "saved" in run("convert", folder / "b.csv", out, "--label", "click").out


def test_a_damaged_conversion_is_made_again(folder, tmp_path):
    out = tmp_path / "o.arrow"
    given = ("convert", folder / "a.csv", out, "--label", "click")
    assert "saved" in run(*given).out
    whole = bytearray(out.read_bytes())
    whole[len(whole) // 4] ^= 1
    out.write_bytes(whole)
    assert "saved" in run(*given).out
    assert "kept" in run(*given).out


# ---- Ended


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda end: end.name)
def test_nothing_is_left_when_converting_is_ended(end, tmp_path):  # case 109
    out = tmp_path / "out"
    out.mkdir()
    process = start("convert", "-", out / "rows.arrow", "--format", "libsvm", stdin=subprocess.PIPE)
    text = rows_of_pairs(20_000).encode()
    for _ in range(400):
        process.stdin.write(text)
        if any(path.stat().st_size > 10**6 for path in out.iterdir()):
            break
    assert [path.suffix for path in out.iterdir()] == [".tmp"]
    process.send_signal(end)
    code = process.wait(60)
    process.stdin = process.stdin.close()
    err = process.communicate()[1]
    assert code == {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}[end], err
    assert os.listdir(out) == []
