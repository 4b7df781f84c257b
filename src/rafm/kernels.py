"""Compiled code: scores and two-phase mini-batch training of LR, FM, DiFacto and RaFM.

Features are numbered by falling level, so in a row sorted by id those of level k or more are a prefix.

    i       feature, 0 <= i < sizes[0]
    k       level of a feature: how many vectors it has, 0 <= k <= m
    p       a block: the vectors of rank D_{p+1}, 0 <= p < m; feature i has block p if i < sizes[p + 1]
    r, t    a data row; its place in the mini-batch
    e, a, b position of a nonzero; first and one past the last of a row
    x       value of a nonzero
    o       where a feature's record starts in `records`
    q       position among the nonzeros of a row that a thread owns
    S, T    per row and block: sum of v x over all features that have the block, and over those that have more;
            after the forward pass T holds the direction that pulls on dependent factors
    g       slope of the loss in the score; of the dependent loss in B_{1,p+1}

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. FTRL and Adam have one
more state of the weight before those of the blocks, and one or two shadows of equal size after each vector. Vectors are
padded with zeros to multiples of 4 elements, which stay zero. Numba's disk cache notices edits of this file, vectors.py
and barrier.py alone, so compiled code calls nothing else of ours.

Threads share the rows of a mini-batch in the first phase and the features in the second. Whatever is done to a feature
is done by its owner, in the order of the rows, so the numbers do not depend on how many threads there are.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

from .barrier import wait_for
from .vectors import add_scaled, clear, combine, combined_norm, compiled, entry, join, prefetch, prefetch_shared

SQUARED, LOGISTIC = 0, 1
SGD, ADAGRAD, FTRL, ADAM = 0, 1, 2, 3
SLOW, SLOWER, TINY = np.float32(0.9), np.float32(0.999), np.float32(1e-8)  # Adam's decays, and its least root
AHEAD, FETCHED, LINE = 2, 64, 16  # ask for records two rows ahead, four cache lines of 16 numbers each
NEAR = 1 << 19  # records of up to so many numbers stay in the cache by themselves
GROUPS = 2  # sums over a row are taken by groups of features, so that threads can share them
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
    part: int  # size of a group's part of S and T, with scalars before them
    skip: int  # size of these scalars
    starts: np.ndarray  # per block: its place in the sums S and T; then their length
    shares: np.ndarray  # per block: 1 / rank
    bounds: np.ndarray  # per level: where the groups of its heads begin; then those of the others; see groups.py
    head_origins: np.ndarray  # per level: where heads sum their gradients
    states: int  # where the states of blocks begin within a record
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
    l1: float  # of FTRL, per root of a vector's rank
    l1_weights: float


class Work(NamedTuple):
    """Scratch of one mini-batch. Lists of nonzeros and ends are each thread's own, all else is shared."""

    sums: np.ndarray  # per row: S, then T, block after block
    parts: np.ndarray  # per row and group of features: its linear part, per block squared norms in S and T; S and T
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    heads: np.ndarray  # gradient sums, laid out like records
    lists: np.ndarray  # per row and listed nonzero: its record, -1 or where its head sums, its group; see list_row
    values: np.ndarray  # per row and listed nonzero: x
    ends: np.ndarray  # per row: where listed nonzeros of level >= k stop


class Scratch(NamedTuple):
    """Scratch of scoring."""

    sums: np.ndarray  # of one block of one row
    places: np.ndarray  # of one row's nonzeros, see locate_row
    ends: np.ndarray


class Team(NamedTuple):
    """Which thread this is and of how many."""

    thread: int
    threads: int
    first: int  # its groups are these to `stop`
    stop: int
    gate: np.ndarray  # where threads wait for one another


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


# ---- Phase 1: rows, from the parameters at the start of the batch


@compiled
def first_free(a, p, level, tables, ends):
    """Return where the row's features that have no block after p begin; those before it are dependent in block p."""
    return ends[p + 2] if tables.nested and p + 1 < level else a


@compiled
def list_row(rows, r, tables, team, work, t):
    """List the row's nonzeros that this thread owns, and where those of each level stop."""
    e, b, q = rows.indptr[r], rows.indptr[r + 1], 0
    for k in range(tables.strides.size - 1, -1, -1):
        bounds = tables.bounds[k]
        e, q = list_some(rows, e, b, q, bounds[0], tables.origins[k], tables.head_origins[k], k, tables, team, work, t)
        e, q = list_some(rows, e, b, q, bounds[1], tables.origins[k], -1, k, tables, team, work, t)
        work.ends[t, k] = q


