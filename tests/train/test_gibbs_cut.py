"""How sampled models are cut: the best way on validation rows is found, kept, and used again on all rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from worlds import changed_rows, planted

from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train import selection
from rafm.train.events import Distilled, Finished
from rafm.train.gibbs.cut import PULLS, Ways
from rafm.train.schedule import Schedule, Way
from rafm.train.selection import train_and_select
from rafm.train.trainer import train

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
    events = list(train(ratings[0], chosen(), ratings[1]))
    best, found = last_of(events, Finished).schedule.way, last_of(events, Distilled).metrics["rmse"]
    losses = {}
    for is_balanced in (False, True):
        for without in ((), (CITY,)):
            for pull in PULLS:
                way = Way(is_balanced, without, pull)
                monkeypatch.setattr(Ways, "best", lambda self, way=way: way)
                again = last_of(train(ratings[0], chosen(), ratings[1]), Distilled)
                losses[way] = again.metrics["rmse"]
    assert losses[best] == found
    assert found <= min(loss for way, loss in losses.items() if way.is_balanced == best.is_balanced)
    assert found <= min(loss for way, loss in losses.items() if not way.without)
    assert len(set(losses.values())) == len(losses)  # each is a way of its own


def test_the_way_that_rows_held_out_chose_is_taken_on_all_rows(ratings, monkeypatch):
    monkeypatch.setattr(Ways, "best", lambda self: Way(True, (CITY,), 15.0))
    monkeypatch.setattr(selection, "NOISE_SWEEPS", 12)
    last = list(train_and_select(ratings[0], chosen()))[-1]
    assert last.model.n_rows == N_ROWS
    assert fields_with_vectors(last.model) == {USER, ITEM}
    monkeypatch.setattr(Ways, "best", lambda self: Way())
    assert fields_with_vectors(list(train_and_select(ratings[0], chosen()))[-1].model) == {USER, ITEM, CITY}


def test_rows_without_fields_are_cut_along_principal_axes(ratings):
    source = InMemory(ratings[0].rows)
    assert not last_of(train(source, chosen(), ratings[1]), Finished).schedule.way.is_balanced


def test_out_of_time_no_ways_are_tried(ratings, monkeypatch):
    monkeypatch.setattr(Ways, "best", None)
    last = list(train(ratings[0], replace(chosen(), max_seconds=1e-9), ratings[1]))[-1]
    assert (last.reason, last.model.n_parameters <= 200) == ("time", True)


def test_a_schedule_with_a_way_survives_a_checkpoint():
    known = Schedule(None, None, (), 32, 1000, way=Way(True, (3, 1), 15.0), history_bytes=7)
    assert Schedule.from_plain(json.loads(json.dumps(known.plain()))) == known
    older = {name: value for name, value in known.plain().items() if name not in ("way", "history_bytes")}
    assert Schedule.from_plain(older) == Schedule(None, None, (), 32, 1000)
