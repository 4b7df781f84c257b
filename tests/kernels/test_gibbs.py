"""The sampler's draws: those of the definition, one parameter after the other, and samples of the exact posterior."""

from itertools import pairwise

import naive
import numpy as np
import pytest
from worlds import pack_rows

from rafm.kernels import gibbs
from rafm.kernels.gibbs_tables import Draw
from rafm.plan.ranks import RankPlan
from rafm.train.gibbs.engine import GibbsEngine

PULL = 0.5


def rows_of_matrix(X, labels, weights=None):
    rows = [(np.flatnonzero(x), x[np.flatnonzero(x)]) for x in X]
    return pack_rows(rows, labels, weights, np.float32)


def one_hot(rng, sizes, n_rows):
    """Return rows with one feature of each field, and the field of each feature."""
    X = np.concatenate([np.eye(size)[rng.integers(0, size, n_rows)] for size in sizes], axis=1)
    return X, np.repeat(np.arange(len(sizes)), sizes)


def some(rng, n_rows, n, share):
    return np.where(rng.random((n_rows, n)) < share, rng.normal(size=(n_rows, n)), 0)


def case(name):
    """Return a matrix, row weights, fields and the number of factors of each feature."""
    rng, n_rows = np.random.default_rng(7), 60
    X, fields = one_hot(rng, (7, 5, 2), n_rows)
    lengths, weights = np.full(14, 3), np.ones(n_rows)
    if name == "values":
        X = X * rng.normal(size=X.shape)
    elif name == "weights":
        weights = rng.uniform(0, 2, n_rows)
    elif name.startswith("several of a field"):
        X[:, :7] = some(rng, n_rows, 7, 0.4)
        X = (X != 0).astype(float) if "ones" in name else X
        weights = rng.uniform(0, 2, n_rows) if "weighted" in name else weights
    elif name == "no fields":
        X, fields = some(rng, n_rows, 14, 0.3), None
    elif name.startswith("missing fields"):
        X[rng.random(n_rows) < 0.3, :7] = 0
        X[rng.random(n_rows) < 0.9, 7:12] = 0
    elif name == "lengths":
        lengths = np.repeat([3, 1, 0], [6, 4, 4])
    elif name == "every column a field":
        X, fields, lengths = rng.normal(size=(n_rows, 5)), np.arange(5), np.full(5, 3)
    elif name == "linear":
        lengths = np.zeros(14, int)
    return X, weights, fields, lengths


CASES = (
    "one of each field",
    "values",
    "weights",
    "several of a field",
    "several of a field, ones",
    "several of a field, weighted",
    "several of a field, weighted ones",
    "no fields",
    "missing fields",
    "lengths",
    "every column a field",
    "linear",
    "field weights",
    "several of a field, field weights",
    "missing fields, field weights",
)
FIELD_WEIGHTS = 0.9, 0.4, 0.0


def field_weights_of(name, fields):
    """Return the field weight of each feature, 0 if fields have none."""
    return np.array(FIELD_WEIGHTS)[fields] if name.endswith("field weights") else 0.0


def engine_of(name, threads=1):
    X, weights, fields, lengths = case(name)
    top = int(lengths.max())
    ranks = (1, 3) if name == "lengths" else (top,) * (top > 0)
    family = "difacto" if name == "lengths" else "fm" if top else "lr"
    sizes = [int((lengths >= rank).sum()) for rank in (0, *ranks)]
    labels = np.random.default_rng(1).normal(size=len(X)).astype(np.float32)
    rows, n_weights = rows_of_matrix(X, labels, weights), 3 if name.endswith("field weights") else 0
    plan = RankPlan(family, ranks, (*sizes, 0), n_field_weights=n_weights)
    engine = GibbsEngine(rows, plan, fields, seed=3, bias=0.2, threads=threads)
    if n_weights:
        engine.weigh_fields(np.array(FIELD_WEIGHTS))
        engine.renew()
    engine.team.probe.alone = threads == 1
    return engine, (X, labels.astype(float), weights), np.zeros(X.shape[1], int) if fields is None else fields, lengths


def numbers_of(engine):
    return engine.chain.numbers[:, engine.arrangement.places].astype(float)


def norm_of(X):
    """Return the mean squared norm of the rows that are not 0."""
    squares = (X**2).sum(axis=1)
    return squares[squares > 0].mean()


