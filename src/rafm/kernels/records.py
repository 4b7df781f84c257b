"""Compiled code: scores and two-phase mini-batch training of LR, FM, DiFacto and RaFM.

Features are numbered by falling level, so in a row sorted by id those of level k or more are a prefix.

    i       feature, 0 <= i < sizes[0]
    k       level of a feature: how many vectors it has, 0 <= k <= m
    p       a block: the vectors of rank D_{p+1}, 0 <= p < m; feature i has block p if i < sizes[p + 1]
    r, t    a data row; its place in the mini-batch
    e, a, b position of a nonzero; first and one past the last of a row
    x       value of a nonzero
    o       where a feature's record starts in `records`
    q       position among a group's nonzeros of a row
    u       a row and group of the mini-batch: t * GROUPS + group
    S, T    per row and block: sum of v x over all features that have the block, and over those that have more;
            after the forward pass T holds the direction that pulls on dependent factors
    g       slope of the loss in the score; of the dependent loss in B_{1,p+1}

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. FTRL and Adam have one
more state of the weight before those of the blocks, and one or two shadows of equal size after each vector. Vectors are
padded with zeros to multiples of 4 elements, which stay zero. Numba's disk cache notices edits of this file, vectors.py
and barrier.py alone, so compiled code calls nothing else of ours.

Threads share the features: whatever is done to a record is done by the thread of its group, in the order of the rows,
so the numbers do not depend on how many threads there are. Only the groups' sums over a row pass between threads.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

from .barrier import APART, arrive, wait_for_all
from .vectors import (
    add_listed,
    clear,
    combine,
    combined_norm,
    compiled,
    copy,
    entry,
    fade,
    join,
    prefetch,
    prefetch_shared,
    sum_listed,
)

SQUARED, LOGISTIC = 0, 1
SGD, ADAGRAD, FTRL, ADAM = 0, 1, 2, 3
SLOW, SLOWER, TINY = np.float32(0.9), np.float32(0.999), np.float32(1e-8)  # Adam's decays, and its least root
AHEAD, FETCHED, LINE = 2, 64, 16  # ask for records two rows ahead, four cache lines of 16 numbers each
LONG_WAIT = 20_000  # a thread that has waited for so many microseconds asks all to stop
TAKEN = 512  # ask for so many numbers of the other thread before they are needed
NEAR = 1 << 19  # records of up to so many numbers stay in the cache by themselves
GROUPS = 2  # sums over a row are taken by groups of features, so that threads can share them
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


class Rows(NamedTuple):
    """Data rows in CSR form: features of the first group, then of the second, ids ascending within each.

    Rows that are to be scored are of one group.
    """

    indptr: np.ndarray
    middles: np.ndarray  # per row: where features of the second group begin
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
    part: int  # size of a group's part of S and T, with scalars after them
    scalars: int  # where these begin
    starts: np.ndarray  # per block: its place in the sums S and T; then their length
    shares: np.ndarray  # per block: 1 / rank
    bounds: np.ndarray  # per level: where the groups of its heads begin; then those of the others; see groups.py
    head_origins: np.ndarray  # per level and group: where heads sum their gradients
    states: int  # where the states of blocks begin within a record
    nested: bool  # RaFM: lower blocks of a feature depend on its top one


class Block(NamedTuple):
    """What is known of one block, in one place: stores into arrays make the compiler read tables anew."""

    shift: int  # its vector within a record
    n: int  # padded rank
    state: int  # its state within a record
    share: float  # 1 / rank


class Listed(NamedTuple):
    """A group's nonzeros of one row and level: heads first."""

    places: np.ndarray  # of the group's records
    values: np.ndarray  # of all rows
    start: int  # where the group's values begin
    first: int  # these nonzeros of the group are heads, up to `middle`, and then tails
    middle: int
    stop: int
    shift: int  # from the record of a head to where it sums its gradients


