"""Plain-loop twins of simd.py, for bounds checking and for running uncompiled."""

# mypy: ignore-errors
import numpy as np

from .compile import compiled


@compiled
def add_listed(records, places, q, values, e, count, shift, sums, j, n):
    """Add values[e + k] * the vector at places[q + k] + shift to sums, k < count; return their squared norms."""
    total = np.float32(0)
    for k in range(count):
        for f in range(n):
            z = records[places[q + k] + shift + f] * values[e + k]
            sums[j + f] += z
            total += z * z
    return total


@compiled
def sum_listed(records, places, q, values, e, count, shift, sums, j, n):
    """Like add_listed, but overwrite sums."""
    clear(sums, j, n)
    return add_listed(records, places, q, values, e, count, shift, sums, j, n)


@compiled
def add_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    """Add to sums[j:] as add_listed does, and to sums[k:] with others[q:] as values; return the norms' difference."""
    norms = add_listed(records, places, q, values, e, count, shift, sums, j, n)
    return norms - add_listed(records, places, q, others, q, count, shift, sums, k, n)


@compiled
def sum_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n):
    """Like add_listed_twice, but overwrite both sums."""
    clear(sums, j, n)
    clear(sums, k, n)
    return add_listed_twice(records, places, q, values, e, others, count, shift, sums, j, k, n)


def _pairing(coordinate, scale_of):
    """Return functions that sum listed vectors and their pairs: to sums as they are or anew, with values or weighted.

    Vectors are integers in the memory of the records, times a scale. Places count elements of 4 bytes.
    """

    @compiled
    def pair_more(records, codes, places, q, values, e, count, shift, sums, j, n):
        """Add the vectors to sums; return the sum of products of each with the sums before it.

        These are all pairs. (|sum v x|^2 - sum |v x|^2) / 2 is the same, but loses all digits if one value is large,
        because its square occurs in both terms.
        """
        total = np.float32(0)
        for k in range(count):
            o = places[q + k] + shift
            x = values[e + k] * scale_of(records, o)
            for f in range(n):
                z = coordinate(codes, o, f, n) * x
                total += z * sums[j + f]
                sums[j + f] += z
        return total

    @compiled
    def pair_listed(records, codes, places, q, values, e, count, shift, sums, j, n):
        clear(sums, j, n)
        return pair_more(records, codes, places, q, values, e, count, shift, sums, j, n)

    @compiled
    def pair_more_twice(records, codes, places, q, values, e, others, count, shift, sums, j, k, n):
        """Do the same with field weights: others holds y = (1 - t) x, and sums[k:] are the sums with these values.

        A pair of features a and b counts 1 - t_a t_b = (1 - t_b) + (1 - t_a) t_b, of which nothing is negative.
        """
        total = np.float32(0)
        for c in range(count):
            o = places[q + c] + shift
            x, y = values[e + c] * scale_of(records, o), others[q + c] * scale_of(records, o)
            for f in range(n):
                v = coordinate(codes, o, f, n)
                total += v * (sums[j + f] * y + sums[k + f] * (x - y))
                sums[j + f] += v * x
                sums[k + f] += v * y
        return total

    @compiled
    def pair_listed_twice(records, codes, places, q, values, e, others, count, shift, sums, j, k, n):
        clear(sums, j, n)
        clear(sums, k, n)
        return pair_more_twice(records, codes, places, q, values, e, others, count, shift, sums, j, k, n)

    return pair_listed, pair_more, pair_listed_twice, pair_more_twice


@compiled
def _float(records, o, f, n):
    return records[o + f]


