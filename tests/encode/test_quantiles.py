"""Quantiles are near those of numpy, in bounded memory, and do not depend on the order of the numbers."""

import numpy as np
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from rafm.encode.quantiles import ValueCounts, bin_edges


@examples(0.25)
@given(st.integers(0, 100), st.sampled_from([1.0, 1e-200, 1e9]), st.randoms())
def test_quantiles_in_bounded_memory_are_near_and_do_not_depend_on_order(seed, scale, random):
    numbers = np.random.default_rng(seed).normal(size=3000) * scale
    parts = np.array_split(np.random.default_rng(random.randrange(99)).permutation(numbers), 7)
    counts, whole = ValueCounts(max_keys=500), ValueCounts(max_keys=500)
    for part in parts:
        counts.add(part)
        counts.quantiles(np.array([0.5]))
    whole.add(numbers)
    shares = np.arange(1, 20) / 20
    found = counts.quantiles(shares)
    np.testing.assert_array_equal(found, whole.quantiles(shares))
    exact = np.quantile(numbers, shares, method="higher")
    assert counts.bits < 52
    assert (np.abs(found - exact) <= np.abs(exact) * 2.0**-counts.bits).all()


def test_few_distinct_numbers_are_counted_exactly():
    counts = ValueCounts()
    for _ in range(3):
        counts.add(np.repeat([5.0, -0.0, 0.0, np.nan, -2.5], 100_000))
    assert counts.quantiles(np.array([0, 0.2, 0.3, 0.7, 0.8, 1])).tolist() == [-2.5, -2.5, 0, 0, 5, 5]
    assert bin_edges(counts, 4).tolist() == [0, 5]


def test_the_sign_of_zero_does_not_show():
    counts = ValueCounts()
    counts.add(np.array([-0.0]))
    assert str(counts.quantiles(np.array([0.5]))[0]) == "0.0"


def test_no_numbers_have_no_edges():
    assert bin_edges(ValueCounts(), 4).size == 0
