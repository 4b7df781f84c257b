"""Whatever goes wrong: one line that says where and what, the right exit code, and nothing left behind."""

import contextlib
import gzip
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from commands import finish, read_in_pieces, rows_of_pairs, run, run_alone, start

from rafm.cli.app import describe
from rafm.errors import CheckpointError
from rafm.model.file import load

USAGE, DATA, MODEL, DIVERGED, SYSTEM, INTERRUPTED = 2, 3, 4, 5, 6, 130


@pytest.fixture(scope="module")
def rows_and_model(tmp_path_factory):
    """A folder with rows and a model of them."""
    place = tmp_path_factory.mktemp("given")
    (place / "rows.svm").write_text(rows_of_pairs(60))
    ran = run("train", place / "rows.svm", "--out", place / "m.rafm", "--ranks", "2,5", "--epochs", "2")
    assert ran.code == 0
    return place


@pytest.fixture
def folder(rows_and_model, tmp_path, monkeypatch):
    """A copy of it to work in; tests give files by their names alone."""
    shutil.copytree(rows_and_model, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def nothing_left_behind(folder):
    """Check that no file appears, disappears or changes."""

    def contents():
        return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}

    before = contents()
    yield
    assert contents() == before


def train(*arguments, data="bad.svm", out="new.rafm", **settings):
    return run("train", data, "--out", out, "--epochs", "2", "--ranks", "2,5", *arguments, **settings)


# Usage: 2

