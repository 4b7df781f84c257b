"""Ratings of measured ranks: when they are sampled, that sizes are met, and that all rows are used in the end."""

import numpy as np
import pytest
from commands import run
from deciding import decision_for
from scipy.sparse import csr_matrix
from worlds import changed_rows, planted

from experiments.paper.large import job_of
from rafm import RaFMRegressor, load
from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train import policy, train, trial
from rafm.train.checkpoint import Checkpoint
from rafm.train.events import Cut, Decided, Distilled, EpochFinished, Finished, HeldOut, Planned, Selected
from rafm.train.gibbs.measured import train_sampled_sizes
from rafm.train.resources import Resources

N_ROWS, N_FEATURES, LIMIT = 3000, 50, 200
FIELDS = Fields.of_ranges(("user", "item"), (0, 30, N_FEATURES))
NAMES = ["user"] * 30 + ["item"] * 20


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Let as few rows and sweeps as the tests have be enough."""
    monkeypatch.setattr(policy, "FOLD_ROWS", 1000)
    monkeypatch.setattr(trial, "NOISE_SWEEPS", 12)
    monkeypatch.setattr("rafm.optimizers.gibbs.Gibbs.n_epochs", 20)
    monkeypatch.setattr(policy, "MOST_ROWS_TO_COMPARE", 0)


@pytest.fixture
def filled(monkeypatch):
    """Let a limit be used up, though a smaller model may be better."""
    monkeypatch.setattr("rafm.train.steps.measured.SIZES", ())


@pytest.fixture(scope="module")
def ratings():
    data, test = planted("regression", n_rows=N_ROWS * 3 // 2)
    noise = np.random.default_rng(0).normal(0, 0.5, N_ROWS)
    return InMemory(changed_rows(data, labels=data.labels + noise), FIELDS), test


def options(**given):
    return resolve(task="regression", **{"ranks": "auto", **given})


def matrix(rows):
    return csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.n_rows, N_FEATURES))


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


# The choice


@pytest.mark.parametrize("sizes", [{}, {"max_parameters": LIMIT}, {"max_bytes": 9000}], ids=str)
def test_ratings_of_measured_ranks_are_sampled_within_the_same_limits(sizes, ratings):
    found = decision_for(ratings[0], options(seed=3, **sizes))
    (recipe,) = found.recipes
    assert (recipe.optimizer.name, recipe.measured, recipe.seed) == ("gibbs", True, 3)
    assert {name: getattr(recipe, name) for name in sizes} == sizes
    told = Decided(found, N_ROWS).record()
    assert told == {"event": "decided", "reason": "sampled", "rank": 8, "rows": N_ROWS}


def test_the_model_to_be_cut_is_as_large_as_rows_time_and_memory_allow(ratings, monkeypatch):
    monkeypatch.setattr(policy, "ROWS_PER_SAMPLED_RANK", 10)
    assert decision_for(ratings[0], options()).recipes[0].large_rank == 32
    seconds = 300 * 5e-9 * 2 * N_ROWS * 17  # of two features per row and rank 16
    monkeypatch.setattr(policy, "MOST_SECONDS", 1.01 * seconds)
    assert decision_for(ratings[0], options()).recipes[0].large_rank == 16
    monkeypatch.setattr(policy, "MOST_SECONDS", 0.1 * seconds)
    assert decision_for(ratings[0], options()).reason == "given"


# Sizes


@pytest.mark.parametrize("sizes", [{"max_parameters": LIMIT}, {"max_parameters": 51}], ids=str)
def test_a_number_of_parameters_is_met_and_nearly_used(sizes, ratings, filled):
    events = list(train(ratings[0], options(**sizes), ratings[1]))
    model, limit = events[-1].model, sizes["max_parameters"]
    assert limit - 2 < model.n_parameters <= limit
    assert of_kind(events, Cut)[0].parameters == model.n_parameters
    assert [event.plan.n_parameters for event in of_kind(events, Planned)] == [1 + 9 * N_FEATURES, model.n_parameters]


def test_the_size_of_a_file_is_met(ratings, tmp_path):
    X, y, limit = matrix(ratings[0].rows), ratings[0].rows.labels, 7000
    fitted = RaFMRegressor(ranks="auto", max_bytes=limit, fields=NAMES).fit(X, y)
    fitted.save(tmp_path / "m.rafm")
    assert fitted.model_.options["optimizer"] == "gibbs"
    assert fitted.n_parameters_ > N_FEATURES + 1
    assert (tmp_path / "m.rafm").stat().st_size <= limit


def test_the_history_that_chose_counts_to_the_size_of_a_file(ratings, tmp_path, monkeypatch, filled):
    monkeypatch.setattr(trial, "NOISE_SWEEPS", 100)  # entries of sweeps that were judged are twice as long
    X, y = matrix(ratings[0].rows), ratings[0].rows.labels
    asked = {"ranks": "auto", "optimizer": "gibbs", "n_epochs": 100, "patience": None}

    def size_within(limit):
        RaFMRegressor(**asked, max_bytes=limit, fields=NAMES).fit(X, y).save(tmp_path / "m.rafm")
        return (tmp_path / "m.rafm").stat().st_size

    limit = size_within(100_000) - 800  # two hundred parameters less
    assert size_within(limit) <= limit


def test_a_model_that_is_small_enough_is_not_cut(ratings, filled):
    events = list(train(ratings[0], options(max_parameters=1000), ratings[1]))
    assert not of_kind(events, Cut)
    assert (events[-1].model.plan.family, events[-1].model.n_parameters) == ("fm", 1 + 9 * N_FEATURES)


def test_one_chain_gives_the_models_of_several_sizes(ratings):
    source, valid = ratings
    (chosen,) = decision_for(source, options(max_parameters=400)).recipes
    job, chosen = job_of(source, valid, chosen, count_rows([source.rows]))
    sizes = (400, 80, 200)
    found = of_kind(train_sampled_sizes(job, chosen, sizes), Finished)
    for size, event in zip(sizes, found, strict=True):
        alone = list(train(source, options(max_parameters=size), valid))[-1]
        assert bytes_of(event.model) == bytes_of(alone.model)


# Without validation rows


@pytest.fixture(scope="module")
def unjudged(ratings):
    """Return the events of runs without validation rows, by their limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "FOLD_ROWS", 1000)
        return {limit: list(train(ratings[0], options(max_parameters=limit))) for limit in (LIMIT, None)}


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_what_rows_held_out_have_chosen_is_done_again_on_all_rows(limit, unjudged):
    events = unjudged[limit]
    kinds = [type(event) for event in events]
    assert kinds[0] is Decided
    assert kinds.index(HeldOut) < kinds.index(Selected)
    first, again = of_kind(events, Cut)
    assert again.value is None
    assert again.parameters <= (limit or first.parameters)
    assert again.parameters > 0.9 * first.parameters
    noise = [event.noise for event in of_kind(events, Distilled)]
    assert noise[2] == pytest.approx(noise[1])  # as measured on the rows held out
    model = events[-1].model
    assert (model.n_rows, model.n_parameters) == (N_ROWS, again.parameters)
    assert "valid_rmse" in model.history[-1]


