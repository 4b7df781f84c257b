"""What leaves a command for people: nothing that a terminal obeys, one line of error, also where a stream is closed."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from commands import Ran, rows_of_pairs, run, run_alone
from pyarrow import parquet
from warm import run_script

import rafm
from rafm.encode.spec import MAX_SPEC_BYTES
from rafm.files.container import read_container, write_container
from rafm.model import file as model_file

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\x7f\r"
ONCE = ("--epochs", "1", "--valid-share", "0")
OBEYED = set(map(chr, [*range(9), *range(11, 32), *range(127, 160)])) | set("\u202e\u2066\u200f\u2028")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(300))
    return tmp_path


def assert_harmless(ran, *shown):
    for text in (ran.out, ran.err):
        assert not OBEYED & set(text), repr(text)
    for part in shown:
        assert part in ran.out + ran.err, ran


# Case 108: terminal escapes


def evil_table(path, n_rows=60, unseen=""):
    cells = {
        f"col{EVIL}": [f"{unseen}{EVIL}{i % 3}" for i in range(n_rows)],
        f"one{EVIL}": [f"always{EVIL}"] * n_rows,
        "size": [i % 7 + 0.5 for i in range(n_rows)],
        "y": [i % 2 for i in range(n_rows)],
    }
    parquet.write_table(pa.table(cells), path)


def test_escapes_in_names_and_values_of_a_table_are_shown_not_obeyed(folder):
    evil_table("t.parquet")
    evil_table("other.parquet", unseen="new")
    trained = run("train", "t.parquet", "--label", "y", "--out", "m.rafm", "--epochs", "2", "--valid", "t.parquet")
    assert trained.code == 0
    assert_harmless(trained, "col\\x1b]0;owned\\x07")
    for command in (
        ["evaluate", "m.rafm", "other.parquet"],
        ["predict", "m.rafm", "other.parquet"],
        ["inspect", "t.parquet", "--label", "y"],
        ["convert", "t.parquet", "t.arrow", "--label", "y"],
        ["inspect", "m.rafm"],
    ):
        ran = run(*command)
        assert ran.code == 0, ran
        assert_harmless(ran, *(["\\x1b]0;owned"] if command[0] != "inspect" or "t.parquet" in command else []))


def test_escapes_in_the_names_of_files_and_columns_of_errors_are_shown_not_obeyed(folder):
    (folder / f"bad{EVIL}.svm").write_text("1 x\n")
    for command in (
        ["train", f"bad{EVIL}.svm", "--out", "m.rafm"],
        ["train", f"none{EVIL}.svm", "--out", "m.rafm"],
        ["train", "rows.svm", "--out", f"no{EVIL}/m.rafm"],
        ["evaluate", f"none{EVIL}.rafm", "rows.svm"],
        ["train", "rows.svm", "--out", "m.rafm", "--ranks", EVIL],
        ["train", "rows.svm", "--out", "m.rafm", f"--{EVIL}"],
        [f"cmd{EVIL}"],
    ):
        ran = run(*command)
        assert ran.code not in (0, 1)
        assert ran.err.count("\n") == 1
        assert_harmless(ran, "\\x1b")
    (folder / "t.csv").write_text(f"y,a{EVIL.strip()}\n1,2\n")
    assert_harmless(run("train", "t.csv", "--label", "z", "--out", "m.rafm"))


def test_a_line_feed_in_a_name_does_not_make_a_second_line(folder):
    ran = run("train", "none\nerror: all is well", "--out", "m.rafm")
    assert ran.err.count("\n") == 1
    assert "none\\nerror: all is well" in ran.err


def test_escapes_in_the_header_of_a_model_are_shown_not_obeyed(folder):
    assert run("train", "rows.svm", "--out", "m.rafm", *ONCE).code == 0
    header, tensors = read_container("m.rafm")
    write_container("a.rafm", tensors, header | {"options": header["options"] | {f"new{EVIL}": f"text{EVIL}"}})
    ran = run("inspect", "a.rafm")
    assert ran.code == 0
    assert_harmless(ran, "text\\x1b]0;owned")
    for change in ({"family": EVIL}, {"task": EVIL}, {"options": {"optimizer": EVIL}}):
        write_container("b.rafm", tensors, header | change)
        assert_harmless(run("evaluate", "b.rafm", "rows.svm"), "\\x1b")


def test_escapes_on_the_way_through_an_estimator_that_talks_are_shown_not_obeyed(folder, capsys):
    evil_table("t.parquet")
    table = parquet.read_table("t.parquet").drop_columns("y")
    rafm.RaFMClassifier(n_epochs=1, verbose=True).fit(table, [0, 1] * 30)
    shown = capsys.readouterr()
    assert "col\\x1b]0;owned" in shown.out
    assert not OBEYED & set(shown.out + shown.err)


def test_escapes_in_a_warning_of_an_estimator_are_shown_not_obeyed(folder):
    evil_table("t.parquet")
    table = parquet.read_table("t.parquet").drop_columns("y")
    fitted = rafm.RaFMClassifier(n_epochs=1).fit(table, [0, 1] * 30)
    with pytest.warns(UserWarning, match="ignoring columns") as caught:
        fitted.predict(table.append_column(f"more{EVIL}", pa.array(["x"] * 60)))
    assert "more\\x1b]0;owned" in str(caught[0].message)
    assert not OBEYED & set(str(caught[0].message))


def test_json_holds_names_as_they_are(folder):
    evil_table("t.parquet")
    ran = run("inspect", "t.parquet", "--label", "y", "--json")
    assert_harmless(ran)
    assert f"col{EVIL}" in [column["name"] for column in ran.json()["columns"]]


def test_the_bar_of_a_terminal_still_moves_its_cursor(folder):
    """A pseudo-terminal gets the escapes of the bar, but none of the checkpoint's folder."""
    arguments = ["train", "rows.svm", "--out", "m.rafm", *ONCE, "--checkpoint", f"states{EVIL}"]
    program = (
        "import os, pty, sys; pty.spawn([sys.executable, '-m', 'rafm', *sys.argv[1:]], lambda fd: os.read(fd, 65536))"
    )
    for _ in range(2):  # the second one says which folder it goes on from
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "TERM": "xterm"}
        shown = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True).stdout
    assert b"\x1b[" in shown
    assert b"\x1b]0;owned" not in shown
    assert b"\\x1b]0;owned" in shown