@compiled
def list_some(rows, e, b, q, bounds, origin, head_origin, k, tables, team, work, t):
    """List nonzeros of one level's heads, or of its others if head_origin is -1, from e on; return the new e and q."""
    stride, second, stop = tables.strides[k], bounds[1], bounds[GROUPS]
    records, sums, groups, values = work.lists[0, t], work.lists[1, t], work.lists[2, t], work.values[t]
    first, last = team.first, team.stop
    while e < b and rows.indices[e] < stop:
        i = rows.indices[e]
        group = np.int64(i >= second)
        records[q], groups[q], values[q] = origin + i * stride, group, rows.values[e]
        sums[q] = head_origin + i * stride if head_origin != -1 else -1
        q += (group >= first) & (group < last)
        e += 1
    return e, q


@compiled
def add_listed(first, stop, p, tables, records, work, t, s):
    """Add v x of the listed nonzeros [first, stop) to their groups' parts of S; and their squared norms to theirs."""
    shift, n, j = tables.offsets[p], tables.widths[p], tables.skip + tables.starts[p]
    for q in range(first, stop):
        x, part = work.values[t, q], (s * GROUPS + work.lists[2, t, q]) * tables.part
        square = add_scaled(records, work.lists[0, t, q] + shift, work.parts, part + j, n, x, x)
        work.parts[part + 1 + 2 * p] += square


@compiled
def sum_groups(rows, r, tables, records, team, work, t, s):
    """Add up this thread's groups of a row: linear part, S and T of every block, squared norms."""
    m, ends, a = tables.widths.size, work.ends[t], rows.indptr[r]
    list_row(rows, r, tables, team, work, t)
    first, stop = s * GROUPS + team.first, s * GROUPS + team.stop
    for group in range(first, stop):
        clear(work.parts, group * tables.part, tables.skip)
    for q in range(ends[0]):
        part = (s * GROUPS + work.lists[2, t, q]) * tables.part
        work.parts[part] += records[work.lists[0, t, q]] * work.values[t, q]
    highest = rows.indices[a] if a < rows.indptr[r + 1] else tables.sizes[0]
    for p in range(m):
        if highest >= tables.sizes[p + 1]:
            break
        free = first_free(0, p, m, tables, ends)
        clear_parts(first, stop, p, tables, work)
        if tables.nested and highest < tables.sizes[p + 2]:
            add_listed(0, free, p, tables, records, work, t, s)
            keep_dependents(first, stop, p, tables, work)
        add_listed(free, ends[p + 1], p, tables, records, work, t, s)


@compiled
def clear_parts(first, stop, p, tables, work):
    """Clear the parts of S of block p of some groups."""
    for group in range(first, stop):
        clear(work.parts, group * tables.part + tables.skip + tables.starts[p], tables.widths[p])


@compiled
def keep_dependents(first, stop, p, tables, work):
    """Copy S and norms of groups as they are into T and its norms: only dependent features were added so far."""
    n, m = tables.widths[p], tables.widths.size
    for group in range(first, stop):
        part = group * tables.part
        work.parts[part + 2 + 2 * p] = work.parts[part + 1 + 2 * p]
        j = part + tables.skip + tables.starts[p]
        clear(work.parts, j + tables.starts[m], n)
        combine(work.parts, j + tables.starts[m], work.parts, j, n, ZERO, ONE)


@compiled
def join_scalars(tables, work, s, scalar):
    """Return the sum of a scalar over the groups."""
    first, part = s * GROUPS * tables.part + scalar, tables.part
    return work.parts[first] + work.parts[first + part]


@compiled
def join_groups(j, tables, work, s, place, n, scalar):
    """Add up the groups' parts of a sum, in fixed order, into sums[j:]; return the pair products behind it."""
    first = s * GROUPS * tables.part + tables.skip + place
    square = join(work.parts, first, tables.part, work.sums, j, n)
    return HALF * (square - join_scalars(tables, work, s, scalar))


