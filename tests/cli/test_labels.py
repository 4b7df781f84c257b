"""Binary labels of any two values: trained, stored, evaluated, converted and loaded as they are written."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import read_in_pieces, rows_of_pairs, run
from fitted import make
from pyarrow import parquet
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from rafm import RaFMClassifier, load
from rafm.model import file as storage

PAIRS = {
    "0/1": (0, 1),
    "-1/1": (-1, 1),
    "1/2": (1, 2),
    "yes/no": ("no", "yes"),
    "true/false": ("false", "true"),
    "booleans": (False, True),
    "two words": ("alpha", "beta"),
    "a known word": ("skip", "click"),
}
ONCE = ("--ranks", "2,4", "--epochs", "3")
FAST = (*ONCE, "--valid-share", "0")  # nothing is held out


def frame(negative, positive, n_rows=400):
    draw = np.random.default_rng(0)
    users, items = draw.integers(0, 12, n_rows), draw.integers(0, 10, n_rows)
    is_positive = (users + items) % 2 == 0
    columns = {"user": [f"u{i}" for i in users], "item": [f"i{i}" for i in items]}
    return {"y": [positive if is_one else negative for is_one in is_positive], **columns}


def write(path, columns):
    if path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path)
    else:
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("case", PAIRS)
def test_any_two_labels_are_trained_stored_and_decoded_again(tmp_path, case, suffix):
    negative, positive = PAIRS[case]
    data, out = write(tmp_path / f"t{suffix}", frame(negative, positive)), tmp_path / "m.rafm"
    plain = write(tmp_path / f"plain{suffix}", frame(0, 1))
    report = run("train", data, "--label", "y", "--out", out, *FAST, "--json").json()
    run("train", plain, "--label", "y", "--out", tmp_path / "plain.rafm", *FAST)
    written = [str(label) for label in (negative, positive)] if case == "booleans" and suffix == ".csv" else PAIRS[case]
    assert report["classes"] == list(written)
    saved, usual = storage.load(out), storage.load(tmp_path / "plain.rafm")
    assert saved.classes == (None if case == "0/1" else list(written))
    # the labels are names alone: everything trained is the same as with 0 and 1
    for name, array in usual.model.parameters.arrays().items():
        np.testing.assert_array_equal(array, saved.model.parameters.arrays()[name])
    found, expected = (
        run("evaluate", model, file, "--json").out for model, file in ((out, data), (usual_path(tmp_path), plain))
    )
    assert found == expected
    assert load(out).classes_.tolist() == list(written)


def usual_path(folder):
    return folder / "plain.rafm"


def test_the_line_about_the_positive_label_is_there_unless_there_is_no_doubt(tmp_path):
    for labels, line in (
        ((0, 1), ""),
        ((-1, 1), ""),
        (("skip", "click"), "labels: 'click' is positive, 'skip' is negative\n"),
    ):
        data = write(tmp_path / "t.csv", frame(*labels, n_rows=50))
        printed = run("train", data, "--label", "y", "--out", tmp_path / "m.rafm", *FAST).out
        assert line in printed
        assert ("positive" in printed) == bool(line)


@pytest.mark.parametrize("first", ["1", "2"])
@pytest.mark.parametrize("source", ["libsvm", "arrow"])
def test_labels_sorted_by_class_are_read_again_if_the_first_pieces_misled(tmp_path, monkeypatch, first, source):
    text = rows_of_pairs(300, labels=("1", "2"))
    lines = sorted(text.splitlines(), key=lambda line: line[0] != first)
    path, out = tmp_path / "t.svm", tmp_path / "m.rafm"
    path.write_text("\n".join(lines) + "\n")
    read_in_pieces(monkeypatch, 64)
    data = path
    if source == "arrow":
        data = tmp_path / "t.arrow"
        assert run("convert", path, data).code == 0
    assert run("train", data, "--out", out, "--ranks", "2,4", "--epochs", "20", "--valid-share", "0").code == 0
    scores = [float(line) for line in run("predict", out, path).out.split()]
    assert load(out).classes_.tolist() == [1, 2]
    assert roc_auc_score([line[0] == "2" for line in lines], scores) > 0.8
    assert run("evaluate", out, path, "--json").json()["auc"] > 0.8


def test_labels_of_a_stream_that_misled_ask_for_the_positive_one(tmp_path, monkeypatch):
    read_in_pieces(monkeypatch, 64)
    text = "".join(f"1 {i % 7}:1\n" for i in range(50)) + "2 3:1\n"
    ran = run("train", "-", "--out", tmp_path / "m.rafm", *FAST, stdin=text.encode())
    assert ran.code == 3
    assert "only the next shows that 2 is positive. Say so: --positive 2" in ran.error()
    again = run("train", "-", "--out", tmp_path / "m.rafm", "--positive", "2", *FAST, stdin=text.encode())
    assert again.code == 0


def test_the_chosen_label_is_positive_everywhere(tmp_path):
    data, out, arrow = write(tmp_path / "t.csv", frame("no", "yes")), tmp_path / "m.rafm", tmp_path / "t.arrow"
    assert run("convert", data, arrow, "--label", "y", "--positive", "no").code == 0
    assert run("train", arrow, "--out", out, *FAST).code == 0
    assert load(out).classes_.tolist() == ["yes", "no"]
    refused = run("train", arrow, "--out", out, *FAST, "--positive", "yes")
    assert refused.code == 2
    assert "Convert its source again with --positive yes" in refused.error()
    means = run("evaluate", out, data, "--json").json()
    assert means["mean_label"] == pytest.approx(np.mean([label == "no" for label in frame("no", "yes")["y"]]))
    assert "no such label; there are" in run("train", data, "--label", "y", "--out", out, "--positive", "x").err
    assert (
        "--positive is for --task binary"
        in run("train", data, "--label", "y", "--out", out, "--positive", "yes", "--task", "regression").error()
    )


def test_converted_files_of_other_labels_are_refused_and_those_like_the_model_are_not(tmp_path):
    data, other = write(tmp_path / "t.csv", frame("no", "yes")), write(tmp_path / "o.csv", frame("bad", "good"))
    model, arrow = tmp_path / "m.rafm", tmp_path / "o.arrow"
    assert run("train", data, "--label", "y", "--out", model, *FAST).code == 0
    ran = run("convert", other, arrow, "--like", model)
    assert f"{other}:2: label " in ran.error()
    assert "was never seen in training; the labels there are 'no' and 'yes'" in ran.error()
    assert run("convert", data, arrow, "--like", model).code == 0
    assert run("evaluate", model, arrow, "--json").out == run("evaluate", model, data, "--json").out
    ids = tmp_path / "t.svm"
    ids.write_text(rows_of_pairs(60, labels=("1", "2")))
    assert run("train", ids, "--out", model, *FAST).code == 0
    ids.write_text(rows_of_pairs(60, labels=("0", "1")))
    assert run("convert", ids, arrow).code == 0
    assert "its labels are 0 and 1, those of the model 1 and 2. Use its source" in run("evaluate", model, arrow).error()


def test_a_label_never_seen_in_training_names_file_and_line(tmp_path):
    data, out = write(tmp_path / "t.csv", frame("no", "yes", 60)), tmp_path / "m.rafm"
    assert run("train", data, "--label", "y", "--out", out, *FAST).code == 0
    new = tmp_path / "new.csv"
    new.write_text('y,user,item\nno,u1,"i\n1"\n\nyes,u2,i2\nmaybe,u3,i3\n')
    ran = run("evaluate", out, new)
    assert ran.error() == f"{new}:6: label 'maybe' was never seen in training; the labels there are 'no' and 'yes'"
    valid = run("train", data, "--label", "y", "--valid", new, "--out", out, *ONCE)
    assert f"{new}:6: label 'maybe'" in valid.err
    columns = {"y": ["no", "maybe"], "user": ["u1", "u2"], "item": ["i1", "i2"]}
    ran = run("evaluate", out, write(tmp_path / "new.parquet", columns))
    assert "new.parquet: row 2 (counted from 1): label 'maybe' was never seen" in ran.error()


def test_training_continues_with_the_labels_of_the_model(tmp_path):
    data, out = write(tmp_path / "t.csv", frame("no", "yes")), tmp_path / "m.rafm"
    assert run("train", data, "--label", "y", "--out", out, *FAST).code == 0
    assert run("train", data, "--resume-from", out, "--out", out).code == 0
    assert load(out).classes_.tolist() == ["no", "yes"]
    other = write(tmp_path / "o.csv", frame("no", "perhaps"))
    ran = run("train", other, "--resume-from", out, "--out", out)
    assert "label 'perhaps' was never seen in training" in ran.error()


def test_a_model_of_the_command_line_goes_on_in_python(tmp_path):
    columns = frame("skip", "click")
    assert (
        run("train", write(tmp_path / "t.csv", columns), "--label", "y", "--out", tmp_path / "m.rafm", *FAST).code == 0
    )
    model, table = load(tmp_path / "m.rafm"), pd.DataFrame(columns)
    X, y = table.drop(columns="y"), table["y"]
    assert model.score(X, y) > 0.9
    model.partial_fit(X, y, classes=["click", "skip"])
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X)[:, 1] > 0.5, model.predict(X) == "click")


def test_inspect_says_what_train_would(tmp_path):
    path = write(tmp_path / "t.csv", frame("skip", "click"))
    ran, report = run("inspect", path, "--label", "y"), run("inspect", path, "--label", "y", "--json").json()
    share = np.mean([label == "click" for label in frame("skip", "click")["y"]])
    assert f"two classes, {100 * share:.0f} % positive ('click' is positive, 'skip' is negative)" in ran.out
    assert report["task"] == "binary"
    assert sum(report["labels"]["counts"].values()) == 400
    assert set(report["labels"]["counts"]) == {"skip", "click"}
    assert run("inspect", path, "--label", "y", "--task", "regression").code == 3


# More than two classes, in Python


def three_classes(n_rows=600):
    draw = np.random.default_rng(1)
    users, items = draw.integers(0, 9, n_rows), draw.integers(0, 9, n_rows)
    names = np.array(["red", "green", "blue"])
    table = pd.DataFrame({"user": [f"u{i}" for i in users], "item": [f"i{i}" for i in items]})
    return table, names[(users + items) % 3]


def test_one_against_the_rest_takes_three_classes():
    X, y = three_classes()
    model = OneVsRestClassifier(RaFMClassifier(ranks=(2, 8), l2=0.001, validation_fraction=0)).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.classes_.tolist() == ["blue", "green", "red"]


def test_three_classes_are_refused_with_the_way_out():
    X, y = three_classes(30)
    with pytest.raises(ValueError, match=r"with 3 classes\. .*OneVsRestClassifier\(RaFMClassifier\(\)\)"):
        RaFMClassifier().fit(X, y)


def test_a_model_file_keeps_labels_of_any_kind(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y,x\n" + '"an ""odd""\nlabel",1\nß,2\n' * 20)
    assert run("train", path, "--label", "y", "--out", tmp_path / "m.rafm", "--model", "lr", "--epochs", "1").code == 0
    assert load(tmp_path / "m.rafm").classes_.tolist() == ['an "odd"\nlabel', "ß"]
    assert json.loads(run("evaluate", tmp_path / "m.rafm", path, "--json").out)["rows"] == 40


# A label column that the model does not know


def visits_of(path, **columns):
    """Write a table of visits; return it as a frame."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"city": rng.choice(["Rome", "Oslo", "Bonn"], 200), "n": rng.normal(size=200)})
    frame = frame.assign(y=(frame.city == "Rome") ^ (rng.random(200) < 0.2), **columns)
    frame.assign(y=frame.y.astype(int)).to_csv(path, index=False)
    return frame


