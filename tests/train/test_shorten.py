"""The last step of default training: the ranks that features need."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import changed_rows, planted

from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train import policy, train
from rafm.train.dispatch import train_model
from rafm.train.events import Chosen, Continued, Cut, EpochFinished, Selected, Shortened, Slowed, Trying
from rafm.train.shorten import measure_share, shortened
from rafm.train.steps.measured import validation_loss

FIELDS = Fields.of_ranges(("user", "item"), (0, 30, 50))


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=4500)


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("given", [{"model": "fm", "ranks": 16}, {"model": "rafm", "ranks": (4, 16)}], ids=str)
def test_the_share_that_is_needed_is_the_least_that_is_as_good_on_validation_rows(given, clicks):
    data, judges = clicks[0], InMemory(clicks[1])
    model, found = train_model(data, resolve(task="binary", n_epochs=20, **given), clicks[1]), count_rows([data])
    needed, whole = measure_share(model, judges, found), validation_loss(model, judges)
    assert needed.loss_before == whole
    kept, less = (shortened(model, share, found) for share in (needed.share, needed.share * 0.5**0.25))
    assert validation_loss(kept, judges) == needed.loss <= whole * (1 + policy.LOSS_OF_SHORTENING)
    assert validation_loss(less, judges) > whole * (1 + policy.LOSS_OF_SHORTENING)
    n_factors = [sum(block.size for block in one.parameters.factors) for one in (model, kept)]
    assert n_factors[1] <= needed.share * n_factors[0] < n_factors[0]
    assert kept.options["shortened"] == needed.share


def test_vectors_that_say_nothing_are_cut_to_the_least_share(clicks):
    model = train_model(clicks[0], resolve(task="binary", model="fm", ranks=16, n_epochs=1))
    faint = replace(model.parameters, factors=[np.float32(1e-9) * model.parameters.factors[0]])
    model = replace(model, parameters=faint)
    needed = measure_share(model, InMemory(clicks[1]), count_rows([clicks[0]]))
    assert needed.share == 0.5**policy.MOST_HALVINGS


@pytest.mark.parametrize("given", [{"model": "lr"}, {"optimizer": "adam", "model": "fm", "ranks": 4}], ids=str)
def test_models_without_vectors_or_with_long_states_stay_as_they_are(given, clicks):
    options = resolve(task="binary", n_epochs=2, keep_state=True, **given)
    model = train_model(clicks[0], options)
    assert measure_share(model, InMemory(clicks[1]), count_rows([clicks[0]])) is None


@pytest.fixture(scope="module")
def ratings():
    data, test = planted("regression", n_rows=4500)
    noise = np.random.default_rng(0).normal(0, 0.5, data.n_rows)
    return InMemory(changed_rows(data, labels=data.labels + noise), FIELDS), test


def trained(rows, valid=None, **given):
    """Return the events of ratings that are sampled although they are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "FOLD_ROWS", 1000)
        patch.setattr("rafm.optimizers.gibbs.Gibbs.n_epochs", 40)
        return list(train(rows, resolve(task="regression", **given), valid))


def test_default_training_ends_with_the_ranks_that_features_need(ratings):
    events = trained(*ratings)
    (told,) = of_kind(events, Shortened)
    model = replace(events[-1].model, head=None)  # which is fitted to the shortened model
    assert (told.parameters, told.loss) == (model.n_parameters, validation_loss(model, InMemory(ratings[1])))
    assert told.parameters < told.before
    assert told.loss <= told.loss_before * (1 + policy.LOSS_OF_SHORTENING)
    assert told.loss_before == pytest.approx(of_kind(events, Chosen)[0].metrics["sampled fm"])


def test_a_model_of_all_rows_keeps_the_share_that_held_out_rows_have_chosen(ratings):
    events = trained(ratings[0])
    (told,), model = of_kind(events, Shortened), events[-1].model
    assert type(events[-2]) is Shortened
    assert of_kind(events, Selected)
    n_factors = sum(block.size for block in model.parameters.factors)
    assert 0.8 * model.options["shortened"] < n_factors / (told.before - 51) <= model.options["shortened"]
    assert model.n_rows == 3000


@pytest.mark.parametrize("given", [{"model": "fm"}, {"ranks": (2, 4)}, {"n_epochs": 5}, {"max_seconds": 1e-6}], ids=str)
def test_whoever_asks_for_a_model_gets_all_of_it_and_nothing_is_cut_without_time(given, ratings):
    assert not of_kind(trained(*ratings, **given), Shortened)


def test_a_shortened_model_keeps_its_state_and_goes_on_learning(clicks):
    options = resolve(task="binary", keep_state=True)
    *_, last = train(clicks[0], options, clicks[1])
    assert last.model.options["shortened"] < 1
    states = last.model.parameters.states
    assert [len(block) for block in states.factors] == [len(block) for block in last.model.parameters.factors]
    more = list(train(clicks[0], replace(options, n_epochs=2, shuffle=False), start=last.model))
    (continued,) = of_kind(more, Continued)
    assert (continued.with_states, more[-1].model.plan) == (True, last.model.plan)
    assert (more[-1].model.parameters.factors[0] != last.model.parameters.factors[0]).any()


def test_measured_ranks_are_not_cut_twice(clicks, monkeypatch):
    for name, value in {"MOST_ROWS_TO_COMPARE": 0, "LEAST_OF_CLASS": 500, "CLICK_RANK": 8}.items():
        monkeypatch.setattr(policy, name, value)
    events = list(train(clicks[0], resolve(task="binary"), clicks[1]))
    assert of_kind(events, Cut)
    assert not of_kind(events, Shortened)


def test_quick_training_tries_one_model_once_and_cuts_it(clicks):
    events = list(train(clicks[0], resolve(task="binary", effort="quick"), clicks[1]))
    assert not of_kind(events, Trying)
    assert not of_kind(events, Slowed)
    assert len(of_kind(events, EpochFinished)) <= 10
    model = events[-1].model
    assert (model.options["effort"], model.options["shortened"] < 1) == ("quick", True)
    assert events[0].lines() == [
        "3000 rows: a factorization machine of rank 8, at most 10 epochs (use `effort` standard to try others)"
    ]