@compiled
def forward(rows, r, tables, bias, settings, work, t, s):
    """Compute the loss of a row and all that pulls on its features, from its groups: S, T and the slopes."""
    m, a, top = tables.widths.size, rows.indptr[r], 0
    slopes, weight = work.slopes[t], rows.weights[r]
    score, excess = bias + join_scalars(tables, work, s, 0), ZERO
    highest = rows.indices[a] if a < rows.indptr[r + 1] else tables.sizes[0]
    while top < m and highest < tables.sizes[top + 1]:  # until the prediction is known, slopes[p] holds B_{1,p+1}
        start, n = tables.starts[top], tables.widths[top]
        j = 2 * t * tables.starts[m] + start
        score += join_groups(j, tables, work, s, start, n, 1 + 2 * top) - excess
        excess = ZERO
        if tables.nested and highest < tables.sizes[top + 2]:
            excess = join_groups(j + tables.starts[m], tables, work, s, start + tables.starts[m], n, 2 + 2 * top)
        slopes[top] = score
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
def step_size(records, state, mean_square, rate, settings):
    """Take a gradient's mean square into the state of SGD or AdaGrad; return the length of the step."""
    if settings.optimizer == SGD:
        return rate
    records[state] += mean_square
    return rate / np.sqrt(records[state])


@compiled
def update_number(records, o, gradient, l1, rate, settings):
    """Step the number at o, which has its states after it, along its gradient."""
    if settings.optimizer == FTRL:
        before = np.sqrt(records[o + 1])
        records[o + 1] += gradient * gradient
        after = np.sqrt(records[o + 1])
        records[o + 2] += gradient - (after - before) / rate * records[o]
        z = records[o + 2]
        records[o] = -rate / after * (max(z - l1, ZERO) + min(z + l1, ZERO))
    elif settings.optimizer == ADAM:
        records[o + 1] += (ONE - SLOWER) * (gradient * gradient - records[o + 1])
        records[o + 2] += (ONE - SLOW) * (gradient - records[o + 2])
        records[o] -= rate * records[o + 2] / (np.sqrt(records[o + 1]) + TINY)
    else:
        records[o] -= step_size(records, o + 1, gradient * gradient, rate, settings) * gradient


@compiled
def update_weight(records, o, slope, decay, rate, settings):
    """Step a linear weight along slope + decay * weight."""
    update_number(records, o, slope + decay * records[o], settings.l1_weights, rate, settings)


@compiled
def update_vector(records, o, p, sums, j, c, d, rate, tables, settings):
    """Step the vector of block p along c * sum + d * vector."""
    if settings.optimizer == FTRL:
        follow_leader(records, o, p, sums, j, c, d, rate, tables, settings)
    elif settings.optimizer == ADAM:
        follow_moments(records, o + tables.offsets[p], tables.widths[p], sums, j, c, d, rate)
    else:
        place, n, square = o + tables.offsets[p], tables.widths[p], ZERO
        if settings.optimizer != SGD:
            square = combined_norm(records, place, sums, j, n, d, c) * tables.shares[p]
        step = step_size(records, o + tables.states + p, square, rate, settings)
        combine(records, place, sums, j, n, ONE - step * d, -step * c)


@compiled
def follow_leader(records, o, p, sums, j, c, d, rate, tables, settings):
    """Take a gradient into FTRL's z, after the vector; the vector is z shrunk as a whole, then scaled.

    With L1 of 0 this is row-wise AdaGrad.
    """
    n, place, state = tables.widths[p], o + tables.offsets[p], o + tables.states + p
    z, before = place + n, np.sqrt(records[state])
    records[state] += combined_norm(records, place, sums, j, n, d, c) * tables.shares[p]
    after = np.sqrt(records[state])
    combine(records, z, sums, j, n, ONE, c)
    combine(records, z, records, place, n, ONE, d - (after - before) / rate)
    size, least = np.sqrt(combined_norm(records, z, records, z, n, ONE, ZERO)), settings.l1 / np.sqrt(tables.shares[p])
    kept = ONE - least / size if size > least else ZERO
    combine(records, place, records, z, n, ZERO, -kept * rate / after)


@compiled
def follow_moments(records, place, n, sums, j, c, d, rate):
    """Take a gradient into Adam's two moments, after the vector, number by number; step along the first."""
    for f in range(place, place + n):
        gradient = c * sums[j + f - place] + d * records[f]
        records[f + n] += (ONE - SLOW) * (gradient - records[f + n])
        records[f + 2 * n] += (ONE - SLOWER) * (gradient * gradient - records[f + 2 * n])
        records[f] -= rate * records[f + n] / (np.sqrt(records[f + 2 * n]) + TINY)


@compiled
def rate_of(bias, settings):
    """Return the learning rate of a mini-batch; Adam's makes up for moments that start at 0, by the batches so far."""
    if settings.optimizer != ADAM:
        return settings.learning_rate
    age = bias[3] + ONE
    return settings.learning_rate * np.sqrt(ONE - SLOWER**age) / (ONE - SLOW**age)


