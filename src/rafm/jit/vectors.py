"""Operations on vectors of n elements, n a multiple of 4, at places of arrays; and on bytes and words.

Each is a formula that lanes.py emits as vector instructions and lanes_plain.py runs uncompiled: `at` is the vector at a
place, `item` a single element, `register` a vector that stays in registers, `turns` a loop; `add` adds the products of
two vectors to a sum that the operation returns.
"""

# mypy: ignore-errors
from functools import partial

import numpy as np
from numba import config

from .compile import compiled

if config.DISABLE_JIT:
    from . import lanes_plain as lanes
else:
    from . import lanes

prefetch, prefetch_shared = lanes.prefetch, lanes.prefetch_shared  # for writing, for reading
trailing_zeros, count_ones, match_bytes = lanes.trailing_zeros, lanes.count_ones, lanes.match_bytes


def operation(parameters, n_terms=0, width=64, kind="Lanes"):
    """Return a decorator of formulas that makes an operation, which returns so many sums of terms.

    parameters: names; #name is an integer, .name a float, the others arrays. The last one is the number of elements, of
    which the formula knows nothing. width: float32 lanes at a time. kind: how vectors are stored.
    """
    return partial(lanes.operation, parameters.split(), n_terms, width, getattr(lanes, kind))


# ---- One or two vectors


@operation("left #i right #j #n .c .d", n_terms=1, width=32)
def combined_norm(o, left, i, right, j, c, d):
    """Return |c * left + d * right|^2."""
    gradient = o.at(left, i).get() * c + o.at(right, j).get() * d
    o.add(gradient, gradient)


@operation("left #i right #j #n .c .d", width=32)
def combine(o, left, i, right, j, c, d):
    """Set left to c * left + d * right."""
    out = o.at(left, i)
    out.set(out.get() * c + o.at(right, j).get() * d)


@operation("left #i #n", width=32)
def clear(o, left, i):
    """Set left to 0."""
    o.at(left, i).set(o.zero())


@operation("left #i right #j #n", width=32)
def copy(o, left, i, right, j):
    """Set left to right."""
    o.at(left, i).set(o.at(right, j).get())


@operation("left #i right #j #n", n_terms=1, width=32)
def inner(o, left, i, right, j):
    """Return the inner product."""
    o.add(o.at(left, i).get(), o.at(right, j).get())


def _join(o, left, i, right, j, sums, k, term):
    total = o.at(left, i).get().plus(o.at(right, j).get())
    o.at(sums, k).set(total)
    o.add(total, total, term)


@operation("left #i right #j sums #k #n", n_terms=1, width=32)
def join(o, left, i, right, j, sums, k):
    """Set sums to left + right; return its squared norm."""
    _join(o, left, i, right, j, sums, k, 0)


@operation("left #i right #j sums #k #n #apart", n_terms=2, width=32)
def join_twice(o, left, i, right, j, sums, k, apart):
    """Do so at the places given and `apart` behind them; return the squared norms of both."""
    _join(o, left, i, right, j, sums, k, 0)
    _join(o, left, i + apart, right, j + apart, sums, k + apart, 1)


@operation("out sums #j #k vector #o #n .w .y .c .d", n_terms=2, width=32)
def direct(o, out, sums, j, k, vector, v, w, y, c, d):
    """Set out[:n] to u = sums[j:] - w * sums[k:]; return v . (sums[k:] - y * v) and |c u + d v|^2 of the vector v."""
    taken, own = o.at(sums, k).get(), o.at(vector, v).get()
    direction = o.at(sums, j).get() - taken * w
    o.at(out).set(direction)
    gradient = direction * c + own * d
    o.add(own, taken - own * y)
    o.add(gradient, gradient, 1)


@operation("heads #h sums #j #k vector #o #n .w .y .c", n_terms=1, width=32)
def add_direction(o, heads, h, sums, j, k, vector, v, w, y, c):
    """Add c * (sums[j:] - w * sums[k:]) to heads[h:]; return the inner product of vector and sums[k:] - y * vector."""
    taken, own, out = o.at(sums, k).get(), o.at(vector, v).get(), o.at(heads, h)
    out.set(out.get() + (o.at(sums, j).get() - taken * w) * c)
    o.add(own, taken - own * y)


# ---- Listed vectors