def run(engine, draw, first=0, stop=None):
    stop = engine.n_factors + 1 if stop is None else stop
    engine.team.run(lambda team: gibbs.sample_factors(engine.design, first, stop, engine.chain, draw, team))


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_draws_what_the_definition_does(name):
    engine, data, fields, lengths = engine_of(name)
    rng, order = np.random.default_rng(2), engine.arrangement.order
    engine.chain.hyper[:] = rng.uniform(0.5, 2, engine.chain.hyper.shape)
    hyper = engine.chain.hyper[0].copy()
    start = numbers_of(engine)
    bias, drawn, t = float(engine.chain.bias[0]), np.zeros_like(start), field_weights_of(name, fields)
    run(engine, Draw(0, 3, 0, 1.7, False, True, 0.0), stop=1)
    step = float(engine.chain.bias[0]) - bias
    mean = (data[2] * (data[1] - naive.fm_scores(data[0], bias, start, t))).sum() / data[2].sum()
    drawn[0] = engine.chain.normals[engine.arrangement.places]
    for f in range(1, engine.n_factors + 1):
        run(engine, Draw(0, 3, 0, 1.7, False, True, 0.0), f, f + 1)
        drawn[f] = engine.chain.normals[engine.arrangement.places]
    expected = naive.gibbs_sweep(
        *data,
        bias,
        start,
        lengths,
        order,
        1.7,
        lambda f, i: hyper[f, fields[i]],
        lambda f, i: (step - mean) * np.sqrt(1.7 * data[2].sum()) if f is None else drawn[f, i],
        t,
    )
    active = np.arange(engine.n_factors + 1)[:, None] <= np.maximum(lengths, 0)
    np.testing.assert_allclose(numbers_of(engine), expected[1] * active, atol=2e-4)
    np.testing.assert_allclose(
        engine.chain.means[:, engine.arrangement.places] * active, expected[2] * active, atol=2e-4
    )
    errors = data[1] - naive.fm_scores(data[0], engine.chain.bias[0], numbers_of(engine), t)
    np.testing.assert_allclose(np.sort(engine.chain.errors), np.sort(errors), atol=2e-4)
    engine.chain.errors[:] = 0
    engine.team.run(lambda team: gibbs.renew_errors(engine.design, engine.design.labels, engine.chain, team))
    np.testing.assert_allclose(np.sort(engine.chain.errors), np.sort(errors), atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_distillation_moves_every_parameter_to_its_best_value(name):
    engine, data, fields, lengths = engine_of(name)
    start, bias = numbers_of(engine), float(engine.chain.bias[0])
    engine.chain.centres[:] = np.random.default_rng(2).normal(size=engine.chain.centres.shape)
    centres = engine.chain.centres[:, engine.arrangement.places].astype(float)
    run(engine, Draw(0, 3, 0, 1.0, False, False, PULL))
    order, none = engine.arrangement.order, lambda f, i: 0.0
    sizes = np.array([norm_of(data[0][:, fields == k]) for k in range(fields.max() + 1)])
    prior, t = lambda f, i: (PULL * sizes[fields[i]], centres[f, i]), field_weights_of(name, fields)
    expected = naive.gibbs_sweep(*data, bias, start, lengths, order, 1.0, prior, none, t)
    np.testing.assert_allclose(numbers_of(engine), expected[1], atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_draws_the_same_bytes(name, monkeypatch):
    monkeypatch.setattr("rafm.plan.design.PART_ROWS", 4)
    monkeypatch.setattr("rafm.plan.design.PART_SHARE", 1)
    found = []
    for threads in (1, 2, 4):
        engine, *_ = engine_of(name, threads)
        assert len(engine.team.teams) == threads
        for sweep in range(5):
            engine.sample(0, engine.n_factors + 1, sweep, True)
        found.append({key: array.tobytes() for key, array in engine.state().items()})
    assert found[0] == found[1] == found[2]


def test_features_of_a_block_never_share_a_row():
    rng = np.random.default_rng(0)
    X = some(rng, 300, 150, 0.5)  # more than 64 blocks
    plan = RankPlan("fm", (1,), (150, 150, 0))
    engine = GibbsEngine(rows_of_matrix(X, np.zeros(300)), plan, None, seed=0, bias=0.0)
    bounds, order = engine.design.bounds, engine.arrangement.order
    assert sorted(order) == list(range(150))
    assert 64 < bounds.size - 1 <= 150
    for first, stop in pairwise(bounds):
        assert (X[:, order[first:stop]] != 0).sum(axis=1).max() <= 1


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_differences_from_the_mean_of_their_field_and_score_the_same(name):
    engine, (X, *_), fields, _ = engine_of(name)
    engine.field_means[0] = np.random.default_rng(5).normal(size=engine.field_means[0].shape)
    found = engine.parameters()
    numbers = numbers_of(engine)
    stored = np.zeros_like(numbers)
    stored[0], start = found.weights, 1
    for block in found.factors:
        stored[start : start + block.shape[1], : len(block)] = block.T
        start += block.shape[1]
    t = field_weights_of(name, fields)
    expected = naive.fm_scores(X, engine.chain.bias[0], numbers, t)
    np.testing.assert_allclose(naive.fm_scores(X, float(found.bias[0]), stored, t), expected, atol=1e-4)
    rows = rows_of_matrix(X, np.zeros(len(X)))
    np.testing.assert_allclose(engine.scorer()(rows), expected, atol=1e-4)
    if name in ("one of each field", "weights", "field weights"):  # a new feature of the first field
        known = X * (fields != 0)
        row = np.concatenate([known, np.ones((len(X), 1))], axis=1)
        more = np.concatenate([numbers, engine.field_means[0][:, :1]], axis=1)
        expected = naive.fm_scores(row, engine.chain.bias[0], more, np.append(t, FIELD_WEIGHTS[0]) if np.ndim(t) else 0)
        np.testing.assert_allclose(naive.fm_scores(known, float(found.bias[0]), stored, t), expected, atol=1e-4)


# Samples of the posterior


def test_weights_with_learned_priors_follow_the_exact_posterior():
    """Given lambda all is Gaussian; over lambda itself the exact answer is integrated numerically."""
    rng, alpha = np.random.default_rng(0), 2.0
    X, weights = np.eye(4)[rng.integers(0, 4, 12)] * rng.uniform(0.5, 2, (12, 1)), rng.uniform(0.5, 2, 12)
    labels = (1 + X @ [1.0, -0.5, 0.8, 0.2] + rng.normal(0, 0.7, 12)).astype(np.float32)
    engine = GibbsEngine(rows_of_matrix(X, labels, weights), RankPlan("lr", (), (4, 0)), None, seed=1, bias=0.0)
    engine.alpha[0], samples = alpha, []
    for sweep in range(20_000):
        engine.sample(0, 1, sweep, False)
        samples.append([engine.chain.bias[0], *engine.chain.numbers[0, engine.arrangement.places]])
    samples = np.array(samples[100:])
    grid = np.exp(np.linspace(-6, 12, 600))
    found, likelihood = [], []
    for precision in grid:
        prior = (np.eye(4) + 1) / precision  # of the weights, with mu integrated out
        K = np.zeros((5, 5))
        K[0, 0], K[1:, 1:] = 1e6, prior
        Z = np.concatenate([np.ones((12, 1)), X], axis=1)
        C = Z @ K @ Z.T + np.diag(1 / (alpha * weights))
        gain = K @ Z.T @ np.linalg.inv(C)
        mean, variance = gain @ labels, np.diag(K - gain @ Z @ K)
        found.append(np.concatenate([mean, variance + mean**2]))
        _, size = np.linalg.slogdet(C)
        scaled = precision / norm_of(X)
        log_prior = 0.5 * np.log(scaled) - 0.5 * 0.004 * scaled  # Gamma(1/2, 4 / 1000 / 2) on a log grid
        likelihood.append(-0.5 * size - 0.5 * labels @ np.linalg.solve(C, labels) + log_prior)
    share = np.exp(np.array(likelihood) - max(likelihood))
    exact = (share / share.sum()) @ np.array(found)
    np.testing.assert_allclose(samples.mean(0), exact[:5], atol=0.03)
    np.testing.assert_allclose((samples**2).mean(0), exact[5:], rtol=0.05, atol=0.02)


def test_products_of_factors_follow_the_exact_posterior():
    alpha, precision, labels = 1.5, 1.0, np.array([0.9, 1.4, 0.2], np.float32)
    rows = rows_of_matrix(np.array([[1.0, 2.0]] * 3), labels)
    engine = GibbsEngine(rows, RankPlan("fm", (1,), (2, 2, 0)), np.array([0, 1]), seed=1, bias=0.0)
    engine.chain.hyper[:, 1, :, 0] = precision
    samples = []
    for sweep in range(20_000):
        run(engine, Draw(sweep, 1, 0, alpha, False, False, 0.0), 1, 2)
        samples.append(engine.chain.numbers[1].astype(float))
    samples = np.array(samples[100:])
    u, v = np.meshgrid(np.linspace(-5, 5, 401), np.linspace(-5, 5, 401))
    log_density = -alpha / 2 * sum((y - 2 * u * v) ** 2 for y in labels.astype(float))
    density = np.exp(log_density - precision / 2 * (u * u + v * v))
    exact = [(density * g).sum() / density.sum() for g in (u * v, u * u, v * v, (u * v) ** 2)]
    a, b = samples.T
    np.testing.assert_allclose(
        [(a * b).mean(), (a * a).mean(), (b * b).mean(), ((a * b) ** 2).mean()], exact, rtol=0.05
    )
