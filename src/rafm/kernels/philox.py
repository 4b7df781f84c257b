"""Random numbers by counter: Philox 4x32-10 (Salmon et al., SC 2011), and normal and gamma variates from it.

A number is a function of a key and a counter alone, so it does not matter which thread draws it, or when. Letters:

    c0 .. c3    the counter, four 32-bit words in 64-bit integers; afterwards the four random words
    k0, k1      the key
"""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import as_written

ROUNDS, LANES = 10, 4  # of Philox; normals per counter
WORD, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
MULTIPLY_0, MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
GROW_0, GROW_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
STEP = 2.0**-32
LOG_2, ROOT_2 = np.log(2.0), np.sqrt(2.0)
MANTISSA, EXPONENT_ONE = np.uint64((1 << 52) - 1), np.uint64(1023 << 52)
TURN = 2 * np.pi


@as_written
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four random words of a counter under a key."""
    for _ in range(ROUNDS):
        left, right = MULTIPLY_0 * c0, MULTIPLY_1 * c2
        c0, c1, c2, c3 = (right >> WORD) ^ c1 ^ k0, right & LOW, (left >> WORD) ^ c3 ^ k1, left & LOW
        k0, k1 = (k0 + GROW_0) & LOW, (k1 + GROW_1) & LOW
    return c0, c1, c2, c3


@as_written
def uniform(word):
    """Return a number strictly between 0 and 1."""
    return (np.float64(np.int64(word)) + 0.5) * STEP


@as_written
def log_of(u):
    """Return log(u) for normal u > 0, by u = 2^n m with m near 1 and log m = 2 artanh((m - 1) / (m + 1))."""
    bits = np.float64(u).view(np.uint64)
    n = np.float64(np.int64(bits >> np.uint64(52)) - 1023)
    m = np.uint64((bits & MANTISSA) | EXPONENT_ONE).view(np.float64)
    is_large = m > ROOT_2
    m, n = (m * 0.5 if is_large else m), (n + 1.0 if is_large else n)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15))))))
    return n * LOG_2 + 2.0 * s * (1.0 + z * series)


@as_written
def cosine_and_sine(u):
    """Return the cosine and sine of u turns, 0 <= u < 1, from series on the nearest quarter turn."""
    quarter = np.floor(4.0 * u + 0.5)
    a = (u - 0.25 * quarter) * TURN
    z, q = a * a, np.int64(quarter)
    c = 1.0 - z * (1 / 2 - z * (1 / 24 - z * (1 / 720 - z * (1 / 40320 - z * (1 / 3628800)))))
    s = a * (1.0 - z * (1 / 6 - z * (1 / 120 - z * (1 / 5040 - z * (1 / 362880 - z * (1 / 39916800))))))
    is_odd, x_sign, y_sign = (q & 1) == 1, (1.0 if (q + 1) & 2 == 0 else -1.0), (1.0 if q & 2 == 0 else -1.0)
    return x_sign * (s if is_odd else c), y_sign * (c if is_odd else s)


@as_written
def normals_of(first, second):
    """Return two independent normal numbers from two words, by Box and Muller's transform."""
    radius = np.sqrt(-2.0 * log_of(uniform(first)))
    x, y = cosine_and_sine(uniform(second))
    return radius * x, radius * y


@as_written
def fill_normals(out, first, stop, c1, c2, c3, k0, k1):
    """Set out[i] to the normal number of feature i, for first <= i < stop: four features share a counter."""
    for group in range(first // LANES, -(-stop // LANES)):
        w0, w1, w2, w3 = philox(np.uint64(group), c1, c2, c3, k0, k1)
        x0, x1 = normals_of(w0, w1)
        x2, x3 = normals_of(w2, w3)
        i = group * LANES
        if i >= first and i + LANES <= stop:
            out[i], out[i + 1], out[i + 2], out[i + 3] = x0, x1, x2, x3
        else:
            for k, x in enumerate((x0, x1, x2, x3)):
                if first <= i + k < stop:
                    out[i + k] = x


@as_written
def normal(c0, c1, c2, c3, k0, k1):
    """Return one normal number."""
    w0, w1, _, _ = philox(np.uint64(c0), c1, c2, c3, k0, k1)
    return normals_of(w0, w1)[0]


@as_written
def gamma(shape, c0, c1, c2, c3, k0, k1):
    """Return a gamma variate of rate 1 and shape >= 1, by Marsaglia and Tsang's rejection."""
    d = shape - 1 / 3
    for attempt in range(1000):  # one attempt succeeds with a probability above 0.95
        w0, w1, w2, _ = philox(np.uint64(c0) + np.uint64(attempt), c1, c2, c3, k0, k1)
        x = normals_of(w0, w1)[0]
        v = 1.0 + x / np.sqrt(9.0 * d)
        if v > 0:
            v = v * v * v
            if np.log(uniform(w2)) < 0.5 * x * x + d - d * v + d * np.log(v):
                return d * v
    return d