WRONG_OPTIONS = {
    "no data": (["train", "--out", "x.rafm"], "DATA"),
    "no output": (["train", "rows.svm"], "--out"),
    "unknown command": (["trian", "rows.svm"], "trian"),
    "unknown option": (["train", "rows.svm", "--out", "x.rafm", "--epoch", "2"], "--epoch"),
    "text for a number": (["train", "rows.svm", "--out", "x.rafm", "--epochs", "many"], "--epochs"),
    "unknown task": (
        ["train", "rows.svm", "--out", "x.rafm", "--task", "clicks"],
        "task must be binary, regression, count or ranking",
    ),
    "unknown family": (["train", "rows.svm", "--out", "x.rafm", "--model", "gbdt"], "model must be one of"),
    "unknown optimizer": (["train", "rows.svm", "--out", "x.rafm", "--optimizer", "x"], "optimizer must be"),
    "unknown update": (["train", "rows.svm", "--out", "x.rafm", "--update", "x"], "update must be"),
    "unknown format": (["train", "rows.svm", "--out", "x.rafm", "--format", "svm"], "format must be"),
    "ranks that fall": (["train", "rows.svm", "--out", "x.rafm", "--ranks", "8,4"], "ranks must be strictly ascending"),
    "ranks as text": (
        ["train", "rows.svm", "--out", "x.rafm", "--ranks", "a,b"],
        "ranks must be comma-separated whole numbers",
    ),
    "no ranks": (
        ["train", "rows.svm", "--out", "x.rafm", "--ranks", ""],
        "ranks must be comma-separated whole numbers",
    ),
    "rank 0": (["train", "rows.svm", "--out", "x.rafm", "--ranks", "0,4"], "ranks must be between 1 and"),
    "two ranks for fm": (
        ["train", "rows.svm", "--out", "x.rafm", "--model", "fm", "--ranks", "2,4"],
        "--model fm takes one rank",
    ),
    "thresholds": (
        ["train", "rows.svm", "--out", "x.rafm", "--ranks", "2,4", "--thresholds", "5,9"],
        "1 ascending thresholds",
    ),
    "negative l2": (["train", "rows.svm", "--out", "x.rafm", "--l2", "-1"], "l2 must be"),
    "learning rate nan": (
        ["train", "rows.svm", "--out", "x.rafm", "--learning-rate", "nan"],
        "--learning-rate must be",
    ),
    "no epochs": (["train", "rows.svm", "--out", "x.rafm", "--epochs", "0"], "--epochs must be"),
    "index base 2": (["train", "rows.svm", "--out", "x.rafm", "--index-base", "2"], "--index-base must be 0 or 1"),
    "duplicates": (["train", "rows.svm", "--out", "x.rafm", "--duplicates", "keep"], "duplicates must be"),
    "max features": (["train", "rows.svm", "--out", "x.rafm", "--max-features", "0"], "--max-features must be"),
    "another index base": (
        ["predict", "m.rafm", "rows.svm", "--index-base", "1"],
        "trained with --index-base 0, not 1",
    ),
    "another index base to evaluate": (
        ["evaluate", "m.rafm", "rows.svm", "--index-base", "1"],
        "trained with --index-base 0, not 1",
    ),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_a_wrong_option_is_one_line_and_exit_code_2(folder, case):
    arguments, message = WRONG_OPTIONS[case]
    with nothing_left_behind(folder):
        ran = run(*arguments)
        assert message in ran.error()
        assert ran.code == USAGE


# Data: 3

BAD_ROWS = {
    "missing value": (b"1 3:1\n0 4:\n", "bad.svm:2:3: "),
    "missing colon": (b"1 3:1\n\n# comment\n0 4:1 5\n", "bad.svm:4:7: "),
    "semicolon": (b"1 17;1\n", 'bad.svm:1:3: expected "id:value", found "17;1"'),
    "text": (b"hello world\n", "bad.svm:1:1: "),
    "csv": (b"1,2,3\n", "bad.svm:1:1: "),
    "negative id": (b"1 -3:1\n", "bad.svm:1:3: ids must not be negative"),
    "id beyond 64 bits": (b"1 9223372036854775808:1\n", "bad.svm:1:3: "),
    "nan": (b"1 3:nan\n", "bad.svm:1:3: a value must be finite"),
    "inf": (b"1 3:1e400\n", "bad.svm:1:3: "),
    "an id twice": (b"1 3:1 3:2\n", "bad.svm:1:7: id 3 occurs twice"),
    "label 2": (b"1 3:1\n0 3:1\n2 3:1\n", "bad.svm:3:1: "),
    "label text": (b"yes 3:1\n", "bad.svm:1:1: "),
    "labels mixed": (b"0 3:1\n1 3:1\n-1 3:1\n", "bad.svm:3:1: the labels 0 and -1 are mixed"),
    "qid": (b"1 qid:3 3:1\n", "bad.svm:1:3: "),
    "nul byte": (b"1 3:1\n0 3\x00:1\n", "bad.svm:2:4: found a NUL byte"),
    "utf-16": ("1 3:1\n".encode("utf-16"), "bad.svm:1:1: the text looks like UTF-16"),
    "empty": (b"", "bad.svm: no rows"),
    "comments alone": (b"# nothing\n\n", "bad.svm: no rows"),
    "cut gzip": (gzip.compress(b"1 3:1\n" * 5000)[:-20], "compressed data ends early"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_named_by_file_line_and_column_with_exit_code_3(folder, case):
    raw, message = BAD_ROWS[case]
    (folder / "bad.svm").write_bytes(raw)
    with nothing_left_behind(folder):
        ran = train()
        assert message in ran.error()
        assert ran.code == DATA


@pytest.mark.parametrize("case", ["semicolon", "label 2", "empty"])
def test_bad_validation_rows_are_named_before_any_training(folder, case):
    raw, message = BAD_ROWS[case]
    (folder / "bad.svm").write_bytes(raw)
    with nothing_left_behind(folder):
        ran = train("--valid", "bad.svm", data="rows.svm")
        assert message in ran.error()
        assert ran.code == DATA


def test_evaluate_names_bad_rows_too(folder):
    (folder / "bad.svm").write_bytes(b"1 3:1\n0 17;1\n")
    ran = run("evaluate", "m.rafm", "bad.svm")
    assert ran.error().startswith("bad.svm:2:3: ")
    assert ran.code == DATA


def test_evaluating_no_rows_is_an_error_since_there_is_nothing_to_tell(folder):
    (folder / "bad.svm").write_bytes(b"")
    ran = run("evaluate", "m.rafm", "bad.svm")
    assert (ran.error(), ran.code) == ("bad.svm: no rows", DATA)


def test_predict_prints_what_comes_before_a_bad_row_and_then_fails(folder, monkeypatch):
    read_in_pieces(monkeypatch, 16)
    (folder / "bad.svm").write_bytes(b"1 3:1 12:1\n0 4:1 13:1\n0 17;1\n1 3:1\n")
    ran = run("predict", "m.rafm", "bad.svm")
    assert ran.out.count("\n") == 2
    assert ran.err.startswith("error: bad.svm:3:3: ")
    assert ran.code == DATA


def test_predict_to_a_file_is_all_or_nothing(folder, monkeypatch):
    read_in_pieces(monkeypatch, 16)
    (folder / "bad.svm").write_bytes(b"1 3:1 12:1\n0 4:1 13:1\n0 17;1\n")
    (folder / "old.txt").write_text("old")
    for out in ("old.txt", "new.txt"):
        with nothing_left_behind(folder):
            assert run("predict", "m.rafm", "bad.svm", "--out", out).code == DATA


@pytest.mark.parametrize("size", [1 << 20, 16], ids=["one piece", "pieces"])
def test_labels_are_not_mixed_even_if_far_apart(folder, monkeypatch, size):  # case 31
    read_in_pieces(monkeypatch, size)
    (folder / "bad.svm").write_text("1 1:1\n0 2:1\n" + "1 1:1\n" * 50 + "-1 1:1\n")
    ran = train()
    assert ran.error().startswith("bad.svm:53:1: the labels 0 and -1 are mixed")
    assert ran.code == DATA


def test_id_0_in_a_file_said_to_count_from_1_is_refused(folder):  # case 20
    (folder / "bad.svm").write_bytes(b"1 1:1\n0 0:1\n")
    with nothing_left_behind(folder):
        ran = train("--index-base", "1")
        assert ran.error().startswith("bad.svm:2:3: id 0 in a file with ids from 1")
        assert ran.code == DATA


def test_a_model_of_ids_from_1_never_guesses_that_a_file_counts_from_0(folder):  # case 21
    (folder / "one.svm").write_text(rows_of_pairs(60, base=1))
    assert train("--index-base", "1", data="one.svm", out="one.rafm").code == 0
    with nothing_left_behind(folder):
        ran = run("predict", "one.rafm", "rows.svm", "--out", "p.txt")
        assert "id 0 in a file with ids from 1; check --index-base" in ran.error()
        assert ran.code == DATA
        ran = run("predict", "one.rafm", "rows.svm", "--index-base", "0", "--out", "p.txt")
        assert "trained with --index-base 1, not 0" in ran.error()
        assert ran.code == USAGE


def test_mrma_asks_for_two_features_per_row(folder):
    (folder / "bad.svm").write_bytes(b"1 1:1 2:1\n0 1:1\n")
    with nothing_left_behind(folder):
        ran = train("--model", "mrma")
        assert ran.code == DATA
        assert "exactly two features" in ran.err


def test_one_class_warns_and_its_auc_is_null(folder):  # case 33
    (folder / "ones.svm").write_text(rows_of_pairs(60, labels=("1", "1")))
    ran = train(data="ones.svm", out="ones.rafm")
    assert ran.code == 0
    assert ran.err == "warning: ones.svm: all labels are the same\n"
    found = run("evaluate", "m.rafm", "ones.svm", "--json").json()
    assert found["auc"] is None
    assert found["log_loss"] > 0
    assert "auc                undefined" in run("evaluate", "m.rafm", "ones.svm").out
    ran = train("--valid", "ones.svm", "--json", data="rows.svm")
    assert {entry["valid_auc"] for entry in ran.json()["history"]} == {None}
    assert run("inspect", "new.rafm").code == 0


# Model files: 4


NOT_MODELS = {"text": b"1 3:1\n", "empty": b"", "pickle": b"\x80\x04\x95\x00\x00"}


@pytest.mark.parametrize("kind", NOT_MODELS)
@pytest.mark.parametrize("command", ["evaluate", "predict", "inspect"])
def test_what_is_no_model_is_refused_with_exit_code_4(folder, command, kind):
    (folder / "bad.rafm").write_bytes(NOT_MODELS[kind])
    with nothing_left_behind(folder):
        ran = run(command, "bad.rafm", *(["rows.svm"] if command != "inspect" else []))
        assert ran.error().startswith("bad.rafm: is not a rafm model")
        assert ran.code == MODEL


def test_a_damaged_model_is_refused_with_exit_code_4(folder):
    raw = (folder / "m.rafm").read_bytes()
    for damaged in (
        raw[:-1],
        raw[:-1] + bytes([raw[-1] ^ 1]),
        raw + b"x",
        raw.replace(b'version":"1"', b'version":"2"'),
    ):
        (folder / "bad.rafm").write_bytes(damaged)
        ran = run("predict", "bad.rafm", "rows.svm")
        assert ran.error().startswith("bad.rafm: ")
        assert ran.code == MODEL


def test_data_given_as_a_model_and_a_model_given_as_data_are_told_apart(folder):
    assert run("predict", "rows.svm", "m.rafm").code == MODEL
    assert run("predict", "m.rafm", "m.rafm").code == DATA


# Divergence: 5


def test_divergence_leaves_no_model_and_says_what_to_change(folder):
    (folder / "ratings.svm").write_text(rows_of_pairs(200, labels=("1", "5")))
    with nothing_left_behind(folder):
        ran = train(
            "--task", "regression", "--optimizer", "sgd", "--learning-rate", "1e6", data="ratings.svm", out="m.rafm"
        )
        assert ran.code == DIVERGED
        assert ran.err.startswith("error: training diverged")
        assert "ower --learning-rate (now 1e+06)" in ran.err
        assert ran.err.count("\n") == 1


# Input, output and resources: 6


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "missing.svm", "--out", "x.rafm"],
        ["train", "rows.svm", "--out", "x.rafm", "--valid", "missing.svm"],
        ["predict", "m.rafm", "missing.svm"],
        ["evaluate", "m.rafm", "missing.svm"],
        ["inspect", "missing.svm"],
        ["predict", "missing.rafm", "rows.svm"],
        ["inspect", "missing.rafm"],
    ],
    ids=" ".join,
)
def test_a_missing_file_is_named_with_exit_code_6(folder, arguments):  # case 41
    with nothing_left_behind(folder):
        ran = run(*arguments)
        name = next(argument for argument in arguments if argument.startswith("missing"))
        assert ran.error() == f"{name}: No such file or directory"
        assert ran.code == SYSTEM


