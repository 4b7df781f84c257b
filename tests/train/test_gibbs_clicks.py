"""Gibbs sampling of binary labels: latent numbers, the posterior, rows to distil on, calibration, and whole runs."""

import numpy as np
import pytest
from commands import run
from scipy.special import expit, log_ndtr
from scipy.stats import kstest, truncnorm
from sklearn.linear_model import LogisticRegression
from worlds import changed_rows, pack_rows, planted

from rafm import RaFMClassifier
from rafm.errors import ConfigError, DataValueError
from rafm.kernels import gibbs
from rafm.kernels.gibbs_latent import draw_latent
from rafm.kernels.gibbs_tables import Draw
from rafm.kernels.tables import Rows
from rafm.options import resolve
from rafm.plan.ranks import RankPlan
from rafm.rows.fields import NO_FIELD, Fields
from rafm.rows.source import InMemory
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Begun, Distilled, Finished
from rafm.train.gibbs import engine as gibbs_engine
from rafm.train.gibbs import run as gibbs_run
from rafm.train.gibbs.clicks import N_SETS, STRIDE, ClickEngine, calibration, recombined
from rafm.train.resources import Resources


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.fixture(scope="module")
def clicks():
    data, valid = planted(n_rows=3000)
    return InMemory(data, Fields.of_ranges(("user", "item"), (0, 30, 50))), valid


def options(**chosen):
    return resolve(**{"task": "binary", "model": "fm", "ranks": 2, "optimizer": "gibbs", "n_epochs": 60, **chosen})


def model_of(events):
    assert isinstance(events[-1], Finished)
    return events[-1].model


def log_loss(model, rows):
    scores = model.scores(rows).astype(float)
    return float(np.mean(np.logaddexp(0, scores) - scores * rows.labels))


def linear_engine(X, labels, seed=0):
    rows = pack_rows([(np.flatnonzero(x), x[np.flatnonzero(x)]) for x in X], labels, None, np.float32)
    return ClickEngine(rows, RankPlan("lr", (), (X.shape[1], 0)), None, seed, bias=0.0)


def draw_all(engine, sweep):
    """Draw latent numbers, bias and weights; lambda and mu stay as they are."""
    draw = Draw(sweep, 3, 0, 1.0, False, False, 0.0)
    engine.team.run(lambda team: draw_latent(engine.design, engine.signs, engine.chain.errors, sweep, 3, 0, team))
    engine.team.run(lambda team: gibbs.sample_factors(engine.design, 0, 1, engine.chain, draw, team))


# Draws


@pytest.mark.parametrize("score", [-6.0, -1.0, -0.3, 0.2, 3.0])
@pytest.mark.parametrize("label", [0, 1])
def test_latent_numbers_are_normal_and_agree_with_their_label(label, score):
    engine = linear_engine(np.ones((4000, 1)), np.full(4000, float(label)))
    engine.design.labels[:], engine.chain.errors[:] = score + 1, 1
    engine.team.run(lambda team: draw_latent(engine.design, engine.signs, engine.chain.errors, 7, 5, 0, team))
    low, high = (-score, np.inf) if label else (-np.inf, -score)
    assert kstest(engine.chain.errors, truncnorm(low, high).cdf).pvalue > 1e-3
    np.testing.assert_allclose(engine.design.labels - engine.chain.errors, score, atol=1e-5)


def test_weights_follow_the_exact_posterior_of_the_probit_model():
    X, labels = np.eye(2)[[0, 0, 0, 1, 1, 1, 1, 1]], np.array([1.0, 1, 0, 0, 0, 0, 0, 1])
    engine, samples = linear_engine(X, labels), []
    engine.chain.hyper[:, 0, :, 0] = 1.0
    for sweep in range(20_000):
        draw_all(engine, sweep)
        samples.append([engine.chain.bias[0], *engine.chain.numbers[0, engine.arrangement.places]])
    samples = np.array(samples[200:])
    b, u, v = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(-4, 4, 81), np.linspace(-4, 4, 81), indexing="ij")
    log_density = -0.5 * (u * u + v * v)
    for x, y in zip(X, labels):
        log_density = log_density + log_ndtr((1 if y else -1) * (b + x[0] * u + x[1] * v))
    density = np.exp(log_density - log_density.max())
    exact = [(density * part).sum() / density.sum() for part in (b + u, b + v, (b + u) ** 2, (b + v) ** 2)]
    one, two = samples[:, 0] + samples[:, 1], samples[:, 0] + samples[:, 2]
    np.testing.assert_allclose([one.mean(), two.mean(), (one**2).mean(), (two**2).mean()], exact, atol=0.05)


# Distillation