class Pair(NamedTuple):
    """Where the two groups' parts of a batch lie. All threads add them up in this order, as roundings depend on it."""

    first: np.ndarray
    second: np.ndarray
    i: int  # within the first
    j: int  # within the second


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
    """Scratch of one mini-batch. What is passed, and heads, are shared; all else is each thread's own."""

    parts: np.ndarray  # per group and row: S and T; its linear part, per block squared norms in S and T
    passed: np.ndarray  # a copy of the parts of each thread, for the other one
    heads: np.ndarray  # gradient sums, laid out like records
    sums: np.ndarray  # per row: S, then T, block after block
    scores: np.ndarray  # per block, B_{1,p+1} of each row; then their scores
    fadings: np.ndarray  # exp(-|score|) of these
    logs: np.ndarray  # log(1 + exp(-|score|)) of each row
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    places: np.ndarray  # per row and group: the records of its nonzeros
    ends: np.ndarray  # per row and group: where nonzeros of level >= k stop
    head_ends: np.ndarray  # and where the heads of level k stop, which come first
    bias: np.ndarray


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
def link(loss, score, fading):
    """Return the prediction that belongs to a score; fading is exp(-|score|)."""
    if loss == LOGISTIC:
        return (ONE if score >= 0 else fading) / (ONE + fading)
    return score


@compiled
def loss_value(loss, score, label, log):
    """Return the loss of one row: log loss, or half the squared error; log is log(1 + exp(-|score|))."""
    if loss == LOGISTIC:
        return max(score, ZERO) - score * label + log
    return HALF * (score - label) * (score - label)


# ---- Phase 1: rows, from the parameters at the start of the batch


@compiled
def first_free(a, p, level, tables, ends):
    """Return where the row's features that have no block after p begin; those before it are dependent in block p."""
    return ends[p + 2] if tables.nested and p + 1 < level else a


@compiled
def span_of(rows, r, group):
    """Return where a group's nonzeros of a row begin and stop."""
    if group == 0:
        return rows.indptr[r], rows.middles[r]
    return rows.middles[r], rows.indptr[r + 1]


@compiled
def top_of(rows, r, tables):
    """Return the highest level in a row."""
    a, middle, b = rows.indptr[r], rows.middles[r], rows.indptr[r + 1]
    highest = rows.indices[a] if a < middle else tables.sizes[0]
    if middle < b:
        highest = min(highest, rows.indices[middle])
    top = 0
    while top < tables.widths.size and highest < tables.sizes[top + 1]:
        top += 1
    return top


@compiled
def list_group(rows, a, b, tables, records, work, u):
    """List a group's nonzeros of a row, and where those of each level and its heads stop; return its linear part."""
    places, ends, head_ends, indices, values = (
        work.places[u],
        work.ends[u],
        work.head_ends[u],
        rows.indices,
        rows.values,
    )
    linear, e = ZERO, a
    for k in range(tables.strides.size - 1, -1, -1):
        size, middle, origin, stride = (
            tables.sizes[k],
            tables.bounds[k, 0, GROUPS],
            tables.origins[k],
            tables.strides[k],
        )
        heads = e
        while e < b and indices[e] < size:
            i = indices[e]
            o = origin + i * stride
            places[e - a] = o
            linear += records[o] * values[e]
            heads += i < middle
            e += 1
        head_ends[k], ends[k] = heads - a, e - a
    return linear