@compiled
def update_weights(slope, weight, rate, records, settings, work, t):
    """Update the linear weights of a row's tail features; add slope and row weight to the sums of its heads."""
    for q in range(work.ends[t, 0]):
        h, x = work.lists[1, t, q], work.values[t, q]
        if h < 0:
            update_weight(records, work.lists[0, t, q], slope * x, weight * settings.l2_weights, rate, settings)
        else:
            work.heads[h] += slope * x
            work.heads[h + 1] += weight


@compiled
def update_block(first, stop, p, j, c, g, decay, rate, tables, records, settings, work, t):
    """Update block p of the listed nonzeros [first, stop), whose gradient is x c sums[j:] + (decay - g x^2) v."""
    shift, n = tables.offsets[p], tables.widths[p]
    for q in range(first, stop):
        h, x = work.lists[1, t, q], work.values[t, q]
        d = decay - g * x * x
        if h < 0:
            update_vector(records, work.lists[0, t, q], p, work.sums, j, c * x, d, rate, tables, settings)
        else:
            work.heads[h + tables.states + p] += d
            combine(work.heads, h + shift, work.sums, j, n, ONE, c * x)


@compiled
def update_row(rows, r, rate, tables, records, settings, work, t):
    """Update this thread's tail features of a row in place, and add its part to the sums of its heads."""
    m, slopes, weight, ends = tables.widths.size, work.slopes[t], rows.weights[r], work.ends[t]
    update_weights(slopes[m], weight, rate, records, settings, work, t)
    for p in range(m):
        j = 2 * t * tables.starts[m] + tables.starts[p]
        if ends[p + 1] == 0:
            break
        free, g, decay = first_free(0, p, m, tables, ends), slopes[m], weight * settings.l2[p]
        if free > 0:
            pulls = j + tables.starts[m]
            update_block(0, free, p, pulls, ONE, slopes[p], decay, rate, tables, records, settings, work, t)
        update_block(free, ends[p + 1], p, j, g, g, decay, rate, tables, records, settings, work, t)


@compiled
def update_heads(rate, tables, records, settings, team, work):
    """Update every head of this thread that occurred in the batch once, by its summed gradient; clear the sums."""
    for k in range(tables.strides.size):
        stride = tables.strides[k]
        for i in range(tables.bounds[k, 0, team.first], tables.bounds[k, 0, team.stop]):
            h = tables.head_origins[k] + i * stride
            if work.heads[h + 1] != 0:
                update_head(tables.origins[k] + i * stride, h, k, rate, tables, records, settings, work)


@compiled
def update_head(o, h, k, rate, tables, records, settings, work):
    """Update one head of level k by its sums at h, and clear them."""
    update_weight(records, o, work.heads[h], work.heads[h + 1] * settings.l2_weights, rate, settings)
    for p in range(k):
        place, d = h + tables.offsets[p], work.heads[h + tables.states + p]
        update_vector(records, o, p, work.heads, place, ONE, d, rate, tables, settings)
    for f in range(h, h + tables.strides[k]):
        work.heads[f] = 0


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
def fetch_records(rows, r, tables, records, team):
    """Ask for the first lines of the records of this thread's features of a row."""
    e, b = rows.indptr[r], rows.indptr[r + 1]
    for k in range(tables.widths.size, -1, -1):
        low, high, size = tables.bounds[k, 1, team.first], tables.bounds[k, 1, team.stop], tables.sizes[k]
        while e < b and rows.indices[e] < size:
            i = rows.indices[e]
            o = tables.origins[k] + i * tables.strides[k]
            if low <= i < high:  # heads stay in the cache by themselves
                for line in range(o, o + min(tables.strides[k], FETCHED), LINE):
                    prefetch(records, line)
            e += 1


@compiled
def meet(team, arrivals):
    """Wait until all threads are here; return how many arrivals that makes."""
    arrivals += team.threads
    wait_for(team.gate, arrivals)
    return arrivals


@compiled
def forward_alone(rows, batch, tables, records, bias, settings, team, work):
    """Compute losses and slopes of a batch by one thread: row after row, all in the cache."""
    far = records.size > NEAR
    for t in range(batch.size):
        if far and t + AHEAD < batch.size:
            fetch_records(rows, batch[t + AHEAD], tables, records, team)
        sum_groups(rows, batch[t], tables, records, team, work, t, 0)
        forward(rows, batch[t], tables, bias, settings, work, t, 0)


