"""Clicks without options: which rows have their ranks measured, what is said of it, and the model of all rows."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from deciding import decision_for
from scipy.sparse import csr_matrix
from worlds import changed_rows, planted

from rafm import RaFMClassifier
from rafm.errors import ConfigError
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train import policy, train
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Cut, Decided, EpochFinished, Finished, HeldOut, Planned, Searched, Selected
from rafm.train.resources import Resources
from rafm.train.schedule import Schedule
from rafm.train.steps import search

FIELDS = Fields.of_ranges(("user", "item"), (0, 30, 50))


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Let as few rows as the tests have be enough, short runs be shorter, and no other model compete."""
    monkeypatch.setattr(policy, "MOST_ROWS_TO_COMPARE", 0)
    monkeypatch.setattr(policy, "LEAST_OF_CLASS", 500)
    monkeypatch.setattr(policy, "CLICK_RANK", 8)
    monkeypatch.setattr(search, "SEARCH_RANK", 4)
    monkeypatch.setattr(search, "HIGHER_RANKS", (8,))
    monkeypatch.setattr(search, "LOWER_RANKS", (2,))
    monkeypatch.setattr(search, "EPOCHS", 4)


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=4500)


def matrix(rows):
    return csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.n_rows, 50))


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


def choice(rows, is_judged=True, memory=None, **given):
    """Return the decision if it is about measured ranks, else None."""
    found = decision_for(rows, resolve(**{"task": "binary", **given}), FIELDS, is_judged, memory=memory)
    return found if found.reason in ("measured", "count") else None


# Which rows


def test_many_clicks_of_each_class_have_their_ranks_measured(clicks):
    found = choice(clicks[0], seed=7, threads=2, metric="auc", max_seconds=60, field_weights="off", calibrate="off")
    chosen = found.recipes[0]
    assert (chosen.measured, chosen.searched, chosen.n_epochs) == (True, ("learning_rate", "l2"), 100)
    assert (chosen.seed, chosen.threads, chosen.metric, chosen.max_seconds) == (7, 2, "auc", 60)
    assert (chosen.field_weights, chosen.calibrate) == ("off", "off")


@pytest.mark.parametrize(
    "given",
    [
        {"model": "rafm"},
        {"model": "fm"},
        {"ranks": (8, 32, 128)},
        {"learning_rate": 0.2},
        {"l2": 0.005},
        {"n_epochs": 30},
        {"optimizer": "adagrad"},
        {"rank_scale": 4.0},
        {"task": "regression"},
        {"task": "count"},
        {"is_judged": False},
        {"shuffle": False},
    ],
    ids=str,
)
def test_whoever_asks_for_something_gets_that(clicks, given):
    assert choice(clicks[0], **given) is None


def test_a_rare_class_is_not_enough(clicks, monkeypatch):
    labels = np.where(np.arange(clicks[0].n_rows) < 499, 1, 0).astype(np.float32)
    assert choice(changed_rows(clicks[0], labels=labels)) is None
    assert choice(changed_rows(clicks[0], labels=1 - labels)) is None
    monkeypatch.setattr(policy, "LEAST_OF_CLASS", 499)
    assert choice(changed_rows(clicks[0], labels=labels)) is not None


def test_for_lack_of_memory_a_smaller_model_is_cut(clicks, monkeypatch):
    monkeypatch.setattr(policy, "CLICK_RANK", 64)
    monkeypatch.setattr(policy, "ROWS_PER_RANK", 1)
    monkeypatch.setattr(policy, "LEAST_RANK_BY_DEFAULT", 32)
    sixteen, thirty_two, sixty_four = (policy.large_megabytes(50, rank) for rank in (16, 32, 64))
    room = (thirty_two + sixty_four) / 2
    chosen = replace(choice(clicks[0], memory=room).recipes[0], searched=())
    assert next(iter(run_recipe(clicks[0], chosen, clicks[1], Resources(memory=room)))).rank == 32
    assert choice(clicks[0], memory=(sixteen + thirty_two) / 2).reason == "count"