def test_a_model_of_python_is_evaluated_on_a_label_column(tmp_path):
    frame = visits_of(tmp_path / "t.csv")
    X, y = frame[["city", "n"]], frame.y.astype(int)
    model = make("binary", "lr").fit(X, y)
    model.save(tmp_path / "m.rafm")
    ran = run("evaluate", tmp_path / "m.rafm", tmp_path / "t.csv", "--label", "y", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json()["log_loss"] == pytest.approx(log_loss(y, model.predict_proba(X)), rel=1e-6)
    told = run("evaluate", tmp_path / "m.rafm", tmp_path / "t.csv").error()
    assert "trained in Python" in told
    assert "--label COLUMN" in told


@pytest.mark.parametrize(("label", "told"), [("city", "predicts from column 'city'"), ("z", "column 'z' is missing")])
def test_a_label_column_that_cannot_be_is_refused(tmp_path, label, told):
    frame = visits_of(tmp_path / "t.csv")
    make("binary", "lr").fit(frame[["city", "n"]], frame.y).save(tmp_path / "m.rafm")
    assert told in run("evaluate", tmp_path / "m.rafm", tmp_path / "t.csv", "--label", label).error()


def test_a_label_column_of_rows_of_ids_is_refused(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs())
    assert run("train", tmp_path / "rows.svm", "--out", tmp_path / "m.rafm", "--model", "lr", "--epochs", "1").code == 0
    told = run("evaluate", tmp_path / "m.rafm", tmp_path / "rows.svm", "--label", "y").error()
    assert "--label is for tables" in told


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_rows_without_the_weights_of_training_count_one_each(tmp_path, format):
    frame = visits_of(tmp_path / "t.csv", w=np.arange(200) % 3 + 0.5)
    flags = ["--label", "y", "--weight", "w", "--out", tmp_path / "m.rafm", "--model", "lr", "--epochs", "1"]
    assert run("train", tmp_path / "t.csv", *flags).code == 0
    bare = tmp_path / f"bare.{format}"
    rows = frame.drop(columns="w").assign(y=frame.y.astype(int))
    rows.to_csv(bare, index=False) if format == "csv" else rows.to_parquet(bare)
    ran = run("evaluate", tmp_path / "m.rafm", bare, "--json")
    assert (ran.code, ran.err) == (0, f"warning: {bare} has no weight column 'w': every row counts with weight 1\n")
    predicted = np.array(run("predict", tmp_path / "m.rafm", bare).out.split(), float)
    assert ran.json()["log_loss"] == pytest.approx(log_loss(rows.y, predicted), rel=1e-6)


def test_labels_that_are_all_the_same_give_no_hint_of_more_epochs(tmp_path):
    (tmp_path / "ones.svm").write_text(rows_of_pairs(labels=("1", "1")))
    flags = ["--valid", tmp_path / "ones.svm", "--out", tmp_path / "m.rafm", *ONCE]
    ran = run("train", tmp_path / "ones.svm", *flags)
    assert ran.code == 0
    assert "all labels are the same" in ran.err
    assert "may improve" not in ran.out