@compiled
def forward_together(rows, batch, tables, records, bias, settings, team, work, arrivals):
    """Compute losses and slopes of a batch: each thread adds up its groups of all rows, then joins some rows."""
    far, size = records.size > NEAR, batch.size
    first, stop = team.thread * size // team.threads, (team.thread + 1) * size // team.threads
    fetch_parts(0, size, team.first, team.stop, tables, work)
    for t in range(size):
        if far and t + AHEAD < size:
            fetch_records(rows, batch[t + AHEAD], tables, records, team)
        sum_groups(rows, batch[t], tables, records, team, work, t, t)
    arrivals = meet(team, arrivals)
    share_parts(first, stop, tables, work)
    for t in range(first, stop):
        forward(rows, batch[t], tables, bias, settings, work, t, t)
    arrivals = meet(team, arrivals)
    share_sums(0, size, tables, work)
    return arrivals


@compiled
def fetch_parts(first, stop, low, high, tables, work):
    """Ask for some groups' parts of some rows, to write them: other threads have read them."""
    for t in range(first, stop):
        for group in range(low, high):
            start = (t * GROUPS + group) * tables.part
            for line in range(start, start + min(tables.part, FETCHED), LINE):
                prefetch(work.parts, line)


@compiled
def share_parts(first, stop, tables, work):
    """Ask for all groups' parts of some rows, to read them."""
    for t in range(first, stop):
        for group in range(GROUPS):
            start = (t * GROUPS + group) * tables.part
            for line in range(start, start + min(tables.part, FETCHED), LINE):
                prefetch_shared(work.parts, line)


@compiled
def share_sums(first, stop, tables, work):
    """Ask for the sums of some rows, to read them."""
    size = 2 * tables.starts[tables.widths.size]
    for t in range(first, stop):
        for line in range(t * size, t * size + min(size, FETCHED), LINE):
            prefetch_shared(work.sums, line)


@entry
def train_rows(rows, order, tables, records, bias, settings, team, work):
    """Train on rows in the given order; return the summed loss and where it stopped being finite (or -1).

    bias is [bias, its state, its second state, mini-batches so far]. One mini-batch after the other: all rows forward,
    then all updates. Every thread of a team calls this at the same time; all return the same.
    """
    total, size, arrivals = 0.0, work.losses.size, 0
    for first in range(0, order.size, size):
        batch = order[first : first + size]
        rate = rate_of(bias, settings)
        fetch_rows(rows, order, first, first + batch.size)
        if team.threads == 1:
            forward_alone(rows, batch, tables, records, bias[0], settings, team, work)
        else:
            arrivals = forward_together(rows, batch, tables, records, bias[0], settings, team, work, arrivals)
        loss, slope = work.losses[: batch.size].sum(), work.slopes[: batch.size, -1].sum()
        if not np.isfinite(loss):
            return total, first
        total += loss
        for t in range(batch.size):
            update_row(rows, batch[t], rate, tables, records, settings, work, t)
        update_heads(rate, tables, records, settings, team, work)
        if team.thread == 0:
            update_number(bias, 0, slope, ZERO, rate, settings)
            bias[3] += ONE
        if team.threads > 1:
            arrivals = meet(team, arrivals)
    return total, -1


# ---- Scores


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


@compiled
def score_block(rows, a, free, p, tables, records, scratch):
    """Return what block p adds to the score: its pairs with at least one free member.

    With T over the dependent features [a, free) and S over all: (|S|^2 - |T|^2 - sum over the free of |v x|^2) / 2.
    """
    n, shift, dependent, sums = tables.widths[p], tables.offsets[p], ZERO, scratch.sums
    clear(sums, 0, n)
    if free > a:
        add_vectors(rows, a, free, scratch.places, shift, records, sums, 0, n)
        dependent = combined_norm(sums, 0, sums, 0, n, ONE, ZERO)
    norm = add_vectors(rows, free, scratch.ends[p + 1], scratch.places[free - a :], shift, records, sums, 0, n)
    return half_pairs(sums, 0, n, dependent + norm)


@compiled
def score_row(rows, r, tables, records, level, scratch):
    """Return B_{1,level} less the bias. Blocks without a free feature, or with a single one, cancel and are skipped."""
    a = rows.indptr[r]
    score = locate_row(rows, r, tables, records, scratch.places, scratch.ends)
    for p in range(level):
        free, stop = first_free(a, p, level, tables, scratch.ends), scratch.ends[p + 1]
        if free < stop and a + 1 < stop:
            score += score_block(rows, a, free, p, tables, records, scratch)
    return score


@entry
def score_rows(rows, tables, records, bias, level, scratch, scores):
    """Write B_{1,level} of every row into scores."""
    for r in range(scores.size):
        scores[r] = bias + score_row(rows, r, tables, records, level, scratch)