def test_a_folder_is_no_data_file_and_no_model(folder):  # case 41
    (folder / "sub").mkdir()
    with nothing_left_behind(folder):
        ran = train(data="sub")
        assert (ran.error(), ran.code) == ("sub: is a directory without Parquet files (*.parquet); give a file", SYSTEM)
        ran = run("predict", "sub", "rows.svm")
        assert ran.code == MODEL
        assert "sub: is a folder" in ran.error()


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_a_file_without_permission_is_named_with_exit_code_6(folder):  # case 41
    (folder / "rows.svm").chmod(0)
    ran = train(data="rows.svm")
    assert (ran.error(), ran.code) == ("rows.svm: Permission denied", SYSTEM)


def test_a_folder_that_does_not_exist_is_noticed_before_training(folder):
    (folder / "bad.svm").write_bytes(b"not even rows")  # would fail at once, if it were read
    with nothing_left_behind(folder):
        ran = train(out="nowhere/m.rafm")
        assert ran.error().startswith("nowhere: ")
        assert ran.code == SYSTEM


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_noticed_before_training(folder):
    (folder / "bad.svm").write_bytes(b"not even rows")
    ran = train(out="/proc/m.rafm")
    assert ran.error().startswith("/proc/m.rafm: ")
    assert ran.code == SYSTEM


