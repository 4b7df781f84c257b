"""Explicit vectors do what their plain twins do, and an edit of their file reaches the kernels that use them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit
from worlds import run_python

import rafm
from rafm.jit import vectors
from rafm.jit.compile import PLAIN

SIZES = range(4, 204, 4)
PRECISIONS = (np.float32, np.float64)


@njit
def add_listed(records, places, q, values, e, count, shift, sums, j, n):
    return vectors.add_listed(records, places, q, values, e, count, shift, sums, j, n)


@njit
def sum_listed(records, places, q, values, e, count, shift, sums, j, n):
    return vectors.sum_listed(records, places, q, values, e, count, shift, sums, j, n)


@njit
def add_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    return vectors.add_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n)


@njit
def sum_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    return vectors.sum_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n)


@njit
def pair_more(records, places, q, values, e, count, shift, sums, j, n):
    return vectors.pair_more(records, places, q, values, e, count, shift, sums, j, n)


@njit
def pair_listed(records, places, q, values, e, count, shift, sums, j, n):
    return vectors.pair_listed(records, places, q, values, e, count, shift, sums, j, n)


@njit
def pair_more_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    return vectors.pair_more_twice(records, places, q, values, e, others, count, shift, sums, j, k, n)


@njit
def pair_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    return vectors.pair_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n)


@njit
def direct(out, sums, j, k, vector, o, n, w, y, c, d):
    return vectors.direct(out, sums, j, k, vector, o, n, w, y, c, d)


@njit
def add_direction(heads, h, sums, j, k, vector, o, n, w, y, c):
    return vectors.add_direction(heads, h, sums, j, k, vector, o, n, w, y, c)


@njit
def join_twice(left, i, right, j, sums, k, n, apart):
    return vectors.join_twice(left, i, right, j, sums, k, n, apart)


@njit
def inner(left, i, right, j, n):
    return vectors.inner(left, i, right, j, n)


@njit
def copy(left, i, right, j, n):
    vectors.copy(left, i, right, j, n)


@njit
def join(left, i, right, j, sums, k, n):
    return vectors.join(left, i, right, j, sums, k, n)


@njit
def exp_neg_abs(scores, i, exps, j, logs, k, n):
    vectors.exp_neg_abs(scores, i, exps, j, logs, k, n)


@njit
def count_below(array, n, number):
    return vectors.count_below(array, n, number)


@njit
def combined_norm(left, i, right, j, n, c, d):
    return vectors.combined_norm(left, i, right, j, n, c, d)


@njit
def combine(left, i, right, j, n, c, d):
    vectors.combine(left, i, right, j, n, c, d)


@njit
def spread(records, o, shifts, count, x, sums, j, n):
    vectors.spread(records, o, shifts, count, x, sums, j, n, n)


@njit
def add_spread(records, o, shifts, count, x, sums, j, n):
    vectors.add_spread(records, o, shifts, count, x, sums, j, n, n)


@njit
def strided_products(array, i, j, left_stride, right_stride, count, n):
    return vectors.strided_products(array, i, j, left_stride, right_stride, count, n)


@njit
def add_gradients(heads, h, records, o, shifts, first, count, sums, j, stride, c, d, n):
    vectors.add_gradients(heads, h, records, o, shifts, first, count, sums, j, stride, c, d, n)


@njit
def adagrad_steps(records, o, shifts, states, first, count, sums, j, stride, c, d, share, rate, n):
    vectors.adagrad_steps(records, o, shifts, states, first, count, sums, j, stride, c, d, share, rate, n)


@pytest.fixture(params=PRECISIONS)
def draw(request):
    """Return a function that yields, for every size, places that are seldom aligned, two arrays, and two scalars."""
    rng = np.random.default_rng(0)

    def cases():
        for size in SIZES:
            for i, j in ((0, 0), (1, 3), (2, 5), (7, 4)):
                left, right = rng.normal(size=(2, size + 16)).astype(request.param)
                c, d = rng.normal(size=2).astype(request.param)
                yield size, i, j, left, right, c, d

    return cases


def assert_close(found, expected, size):
    """Compare within 8 roundings of the size of the terms: lanes are added in any order, with products fused or not."""
    assert np.all(np.abs(found - expected) <= 8 * np.finfo(size.dtype).eps * size)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_add_listed_adds_listed_vectors_and_returns_their_squared_norms(draw, count):
    rng = np.random.default_rng(0)
    for size, i, j, _, sums, _, _ in draw():
        records, values = (rng.normal(size=n).astype(sums.dtype) for n in (5 * size + 16, 3 + count))
        places = np.concatenate([[-9, -9], rng.integers(0, 4 * size, count)])
        vectors_ = [values[3 + k] * records[place + i :][:size].astype(float) for k, place in enumerate(places[2:])]
        expected, terms = sums.astype(float), np.full(sums.size, 4.0)
        expected[j : j + size] += sum(vectors_, np.zeros(size))
        terms[j : j + size] += sum(map(abs, vectors_), np.zeros(size))
        squares, before = sum(vector @ vector for vector in vectors_), records.copy()
        norm = add_listed(records, places, 2, values, 3, count, i, sums, j, size)
        assert_close(sums, expected, terms.astype(sums.dtype))
        assert_close(norm, squares, sums.dtype.type(squares))
        np.testing.assert_array_equal(records, before)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_sum_listed_forgets_what_was_there_and_sums_as_add_listed_does(draw, count):
    rng = np.random.default_rng(0)
    for size, i, j, _, found, _, _ in draw():
        records, values = (rng.normal(size=n).astype(found.dtype) for n in (5 * size + 16, 3 + count))
        places, expected = np.concatenate([[-9, -9], rng.integers(0, 4 * size, count)]), found.copy()
        expected[j : j + size], found[j : j + size] = 0, np.nan
        norm = add_listed(records, places, 2, values, 3, count, i, expected, j, size)
        assert sum_listed(records, places, 2, values, 3, count, i, found, j, size) == pytest.approx(norm, rel=1e-5)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_vectors_listed_twice_are_summed_with_both_values(draw, count):
    """Against add_listed with either values; the norms are those of the first less those of the second."""
    rng = np.random.default_rng(0)
    for size, i, j, _, _, _, _ in draw():
        found = rng.normal(size=2 * size + 20).astype(np.float64)
        records, values = (rng.normal(size=n) for n in (5 * size + 16, 3 + count))
        others, k = rng.normal(size=2 + count), j + size + 3
        places, expected = np.concatenate([[-9, -9], rng.integers(0, 4 * size, count)]), found.copy()
        norm = add_listed(records, places, 2, values, 3, count, i, expected, j, size)
        norm -= add_listed(records, places, 2, others, 2, count, i, expected, k, size)
        again = found.copy()
        given = (records, places, 2, values, 3, others, count, i)
        assert add_listed_twice(*given, found, j, k, size) == pytest.approx(norm, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        expected[j : j + size] -= again[j : j + size]
        expected[k : k + size] -= again[k : k + size]
        again[j : j + size] = again[k : k + size] = np.nan
        assert sum_listed_twice(*given, again, j, k, size) == pytest.approx(norm, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(again, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_pairs_of_listed_vectors_are_their_products_with_the_sums_before_them(draw, count):
    rng = np.random.default_rng(0)
    for size, i, j, _, sums, _, _ in draw():
        records, values = (rng.normal(size=n).astype(sums.dtype) for n in (5 * size + 16, 3 + count))
        places = np.concatenate([[-9, -9], rng.integers(0, 4 * size, count)])
        listed = [values[3 + k] * records[place + i :][:size].astype(float) for k, place in enumerate(places[2:])]
        for function, start in ((pair_more, sums[j : j + size].astype(float)), (pair_listed, np.zeros(size))):
            found, total, terms = sums.copy(), start.copy(), 0.0
            expected = 0.0
            for vector in listed:
                expected, terms = expected + total @ vector, terms + abs(total) @ abs(vector)
                total += vector
            pairs = function(records, places, 2, values, 3, count, i, found, j, size)
            assert abs(pairs - expected) <= 8 * np.finfo(sums.dtype).eps * terms
            np.testing.assert_allclose(found[j : j + size], total, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(np.delete(found, range(j, j + size)), np.delete(sums, range(j, j + size)))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_pairs_with_field_weights_count_one_less_the_product_of_both(count):
    rng = np.random.default_rng(count)
    for size in SIZES:
        records, x = rng.normal(size=5 * size + 16), rng.normal(size=3 + count)
        t = rng.choice([0.0, 1.0, *rng.random(2)], 3 + count)
        places = np.concatenate([[-9, -9], rng.integers(0, 4 * size, count)])
        listed = np.array([records[place + 5 :][:size] for place in places[2:]]).reshape(count, size)
        products = np.outer(x[3:], x[3:]) * (listed @ listed.T) * (1 - np.outer(t[3:], t[3:]))
        y, sums = np.concatenate([[9, 9], ((1 - t) * x)[3:]]), np.full(2 * size + 9, np.nan)
        first, rest = count // 2, count - count // 2
        before = pair_listed_twice(records, places, 2, x, 3, y, first, 5, sums, 1, size + 4, size)
        after = pair_more_twice(records, places, 2 + first, x, 3 + first, y, rest, 5, sums, 1, size + 4, size)
        assert before == pytest.approx(np.triu(products, 1)[:first, :first].sum(), abs=1e-12 * size)
        assert before + after == pytest.approx(np.triu(products, 1).sum(), abs=1e-12 * size)
        np.testing.assert_allclose(sums[1 : 1 + size], x[3:] @ listed, atol=1e-12)
        np.testing.assert_allclose(sums[size + 4 : 2 * size + 4], ((1 - t) * x)[3:] @ listed, atol=1e-12)


def test_directions_are_set_or_added_and_their_product_with_what_is_left_and_their_norm_returned(draw):
    for size, i, j, left, right, c, d in draw():
        sums, out = np.concatenate([left, right]), np.full(size + 4, 7, left.dtype)
        first, second, own = (
            left[i:][:size].astype(float),
            right[j:][:size].astype(float),
            left[j:][:size].astype(float),
        )
        direction, bound = first - c * second, abs(first) + abs(c * second) + 1
        product, terms = own @ (second - d * own), (abs(own * second) + abs(d * own * own)).sum()
        w, y, b, e = c, d, left.dtype.type(0.75), left.dtype.type(-1.5)
        found, square = direct(out, sums, i, left.size + j, left, j, size, w, y, b, e)
        assert_close(out[:size], direction, bound.astype(left.dtype))
        assert_close(found, product, left.dtype.type(terms))
        assert_close(
            square, ((b * direction + e * own) ** 2).sum(), left.dtype.type(((bound + 2 * abs(own)) ** 2).sum())
        )
        assert (out[size:] == 7).all()
        heads = np.full(size + 4, 7, left.dtype)
        assert_close(
            add_direction(heads, 0, sums, i, left.size + j, left, j, size, w, y, b), product, left.dtype.type(terms)
        )
        assert_close(heads[:size], 7 + b * direction, (7 + bound).astype(left.dtype))
        assert (heads[size:] == 7).all()
        product = inner(left, i, right, j, size)
        assert_close(product, first @ second, left.dtype.type(abs(first * second).sum()))


def test_copy_sets_the_left_side_alone(draw):
    for size, i, j, left, right, _, _ in draw():
        expected, before = left.copy(), right.copy()
        expected[i : i + size], left[i : i + size] = right[j : j + size], np.nan
        copy(left, i, right, j, size)
        np.testing.assert_array_equal((left, right), (expected, before))


def test_join_adds_two_sides_up_and_returns_the_squared_norm(draw):
    for size, i, j, left, right, _, _ in draw():
        sums, before = np.full(size + 8, 7, left.dtype), (left.copy(), right.copy())
        norm = join(left, i, right, j, sums, 4, size)
        np.testing.assert_array_equal(sums[4:-4], left[i : i + size] + right[j : j + size])
        assert_close(norm, sums[4:-4].astype(float) @ sums[4:-4], left.dtype.type(norm))
        assert (np.r_[sums[:4], sums[-4:]] == 7).all()
        np.testing.assert_array_equal((left, right), before)


def test_joining_twice_is_joining_at_both_places(draw):
    for size, i, j, left, right, _, _ in draw():
        apart, expected = left.size, np.full(2 * left.size, 7, left.dtype)
        lefts, rights = np.concatenate([left, 2 * right]), np.concatenate([right, left])
        found = expected.copy()
        norms = [join(lefts, i + at, rights, j + at, expected, 4 + at, size) for at in (0, apart)]
        assert join_twice(lefts, i, rights, j, found, 4, size, apart) == tuple(norms)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_exp_neg_abs_is_the_exponential_and_the_logarithm_to_the_last_bits(precision):
    scores = np.concatenate([np.linspace(-87, 87, 1801), np.linspace(-1, 1, 1999)]).astype(precision)
    exps, logs = np.full((2, scores.size + 8), 7, precision)
    exp_neg_abs(scores, 0, exps, 4, logs, 4, scores.size)
    expected = np.exp(-abs(scores.astype(float)))
    np.testing.assert_allclose(exps[4:-4], expected, rtol=2 * np.finfo(precision).eps)
    np.testing.assert_allclose(logs[4:-4], np.log1p(expected), rtol=3 * np.finfo(precision).eps, atol=1e-15)
    assert (np.r_[exps[:4], exps[-4:], logs[:4], logs[-4:]] == 7).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fade_of_infinite_scores_vanishes_and_what_is_not_a_number_stays_so(precision):
    scores, exps, logs = np.array([[np.inf, -np.inf, np.nan, 1e30], *np.zeros((2, 4))], precision)
    exp_neg_abs(scores, 0, exps, 0, logs, 0, 4)
    assert np.isnan([exps[2], logs[2]]).all()
    np.testing.assert_allclose([exps[[0, 1, 3]], logs[[0, 1, 3]]], 0, atol=1e-37)


def test_combined_norm_is_the_squared_norm_of_the_combination(draw):
    for size, i, j, left, right, c, d in draw():
        before = left.copy(), right.copy()
        combination = c * left[i : i + size].astype(float) + d * right[j : j + size].astype(float)
        norm = combined_norm(left, i, right, j, size, c, d)
        terms = abs(c * left[i : i + size]) + abs(d * right[j : j + size])
        assert_close(norm, combination @ combination, terms @ terms)
        np.testing.assert_array_equal((left, right), before)


def test_combine_replaces_the_left_side_alone(draw):
    for size, i, j, left, right, c, d in draw():
        expected, before = left.astype(float), right.copy()
        expected[i : i + size] = c * expected[i : i + size] + d * right[j : j + size].astype(float)
        combine(left, i, right, j, size, c, d)
        assert_close(left, expected, np.full_like(left, 4 * (abs(c) + abs(d) + 1)))
        np.testing.assert_array_equal(right, before)


LISTED = 5  # vectors of a record, of which some are listed
FIELD_SIZES = (4, 8, 12, 16, 20, 36)


def record_of(size):
    """Return a record of LISTED states and vectors, in float64, and where they are; vectors are not in order."""
    record = np.random.default_rng(size).uniform(1, 2, LISTED + LISTED * size + 3)
    return record, LISTED + size * np.array([3, 0, 4, 1, 2]), np.arange(LISTED)[::-1].copy()


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("size", FIELD_SIZES)
def test_spread_puts_listed_vectors_side_by_side(size, count):
    record, shifts, _ = record_of(size)
    for function, share in ((spread, 0), (add_spread, 1)):
        found = np.full(LISTED * size + 2, 7.0)
        expected = found.copy()
        for k in range(count):
            place = slice(1 + k * size, 1 + (k + 1) * size)
            expected[place] = share * expected[place] + 0.5 * record[2 + shifts[k] :][:size]
        function(record, 2, shifts, count, 0.5, found, 1, size)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("size", FIELD_SIZES)
def test_strided_products_add_up_over_pairs_of_vectors(size, count):
    array = np.random.default_rng(0).normal(size=40 * size)
    pairs = ((array[3 + k * size :][:size], array[7 + k * 4 * size :][:size]) for k in range(count))
    found = strided_products(array, 3, 7, size, 4 * size, count, size)
    assert found == pytest.approx(sum(left @ right for left, right in pairs), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("size", FIELD_SIZES)
def test_listed_gradients_are_added_and_stepped_along(size):
    """Vectors first = 1 to 3 of the list, along c * sums + d * vector."""
    record, shifts, states = record_of(size)
    sums = np.random.default_rng(1).normal(size=LISTED * 2 * size)
    heads, stepped, (c, d, share, rate) = np.zeros(record.size), record.copy(), (0.7, -0.2, 1 / size, 0.3)
    add_gradients(heads, 0, record, 0, shifts, 1, 3, sums, 2, 2 * size - 1, c, d, size)
    adagrad_steps(stepped, 0, shifts, states, 1, 3, sums, 2, 2 * size - 1, c, d, share, rate, size)
    expected_heads, expected = np.zeros(record.size), record.copy()
    for k in range(1, 4):
        place = slice(shifts[k], shifts[k] + size)
        gradient = c * sums[2 + k * (2 * size - 1) :][:size] + d * record[place]
        expected_heads[place] = gradient
        expected[states[k]] += share * gradient @ gradient
        expected[place] -= rate / np.sqrt(expected[states[k]]) * gradient
    np.testing.assert_allclose(heads, expected_heads, rtol=1e-12)
    np.testing.assert_allclose(stepped, expected, rtol=1e-12)


def test_no_elements_means_no_change_and_a_norm_of_zero():
    left, right = np.ones(4, np.float32), np.ones(4, np.float32)
    one = np.float32(1)
    assert add_listed(left, np.zeros(1, int), 0, left, 0, 1, 0, right, 0, 0) == 0
    assert combined_norm(left, 0, right, 0, 0, one, one) == 0
    combine(left, 0, right, 0, 0, one, one)
    assert (left == 1).all()
    assert (right == 1).all()


@pytest.mark.parametrize("size", [0, 16, 48, 256])
def test_count_below_counts_what_is_less(size):
    numbers = np.random.default_rng(0).integers(-20, 20, size + 16).astype(np.int32)
    numbers[:2] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    for number in (np.iinfo(np.int32).min, -20, 0, 7, np.iinfo(np.int32).max):
        assert count_below(numbers, size, np.int32(number)) == (numbers[:size] < number).sum()


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
def test_numbers_that_are_not_finite_stay_visible(bad):
    """Fast arithmetic must not assume them away: divergence is detected by them."""
    left, right = np.ones(36, np.float32), np.ones(36, np.float32)
    left[33] = bad
    assert not np.isfinite(combined_norm(left, 0, right, 0, 36, np.float32(1), np.float32(1)))
    assert not np.isfinite(add_listed(left, np.zeros(1, int), 0, left, 0, 1, 0, right, 0, 36))
    assert np.flatnonzero(~np.isfinite(right)).tolist() == [33]


@pytest.mark.skipif(not PLAIN, reason="bounds are not checked; run with NUMBA_BOUNDSCHECK=1")
def test_operations_notice_an_index_out_of_bounds():
    assert config.BOUNDSCHECK or config.DISABLE_JIT
    with pytest.raises(IndexError):
        combined_norm(np.ones(7), 0, np.ones(8), 0, 8, 1.0, 0.0)


NORM = """
import numpy as np
from rafm.jit.compile import entry
from rafm.jit.vectors import combined_norm

