"""Models that compete where no option asks for one: which, what is kept of them, and learning rates that diverge."""

from itertools import islice

import numpy as np
import pytest
from deciding import decision_for
from scipy.sparse import csr_matrix
from worlds import changed_rows, one_hot, planted

from rafm import RaFMClassifier, RaFMRegressor
from rafm.errors import DivergenceError
from rafm.options import resolve
from rafm.rows.blocks import take_rows
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.spill import SpilledRows, SpillOptions
from rafm.train import policy, train, trial
from rafm.train.checkpoint import Checkpoint
from rafm.train.events import Chosen, EpochFinished, Finished, HeldOut, NotRetrained, Planned, Slowed, Trying
from rafm.train.recipe import Recipe
from rafm.train.resources import Resources, Stop

FIELDS = Fields.of_ranges(("user", "item"), (0, 30, 50))


@pytest.fixture(scope="module")
def linear():
    """Return rows of five fields, each of which adds its part to the log odds, and nothing else."""
    draw = np.random.default_rng(3)
    columns, effects = draw.integers(0, 12, (700, 5)), draw.normal(size=(5, 12))
    odds = effects[np.arange(5), columns].sum(axis=1)
    return one_hot(columns + 12 * np.arange(5), draw.random(700) < 1 / (1 + np.exp(-odds)))


@pytest.fixture(scope="module")
def pairs():
    """Return rows of two fields that tell nothing alone."""
    return planted(n_rows=1500)[0]


@pytest.fixture
def many_rows(monkeypatch):
    """Let as few rows as the tests have be held out by share, and be enough to sample."""
    monkeypatch.setattr(policy, "FOLD_ROWS", 500)
    monkeypatch.setattr(policy, "FOLD_ROWS", 500)


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def names(rows, task="binary", **given):
    _, *others = decision_for(rows, resolve(task=task, **given), FIELDS).recipes
    return [(one.model, one.ranks, one.optimizer.name) for one in others]


# Which models compete

STEPPED = [("lr", (), "adagrad"), ("fm", (8,), "adagrad")]
SAMPLED = ("fm", (8,), "gibbs")


def test_few_rows_have_two_rivals_and_many_a_sampled_one_too(pairs, monkeypatch):
    assert names(pairs) == STEPPED
    assert names(pairs, seed=3, threads=2, metric="auc", calibrate="off", field_weights="off") == STEPPED
    monkeypatch.setattr(policy, "FOLD_ROWS", 500)
    assert names(pairs) == [*STEPPED, SAMPLED]
    assert names(pairs, task="regression") == STEPPED  # the usual one is sampled
    assert names(pairs, task="count") == STEPPED


@pytest.mark.parametrize(
    "given",
    [
        {"model": "rafm"},
        {"ranks": 8},
        {"learning_rate": 0.1},
        {"l2": 0.01},
        {"n_epochs": 30},
        {"negative_rate": 0.5},
        {"field_weights": "on"},
    ],
    ids=str,
)
def test_whoever_asks_for_something_has_no_rivals(pairs, given):
    assert names(pairs, **given) == []


@pytest.mark.parametrize("case", ["many rows", "one pass in order", "a recipe"])
def test_no_rivals_where_they_would_take_too_long_or_are_not_wanted(pairs, case, monkeypatch):
    options = resolve(task="binary", shuffle=case != "one pass in order")
    if case == "many rows":
        monkeypatch.setattr(policy, "MOST_ROWS_TO_COMPARE", 999)
    if case == "a recipe":
        options = Recipe.of(options)
    assert len(decision_for(pairs, options, FIELDS).recipes) == 1


def test_rows_on_disk_have_the_same_rivals_and_give_the_same_model(pairs, tmp_path):  # case 117
    spilled = SpilledRows([pairs], SpillOptions(1e-3, str(tmp_path)), 50)
    assert names(spilled) == STEPPED
    models = [list(train(rows, resolve(task="binary")))[-1].model for rows in (pairs, spilled)]
    assert bytes_of(models[0]) == bytes_of(models[1])


@pytest.mark.parametrize("changed", [{"weights": np.full(1000, 2, np.float32)}, {"labels": np.ones(1000, np.float32)}])
def test_clicks_with_weights_or_of_one_class_are_not_sampled(pairs, changed, monkeypatch):
    monkeypatch.setattr(policy, "FOLD_ROWS", 500)
    assert names(changed_rows(pairs, **changed)) == STEPPED


# What is kept


