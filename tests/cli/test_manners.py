"""How commands behave: names by meaning, predictions beside columns, streams that close, signals."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pyarrow as pa
import pytest
from commands import rows_of_pairs, run, start
from pyarrow import parquet

from rafm import RaFMClassifier, RaFMRegressor
from rafm.aliases import ALIASES
from rafm.cli.spelling import in_flags, no_such_option
from rafm.errors import ConfigError
from rafm.options import declared_options, resolve

FAST = ("--ranks", "2,4", "--epochs", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manners")
    (folder / "rows.svm").write_text(rows_of_pairs(80))
    rows = [f"{i},{'yes' if i % 3 else 'no'},u{i % 7},{i % 5}.5" for i in range(60)]
    (folder / "t.csv").write_text("row_key,click,user,price\n" + "\n".join(rows) + "\n")
    assert run("train", folder / "rows.svm", "--out", folder / "ids.rafm", *FAST).code == 0
    flags = ("--label", "click", "--column", "row_key=ignore")
    assert run("train", folder / "t.csv", *flags, "--out", folder / "t.rafm", *FAST).code == 0
    return folder


# Names of other programs


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--lr", "--learning-rate"),
        ("--num-epochs", "--epochs"),
        ("--n-epochs", "--epochs"),
        ("--iterations", "--epochs"),
        ("--rank", "--ranks"),
        ("--k", "--ranks"),
        ("--dim", "--ranks"),
        ("--factors", "--ranks"),
        ("--reg", "--l2"),
        ("--lambda", "--l2"),
        ("--weight-decay", "--l2"),
        ("--jobs", "--threads"),
        ("--n-jobs", "--threads"),
        ("--num-threads", "--threads"),
        ("--output", "--out"),
        ("-o", "--out"),
        ("--target", "--label"),
        ("--validation", "--valid"),
        ("--random-state", "--seed"),
        ("--early-stopping", "--patience"),
        ("--learnin-rate", "--learning-rate"),
    ],
)
def test_an_unknown_option_leads_to_the_one_that_is_meant(folder, typed, meant):
    ran = run("train", folder / "rows.svm", "--out", folder / "m.rafm", typed, "1")
    assert (ran.error(), ran.code) == (f"no option {typed}; did you mean {meant}?", 2)


def test_an_option_like_no_other_leads_to_the_help():
    assert no_such_option("--zzz", ["--out"]) == "no option --zzz; --help lists all options"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("fit", "train"), ("eval", "evaluate"), ("score", "evaluate"), ("trian", "train")],
)
def test_an_unknown_command_leads_to_the_one_that_is_meant(typed, meant):
    ran = run(typed, "rows.svm")
    assert (ran.error(), ran.code) == (f"no command {typed!r}; did you mean `rafm {meant}`?", 2)
    assert run(meant, "--help").code == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("epochs", "n_epochs"),
        ("lr", "learning_rate"),
        ("rank", "ranks"),
        ("n_factors", "ranks"),
        ("reg", "l2"),
        ("weight_decay", "l2"),
        ("threads", "n_jobs"),
        ("seed", "random_state"),
        ("optimiser", "optimizer"),
        ("verbos", "verbose"),
    ],
)
@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor])
def test_an_unknown_parameter_leads_to_the_one_that_is_meant(kind, given, meant):
    with pytest.raises(TypeError, match=f"{kind.__name__} has no parameter '{given}'; did you mean '{meant}'"):
        kind(**{given: 1})
    kind(**{meant: 1})


def test_no_alias_leads_to_two_options_or_is_one():
    aliases = [alias for names in ALIASES.values() for alias in names.split()]
    assert len(set(aliases)) == len(aliases)
    spellings = {name: {name, one.flag, one.parameter} for name, one in declared_options()}
    assert set(ALIASES) <= set(spellings)
    for name, own in ALIASES.items():
        others = set().union(*(spelled for other, spelled in spellings.items() if other != name))
        assert others.isdisjoint(own.split())
    with pytest.raises(ConfigError, match="unknown option 'lr'; did you mean 'learning_rate'"):
        resolve(task="binary", lr=1)


# Spelling of messages


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("max_features must be 1 .. 9, found 0", "--max-features must be 1 .. 9, found 0"),
        ("l1 requires optimizer='ftrl': no", "--l1 requires --optimizer ftrl: no"),
        ("trained with index_base=0, not 1", "trained with --index-base 0, not 1"),
        ("n_epochs must be", "--epochs must be"),
        ("column 'index_base' is missing", "column 'index_base' is missing"),
        ('found "max_features = 3"', 'found "max_features = 3"'),
        ("data/min_count=3/t.csv is odd", "data/min_count=3/t.csv is odd"),
        ("found (8, 4)", "found 8,4"),
        ("shape (3, 4.5)", "shape (3, 4.5)"),
    ],
)
def test_parameters_in_messages_become_flags_but_data_do_not(message, expected):
    assert in_flags(message) == expected


def test_debug_is_in_the_help_of_every_command():
    for command in ("train", "evaluate", "predict", "inspect", "convert"):
        assert "Add --debug to see where an error came from." in run(command, "--help").out
    assert "counts" in run("predict", "--help").out
    assert "Counts" in run("evaluate", "--help").out


# Predictions beside columns


def test_columns_stand_beside_predictions(folder):
    plain = run("predict", folder / "t.rafm", folder / "t.csv").out.split()
    ran = run("predict", folder / "t.rafm", folder / "t.csv", "--with", "row_key", "--with", "price", "--with", "click")
    rows = list(csv.reader(io.StringIO(ran.out)))
    assert rows[0] == ["row_key", "price", "click", "prediction"]
    source = list(csv.reader(io.StringIO((folder / "t.csv").read_text())))[1:]
    assert [row[:3] for row in rows[1:]] == [[key, price, click] for key, click, _, price in source]
    assert [row[3] for row in rows[1:]] == plain


def test_json_has_score_and_probability_of_each_row(folder):
    plain = run("predict", folder / "t.rafm", folder / "t.csv").out.split()
    lines = run("predict", folder / "t.rafm", folder / "t.csv", "--json", "--with", "user").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [*rows[0]] == ["user", "score", "probability"]
    assert [row["probability"] for row in rows] == [float(value) for value in plain]
    scores = np.array([row["score"] for row in rows])
    np.testing.assert_allclose([row["probability"] for row in rows], 1 / (1 + np.exp(-scores)), rtol=1e-6)
    assert rows[0]["user"] == "u0"


def test_values_of_any_kind_stand_beside_predictions(folder, tmp_path):
    odd = ['a,"b"', "line\nfeed", None]
    table = {"name": odd, "n": [1, None, 3], "x": [1.0, 2.5, None], "day": [[1], [], None], "user": ["u1"] * 3}
    parquet.write_table(pa.table({**table, "price": [1.5] * 3}), tmp_path / "t.parquet")
    flags = [part for name in ("name", "n", "x", "day") for part in ("--with", name)]
    out = tmp_path / "p.csv"
    ran = run("predict", folder / "t.rafm", tmp_path / "t.parquet", *flags, "--out", out)
    assert ran.code == 0, ran
    rows = list(csv.reader(io.StringIO(out.read_bytes().decode(), newline="")))
    assert [row[:4] for row in rows[1:]] == [[odd[0], "1", "1", "[1]"], [odd[1], "", "2.5", "[]"], ["", "3", "", ""]]
    assert "ignoring columns" not in ran.err


def test_regression_has_predictions_and_an_empty_table_a_header(folder, tmp_path):
    assert run("train", folder / "rows.svm", "--task", "regression", "--out", tmp_path / "r.rafm", *FAST).code == 0
    first = json.loads(run("predict", tmp_path / "r.rafm", folder / "rows.svm", "--json").out.splitlines()[0])
    assert [*first] == ["score", "prediction"]
    assert first["score"] == first["prediction"]
    (tmp_path / "none.csv").write_text("row_key,click,user,price\n")
    ran = run("predict", folder / "t.rafm", tmp_path / "none.csv", "--with", "user")
    assert (ran.out, ran.err) == ("user,prediction\n", f"note: {tmp_path / 'none.csv'}: 0 rows\n")


# Conversion


def test_a_table_without_labels_is_converted_like_a_model(folder, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(line.split(",", 2)[2] for line in (folder / "t.csv").read_text().splitlines()) + "\n")
    ran = run("convert", bare, tmp_path / "bare.arrow", "--like", folder / "t.rafm")
    assert ran.code == 0
    assert f"warning: {bare} has no label column: its rows have no labels\n" in ran.err
    expected = run("predict", folder / "t.rafm", folder / "t.csv").out
    assert run("predict", folder / "t.rafm", tmp_path / "bare.arrow").out == expected
    assert "cannot evaluate without labels" in run("evaluate", folder / "t.rafm", tmp_path / "bare.arrow").error()


def test_unseen_values_of_a_converted_file_are_reported_when_it_is_used(folder, tmp_path):
    (tmp_path / "new.csv").write_text("row_key,click,user,price\n1,yes,u1,1.5\n2,no,new,2.5\n")
    assert run("convert", tmp_path / "new.csv", tmp_path / "new.arrow", "--like", folder / "t.rafm").code == 0
    ran, source = (run("evaluate", folder / "t.rafm", tmp_path / name, "--json") for name in ("new.arrow", "new.csv"))
    assert ran.err == source.err
    assert "not seen in training: user 50.0 % (1 of 2)" in ran.err
    assert ran.json() == source.json()


def test_encoders_that_differ_in_their_label_alone_look_different(folder, tmp_path):
    (tmp_path / "a.csv").write_text("a,b,x\n" + "0,1,u\n1,0,v\n" * 20)
    for label, other in (("a", "b"), ("b", "a")):
        flags = ("--label", label, "--column", f"{other}=ignore")
        assert run("convert", tmp_path / "a.csv", tmp_path / f"{label}.arrow", *flags).code == 0
    assert run("train", tmp_path / "a.arrow", "--out", tmp_path / "m.rafm", *FAST).code == 0
    said = run("evaluate", tmp_path / "m.rafm", tmp_path / "b.arrow").error()
    assert "label: b)" in said
    assert "label: a)" in said


# Inspection of odd names


def test_control_characters_are_escaped_and_columns_stay_aligned(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"a\x1b[31mb": ["x\ty\x07"] * 30, "日本語": ["東京"] * 15 + ["b"] * 15, "y": [0, 1] * 15}), path
    )
    lines = run("inspect", path, "--label", "y").out.splitlines()
    (head,) = (line for line in lines if line.startswith("column "))
    first, second = lines[lines.index(head) + 1 : lines.index(head) + 3]
    assert "a\\x1b[31mb" in first
    assert "\\x07" in first
    assert first.index("category") == head.index("kind")
    assert second.index("category") == head.index("kind") - 3  # three wide characters take six columns


# Streams and signals


def failures(err):
    """Return the lines about errors; a fresh process may also say that it compiles."""
    return [line for line in err.splitlines() if line.startswith((b"error", b"Traceback"))]


def test_a_conversion_does_not_need_standard_output(folder, tmp_path):
    out = tmp_path / "t.arrow"
    process = start("convert", folder / "rows.svm", out, stdout=None, preexec_fn=lambda: os.close(1))
    _, err = process.communicate(timeout=600)
    assert (process.returncode, failures(err)) == (0, [])
    assert run("inspect", out).code == 0


def test_a_full_disk_behind_standard_output_is_named(folder):
    with open("/dev/full", "wb") as full:
        process = start("predict", folder / "ids.rafm", folder / "rows.svm", stdout=full)
        _, err = process.communicate(timeout=600)
    assert (process.returncode, failures(err)) == (6, [b"error: standard output: No space left on device"])


def test_sigterm_ends_training_with_one_line_and_143(folder, tmp_path):
    events = tmp_path / "events"
    flags = ("--epochs", "100000", "--ranks", "2,4", "--events", events, "--valid-share", "0")
    process = start("train", folder / "rows.svm", "--out", tmp_path / "m.rafm", *flags, stdout=subprocess.DEVNULL)
    while not (events.exists() and '"epoch"' in events.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, failures(err)) == (143, [b"error: terminated"])
    assert not (tmp_path / "m.rafm").exists()


def test_a_label_that_is_absurd_is_blamed_before_the_learning_rate(tmp_path):
    path = tmp_path / "counts.svm"
    path.write_text("".join(f"{'1e30' if i == 7 else i % 3} {i % 9}:1\n" for i in range(80)))
    ran = run("train", path, "--task", "count", "--out", tmp_path / "m.rafm", "--epochs", "3", "--model", "lr")
    assert ran.code == 5
    assert "Check for a wrong label: one is 1e+30," in ran.err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kind", "label"), [(RaFMRegressor, 1e300), (RaFMRegressor, np.nan), (RaFMClassifier, 1e300)])
def test_labels_out_of_range_raise_and_do_not_warn(kind, label):
    with pytest.raises(ValueError, match=r"float32|label is missing|Unknown label type|classes"):
        kind(model="lr", n_epochs=1).fit(np.eye(4), [0.0, 1.0, 0.0, label])


PLURALS = re.compile(r"\b1 [a-z]* ?(rows|lines|features|columns|kernels|epochs|folds|values|parameters|files|items)\b")


def test_one_is_in_the_singular(tmp_path):
    """Of rows, features, lines, epochs and whatever else there may be one of."""
    (tmp_path / "one.svm").write_text("1 0:1\n")
    (tmp_path / "two.svm").write_text("1 0:1\n0 1:1\n")
    (tmp_path / "one.csv").write_text("y,id\n1,a\n")
    lines = gzip.compress("".join(f"{row % 2} {row}:1\n" for row in range(3)).encode(), 0)
    (tmp_path / "cut.svm.gz").write_bytes(lines[: lines.index(b"\n") + 4])
    train = ("--epochs", 1, "--model", "fm", "--ranks", 1)
    said = []
    for command in (
        ("train", "one.svm", "--out", "m.rafm", *train),
        ("train", "one.svm", "--out", "c.rafm", *train, "--checkpoint", "c"),
        ("train", "one.svm", "--out", "c.rafm", *train, "--checkpoint", "c"),
        ("train", "two.svm", "--out", "n.rafm", "--resume-from", "m.rafm"),
        ("train", "cut.svm.gz", "--out", "n.rafm"),
        ("train", "two.svm", "--valid", "one.svm", "--out", "n.rafm", *train),
        ("train", "one.csv", "--label", "y", "--out", "n.rafm", *train),
        ("inspect", "one.csv", "--label", "y"),
        ("inspect", "one.svm"),
        ("convert", "one.csv", "one.arrow", "--label", "y"),
        ("evaluate", "m.rafm", "one.svm"),
        ("predict", "m.rafm", "one.svm", "--out", "p.txt"),
        ("importance", "m.rafm", "one.svm"),
        ("train", "one.svm", "--ray", "none", "--out", "r.rafm", *train),
    ):
        ran = run(*(tmp_path / word if "." in str(word) or word == "c" else word for word in command))
        said += [f"{command[0]}: {line}" for line in (ran.out + ran.err).splitlines()]
    assert any("1 complete line;" in line for line in said)
    assert any("1 feature;" in line for line in said)
    assert [line for line in said if PLURALS.search(line)] == []
