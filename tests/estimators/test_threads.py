"""An estimator that several threads use at once: no update is lost, and nobody sees half of one."""

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor, load
from rafm.train.events import Planned

N_THREADS, N_PARTS = 4, 6  # and parts of the rows for each


def in_threads(*works):
    """Run functions at once; return what they return, in their order, or raise what one of them raises."""
    found, begin = [None] * len(works), threading.Barrier(len(works))

    def run(number):
        begin.wait()
        try:
            found[number] = works[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def part(kind, number):
    """Return rows that share a feature with all others and have one of their own, and labels."""
    X = csr_matrix(
        (np.ones(20), (np.repeat(np.arange(10), 2), [0, 1 + number] * 10)), shape=(10, 1 + N_THREADS * N_PARTS)
    )
    return X, np.arange(10) % 2 if kind is RaFMClassifier else np.arange(10.0)


@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor])
def test_no_update_is_lost_if_threads_train_one_estimator(kind):  # case 124
    model = kind(model="fm", ranks=2)

    def work(first):
        for number in range(first, first + N_PARTS):
            model.partial_fit(*part(kind, number))

    in_threads(*(lambda first=first: work(N_PARTS * first) for first in range(N_THREADS)))
    counts = model.feature_counts_
    assert counts[0] == model.model_.n_rows == 10 * N_THREADS * N_PARTS
    np.testing.assert_array_equal(counts[1:], 10)


LISTENERS = []  # threads; not among what is pickled


class Overheard(RaFMRegressor):
    """Has a word with a listener while a model and its encoder are exchanged, or as soon as it can be heard."""

    def __setattr__(self, name, value):
        if name == "encoder_":
            for listener in LISTENERS:
                listener.start()
                listener.join(0.2)
        super().__setattr__(name, value)


USES = {
    "predict": lambda model, table, path: model.predict(table),
    "save": lambda model, table, path: (model.save(path), load(path).predict(table))[1],
    "pickle": lambda model, table, path: pickle.loads(pickle.dumps(model)).predict(table),
}


@pytest.mark.parametrize("use", USES)
def test_what_another_thread_sees_is_the_model_before_or_after_never_between(use, tmp_path, monkeypatch):  # case 124
    y, model = np.arange(20.0) % 10, Overheard(model="lr")
    table = pd.DataFrame({"a": [f"w{i}" for i in range(10)] * 2, "b": ["x", "y"] * 10})
    model.partial_fit(table, y)
    known, found = [model.predict(table)], []
    listener = threading.Thread(target=lambda: found.append(USES[use](model, table, tmp_path / "m.rafm")))
    monkeypatch.setattr(f"{__name__}.LISTENERS", [listener])
    model.partial_fit(table.assign(a=[f"v{i}" for i in range(20)]), y)  # new words: the ids of the other column move
    monkeypatch.undo()
    listener.join()
    known.append(model.predict(table))
    assert any(np.array_equal(found[0], one) for one in known)


def test_two_fits_at_once_leave_what_one_of_them_would():  # case 124
    shapes = [(20, 3), (30, 5)]
    data = [(np.eye(n, d, dtype=np.float32) + k, np.arange(n) % 2) for k, (n, d) in enumerate(shapes)]
    expected = [RaFMClassifier(ranks=2, model="fm").fit(*one).model_.parameters.arrays() for one in data]
    model = RaFMClassifier(ranks=2, model="fm")
    in_threads(*(lambda one=one: model.fit(*one) for one in data))
    found = expected[[d for _, d in shapes].index(model.n_features_in_)]
    for name, array in model.model_.parameters.arrays().items():
        np.testing.assert_array_equal(array, found[name], err_msg=name)


def test_a_callback_may_train_the_estimator_it_was_called_by():  # case 124
    X, y = part(RaFMClassifier, 0)

    def callback(event):
        if isinstance(event, Planned) and model.callbacks is not None:
            model.callbacks = None
            model.fit(X, y)  # waiting for itself would take for ever

    model = RaFMClassifier(ranks=2, model="fm", callbacks=callback)
    assert model.fit(X, y).predict(X).shape == (10,)


def test_estimators_that_were_trained_can_be_copied_cloned_and_pickled(tmp_path):  # case 124
    X, y = part(RaFMClassifier, 0)
    model = RaFMClassifier(ranks=2, model="fm").partial_fit(X, y)
    model.save(tmp_path / "m.rafm")
    for other in copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / "m.rafm"):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.partial_fit(X, y).model_.n_rows == 20
    assert clone(model).get_params() == model.get_params()
    assert model.model_.n_rows == 10


def test_a_ranker_is_trained_by_one_thread_at_a_time():  # case 124
    table = pd.DataFrame({"user": list("aabb"), "item": list("xyzx")})
    model = RaFMRanker(ranks=2, model="fm", item_fields=("item",))
    in_threads(*(lambda: model.partial_fit(table) for _ in range(4)))
    assert model.model_.n_rows == 16