def test_a_linear_truth_gives_the_linear_model_that_could_have_been_asked_for(linear):
    events = list(train(linear, resolve(task="binary")))
    (judged,) = of_kind(events, Chosen)
    assert judged.recipe.name == "lr" == min(judged.metrics, key=judged.metrics.get)
    assert len(of_kind(events, HeldOut)) == 1
    assert len(of_kind(events, Trying)) == 2
    *_, asked = train(linear, resolve(task="binary", model="lr"))
    assert bytes_of(events[-1].model) == bytes_of(asked.model)
    assert events[-1].model.options == asked.model.options
    assert "; using lr (to choose another, set `model`)" in judged.lines()[0]
    assert judged.record() == {
        "event": "chosen",
        "metric": "log_loss",
        "values": judged.metrics,
        "chosen": "lr",
    }


def test_a_rival_must_be_better_by_a_thousandth(linear, monkeypatch):
    monkeypatch.setattr(policy, "LEAST_ADVANTAGE", 0.5)
    events = list(train(linear, resolve(task="binary")))
    assert of_kind(events, Chosen)[0].recipe.name == "rafm"
    *_, asked = train(linear, resolve(task="binary", model="rafm"))
    assert bytes_of(events[-1].model) == bytes_of(asked.model)


def test_hopeless_rivals_are_given_up_early(many_rows, monkeypatch):
    """A linear model learns nothing from pairs; patience would grant it more epochs, and a lower learning rate."""
    monkeypatch.setattr(policy, "GIVE_UP_LIMITS", ({2: 0.05}, {20: 0.05}))
    events = list(train(InMemory(planted(n_rows=3000)[0], FIELDS), resolve(task="binary")))
    first, second, *_ = [place for place, event in enumerate(events) if isinstance(event, Trying)]
    epochs = of_kind(events[first:second], EpochFinished)
    (judged,) = of_kind(events, Chosen)
    assert len(epochs) == 2
    assert min(event.metrics["log_loss"] for event in epochs) > 1.05 * judged.metrics["rafm"]
    assert judged.metrics["lr"] is None
    assert ", lr given up" in judged.lines()[0]


def test_a_sampled_rival_is_not_given_up_when_its_burn_in_ends(pairs, many_rows, monkeypatch):
    """The mean of one sample is far worse than the moving average before, and than the mean of many samples."""
    monkeypatch.setattr(policy, "GIVE_UP_LIMITS", ({}, {20: 10.0, 60: 10.0}))
    events = list(train(InMemory(pairs, FIELDS), resolve(task="binary")))
    sampled = [place for place, event in enumerate(events) if isinstance(event, Trying)][-1]
    losses = [event.metrics["log_loss"] for event in of_kind(events[sampled:], EpochFinished) if event.candidate]
    assert losses[30] > max(losses[29], losses[-1])
    assert of_kind(events, Chosen)[0].metrics["sampled fm"] < losses[30]


def test_a_sampled_rival_is_kept_as_it_was_judged(pairs, many_rows, monkeypatch):
    monkeypatch.setattr(policy, "LOSS_OF_SHORTENING", -1.0)  # so that it is not cut
    monkeypatch.setattr("rafm.train.is_worth_more", lambda metric, value, usual, is_limited: True)
    monkeypatch.setattr(policy, "GIVE_UP_LIMITS", ({}, {}))
    source = InMemory(pairs, FIELDS)
    events = list(train(source, resolve(task="binary")))
    assert of_kind(events, Chosen)[0].recipe.name == "sampled fm"
    (told,) = of_kind(events, NotRetrained)
    assert (told.n_rows, told.n_valid) == (events[-1].model.n_rows, 1000 - events[-1].model.n_rows)
    assert told.lines() == [f"the model was trained on {told.n_rows} rows; the {told.n_valid} held out calibrate it"]
    assert told.record() == {"event": "not_retrained", "rows": told.n_rows, "valid_rows": told.n_valid}
    *_, asked = train(source, resolve(task="binary", model="fm", ranks=8, optimizer="gibbs"))
    assert bytes_of(events[-1].model) == bytes_of(asked.model)


@pytest.mark.parametrize("every", [17, 31])
def test_a_killed_run_ends_with_the_same_bytes(pairs, many_rows, tmp_path, every):
    source, given = InMemory(pairs, FIELDS), resolve(task="binary")
    *_, expected = train(source, given)
    for _ in range(150):
        with Checkpoint(tmp_path, 0) as checkpoint:
            seen = list(islice(train(source, given, resources=Resources(checkpoint=checkpoint)), every))
        if isinstance(event := seen[-1], Finished):
            break
    assert isinstance(event, Finished)
    assert bytes_of(event.model) == bytes_of(expected.model)


def given(rows, n_valid):
    """Return the rows, and some of them to judge by."""
    return take_rows(rows, n_valid, rows.n_rows), take_rows(rows, 0, n_valid)


