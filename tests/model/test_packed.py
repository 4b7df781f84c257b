"""Codes are packed bit by bit, scales are halves of floats, and a file of few bits is checked like any other."""

import tracemalloc

import numpy as np
import pytest
from fitted import long_tail, make, two_fields
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rafm
from rafm.compress.quantise import quantised
from rafm.errors import ConfigError, ModelFileError, ModelFormatError
from rafm.files.container import read_container, write_container
from rafm.losses import loss_named
from rafm.model.file import Saved, load, save
from rafm.model.model import Model
from rafm.model.packed import BITS, PackedVectors, from_halves, pack_codes, unpack_codes, upper_halves
from rafm.model.parameters import Parameters
from rafm.plan.ranks import RankPlan
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import Numbering

LOSS = loss_named("squared")
FLOATS = st.floats(-(2.0**99), 2.0**99, width=32)


@given(st.data(), st.sampled_from(BITS), st.integers(1, 9), st.integers(1, 20))
def test_codes_are_one_long_number_to_the_base_of_their_range(data, bits, n, rank):
    codes = data.draw(arrays.arrays(np.int64, (n, rank), elements=st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)))
    packed = pack_codes(codes, bits)
    for line, found in zip(codes.tolist(), packed):
        expected = sum((code % (1 << bits)) << (bits * place) for place, code in enumerate(line))
        assert int.from_bytes(found.tobytes(), "little") == expected
    np.testing.assert_array_equal(unpack_codes(packed, rank, bits), codes)


@given(st.lists(FLOATS, min_size=1))
def test_a_half_is_the_nearest_of_its_kind_and_never_below_when_rounded_up(given_numbers):
    numbers = np.array(given_numbers, np.float32)
    near, up = from_halves(upper_halves(numbers)), from_halves(upper_halves(numbers, up=True))
    normal = np.abs(numbers) > 1e-37
    assert (np.abs(near - numbers)[normal] <= np.abs(numbers)[normal] * 2.0**-8).all()
    assert (np.abs(up) >= np.abs(numbers)).all()
    np.testing.assert_array_equal(from_halves(upper_halves(near)), near)


@given(st.sampled_from(BITS), arrays.arrays(np.float32, (5, 7), elements=st.floats(-100, 100, width=32)))
def test_vectors_are_rounded_to_within_half_a_step(bits, vectors):
    """A smaller scale is taken only where it rounds the vector better."""
    found = np.asarray(quantised(vectors, bits))
    steps = np.abs(vectors).max(axis=1) / ((1 << bits - 1) - 1) * (1 + 2.0**-7)
    errors = np.square(found - vectors.astype(float)).sum(axis=1)
    assert (errors <= vectors.shape[1] * np.square(steps / 2) + 1e-12).all()


@pytest.fixture(scope="module")
def model():
    X, y = long_tail()
    return X, make(rank_scale=0.2).fit(X, y)


@pytest.mark.parametrize("bits", BITS)
def test_a_file_of_few_bits_loads_as_it_was_saved(model, bits, tmp_path):
    X, fitted = model
    small = fitted.compress(bits=bits)
    small.save(tmp_path / "m.rafm")
    loaded = rafm.load(tmp_path / "m.rafm")
    assert loaded.model_.parameters.bits == bits
    assert loaded.n_parameters_ == fitted.n_parameters_
    np.testing.assert_array_equal(loaded.predict_proba(X), small.predict_proba(X))
    again = loaded.compress(bits=bits)
    np.testing.assert_array_equal(again.predict_proba(X), small.predict_proba(X))


def test_fewer_bits_are_smaller_and_err_more(model, tmp_path):
    X, fitted = model
    sizes, errors = [], []
    for bits in BITS:
        small = fitted.compress(bits=bits)
        small.save(tmp_path / "m.rafm")
        sizes.append((tmp_path / "m.rafm").stat().st_size)
        errors.append(np.abs(small.decision_function(X) - fitted.decision_function(X)).mean())
    assert sizes == sorted(sizes, reverse=True)
    assert errors == sorted(errors)