def test_sweeps_take_turns_to_collect_recombined_rows(clicks):
    rows, fields = clicks[0].rows, np.repeat([0, 1], [30, 20])
    ones = np.ones(rows.n_rows, np.float32)
    packed = Rows(rows.indptr, rows.indptr[1:], rows.indices, rows.values, rows.labels, ones)
    engine = ClickEngine(packed, RankPlan("fm", (2,), (50, 50, 0)), fields, 0, bias=0.0)
    half = 0.5 * np.ones(rows.n_rows)  # of a chain that knows nothing
    engine.chain.numbers[:] = 0
    for sweep in range(STRIDE * N_SETS + 1):
        engine.collected += 1, 0
        engine.collect(True)
        found = (sweep // STRIDE + N_SETS - np.arange(N_SETS)) // N_SETS
        np.testing.assert_allclose(engine.other_totals, np.outer(found, half))
    np.testing.assert_array_equal(found, [2, *[1] * (N_SETS - 1)])
    student, gap = engine.student()
    assert gap.before == gap.after == 0  # each set was divided by the number of its turns
    assert student.design.labels.size == N_SETS * rows.n_rows


def test_recombined_rows_have_one_field_of_another_row():
    rng = np.random.default_rng(0)
    fields = np.repeat([0, 1, 2], [4, 3, 5])
    given = [
        np.sort(np.concatenate([rng.choice(4, 2, False), [4 + rng.integers(3)], [7 + rng.integers(5)]]))
        for _ in range(50)
    ]
    rows = pack_rows([(ids, ids + 1.0) for ids in given], np.zeros(50), None, np.float32)
    found, changed = recombined(rows, fields, seed=3), set()
    parts = {field: {tuple(ids[fields[ids] == field]) for ids in given} for field in range(3)}
    for row, ids in enumerate(given):
        own = slice(*found.indptr[row : row + 2])
        new = found.indices[own]
        assert (np.diff(new) > 0).all()
        np.testing.assert_array_equal(found.values[own], new + 1.0)
        different = [k for k in range(3) if tuple(new[fields[new] == k]) != tuple(ids[fields[ids] == k])]
        assert len(different) <= 1
        assert all(tuple(new[fields[new] == k]) in parts[k] for k in range(3))
        changed.update(different)
    assert changed == {0, 1, 2}


def test_every_other_set_of_rows_changes_large_fields_more_often():
    fields, n = np.repeat([0, 1, NO_FIELD], [900, 4, 2]), 4000
    ids = np.arange(n)[:, None] % [900, 4, 2] + [0, 900, 904]
    rows, shares = pack_rows([(own, np.ones(3)) for own in ids], np.zeros(n), None, np.float32), []
    for number in range(2):
        changed = (recombined(rows, fields, 0, number).indices.reshape(-1, 3) != ids).mean(axis=0)
        shares.append(changed / [1 - 1 / 900, 1 - 1 / 4, 1])  # a partner may have the same feature
    np.testing.assert_allclose(shares, [[0.5, 0.5, 0], [30 / 32, 2 / 32, 0]], atol=0.03)


def test_calibration_is_logistic_regression():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=500), rng.uniform(0, 2, 500)
    labels = (rng.random(500) < expit(0.4 * scores - 1)).astype(float)
    peer = LogisticRegression(C=1e9, tol=1e-9).fit(scores[:, None], labels, weights)
    np.testing.assert_allclose(calibration(scores, labels, weights), [peer.coef_[0, 0], peer.intercept_[0]], atol=1e-4)


# Runs


def test_one_model_is_better_than_steps_and_calibrated(clicks):
    data, valid = clicks
    events = list(run_recipe(data, options(), valid))
    model, distilled = model_of(events), events[-2]
    stepped = model_of(list(run_recipe(data, resolve(task="binary", model="fm", ranks=2, n_epochs=60), valid)))
    assert log_loss(model, valid) < 1.01 * log_loss(stepped, valid)
    assert isinstance(distilled, Distilled)
    assert distilled.metrics["log_loss"] == pytest.approx(log_loss(model, valid), rel=1e-4)
    assert distilled.metrics["log_loss"] < 1.03 * model.history[-1]["valid_log_loss"]
    assert distilled.after < distilled.before
    assert model.predict(valid).mean() == pytest.approx(valid.labels.mean(), abs=0.01)
    assert model.history[-1]["train_loss"] < model.history[0]["train_loss"]


def test_a_killed_run_ends_with_the_same_model_for_any_number_of_threads(clicks, monkeypatch, tmp_path):
    data, valid = clicks
    monkeypatch.setattr(gibbs_engine, "PIECE_WORK", 1)
    monkeypatch.setattr(gibbs_run, "SHOWN_SECONDS", -1.0)
    monkeypatch.setattr("rafm.plan.design.PART_ROWS", 100)
    monkeypatch.setattr("rafm.plan.design.PART_SHARE", 1)
    expected = model_of(list(run_recipe(data, options(n_epochs=6), valid)))
    for _ in range(40):
        events = []
        try:
            with Checkpoint(tmp_path, seconds=0) as checkpoint:
                for event in run_recipe(data, options(n_epochs=6, threads=2), valid, Resources(checkpoint=checkpoint)):
                    events.append(event)
                    if len(events) == 9:
                        raise Killed
        except Killed:
            continue
        break
    for name, array in model_of(events).parameters.arrays().items():
        np.testing.assert_array_equal(array, expected.parameters.arrays()[name])


