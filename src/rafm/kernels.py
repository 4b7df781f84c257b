"""Compiled code: scores and two-phase mini-batch training of LR, FM, DiFacto and RaFM.

Features are numbered by falling level, so in a row sorted by id those of level k or more are a prefix.

    i       feature, 0 <= i < sizes[0]
    k       level of a feature: how many vectors it has, 0 <= k <= m
    p       a block: the vectors of rank D_{p+1}, 0 <= p < m; feature i has block p if i < sizes[p + 1]
    r, t    a data row; its place in the mini-batch
    e, a, b position of a nonzero; first and one past the last of a row
    x       value of a nonzero
    o       where a feature's record starts in `records`
    S, T    per row and block: sum of v x over all features that have the block, and over those that have more;
            after the forward pass T holds the direction that pulls on dependent factors
    g       slope of the loss in the score; of the dependent loss in B_{1,p+1}

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. Vectors are padded
with zeros to multiples of 4 elements, which stay zero. Numba's disk cache notices edits of this file and vectors.py
alone, so compiled code calls nothing else of ours.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

from .vectors import add_scaled, combine, combined_norm, compiled, entry, prefetch

SQUARED, LOGISTIC = 0, 1
SGD, ADAGRAD = 0, 1
AHEAD, FETCHED, LINE = 2, 64, 16  # ask for records two rows ahead, four cache lines of 16 numbers each
NEAR = 1 << 19  # records of up to so many numbers stay in the cache by themselves
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


class Rows(NamedTuple):
    """Data rows in CSR form, ids ascending within a row."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Tables(NamedTuple):
    """Where everything lies; arithmetic replaces per-feature tables. See parameters.py."""

    sizes: np.ndarray  # features of level >= k, for k = 0 .. m; then 0
    origins: np.ndarray  # per level: o = origins[k] + i * strides[k]
    strides: np.ndarray
    offsets: np.ndarray  # per block: its vector within the record
    widths: np.ndarray  # per block: padded rank
    starts: np.ndarray  # per block: its place in the sums S and T; then their length
    shares: np.ndarray  # per block: 1 / rank
    heads: np.ndarray  # per level: its first so many features are heads
    head_origins: np.ndarray  # per level: where heads sum their gradients
    nested: bool  # RaFM: lower blocks of a feature depend on its top one


class Settings(NamedTuple):
    """What the update rules need; scalars are of the records' type."""

    loss: int
    joint: bool
    dependent_weight: float
    optimizer: int
    learning_rate: float
    l2: np.ndarray  # per block
    l2_weights: float


class Work(NamedTuple):
    """Scratch of one mini-batch."""

    sums: np.ndarray  # per row: S, then T, block after block
    places: np.ndarray  # of one row's nonzeros, see locate_row and aim_row
    ends: np.ndarray
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    heads: np.ndarray  # gradient sums, laid out like records


# ---- Losses


@compiled
def link(loss, score):
    """Return the prediction that belongs to a score."""
    return ONE / (ONE + np.exp(-score)) if loss == LOGISTIC else score


@compiled
def loss_value(loss, score, label):
    """Return the loss of one row: log loss, or half the squared error."""
    if loss == LOGISTIC:
        return max(score, ZERO) - score * label + np.log1p(np.exp(-abs(score)))
    return HALF * (score - label) * (score - label)


# ---- Walking a row


@compiled
def locate_row(rows, r, tables, records, places, ends):
    """Return the linear part; set places to the row's records, ends[k] to where features of level >= k stop."""
    a, b = rows.indptr[r], rows.indptr[r + 1]
    linear, e = ZERO, a
    for k in range(tables.strides.size - 1, -1, -1):
        origin, stride, size = tables.origins[k], tables.strides[k], tables.sizes[k]
        while e < b and rows.indices[e] < size:
            o = origin + rows.indices[e] * stride
            places[e - a] = o
            linear += records[o] * rows.values[e]
            e += 1
        ends[k] = e
    return linear