def _sums(is_anew, is_pairs=True, is_twice=False, codes=None):
    """Return an operation that sums listed vectors, anew or not; its term is their squared norms, or their pairs.

    Pairs are the sum of products of each vector with the sums before it. (|sum v x|^2 - sum |v x|^2) / 2 is the same,
    but loses all digits if one value is large, because its square occurs in both terms.

    is_twice: with two sets of values; the term is the difference of the norms, or the pairs if the values are x and
    y = (1 - t) x: a pair of features a and b counts 1 - t_a t_b, which is (1 - t_b) + (1 - t_a) t_b, and nothing of it
    is negative. codes: the kind of vectors that are integers in the memory of the records, times a scale before them.
    """
    twice, stored = ("others ", " #k") if is_twice else ("", ""), "codes " if codes else ""

    def formula(o, records, *rest):
        held, (places, q, values, e, *rest) = (rest[0], rest[1:]) if codes else (None, rest)
        others, (count, shift, sums, *starts) = (rest[0], rest[1:]) if is_twice else (None, rest)
        outs = [o.at(sums, j) for j in starts]
        totals = [o.register(o.zero() if is_anew else out.get()) for out in outs]
        for k in o.turns(count):
            place = o.item(places, q, k)
            v = o.codes(held, shift, place) if codes else o.at(records, shift, place).get()
            given = [o.item(values, e, k), *([o.item(others, q, k)] if is_twice else [])]
            if codes:
                given = [x * o.item(records, shift - 1, place) for x in given]
            before, terms = [total.get() for total in totals], [v * x for x in given]
            for total, sum_before, term in zip(totals, before, terms):
                total.set(sum_before + term)
            if not is_twice:
                o.add(terms[0], before[0] if is_pairs else terms[0])
            else:
                (x, y), (first, second) = given, before
                o.add(v, first * y + second * (x - y) if is_pairs else v * (x * x - y * y))
        for out, total in zip(outs, totals):
            out.set(total.get())

    parameters = f"records {stored}places #q values #e {twice[0]}#count #shift sums #j{twice[1]} #n"
    return operation(parameters, n_terms=1, kind=codes or "Lanes")(formula)


add_listed, sum_listed = (_sums(is_anew, is_pairs=False) for is_anew in (False, True))
add_listed_twice, sum_listed_twice = (_sums(is_anew, is_pairs=False, is_twice=True) for is_anew in (False, True))
pair_more, pair_listed = _sums(False), _sums(True)
pair_more_twice, pair_listed_twice = _sums(False, is_twice=True), _sums(True, is_twice=True)
pair_more_codes, pair_codes = _sums(False, codes="Codes"), _sums(True, codes="Codes")
pair_more_halves, pair_halves = _sums(False, codes="Halves"), _sums(True, codes="Halves")
pair_more_codes_twice, pair_codes_twice = (_sums(is_anew, is_twice=True, codes="Codes") for is_anew in (False, True))
pair_more_halves_twice, pair_halves_twice = (_sums(is_anew, is_twice=True, codes="Halves") for is_anew in (False, True))


@operation("sums places #shift cs ds #count vector #o out #n", n_terms=1)
def sum_gradients(o, sums, places, shift, cs, ds, count, vector, v, out):
    """Set out[:n] to the sum over k < count of z = cs[k] * the sums at places[k] + shift + ds[k] * vector.

    Return the sum of |z|^2.
    """
    own, total = o.at(vector, v).get(), o.register(o.zero())
    for k in o.turns(count):
        z = o.at(sums, shift, o.item(places, k)).get() * o.item(cs, k) + own * o.item(ds, k)
        total.set(total.get() + z)
        o.add(z, z)
    o.at(out).set(total.get())


@operation("sums places #shift #other .w cs ds #count vector #o out #n", n_terms=2)
def sum_weighted_gradients(o, sums, places, shift, other, w, cs, ds, count, vector, v, out):
    """Do the same with (the sums - w * those at places[k] + other) in place of the sums.

    Return also the inner product of the vector and the sum of cs[k] * those at places[k] + other.
    """
    own, total = o.at(vector, v).get(), o.register(o.zero())
    for k in o.turns(count):
        place, c = o.item(places, k), o.item(cs, k)
        taken = o.at(sums, other, place).get()
        o.add(taken * c, own, 1)
        z = (o.at(sums, shift, place).get() - taken * w) * c + own * o.item(ds, k)
        total.set(total.get() + z)
        o.add(z, z)
    o.at(out).set(total.get())


# ---- Several vectors of one record, for field-aware models


