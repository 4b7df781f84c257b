"""Fields of features from the data to the model file and on to further training."""

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy import sparse

import rafm
from rafm import RaFMClassifier
from rafm.errors import ConfigError, ModelFormatError
from rafm.files.container import read_container, write_container
from rafm.model.file import load

ROWS = "1 0:1 3:1\n0 1:1 3:1\n1 1:1 4:1\n0 0:1 4:1\n"
FIELDS = "0\tuser\n1\tuser\n2\tuser\n3\titem\n"
FAST = ("--model", "fm", "--ranks", "4", "--epochs", "1")


@pytest.fixture
def files(tmp_path):
    """Return the paths of rows, fields and a model to write."""
    for name, text in (("rows.svm", ROWS), ("fields.tsv", FIELDS), ("rows.ffm", "1 0:0:1 1:3:1\n0 0:1:1 1:4:1\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "table.csv").write_text("click,user,item\n1,a,x\n0,b,y\n1,b,x\n")
    return tmp_path


def train(files, data, *more):
    done = run("train", files / data, "--out", files / "m.rafm", *FAST, *more)
    assert done.code == 0, done
    return load(files / "m.rafm")


def fields_of(model):
    """Return {id: field} of a model's features."""
    names = [model.fields.names[number] for number in model.fields.numbers]
    return dict(zip(model.numbering.ids.tolist(), names))


def test_fields_are_kept_in_the_model_and_shown(files):
    given = ("--fields", files / "fields.tsv")
    assert fields_of(train(files, "rows.svm", *given).model) == {0: "user", 1: "user", 3: "item", 4: "<other>"}
    expected = [{"field": "user", "features": 2}, {"field": "item", "features": 1}, {"field": "<other>", "features": 1}]
    shown = run("inspect", files / "m.rafm", "--json").json()["fields"]
    assert [{name: one[name] for name in ("field", "features")} for one in shown] == expected
    printed = run("inspect", files / "m.rafm").out
    assert "       2   0.300  user\n       1   0.300  item\n       1   0.300  <other>\n" in printed
    assert fields_of(train(files, "rows.ffm").model) == {0: "0", 1: "0", 3: "1", 4: "1"}
    saved = train(files, "table.csv", "--label", "click")
    names = [name.partition("=")[0] for name in saved.encoder.feature_names()]
    assert fields_of(saved.model) == {i: names[i] for i in saved.model.numbering.ids.tolist()}


def test_a_model_without_fields_has_none_in_its_file(files):
    assert train(files, "rows.svm").model.fields is None
    header, tensors = read_container(files / "m.rafm")
    assert "fields" not in header
    assert "fields" not in tensors
    assert "fields" not in run("inspect", files / "m.rafm", "--json").json()


def test_converted_rows_train_the_same_model(files):
    given = ("--fields", files / "fields.tsv")
    train(files, "rows.svm", *given)
    expected = (files / "m.rafm").read_bytes()
    assert run("convert", files / "rows.svm", files / "rows.arrow", *given).code == 0
    train(files, "rows.arrow")
    assert (files / "m.rafm").read_bytes() == expected
    assert run("convert", files / "rows.svm", files / "rows.arrow").code == 0
    train(files, "rows.arrow", *given)
    assert (files / "m.rafm").read_bytes() == expected


def test_further_training_keeps_the_fields_and_adds_those_of_new_features(files):
    train(files, "rows.svm", "--fields", files / "fields.tsv")
    (files / "more.svm").write_text("1 2:1 3:1\n0 2:1 9:1\n")
    resumed = ("--resume-from", files / "m.rafm")
    expected = {0: "user", 1: "user", 2: "user", 3: "item", 4: "<other>", 9: "<other>"}
    assert fields_of(train(files, "more.svm", "--fields", files / "fields.tsv", *resumed).model) == expected
    (files / "last.svm").write_text("1 2:1 3:1\n0 2:1 7:1\n")
    assert fields_of(train(files, "last.svm", *resumed).model) == expected | {7: "<other>"}
    (files / "fields.tsv").write_text("2\titem\n")
    failed = run("train", files / "last.svm", "--out", files / "x", *FAST, "--fields", files / "fields.tsv", *resumed)
    assert failed.error().startswith("feature id 2 is in field 'item', but in field 'user' of the model")


def test_a_checkpoint_of_other_fields_is_refused(files):
    given = ("--fields", files / "fields.tsv", "--checkpoint", files / "states")
    train(files, "rows.svm", *given)
    train(files, "rows.svm", *given)
    (files / "fields.tsv").write_text("0\titem\n1\titem\n")
    failed = run("train", files / "rows.svm", "--out", files / "m.rafm", *FAST, *given)
    assert "checksum of the fields was" in failed.error()


def test_features_that_are_dropped_take_their_fields_along(files):
    model = train(files, "rows.svm", "--fields", files / "fields.tsv", "--valid-share", 0).model
    model.parameters.weights[1] = model.parameters.factors[0][1] = 0
    kept = model.without_zeros()
    assert kept.n_dropped == 1
    assert fields_of(kept) == {i: field for i, field in fields_of(model).items() if i != model.numbering.ids[1]}


# ---- Estimators

X = sparse.csr_array(np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]] * 5, np.float32))
Y = [1, 0, 1, 0] * 5


