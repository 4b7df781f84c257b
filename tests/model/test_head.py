"""Heads: accounts and outputs against their definition, gradients, the rule of acceptance, files."""

import json
from dataclasses import replace

import naive
import numpy as np
import pytest
from models import by_id, model_of, random_head
from worlds import make_world

from rafm.compress.quantise import quantise
from rafm.errors import ConfigError, ModelFormatError
from rafm.files.container import read_container, write_container
from rafm.kernels.head import LIMIT
from rafm.losses import loss_named
from rafm.model.file import Saved, load, save
from rafm.model.head import MOST_PAIRED_FIELDS, input_names, n_inputs
from rafm.options import resolve
from rafm.train.head import Accounts, fit_network, gradients, outputs, try_heads
from rafm.train.head_policy import HeadShape

KINDS = {  # family, ranks, levels, number of fields
    "rafm": ("rafm", (3, 5, 70), [3, 3, 3, 2, 2, 1, 1, 0, 0], 3),
    "fm": ("fm", (17,), [1] * 9, 4),
    "difacto": ("difacto", (1, 5, 9), [3, 3, 2, 2, 1, 1, 0], 2),
    "ffm": ("ffm", (6,), [1] * 8, 3),
    "many fields": ("fm", (4,), [1] * 30, MOST_PAIRED_FIELDS + 1),
}


def random_rows(rng, n_features, n_rows=40, longest=7):
    sizes = rng.integers(0, min(longest, n_features) + 1, n_rows)
    return [(np.sort(rng.choice(n_features, size, replace=False)), rng.normal(1, 0.5, size)) for size in sizes]


def with_head(kind, seed=0):
    """Return a world, its rows, and its model with a head."""
    rng, (family, ranks, levels, n_fields) = np.random.default_rng(seed), KINDS[kind]
    world = make_world(family, ranks, levels, seed=seed, n_fields=n_fields)
    return world, random_rows(rng, len(levels)), replace(model_of(world), head=random_head(rng, n_fields))


def expected(world, rows, model):
    network = model.head.network._asdict()
    accounts = [naive.account(world.model, row, model.counts, model.head.n_fields) for row in rows]
    return [naive.score(world.model, row) + naive.network_output(network, a) for row, a in zip(rows, accounts)]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_with_a_head_match_the_definition(kind):
    for seed in range(3):
        world, rows, model = with_head(kind, seed)
        np.testing.assert_allclose(model.scores(by_id(model, rows)), expected(world, rows, model), rtol=2e-4, atol=2e-4)


def test_names_of_inputs_are_as_many_as_inputs():
    for n in (2, 5, MOST_PAIRED_FIELDS, MOST_PAIRED_FIELDS + 1):
        names = input_names(tuple(f"f{k}" for k in range(n)))
        assert len(names) == n_inputs(n) == len(set(names))


def test_a_row_has_the_same_score_alone_and_among_others():
    _, rows, model = with_head("rafm")
    together = model.scores(by_id(model, rows))
    alone = [model.scores(by_id(model, [row]))[0] for row in rows]
    assert together.tolist() == pytest.approx(alone, rel=1e-6, abs=1e-6)
    assert together.tobytes() == model.scores(by_id(model, rows), threads=3).tobytes()


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_packed_models_score_like_their_vectors_as_floats(bits):
    _, rows, model = with_head("rafm")
    packed = quantise(model, bits)
    assert packed.head is model.head
    batch = by_id(model, rows)
    np.testing.assert_allclose(packed.scores(batch), packed.as_floats().scores(batch), rtol=1e-4, atol=1e-4)


def test_levels_leave_the_head_out():
    _, rows, model = with_head("rafm")
    batch = by_id(model, rows)
    assert model.scores(batch, level=3).tolist() == replace(model, head=None).scores(batch).tolist()


