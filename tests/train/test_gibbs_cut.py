"""How sampled models are cut: the best settings on validation rows are found, kept, and used again on all rows."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import changed_rows, planted

from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train import train, trial
from rafm.train.dispatch import run_recipe
from rafm.train.events import Distilled, Finished
from rafm.train.gibbs.cut import CUT_PRECISIONS, SampledCuts
from rafm.train.schedule import CutSettings

N_ROWS, USER, ITEM, CITY = 2000, 0, 1, 2
FIELDS = Fields.of_ranges(("user", "item", "city"), (0, 30, 50, 65))


def with_city(rows):
    """Return rows with a third feature, the city of the user: one of 15, two users each."""
    pairs = rows.indices.reshape(-1, 2)
    indices = np.concatenate([pairs, 50 + pairs[:, :1] // 2], axis=1).ravel()
    indptr = 3 * np.arange(rows.n_rows + 1)
    return changed_rows(rows, indptr=indptr, indices=indices, values=np.ones(indices.size), n_features=65)


@pytest.fixture(scope="module")
def ratings():
    data, valid = (with_city(rows) for rows in planted("regression", n_rows=N_ROWS * 3 // 2))
    noise = np.random.default_rng(0).normal(0, 0.5, N_ROWS)
    return InMemory(changed_rows(data, labels=data.labels + noise), FIELDS), valid


def chosen(**more):
    return resolve(task="regression", ranks="auto", optimizer="gibbs", n_epochs=20, max_parameters=200, **more)


def last_of(events, kind):
    return [event for event in events if isinstance(event, kind)][-1]


def fields_with_vectors(model):
    return set(model.fields.numbers[model.plan.levels() > 0])


def test_the_way_with_the_lowest_validation_loss_is_chosen(ratings, monkeypatch):
    events = list(run_recipe(ratings[0], chosen(), ratings[1]))
    best, found = last_of(events, Finished).schedule.settings, last_of(events, Distilled).metrics["rmse"]
    losses = {}
    for is_balanced in (False, True):
        for without in ((), (CITY,)):
            for prior_precision in CUT_PRECISIONS:
                settings = CutSettings(is_balanced, without, prior_precision)
                monkeypatch.setattr(SampledCuts, "best", lambda self, settings=settings: settings)
                again = last_of(run_recipe(ratings[0], chosen(), ratings[1]), Distilled)
                losses[settings] = again.metrics["rmse"]
    assert losses[best] == found
    assert found <= min(loss for settings, loss in losses.items() if settings.is_balanced == best.is_balanced)
    assert found <= min(loss for settings, loss in losses.items() if not settings.without)
    assert len(set(losses.values())) == len(losses)  # each is a cut of its own


def test_the_way_that_rows_held_out_chose_is_taken_on_all_rows(ratings, monkeypatch):
    monkeypatch.setattr(SampledCuts, "best", lambda self: CutSettings(True, (CITY,), 15.0))
    monkeypatch.setattr(trial, "NOISE_SWEEPS", 12)
    last = list(train(ratings[0], chosen()))[-1]
    assert last.model.n_rows == N_ROWS
    assert fields_with_vectors(last.model) == {USER, ITEM}
    monkeypatch.setattr(SampledCuts, "best", lambda self: CutSettings())
    assert fields_with_vectors(list(train(ratings[0], chosen()))[-1].model) == {USER, ITEM, CITY}


def test_rows_without_fields_are_cut_along_principal_axes(ratings):
    source = InMemory(ratings[0].rows)
    assert not last_of(run_recipe(source, chosen(), ratings[1]), Finished).schedule.settings.is_balanced


def test_out_of_time_no_ways_are_tried(ratings, monkeypatch):
    monkeypatch.setattr(SampledCuts, "best", None)
    last = list(run_recipe(ratings[0], replace(chosen(), max_seconds=1e-9), ratings[1]))[-1]
    assert (last.reason, last.model.n_parameters <= 200) == ("time", True)
