"""Passes of Gibbs sampling over the rows: sums, moments A and B, and updates. Names are those of gibbs_tables.py."""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import compiled, entry
from .tables import ONE, ZERO

TWO, UNIT = np.uint64(2), np.uint64(1)
CHUNK_ROWS = 1024  # rows whose sums stay in the cache while all blocks are added


@compiled
def add_chunk(design, b, shift, chunk, numbers, share, sums, squared):
    """Add share x v of one block to the rows of a chunk; the block has a nonzero in every row, the first at shift."""
    start, stop = chunk
    ids, sums, numbers = design.ids[shift + start : shift + stop], sums[start:stop], numbers[design.bounds[b] :]
    if design.values.size:
        values = design.values[shift + start : shift + stop]
        for r in range(ids.size):
            x = values[r]
            sums[r] += share * (x * x if squared else x) * numbers[np.uint64(ids[r])]
    else:
        for r in range(ids.size):
            sums[r] += share * numbers[np.uint64(ids[r])]


@compiled
def add_scattered(design, b, s, numbers, share, sums, squared):
    """Add share x v of one block to the rows of part s."""
    shift, numbers = design.places[b] - design.starts[b, 0], numbers[design.bounds[b] :]
    for e in range(design.starts[b, s], design.starts[b, s + 1]):
        x = design.values[e] if design.values.size else ONE
        sums[design.rows[shift + e]] += share * (x * x if squared else x) * numbers[np.int64(design.ids[e])]


@compiled
def sum_rows(design, s, numbers, shares, sums, squared):
    """Set sums to the sum of x v, or of x^2 v, of each row of part s, times the share of the feature's field."""
    for start in range(design.cuts[s], design.cuts[s + 1], CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, design.cuts[s + 1])
        for r in range(start, stop):
            sums[r] = ZERO
        for b in range(design.places.size):
            if design.places[b] < 0:
                shift = design.starts[b, s] - design.cuts[s]
                add_chunk(design, b, shift, (start, stop), numbers, shares[design.fields[b]], sums, squared)
    for b in range(design.places.size):
        if design.places[b] >= 0:
            add_scattered(design, b, s, numbers, shares[design.fields[b]], sums, squared)


@compiled
def add_simple_moments(ids, lanes, errors, sums, numbers, own, table):
    """Add h^2 and h e to the table of a block; every row has one of its features, whose value is 1."""
    n, lanes = np.uint64(numbers.size), np.uint64(lanes)
    for r in range(ids.size):
        i = np.uint64(ids[r])  # unsigned: Numba would test whether a signed index counts from the end
        h = sums[r] - own * numbers[i]
        t = TWO * ((np.uint64(r) & lanes) * n + i)
        table[t] += h * h
        table[t + UNIT] += h * errors[r]


@compiled
def add_any_moments(design, b, s, numbers, own, chain, table):
    """Add g h^2 and g h e, for any values and row weights, and blocks that not all rows have."""
    values, weights, place, start = design.values, design.weights, design.places[b], design.starts[b, s]
    shift = design.cuts[s] - start if place < 0 else place - design.starts[b, 0]
    for e in range(start, design.starts[b, s + 1]):
        r = e + shift if place < 0 else np.int64(design.rows[e + shift])
        i, x = np.int64(design.ids[e]), (values[e] if values.size else ONE)
        h = x * (chain.sums[r] - x * own * numbers[i])
        g = weights[r] * h if weights.size else h
        t = 2 * ((e & design.lanes[b]) * numbers.size + i)
        table[t] += g * h
        table[t + 1] += g * chain.errors[r]


@compiled
def add_moments(design, b, s, numbers, own, chain):
    """Add the moments of a block in part s to its table; own: how much of q is v of the feature itself."""
    first, stop, lanes = design.bounds[b], design.bounds[b + 1], design.lanes[b]
    table = chain.moments[2 * s * (lanes + 1) * (stop - first) :]
    if design.places[b] < 0 and design.values.size + design.weights.size == 0:
        rows = slice(design.cuts[s], design.cuts[s + 1])
        ids = design.ids[design.starts[b, s] : design.starts[b, s + 1]]
        add_simple_moments(ids, lanes, chain.errors[rows], chain.sums[rows], numbers[first:stop], own, table)
    else:
        add_any_moments(design, b, s, numbers[first:stop], own, chain, table)