@compiled
def part_of(group, t, tables, work):
    """Return where a group's part of the sums of a row lies; those of a group lie together."""
    return group * (work.parts.size // GROUPS) + t * tables.part


@compiled
def sum_group(rows, r, group, tables, records, work, t):
    """Add up one group of a row: linear part, S and T of every block, squared norms."""
    (a, b), u, part = span_of(rows, r, group), t * GROUPS + group, part_of(group, t, tables, work)
    parts, places, values, ends, scalars = work.parts, work.places[u], rows.values, work.ends[u], part + tables.scalars
    parts[scalars] = list_group(rows, a, b, tables, records, work, u)
    top, whole = top_of(rows, r, tables), tables.starts[tables.widths.size]
    for p in range(top):
        j, n, shift, stop = part + tables.starts[p], tables.widths[p], tables.offsets[p], ends[p + 1]
        if tables.nested and p + 1 < top:  # T first, over the dependent features
            free = ends[p + 2]
            square = sum_listed(records, places, 0, values, a, free, shift, parts, j, n)
            parts[scalars + 2 + 2 * p] = square
            copy(parts, j + whole, parts, j, n)
            square += add_listed(records, places, free, values, a + free, stop - free, shift, parts, j, n)
        else:
            square = sum_listed(records, places, 0, values, a, stop, shift, parts, j, n)
        parts[scalars + 1 + 2 * p] = square


@compiled
def join_groups(j, work, pair, place, scalar, n):
    """Add up the groups' parts of a sum into sums[j:]; return the pair products behind it."""
    square = join(pair.first, pair.i + place, pair.second, pair.j + place, work.sums, j, n)
    return HALF * (square - scalars_of(pair, scalar))


@compiled
def scalars_of(pair, scalar):
    """Return the sum of the groups' scalars."""
    return pair.first[pair.i + scalar] + pair.second[pair.j + scalar]


@compiled
def join_row(rows, r, tables, bias, work, t, pair):
    """Join the groups of a row: S, T, and the scores B_{1,p+1} of its blocks; the last one is that of the row."""
    m, top = tables.widths.size, top_of(rows, r, tables)
    whole, place, scalars = tables.starts[m], t * tables.part, t * tables.part + tables.scalars
    score, excess = bias + scalars_of(pair, scalars), ZERO
    for p in range(top):
        n, j = tables.widths[p], 2 * t * whole + tables.starts[p]
        score += join_groups(j, work, pair, place + tables.starts[p], scalars + 1 + 2 * p, n) - excess
        excess = ZERO
        if tables.nested and p + 1 < top:
            excess = join_groups(j + whole, work, pair, place + tables.starts[p] + whole, scalars + 2 + 2 * p, n)
        work.scores[p, t] = score
    work.scores[m, t] = score


@compiled
def fade_scores(tables, settings, work):
    """Prepare what predictions and losses of all scores need, many at a time."""
    m, lanes = tables.widths.size, work.scores.shape[1]
    if settings.loss == LOGISTIC:
        for p in range(0 if tables.nested else m, m + 1):
            fade(work.scores[p], 0, work.fadings[p], 0, work.logs, 0, lanes)


@compiled
def pull_row(rows, r, tables, settings, work, t):
    """Compute the loss of a row and all that pulls on its features: the slopes, and T for dependent factors."""
    m, weight, label, score = tables.widths.size, rows.weights[r], rows.labels[r], work.scores[-1, t]
    work.losses[t] = weight * loss_value(settings.loss, score, label, work.logs[t])
    prediction = link(settings.loss, score, work.fadings[m, t])
    work.slopes[t, m] = weight * (prediction - label)
    if tables.nested:
        pull_dependents(tables, settings, work, t, top_of(rows, r, tables), weight, prediction)


@compiled
def pull_dependents(tables, settings, work, t, top, weight, prediction):
    """Turn T into the direction of dependent factors: g_p S, plus g (S - T) by the joint rule."""
    m = tables.widths.size
    slopes, upper = work.slopes[t], prediction
    free = slopes[m] if settings.joint else ZERO
    for p in range(top - 2, -1, -1):
        lower = link(settings.loss, work.scores[p, t], work.fadings[p, t])
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
def block_of(p, tables):
    """Return a block by its number."""
    return Block(tables.offsets[p], tables.widths[p], tables.states + p, tables.shares[p])


@compiled
def update_vector(records, o, block, sums, j, c, d, rate, settings):
    """Step the vector of a block along c * sum + d * vector."""
    place, n, state = o + block.shift, block.n, o + block.state
    if settings.optimizer == FTRL:
        follow_leader(records, place, state, block, sums, j, c, d, rate, settings)
    elif settings.optimizer == ADAM:
        follow_moments(records, place, n, sums, j, c, d, rate)
    else:
        square = ZERO
        if settings.optimizer != SGD:
            square = combined_norm(records, place, sums, j, n, d, c) * block.share
        step = step_size(records, state, square, rate, settings)
        combine(records, place, sums, j, n, ONE - step * d, -step * c)


@compiled
def follow_leader(records, place, state, block, sums, j, c, d, rate, settings):
    """Take a gradient into FTRL's z, after the vector; the vector is z shrunk as a whole, then scaled.

    With L1 of 0 this is row-wise AdaGrad.
    """
    n, z, before = block.n, place + block.n, np.sqrt(records[state])
    records[state] += combined_norm(records, place, sums, j, n, d, c) * block.share
    after = np.sqrt(records[state])
    combine(records, z, sums, j, n, ONE, c)
    combine(records, z, records, place, n, ONE, d - (after - before) / rate)
    size, least = np.sqrt(combined_norm(records, z, records, z, n, ONE, ZERO)), settings.l1 / np.sqrt(block.share)
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
def add_weight(heads, h, slope, weight):
    """Add slope and row weight to the sums of a head's linear weight."""
    heads[h] += slope
    heads[h + 1] += weight


@compiled
def update_weights(some, t, weight, rate, records, settings, work):
    """Update the linear weights of a row's tail features without vectors; add the row's part to its heads' sums."""
    slope, decay = work.slopes[t, -1], weight * settings.l2_weights
    for q in range(some.first, some.middle):
        add_weight(work.heads, some.places[q] + some.shift, slope * some.values[some.start + q], weight)
    for q in range(some.middle, some.stop):
        update_weight(records, some.places[q], slope * some.values[some.start + q], decay, rate, settings)


@compiled
def update_block(some, k, p, t, weight, rate, tables, records, settings, work):
    """Update block p of a row's tail features of level k; add the row's part to the sums of its heads.

    The gradient is x c sums[j:] + (decay - g x^2) v. Linear weights come along with the first block: leaving a loop of
    a few turns costs as much as some of its turns.
    """
    m, decay, slope, block = tables.widths.size, weight * settings.l2[p], work.slopes[t, -1], block_of(p, tables)
    j, c, g, heads, sums = 2 * t * tables.starts[m] + tables.starts[p], slope, slope, work.heads, work.sums
    if tables.nested and p + 1 < k:  # dependent
        j, c, g = j + tables.starts[m], ONE, work.slopes[t, p]
    for q in range(some.first, some.middle):
        h, x = some.places[q] + some.shift, some.values[some.start + q]
        if p == 0:
            add_weight(heads, h, slope * x, weight)
        heads[h + block.state] += decay - g * x * x
        combine(heads, h + block.shift, sums, j, block.n, ONE, c * x)
    for q in range(some.middle, some.stop):
        o, x = some.places[q], some.values[some.start + q]
        update_vector(records, o, block, sums, j, c * x, decay - g * x * x, rate, settings)
        if p == 0:
            update_weight(records, o, slope * x, weight * settings.l2_weights, rate, settings)


@compiled
def update_group(rows, r, group, rate, tables, records, settings, work, t):
    """Update a group's tail features of a row in place, and add the row's part to the sums of its heads."""
    u, first, (start, _), weight = t * GROUPS + group, 0, span_of(rows, r, group), rows.weights[r]
    for k in range(tables.strides.size - 1, -1, -1):
        middle, stop, shift = work.head_ends[u, k], work.ends[u, k], tables.head_origins[k, group] - tables.origins[k]
        if first < stop:
            some = Listed(work.places[u], rows.values, start, first, middle, stop, shift)
            if k == 0:
                update_weights(some, t, weight, rate, records, settings, work)
            for p in range(k):
                update_block(some, k, p, t, weight, rate, tables, records, settings, work)
        first = stop


@compiled
def update_heads(rate, tables, records, settings, team, work):
    """Update every head of this thread that occurred in the batch once, by its summed gradient; clear the sums.

    Away from where two groups meet: cores read ahead, and would read what another thread is writing.
    """
    for k in range(tables.strides.size):
        stride = tables.strides[k]
        for group in range(team.first, team.stop):
            first, stop = tables.bounds[k, 0, group], tables.bounds[k, 0, group + 1]
            for n in range(stop - first):
                i = stop - 1 - n if group == 0 else first + n
                h = tables.head_origins[k, group] + i * stride
                if work.heads[h + 1] != 0:
                    update_head(tables.origins[k] + i * stride, h, k, rate, tables, records, settings, work)


@compiled
def update_head(o, h, k, rate, tables, records, settings, work):
    """Update one head of level k by its sums at h, and clear them."""
    update_weight(records, o, work.heads[h], work.heads[h + 1] * settings.l2_weights, rate, settings)
    for p in range(k):
        place, d = h + tables.offsets[p], work.heads[h + tables.states + p]
        update_vector(records, o, block_of(p, tables), work.heads, place, ONE, d, rate, settings)
    clear_sums(work.heads, h, tables.strides[k])


@compiled
def clear_sums(heads, h, n):
    """Set heads[h : h + n] to 0; n is no multiple of 4 where there are no vectors."""
    rest = n % 4
    clear(heads, h, n - rest)
    for f in range(h + n - rest, h + n):
        heads[f] = ZERO


@compiled
def fetch_rows(rows, batch):
    """Ask for the rows of a batch, so that their cache misses overlap."""
    for r in batch:
        a, b = rows.indptr[r], rows.indptr[r + 1]
        prefetch_shared(rows.labels, r)
        prefetch_shared(rows.weights, r)
        for e in range(a, b, 16):
            prefetch_shared(rows.indices, e)
            prefetch_shared(rows.values, e)
        prefetch_shared(rows.indices, b)
        prefetch_shared(rows.values, b)


@compiled
def fetch_records(rows, r, group, tables, records):
    """Ask for the first lines of the records of a group's features of a row."""
    e, b = span_of(rows, r, group)
    for k in range(tables.widths.size, -1, -1):
        middle, size, fetched = tables.bounds[k, 0, GROUPS], tables.sizes[k], min(tables.strides[k], FETCHED)
        while e < b and rows.indices[e] < size:
            i = rows.indices[e]
            if i >= middle:  # heads stay in the cache by themselves
                o = tables.origins[k] + i * tables.strides[k]
                for line in range(o, o + fetched, LINE):
                    prefetch(records, line)
            e += 1


@compiled
def take_part(place, tables, work):
    """Ask for what the other thread has summed up of a row, and for the right to write there."""
    for line in range(place, place + tables.part, LINE):
        prefetch(work.passed, line)


@compiled
def sum_rows(rows, batch, tables, records, team, work):
    """Add up this thread's groups of all rows of a batch."""
    far, size = records.size > NEAR, batch.size
    for t in range(size):
        for group in range(team.first, team.stop):
            if far and t + AHEAD < size:
                fetch_records(rows, batch[t + AHEAD], group, tables, records)
            sum_group(rows, batch[t], group, tables, records, work, t)


@compiled
def side_of(turn, work):
    """Return where sums are passed on that change sides at each turn."""
    return turn % GROUPS * (work.passed.size // GROUPS)


@compiled
def pass_on(size, turn, tables, team, work):
    """Copy this thread's sums for the other one.

    They go where those of the other were read in the turn before: these lines are in the cache of this core alone, and
    lines that others have too are slow to write to.
    """
    own = part_of(team.first, 0, tables, work)
    copy(work.passed, side_of(team.thread + turn, work), work.parts, own, size * tables.part)
    arrive(team.gate, team.thread, turn + 1)


@compiled
def ask_to_stop(turn, team):
    """Ask all threads to stop after this turn, before arriving at its meeting."""
    team.gate[team.thread * APART + 1] = turn + 1


@compiled
def asked_to_stop(turn, team):
    """Return whether a thread has asked for that, after the meeting; the others may have come to the next one."""
    asked = False
    for thread in range(team.threads if team.threads > 1 else 0):
        request = team.gate[thread * APART + 1]
        asked |= 0 < request <= turn + 1
    return asked


@compiled
def take_over(turn, tables, team, work):
    """Wait for the other thread's sums; return where those of both lie, where the other's do, and how long it took."""
    waited = wait_for_all(team.gate, team.threads, turn + 1)
    own, other = part_of(team.first, 0, tables, work), side_of(team.thread + turn + 1, work)
    if team.thread == 0:
        return Pair(work.parts, work.passed, own, other), other, waited
    return Pair(work.passed, work.parts, other, own), other, waited


@compiled
def forward_rows(rows, batch, following, turn, tables, records, settings, team, work):
    """Compute losses and slopes of a batch: each thread adds up its groups, and joins all groups after a meeting.

    Return the microseconds of a long wait. To share out the joining too would need one more meeting. The next batch is
    asked for in the time of waiting.
    """
    size, taken, other, waited = batch.size, batch.size, 0, 0
    sum_rows(rows, batch, tables, records, team, work)
    pair = Pair(work.parts, work.parts, part_of(0, 0, tables, work), part_of(1, 0, tables, work))
    if team.threads > 1:
        pass_on(size, turn, tables, team, work)
    fetch_rows(rows, following)
    if team.threads > 1:
        pair, other, waited = take_over(turn, tables, team, work)
        taken = 0
    for t in range(size):
        while taken < min(size, t + 1 + TAKEN // tables.part):
            take_part(other + taken * tables.part, tables, work)
            taken += 1
        join_row(rows, batch[t], tables, work.bias[0], work, t, pair)
    fade_scores(tables, settings, work)
    for t in range(size):
        pull_row(rows, batch[t], tables, settings, work, t)
    return waited


@compiled
def total_of(numbers, n):
    """Return the sum of the first n numbers."""
    total = ZERO
    for k in range(n):
        total += numbers[k]
    return total


@entry
def train_rows(rows, order, tables, records, bias, settings, total, team, work):
    """Train on rows in the given order, all of them unless threads keep waiting for one another.

    Return the total with their loss, where it stopped being finite (or -1), and how many rows were trained.

    bias is [bias, its state, its second state, mini-batches so far]. One mini-batch after the other: all rows forward,
    then all updates. Every thread of a team calls this at the same time; all return the same, and the first sets bias.
    """
    size, stopped, trained, waited = work.losses.size, -1, 0, 0
    work.bias[:] = bias
    fetch_rows(rows, order[:size])
    for turn in range(-(-order.size // size)):
        batch, following = order[turn * size : (turn + 1) * size], order[(turn + 1) * size : (turn + 2) * size]
        rate = rate_of(work.bias, settings)
        if waited > LONG_WAIT:
            ask_to_stop(turn, team)
        waited += forward_rows(rows, batch, following, turn, tables, records, settings, team, work)
        asked = asked_to_stop(turn, team)
        loss, slope = total_of(work.losses, batch.size), total_of(work.slopes[:, -1], batch.size)
        if not np.isfinite(loss):
            stopped = turn * size
            break
        total += loss
        for t in range(batch.size):
            for group in range(team.first, team.stop):
                update_group(rows, batch[t], group, rate, tables, records, settings, work, t)
        update_heads(rate, tables, records, settings, team, work)
        update_number(work.bias, 0, slope, ZERO, rate, settings)
        work.bias[3] += ONE
        trained += batch.size
        if asked:
            break
    if team.thread == 0:
        bias[:] = work.bias
    return total, stopped, trained


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
def half_pairs(sums, j, n, norm):
    """Return the pair products behind a sum: (|sum v x|^2 - sum |v x|^2) / 2."""
    return HALF * (combined_norm(sums, j, sums, j, n, ONE, ZERO) - norm)


@compiled
def score_block(rows, a, free, p, tables, records, scratch):
    """Return what block p adds to the score: its pairs with at least one free member.

    With T over the dependent features [a, free) and S over all: (|S|^2 - |T|^2 - sum over the free of |v x|^2) / 2.
    """
    n, shift, dependent, sums, places = tables.widths[p], tables.offsets[p], ZERO, scratch.sums, scratch.places
    stop = scratch.ends[p + 1]
    if free > a:
        sum_listed(records, places, 0, rows.values, a, free - a, shift, sums, 0, n)
        dependent = combined_norm(sums, 0, sums, 0, n, ONE, ZERO)
        norm = add_listed(records, places, free - a, rows.values, free, stop - free, shift, sums, 0, n)
    else:
        norm = sum_listed(records, places, 0, rows.values, a, stop - a, shift, sums, 0, n)
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


@compiled
def fetch_scored(rows, r, tables, records):
    """Ask for the first lines of the records of a row, to read them."""
    e, b = rows.indptr[r], rows.indptr[r + 1]
    for k in range(tables.widths.size, -1, -1):
        origin, stride, size = tables.origins[k], tables.strides[k], tables.sizes[k]
        while e < b and rows.indices[e] < size:
            o = origin + rows.indices[e] * stride
            for line in range(o, o + min(stride, FETCHED), LINE):
                prefetch_shared(records, line)
            e += 1


@entry
def score_rows(rows, tables, records, bias, level, scratch, scores):
    """Write B_{1,level} of every row into scores."""
    far = records.size > NEAR
    for r in range(scores.size):
        if far and r + 1 < scores.size:
            fetch_scored(rows, r + 1, tables, records)
        scores[r] = bias + score_row(rows, r, tables, records, level, scratch)