@compiled
def first_free(a, p, level, tables, ends):
    """Return where the row's features that have no block after p begin; those before it are dependent in block p."""
    return ends[p + 2] if tables.nested and p + 1 < level else a


@compiled
def add_vectors(rows, first, stop, places, shift, records, sums, j, n):
    """Add v x of the nonzeros [first, stop) to a sum; return their squared norms, summed."""
    norm = ZERO
    for e in range(first, stop):
        x = rows.values[e]
        norm += add_scaled(records, places[e - first] + shift, sums, j, n, x, x)
    return norm


@compiled
def half_pairs(sums, j, n, norm):
    """Return the pair products behind a sum: (|sum v x|^2 - sum |v x|^2) / 2."""
    return HALF * (combined_norm(sums, j, sums, j, n, ONE, ZERO) - norm)


# ---- Phase 1: rows, from the parameters at the start of the batch


@compiled
def sum_block(rows, a, p, tables, records, work, t):
    """Fill S and T of one block of a row; return A_{p,p} and A_{p,p+1}."""
    m = tables.widths.size
    j, n, shift = 2 * t * tables.starts[m] + tables.starts[p], tables.widths[p], tables.offsets[p]
    free, norm, inner = first_free(a, p, m, tables, work.ends), ZERO, ZERO
    work.sums[j : j + n] = 0
    if free > a:
        norm += add_vectors(rows, a, free, work.places, shift, records, work.sums, j, n)
        inner = half_pairs(work.sums, j, n, norm)
        for f in range(j, j + n):
            work.sums[tables.starts[m] + f] = work.sums[f]
    norm += add_vectors(rows, free, work.ends[p + 1], work.places[free - a :], shift, records, work.sums, j, n)
    return half_pairs(work.sums, j, n, norm), inner


@compiled
def forward(rows, r, tables, records, bias, settings, work, t):
    """Compute the loss of a row and all that pulls on its features: S, T and the slopes."""
    m, a, top = tables.widths.size, rows.indptr[r], 0
    slopes, weight = work.slopes[t], rows.weights[r]
    score, excess = bias + locate_row(rows, r, tables, records, work.places, work.ends), ZERO
    while top < m and work.ends[top + 1] > a:  # until the prediction is known, slopes[p] holds B_{1,p+1}
        whole, inner = sum_block(rows, a, top, tables, records, work, t)
        score += whole - excess
        excess, slopes[top] = inner, score
        top += 1
    work.losses[t] = weight * loss_value(settings.loss, score, rows.labels[r])
    prediction = link(settings.loss, score)
    slopes[m] = weight * (prediction - rows.labels[r])
    if tables.nested:
        pull_dependents(tables, settings, work, t, top, weight, prediction)


@compiled
def pull_dependents(tables, settings, work, t, top, weight, prediction):
    """Turn T into the direction of dependent factors: g_p S, plus g (S - T) by the joint rule."""
    m = tables.widths.size
    slopes, upper = work.slopes[t], prediction
    free = slopes[m] if settings.joint else ZERO
    for p in range(top - 2, -1, -1):
        lower = link(settings.loss, slopes[p])
        slopes[p] = weight * settings.dependent_weight * (lower - upper)
        upper = lower
        j = 2 * t * tables.starts[m] + tables.starts[p]
        combine(work.sums, j + tables.starts[m], work.sums, j, tables.widths[p], -free, slopes[p] + free)


# ---- Phase 2: features, rows in order


@compiled
def step_size(records, state, mean_square, settings):
    """Take a gradient's mean square into the state; return the length of the step."""
    if settings.optimizer == SGD:
        return settings.learning_rate
    records[state] += mean_square
    return settings.learning_rate / np.sqrt(records[state])


