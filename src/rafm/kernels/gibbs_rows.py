"""Passes of Gibbs sampling over the rows: sums, moments A and B, and updates. Names are those of gibbs_tables.py."""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import compiled, entry
from .tables import ONE, ZERO

TWO, UNIT = np.uint64(2), np.uint64(1)
CHUNK_ROWS = 1024  # rows whose sums stay in the cache while all blocks are added


@compiled
def span_of(design, b, s, i):
    """Return the first and one past the last position of the nonzeros of feature i of a block in part s."""
    place = design.places[b] + s * (design.bounds[b + 1] - design.bounds[b]) + i
    return design.spans[place], design.spans[place + 1]


@compiled
def add_chunk(design, b, chunk, numbers, share, sums, squared):
    """Add share x v of one leading block to the rows of a chunk."""
    shift, start, stop = design.starts[b], chunk[0], min(chunk[1], design.starts[b + 1] - design.starts[b])
    if stop <= start:
        return
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
def add_span(design, a, end, v, sums, squared):
    """Add x v of one feature to its rows."""
    rows = design.ids[a:end]
    if design.values.size:
        values = design.values[a:end]
        for e in range(rows.size):
            x = values[e]
            sums[np.uint64(rows[e])] += (x * x if squared else x) * v
    else:
        for e in range(rows.size):
            sums[np.uint64(rows[e])] += v


@compiled
def add_spans(design, b, s, numbers, share, sums, squared):
    """Add share x v of one block, spans by spans, to the rows of part s."""
    first = design.bounds[b]
    for i in range(design.bounds[b + 1] - first):
        a, end = span_of(design, b, s, i)
        add_span(design, a, end, share * numbers[first + i], sums, squared)


@compiled
def sum_rows(design, s, numbers, shares, sums, squared):
    """Set sums to the sum of x v, or of x^2 v, of each row of part s, times the share of the feature's field."""
    for start in range(design.cuts[s], design.cuts[s + 1], CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, design.cuts[s + 1])
        for r in range(start, stop):
            sums[r] = ZERO
        for b in range(design.places.size):
            if design.places[b] < 0:
                add_chunk(design, b, (start, stop), numbers, shares[design.fields[b]], sums, squared)
    for b in range(design.places.size):
        if design.places[b] >= 0:
            add_spans(design, b, s, numbers, shares[design.fields[b]], sums, squared)


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
    """Add g h^2 and g h e of a block that every row has, for any values and row weights."""
    values, weights, start = design.values, design.weights, design.starts[b]
    for r in range(design.cuts[s], design.cuts[s + 1]):
        i, x = np.int64(design.ids[start + r]), (values[start + r] if values.size else ONE)
        h = x * (chain.sums[r] - x * own * numbers[i])
        g = weights[r] * h if weights.size else h
        t = 2 * ((r & design.lanes[b]) * numbers.size + i)
        table[t] += g * h
        table[t + 1] += g * chain.errors[r]


@compiled
def moments_of_valued(rows, values, weights, errors, sums, v):
    """Return A and B of a feature with these values in these rows."""
    square, product = ZERO, ZERO
    if weights.size:
        for e in range(rows.size):
            r, x = np.uint64(rows[e]), values[e]
            h = x * (sums[r] - x * v)
            g = weights[r] * h
            square += g * h
            product += g * errors[r]
    else:
        for e in range(rows.size):
            r, x = np.uint64(rows[e]), values[e]
            h = x * (sums[r] - x * v)
            square += h * h
            product += h * errors[r]
    return np.float64(square), np.float64(product)


@compiled
def moments_of_ones(rows, weights, errors, sums, v):
    """Return A and B of a feature of value 1 in these rows."""
    square, product = ZERO, ZERO
    for e in range(rows.size):
        r = np.uint64(rows[e])
        h = sums[r] - v
        g = weights[r] * h if weights.size else h
        square += g * h
        product += g * errors[r]
    return np.float64(square), np.float64(product)


@compiled
def moments_of_span(design, a, end, v, chain):
    """Return A and B of a feature of a part; v: its part of q."""
    A, B = 0.0, 0.0
    for start in range(a, end, CHUNK_ROWS):  # single precision within a chunk, double across
        own = slice(start, min(start + CHUNK_ROWS, end))
        rows = design.ids[own]
        if design.values.size:
            found = moments_of_valued(rows, design.values[own], design.weights, chain.errors, chain.sums, v)
        else:
            found = moments_of_ones(rows, design.weights, chain.errors, chain.sums, v)
        A += found[0]
        B += found[1]
    return A, B


@compiled
def add_moments(design, b, s, numbers, own, chain):
    """Add the moments of a block in part s to its table; own: how much of q is v of the feature itself."""
    first, stop, lanes = design.bounds[b], design.bounds[b + 1], design.lanes[b]
    table = chain.moments[2 * s * (lanes + 1) * (stop - first) :]
    if design.places[b] >= 0:
        for i in range(stop - first):
            a, end = span_of(design, b, s, i)
            table[2 * i], table[2 * i + 1] = moments_of_span(design, a, end, own * numbers[first + i], chain)
    elif design.values.size + design.weights.size == 0:
        rows = slice(design.cuts[s], design.cuts[s + 1])
        ids = design.ids[design.starts[b] + rows.start : design.starts[b] + rows.stop]
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
    """Take the steps of a block that every row has into e and q, for any values."""
    for r in range(design.cuts[s], design.cuts[s + 1]):
        i, x = 2 * np.int64(design.ids[design.starts[b] + r]), design.values[design.starts[b] + r]
        d = x * steps[i + 1]
        chain.errors[r] -= (chain.sums[r] - x * steps[i]) * d
        chain.sums[r] += own * d


@compiled
def update_span(design, a, end, v, d, own, chain):
    """Take the step d of a feature, its part v of q before it, into e and q of its rows in a part."""
    rows, errors, sums = design.ids[a:end], chain.errors, chain.sums
    if design.values.size:
        values = design.values[a:end]
        for e in range(rows.size):
            r, x = np.uint64(rows[e]), values[e]
            q = sums[r]
            errors[r] -= x * d * (q - x * v)
            sums[r] = q + own * x * d
    else:
        for e in range(rows.size):
            r = np.uint64(rows[e])
            q = sums[r]
            errors[r] -= d * (q - v)
            sums[r] = q + own * d


@compiled
def update_rows(design, b, s, own, chain):
    """Take the steps of a block into e and q of the rows of part s; own is 0 for weights, where q is constant."""
    steps = chain.steps[2 * design.bounds[b] :]
    if design.places[b] >= 0:
        for i in range(design.bounds[b + 1] - design.bounds[b]):
            a, end = span_of(design, b, s, i)
            update_span(design, a, end, steps[2 * i], steps[2 * i + 1], own, chain)
    elif design.values.size == 0:
        rows = slice(design.cuts[s], design.cuts[s + 1])
        ids = design.ids[design.starts[b] + rows.start : design.starts[b] + rows.stop]
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
    steps = chain.steps[2 * design.bounds[b] :]
    if design.places[b] >= 0:
        for i in range(design.bounds[b + 1] - design.bounds[b]):
            a, end = span_of(design, b, s, i)
            add_span(design, a, end, share * steps[2 * i + 1], chain.inner, False)
    else:
        for r in range(design.cuts[s], design.cuts[s + 1]):
            e = design.starts[b] + r
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
