"""Regressors without options: which rows are sampled, what is said of it, and how such a model goes on."""

import numpy as np
import pytest
from commands import run
from deciding import decision_for
from scipy.sparse import csr_matrix
from worlds import changed_rows, planted

from rafm import RaFMRegressor, load
from rafm.losses.huber import Huber
from rafm.options import resolve
from rafm.rows.blocks import join_rows
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.spill import SpilledRows, SpillOptions
from rafm.train import policy, train, trial
from rafm.train.checkpoint import Checkpoint
from rafm.train.events import Decided, Distilled, EpochFinished, Finished, HeldOut, Selected
from rafm.train.policy import Freedom
from rafm.train.resources import Resources

NOISE, N_ROWS = 0.5, 3000
FIELDS = Fields.of_ranges(("user", "item"), (0, 30, 50))
NAMES = ["user"] * 30 + ["item"] * 20


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Let as few rows as the tests have be enough, and no other model compete."""
    monkeypatch.setattr(policy, "MOST_ROWS_TO_COMPARE", 0)
    monkeypatch.setattr(policy, "FOLD_ROWS", 1000)


@pytest.fixture(scope="module")
def ratings():
    """Return rows with noisy labels, and rows without noise to test on."""
    data, test = planted("regression", n_rows=N_ROWS * 3 // 2)
    return changed_rows(data, labels=data.labels + np.random.default_rng(0).normal(0, NOISE, N_ROWS)), test


@pytest.fixture(scope="module")
def sampled(ratings):
    """Return the events of a run without options."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "FOLD_ROWS", 1000)
        patch.setattr(policy, "MOST_ROWS_TO_COMPARE", 0)
        return list(train(InMemory(ratings[0], FIELDS), resolve(task="regression")))


def matrix(rows):
    return csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.n_rows, 50))


def rmse(model, rows):
    return float(np.sqrt(np.mean((model.predict(rows) - rows.labels) ** 2)))


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


# Which rows


def choice(rows, fields=FIELDS, is_judged=True, **given):
    """Return the recipe if it samples, else None."""
    found = decision_for(rows, resolve(task="regression", **given), fields, is_judged)
    return found.recipes[0] if found.reason == "sampled" else None


def test_ratings_of_known_fields_are_sampled(ratings):
    found = choice(ratings[0], seed=7, threads=2, metric="mae", max_seconds=60, loss="squared")
    assert (found.optimizer.name, found.model, found.ranks, found.n_epochs) == ("gibbs", "fm", (8,), 200)
    assert (found.seed, found.threads, found.metric, found.max_seconds) == (7, 2, "mae", 60)


@pytest.mark.parametrize(
    "given",
    [
        {"optimizer": "adagrad"},
        {"model": "rafm"},
        {"ranks": (4, 8)},
        {"ranks": "auto", "l2": 0.1},
        {"rank_scale": 2},
        {"n_epochs": 5},
        {"patience": None},
        {"learning_rate": 0.1},
        {"l2": 0.1},
        {"l2_weights": 1e-3},
        {"averaging": True},
        {"field_weights": "on"},
        {"step_rows": 0},
        {"levels": np.zeros(50, int)},
        {"loss": Huber()},
        {"max_seconds": 0.01},
    ],
    ids=str,
)
def test_options_that_ask_for_another_model_are_heard(given, ratings):
    assert choice(ratings[0], **given) is None


def test_rows_without_fields_are_sampled_if_they_have_two_features(ratings):
    assert choice(ratings[0], fields=None).optimizer.name == "gibbs"
    alone = {"indptr": np.arange(N_ROWS + 1), "indices": np.arange(N_ROWS) % 50, "values": np.ones(N_ROWS)}
    assert choice(changed_rows(ratings[0], **alone), fields=None) is None


def test_measured_values_and_long_rows_are_sampled(ratings):
    rows, n = ratings[0], 50
    assert choice(changed_rows(rows, values=np.full(rows.indices.size, 0.5))).optimizer.name == "gibbs"
    long = {
        "indptr": np.arange(N_ROWS + 1) * n,
        "indices": np.tile(np.arange(n), N_ROWS),
        "values": np.ones(N_ROWS * n),
    }
    assert choice(changed_rows(rows, **long)).optimizer.name == "gibbs"


def test_rows_that_are_no_ratings_are_trained_by_steps(ratings, monkeypatch):
    rows, tail = ratings[0], ratings[0].labels.copy()
    tail[0] = 1000 * tail.std()
    assert choice(rows, fields=Fields.of_ranges(("all",), (0, 50))) is None
    assert choice(rows, is_judged=False) is None  # nothing tells the noise
    assert choice(changed_rows(rows, labels=tail)) is None
    monkeypatch.undo()
    assert choice(rows) is None  # of at most 5,000 rows
    monkeypatch.setattr(policy, "FOLD_ROWS", 1000)
    monkeypatch.setattr(policy, "MOST_SECONDS", 0.01)
    assert choice(rows) is None