def estimator(**options):
    return RaFMClassifier(ranks=4, model="fm", n_epochs=1, **options)


@pytest.mark.parametrize(
    "fields", [["u", "u", "i", "i"], np.array(["u", "u", "i", "i"]), pd.Series(["u", "u", "i", "i"])]
)
def test_fields_of_a_matrix_are_given_by_column(fields, tmp_path):
    model = estimator(fields=fields).fit(X, Y)
    assert fields_of(model.model_) == {0: "u", 1: "u", 2: "i", 3: "i"}
    model.save(tmp_path / "m.rafm")
    again = rafm.load(tmp_path / "m.rafm")
    assert fields_of(again.model_) == fields_of(model.model_)
    assert fields_of(again.partial_fit(X, Y).model_) == fields_of(model.model_)
    assert fields_of(model.partial_fit(X, Y).model_) == fields_of(again.model_)


def test_fields_may_be_numbers_and_are_none_by_default():
    assert fields_of(estimator(fields=np.array([7, 7, 2, 2])).fit(X, Y).model_) == {0: "7", 1: "7", 2: "2", 3: "2"}
    assert estimator().fit(X, Y).model_.fields is None


def test_new_values_of_a_table_get_the_field_of_their_column():
    table = pd.DataFrame({"user": list("abba"), "item": list("xyxy")})
    model = estimator().fit(table, [1, 0, 0, 1])
    model.partial_fit(pd.DataFrame({"user": list("cabc"), "item": list("xzyz")}), [1, 0, 1, 0])
    names = [name.partition("=")[0] for name in model.encoder_.feature_names()]
    assert set(names) == {"user", "item"}
    assert fields_of(model.model_) == {i: names[i] for i in model.model_.numbering.ids.tolist()}


WRONG = {
    "too few": ([1, 2], "fields must be 4 names or numbers, one per column; found 2"),
    "a table": ([[1, 2], [3, 4]], "fields must be 4 names or numbers, one per column; found 4"),
    "no names": ([1.5, 1, 2, 3], "fields must be names or whole numbers, found 1.5"),
    "missing": ([None, 1, 2, 3], "fields must be names or whole numbers, found None"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_fields_that_do_not_fit_are_refused(case):
    with pytest.raises(ConfigError) as caught:
        estimator(fields=case[0]).fit(X, Y)
    assert (str(caught.value), caught.value.key) == (case[1], "fields")


def test_fields_of_a_table_cannot_be_given():
    table = pd.DataFrame({"user": list("abba"), "item": list("xyxy")})
    with pytest.raises(ConfigError, match="fields are for matrices; those of a table are its columns"):
        estimator(fields=["u", "i"]).fit(table, [1, 0, 0, 1])


# ---- Model files


def without_tensor(header, tensors):
    del tensors["fields"]


def without_names(header, tensors):
    del header["fields"]


DAMAGE = {
    "names twice": (lambda header, tensors: header.update(fields=["a", "a", "b"]), "invalid header field 'fields'"),
    "names that are numbers": (
        lambda header, tensors: header.update(fields=[1, 2, 3]),
        "invalid header field 'fields'",
    ),
    "too few names": (lambda header, tensors: header.update(fields=["a", "b"]), "fields must be between 0 and 1"),
    "a negative field": (
        lambda header, tensors: tensors["fields"].__setitem__(0, -1),
        "fields must be between 0 and 2",
    ),
    "no tensor": (without_tensor, "tensor 'fields' is missing"),
    "no names": (without_names, "unexpected tensor 'fields'"),
}


@pytest.mark.parametrize("case", DAMAGE.values(), ids=DAMAGE)
def test_fields_that_do_not_fit_the_model_are_refused(files, case):
    train(files, "rows.svm", "--fields", files / "fields.tsv", "--field-weights", "off")
    header, tensors = read_container(files / "m.rafm")
    case[0](header, tensors)
    write_container(files / "m.rafm", tensors, header)
    with pytest.raises(ModelFormatError, match=case[1]):
        load(files / "m.rafm")


def test_long_field_names_are_stored_in_tensors(files):
    names = [f"{number}" + "é" * 1_500_000 for number in range(3)]  # twelve bytes each as escapes in JSON in JSON
    (files / "fields.tsv").write_text("".join(f"{i}\t{name}\n" for i, name in enumerate(names)))
    model = train(files, "rows.svm", "--fields", files / "fields.tsv").model
    assert "fields.text" in read_container(files / "m.rafm")[1]
    assert fields_of(model) == {0: names[0], 1: names[1], 3: "<other>", 4: "<other>"}
