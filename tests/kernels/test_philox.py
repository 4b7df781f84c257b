"""Random numbers by counter: the published answers, the distributions, and no dependence on who draws what."""

import numpy as np
import pytest
from scipy import stats

from rafm.jit.compile import entry
from rafm.kernels.philox import cosine_and_sine, fill_normals, gamma, log_of, philox

# From the known-answer tests of Random123, whose authors published Philox: counter, key, random words.
PUBLISHED = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@entry
def words(c, k):
    return philox(c[0], c[1], c[2], c[3], k[0], k[1])


@entry
def normals(out, first, stop, c, k):
    fill_normals(out, first, stop, c[0], c[1], c[2], k[0], k[1])


@entry
def gammas(shape, out, c, k):
    for i in range(out.size):
        out[i] = gamma(shape, np.uint64(i << 10), c[0], c[1], c[2], k[0], k[1])


@entry
def functions(u, logs, cosines, sines):
    for i in range(u.size):
        logs[i] = log_of(u[i])
        cosines[i], sines[i] = cosine_and_sine(u[i])


def counters(*numbers):
    return np.array(numbers, np.uint64)


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_words_are_those_that_the_authors_published(counter, key, expected):
    assert list(words(counters(*counter), counters(*key))) == expected


def test_logarithm_and_circle_are_those_of_numpy():
    u = np.concatenate([np.random.default_rng(0).random(10_000), 2.0 ** -np.arange(1, 34), np.arange(16) / 16 + 2**-33])
    logs, cosines, sines = np.empty_like(u), np.empty_like(u), np.empty_like(u)
    functions(u, logs, cosines, sines)
    np.testing.assert_allclose(logs, np.log(u), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(cosines, np.cos(2 * np.pi * u), atol=1e-9)
    np.testing.assert_allclose(sines, np.sin(2 * np.pi * u), atol=1e-9)


def drawn(*counter, n=100_000):
    out = np.zeros(n)
    normals(out, 0, n, counters(*counter), counters(5, 6))
    return out


def test_normals_are_normal_and_differ_between_counters():
    first, second = drawn(1, 2, 3), drawn(1, 2, 4)
    assert stats.kstest(first, "norm").pvalue > 0.01
    assert abs(stats.kurtosis(first)) < 0.1
    for other in (second, np.roll(first, 1), np.roll(first, 2), drawn(1, 3, 3), drawn(2, 2, 3)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.02


def test_a_normal_does_not_depend_on_the_range_that_is_filled():
    whole, parts = drawn(1, 2, 3, n=1003), np.zeros(1003)
    for first, stop in ((0, 5), (5, 6), (6, 6), (6, 703), (703, 1003)):
        normals(parts, first, stop, counters(1, 2, 3), counters(5, 6))
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("shape", [1.0, 1.5, 60.0])
def test_gammas_have_the_gamma_distribution(shape):
    out = np.zeros(50_000)
    gammas(shape, out, counters(1, 2, 3), counters(5, 6))
    assert stats.kstest(out, "gamma", args=(shape,)).pvalue > 0.01