@pytest.mark.parametrize(
    ("case", "obstacle"),
    [
        ("time", "takes about 0 s on one core, more than the 0.001 s allowed"),
        ("a limit of time", "takes about 0 s on one core, more than the 0.0005 s allowed"),
        ("memory", "takes 6 MB besides the rows, more than 6.01"),
    ],
)
def test_what_takes_too_much_goes_by_counts_and_says_why(clicks, case, obstacle, monkeypatch):
    given = {}
    if case == "time":
        monkeypatch.setattr(policy, "MOST_SECONDS", 1e-3)
    if case == "a limit of time":
        given = {"max_seconds": 1e-3}
    if case == "memory":
        given = {"memory": 6.01}
    found = choice(clicks[0], **given)
    assert found.reason == "count"
    told = Decided(found, 3000)
    (line,) = told.lines()
    assert line.startswith(f"3000 rows: ranks by count, because measuring them {obstacle}; ")
    record = told.record()
    assert (record["event"], record["reason"], record["obstacle"]) == ("decided", "count", obstacle)


# The model


@pytest.fixture(scope="module")
def trained(clicks):
    """Return the events of a run without options or validation rows."""
    with pytest.MonkeyPatch.context() as patch:
        for target, name, value in (
            (policy, "MOST_ROWS_TO_COMPARE", 0),
            (policy, "LEAST_OF_CLASS", 500),
            (policy, "CLICK_RANK", 8),
            (search, "SEARCH_RANK", 4),
            (search, "HIGHER_RANKS", (8,)),
            (search, "LOWER_RANKS", (2,)),
            (search, "EPOCHS", 4),
        ):
            patch.setattr(target, name, value)
        return list(train(InMemory(clicks[0], FIELDS), resolve(task="binary")))


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_ranks_are_measured_on_nine_tenths_and_the_model_is_trained_on_all_rows(trained):
    kinds = [type(event) for event in trained]
    assert kinds[:2] == [Decided, HeldOut]
    assert kinds.count(HeldOut) == kinds.count(Searched) == kinds.count(Selected) == 1
    cuts, model = of_kind(trained, Cut), trained[-1].model
    assert [cut.parameters for cut in cuts] == [model.n_parameters] * 2
    assert (model.n_rows, model.plan.family) == (3000, "difacto")
    held_out, everything = trained[: kinds.index(Selected)], trained[kinds.index(Selected) :]
    assert of_kind(held_out, Planned)[0].n_rows < 3000 == of_kind(everything, Planned)[0].n_rows
    assert len(of_kind(everything, EpochFinished)) == of_kind(everything, Selected)[0].n_epochs
    assert len(model.history) == len(of_kind(held_out, EpochFinished))
    assert trained[0].lines()[0].startswith("3000 rows: measuring ranks, about ")


def test_it_is_what_ranks_auto_gives(clicks, trained):
    *_, last = train(InMemory(clicks[0], FIELDS), resolve(task="binary", ranks="auto"))
    assert bytes_of(last.model) == bytes_of(trained[-1].model)


def test_the_model_is_far_better_than_a_linear_one(clicks, trained):
    def loss(model):
        return float(np.mean(np.logaddexp(0, -(2 * clicks[1].labels - 1) * model.scores(clicks[1]))))

    linear = train_model(clicks[0], resolve(task="binary", model="lr"))
    assert loss(trained[-1].model) < 0.9 * loss(linear)


@pytest.mark.parametrize("every", [13, 23])
def test_a_killed_run_ends_with_the_same_bytes(clicks, trained, tmp_path, every):
    for _ in range(60):
        with Checkpoint(tmp_path, 0) as checkpoint:
            events = train(
                InMemory(clicks[0], FIELDS), resolve(task="binary"), resources=Resources(checkpoint=checkpoint)
            )
            seen = list(islice(events, every))
        if isinstance(event := seen[-1], Finished):
            break
    assert isinstance(event, Finished)
    assert bytes_of(event.model) == bytes_of(trained[-1].model)


def test_an_estimator_without_options_goes_on_from_what_it_measured(clicks):
    X, y = matrix(clicks[0]), clicks[0].labels.astype(int)
    model = RaFMClassifier().fit(X, y)
    ranks = model.model_.plan.ranks
    model.partial_fit(X[:100], y[:100])
    assert model.model_.plan.ranks == ranks
    assert model.model_.n_rows == 3100


# Training again by a schedule