def test_what_reads_vectors_reads_those_of_few_bits(model):
    """Explanations add up, and similar features come from the same numbers in floats."""
    X, fitted = model
    small = fitted.compress(bits=8)
    floats = small.model_.as_floats()
    for one, score in zip(small.explain(X[:5]), small.decision_function(X[:5])):
        assert one.bias + sum(term.value for term in one.terms) == pytest.approx(score, abs=1e-4)
    parts = zip(small.model_.parameters.factors, floats.parameters.factors)
    assert all((np.asarray(packed) == plain).all() for packed, plain in parts)
    assert len(small.vectors(X[:5], "item")) == 5


def test_training_goes_on_in_floats(model):
    X, fitted = model
    small = fitted.compress(bits=8)
    small.partial_fit(X, long_tail()[1])
    assert small.model_.parameters.bits is None


def test_a_mixture_and_odd_numbers_of_bits_are_refused(model):
    with pytest.raises(ConfigError, match="bits must be one of 16, 8, 6, 4, found 5"):
        model[1].compress(bits=5)
    with pytest.raises(ConfigError, match="model 'mrma' cannot be quantised"):
        make(model="mrma").fit(*two_fields()[0]).compress(bits=8)


CHANGES = {
    "another number of bits": (lambda header, tensors: header.update(bits=6), "tensor 'codes.2' must have shape"),
    "no number of bits": (lambda header, tensors: header.update(bits="8"), "invalid header field 'bits'"),
    "a list of bits": (lambda header, tensors: header.update(bits=[8]), "invalid header field 'bits'"),
    "an infinite scale": (lambda header, tensors: tensors["scales.2"].fill(0x7F), None),
    "a NaN scale": (lambda header, tensors: tensors["scales.2"].fill(0xFF), "'scales.2' must hold finite numbers"),
    "a negative scale": (lambda header, tensors: tensors["scales.1"].fill(0x80), "scales must be at least 0"),
    "a weight that is no number": (lambda header, tensors: tensors["weights"].fill(0xFF), "'weights' must hold finite"),
    "no scales": (lambda header, tensors: tensors.pop("scales.3"), "tensor 'scales.3' is missing"),
    "vectors of both kinds": (
        lambda header, tensors: tensors.update({"factors.1": np.zeros((3, 2), np.float32)}),
        "unexpected tensor 'factors.1'",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_does_not_fit_is_refused(change, message, model, tmp_path):
    path = tmp_path / "m.rafm"
    model[1].compress(bits=8).save(path)
    header, tensors = read_container(path)
    change(header, tensors)
    write_container(path, tensors, header)
    if message is None:  # 0x7F7F is large, but finite
        assert load(path).model.parameters.bits == 8
        return
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert isinstance(caught.value, ModelFormatError)


def test_a_packed_model_is_never_expanded(tmp_path):
    """40,000 vectors of rank 256 take 41 MB in floats and 5 MB in 4 bits."""
    n, rank, rng = 40_000, 256, np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, rank // 2), np.uint8)
    block = PackedVectors(codes, upper_halves(np.full(n, 0.01, np.float32)), rank, 4)
    parameters = Parameters(np.zeros(1, np.float32), np.zeros(n, np.float32), [block], bits=4)
    plan, numbering = RankPlan("fm", (rank,), (n, n, 0)), Numbering(np.arange(n), n)
    save(tmp_path / "m.rafm", Saved(Model(plan, numbering, np.ones(n, np.int64), LOSS, parameters, n_rows=1)))
    rows = check_batch(Batch(np.array([0, 2]), np.array([3, 39_999]), np.ones(2), n))
    tracemalloc.start()
    try:
        found = load(tmp_path / "m.rafm").model.scores(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    vectors = unpack_codes(codes[[3, -1]], rank, 4) * block.scales()[:1]
    assert found[0] == pytest.approx(float(vectors[0] @ vectors[1]), rel=1e-5)
    assert peak < 4 * n * rank / 2
