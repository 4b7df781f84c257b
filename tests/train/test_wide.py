"""Training by wide steps: as good as small mini-batches, resumable, and refused where it cannot work."""

import numpy as np
import pytest
from commands import rows_of_pairs, run
from scipy.sparse import csr_array
from worlds import planted

from rafm.errors import ConfigError
from rafm.estimators import RaFMClassifier
from rafm.options import resolve
from rafm.plan.steps import short_steps, step_order
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Finished
from rafm.train.resources import Resources
from rafm.train.steps import record_engine

STEP = 32


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=6000)


def options(**chosen):
    return resolve(**{"task": "binary", "ranks": (4, 8), "n_epochs": 6, "step_rows": STEP, **chosen})


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd", "ftrl"])
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_wide_steps_learn_what_small_mini_batches_learn(task, optimizer):
    data, valid = planted(task, n_rows=6000)
    small, wide = (
        train_model(data, options(task=task, optimizer=optimizer, step_rows=rows, n_epochs=15), valid)
        for rows in (0, STEP)
    )
    metric = "log_loss" if task == "binary" else "rmse"
    best = [min(epoch[f"valid_{metric}"] for epoch in model.history) for model in (small, wide)]
    constant = np.log(2) if task == "binary" else np.std(valid.labels)
    assert best[0] < 0.9 * constant
    assert best[1] - best[0] < 0.03 * (constant - best[0]) + 0.02 * best[0]


def test_small_data_keep_small_mini_batches(clicks):
    data, _ = clicks
    assert bytes_of(train_model(data, options(step_rows="auto"))) == bytes_of(train_model(data, options(step_rows=0)))
    assert bytes_of(train_model(data, options(step_rows="auto"))) != bytes_of(train_model(data, options()))


def test_a_run_killed_after_every_few_events_ends_with_the_same_model(clicks, tmp_path, monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 1024)
    data, valid = clicks
    chosen = options(n_epochs=2)
    *_, expected = run_recipe(data, chosen, valid)
    for _ in range(50):
        try:
            with Checkpoint(tmp_path, seconds=0) as checkpoint:
                for number, event in enumerate(run_recipe(data, chosen, valid, Resources(checkpoint=checkpoint))):
                    last = event
                    if number == 7:
                        raise Killed
        except Killed:
            continue
        break
    assert isinstance(last, Finished)
    assert bytes_of(last.model) == bytes_of(expected.model)


def test_threads_of_an_estimator_share_wide_steps(clicks):
    data, _ = clicks
    X = csr_array((data.values, data.indices, data.indptr), shape=(data.n_rows, data.n_features))
    found = [
        RaFMClassifier(ranks=(4,), n_epochs=3, step_rows=STEP, n_jobs=jobs).fit(X, data.labels).predict_proba(X)
        for jobs in (1, 3)
    ]
    np.testing.assert_array_equal(*found)


def test_steps_of_a_block_are_visited_whole_and_the_rest_last():
    order = step_order(1003, 100, np.random.default_rng(0))
    assert sorted(order.tolist()) == [*range(1003)]
    assert (np.diff(order[:1000].reshape(10, 100)) == 1).all()
    assert order[1000:].tolist() == [1000, 1001, 1002]


def test_no_step_is_longer_than_a_32nd_of_the_rows_before_it():
    bounds = np.array([*short_steps(0, 300_000, 0, 4096)])
    sizes, seen = np.diff(bounds), bounds[:-1]
    assert (sizes <= np.maximum(16, seen / 32)).all()
    assert (sizes[seen > 2 * 32 * 4096][:-1] == 4096).all()


WRONG = {
    "a negative number": ({"step_rows": -1}, "step_rows must be 'auto', 0 or a whole number from 16 to 65536"),
    "too few rows": ({"step_rows": 15}, "from 16 to 65536"),
    "half a row": ({"step_rows": 64.5}, "from 16 to 65536"),
    "a word": ({"step_rows": "many"}, "from 16 to 65536"),
    "a mixture": ({"model": "mrma"}, "model 'mrma' cannot take wide steps"),
    "a sampler": ({"task": "regression", "model": "fm", "ranks": (4,), "optimizer": "gibbs"}, "no effect"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused(given, message):
    with pytest.raises(ConfigError, match=message) as caught:
        options(**given)
    assert caught.value.key == "step_rows"


def test_steps_that_are_too_long_for_the_rows_are_refused(clicks):
    with pytest.raises(
        ConfigError, match="step_rows=1024 leaves fewer than 50 steps per epoch for 4000 rows; use at most 80"
    ):
        train_model(clicks[0], options(step_rows=1024))


def test_the_command_takes_and_explains_the_flag(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(2000))
    more = ("--out", tmp_path / "m.rafm", "--ranks", "2", "--epochs", "1", "--valid-share", "0", "--json")
    ran = run("train", tmp_path / "rows.svm", *more, "--step-rows", "32", "--threads", "3")
    assert ran.json()["threads"] == 3
    assert "note" not in ran.err
    wrong = run("train", tmp_path / "rows.svm", *more, "--step-rows", "64")
    assert wrong.code == 2
    assert "--step-rows 64 leaves fewer than 50 steps" in wrong.err
    assert "at most 40" in wrong.err