def test_rows_on_disk_are_sampled_if_they_fit_into_memory(ratings, tmp_path):
    def spilled(megabytes):
        source = SpilledRows([ratings[0]], SpillOptions(0, tmp_path), 50)
        source.fields = FIELDS
        return decision_for(source, resolve(task="regression"), memory=megabytes).reason

    assert spilled(megabytes=1) == "sampled"
    assert spilled(megabytes=0.1) == "given"


def test_clicks_and_counts_are_never_sampled_unless_asked():
    freedom = {task: Freedom.of(resolve(task=task, field_weights="off")) for task in ("regression", "binary", "count")}
    assert freedom["regression"].may_sample  # sampled ratings have no field weights
    assert not freedom["binary"].may_sample
    assert not freedom["count"].may_sample


# What is trained


def test_the_noise_is_measured_on_rows_held_out_then_all_rows_are_sampled(ratings, sampled):
    kinds = [type(event) for event in sampled]
    assert kinds[0] is Decided
    assert kinds.index(HeldOut) < kinds.index(Selected)
    assert next(event for event in sampled if isinstance(event, Selected)) == Selected(200, N_ROWS)
    first, second = (event for event in sampled if isinstance(event, Distilled))
    assert first.noise == pytest.approx(NOISE**2, rel=0.25)  # of 300 rows
    assert second.noise == pytest.approx(first.noise)
    assert second.prior_precision == first.prior_precision
    last = sampled[-1]
    assert isinstance(last, Finished)
    assert last.model.n_rows == N_ROWS
    assert "valid_rmse" in last.model.history[-1]


def test_a_sampled_model_is_closer_to_the_truth_than_one_of_steps(ratings, sampled):
    stepped = list(train(InMemory(ratings[0], FIELDS), resolve(task="regression", optimizer="adagrad")))
    assert rmse(sampled[-1].model, ratings[1]) < 0.8 * rmse(stepped[-1].model, ratings[1])


def test_one_line_says_so_and_how_to_switch_it_off(ratings, sampled, tmp_path, monkeypatch):
    assert sampled[0].record() == {"event": "decided", "reason": "sampled", "rank": 8, "rows": N_ROWS}
    monkeypatch.setattr(trial, "NOISE_SWEEPS", 12)
    rows = zip(ratings[0].labels, ratings[0].indices.reshape(-1, 2))
    (tmp_path / "r.csv").write_text("stars,user,item\n" + "".join(f"{y:.3f},u{a},i{b}\n" for y, (a, b) in rows))
    common = ("train", tmp_path / "r.csv", "--label", "stars", "--task", "regression", "--out", tmp_path / "m.rafm")
    ran = run(*common)
    assert ran.code == 0, ran.err
    assert f"{N_ROWS} ratings: sampling a factorization machine of rank 8 (use --optimizer adagrad for" in ran.out
    more = run(*common[:2], "--resume-from", tmp_path / "m.rafm", "--out", tmp_path / "n.rafm")
    assert more.code == 0, more.err
    assert "a sampled model cannot be continued by sampling; continuing with adagrad" in more.out
    assert "sampling" not in run(*common, "--keep-state", "--max-seconds", "0.5").out


def test_a_killed_run_without_options_ends_with_the_same_model(ratings, monkeypatch, tmp_path):
    class Killed(BaseException):
        """Ends a run without a word, as kill -9 does."""

    def life(folder, epochs):
        with Checkpoint(folder, seconds=0, tell=lambda text: None) as checkpoint:
            for event in train(
                InMemory(ratings[0], FIELDS), resolve(task="regression"), None, Resources(checkpoint=checkpoint)
            ):
                epochs -= isinstance(event, EpochFinished)
                if not epochs:
                    raise Killed
        return event.model

    monkeypatch.setattr(trial, "NOISE_SWEEPS", 12)
    monkeypatch.setattr("rafm.optimizers.gibbs.Gibbs.n_epochs", 20)
    expected = bytes_of(life(tmp_path / "whole", -1))
    for kill in (5, 9, 7):
        with pytest.raises(Killed):
            life(tmp_path / "killed", kill)
    assert bytes_of(life(tmp_path / "killed", -1)) == expected


# Going on


def test_new_rows_improve_a_sampled_model_by_steps(ratings, tmp_path):
    rows, test = ratings
    X, y, n = matrix(rows), rows.labels, 1500
    fitted = RaFMRegressor(fields=NAMES).fit(X[:n], y[:n])
    before = np.sqrt(np.mean((fitted.predict(matrix(test)) - test.labels) ** 2))
    assert fitted.model_.options["optimizer"] == "gibbs"
    fitted.save(tmp_path / "m.rafm")
    for model in (fitted, load(tmp_path / "m.rafm")):
        model.partial_fit(X[n:], y[n:])
        assert model.model_.options["optimizer"] == "adagrad"
        assert np.sqrt(np.mean((model.predict(matrix(test)) - test.labels) ** 2)) < before


def test_the_first_rows_of_a_stream_are_never_sampled(ratings):
    rows = join_rows([ratings[0], ratings[0]])
    fitted = RaFMRegressor(fields=NAMES).partial_fit(matrix(rows), rows.labels)
    assert (fitted.model_.options["optimizer"], fitted.model_.plan.family) == ("adagrad", "rafm")