def assert_near(found, expected):
    for name, array in expected.parameters.arrays().items():
        np.testing.assert_allclose(found.parameters.arrays()[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("averaging", [False, True])
def test_the_learning_rate_drops_when_the_schedule_says_from_the_parameters_that_would_be_kept(
    clicks, averaging, monkeypatch
):
    """With no rate left after the drop, these are the parameters to the end."""
    monkeypatch.setattr("rafm.train.steps.run.RATE_DROP", 1e12)
    given = resolve(task="binary", model="fm", ranks=4, averaging=averaging, calibrate="off", n_epochs=3)
    expected = train_model(clicks[0], given)
    *_, last = run_recipe(clicks[0], replace(given, n_epochs=5), schedule=Schedule(0.2, None, (3, 2)))
    assert len(last.model.history) == 5
    assert_near(last.model, expected)


def test_a_schedule_is_what_led_to_the_best_epoch(clicks):
    given = {"model": "fm", "ranks": 4, "learning_rate": 1.0, "rate_drops": 1, "n_epochs": 60, "patience": 1}
    *_, last = run_recipe(clicks[0], resolve(task="binary", **given), clicks[1])
    first, second = last.schedule.epochs
    values = [entry["valid_log_loss"] for entry in last.model.history]
    assert first == 1 + int(np.argmin(values[: first + 1]))
    assert last.model.best_epoch == first + 1 + second == 1 + int(np.argmin(values))  # one epoch brought nothing


@pytest.mark.parametrize(("fine_epochs", "fine_drops"), [(3, 0), (3, 1), (0, 0)])
def test_a_cut_model_is_trained_as_its_schedule_says(clicks, fine_epochs, fine_drops, monkeypatch):
    monkeypatch.setattr("rafm.train.steps.run.RATE_DROP", 1e12)
    given = resolve(task="binary", ranks="auto", learning_rate=0.2, l2=0.01, n_epochs=2)
    found = Schedule(0.2, 0.01, (2,), rank=8, parameters=150, fine_epochs=fine_epochs, fine_drops=fine_drops)
    *_, last = run_recipe(clicks[0], given, schedule=found)
    *_, cut = run_recipe(clicks[0], given, schedule=replace(found, fine_epochs=0))
    assert len(last.model.history) == 2 + fine_epochs
    assert 100 < last.model.n_parameters <= 150
    if fine_epochs and not fine_drops:
        with pytest.raises(AssertionError):
            assert_near(last.model, cut.model)
    else:
        assert_near(last.model, cut.model)


def test_searched_settings_and_dropped_rates_are_used_on_all_rows(clicks):
    given = resolve(task="binary", model="fm", ranks=4, learning_rate="auto", l2="auto", rate_drops=1)
    *_, last = events = list(train(InMemory(clicks[0], FIELDS), given))
    (found,) = of_kind(events, Searched)
    assert (last.model.options["learning_rate"], last.model.options["l2"]) == (found.learning_rate, found.l2)
    assert last.model.n_rows == 3000


def test_a_schedule_says_when_the_learning_rate_drops():
    found = Schedule(0.1, None, (4, 2, 3))
    assert [epoch for epoch in range(1, 12) if found.ends_at(epoch)] == [4, 6]
    assert found.n_epochs == 9


# Limits that no model can meet


@pytest.mark.parametrize(("task", "optimizer"), [("binary", "auto"), ("regression", "gibbs")])
def test_a_limit_that_is_too_small_is_refused_before_training_by_the_minimum_of_all_rows(task, optimizer):
    """A tenth of the rows is held out; features that occur only there count, too."""
    ids = np.arange(100)
    rows = check_batch(Batch(np.arange(101), ids, np.ones(100), 100, (ids % 2).astype(np.float32), None))
    for limit in (50, 100):
        options = resolve(task=task, ranks="auto", optimizer=optimizer, max_parameters=limit, n_epochs=1)
        with pytest.raises(ConfigError, match="max_parameters must be at least 101, the smallest"):
            next(train(InMemory(rows), options))
    options = resolve(task=task, ranks="auto", optimizer=optimizer, max_bytes=1000)
    with pytest.raises(ConfigError, match="max_bytes must be at least"):
        next(train(InMemory(rows), options))