@compiled
def update_weight(records, o, slope, decay, settings):
    """Step a linear weight along slope + decay * weight."""
    gradient = slope + decay * records[o]
    records[o] -= step_size(records, o + 1, gradient * gradient, settings) * gradient


@compiled
def update_vector(records, o, p, sums, j, c, d, tables, settings):
    """Step the vector of block p along c * sum + d * vector."""
    place, n, square = o + tables.offsets[p], tables.widths[p], ZERO
    if settings.optimizer != SGD:
        square = combined_norm(records, place, sums, j, n, d, c) * tables.shares[p]
    step = step_size(records, o + 2 + p, square, settings)
    combine(records, place, sums, j, n, ONE - step * d, -step * c)


@compiled
def aim_row(rows, r, tables, places, ends):
    """Set places to the row's records, or for heads to -1 - the place of their sums; and ends as locate_row does."""
    a, b = rows.indptr[r], rows.indptr[r + 1]
    e = a
    for k in range(tables.strides.size - 1, -1, -1):
        stride, heads = tables.strides[k], tables.sizes[k + 1] + tables.heads[k]
        while e < b and rows.indices[e] < heads:
            places[e - a] = -1 - tables.head_origins[k] - rows.indices[e] * stride
            e += 1
        while e < b and rows.indices[e] < tables.sizes[k]:
            places[e - a] = tables.origins[k] + rows.indices[e] * stride
            e += 1
        ends[k] = e


@compiled
def update_weights(rows, r, slope, tables, records, settings, work):
    """Update the linear weights of a row's tail features; add slope and row weight to the sums of its heads."""
    a, weight = rows.indptr[r], rows.weights[r]
    for e in range(a, rows.indptr[r + 1]):
        o = work.places[e - a]
        if o >= 0:
            update_weight(records, o, slope * rows.values[e], weight * settings.l2_weights, settings)
        else:
            work.heads[-1 - o] += slope * rows.values[e]
            work.heads[-o] += weight


@compiled
def update_block(rows, first, stop, places, p, j, c, g, decay, tables, records, settings, work):
    """Update block p of the nonzeros [first, stop), whose gradient is x c sums[j:] + (decay - g x^2) v."""
    shift, n = tables.offsets[p], tables.widths[p]
    for e in range(first, stop):
        o, x = places[e - first], rows.values[e]
        d = decay - g * x * x
        if o >= 0:
            update_vector(records, o, p, work.sums, j, c * x, d, tables, settings)
        else:
            work.heads[1 - o + p] += d
            combine(work.heads, shift - 1 - o, work.sums, j, n, ONE, c * x)


@compiled
def update_row(rows, r, tables, records, settings, work, t):
    """Update the tail features of a row in place, and add its part to the sums of its heads."""
    m, a, places = tables.widths.size, rows.indptr[r], work.places
    slopes, weight = work.slopes[t], rows.weights[r]
    aim_row(rows, r, tables, places, work.ends)
    update_weights(rows, r, slopes[m], tables, records, settings, work)
    for p in range(m):
        stop, j = work.ends[p + 1], 2 * t * tables.starts[m] + tables.starts[p]
        if stop == a:
            break
        free, g, decay = first_free(a, p, m, tables, work.ends), slopes[m], weight * settings.l2[p]
        if free > a:
            pulls = j + tables.starts[m]
            update_block(rows, a, free, places, p, pulls, ONE, slopes[p], decay, tables, records, settings, work)
        update_block(rows, free, stop, places[free - a :], p, j, g, g, decay, tables, records, settings, work)


@compiled
def update_heads(tables, records, settings, work):
    """Update every head that occurred in the batch once, by its summed gradient, and clear the sums."""
    for k in range(tables.heads.size):
        first = tables.sizes[k + 1]
        for i in range(first, first + tables.heads[k]):
            h = tables.head_origins[k] + i * tables.strides[k]
            o = tables.origins[k] + i * tables.strides[k]
            if work.heads[h + 1] == 0:
                continue
            update_weight(records, o, work.heads[h], work.heads[h + 1] * settings.l2_weights, settings)
            for p in range(k):
                place, d = h + tables.offsets[p], work.heads[h + 2 + p]
                update_vector(records, o, p, work.heads, place, ONE, d, tables, settings)
            work.heads[h : h + tables.strides[k]] = 0


