"""Rotation changes no score, and lengths are the best ones under a budget, found by trying all."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.compress.lengths import choose_lengths, lengths_up_to, missed
from rafm.compress.rotation import principal_axes, rotated

CHOICES = (0, 2, 4, 8)


def some_vectors(n=12, rank=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rank)).astype(np.float32) * rng.random((n, 1)), rng.integers(1, 50, n).astype(float)


def test_rotated_vectors_have_the_same_products_and_most_of_them_first():
    vectors, importance = some_vectors(n=40)
    found = rotated(vectors, importance)
    np.testing.assert_allclose(found @ found.T, vectors @ vectors.T, atol=1e-5)
    moments = (found.T * importance) @ found
    np.testing.assert_allclose(moments, np.diag(np.diag(moments)), atol=1e-3)
    assert (np.diff(np.diag(moments)) <= 0).all()


def test_axes_are_the_same_however_many_vectors_are_taken_at_a_time(monkeypatch):
    vectors, importance = some_vectors(n=40)
    expected = principal_axes(vectors, importance)
    monkeypatch.setattr("rafm.compress.rotation.CHUNK_FACTORS", 7 * vectors.shape[1])
    np.testing.assert_allclose(principal_axes(vectors, importance), expected, atol=1e-6)


def test_what_a_length_loses_is_the_sum_over_the_coordinates_behind_it():
    vectors, importance = some_vectors()
    found = missed(vectors, importance, CHOICES)
    for i, (k, length) in itertools.product(range(12), enumerate(CHOICES)):
        lost = 0.0
        for f in range(length, 8):
            met = sum(importance[j] * vectors[j, f] ** 2 for j in range(12)) / importance.sum()
            lost += importance[i] * vectors[i, f] ** 2 * met
        assert found[i, k] == pytest.approx(lost, rel=1e-5, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_no_other_lengths_within_the_size_lose_less(seed, budget):
    """The lowest price that fits is optimal for the size that it reaches: nothing as small loses less."""
    rng = np.random.default_rng(seed)
    losses = np.sort(rng.random((4, len(CHOICES))), axis=1)[:, ::-1] * rng.integers(1, 9, (4, 1))
    found = choose_lengths(losses, CHOICES, budget)
    assert found.sum() <= budget
    lost = losses[np.arange(4), np.searchsorted(CHOICES, found)].sum()
    for others in itertools.product(range(len(CHOICES)), repeat=4):
        if sum(CHOICES[k] for k in others) <= found.sum():
            assert lost <= losses[np.arange(4), others].sum() + 1e-9


@given(st.integers(0, 10_000))
def test_the_budget_is_used_as_far_as_the_next_price_allows(seed):
    """With one length more for any one vector at the best exchange, the budget would be exceeded or nothing gained."""
    rng = np.random.default_rng(seed)
    losses = np.cumsum(np.sort(rng.random((5, 4)), axis=1), axis=1)[:, ::-1]  # convex, so that every length can win
    sizes = (0, 1, 2, 3)
    found = choose_lengths(losses, sizes, 7)
    assert found.sum() == 7 or len({*np.diff(losses).ravel()}) < 15


def test_a_vector_without_value_gets_no_length_and_a_large_budget_keeps_the_rest():
    losses = np.array([[5.0, 1, 0], [0, 0, 0], [5, 0, 0]])
    assert choose_lengths(losses, (0, 2, 4), 100).tolist() == [4, 0, 2]
    assert choose_lengths(losses, (0, 2, 4), 0).tolist() == [0, 0, 0]


def test_lengths_end_at_the_rank_and_keep_the_ends_of_blocks():
    assert lengths_up_to(256) == (0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    assert lengths_up_to(10, known=(5, 10)) == (0, 2, 4, 5, 8, 10)
