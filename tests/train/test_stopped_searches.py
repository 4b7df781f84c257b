"""A callback or a limit of time may end any search: what comes out is a trained model."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import log_loss

import rafm
from rafm import RaFMClassifier
from rafm.train import policy
from rafm.train.events import EpochFinished, HeldOut, Measuring, Planned, Searched, Trying
from rafm.train.steps import record_engine

MODEL = {"model": "fm", "ranks": 4, "l2": 1e-3, "calibrate": "off"}


@pytest.fixture(scope="module")
def clicks():
    """Return rows of two fields, whose ids and pairs both tell something, and labels."""
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 20, (1_500, 2))
    score = 3 * draw.normal(size=20)[ids[:, 0]] + 2 * (
        draw.normal(size=20)[ids[:, 0]] * draw.normal(size=20)[ids[:, 1]]
    )
    ids[:, 1] += 20
    X = csr_matrix((np.ones(3_000, np.float32), ids.ravel(), np.arange(0, 3_001, 2)), shape=(1_500, 40))
    return X, (draw.logistic(size=1_500) < score).astype(int)


class StopAt:
    """Ends training at the n-th event of a kind, once; what follows is none of its business."""

    def __init__(self, kind, number=1):
        self.kind, self.left = kind, number

    def __call__(self, event):
        self.left -= isinstance(event, self.kind)
        return self.left == 0 and isinstance(event, self.kind)


@pytest.fixture(params=["folds", "one share"])
def split(request, monkeypatch):
    """Let the rows be dealt out into folds, or one share be held out as of more rows."""
    if request.param == "one share":
        monkeypatch.setattr(policy, "FOLD_ROWS", 100)
    return request.param


def assert_trained(model, X, y):
    """Check that the model says more than a constant would."""
    assert model.model_.parameters.weights.any()
    assert log_loss(y, model.predict_proba(X)[:, 1]) < log_loss(y, np.full(y.size, y.mean())) - 0.005


@pytest.mark.usefixtures("split")
def test_after_a_stop_all_rows_are_trained_on_for_the_epochs_found(clicks):  # case 130
    X, y = clicks
    stopped = RaFMClassifier(**MODEL, callbacks=StopAt(EpochFinished, 5)).fit(X, y)
    expected = RaFMClassifier(**MODEL, validation_fraction=0, n_epochs=5).fit(X, y)
    assert stopped.best_epoch_ == 5
    for name, array in expected.model_.parameters.arrays().items():
        np.testing.assert_array_equal(stopped.model_.parameters.arrays()[name], array, err_msg=name)


STOPS = {
    "before the search": (HeldOut, 1, {}),
    "before its first epoch": (Planned, 1, {}),
    "in a search of rate and L2": (Planned, 1, {"learning_rate": "auto", "l2": "auto", **{"model": "fm", "ranks": 4}}),
    "in a large model": (EpochFinished, 2, {"ranks": "auto"}),
    "in the model that is cut": (Planned, 2, {"ranks": "auto"}),
    "in the usual model of a competition": (EpochFinished, 2, {}),
    "where a rival begins": (Trying, 1, {}),
    "where the last rival begins": (Trying, 2, {}),
    "in a chain of samples": (EpochFinished, 3, {"optimizer": "gibbs"}),
}


@pytest.mark.parametrize("case", STOPS)
@pytest.mark.usefixtures("split")
def test_a_model_is_trained_wherever_a_callback_ends_the_search(case, clicks):  # case 130
    X, y = clicks
    kind, number, given = STOPS[case]
    stop = StopAt(kind, number)
    model = RaFMClassifier(**given, callbacks=stop).fit(X, y)
    assert stop.left <= 0
    assert_trained(model, X, y)


@pytest.mark.parametrize("case", [case for case, (kind, *_) in STOPS.items() if kind is not HeldOut])
def test_a_model_is_trained_wherever_a_callback_ends_the_search_on_given_rows(case, clicks):  # case 130
    X, y = clicks
    kind, number, given = STOPS[case]
    stop = StopAt(kind, number)
    model = RaFMClassifier(**given, callbacks=stop).fit(X[:1_000], y[:1_000], eval_set=(X[1_000:], y[1_000:]))
    assert stop.left <= 0
    assert_trained(model, X[:1_000], y[:1_000])


@pytest.fixture
def small_pieces(monkeypatch):
    """Let a stop be noticed after every 16 rows instead of after an epoch of as few rows as here."""
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 16)


@pytest.mark.usefixtures("split", "small_pieces")
def test_after_a_stop_within_the_first_epoch_all_rows_are_trained_on_once(clicks):  # case 130
    X, y = clicks
    stopped = RaFMClassifier(**MODEL, callbacks=StopAt(HeldOut)).fit(X, y)
    expected = RaFMClassifier(**MODEL, validation_fraction=0, n_epochs=1).fit(X, y)
    for name, array in expected.model_.parameters.arrays().items():
        np.testing.assert_array_equal(stopped.model_.parameters.arrays()[name], array, err_msg=name)


@pytest.mark.usefixtures("small_pieces")
def test_folds_without_time_leave_one_pass_over_all_rows(clicks):  # case 130
    X, y = clicks
    hurried = RaFMClassifier(**MODEL, max_seconds=1e-9).fit(X, y)
    expected = RaFMClassifier(**MODEL, validation_fraction=0, n_epochs=1).fit(X, y)
    for name, array in expected.model_.parameters.arrays().items():
        np.testing.assert_array_equal(hurried.model_.parameters.arrays()[name], array, err_msg=name)


@pytest.mark.parametrize("way", ["a callback", "time"])
def test_a_search_of_settings_that_is_stopped_takes_no_further_run(way, clicks):  # case 130
    X, y = clicks
    found, given = [], {"max_seconds": 1e-9} if way == "time" else {}
    stop = StopAt(Measuring) if way == "a callback" else None

    def watch(event):
        found.extend([event] if isinstance(event, Searched) else [])
        return stop is not None and stop(event)

    RaFMClassifier(ranks="auto", callbacks=watch, **given).fit(X[:1_000], y[:1_000], eval_set=(X[1_000:], y[1_000:]))
    assert [event.runs for event in found] == [1]


LIMITED = [
    {},
    MODEL,
    {"learning_rate": "auto", "l2": "auto", "model": "fm", "ranks": 4},
    {"ranks": "auto"},
    {"optimizer": "gibbs"},
]


@pytest.mark.parametrize("given", LIMITED, ids=str)
@pytest.mark.parametrize("seconds", [1e-9, 0.05])
@pytest.mark.usefixtures("split")
def test_a_model_is_trained_however_little_time_a_search_has(given, seconds, clicks):  # case 130
    X, y = clicks
    assert_trained(RaFMClassifier(**given, max_seconds=seconds).fit(X, y), X, y)


@pytest.mark.parametrize("given", LIMITED, ids=str)
@pytest.mark.parametrize("seconds", [1e-9, 0.05])
def test_a_model_is_trained_on_given_rows_however_little_time_there_is(given, seconds, clicks):  # case 130
    X, y = clicks
    model = RaFMClassifier(**given, max_seconds=seconds).fit(X[:1_000], y[:1_000], eval_set=(X[1_000:], y[1_000:]))
    assert_trained(model, X[:1_000], y[:1_000])


@pytest.mark.parametrize("is_valid_given", [True, False])
def test_tuning_without_time_gives_a_trained_model(is_valid_given, clicks):  # case 130
    X, y = clicks
    valid = {"eval_set": (X[1_000:], y[1_000:])} if is_valid_given else {}
    model = rafm.tune(RaFMClassifier(**MODEL), X[:1_000], y[:1_000], budget_seconds=1e-6, **valid)
    assert_trained(model, X[:1_000], y[:1_000])