@compiled
def update_simply(ids, steps, own, errors, sums):
    """Take the steps of a block into e and q; every row has one of its features, whose value is 1."""
    for r in range(ids.size):
        i = TWO * np.uint64(ids[r])
        d = steps[i + UNIT]
        errors[r] -= (sums[r] - steps[i]) * d
        sums[r] += own * d


@compiled
def update_any(design, b, s, steps, own, chain):
    """Take the steps of a block into e and q, for any values, and blocks that not all rows have."""
    values, place, start = design.values, design.places[b], design.starts[b, s]
    shift = design.cuts[s] - start if place < 0 else place - design.starts[b, 0]
    for e in range(start, design.starts[b, s + 1]):
        r = e + shift if place < 0 else np.int64(design.rows[e + shift])
        i, x = 2 * np.int64(design.ids[e]), (values[e] if values.size else ONE)
        d = x * steps[i + 1]
        chain.errors[r] -= (chain.sums[r] - x * steps[i]) * d
        chain.sums[r] += own * d


@compiled
def update_rows(design, b, s, own, chain):
    """Take the steps of a block into e and q of the rows of part s; own is 0 for weights, where q is constant."""
    steps = chain.steps[2 * design.bounds[b] :]
    if design.places[b] < 0 and design.values.size == 0:
        rows, ids = slice(design.cuts[s], design.cuts[s + 1]), design.ids[design.starts[b, s] : design.starts[b, s + 1]]
        update_simply(ids, steps, own, chain.errors[rows], chain.sums[rows])
    else:
        update_any(design, b, s, steps, own, chain)


@compiled
def moments_of_run(design, a, b, x0, v, chain):
    """Return A and B of a feature whose rows are a .. b - 1; v: its part of q, x0: position of the value of row 0."""
    values, weights, errors, sums = design.values, design.weights, chain.errors, chain.sums
    A, B = 0.0, 0.0
    if b - a == 1:  # most features of a long tail; the loop below is made for many rows
        x = values[x0 + a] if values.size else ONE
        h = x * (sums[a] - x * v)
        g = weights[a] * h if weights.size else h
        return np.float64(g * h), np.float64(g * errors[a])
    for start in range(a, b, CHUNK_ROWS):  # single precision within a chunk, double across
        square, product = ZERO, ZERO
        for r in range(start, min(start + CHUNK_ROWS, b)):
            x = values[x0 + r] if values.size else ONE
            h = x * (sums[r] - x * v)
            g = weights[r] * h if weights.size else h
            square += g * h
            product += g * errors[r]
        A += square
        B += product
    return A, B


@compiled
def update_run(design, a, b, x0, v, d, own, chain):
    """Take the step d of a feature, its part v of q before it, into e and q of its rows a .. b - 1."""
    for r in range(a, b):
        x = design.values[x0 + r] if design.values.size else ONE
        chain.errors[r] -= x * (chain.sums[r] - x * v) * d
        chain.sums[r] += own * x * d


@compiled
def turn_sums(design, s, change, chain):
    """Turn q of the rows of part s into that of a field whose weight is less by `change`: q - t q'."""
    if change != 0:
        for r in range(design.cuts[s], design.cuts[s + 1]):
            chain.sums[r] += change * chain.inner[r]


@compiled
def update_inner(design, b, s, share, chain):
    """Take the steps of a block into q' of the rows of part s."""
    place, start, steps = design.places[b], design.starts[b, s], chain.steps[2 * design.bounds[b] :]
    shift = design.cuts[s] - start if place < 0 else place - design.starts[b, 0]
    for e in range(start, design.starts[b, s + 1]):
        r = e + shift if place < 0 else np.int64(design.rows[e + shift])
        x = design.values[e] if design.values.size else ONE
        chain.inner[r] += share * x * steps[2 * np.int64(design.ids[e]) + 1]


@compiled
def update_inner_run(design, a, b, x0, d, chain):
    """Take a step d of a feature, times the weight of its field, into q' of its rows a .. b - 1."""
    for r in range(a, b):
        chain.inner[r] += d * (design.values[x0 + r] if design.values.size else ONE)


@entry
def collect_scores(design, errors, totals, collects):
    """Add the scores to totals if they are collected; return the weighted sum of squared errors."""
    loss = 0.0
    for r in range(errors.size):
        g = design.weights[r] if design.weights.size else ONE
        error = np.float64(errors[r])
        loss += g * error * error
        if collects:
            totals[r] += design.labels[r] - error
    return loss