@compiled
def fetch_rows(rows, order, first, stop):
    """Ask for the rows order[first:stop], so that their cache misses overlap."""
    for t in range(first, stop):
        r = order[t]
        a, b = rows.indptr[r], rows.indptr[r + 1]
        prefetch(rows.labels, r)
        prefetch(rows.weights, r)
        for e in range(a, b, 16):
            prefetch(rows.indices, e)
            prefetch(rows.values, e)
        prefetch(rows.indices, b)
        prefetch(rows.values, b)


@compiled
def fetch_records(rows, r, tables, records):
    """Ask for the first lines of the records of a row's features."""
    e, b = rows.indptr[r], rows.indptr[r + 1]
    for k in range(tables.widths.size, -1, -1):
        while e < b and rows.indices[e] < tables.sizes[k]:
            o = tables.origins[k] + rows.indices[e] * tables.strides[k]
            for line in range(o, o + min(tables.strides[k], FETCHED), LINE):
                prefetch(records, line)
            e += 1


@entry
def train_rows(rows, order, tables, records, bias, settings, work):
    """Train on rows in the given order; return the summed loss and where it stopped being finite (or -1).

    bias is [bias, its state]. One mini-batch after the other: all rows forward, then all updates.
    """
    total, size, far = 0.0, work.losses.size, records.size > NEAR
    for first in range(0, order.size, size):
        rest = min(size, order.size - first)
        fetch_rows(rows, order, first, first + rest)
        for t in range(rest):
            if far and t + AHEAD < rest:
                fetch_records(rows, order[first + t + AHEAD], tables, records)
            forward(rows, order[first + t], tables, records, bias[0], settings, work, t)
        batch, slope = work.losses[:rest].sum(), work.slopes[:rest, -1].sum()
        if not np.isfinite(batch):
            return total, first
        total += batch
        for t in range(rest):
            update_row(rows, order[first + t], tables, records, settings, work, t)
        update_heads(tables, records, settings, work)
        bias[0] -= step_size(bias, 1, slope * slope, settings) * slope
    return total, -1


# ---- Scores


@compiled
def score_block(rows, a, free, p, tables, records, work):
    """Return what block p adds to the score: its pairs with at least one free member.

    With T over the dependent features [a, free) and S over all: (|S|^2 - |T|^2 - sum over the free of |v x|^2) / 2.
    """
    n, shift, dependent, sums = tables.widths[p], tables.offsets[p], ZERO, work.sums
    sums[:n] = 0
    if free > a:
        add_vectors(rows, a, free, work.places, shift, records, sums, 0, n)
        dependent = combined_norm(sums, 0, sums, 0, n, ONE, ZERO)
    norm = add_vectors(rows, free, work.ends[p + 1], work.places[free - a :], shift, records, sums, 0, n)
    return half_pairs(sums, 0, n, dependent + norm)


@compiled
def score_row(rows, r, tables, records, level, work):
    """Return B_{1,level} less the bias. Blocks without a free feature, or with a single one, cancel and are skipped."""
    a = rows.indptr[r]
    score = locate_row(rows, r, tables, records, work.places, work.ends)
    for p in range(level):
        free, stop = first_free(a, p, level, tables, work.ends), work.ends[p + 1]
        if free < stop and a + 1 < stop:
            score += score_block(rows, a, free, p, tables, records, work)
    return score


@entry
def score_rows(rows, tables, records, bias, level, work, scores):
    """Write B_{1,level} of every row into scores."""
    for r in range(scores.size):
        scores[r] = bias + score_row(rows, r, tables, records, level, work)
