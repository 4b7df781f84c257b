"""Going on from a trained model: the same numbers as without a stop, new features and values, and refusals by name."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from commands import run
from fitted import RANKS
from worlds import planted

from rafm import RaFMClassifier, RaFMRegressor, UnseenValuesWarning, load
from rafm.checks import effective
from rafm.errors import ConfigError, ModelFormatError, ModelVersionError
from rafm.files.container import read_container, write_container
from rafm.model.file import Saved, save
from rafm.model.file import load as load_file
from rafm.optimizers import OPTIMIZERS
from rafm.options import resolve
from rafm.plan.ranks import Thresholds
from rafm.rows.blocks import take_rows
from rafm.train.dispatch import run_recipe
from rafm.train.events import Continued, Finished

CASES = [(family, name) for family in ("lr", "fm", "difacto", "rafm") for name in OPTIMIZERS] + [("mrma", "adagrad")]


def options(task="binary", family="rafm", optimizer="adagrad", n_epochs=1, **chosen):
    ranks = {"lr": None, "fm": (8,)}.get(family, (4, 8))
    usual = dict(model=family, ranks=ranks, levels=Thresholds((60,)), optimizer=optimizer, n_epochs=n_epochs, **chosen)
    found = resolve(task=task, **effective(usual))
    return dataclasses.replace(found, shuffle=False, keep_state=True)


def trained(data, chosen, start=None):
    *_, last = run_recipe(data, chosen, start=start)
    assert isinstance(last, Finished)
    return last.model


def table(n_rows, first_item=0, seed=0):
    draw = np.random.default_rng(seed)
    users, items = draw.integers(0, 20, n_rows), first_item + draw.integers(0, 10, n_rows)
    frame = pd.DataFrame({"user": [f"u{u}" for u in users], "item": [f"i{i}" for i in items]})
    return frame, (users % 2 == items % 2).astype(int)


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize(("family", "optimizer"), CASES)
def test_going_on_from_a_file_gives_the_bytes_of_training_without_a_stop(family, optimizer, task, tmp_path):
    data, _ = planted(task, n_rows=1200)
    whole = trained(data, options(task, family, optimizer, n_epochs=2, averaging=False))
    save(tmp_path / "half.rafm", Saved(trained(data, options(task, family, optimizer))))
    joined = trained(data, options(task, family, optimizer), load_file(tmp_path / "half.rafm").model)
    expected = whole.parameters.arrays()
    for name, found in joined.parameters.arrays().items():
        assert found.tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("model", ["fm", "rafm", "lr"])
def test_going_on_in_memory_gives_the_model_of_going_on_from_a_file(model, tmp_path):
    """Without l2 and learning rate given, both keep those of the first rows, however few the next ones are."""
    frame, labels = table(2000)
    going_on = RaFMClassifier(model=model, ranks=RANKS[model]).partial_fit(frame[:1000], labels[:1000])
    going_on.save(tmp_path / "half.rafm", keep_state=True)
    loaded = load(tmp_path / "half.rafm")
    for at in range(1000, 2000, 100):
        for one in (going_on, loaded):
            one.partial_fit(frame[at : at + 100], labels[at : at + 100])
    np.testing.assert_array_equal(going_on.decision_function(frame), loaded.decision_function(frame))
    assert going_on.model_.options == loaded.model_.options


def test_chunks_are_close_to_one_pass_over_their_rows():
    data, _ = planted(n_rows=3000)
    first, rest = take_rows(data, 0, 800), take_rows(data, 800, data.n_rows)
    start = trained(first, options())
    chunked = start
    for at in range(0, rest.n_rows, 400):
        chunked = trained(take_rows(rest, at, min(at + 400, rest.n_rows)), options(), chunked)
    together = trained(rest, options(), start)
    assert chunked.n_rows == together.n_rows == data.n_rows
    np.testing.assert_array_equal(chunked.feature_counts(), together.feature_counts())
    np.testing.assert_allclose(chunked.scores(data), together.scores(data), atol=2e-2)


def test_without_states_they_start_anew_and_that_is_told():
    data, _ = planted(n_rows=900)
    start = trained(data, options()).for_scoring()
    told = [event for event in run_recipe(data, options(), start=start) if isinstance(event, Continued)]
    assert [event.with_states for event in told] == [False]


def test_values_that_are_new_in_a_later_table_are_learnt(tmp_path):
    model = RaFMClassifier(ranks=(2, 4), l2=0)
    first, labels = table(2000)
    model.partial_fit(first, labels)
    later, answers = table(4000, first_item=10, seed=1)
    with pytest.warns(UnseenValuesWarning):
        before = model.score(later, answers)
    model.partial_fit(later, answers)
    assert before < 0.7 < 0.95 < model.score(later, answers)
    assert model.encoder_.n_features == 40
    assert model.score(first, labels) > 0.95
    model.save(tmp_path / "m.rafm", keep_state=True)
    again = load(tmp_path / "m.rafm")
    for estimator in (model, again, twin := pickle.loads(pickle.dumps(model))):
        estimator.partial_fit(first, labels)
    np.testing.assert_array_equal(again.decision_function(later), model.decision_function(later))
    np.testing.assert_array_equal(twin.decision_function(later), model.decision_function(later))


def test_the_training_loss_of_one_pass_is_that_of_rows_before_they_are_used():
    data, _ = planted(n_rows=300)
    start = trained(data, options())
    for at in (0, 1):
        row = take_rows(data, at, at + 1)
        score, label = float(start.scores(row)[0]), float(row.labels[0])
        start = trained(row, options(), start)
        assert start.history[-1]["train_loss"] == pytest.approx(np.logaddexp(0, score) - label * score, rel=1e-4)


def test_classes_are_named_when_the_first_rows_have_but_one():
    rows, _ = table(50)
    with pytest.raises(ValueError, match="pass both classes: classes"):
        RaFMClassifier().partial_fit(rows, np.ones(50, int))
    model = RaFMClassifier().partial_fit(rows, np.ones(50, int), classes=[0, 1])
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"differs from the first call, which had \[0, 1\]"):
        model.partial_fit(rows, np.ones(50, int), classes=[1, 2])


def test_a_failed_call_leaves_the_model_as_it_was():
    rows, labels = table(200)
    model = RaFMRegressor(ranks=2, model="fm").partial_fit(rows, labels)
    before = model.predict(rows)
    with pytest.raises(ConfigError, match="ranks was 2 when the model was trained, now it is 4"):
        model.set_params(ranks=4).partial_fit(rows, labels)
    np.testing.assert_array_equal(model.predict(rows), before)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.libsvm").write_text("1 0:1 2:1\n0 1:1 2:1\n" * 20)
    (tmp_path / "b.libsvm").write_text("1 0:1 3:1\n0 1:1 3:1\n" * 20)
    run("train", tmp_path / "a.libsvm", "--out", tmp_path / "m.rafm", "--ranks", "2,4", "--epochs", "2", "--keep-state")
    return tmp_path


def test_the_command_goes_on_with_the_choices_of_the_model(files):
    done = run("train", files / "b.libsvm", "--resume-from", files / "m.rafm", "--out", files / "n.rafm")
    assert "continuing from a model with 3 features; 1 new" in done.out
    assert "progressive" in done.out
    model = load_file(files / "n.rafm").model
    assert (model.plan.ranks, model.n_rows, len(model.history)) == ((2, 4), 80, 3)
    assert model.feature_counts().tolist() == [40, 40, 40, 40]
    assert model.parameters.states is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--task", "regression"), "task was binary when the model was trained, now it is regression"),
        (("--model", "difacto"), "model was rafm when the model was trained, now it is difacto"),
        (("--ranks", "2,8"), "ranks was 2,4 when the model was trained, now it is 2,8"),
        (("--optimizer", "sgd"), "optimizer was adagrad when the model was trained, now it is sgd"),
        (("--index-base", "1"), "was trained with --index-base 0, not 1"),
        (("--label", "click"), "--label cannot be combined with --resume-from"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_by_name(files, given, said):
    command = ("train", files / "b.libsvm", "--resume-from", files / "m.rafm", "--out", files / "n.rafm", *given)
    done = run(*command)
    assert done.code == 2
    assert said in done.error()
    assert not (files / "n.rafm").exists()


def test_the_command_goes_on_with_converted_rows(files):
    resume = ("--resume-from", files / "m.rafm", "--out")
    run("convert", files / "b.libsvm", files / "b.arrow")
    done = run("train", files / "b.arrow", *resume, files / "n.rafm")
    assert done.code == 0, done.err
    run("train", files / "b.libsvm", *resume, files / "text.rafm")
    assert (files / "n.rafm").read_bytes() == (files / "text.rafm").read_bytes()


def test_converted_rows_whose_ids_mean_something_else_are_refused(files):
    (files / "b.csv").write_text("click,city\n" + "1,Rome\n0,Oslo\n" * 20)
    run("convert", files / "b.csv", files / "table.arrow", "--label", "click")
    (files / "one.libsvm").write_text("1 1:1 3:1\n0 2:1 3:1\n" * 20)
    run("convert", files / "one.libsvm", files / "one.arrow", "--index-base", "1")
    for name, said in {
        "table.arrow": "that of the model is none (rows of ids)",
        "one.arrow": "its ids start from 1, those of the model from 0",
    }.items():
        done = run("train", files / name, "--resume-from", files / "m.rafm", "--out", files / "n.rafm")
        assert done.code == 3
        assert said in done.error()
        assert name in done.error()
    assert not (files / "n.rafm").exists()


def test_states_that_cannot_be_are_refused(files):
    header, tensors = read_container(files / "m.rafm")
    wrong = {
        "powers of 2": {"states.value_scales": tensors["states.value_scales"] * np.float32(3)},
        "powers of 4": {"states.label_scale": tensors["states.label_scale"] * np.float32(2)},
        "at least 1": {"states.weights": tensors["states.weights"] * np.float32(0)},
        "states.bias": {"states.bias": tensors["states.bias"][:2]},
    }
    for said, changed in wrong.items():
        write_container(files / "w.rafm", {**tensors, **changed}, header)
        with pytest.raises(ModelFormatError, match=said):
            load_file(files / "w.rafm")


def test_states_of_a_newer_version_are_refused(files, monkeypatch):
    saved = load_file(files / "m.rafm")
    monkeypatch.setattr("rafm.model.file.STATES_VERSION", 2)
    save(files / "w.rafm", saved)
    monkeypatch.undo()
    with pytest.raises(ModelVersionError, match="optimiser state has version 2"):
        load_file(files / "w.rafm")


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "adam"])  # ftrl finds weights anew at another learning rate
@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize(("before", "after"), [(0.25, 0.25), (1.0, 0.25), (0.25, 1.0)])
def test_steps_of_no_size_leave_probabilities_as_they_were_whatever_the_share_of_negatives(
    before, after, with_states, optimizer
):
    """The bias of training on a share of the negatives is shifted back and forth, never once alone."""
    data, _ = planted(n_rows=600)
    model = trained(data, options(optimizer=optimizer, negative_rate=before, n_epochs=3))
    start = model if with_states else model.for_scoring()
    again = trained(data, options(optimizer=optimizer, negative_rate=after, learning_rate=1e-12), start)
    np.testing.assert_allclose(again.scores(data), model.scores(data), atol=1e-4)
