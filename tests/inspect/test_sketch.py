"""Sketches count like a Counter while keys fit, and nearly so in a fixed amount of memory when they do not."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.inspect.keys import hash_numbers, unhash_numbers
from rafm.inspect.sketch import RowTargets, Sketch

few = st.lists(st.integers(0, 40), min_size=1, max_size=300)


def targets_of(n_rows, seed=0):
    draw = np.random.default_rng(seed)
    return RowTargets(draw.integers(0, 2, n_rows), draw.random(n_rows), draw.random(n_rows))


@given(few, st.integers(1, 7))
def test_keys_that_fit_are_counted_like_a_counter_in_any_pieces(numbers, size):
    sketch, keys = Sketch(64, labelled=True), hash_numbers(np.array(numbers))
    targets = targets_of(keys.size)
    for at in range(0, keys.size, size):
        part = np.arange(at, min(at + size, keys.size))
        sketch.add(keys[part], targets.take(part))
    counts = Counter(numbers)
    assert sketch.is_exact
    assert sketch.n_keys == len(counts)
    assert sketch.top[1] == max(counts.values())
    assert counts[unhash_numbers(np.array([sketch.top[0]]))[0]] == sketch.top[1]
    assert dict(zip(*sketch.frequencies())) == Counter(counts.values())
    halves, weights, labels = targets
    for id, sums in zip(unhash_numbers(sketch.keys()), sketch.label_sums()):
        for half in (0, 1):
            own = (np.array(numbers) == id) & (halves == half)
            expected = [weights[own].sum(), (weights * labels)[own].sum()]
            np.testing.assert_allclose(sums[2 * half : 2 * half + 2], expected, atol=1e-12)


def test_more_keys_than_fit_are_estimated_and_memory_stays():
    draw = np.random.default_rng(0)
    ids = np.concatenate([np.arange(400_000), np.arange(100_000), np.full(60_000, 7)])
    draw.shuffle(ids)
    sketch, parts = Sketch(1 << 12), np.array_split(hash_numbers(ids), 50)
    Sketch().add(parts[0])  # compiles
    tracemalloc.start()
    for part in parts:
        sketch.add(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # bytes; all keys with their counts would take 6.4e6
    assert not sketch.is_exact
    assert sketch.n_keys == pytest.approx(400_000, rel=0.1)  # 1/sqrt(2048) is 2 percent
    counts = dict(zip(*sketch.frequencies()))
    assert counts[1] == pytest.approx(300_000, rel=0.1)
    assert counts[2] == pytest.approx(100_000, rel=0.15)
    assert sketch.top[1] == pytest.approx(60_002, rel=0.01)
    assert sketch.is_top(hash_numbers(np.array([7, 8]))).tolist() == [True, False]


@pytest.mark.parametrize("first", [True, False])
def test_a_key_that_is_frequent_early_or_late_is_the_top(first):
    sketch, often = Sketch(1 << 8), hash_numbers(np.full(5_000, 123_456_789))
    for keys in (often, hash_numbers(np.arange(100_000)))[:: 1 if first else -1]:
        sketch.add(keys)
    assert sketch.top[1] == pytest.approx(5_000, rel=0.01)
    assert sketch.is_top(hash_numbers(np.array([123_456_789]))).all()


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_whole_numbers_come_back_from_their_keys(numbers):
    assert unhash_numbers(hash_numbers(np.array(numbers))) == numbers