def test_features_of_later_fields_add_to_the_score_but_not_to_other_inputs():
    world, rows, model = with_head("fm")
    model, expected = replace(model, head=random_head(np.random.default_rng(1), 2)), []
    for ids, values in rows:
        known = np.array([world.model["fields"][i] < 2 for i in ids], bool)
        taken = naive.account(world.model, (ids[known], values[known]), model.counts, 2)
        taken[0] = naive.score(world.model, (ids, values))
        expected.append(taken[0] + naive.network_output(model.head.network._asdict(), taken))
    np.testing.assert_allclose(model.scores(by_id(model, rows)), expected, rtol=2e-4, atol=2e-4)


# ---- Fitting


def drawn_accounts(rng, n=4000, gain=1.0):
    """Return rows whose log odds need a product of two inputs that the score lacks; 200 groups."""
    inputs = rng.normal(0, 1, (n, 6)).astype(np.float32)
    odds = inputs[:, 0] + gain * np.abs(inputs[:, 1])
    labels = (rng.logistic(size=n) < odds).astype(np.float32)
    return Accounts(inputs, labels, np.ones(n, np.float32), rng.integers(0, 200, n))


@pytest.mark.parametrize("name", ["log", "squared", "poisson", "huber"])
def test_gradients_match_finite_differences(name):
    rng, loss = np.random.default_rng(0), loss_named(name)
    inputs, scores = rng.normal(0, 1, (7, 3)), rng.normal(0, 1, 7)
    labels, weights = rng.uniform(0, 1, 7), rng.uniform(0.5, 2, 7)
    parameters = [rng.normal(0, 1, shape) for shape in ((3, 4), (4,), (4,), (1,))]

    def mean_loss():
        hidden, hidden_bias, output, bias = parameters
        added = scores + np.maximum(inputs @ hidden + hidden_bias, 0) @ output + bias[0]
        each = [naive.loss({"log": "logistic"}.get(name, name), s, y) for s, y in zip(added, labels)]
        return float(weights @ each) / 7

    found = gradients(parameters, inputs, scores, labels, weights, loss.slopes)
    for array, gradient in zip(parameters, found):
        wanted = naive.derivative(mean_loss, array.reshape(-1))  # a view, so that its changes count
        np.testing.assert_allclose(gradient.reshape(-1), wanted, rtol=1e-4, atol=1e-6)


def test_a_fitted_network_adds_in_kernels_what_it_added_in_fitting():
    from rafm.kernels.head import add_network

    accounts = drawn_accounts(np.random.default_rng(2))
    network = fit_network(accounts, HeadShape(16, 2), loss_named("log"), 0)
    scores = np.zeros(accounts.labels.size, np.float32)
    add_network(network, accounts.inputs, np.empty(16, np.float32), scores)
    np.testing.assert_allclose(scores, outputs(network, accounts.inputs), rtol=1e-4, atol=1e-5)


def test_large_ratings_are_fitted_like_small_ones():
    rng = np.random.default_rng(3)
    small = replace_labels(drawn_accounts(rng), lambda inputs: inputs[:, 0] + np.abs(inputs[:, 1]))
    factor = np.float32(4096)
    large = Accounts(small.inputs * factor, small.labels * factor, small.weights, small.groups)
    loss, shape = loss_named("squared"), HeadShape(16, 5)
    one, other = (fit_network(accounts, shape, loss, 0) for accounts in (small, large))
    np.testing.assert_allclose(outputs(other, large.inputs) / factor, outputs(one, small.inputs), rtol=1e-3, atol=1e-3)


def replace_labels(accounts, label):
    return replace(accounts, labels=label(accounts.inputs).astype(np.float32))


def test_constant_inputs_have_no_effect():
    accounts = drawn_accounts(np.random.default_rng(4), n=600)
    accounts.inputs[:, 4] = 3
    network = fit_network(accounts, HeadShape(16, 1), loss_named("log"), 0)
    other = accounts.inputs.copy()
    other[:, 4] = 1e6
    assert network.scales[4] == 0
    assert outputs(network, other).tobytes() == outputs(network, accounts.inputs).tobytes()


