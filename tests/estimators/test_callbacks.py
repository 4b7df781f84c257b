"""Callbacks see every event of training and may end it; the logger says what was held out and what is doubtful."""

import logging

import numpy as np
import pytest
from fitted import long_tail, make, two_fields
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rafm.train.events import EpochFinished, Finished, HeldOut, Planned


def test_every_callback_is_called_with_every_event_in_order():
    X, y = long_tail()
    first, second = [], []
    model = make(callbacks=[first.append, second.append]).fit(X, y)
    assert first == second
    assert isinstance(first[0], Planned)
    assert isinstance(first[-1], Finished)
    assert [event.entry() for event in first if isinstance(event, EpochFinished)] == model.history_
    assert clone(model).callbacks is not None


@pytest.mark.parametrize("judged", [True, False])
def test_true_ends_training_with_the_best_epoch_so_far(judged):
    training, valid = two_fields(n_rows=1500)

    def after_two(event):
        return isinstance(event, EpochFinished) and event.epoch == 2

    more = {"eval_set": valid} if judged else {}
    found = make(n_epochs=10, callbacks=after_two, learning_rate=0.05).fit(*training, **more)
    assert len(found.history_) == 2
    expected = make(n_epochs=2, learning_rate=0.05).fit(*training, **more)
    np.testing.assert_array_equal(found.predict_proba(valid[0]), expected.predict_proba(valid[0]))
    ended = make(n_epochs=10, callbacks=lambda event: "yes").fit(*training)  # only True ends training
    assert len(ended.history_) == 10


def test_true_ends_the_choice_of_epochs_too():
    X, y = long_tail(n_rows=600)
    model = make(
        n_epochs=10,
        learning_rate=0.05,
        validation_fraction=0.1,
        callbacks=lambda event: isinstance(event, EpochFinished) and event.epoch == 2,
    ).fit(X, y)
    assert len(model.history_) == 2
    assert model.best_epoch_ <= 2


class Pruned(Exception):
    """Stands for the exception of a library that searches for options."""


def test_an_exception_passes_through_and_leaves_the_estimator_unfitted():
    X, y = long_tail()

    def prune(event):
        if isinstance(event, EpochFinished):
            raise Pruned

    model = make().fit(X, y)
    with pytest.raises(Pruned):
        model.set_params(callbacks=prune).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.set_params(callbacks=None).fit(X, y).predict(X).size == 400


def test_optuna_prunes_trials():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    training, valid = two_fields(n_rows=1500)

    def objective(trial):
        def report(event):
            if isinstance(event, EpochFinished):
                trial.report(event.metrics["log_loss"], event.epoch)
                if trial.should_prune():
                    raise optuna.TrialPruned

        rate = trial.suggest_categorical("learning_rate", [0.05, 5.0])
        fitted = make(n_epochs=4, patience=None, learning_rate=rate, callbacks=report).fit(*training, eval_set=valid)
        return min(entry["valid_log_loss"] for entry in fitted.history_)

    search = {"learning_rate": [0.05, 5.0]}
    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=0)
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(search, seed=0), pruner=pruner)
    study.enqueue_trial({"learning_rate": 0.05})
    study.optimize(objective, n_trials=3)
    states = {trial.params["learning_rate"]: trial.state for trial in study.trials}
    assert states[5.0] == optuna.trial.TrialState.PRUNED
    assert study.best_params == {"learning_rate": 0.05}


def test_the_logger_says_what_is_held_out_and_what_is_doubtful(caplog):
    X, y = long_tail(n_rows=300)
    seen = []
    with caplog.at_level(logging.INFO, "rafm"):
        make(validation_fraction=0.2, callbacks=seen.append).fit(X, y)
    (event,) = (event for event in seen if isinstance(event, HeldOut))
    assert event.n_folds == 5
    assert caplog.messages[0] == "holding out each of 5 folds of 300 rows to choose the number of epochs"
    caplog.clear()
    noise = np.random.default_rng(0).integers(0, 2, 300)
    with caplog.at_level(logging.WARNING, "rafm"):
        constant = make(validation_fraction=0.2, learning_rate=0.2).fit(X, noise)
        assert constant.best_epoch_ == 0
        make(validation_fraction=0, n_epochs=3).fit(X, y)
        make(validation_fraction=0, n_epochs=4).fit(X, y)
    doubtful, many = caplog.messages
    assert doubtful.startswith("no epoch was better than a constant on the validation rows")
    assert many.endswith("4 may be too many for 300 rows; lower n_epochs, or hold out rows with validation_fraction")
