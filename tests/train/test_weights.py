"""The scale of row weights has no effect; their ratios have."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import changed_rows, planted

from rafm.checks import effective
from rafm.options import resolve
from rafm.plan.ranks import Thresholds
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import StartEvaluated

FAMILIES = {"lr": (), "fm": (8,), "mrma": (4, 8), "rafm": (4, 8)}


def options(task="binary", **chosen):
    return resolve(**effective({"task": task, "ranks": (4, 8), "levels": Thresholds((60,)), "n_epochs": 2, **chosen}))


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=1500)


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**10])
def test_weights_scaled_by_a_power_of_2_give_the_same_model(scale, family, clicks):
    data, valid = clicks
    weights = np.random.default_rng(3).integers(0, 4, data.n_rows).astype(np.float32)
    chosen = options(model=family, ranks=FAMILIES[family], l2=0.01)
    plain, scaled = (train_model(changed_rows(data, weights=weights * s), chosen, valid) for s in (1, scale))
    assert bytes_of(scaled) == bytes_of(plain)


@pytest.mark.parametrize("weight", [1e-6, 0.01, 1000.0])
def test_equal_weights_of_any_size_are_no_weights(weight, clicks):
    data, valid = clicks
    equal = changed_rows(data, weights=np.full(data.n_rows, weight, np.float32))
    plain, weighted = (train_model(rows, options(l2=0.01), valid) for rows in (data, equal))
    assert bytes_of(weighted) == bytes_of(plain)


def test_equal_weights_are_no_weights_to_the_sampler():
    data, valid = planted("regression", n_rows=1500)
    chosen = options("regression", model="fm", ranks=(4,), levels=None, optimizer="gibbs", n_epochs=5)
    equal = changed_rows(data, weights=np.full(data.n_rows, 1e-6, np.float32))
    plain, weighted = (train_model(rows, chosen, valid) for rows in (data, equal))
    assert bytes_of(weighted) == bytes_of(plain)


def test_small_weights_leave_the_constant_at_the_weighted_mean(clicks):
    data, valid = clicks
    weights = np.where(data.labels > 0, 3e-7, 1e-7).astype(np.float32)
    events = run_recipe(changed_rows(data, weights=weights), options(n_epochs=1), valid)
    start = next(event for event in events if isinstance(event, StartEvaluated))
    heavy = 3 * data.labels.sum()
    p = heavy / (heavy + (1 - data.labels).sum())
    expected = -np.mean(np.where(valid.labels > 0, np.log(p), np.log(1 - p)))
    assert start.metrics["log_loss"] == pytest.approx(expected, rel=1e-3)  # small random factors


def test_weights_of_later_rows_compare_with_those_of_the_first_training(clicks):
    data, _ = clicks
    light, heavy = (changed_rows(data, weights=np.full(data.n_rows, w, np.float32)) for w in (0.001, 0.01))
    chosen = replace(options(n_epochs=1, optimizer="sgd"), keep_state=True)
    first = train_model(light, chosen)
    assert first.options["weight_scale"] == pytest.approx(0.001)
    moved = []
    for rows in (light, heavy):
        *_, last = run_recipe(rows, chosen, start=first)
        assert last.model.options["weight_scale"] == first.options["weight_scale"]
        moved.append(float(np.abs(last.model.parameters.weights - first.parameters.weights).sum()))
    assert moved[1] > 2 * moved[0]
