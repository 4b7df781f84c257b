"""Chains whose pairs hardly count after burn-in try another start, and the better chain goes on."""

import numpy as np
import pytest
from worlds import changed_rows, planted

from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train import train
from rafm.train.checkpoint import Checkpoint, NoCheckpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Distilled
from rafm.train.gibbs import run as gibbs_run
from rafm.train.gibbs.engine import GibbsEngine
from rafm.train.gibbs.run import GibbsRun
from rafm.train.resources import Resources

FIELDS = Fields.of_ranges(("user", "item"), (0, 30, 50))


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.fixture(scope="module")
def ratings():
    """Return rows with pairs, and validation rows; all with noise."""
    (data, valid), rng = planted("regression", n_rows=1500), np.random.default_rng(0)
    noisy = [changed_rows(rows, labels=rows.labels + rng.normal(0, 0.5, rows.n_rows)) for rows in (data, valid)]
    return InMemory(noisy[0], FIELDS), noisy[1]


def options(**chosen):
    given = {"task": "regression", "model": "fm", "ranks": 2, "optimizer": "gibbs", "n_epochs": 80, **chosen}
    return resolve(**given)  # of which twelve are burn-in


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()}


def run(data, valid, checkpoint=None, **chosen):
    *events, last = run_recipe(data, options(**chosen), valid, Resources(checkpoint=checkpoint or NoCheckpoint()))
    (distilled,) = (event for event in events if isinstance(event, Distilled))
    return bytes_of(last.model), distilled.inverse_temperature


def test_the_size_of_pairs_is_what_their_priors_expect(ratings):
    rng = np.random.default_rng(1)
    known = {}

    class Seen(GibbsEngine):
        def finish_sweep(self, sweep, collects):
            if sweep == 3:
                precision = self.chain.hyper[1 - sweep % 2, 1:, :, 0]
                u, v = (rng.normal(size=(200_000, 2)) / np.sqrt(precision[:, field]) for field in range(2))
                known["drawn"] = (u * v).sum(axis=1).std() * np.sqrt(self.alpha[0])
                known["said"] = self.pair_size(sweep)
            return super().finish_sweep(sweep, collects)

    kind, GibbsRun.kind = GibbsRun.kind, Seen
    try:
        run(*ratings, n_epochs=5)
    finally:
        GibbsRun.kind = kind
    assert known["said"] == pytest.approx(known["drawn"], rel=0.02)


def test_only_faint_pairs_are_tried_again(ratings, monkeypatch):
    begun = []
    restart = GibbsEngine.restart
    monkeypatch.setattr(
        GibbsEngine,
        "restart",
        lambda engine, inverse_temperature: begun.append(inverse_temperature) or restart(engine, inverse_temperature),
    )
    assert (run(*ratings)[1], begun) == (1.0, [])
    monkeypatch.setattr(gibbs_run, "FAINT", np.inf)
    for chosen in ({"n_epochs": 30}, {"model": "lr", "ranks": None}):  # too short a run, and no pairs
        assert run(*ratings, **chosen)[1] == 1.0
    assert begun == []
    run(*ratings)
    assert begun == [gibbs_run.INVERSE_TEMPERATURE]


@pytest.mark.parametrize("is_won", [False, True])
def test_the_better_chain_goes_on(is_won, ratings, monkeypatch):
    plain, _ = run(*ratings)
    monkeypatch.setattr(gibbs_run, "FAINT", np.inf)
    judged, compare = [], gibbs_run.is_better

    def is_better(metric, value, best):
        judged.append((value, best))
        return is_won if len(judged) == 30 else compare(metric, value, best)

    monkeypatch.setattr(gibbs_run, "is_better", is_better)
    again, inverse_temperature = run(*ratings)
    assert inverse_temperature == (gibbs_run.INVERSE_TEMPERATURE if is_won else 1.0)
    assert (again == plain) == (not is_won)


def test_a_run_killed_during_a_second_try_ends_with_the_same_model(ratings, monkeypatch, tmp_path):
    monkeypatch.setattr(gibbs_run, "FAINT", np.inf)
    expected, calls, finish_sweep = run(*ratings), [], GibbsEngine.finish_sweep

    def killed_once(engine, sweep, collects):
        calls.append(sweep)
        if len(calls) == 35:  # the fifth sweep of the second try
            raise Killed
        return finish_sweep(engine, sweep, collects)

    monkeypatch.setattr(GibbsEngine, "finish_sweep", killed_once)
    with pytest.raises(Killed), Checkpoint(tmp_path, seconds=0) as checkpoint:
        run(*ratings, checkpoint)
    assert calls[-1] == 4
    with Checkpoint(tmp_path, seconds=0) as checkpoint:
        assert run(*ratings, checkpoint, threads=2) == expected


def test_what_validation_rows_chose_is_repeated_on_all_rows(ratings, monkeypatch):
    monkeypatch.setattr(gibbs_run, "FAINT", np.inf)
    monkeypatch.setattr(gibbs_run, "is_better", lambda metric, value, best: True)
    events = train(ratings[0], options(n_epochs=90))
    assert [event.inverse_temperature for event in events if isinstance(event, Distilled)] == [
        gibbs_run.INVERSE_TEMPERATURE
    ] * 2