def test_a_folder_in_the_place_of_the_model_is_noticed_before_training(folder):
    (folder / "sub").mkdir()
    (folder / "bad.svm").write_bytes(b"not even rows")
    with nothing_left_behind(folder):
        ran = train(out="sub")
        assert ran.error().startswith("sub: is a directory")
        assert ran.code == SYSTEM


def test_predictions_into_a_folder_that_does_not_exist_fail(folder):
    with nothing_left_behind(folder):
        ran = run("predict", "m.rafm", "rows.svm", "--out", "nowhere/p.txt")
        assert (ran.error(), ran.code) == ("nowhere: the output directory does not exist", SYSTEM)


def test_the_standard_input_may_be_cut_between_rows_but_not_inside(folder):  # case 43
    assert run("predict", "m.rafm", "-", stdin=b"1 3:1\n0 4:1").out.count("\n") == 2
    ran = run("predict", "m.rafm", "-", stdin=b"1 3:1\n0 4:")
    assert ran.err.startswith("error: <stdin>:2:3: ")
    assert ran.code == DATA


def test_a_closed_standard_input_is_an_error_of_the_system(folder):
    ran = run("predict", "m.rafm", "-", stdin=None)
    assert (ran.error(), ran.code) == ("standard input is closed", SYSTEM)


def test_a_line_that_is_too_long_is_refused_with_exit_code_6(folder):  # case 35
    (folder / "bad.svm").write_bytes(b"1 3:1\n0 " + b"4:1 " * 100 + b"\n")
    with nothing_left_behind(folder):
        ran = train("--max-line-bytes", "100")
        assert ran.error().startswith("bad.svm:2:1: line longer than --max-line-bytes 100")
        assert ran.code == SYSTEM


def test_one_huge_id_is_refused_before_memory_is_asked_for(folder):  # case 24
    (folder / "bad.svm").write_bytes(b"1 3:1\n0 1000000000000:1\n")
    with nothing_left_behind(folder):
        arguments = ("train", "bad.svm", "--out", "x.rafm", "--epochs", "1")
        ran = run_alone(*arguments, limit=("RLIMIT_AS", 4 * 2**30))
        assert ran.error().startswith("bad.svm:2:3: id 1000000000000 needs a table of 3,725.3 GiB")
        assert ran.code == SYSTEM


