"""Field weights from the option to the file: when they are on; that they are saved, resumed and continued exactly."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from commands import run
from fitted import KINDS, long_tail, make, scores_of
from worlds import planted

import rafm
from rafm.checks import effective
from rafm.errors import ConfigError, DataValueError, ModelFormatError
from rafm.files.container import read_container, write_container
from rafm.model.file import Saved, load, save
from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.resources import Resources
from rafm.train.steps import record_engine

FAMILIES = {"rafm": (4, 8), "difacto": (4, 8), "fm": (8,)}
FIELDS = ["a", "b", "c", "b"] * 15


def clicks():
    """Return rows of two fields of 30 and 20 ids, told apart, and validation rows."""
    data, valid = planted(n_rows=900)
    return InMemory(data, Fields.of_ranges(["user", "item"], [0, 30, 50])), valid


def options(**chosen):
    return resolve(**effective({"task": "binary", "ranks": (4, 8), "rank_scale": 0.2, "n_epochs": 3, **chosen}))


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()}


# ---- When


def has_weights(data, **chosen):
    return train_model(data, options(n_epochs=1, **chosen)).plan.n_field_weights


@pytest.mark.parametrize("model", FAMILIES)
def test_weights_are_on_if_there_are_two_fields(model):
    data, _ = clicks()
    chosen = {"model": model, "ranks": FAMILIES[model]}
    assert has_weights(data, **chosen) == 2
    assert has_weights(data, field_weights="off", **chosen) == 0
    assert has_weights(InMemory(data.rows), **chosen) == 0
    one = InMemory(data.rows, Fields.of_ranges(["all"], [0, 50]))
    assert has_weights(one, **chosen) == 0
    assert has_weights(one, field_weights="on", **chosen) == 1


def test_families_without_field_weights_do_without():
    data, _ = clicks()
    assert has_weights(data, model="lr", ranks=None) == 0
    assert has_weights(data, model="mrma") == 0
    for model in ("lr", "mrma"):
        with pytest.raises(ConfigError, match=f"field_weights has no effect with model='{model}'"):
            resolve(task="binary", model=model, field_weights="on")
    with pytest.raises(ConfigError, match="field_weights must be one of auto, on, off, found True"):
        options(field_weights=True)


def test_weights_need_fields():
    data, _ = clicks()
    with pytest.raises(DataValueError, match="field weights need fields: those of a table"):
        train_model(InMemory(data.rows), options(field_weights="on"))


def test_a_table_has_weights_and_its_model_shows_them(tmp_path):
    table = pd.DataFrame({"user": list("abba") * 20, "item": list("xyxy") * 20, "click": [1, 0, 0, 1] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    common = ("train", tmp_path / "t.csv", "--label", "click", "--out", tmp_path / "m.rafm", "--epochs", "2")
    assert "rafm with weights and bias, weights of 2 fields" in run(*common).out
    shown = run("inspect", tmp_path / "m.rafm", "--json").json()
    weights = load(tmp_path / "m.rafm").model.parameters.fields
    assert [one["weight"] for one in shown["fields"]] == weights.tolist()
    assert shown["parameters"] == 1 + 4 + 4 * 8 + sum(one["parameters"] for one in shown["plan"][1:]) + 2
    assert "features  weight  field\n" in run("inspect", tmp_path / "m.rafm").out
    assert run(*common, "--field-weights", "off").code == 0
    assert load(tmp_path / "m.rafm").model.parameters.fields is None
    failed = run(*common, "--field-weights", "on", "--model", "lr").error()
    assert failed == "--field-weights has no effect with --model lr; drop it"


# ---- The same bits


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "ftrl", "adam"])
@pytest.mark.parametrize("model", FAMILIES)
def test_the_number_of_threads_changes_no_bit(model, optimizer):
    data, valid = clicks()
    chosen = {"model": model, "ranks": FAMILIES[model], "optimizer": optimizer}
    found = [train_model(data, options(threads=threads, **chosen), valid) for threads in (1, 2)]
    assert bytes_of(found[0]) == bytes_of(found[1])
    assert found[0].parameters.fields.size == 2


@pytest.mark.parametrize("model", FAMILIES)
def test_a_run_that_was_stopped_ends_at_the_same_bytes(model, tmp_path, monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)
    data, valid = clicks()
    chosen = options(model=model, ranks=FAMILIES[model])
    expected = train_model(data, chosen, valid)
    for stop_after in (9, 5, None):  # events of a run: the plan, pieces, checkpoints, epochs
        with Checkpoint(tmp_path, seconds=0) as checkpoint:
            for number, event in enumerate(run_recipe(data, chosen, valid, Resources(checkpoint=checkpoint))):
                last = event
                if number == stop_after:
                    break
    assert bytes_of(last.model) == bytes_of(expected)


@pytest.mark.parametrize("optimizer", ["adagrad", "ftrl"])
def test_going_on_from_a_file_gives_the_bytes_of_going_on(optimizer, tmp_path):
    X, y = long_tail()
    model = make(optimizer=optimizer, fields=FIELDS).partial_fit(X, y)
    model.save(tmp_path / "m.rafm", keep_state=True)
    again = rafm.load(tmp_path / "m.rafm")
    first = model.model_.parameters.fields.copy()
    for one in (model, again):
        one.partial_fit(X[:100], y[:100])
    assert bytes_of(model.model_) == bytes_of(again.model_)
    assert (model.model_.parameters.fields != first).any()


@pytest.mark.parametrize("model", FAMILIES)
def test_two_epochs_one_by_one_give_the_bytes_of_two_in_a_row(model, tmp_path):
    """The gradient by which the weights have not stepped yet goes through the file too."""
    data, _ = clicks()
    one = dataclasses.replace(options(model=model, ranks=FAMILIES[model], n_epochs=1), shuffle=False, keep_state=True)
    *_, first = run_recipe(data, one)
    save(tmp_path / "m.rafm", Saved(first.model))
    *_, second = run_recipe(data, one, start=load(tmp_path / "m.rafm").model)
    *_, whole = run_recipe(data, dataclasses.replace(one, n_epochs=2))
    assert bytes_of(second.model) == bytes_of(whole.model)
    assert first.model.parameters.states.fields[1].any()


# ---- Files and further training


@pytest.mark.parametrize("model", FAMILIES)
@pytest.mark.parametrize("task", KINDS)
def test_a_model_scores_the_same_after_a_round_trip(task, model, tmp_path):
    X, y = long_tail(task)
    fitted = make(task, model, fields=FIELDS).fit(X, y)
    fitted.save(tmp_path / "m.rafm")
    assert fitted.model_.parameters.fields.shape == (3,)
    assert fitted.n_parameters_ == fitted.model_.plan.n_parameters
    np.testing.assert_array_equal(scores_of(rafm.load(tmp_path / "m.rafm"), X), scores_of(fitted, X))


def test_a_field_that_is_new_gets_a_weight(tmp_path):
    (tmp_path / "a.ffm").write_text("1 0:0:1 1:3:1\n0 0:1:1 1:4:1\n" * 8)
    (tmp_path / "b.ffm").write_text("1 0:0:1 2:7:1\n0 0:1:1 2:8:1\n" * 8)
    common = ("--out", tmp_path / "m.rafm", "--keep-state", "--epochs", "1")
    assert run("train", tmp_path / "a.ffm", *common, "--ranks", "4,8").code == 0
    before = load(tmp_path / "m.rafm").model
    resumed = ("--resume-from", tmp_path / "m.rafm")
    assert run("train", tmp_path / "b.ffm", *common, *resumed).code == 0
    after = load(tmp_path / "m.rafm").model
    assert (before.fields.names, after.fields.names) == (("0", "1"), ("0", "1", "2"))
    assert after.parameters.fields[2] == pytest.approx(0.3, abs=0.05)  # one mini-batch: AdaGrad's steps are below 0.05
    assert after.parameters.states.fields.shape == (2, 3)
    for choice, was in (("off", "on"), ("on", "on")):
        done = run("train", tmp_path / "b.ffm", *common, *resumed, "--field-weights", choice)
        assert (done.code == 0) == (choice == was)
    assert (
        "--field-weights was on when the model was trained, now it is off"
        in run("train", tmp_path / "b.ffm", *common, *resumed, "--field-weights", "off").error()
    )


def test_a_model_without_weights_goes_on_without_them():
    data, _ = clicks()
    before = train_model(InMemory(data.rows), options(n_epochs=1))
    *_, last = run_recipe(data, options(n_epochs=1), start=before)
    assert last.model.parameters.fields is None
    assert last.model.fields.names == ("user", "item")
    with pytest.raises(ConfigError, match="field_weights was off when the model was trained, now it is on"):
        [*run_recipe(data, options(n_epochs=1, field_weights="on"), start=before)]


DAMAGE = {
    "above 1": (
        lambda header, tensors: tensors["field_weights"].__setitem__(0, 1.5),
        "weights must be between -1 and 1",
    ),
    "too few": (lambda header, tensors: tensors.update(field_weights=np.zeros(1, "f4")), "must have shape"),
    "no names": (
        lambda header, tensors: (header.pop("fields"), tensors.pop("fields")),
        "unexpected tensor 'field_weights'",
    ),
    "no sums": (
        lambda header, tensors: tensors["states.field_weights"].__setitem__((0, 0), 0),
        "sums of squares must be at least 1",
    ),
    "no states": (lambda header, tensors: tensors.pop("states.field_weights"), "'states.field_weights' is missing"),
}


@pytest.mark.parametrize("case", DAMAGE.values(), ids=DAMAGE)
def test_weights_that_cannot_be_are_refused(case, tmp_path):
    X, y = long_tail()
    make(fields=FIELDS, n_epochs=1).fit(X, y).save(tmp_path / "m.rafm", keep_state=True)
    header, tensors = read_container(tmp_path / "m.rafm")
    case[0](header, tensors)
    write_container(tmp_path / "m.rafm", tensors, header)
    with pytest.raises(ModelFormatError, match=case[1]):
        load(tmp_path / "m.rafm")