@compiled
def _code(codes, o, f, n):
    return np.float32(codes[o * (4 // codes.itemsize) + f])


@compiled
def _half(codes, o, f, n):
    """Return code f of two in each byte: f in the lower half of byte f, f + n / 2 in the upper one.

    simd.py may keep the sums in another order, which depends on n alone, since only products with them are used.
    """
    both = np.int64(codes[o * 4 + f % (n // 2)])
    code = both & 15 if f < n // 2 else both >> 4
    return np.float32((code ^ 8) - 8)  # 8 .. 15 are negative


@compiled
def _no_scale(records, o):
    return np.float32(1)


@compiled
def _scale(records, o):
    return records[o - 1]


def _of_floats(operation):
    """Return the operation on records of floats."""

    @compiled
    def call(records, *arguments):
        return operation(records, records, *arguments)

    return call


pair_listed, pair_more, pair_listed_twice, pair_more_twice = map(_of_floats, _pairing(_float, _no_scale))
pair_codes, pair_more_codes, pair_codes_twice, pair_more_codes_twice = _pairing(_code, _scale)
pair_halves, pair_more_halves, pair_halves_twice, pair_more_halves_twice = _pairing(_half, _scale)


@compiled
def sum_gradients(sums, places, shift, cs, ds, count, vector, o, out, n):
    """Set out[:n] to the sum over k < count of z = cs[k] * the sums at places[k] + shift + ds[k] * vector.

    Return the sum of |z|^2.
    """
    total = np.float32(0)
    clear(out, 0, n)
    for k in range(count):
        for f in range(n):
            z = cs[k] * sums[places[k] + shift + f] + ds[k] * vector[o + f]
            out[f] += z
            total += z * z
    return total


@compiled
def sum_weighted_gradients(sums, places, shift, other, w, cs, ds, count, vector, o, out, n):
    """Do the same with (the sums - w * those at places[k] + other) in place of the sums.

    Return also the inner product of the vector and the sum of cs[k] * those at places[k] + other.
    """
    total, product = np.float32(0), np.float32(0)
    clear(out, 0, n)
    for k in range(count):
        for f in range(n):
            taken = sums[places[k] + other + f]
            z = cs[k] * (sums[places[k] + shift + f] - w * taken) + ds[k] * vector[o + f]
            out[f] += z
            total += z * z
            product += cs[k] * taken * vector[o + f]
    return total, product


@compiled
def add_spread(records, o, shifts, count, x, sums, j, n):
    """Add x * the vector at o + shifts[k] to sums[j + k * n :], for k < count."""
    for k in range(count):
        for f in range(n):
            sums[j + k * n + f] += x * records[o + shifts[k] + f]


@compiled
def spread(records, o, shifts, count, x, sums, j, n):
    """Like add_spread, but overwrite sums."""
    for k in range(count):
        for f in range(n):
            sums[j + k * n + f] = x * records[o + shifts[k] + f]


@compiled
def strided_products(array, i, j, left_stride, right_stride, count, n):
    """Return the sum of inner products of the vectors at i + k * left_stride and at j + k * right_stride, k < count."""
    total = np.float32(0)
    for k in range(count):
        for f in range(n):
            total += array[i + k * left_stride + f] * array[j + k * right_stride + f]
    return total


@compiled
def add_gradients(heads, h, records, o, shifts, first, count, sums, j, stride, c, d, n):
    """Add c * sums[j + k * stride :] + d * the vector at o + shifts[k] to heads[h + shifts[k] :].

    k goes from first to first + count - 1.
    """
    for k in range(first, first + count):
        for f in range(n):
            place = shifts[k] + f
            heads[h + place] += c * sums[j + k * stride + f] + d * records[o + place]


@compiled
def adagrad_steps(records, o, shifts, states, first, count, sums, j, stride, c, d, share, rate, n):
    """Step the vectors at o + shifts[k] by AdaGrad along c * sums[j + k * stride :] + d * vector.

    k goes from first to first + count - 1; share * the squared gradient is added to the state at o + states[k].
    """
    for k in range(first, first + count):
        place, state, total = o + shifts[k], o + states[k], np.float32(0)
        for f in range(n):
            z = c * sums[j + k * stride + f] + d * records[place + f]
            total += z * z
        records[state] += share * total
        step = rate / np.sqrt(records[state])
        for f in range(n):
            records[place + f] -= step * (c * sums[j + k * stride + f] + d * records[place + f])


@compiled
def combined_norm(left, i, right, j, n, c, d):
    """Return |c * left + d * right|^2."""
    total = np.float32(0)
    for f in range(n):
        z = c * left[i + f] + d * right[j + f]
        total += z * z
    return total


@compiled
def combine(left, i, right, j, n, c, d):
    """Set left to c * left + d * right."""
    for f in range(n):
        left[i + f] = c * left[i + f] + d * right[j + f]


@compiled
def clear(array, i, n):
    """Set array[i : i + n] to 0."""
    array[i : i + n] = 0


@compiled
def copy(left, i, right, j, n):
    """Set left to right."""
    for f in range(n):
        left[i + f] = right[j + f]


@compiled
def join(left, i, right, j, sums, k, n):
    """Set sums to left + right; return its squared norm."""
    total = np.float32(0)
    for f in range(n):
        sums[k + f] = left[i + f] + right[j + f]
        total += sums[k + f] * sums[k + f]
    return total


@compiled
def direct(out, sums, j, k, vector, o, n, w, y, c, d):
    """Set out[:n] to u = sums[j:] - w * sums[k:]; return v . (sums[k:] - y * v) and |c u + d v|^2 of the vector v."""
    product, square = np.float32(0), np.float32(0)
    for f in range(n):
        out[f] = sums[j + f] - w * sums[k + f]
        product += vector[o + f] * (sums[k + f] - y * vector[o + f])
        square += (c * out[f] + d * vector[o + f]) ** 2
    return product, square


@compiled
def add_direction(heads, h, sums, j, k, vector, o, n, w, y, c):
    """Add c * (sums[j:] - w * sums[k:]) to heads[h:]; return the inner product of vector and sums[k:] - y * vector."""
    total = np.float32(0)
    for f in range(n):
        heads[h + f] += c * (sums[j + f] - w * sums[k + f])
        total += vector[o + f] * (sums[k + f] - y * vector[o + f])
    return total


@compiled
def join_twice(left, i, right, j, sums, k, n, apart):
    """Set sums to left + right, at the places given and `apart` behind them; return the squared norms of both."""
    norm = join(left, i, right, j, sums, k, n)
    return norm, join(left, i + apart, right, j + apart, sums, k + apart, n)


@compiled
def inner(left, i, right, j, n):
    """Return the inner product."""
    total = np.float32(0)
    for f in range(n):
        total += left[i + f] * right[j + f]
    return total


@compiled
def exp_neg_abs(scores, i, exps, j, logs, k, n):
    """Set exps to exp(-|score|) and logs to log(1 + exp(-|score|))."""
    for f in range(n):
        exps[j + f] = np.exp(-abs(scores[i + f]))
        logs[k + f] = np.log(1 + exps[j + f])


@compiled
def prefetch(array, position):
    """Do nothing: prefetching is a hint."""


prefetch_shared = prefetch


@compiled
def trailing_zeros(word):
    """Return the number of trailing zero bits, 64 for 0."""
    n = np.uint64(0)
    while n < np.uint64(64) and not (word >> n) & np.uint64(1):
        n += np.uint64(1)
    return n


@compiled
def count_ones(word):
    """Return the number of 1 bits."""
    n = np.uint64(0)
    while word:
        word &= word - np.uint64(1)  # clears the lowest 1 bit
        n += np.uint64(1)
    return n


@compiled
def count_below(array, n, number):
    """Return how many of array[:n] are less than number; n must be a multiple of 16."""
    count = 0
    for k in range(n):
        count += array[k] < number
    return count


@compiled
def match_bytes(text, position, byte):
    """Return a bit mask of where the 64 bytes of text from position on equal byte; the lowest bit is the first byte."""
    bits = np.uint64(0)
    for place in range(64):
        bits |= np.uint64(text[position + place] == byte) << np.uint64(place)
    return bits