def test_rows_that_are_given_judge_too(linear):
    data, valid = given(linear, 200)
    events = list(train(data, resolve(task="binary"), valid))
    (judged,) = of_kind(events, Chosen)
    assert judged.recipe.name == "lr" == min(judged.metrics, key=judged.metrics.get)
    assert len(of_kind(events, Planned)) == 1  # that of the usual model
    *_, asked = train(data, resolve(task="binary", model="lr"), valid)
    assert bytes_of(events[-1].model) == bytes_of(asked.model)
    assert events[-1].best_value == asked.best_value == judged.metrics["lr"]


def test_the_usual_model_stays_if_no_rival_is_better_on_given_rows(linear, monkeypatch):
    monkeypatch.setattr(policy, "LOSS_OF_SHORTENING", -1.0)  # so that it is not cut
    monkeypatch.setattr(policy, "LEAST_ADVANTAGE", 0.5)
    data, valid = given(linear, 200)
    *_, last = train(data, resolve(task="binary"), valid)
    *_, asked = train(data, Recipe.of(resolve(task="binary")), valid)
    assert bytes_of(last.model) == bytes_of(asked.model)


@pytest.mark.parametrize("every", [37, 61])
def test_a_run_killed_with_given_rows_ends_with_the_same_bytes(pairs, monkeypatch, tmp_path, every):
    monkeypatch.setattr(policy, "FOLD_ROWS", 500)
    data, valid = given(pairs, 300)
    source, options = InMemory(data, FIELDS), resolve(task="binary")
    *events, expected = train(source, options, valid)
    assert len(of_kind(events, Trying)) == 3
    for _ in range(150):
        with Checkpoint(tmp_path, 0) as checkpoint:
            seen = list(islice(train(source, options, valid, resources=Resources(checkpoint=checkpoint)), every))
        if isinstance(event := seen[-1], Finished):
            break
    assert isinstance(event, Finished)
    assert bytes_of(event.model) == bytes_of(expected.model)


def test_a_callback_that_ends_the_usual_model_ends_all(linear):
    data, valid = given(linear, 200)
    stop, events = Stop(), []
    for event in train(data, resolve(task="binary"), valid, resources=Resources(stop=stop)):
        events.append(event)
        stop.requested |= isinstance(event, EpochFinished)
    assert not of_kind(events, Trying)
    assert events[-1].reason == "callback"


def test_an_estimator_goes_on_from_the_rival_that_won(linear):
    X = csr_matrix((linear.values, linear.indices, linear.indptr), shape=(700, 60))
    model = RaFMClassifier().fit(X, linear.labels.astype(int))
    assert model.model_.plan.family == "lr" == min(model.competition_, key=model.competition_.get)
    assert RaFMClassifier(model="lr").fit(X, linear.labels.astype(int)).competition_ == {}
    model.partial_fit(X[:100], linear.labels[:100].astype(int))
    assert (model.model_.plan.family, model.model_.n_rows) == ("lr", 800)


def test_without_time_there_are_no_rivals(linear):
    events = list(train(linear, resolve(task="binary", max_seconds=1e-6)))
    assert not of_kind(events, Trying)


# Learning rates that diverge


def counts():
    """Return two columns of large values, and counts that depend on them: the default rate is far too high."""
    draw = np.random.default_rng(0)
    X = draw.integers(0, 2, (400, 12)).astype(float)
    return X, draw.poisson(np.exp(8 * draw.random(400)))


def test_a_lower_rate_is_tried_if_the_default_one_diverges(monkeypatch):
    """Models whose rate is ten times the limit diverge here, by decree; those of a given rate say so."""
    real = trial.run_on_folds

    def run_on_folds(recipe, *rest):
        if recipe.learning_rate > 0.05:
            raise DivergenceError("training diverged: by decree", epoch=1)
        yield from real(recipe, *rest)

    monkeypatch.setattr(trial, "run_on_folds", run_on_folds)
    rows = changed_rows(planted(n_rows=300)[0], labels=np.random.default_rng(0).poisson(2.0, 200).astype(np.float32))
    events = list(train(rows, resolve(task="count", model="fm", ranks=2)))
    slowed = of_kind(events, Slowed)
    assert (slowed[0].share, slowed[0].diverged) == (0.25, True)
    assert slowed[0].lines() == ["training diverged: trying 0.25 times the learning rate"]
    assert events[-1].model.options["learning_rate"] <= 0.025
    with pytest.raises(DivergenceError):
        list(train(rows, resolve(task="count", model="fm", ranks=2, learning_rate=0.1)))


def test_large_counts_do_not_diverge_without_options():
    X, y = counts()
    model = RaFMRegressor(loss="poisson").fit(X, y)
    assert np.isfinite(model.predict(X)).all()