def _spread(is_anew):
    """Return a formula that sets or adds x * the vector at o + shifts[k] to sums[j + k * n :], for k < count."""

    def formula(o, records, v, shifts, count, x, sums, j, stride):
        for k in o.turns(count):
            out, term = o.at(sums, j, k * stride), o.at(records, v, o.item(shifts, k)).get() * x
            out.set(term if is_anew else out.get() + term)

    return operation("records #o shifts #count .x sums #j #stride #n")(formula)


spread, add_spread = _spread(True), _spread(False)


@operation("left #i #j #left_stride #right_stride #count #n", n_terms=1)
def strided_products(o, left, i, j, left_stride, right_stride, count):
    """Return the sum of inner products of the vectors at i + k * left_stride and at j + k * right_stride, k < count."""
    for k in o.turns(count):
        o.add(o.at(left, i, k * left_stride).get(), o.at(left, j, k * right_stride).get())


@operation("heads #h records #o shifts #first #count sums #j #stride .c .d #n")
def add_gradients(o, heads, h, records, v, shifts, first, count, sums, j, stride, c, d):
    """Add c * sums[j + k * stride :] + d * the vector at o + shifts[k] to heads[h + shifts[k] :].

    k goes from first to first + count - 1.
    """
    for turn in o.turns(count):
        k = first + turn
        shift = o.item(shifts, k)
        out = o.at(heads, h, shift)
        out.set(out.get() + (o.at(sums, j, k * stride).get() * c + o.at(records, v, shift).get() * d))


def _short_steps(few):
    """Return a formula for AdaGrad steps of vectors that are as long as the lanes, so many at a time.

    All are loaded before one is stored, so that their roots and quotients overlap.
    """

    def formula(o, records, v, shifts, states, first, count, sums, j, stride, c, d, share, rate):
        for turn in o.turns(count):
            listed = [first + turn * few + each for each in range(few)]
            vectors = [o.at(records, v, o.item(shifts, k)) for k in listed]
            places, before = [v + o.item(states, k) for k in listed], [vector.get() for vector in vectors]
            gradients = [o.at(sums, j, k * stride).get() * c + own * d for k, own in zip(listed, before)]
            after = [o.item(records, place) + o.norm(z) * share for place, z in zip(places, gradients)]
            for vector, place, own, z, state in zip(vectors, places, before, gradients, after):
                o.set_item(records, place, state)
                vector.set(own - z * (rate / o.root(state)))

    return operation("records #o shifts states #first #count sums #j #stride .c .d .share .rate #n")(formula)


FEW = 4  # vectors that step at once
_few_short_steps, _one_short_step = _short_steps(FEW), _short_steps(1)


@compiled
def adagrad_steps(records, o, shifts, states, first, count, sums, j, stride, c, d, share, rate, n):
    """Step the vectors at o + shifts[k] by AdaGrad along c * sums[j + k * stride :] + d * vector.

    k goes from first to first + count - 1; share * the squared gradient is added to the state at o + states[k].
    """
    if n == 4 or n == 8 or n == 16:
        times = count // FEW
        _few_short_steps(records, o, shifts, states, first, times, sums, j, stride, c, d, share, rate, n)
        begin, rest = first + FEW * times, count - FEW * times
        _one_short_step(records, o, shifts, states, begin, rest, sums, j, stride, c, d, share, rate, n)
        return
    for k in range(first, first + count):
        place, state = o + shifts[k], o + states[k]
        records[state] += share * combined_norm(records, place, sums, j + k * stride, n, d, c)
        step = rate / np.sqrt(records[state])
        combine(records, place, sums, j + k * stride, n, np.float32(1) - step * d, -step * c)


# ---- Exponentials


@operation("left #i exps #j logs #k #n", width=32)
def exp_neg_abs(o, left, i, exps, j, logs, k):
    """Set exps to exp(-|left|) and logs to log(1 + exp(-|left|))."""
    small = o.exp_neg(o.absolute(o.at(left, i).get()))
    o.at(exps, j).set(small)
    o.at(logs, k).set(o.log_1p(small))


# ---- Numbers


@compiled
def count_below(array, n, number):
    """Return how many of array[:n] are less than number."""
    count = np.int32(0)  # as wide as the elements, so that both fill the same lanes
    for k in range(np.uintp(n)):
        count = np.int32(count + np.int32(array[k] < number))
    return np.intp(count)