def test_an_id_that_is_large_but_allowed_needs_no_table_of_its_size(folder):  # case 22
    (folder / "large.svm").write_bytes(b"1 3:1\n0 4294967295:1\n" * 10)
    arguments = ("train", "large.svm", "--out", "x.rafm", "--epochs", "1", "--ranks", "2,5")
    ran = run_alone(*arguments, limit=("RLIMIT_AS", 4 * 2**30))
    assert ran.code == 0, ran.err
    assert load("x.rafm").model.numbering.n_inputs == 2**32


def test_a_model_that_does_not_fit_on_the_disk_leaves_the_old_one_alone(folder):
    with nothing_left_behind(folder):
        arguments = ("train", "rows.svm", "--out", "m.rafm", "--ranks", "64,256", "--epochs", "1", "--valid-share", "0")
        ran = run_alone(*arguments, limit=("RLIMIT_FSIZE", 4000))
        assert ran.err == "error: m.rafm: File too large\n"
        assert ran.code == SYSTEM


def test_a_socket_or_pipe_in_the_place_of_a_model_is_not_waited_for(folder):
    os.mkfifo("pipe.rafm")
    ran = run("inspect", "pipe.rafm")
    assert ran.code == MODEL
    with socket.socket(socket.AF_UNIX) as place:
        place.bind("socket.rafm")
        assert run("inspect", "socket.rafm").code == MODEL


# Interruption: 130


def wait_for(stream, text):
    """Read lines up to one that holds the text."""
    while line := stream.readline():
        if text in line:
            return
    raise AssertionError(f"{text} was never printed")


def test_an_interrupt_while_training_ends_it_and_leaves_nothing(folder):
    (folder / "many.svm").write_text(rows_of_pairs(60_000))
    with nothing_left_behind(folder):
        arguments = ("--ranks", "64,512", "--epochs", "100000", "--rank-scale", "10")
        process = start("train", "many.svm", "--out", "x.rafm", *arguments, stdin=subprocess.DEVNULL)
        wait_for(process.stdout, b"epoch")
        process.send_signal(signal.SIGINT)
        ran = finish(process)  # within its time limit: an epoch of the hundred thousand, not the rest of them
    assert ran.code == INTERRUPTED
    assert ran.err == "error: interrupted\n"


def test_an_interrupt_while_rows_come_in_ends_it(folder):
    process = start("predict", "m.rafm", "-", stdin=subprocess.PIPE, options=["-X", "importtime"])
    process.stdin.write(b"1 3:1\n")
    process.stdin.flush()
    wait_for(process.stderr, b"rafm.predictor")
    time.sleep(0.5)  # now it waits for more rows; if not yet, the interrupt meets it earlier, with the same end
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == INTERRUPTED
    assert ran.err.endswith("error: interrupted\n")
    assert "Traceback" not in ran.err


# Where an error came from


def test_debug_shows_the_traceback_of_an_error(folder):
    (folder / "bad.svm").write_bytes(b"1 17;1\n")
    ran = run_alone("train", "bad.svm", "--out", "x.rafm", "--debug")
    assert ran.code != 0
    assert ran.err.startswith("Traceback (most recent call last):")
    assert ran.err.rstrip().splitlines()[-1].startswith("rafm.errors.DataFormatError: bad.svm:1:3: ")


def test_without_debug_no_error_shows_a_traceback(folder):
    ran = run_alone("train", "missing.svm", "--out", "x.rafm")
    assert (ran.error(), ran.code) == ("missing.svm: No such file or directory", SYSTEM)


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (CheckpointError("of another run"), "of another run", 4),
        (MemoryError(), "out of memory", 6),
        (MemoryError("needs 9 GiB"), "needs 9 GiB", 6),
        (OSError(28, "No space left on device", "x"), "x: No space left on device", 6),
        (OSError("odd"), "odd", 6),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_every_kind_of_error_has_its_line_and_code(error, line, code):
    assert describe(error) == (line, code)


@pytest.mark.parametrize("option", [("--label", "city"), ("--min-count", "2"), ("--column", "city=category")])
def test_options_of_tables_are_not_ignored_where_there_is_no_table(option, tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(30))
    (tmp_path / "log.csv").write_text("click,city\n" + "1,Rome\n0,Oslo\n" * 20)
    run("convert", tmp_path / "log.csv", tmp_path / "log.arrow", "--label", "click")
    for name, said in (("rows.svm", "is libsvm"), ("log.arrow", "was encoded when it was converted")):
        ran = run("train", tmp_path / name, *option, "--out", tmp_path / "m.rafm")
        assert ran.code == 2
        assert f"{option[0]} is for tables, but {tmp_path / name} {said}" in ran.error()
    assert not (tmp_path / "m.rafm").exists()