# Case 110: closed streams


WITHOUT_STREAMS = """
import os, runpy, sys
_, numbers, *arguments = sys.argv
for number in map(int, numbers):
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)  # as the interpreter does
    os.close(number)
sys.argv = ["rafm", *arguments]
runpy.run_module("rafm", run_name="__main__", alter_sys=True)
"""


def without(streams, *arguments):
    """Run a command whose streams of these numbers are closed, in a fork."""
    ran = run_script(WITHOUT_STREAMS, streams, *arguments)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def closed(redirection, *arguments):
    """Run a command from a shell that closes a stream."""
    paths = os.pathsep.join(path for path in sys.path if path)
    line = f'exec "$0" -m rafm "$@" {redirection}'
    ran = subprocess.run(
        ["sh", "-c", line, sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@pytest.fixture
def model(folder):
    assert run("train", "rows.svm", "--out", "m.rafm", *ONCE).code == 0
    return "m.rafm"


@pytest.mark.parametrize("command", ["evaluate", "predict", "inspect", "--version", "--help"])
def test_results_for_a_closed_standard_output_are_an_error_of_the_system(command, folder, model):
    arguments = {"evaluate": [model, "rows.svm"], "predict": [model, "rows.svm"], "inspect": [model]}.get(command, [])
    ran = without("1", command, *arguments)
    assert (ran.code, ran.out, ran.err) == (6, "", "error: standard output: is closed\n")


def test_training_needs_no_standard_output_nor_error(folder):
    evil_table("t.parquet")
    for streams in ("1", "2", "012"):
        ran = without(streams, "train", "rows.svm", "--out", "m.rafm", *ONCE)
        assert (ran.code, ran.err) == (0, ""), streams
        assert model_file.load("m.rafm").model.n_rows == 300
        (folder / "m.rafm").unlink()
    ran = closed("<&- >&- 2>&-", "train", "t.parquet", "--label", "y", "--out", "t.rafm", *ONCE)
    assert (ran.code, ran.err) == (0, "")


def test_an_error_goes_where_it_can(folder):
    expected = "error: none.svm: "
    for streams, where in (("1", "err"), ("2", "out"), ("12", None)):
        ran = without(streams, "train", "none.svm", "--out", "m.rafm")
        assert ran.code == 6
        told = ran.out + ran.err
        assert told == "" if where is None else getattr(ran, where) == told
        assert where is None or (told.startswith(expected) and told.count("\n") == 1)


def test_messages_for_a_closed_standard_error_do_not_land_among_results(folder, model):
    evil_table("t.parquet")
    evil_table("other.parquet", unseen="new")
    assert run("train", "t.parquet", "--label", "y", "--out", "t.rafm", *ONCE).code == 0
    ran = without("2", "predict", "t.rafm", "other.parquet")
    assert ran.code == 0
    assert len([float(line) for line in ran.out.splitlines()]) == 60


# Case 112: full disks and files without an end


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_events_on_a_full_disk_are_told_once_with_their_file_and_training_goes_on(folder):
    ran = run_alone("train", "rows.svm", "--out", "m.rafm", "--epochs", "3", "--events", "/dev/full", "--json")
    assert ran.code == 0
    assert ran.json()["epochs"] == 3
    warned = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert warned == ["warning: /dev/full: No space left on device; no more events are written, training continues"]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no device without an end")
def test_a_specification_without_an_end_is_refused_after_a_stated_size(folder):
    evil_table("t.parquet")
    ran = run_alone("train", "t.parquet", "--columns", "/dev/zero", "--out", "m.rafm", limit=("RLIMIT_AS", 4 * 2**30))
    assert ran.code == 2
    assert ran.error() == (f"/dev/zero: a specification must not exceed {MAX_SPEC_BYTES} bytes; is this another file?")


# Case 114: what nobody foresaw


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TypeError("unhashable\n  thing"), "TypeError: unhashable thing"),
        (AssertionError(), "AssertionError:"),
        (ZeroDivisionError(f"by {EVIL}"), "ZeroDivisionError: by \\x1b]0;owned"),
        (RecursionError("x" * 5000), "RecursionError: " + "x" * 200),
        (ValueError("plain"), "ValueError: plain"),
    ],
)
def test_an_error_that_nobody_foresaw_is_one_line_with_its_type(error, told, folder, model, monkeypatch):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(np, "unique", broken)  # by which the ids of a model are checked
    ran = run("inspect", model)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 600
    assert_harmless(ran, f"internal error: {told}", "(run again with --debug for the traceback, and please report it)")
    debugged = run("inspect", model, "--debug")
    assert debugged.code == 1
    assert debugged.err.startswith("Traceback (most recent call last):")
    assert type(error).__name__ in debugged.err.splitlines()[-1] or "thing" in debugged.err
    assert_harmless(debugged)