def test_sampling_begins_at_the_log_odds_of_a_model(clicks):
    data, valid = clicks
    start = model_of(list(run_recipe(data, resolve(task="binary", model="fm", ranks=2, field_weights="off"), valid)))
    chosen = options(n_epochs=3, field_weights="off")
    found = [list(run_recipe(data, chosen, valid, start=begin)) for begin in (None, start)]
    assert any(isinstance(event, Begun) for event in found[1])
    assert log_loss(model_of(found[1]), valid) < log_loss(model_of(found[0]), valid)


def test_field_weights_are_those_of_steps_taken_first(clicks):
    data, valid = clicks
    stepped = model_of(list(run_recipe(data, resolve(task="binary", model="fm", ranks=2, calibrate="off"), valid)))
    events = list(run_recipe(data, options(n_epochs=8), valid))
    (begun,) = (event for event in events if isinstance(event, Begun))
    assert not begun.is_given
    model = model_of(events)
    assert (stepped.parameters.fields > 0).all()
    np.testing.assert_array_equal(model.parameters.fields, stepped.parameters.fields)
    again = model_of(list(run_recipe(data, options(n_epochs=8), valid, start=stepped)))
    for name, array in again.parameters.arrays().items():
        np.testing.assert_array_equal(array, model.parameters.arrays()[name])
    assert model_of(list(run_recipe(data, options(n_epochs=2, field_weights="off"), valid))).parameters.fields is None


def test_field_weights_of_a_model_need_fields_and_cannot_be_switched(clicks):
    data, valid = clicks
    steps = {"task": "binary", "model": "fm", "ranks": 2, "n_epochs": 2}
    plain, weighted = (
        model_of(list(run_recipe(data, resolve(**steps, field_weights=choice), valid))) for choice in ("off", "on")
    )
    with pytest.raises(ConfigError, match="cannot begin from a model that has field weights"):
        list(run_recipe(data, options(field_weights="off"), valid, start=weighted))
    with pytest.raises(ConfigError, match="cannot begin from a model that has none"):
        list(run_recipe(data, options(field_weights="on"), valid, start=plain))
    with pytest.raises(DataValueError, match="the model to begin from has field weights, which need fields"):
        list(run_recipe(data.rows, options(), valid, start=weighted))


def test_steps_that_learn_nothing_are_not_begun_from(clicks):
    valid = changed_rows(clicks[1], labels=1 - clicks[1].labels)  # every epoch is worse than a constant
    events = list(run_recipe(clicks[0], options(n_epochs=2), valid))
    assert not any(isinstance(event, Begun) for event in events)


@pytest.mark.parametrize("has_fields", [False, True])
def test_without_validation_rows_a_model_comes_out_too(has_fields, clicks):
    model = model_of(list(run_recipe(clicks[0] if has_fields else clicks[0].rows, options(n_epochs=20), None)))
    assert log_loss(model, clicks[1]) < 0.68
    assert (model.parameters.fields is not None) == has_fields


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.full(2000, 0.5)}, "samples labels 0 and 1 without weights, found label 0.5"),
        ({"weights": np.linspace(1, 3, 2000)}, "found row weights other than 1"),
    ],
)
def test_labels_between_and_weights_are_refused(changes, clicks, message):
    with pytest.raises(DataValueError, match=message):
        list(run_recipe(changed_rows(clicks[0].rows, **changes), options(n_epochs=1), clicks[1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep_samples": 3}, "keep_samples is for ratings"),
        ({"negative_rate": 0.1}, "negative_rate has no effect with optimizer='gibbs'"),
        ({"model": "rafm", "ranks": "auto"}, "samples ratings only"),
    ],
)
def test_what_clicks_do_not_have_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        options(**given)


def test_estimator_and_command_sample_clicks(clicks, tmp_path):
    rows = clicks[0].rows
    X = np.zeros((rows.n_rows, 50), np.float32)
    np.put_along_axis(X, rows.indices.reshape(-1, 2), 1, axis=1)
    fitted = RaFMClassifier(2, model="fm", optimizer="gibbs", n_epochs=20).fit(X, rows.labels)
    assert np.mean(fitted.predict(X) == rows.labels) > 0.7
    lines = (f"{label:g} {a}:1 {b}:1\n" for label, (a, b) in zip(rows.labels, rows.indices.reshape(-1, 2)))
    (tmp_path / "t.svm").write_text("".join(lines))
    ran = run(
        "train",
        tmp_path / "t.svm",
        "--model",
        "fm",
        "--ranks",
        "2",
        "--optimizer",
        "gibbs",
        "--epochs",
        "20",
        "--out",
        tmp_path / "m.rafm",
    )
    assert ran.code == 0, ran.err
    assert run("evaluate", tmp_path / "m.rafm", tmp_path / "t.svm", "--json").json()["log_loss"] < 0.6
