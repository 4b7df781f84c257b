"""Learning rate and L2 found by short runs: the best of their neighbours, the same in every life of a run."""

import numpy as np
import pytest
from commands import rows_of_pairs, run
from worlds import planted

from rafm.checks import effective
from rafm.errors import ConfigError
from rafm.options import resolve
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Finished, Resumed, Searched
from rafm.train.resources import Resources
from rafm.train.steps import search


@pytest.fixture(scope="module")
def ratings():
    return planted("regression", n_rows=1500)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(search, "SHORT_RATING_RANK", 4)
    monkeypatch.setattr(search, "SEARCH_RANK", 4)
    monkeypatch.setattr(search, "EPOCHS", 6)


def options(**chosen):
    usual = {"task": "regression", "ranks": (2, 4), "rank_scale": 0.2, "n_epochs": 3, "learning_rate": "auto"}
    return resolve(**effective({**usual, "l2": "auto", **chosen}))


def loss_of(pair, rows):
    """Return the best loss of one short run, trained apart."""
    short = {"model": "fm", "ranks": 4, "averaging": True, "n_epochs": 6, "patience": 1}
    chosen = resolve(task="regression", learning_rate=pair[0], l2=pair[1], **short)
    return min(entry["valid_rmse"] for entry in train_model(rows[0], chosen, rows[1]).history)


def test_no_neighbour_of_what_is_found_is_better(ratings):
    *_, last = events = list(run_recipe(ratings[0], options(), ratings[1]))
    rate, l2, runs = events[0].learning_rate, events[0].l2, events[0].runs
    assert events[0].rank is None  # ranks are given
    assert isinstance(events[0], Searched)
    assert runs >= 4
    assert (rate, l2) != (0.1, 0.1)  # the truth is noiseless: less of a penalty is better
    best = loss_of((rate, l2), ratings)
    for factor in (3**-0.5, 3**0.5):  # half a step
        assert loss_of((rate, l2 * factor), ratings) > best * (1 - 1e-3)
    assert (last.model.options["learning_rate"], last.model.options["l2"]) == (rate, l2)
    assert events[0].lines() == [
        f"learning rate {rate:.3g} and L2 {l2:.3g} chosen by {runs} short runs on validation rows"
    ]


def test_only_what_is_open_is_searched(ratings, monkeypatch):
    found = next(iter(run_recipe(ratings[0], options(l2=0.07), ratings[1])))
    assert found.l2 == 0.07
    assert found.learning_rate != 0.1
    monkeypatch.setattr(search, "SEARCH_ROWS", 500)  # a sample needs another penalty than all rows
    assert next(iter(run_recipe(ratings[0], options(), ratings[1]))).l2 == 0.1
    assert not isinstance(next(iter(run_recipe(ratings[0], options(l2=0.1, learning_rate=0.1), ratings[1]))), Searched)


def test_a_killed_run_goes_on_with_what_was_found(ratings, tmp_path):
    *_, whole = run_recipe(ratings[0], options(), ratings[1])
    for threads in (1, 2) * 20:
        with Checkpoint(tmp_path, 0) as checkpoint:
            seen = []
            for event in run_recipe(ratings[0], options(threads=threads), ratings[1], Resources(checkpoint=checkpoint)):
                seen.append(event)
                if len(seen) == 5 or isinstance(event, Finished):
                    break
        if isinstance(event, Finished):
            break
    assert any(isinstance(event, Resumed) for event in seen)
    assert not any(isinstance(event, Searched) for event in seen)
    assert event.model.options == whole.model.options
    for name, array in whole.model.parameters.arrays().items():
        np.testing.assert_array_equal(array, event.model.parameters.arrays()[name])


def test_measured_ranks_search_unless_told_otherwise(ratings):
    chosen = resolve(task="regression", ranks="auto")
    assert (chosen.searched, chosen.n_epochs) == (("learning_rate", "l2"), 100)
    assert (chosen.averaging, chosen.rate_drops) == (True, 1)
    assert resolve(task="regression", ranks="auto", learning_rate=0.1, l2=0.1).searched == ()
    assert resolve(task="regression").searched == ()
    events = list(run_recipe(ratings[0], resolve(task="regression", ranks="auto", n_epochs=2), ratings[1]))
    assert isinstance(events[1], Searched)
    assert events[-1].model.options["learning_rate"] == events[1].learning_rate


def test_without_validation_rows_it_says_what_is_missing(ratings):
    with pytest.raises(ConfigError, match="learning_rate='auto' needs validation rows"):
        list(run_recipe(ratings[0], options()))
    with pytest.raises(ConfigError, match="model 'mrma' cannot search settings"):
        options(model="mrma", learning_rate=0.1)


def test_the_command_takes_the_word(tmp_path):
    (tmp_path / "rows").write_text(rows_of_pairs(300))
    flags = ("--valid", tmp_path / "rows", "--epochs", 1, "--out", tmp_path / "m.rafm")
    found = run("train", tmp_path / "rows", *flags, "--learning-rate", "auto")
    assert found.code == 0, found.err
    assert "chosen by" in found.out
    wrong = run("train", tmp_path / "rows", *flags, "--learning-rate", "fast")
    assert wrong.error() == "--learning-rate must be a number or auto, found 'fast'"