@entry
def call(sums):
    return combined_norm(sums, 0, sums, 0, 8, np.float32(1), np.float32(0))

print(call(np.ones(8, np.float32)), sum(call.stats.cache_hits.values()))
"""


def test_an_edit_of_this_file_is_noticed_by_the_disk_cache(tmp_path):
    package = tmp_path / "rafm"
    shutil.copytree(Path(rafm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    (tmp_path / "calling.py").write_text(NORM)

    def run():
        return run_python(tmp_path / "calling.py", path=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split()

    assert run() == ["8.0", "0"]  # that the next run reads it from the cache: see test_cache.py
    source = (package / "jit" / "vectors.py").read_text()
    edited = source.replace("gradient = o.at(left, i).get() * c", "gradient = o.at(left, i).get() * d")
    assert edited != source
    (package / "jit" / "vectors.py").write_text(edited)
    assert run() == ["0.0", "0"]


@njit
def zeros_below(word):
    return vectors.trailing_zeros(word)


def test_trailing_zeros_counts_the_bits_below_the_lowest_one():
    for lowest in range(64):
        assert zeros_below(np.uint64(1 << lowest)) == lowest
        assert zeros_below(np.uint64(2**64 - (1 << lowest))) == lowest


def test_a_word_without_ones_has_64_trailing_zeros():
    assert zeros_below(np.uint64(0)) == 64


@njit
def sum_gradients(sums, places, shift, cs, ds, count, vector, o, out, n):
    return vectors.sum_gradients(sums, places, shift, cs, ds, count, vector, o, out, n)


@njit
def sum_weighted_gradients(sums, places, shift, other, w, cs, ds, count, vector, o, out, n):
    return vectors.sum_weighted_gradients(sums, places, shift, other, w, cs, ds, count, vector, o, out, n)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_gradients_are_summed_over_listed_rows(count):
    rng = np.random.default_rng(count)
    sums, vector = rng.normal(size=(2, 3000)).astype(np.float32)
    places, (cs, ds) = rng.integers(0, 2000, 9), rng.normal(size=(2, 9)).astype(np.float32)
    for n in (4, 8, 12, 64, 100, 200):
        out, w = np.full(n + 1, 7, np.float32), np.float32(0.3)
        rows, others = (np.array([sums[place + at :][:n] for place in places[:count]], float) for at in (5, 500))
        rows, others = rows.reshape(count, n), others.reshape(count, n)
        own = ds[:count, None] * vector[9 : 9 + n].astype(float)
        z = cs[:count, None] * rows + own
        found = sum_gradients(sums, places, 5, cs, ds, count, vector, 9, out, n)
        np.testing.assert_allclose(found, (z**2).sum(), rtol=1e-5)
        np.testing.assert_allclose(out, [*z.sum(axis=0), 7], rtol=1e-4, atol=1e-5)
        z = cs[:count, None] * (rows - w * others) + own
        found = sum_weighted_gradients(sums, places, 5, 500, w, cs, ds, count, vector, 9, out, n)
        product = (cs[:count] @ others) @ vector[9 : 9 + n]
        np.testing.assert_allclose(found, [(z**2).sum(), product], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(out, [*z.sum(axis=0), 7], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [None, ""], ids=["of this processor", "of any processor"])
def test_halves_of_bytes_are_summed_and_paired_as_their_numbers(features, monkeypatch):
    pair_more_halves(*halves(16, 1)[:-1])  # first: the compiler is set up for this processor once
    if features is not None:
        monkeypatch.setattr(config, "CPU_FEATURES", features)

    @njit
    def pair(records, codes, places, values, count, sums, n):
        return vectors.pair_more_halves(records, codes, places, 0, values, 0, count, 1, sums, 0, n)

    for n in (8, 16, 24, 32, 64, 72, 128, 200):
        for count in (0, 1, 2, 7):
            *given, listed = halves(n, count)
            for times in (0, 1):  # to zeros, then to what is there: in an order that depends on n alone
                expected, size, before = 0.0, 0.0, times * listed.sum(axis=0)
                for vector in listed:
                    expected, size = expected + before @ vector, size + abs(before) @ abs(vector)
                    before = before + vector
                assert abs(pair(*given) - expected) <= 1e-6 * size
                np.testing.assert_allclose(np.sort(given[-2]), np.sort(before), rtol=1e-5, atol=1e-5)


@njit
def pair_more_halves(records, codes, places, values, count, sums, n):
    return vectors.pair_more_halves(records, codes, places, 0, values, 0, count, 1, sums, 0, n)


def halves(n, count):
    """Return what pair_more_halves takes for random codes, and the listed vectors."""
    draw, stride = np.random.default_rng(n), 1 + n // 8
    numbers = draw.integers(-8, 8, (9, n))
    records = draw.random((9, stride), np.float32)
    low, high = (part & 15 for part in (numbers[:, : n // 2], numbers[:, n // 2 :]))
    records[:, 1:] = (low | high << 4).astype(np.uint8).view(np.float32)
    flat, chosen = records.reshape(-1).copy(), draw.integers(0, 9, count)
    values, sums = draw.random(count, np.float32), np.zeros(n, np.float32)
    listed = (values * records[chosen, 0]).astype(float)[:, None] * numbers[chosen]
    return flat, flat.view(np.uint8), (chosen * stride).astype(np.int64), values, count, sums, n, listed
