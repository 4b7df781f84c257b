"""Rows that wait: in memory or in a temporary file, and nothing else depends on which."""

import errno
import os
import signal
import subprocess
import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from commands import finish, rows_of_pairs, run, run_alone, start
from hypothesis import given
from hypothesis import strategies as st
from tables import assert_same_rows
from worlds import changed_rows

import rafm.rows.blocks
from rafm.errors import ConfigError
from rafm.read.converted.layout import Conversion
from rafm.read.converted.reader import ArrowRows
from rafm.read.converted.writer import write_arrow
from rafm.rows.arrow import arrays_of_batch, batch_of_arrays, record_batch_of
from rafm.rows.blocks import cut_blocks, join_rows, take_rows
from rafm.rows.checked import Batch, check_batch
from rafm.rows.spill import Spill, SpilledRows, SpillOptions, loaded

BATCHES = [pa.record_batch({"x": np.arange(n), "words": ["a", None, "b"] * (n // 3)}) for n in (3, 30, 300)]


@pytest.mark.parametrize("megabytes", [0, 0.001, 1], ids=["all in the file", "the first in memory", "all in memory"])
def test_batches_come_back_as_they_were(megabytes, tmp_path):
    said = []
    waiting = Spill(SpillOptions(megabytes, tmp_path, said.append), arrays_of_batch, batch_of_arrays)
    for batch in BATCHES:
        waiting.append(batch)
    assert len(waiting) == 3
    assert waiting.in_memory == (megabytes == 1)
    assert len(said) == (megabytes < 1)
    assert [waiting[number] for number in (2, 0, 1)] == [BATCHES[2], BATCHES[0], BATCHES[1]]
    assert list(waiting.taken()) == BATCHES
    assert os.listdir(tmp_path) == []


def test_batches_may_have_different_columns():
    waiting = Spill(SpillOptions(0), arrays_of_batch, batch_of_arrays)
    mixed = [pa.record_batch({"x": [1]}), pa.record_batch({"x": ["a"], "y": [2.0]})]
    for batch in mixed:
        waiting.append(batch)
    assert list(waiting.taken()) == mixed


def test_memory_limits_are_checked():
    for megabytes in (-1, float("nan")):
        with pytest.raises(ConfigError, match="memory must be at least 0"):
            SpillOptions(megabytes)


# ---- Blocks


def rows_of(lengths):
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    labels = np.arange(len(lengths))
    return check_batch(Batch(indptr, np.arange(indptr[-1]), np.ones(indptr[-1]), 10_000, labels=labels))


@given(lengths=st.lists(st.integers(0, 9), max_size=60), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_blocks_depend_on_the_rows_alone(lengths, cuts):
    rows, places = rows_of(lengths), sorted({0, len(lengths), *(cut for cut in cuts if cut < len(lengths))})
    pieces = [take_rows(rows, first, stop) for first, stop in pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rafm.rows.blocks, "BLOCK_ROWS", 7)
        patch.setattr(rafm.rows.blocks, "BLOCK_ENTRIES", 8)
        whole, cut = list(cut_blocks([rows])), list(cut_blocks(pieces))
    assert [block.indices.tolist() for block in cut] == [block.indices.tolist() for block in whole]
    assert [block.labels.tolist() for block in cut] == [block.labels.tolist() for block in whole]
    for block, after in zip(whole, [*whole[1:], None]):
        assert block.n_rows == 1 or (block.n_rows <= 7 and block.indices.size <= 8)
        if after is not None:
            first = after.indptr[1]
            assert block.n_rows == 7 or block.indices.size + first > 8
    if lengths:
        assert join_rows(whole).indptr.tolist() == rows.indptr.tolist()


@pytest.mark.parametrize("wide", [False, True])
def test_converted_rows_are_the_same_bytes_in_one_piece_or_many(tmp_path, monkeypatch, wide):
    monkeypatch.setattr(rafm.rows.blocks, "BLOCK_ENTRIES", 20)
    rows = rows_of([3, 0, 9, 4, 5, 1, 1, 30, 0])
    rows = changed_rows(rows, values=np.arange(rows.indices.size) / 8)
    pieces = [take_rows(rows, row, row + 1) for row in range(rows.n_rows)]
    whole, cut = tmp_path / "whole.arrow", tmp_path / "cut.arrow"
    assert write_arrow(whole, [rows], wide_ids=wide) == write_arrow(cut, pieces, wide_ids=wide)
    assert whole.read_bytes() == cut.read_bytes()
    found = join_rows([ArrowRows(cut).block(number) for number in range(ArrowRows(cut).n_blocks)])
    assert found.indices.tolist() == rows.indices.tolist()
    assert found.values.tolist() == rows.values.tolist()


def test_converted_rows_are_the_bytes_that_arrow_writes_of_joined_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(rafm.rows.blocks, "BLOCK_ENTRIES", 20)
    rows = rows_of([3, 0, 9, 4, 5, 1, 1, 30, 0])
    blocks = [record_batch_of(block, np.int32) for block in cut_blocks([rows])]
    expected = pa.BufferOutputStream()
    with pa.ipc.new_file(expected, blocks[0].schema.with_metadata({"rafm": "2"})) as writer:
        for block in blocks:
            writer.write_batch(block)
    expected = expected.getvalue().to_pybytes()
    write_arrow(tmp_path / "rows.arrow", (take_rows(rows, row, row + 1) for row in range(rows.n_rows)))
    found, footer = (tmp_path / "rows.arrow").read_bytes(), 10 + int.from_bytes(expected[-10:-6], "little")
    assert found.startswith(expected[:-footer])  # then the description, which Arrow passes over
    assert found.endswith(expected[-footer:])
    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all() == pa.Table.from_batches(blocks)


# ---- Training from the command line


def table_text(n, separator=","):
    draw = np.random.default_rng(0)
    rows = [["click", "user", "item", "price", "when"]]
    for _ in range(n):
        user, item = draw.integers(20), draw.integers(15)
        click = int((user + item) % 2 == 0)
        rows.append([click, f"u{user}", f"i{item}", f"{draw.normal(9, 3):.2f}", f"2014-10-{1 + user:02d}T08:00"])
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


def criteo_text(n):
    draw = np.random.default_rng(1)
    counts, codes = draw.integers(0, 90, (n, 13)), draw.integers(0, 9, (n, 26))
    rows = ([k % 2, *some, *(f"{code:08x}" for code in others)] for k, (some, others) in enumerate(zip(counts, codes)))
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def avazu_text(n):
    draw = np.random.default_rng(2)
    rows = ([1000 + k, k % 2, 14102100 + k % 24, *codes] for k, codes in enumerate(draw.integers(0, 9, (n, 21))))
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def libffm_text(n):
    lines = [line.split() for line in rows_of_pairs(n).splitlines()]
    return "".join(f"{label} 0:{user} 1:{item}\n" for label, user, item in lines)


SOURCES = {
    "libsvm": (rows_of_pairs, []),
    "libffm": (libffm_text, []),
    "csv": (table_text, ["--label", "click"]),
    "tsv": (lambda n: table_text(n, "\t"), ["--label", "click"]),
    "criteo": (criteo_text, []),
    "avazu": (avazu_text, []),
}
OPTIONS = ["--ranks", "2,4", "--epochs", "3", "--seed", "5"]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(rafm.rows.blocks, "BLOCK_ROWS", 64)
    monkeypatch.setattr("rafm.encode.table_blocks.BLOCK_ROWS", 50)


def trained(folder, data, *options, stdin=b""):
    ran = run("train", data, "--out", folder / "m.rafm", *OPTIONS, *options, stdin=stdin)
    assert ran.code == 0, ran.err
    return (folder / "m.rafm").read_bytes(), ran.out


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("format", SOURCES)
def test_spilled_converted_and_piped_rows_give_the_same_model(format, tmp_path):
    make, options = SOURCES[format]
    path, spill = tmp_path / f"rows.{format}", tmp_path / "spill"
    path.write_text(make(300))
    spill.mkdir()
    options = [*options, "--format", format, "--valid", path]
    held, said = trained(tmp_path, path, *options)
    assert "temporary file" not in said
    spilled, said = trained(tmp_path, path, *options, "--memory", 0, "--spill", spill)
    assert said.count("temporary file") == 1
    assert f"temporary file in {spill}" in said
    assert spilled == held
    assert os.listdir(spill) == []
    piped, _ = trained(tmp_path, "-", *options, "--memory", 0, stdin=path.read_bytes())
    assert piped == held
    assert run("convert", path, tmp_path / "rows.arrow", *options[:-2]).code == 0
    valid = ["--valid", tmp_path / "rows.arrow"]
    assert trained(tmp_path, tmp_path / "rows.arrow", *valid)[0] == held


@pytest.mark.usefixtures("small_blocks")
def test_a_parquet_folder_spills_too(tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    (tmp_path / "rows.csv").write_text(table_text(200))
    table = pyarrow.csv.read_csv(tmp_path / "rows.csv")
    (tmp_path / "parts").mkdir()
    for k in range(2):
        pyarrow.parquet.write_table(table[100 * k : 100 * (k + 1)], tmp_path / "parts" / f"{k}.parquet")
    models = [trained(tmp_path, tmp_path / "parts", "--label", "click", "--memory", size)[0] for size in (0, 1000)]
    assert models[0] == models[1]


def test_a_mix_of_labels_is_found_across_blocks(tmp_path, small_blocks):
    path = tmp_path / "rows.csv"
    path.write_text("click,x\n" + "0,a\n1,b\n" * 100 + "-1,a\n")
    ran = run("train", path, "--label", "click", "--out", tmp_path / "m.rafm")
    assert ran.code == 3
    assert f"{path}:202: the labels 0 and -1 are mixed" in ran.err


def test_errors_in_targets_name_the_line_of_the_table(tmp_path, small_blocks):
    path = tmp_path / "rows.csv"
    path.write_text("click,w,x\n" + "0,1,a\n" * 100 + "1,-2,a\n")
    ran = run("train", path, "--label", "click", "--weight", "w", "--out", tmp_path / "m.rafm")
    assert ran.code == 3
    assert f"{path}:102: weight 'w' must not be negative, found -2" in ran.err


# ---- Faults


def test_a_full_disk_is_one_line_that_names_folder_and_way_out(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(rows_of_pairs(2000))
    arguments = ["train", path, "--out", tmp_path / "m.rafm", "--memory", 0, "--spill", tmp_path]
    ran = run_alone(*arguments, limit=("RLIMIT_FSIZE", 20_000))
    assert ran.code == 6
    assert ran.err.startswith(f"error: {tmp_path}: {os.strerror(errno.EFBIG)}; ")
    assert "--spill" in ran.err
    assert ran.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["rows.svm"]


@pytest.mark.parametrize("spare", [0, -1], ids=["fits", "a byte too many"])
def test_converted_rows_are_loaded_if_text_would_stay_in_memory(spare, tmp_path):  # case 117
    path = tmp_path / "rows.arrow"
    rows = check_batch(Batch(np.arange(0, 41, 2), np.arange(40, dtype=np.int32), np.ones(40), 40, np.ones(20)))
    write_arrow(path, [rows], Conversion("binary"))
    room = SpillOptions((rows.nbytes + spare) / 1e6)
    source = ArrowRows(path)
    found = loaded(source, room)
    assert found.in_memory == SpilledRows([rows], room).in_memory == (spare == 0)
    assert (found is source) == (spare < 0)
    assert_same_rows(found.block(0), source.block(0))
    assert (found.n_features, found.n_blocks, found.fields) == (40, 1, None)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(rows_of_pairs(20))
    arguments = ["--out", tmp_path / "m.rafm", "--memory", "0", "--spill", tmp_path / "nowhere"]
    ran = run("train", path, *arguments)
    assert ran.code == 6
    assert ran.error().startswith(f"{tmp_path / 'nowhere'}: No such file")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_no_file_is_left_when_training_is_ended(end, tmp_path):
    spill = tmp_path / "spill"
    spill.mkdir()
    arguments = [
        "train",
        "-",
        "--out",
        tmp_path / "m.rafm",
        "--memory",
        0,
        "--spill",
        spill,
        "--epochs",
        100000,
        "--valid-share",
        0,
    ]
    process = start(*arguments, "--format", "libsvm", stdin=subprocess.PIPE)
    process.stdin.write(rows_of_pairs(500).encode())
    process.stdin.close()
    process.stdin = None
    while b"epoch" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(end)
    ran = finish(process)
    assert ran.code in (130, -signal.SIGKILL)
    assert os.listdir(spill) == []
    assert sorted(os.listdir(tmp_path)) == ["spill"]
