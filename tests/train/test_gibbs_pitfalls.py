"""What goes wrong in Gibbs sampling without the sampler's precautions: with them models are closer to the truth."""

from itertools import pairwise

import numpy as np
import pytest
from worlds import one_hot

from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe
from rafm.train.events import Finished
from rafm.train.gibbs import engine as gibbs_engine
from rafm.train.gibbs import run as gibbs_run


def world(n_users, n_items, n_rows, noise, with_pairs, seed=0):
    """Return training rows, validation rows, test rows and the truth of these."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n_users, n_rows), rng.integers(0, n_items, n_rows)
    truth = rng.normal(0, 0.7, n_users)[users] + rng.normal(0, 0.7, n_items)[items]
    vectors = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    truth += 0.8 * with_pairs * (vectors[0][users] * vectors[1][items]).sum(axis=1)
    labels, columns = truth + rng.normal(0, noise, n_rows), np.stack([users, n_users + items], axis=1)
    ends = [0, n_rows * 8 // 10, n_rows * 9 // 10, n_rows]
    data, valid, test = (one_hot(columns[a:b], labels[a:b]) for a, b in pairwise(ends))
    fields = Fields.of_ranges(("user", "item"), (0, n_users, n_users + n_items))
    return InMemory(data, fields), valid, test, truth[ends[2] :]


def error(data, valid, test, truth, **chosen):
    """Train a model; return its distance from the truth."""
    given = {"task": "regression", "model": "fm", "ranks": 2, "n_epochs": 40, "patience": None, **chosen}
    *_, last = run_recipe(data, resolve(optimizer="gibbs", **given), valid)
    assert isinstance(last, Finished)
    return float(np.sqrt(np.mean((last.model.predict(test) - truth) ** 2)))


def test_learning_the_precision_of_weights_while_they_are_0_stalls_the_chain(monkeypatch):
    known = world(2000, 50, 8000, noise=0.7, with_pairs=False)
    found = error(*known, model="lr", ranks=None)
    monkeypatch.setattr(gibbs_engine, "FIXED_SWEEPS", 0)
    assert error(*known, model="lr", ranks=None) > 1.25 * found


def test_too_large_a_first_precision_of_factors_stalls_the_chain(monkeypatch):
    known = world(300, 100, 8000, noise=0.7, with_pairs=True)
    found = error(*known)
    monkeypatch.setattr(gibbs_engine, "FIRST_PRECISIONS", (5.0, 1000.0))
    assert error(*known) > 1.25 * found


def test_a_chain_whose_factors_grow_slowly_is_not_ended_early():
    known = world(1300, 600, 22_000, noise=0.8, with_pairs=0.38, seed=2)
    given = {"ranks": 8, "n_epochs": 120}
    assert error(*known, patience=3, **given) == error(*known, patience=None, **given)


def test_weak_pairs_are_found_by_a_second_start(monkeypatch):
    known = world(1000, 500, 18_000, noise=0.8, with_pairs=0.5)
    found = error(*known, ranks=8, n_epochs=100)
    monkeypatch.setattr(gibbs_run, "FAINT", 0.0)
    assert error(*known, ranks=8, n_epochs=100) > 1.1 * found


def test_what_samples_do_not_know_is_no_noise():
    data, valid, *_ = world(300, 100, 8000, noise=0.7, with_pairs=True)
    given = {"task": "regression", "model": "fm", "ranks": 2, "n_epochs": 60, "patience": None}
    *events, last = run_recipe(data, resolve(optimizer="gibbs", **given), valid)
    missed = last.model.history[-1]["valid_rmse"] ** 2
    assert events[-1].noise == pytest.approx(0.49, rel=0.1)
    assert missed > 1.15 * events[-1].noise


@pytest.mark.slow
def test_drawn_noise_grows_overconfident_where_rows_are_few_per_parameter():
    data, valid, test, truth = world(1000, 300, 4000, noise=1.0, with_pairs=True)
    few, many = (error(data, None, test, truth, ranks=8, n_epochs=n) for n in (50, 200))
    assert many > 1.02 * few
    pinned = [error(data, valid, test, truth, ranks=8, n_epochs=n) for n in (50, 200)]
    assert pinned[1] < 1.01 * pinned[0]
    assert pinned[1] < 0.99 * many
