"""The average over epochs, drops of the learning rate, and the spread of first vectors, against sums by hand."""

import numpy as np
import pytest
from worlds import planted

from rafm.checks import effective
from rafm.errors import ConfigError
from rafm.options import resolve
from rafm.plan.layout import RecordLayout
from rafm.plan.ranks import RankPlan
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Finished
from rafm.train.resources import Resources

FAMILIES = {"lr": None, "fm": 4, "difacto": (2, 4), "mrma": (2, 4), "rafm": (2, 4)}


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=900)


def options(**chosen):
    return resolve(
        **effective({"task": "binary", "ranks": (2, 4), "rank_scale": 0.2, "n_epochs": 4, "l2": 0, **chosen})
    )


def named(model):
    return {name: array.astype(float) for name, array in model.parameters.arrays().items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_average_moves_half_way_to_the_parameters_of_each_epoch(family, clicks):
    chosen = {"model": family, "ranks": FAMILIES[family]}
    epochs = [named(train_model(clicks[0], options(**chosen, n_epochs=n, averaging=False))) for n in (1, 2, 3)]
    found = named(train_model(clicks[0], options(**chosen, n_epochs=3, averaging=True)))
    for name, array in found.items():
        first, second, third = (epoch[name] for epoch in epochs)
        np.testing.assert_allclose(array, ((first + second) / 2 + third) / 2, atol=1e-6)


def test_the_history_judges_the_average(clicks):
    data, valid = clicks
    *_, last = run_recipe(data, options(averaging=True, metric="auc", n_epochs=12, calibrate="off"), valid)
    assert last.model.best_epoch > 1
    scores = last.model.scores(valid).astype(float)
    labels = valid.labels
    loss = np.mean(np.logaddexp(0, scores) - labels * scores)
    assert last.model.history[last.model.best_epoch - 1]["valid_log_loss"] == pytest.approx(loss, rel=1e-6)
    plain = train_model(data, options(metric="auc", n_epochs=len(last.model.history)), valid)
    assert [entry["train_loss"] for entry in plain.history] == [entry["train_loss"] for entry in last.model.history]


def stalling(**chosen):
    return options(n_epochs=40, patience=2, learning_rate=2.0, l2=0.01, init_scale=0.01, **chosen)


def test_the_rate_drops_to_a_fifth_from_the_best_epoch(clicks):
    """The epoch after a drop starts from the best one: its training loss is that of no other epoch."""
    data, valid = clicks
    plain, dropped = (train_model(data, stalling(rate_drops=n, averaging=False), valid) for n in (0, 1))
    n = len(plain.history)
    assert n < 40
    assert dropped.history[:n] == plain.history
    assert len(dropped.history) > n
    assert dropped.history[n]["train_loss"] < plain.history[-1]["train_loss"]
    best = [min(entry["valid_log_loss"] for entry in model.history) for model in (plain, dropped)]
    assert best[1] < best[0]
    assert dropped.best_epoch == 0  # at this rate no epoch is better than a constant, but some rank better
    ranked = train_model(data, stalling(rate_drops=1, metric="auc"), valid)
    assert ranked.history[ranked.best_epoch - 1]["valid_auc"] == max(entry["valid_auc"] for entry in ranked.history)


def test_without_an_epoch_that_stalls_no_rate_drops(clicks):
    data, valid = clicks
    calm = {"n_epochs": 3, "patience": 3, "learning_rate": 0.05}
    first, second = (train_model(data, options(rate_drops=n, **calm), valid) for n in (0, 2))
    assert first.history == second.history
    for name, array in first.parameters.arrays().items():
        np.testing.assert_array_equal(array, second.parameters.arrays()[name])


@pytest.mark.parametrize("family", ["mrma", "rafm"])
def test_a_killed_run_goes_on_with_its_average_and_its_drops(family, clicks, tmp_path):
    data, valid = clicks
    chosen = stalling(model=family, averaging=True, rate_drops=2)
    *_, whole = run_recipe(data, chosen, valid)
    assert len(whole.model.history) > 6
    for _ in range(100):
        with Checkpoint(tmp_path, 0) as checkpoint:
            for n, event in enumerate(run_recipe(data, chosen, valid, Resources(checkpoint=checkpoint))):
                if n == 7 or isinstance(event, Finished):
                    break
        if isinstance(event, Finished):
            break
    assert event.model.history == whole.model.history
    for name, array in whole.model.parameters.arrays().items():
        np.testing.assert_array_equal(array, event.model.parameters.arrays()[name])


def test_first_vectors_have_the_spread_that_was_asked_for(clicks):
    layout = RecordLayout(RankPlan("fm", (8,), (500, 500, 0)), with_states=True)
    weights, (vectors,) = layout.unpack(layout.fresh(0, spread=0.3))
    assert vectors.std() == pytest.approx(0.3, rel=0.05)
    assert not weights.any()
    tiny = options(learning_rate=1e-6, n_epochs=1, init_scale=0.5)
    assert train_model(clicks[0], tiny).parameters.factors[0].std() == pytest.approx(0.5, rel=0.2)


WRONG = {
    "averaging as a number": {"averaging": 1},
    "negative drops": {"rate_drops": -1},
    "drops of ftrl": {"rate_drops": 1, "optimizer": "ftrl"},
    "no spread": {"init_scale": 0},
}


@pytest.mark.parametrize("chosen", WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_named(chosen):
    with pytest.raises(ConfigError, match=next(iter(chosen))):
        resolve(task="binary", **chosen)
