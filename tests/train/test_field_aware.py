"""Field-aware models end to end: training, files, checkpoints, commands, what comes after, and what is refused."""

import os
import re
from contextlib import suppress
from dataclasses import replace

import commands
import numpy as np
import pandas as pd
import pytest
from fitted import long_tail, make

from rafm import RaFMClassifier, RaFMRegressor, load
from rafm.errors import ConfigError, DataValueError, ResourceLimitError
from rafm.model.file import Saved, save
from rafm.model.file import load as load_file
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Finished
from rafm.train.resources import Resources

FIELDS = ["a", "b", "c"] * 20
N_ROWS = 600


def pairs_table(n_rows=N_ROWS, seed=0):
    """Return three columns and labels that depend on the pairs of the first two."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (n_rows, 3))
    effects = np.random.default_rng(1).normal(size=(6, 6))
    y = (3 * effects[codes[:, 0], codes[:, 1]] + rng.logistic(size=n_rows) > 0).astype(int)
    return pd.DataFrame(codes.astype(str), columns=["user", "item", "noise"]), y


def machine(**options):
    usual = {"model": "ffm", "ranks": 4, "n_epochs": 8, "validation_fraction": 0}
    return RaFMClassifier(**usual | options)


@pytest.fixture(scope="module")
def fitted():
    return machine().fit(*pairs_table(3000))


def clicks(n_rows=300, seed=0):
    """Return rows of ids 0..8 with known fields, as a source."""
    rng = np.random.default_rng(seed)
    ids = np.array([0, 3, 6]) + rng.integers(0, 3, (n_rows, 3))
    labels = rng.integers(0, 2, n_rows).astype(np.float32)
    rows = check_batch(Batch(3 * np.arange(n_rows + 1), ids.ravel(), np.ones(ids.size), 9, labels))
    return InMemory(rows, Fields.of_ranges(("u", "v", "w"), (0, 3, 6, 9)))


def options(**given):
    return resolve(**{"task": "binary", "model": "ffm", "ranks": 3, "n_epochs": 2} | given)


# ---- Training


def test_it_learns_pairs_that_a_linear_model_cannot(fitted):
    X, y = pairs_table(3000, seed=2)
    linear = machine(model="lr", ranks=None).fit(*pairs_table(3000))
    assert fitted.score(X, y) > linear.score(X, y) + 0.1


def test_a_feature_has_a_vector_for_each_field(fitted):
    n_features = 18
    assert fitted.n_parameters_ == 1 + n_features + n_features * 3 * 4
    assert fitted.model_.parameters.factors[0].shape == (n_features, 12)


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "adam", "ftrl"])
def test_bytes_do_not_depend_on_the_number_of_threads(optimizer, tmp_path):
    for threads in (1, 2, 4):
        machine(optimizer=optimizer, n_jobs=threads).fit(*pairs_table()).save(tmp_path / f"{threads}.rafm")
    one, *others = ((tmp_path / f"{threads}.rafm").read_bytes() for threads in (1, 2, 4))
    assert all(other == one for other in others)


@pytest.mark.filterwarnings("ignore:all labels are 0 or 1")
@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
def test_all_losses_train(loss):
    X, y = pairs_table()
    found = RaFMRegressor(model="ffm", ranks=2, loss=loss, n_epochs=8).fit(X, y.astype(float))
    assert np.mean((found.predict(X) - y) ** 2) < np.var(y)


def test_a_row_weight_of_two_counts_like_two_rows_and_0_like_none():
    X, y = pairs_table(60)
    weights = np.repeat([0.0, 2.0], 30)
    twice = pd.concat([X[30:], X[30:]]), np.concatenate([y[30:], y[30:]])
    kept = machine(l2=0, optimizer="sgd", averaging=False, n_epochs=1, init_scale=1e-9).fit(X, y, sample_weight=weights)
    copied = machine(l2=0, optimizer="sgd", averaging=False, n_epochs=1, init_scale=1e-9).fit(*twice)
    # Not equal: rows come in another order and in other mini-batches.
    np.testing.assert_allclose(kept.predict_proba(X), copied.predict_proba(X), atol=0.15)


def test_features_without_a_field_share_one_and_unseen_ones_add_nothing():
    source = clicks()
    *_, last = run_recipe(InMemory(source.rows, Fields.of_ranges(("u", "v"), (0, 3, 6))), options())
    assert last.model.fields.names == ("u", "v", "<other>")
    rows = check_batch(Batch(np.array([0, 2, 5]), np.array([0, 3, 0, 3, 77]), np.ones(5), 78))
    assert np.ptp(last.model.scores(rows)) == 0


def test_continued_training_goes_on_and_refuses_a_new_field():
    X, y = long_tail()
    found = make(model="ffm", ranks=2, fields=FIELDS).partial_fit(X[:200], y[:200], classes=[0, 1])
    before = found.n_parameters_
    found.partial_fit(X[200:], y[200:])
    assert found.n_parameters_ >= before
    found.fields = ["d"] * 60
    with pytest.raises(DataValueError, match="is in field 'd', but in field"):
        found.partial_fit(X, y)
    some = X.copy()
    some.data[some.indices >= 20] = 0
    first = make(model="ffm", ranks=2, fields=["a"] * 20 + ["b"] * 40).partial_fit(some, y, classes=[0, 1])
    with pytest.raises(DataValueError, match="field 'b' is not among the 1 fields of the model"):
        first.partial_fit(X, y)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "ftrl"])
def test_a_file_keeps_the_optimiser_state_and_training_goes_on_from_it(optimizer, tmp_path):
    kept = replace(options(optimizer=optimizer), keep_state=True)
    *_, first = run_recipe(clicks(), kept)
    save(tmp_path / "m.rafm", Saved(first.model))
    *_, direct = run_recipe(clicks(seed=1), kept, start=first.model)
    *_, stored = run_recipe(clicks(seed=1), kept, start=load_file(tmp_path / "m.rafm").model)
    *_, without = run_recipe(clicks(seed=1), kept, start=first.model.for_scoring())
    arrays = [event.model.parameters.factors[0] for event in (direct, stored, without)]
    np.testing.assert_array_equal(arrays[0], arrays[1])
    assert np.any(arrays[0] != arrays[2])


# ---- Files and checkpoints


def test_a_model_file_gives_the_same_scores(fitted, tmp_path):
    X, _ = pairs_table(50, seed=3)
    fitted.save(tmp_path / "m.rafm")
    np.testing.assert_array_equal(load(tmp_path / "m.rafm").decision_function(X), fitted.decision_function(X))
    saved = load_file(tmp_path / "m.rafm").model
    assert saved.plan == fitted.model_.plan
    assert saved.plan.n_field_vectors == 3


def test_l1_leaves_out_features_and_keeps_scores(tmp_path):
    X, y = long_tail()
    strong = {"optimizer": "ftrl", "learning_rate": 1.0, "l1": 30.0, "l1_weights": 10.0, "n_epochs": 10}
    found = make(model="ffm", ranks=3, fields=FIELDS, **strong).fit(X, y)
    model = found.model_
    assert model.n_dropped > 0
    assert 0 < model.plan.sizes[1] < model.plan.sizes[0]  # some have a weight alone
    found.save(tmp_path / "m.rafm")
    np.testing.assert_array_equal(load(tmp_path / "m.rafm").decision_function(X), found.decision_function(X))
    for row, told in zip(found.decision_function(X[:5]), found.explain(X[:5])):
        assert told.bias + sum(term.value for term in told.terms) == pytest.approx(row, abs=1e-5)


class Killed(Exception):
    """Stands for the end of a process."""


def test_a_run_killed_again_and_again_ends_with_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.train.steps.record_engine.PIECE_ROWS", 64)
    *_, last = run_recipe(clicks(), options(), clicks(seed=1))
    lives, events = 0, []
    while lives < 60 and not (events and isinstance(events[-1], Finished)):
        lives, events = lives + 1, []
        with suppress(Killed), Checkpoint(tmp_path, seconds=0) as checkpoint:
            for event in run_recipe(clicks(), options(), clicks(seed=1), Resources(checkpoint=checkpoint)):
                events.append(event)
                if len(events) == 10:
                    raise Killed
    assert lives > 2
    for name, array in last.model.parameters.arrays().items():
        np.testing.assert_array_equal(events[-1].model.parameters.arrays()[name], array)


# ---- What comes after


def test_terms_add_up_to_the_score(fitted):
    X, _ = pairs_table(5, seed=4)
    for score, told in zip(fitted.decision_function(X), fitted.explain(X)):
        assert told.bias + sum(term.value for term in told.terms) == pytest.approx(score, abs=1e-5)
        assert sum(len(term.features) == 2 for term in told.terms) == 3


def test_columns_that_matter_are_important(fitted):
    found = {one.column: one.importance for one in fitted.importance(*pairs_table(1000, seed=5))}
    assert min(found["user"], found["item"]) > 10 * abs(found["noise"])


REFUSED = {
    "few bits": (lambda found, X: found.compress(bits=8), "model 'ffm' cannot be quantised"),
    "a smaller size": (lambda found, X: found.compress(max_parameters=50), "model 'ffm' cannot be compressed"),
    "recommendations": (lambda found, X: found.recommend(X[["user"]], X[["item"]]), "model 'ffm' cannot recommend"),
    "neighbours": (lambda found, X: found.similar("user=1"), "model 'ffm' cannot compare features"),
    "vectors": (lambda found, X: found.vectors(X[["user"]], "context"), "model 'ffm' cannot give vectors"),
    "export": (lambda found, X: found.export("m.c"), "model 'ffm' cannot be exported"),
    "wide steps": (lambda found, X: machine(step_rows=64).fit(*pairs_table()), "model 'ffm' cannot take wide steps"),
    "measured ranks": (
        lambda found, X: machine(ranks="auto").fit(*pairs_table()),
        "ranks='auto' requires model='rafm'",
    ),
    "field weights": (
        lambda found, X: machine(field_weights="on").fit(*pairs_table()),
        "field_weights has no effect with model='ffm'",
    ),
    "sampling": (lambda found, X: machine(optimizer="gibbs").fit(*pairs_table()), "'gibbs' cannot train model 'ffm'"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_is_refused_in_one_line(fitted, call, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        call(fitted, pairs_table(5)[0])
    assert "\n" not in str(raised.value)


def test_rows_without_fields_are_refused():
    with pytest.raises(DataValueError, match="model 'ffm' needs fields: those of a table or of libffm rows"):
        make(model="ffm", ranks=2).fit(*long_tail())


def test_a_model_that_does_not_fit_is_refused_with_its_arithmetic(monkeypatch):
    message = r"9 features x 3 fields x 3 factors = 91 parameters, which take 0 MB in training, more than 0 MB"
    monkeypatch.setattr(os, "sysconf", lambda name: 9)  # pages of so many bytes
    with pytest.raises(ResourceLimitError, match=message):
        [*run_recipe(clicks(), options())]
    monkeypatch.setattr("rafm.train.steps.field_choice.MOST_VECTOR_FIELDS", 2)
    with pytest.raises(ResourceLimitError, match="takes up to 2 fields, found 3"):
        [*run_recipe(clicks(), options())]


# ---- Commands


def test_commands_take_libffm_files(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(rng.integers(0, 2), *rng.integers(0, 5, 2)) for _ in range(200)]
    (tmp_path / "rows.ffm").write_text("".join(f"{y} 0:{a}:1 1:{5 + b}:1\n" for y, a, b in rows))
    data, model = tmp_path / "rows.ffm", tmp_path / "m.rafm"
    trained = commands.run("train", data, "--valid", data, "--model", "ffm", "--out", model, "--epochs", 2, "--json")
    assert trained.json()["parameters"] == 1 + 10 + 10 * 2 * 4
    assert "log_loss" in commands.run("evaluate", model, data, "--json").json()
    assert len(commands.run("predict", model, data).out.split()) == 200
    told = commands.run("inspect", model)
    assert "ffm with weights and bias, vectors for 2 fields" in told.out