def test_a_killed_run_under_a_budget_ends_with_the_same_model(ratings, tmp_path):
    class Killed(BaseException):
        """Ends a run without a word, as kill -9 does."""

    def life(folder, epochs):
        with Checkpoint(folder, seconds=0, tell=lambda text: None) as checkpoint:
            for event in train(ratings[0], options(max_parameters=LIMIT), None, Resources(checkpoint=checkpoint)):
                epochs -= isinstance(event, EpochFinished)
                if not epochs:
                    raise Killed
        return event.model

    expected = bytes_of(life(tmp_path / "whole", -1))
    for kill in (5, 9, 7):
        with pytest.raises(Killed):
            life(tmp_path / "killed", kill)
    assert bytes_of(life(tmp_path / "killed", -1)) == expected


# The faces


def test_one_line_says_that_a_model_will_be_cut_and_how_to_train_by_steps(ratings, tmp_path):
    rows = ratings[0].rows
    pairs = zip(rows.labels, rows.indices.reshape(-1, 2))
    (tmp_path / "r.csv").write_text("stars,user,item\n" + "".join(f"{y:.3f},u{a},i{b}\n" for y, (a, b) in pairs))
    flags = ("--label", "stars", "--task", "regression", "--ranks", "auto", "--max-parameters", LIMIT)
    ran = run("train", tmp_path / "r.csv", *flags, "--out", tmp_path / "m.rafm")
    assert ran.code == 0, ran.err
    said = f"{N_ROWS} ratings: sampling a factorization machine of rank 8, to be cut to vectors of measured length "
    assert said + "(use --optimizer adagrad for gradient steps)" in ran.out
    assert load(tmp_path / "m.rafm").n_parameters_ <= LIMIT
    stepped = run(
        "train", tmp_path / "r.csv", *flags, "--optimizer", "adagrad", "--epochs", 2, "--out", tmp_path / "n.rafm"
    )
    assert "sampling" not in stepped.out


def test_new_rows_continue_a_sampled_model_of_measured_ranks_by_steps(ratings):
    rows, test = ratings[0].rows, ratings[1]
    X, y, n = matrix(rows), rows.labels, 1500
    model = RaFMRegressor(ranks="auto", max_parameters=LIMIT, fields=NAMES).fit(X[:n], y[:n])
    assert (model.model_.options["optimizer"], model.n_parameters_ <= LIMIT) == ("gibbs", True)
    before, size = np.mean((model.predict(matrix(test)) - test.labels) ** 2), model.n_parameters_
    model.partial_fit(X[n:], y[n:])
    assert (model.model_.options["optimizer"], model.n_parameters_) == ("adagrad", size)
    assert np.mean((model.predict(matrix(test)) - test.labels) ** 2) < before