def test_inputs_far_away_are_clipped():
    accounts = drawn_accounts(np.random.default_rng(5), n=600)
    network = fit_network(accounts, HeadShape(16, 1), loss_named("log"), 0)
    far = network.means + 1e9 * (network.scales > 0)
    near = network.means + LIMIT / np.where(network.scales > 0, network.scales, 1)
    np.testing.assert_allclose(outputs(network, far[None]), outputs(network, near[None]), rtol=1e-4)


@pytest.mark.parametrize(("gain", "helps"), [(1.0, True), (0.0, False)])
def test_only_heads_that_gain_more_than_luck_are_taken(gain, helps):
    from rafm.train.head_policy import is_clear_gain

    accounts = drawn_accounts(np.random.default_rng(6), gain=gain)
    trials = [*try_heads(accounts, loss_named("log"), 0)]
    assert any(is_clear_gain(trial.gain, trial.error) for trial in trials) == helps


def test_folds_hold_all_rows_of_a_value():
    """A network that remembers a value gains on rows of its value only, which folds of values must not promise."""
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 40, 4000)
    effect, marks = rng.normal(0, 3, 40), rng.normal(0, 1, (40, 8))
    inputs = np.concatenate([np.zeros((4000, 1)), marks[groups]], axis=1).astype(np.float32)
    labels = (rng.logistic(size=4000) < effect[groups]).astype(np.float32)
    by_value = Accounts(inputs, labels, np.ones(4000, np.float32), groups)
    by_row = replace(by_value, groups=np.arange(4000))
    (*_, careful), (*_, hasty) = (list(try_heads(accounts, loss_named("log"), 0)) for accounts in (by_value, by_row))
    assert careful.gain < 0.2 * hasty.gain


# ---- Options and files


@pytest.mark.parametrize("wrong", [0, 1.5, -3, 5000, "on", None])
def test_wrong_units_are_refused(wrong):
    with pytest.raises(ConfigError, match="head must be 'auto', 'off' or a whole number from 1 to 4096"):
        resolve(task="binary", head=wrong)


@pytest.mark.parametrize("model", ["lr", "mrma"])
def test_families_without_pairs_of_fields_refuse_a_head(model):
    with pytest.raises(ConfigError, match=f"model '{model}' has no head"):
        resolve(task="binary", model=model, head=16)
    assert resolve(task="binary", model=model).head == "auto"


def test_a_model_with_a_head_is_read_back(tmp_path):
    _, rows, model = with_head("rafm")
    save(tmp_path / "m.rafm", Saved(model))
    found = load(tmp_path / "m.rafm").model
    assert found.head.n_fields == model.head.n_fields
    assert found.n_parameters == model.n_parameters == model.plan.n_parameters + model.head.n_parameters
    batch = by_id(model, rows)
    assert found.scores(batch).tobytes() == model.scores(batch).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda header, tensors: header["head"].update(n_fields=4),
        lambda header, tensors: header["head"].update(n_fields=True),
        lambda header, tensors: header.update(head=3),
        lambda header, tensors: tensors.pop("head.hidden"),
        lambda header, tensors: tensors.update({"head.means": tensors["head.means"][1:]}),
        lambda header, tensors: tensors.update({"head.output": tensors["head.output"][:, None]}),
        lambda header, tensors: header.pop("head"),
    ],
)
def test_a_head_that_does_not_fit_its_model_is_refused(tmp_path, change):
    _, _, model = with_head("rafm")
    save(tmp_path / "m.rafm", Saved(model))
    header, tensors = read_container(tmp_path / "m.rafm")
    header = json.loads(json.dumps(header))
    change(header, tensors)
    write_container(tmp_path / "other.rafm", {name: np.ascontiguousarray(one) for name, one in tensors.items()}, header)
    with pytest.raises(ModelFormatError):
        load(tmp_path / "other.rafm")
