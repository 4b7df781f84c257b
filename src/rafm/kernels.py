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

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. Vectors are padded with zeros
to multiples of 4 elements, which stay zero. This file imports nothing of ours: Numba's disk cache would not notice edits there.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

SQUARED, LOGISTIC = 0, 1
SGD, ADAGRAD = 0, 1
FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # not nnan, ninf: divergence must stay visible
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
OPTIONS = dict(nogil=True, error_model="numpy", fastmath=set(FAST))
entry = njit(cache=True, **OPTIONS)
# Inner functions: inlined, and without reference counts, which cost more than the arithmetic at small ranks.
compiled = njit(cache=True, forceinline=True, _nrt=False, **OPTIONS)


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
    l2: float
    l2_weights: float


class Work(NamedTuple):
    """Scratch of one mini-batch."""

    sums: np.ndarray  # per row: S, then T
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    pairs: np.ndarray  # per row: A_{p,p} of each block, then A_{p,p+1}
    heads: np.ndarray  # gradient sums, laid out like records


# ---- Vector operations: left[i : i + n] and right[j : j + n], n a multiple of 4, scalars c and d


def _lanes(builder, scalar, width):
    """Return a vector of equal lanes."""
    kind = ir.VectorType(scalar.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


class _Lines:
    """Emits one operation for some lanes: loads, arithmetic, stores, and a running sum."""

    def __init__(self, builder, pointers, scalars, total):
        self.builder, self.pointers, self.scalars, self.total = builder, pointers, scalars, total

    def emit(self, step, position, width, add):
        b, kind = self.builder, ir.VectorType(self.total.type.pointee, width)
        left, right = (b.bitcast(b.gep(p, [position]), kind.as_pointer()) for p in self.pointers)
        c, d = (_lanes(b, scalar, width) for scalar in self.scalars)
        term = step(b, left, right, c, d)
        if term is not None:
            add(term)

    def reduce(self, term):
        """Add the lanes of term to the total."""
        b, scalar = self.builder, self.total.type.pointee
        name = f"llvm.vector.reduce.fadd.v{term.type.count}f{'32' if scalar == ir.FloatType() else '64'}"
        call = cgutils.get_or_insert_function(b.module, ir.FunctionType(scalar, [scalar, term.type]), name)
        lanes = b.call(call, [ir.Constant(scalar, 0.0), term], fastmath=FAST)
        b.store(b.fadd(b.load(self.total), lanes, flags=FAST), self.total)


def _emit_lines(builder, lines, step, size, width):
    """Emit the step over size elements: width lanes at a time, then what is left in halves down to 4."""
    kind = ir.VectorType(lines.total.type.pointee, width)
    bulk = builder.and_(size, size.type(-width))
    with builder.if_then(builder.icmp_signed(">", bulk, size.type(0))):
        acc = cgutils.alloca_once_value(builder, ir.Constant(kind, [0.0] * width))

        def add(term):
            builder.store(builder.fadd(builder.load(acc), term, flags=FAST), acc)

        with cgutils.for_range_slice(builder, size.type(0), bulk, size.type(width)) as (position, _):
            lines.emit(step, position, width, add)
        lines.reduce(builder.load(acc))
    while width > 4:
        width //= 2
        with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
            position = builder.and_(size, size.type(-2 * width))
            lines.emit(step, position, width, lines.reduce)


def _blockwise(step):
    """Make a compiled function (left, i, right, j, n, c, d) -> sum of terms from what one step does with some lanes."""

    @intrinsic
    def operation(typingctx, left, i, right, j, n, c, d):
        element = left.dtype
        signature = element(left, types.intp, right, types.intp, types.intp, element, element)

        def codegen(context, builder, signature, args):
            left, i, right, j, size, c, d = args
            arrays = zip((signature.args[0], signature.args[2]), (left, right), (i, j))
            pointers = [builder.gep(context.make_array(k)(context, builder, v).data, [at]) for k, v, at in arrays]
            total = cgutils.alloca_once_value(builder, ir.Constant(c.type, 0.0))
            lines = _Lines(builder, pointers, (c, d), total)
            _emit_lines(builder, lines, step, size, 32 if c.type == ir.FloatType() else 16)
            return builder.load(total)

        return signature, codegen

    return operation


def _load(b, pointer):
    return b.load(pointer, align=4)


def _fma(b, x, y, z):
    return b.fadd(b.fmul(x, y, flags=FAST), z, flags=FAST)


def _add_scaled_lanes(b, left, right, c, d):
    z = b.fmul(_load(b, left), c, flags=FAST)
    b.store(b.fadd(_load(b, right), z, flags=FAST), right, align=4)
    return b.fmul(z, z, flags=FAST)


def _norm_lanes(b, left, right, c, d):
    gradient = _fma(b, c, _load(b, left), b.fmul(d, _load(b, right), flags=FAST))
    return b.fmul(gradient, gradient, flags=FAST)


def _combine_lanes(b, left, right, c, d):
    b.store(_fma(b, c, _load(b, left), b.fmul(d, _load(b, right), flags=FAST)), left, align=4)


if config.DISABLE_JIT or config.BOUNDSCHECK:  # plain twins, which can be checked

    @compiled
    def add_scaled(left, i, right, j, n, c, d):
        """Add c * left to right; return the squared norm of what was added."""
        total = ZERO
        for f in range(n):
            z = left[i + f] * c
            right[j + f] += z
            total += z * z
        return total

    @compiled
    def combined_norm(left, i, right, j, n, c, d):
        """Return |c * left + d * right|^2."""
        total = ZERO
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
    def prefetch(array, position):
        """Do nothing."""

else:
    add_scaled = _blockwise(_add_scaled_lanes)
    combined_norm = _blockwise(_norm_lanes)
    combine = _blockwise(_combine_lanes)

    @intrinsic
    def prefetch(typingctx, array, position):
        """Ask for the cache line at array[position]."""

        def codegen(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            line = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [line.type, i32, i32, i32])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(call, [line, i32(1), i32(3), i32(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen


# ---- Losses


@compiled
def link(loss, score):
    """Return the prediction that belongs to a score."""
    return ONE / (ONE + np.exp(-score)) if loss == LOGISTIC else score


@compiled
def loss_value(loss, score, label):
    """Return the loss of one row: log loss, or half the squared error."""
    if loss == LOGISTIC:
        return max(score, 0.0) - score * label + np.log1p(np.exp(-abs(score)))
    return 0.5 * (score - label) * (score - label)


# ---- Phase 1: rows, from the parameters at the start of the batch


@compiled
def half_pairs(sums, j, n, norm):
    """Return the pair products behind a sum: (|sum v x|^2 - sum |v x|^2) / 2."""
    return HALF * (combined_norm(sums, j, sums, j, n, ONE, ZERO) - norm)


@compiled
def sum_row(rows, r, tables, records, work, t):
    """Fill S, T and the pair products of a row; return its linear part and the level of its first feature."""
    m = tables.widths.size
    s, a, b = 2 * t * tables.starts[m], rows.indptr[r], rows.indptr[r + 1]
    pairs, linear, top, e = work.pairs[t], ZERO, 0, a
    pairs[:] = 0
    work.sums[s : s + tables.starts[m]] = 0
    for k in range(m, -1, -1):
        if k > 0 and e > a and tables.nested:
            keep_dependents(tables, work.sums, s, pairs, k - 1)
        while e < b and rows.indices[e] < tables.sizes[k]:
            top, x = max(top, k), rows.values[e]
            o = tables.origins[k] + rows.indices[e] * tables.strides[k]
            linear += records[o] * x
            for p in range(k):
                place, n = o + tables.offsets[p], tables.widths[p]
                pairs[p] += add_scaled(records, place, work.sums, s + tables.starts[p], n, x, x)
            e += 1
    for p in range(top):
        pairs[p] = half_pairs(work.sums, s + tables.starts[p], tables.widths[p], pairs[p])
    return linear, top


@compiled
def keep_dependents(tables, sums, s, pairs, p):
    """Copy to T what block p of S has from features that have more blocks; keep A_{p,p+1}."""
    m = tables.widths.size
    j, n = s + tables.starts[p], tables.widths[p]
    pairs[m + p] = half_pairs(sums, j, n, pairs[p])
    for f in range(j, j + n):
        sums[tables.starts[m] + f] = sums[f]


@compiled
def forward(rows, r, tables, records, bias, settings, work, t):
    """Compute the loss of a row and all that pulls on its features: S, T and the slopes."""
    m = tables.widths.size
    linear, top = sum_row(rows, r, tables, records, work, t)
    slopes, pairs, weight = work.slopes[t], work.pairs[t], rows.weights[r]
    score = bias + linear
    for p in range(top):  # until the prediction is known, slopes[p] holds B_{1,p+1}
        score += pairs[p] - (pairs[m + p - 1] if p > 0 else ZERO)
        slopes[p] = score
    work.losses[t] = weight * loss_value(settings.loss, np.float64(score), np.float64(rows.labels[r]))
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
def pull(p, k, x, slopes, s, tables):
    """Return what pulls on block p of a feature of level k: slope g, and c * sums[j ...] - g x^2 v."""
    m = tables.widths.size
    if p + 1 == k or not tables.nested:
        return slopes[m], slopes[m] * x, s + tables.starts[p]
    return slopes[p], x, s + tables.starts[m] + tables.starts[p]


@compiled
def update_row(rows, r, tables, records, settings, work, t):
    """Update the tail features of a row in place, and add its part to the sums of its heads."""
    m = tables.widths.size
    s, e, b = 2 * t * tables.starts[m], rows.indptr[r], rows.indptr[r + 1]
    slopes, weight = work.slopes[t], rows.weights[r]
    for k in range(m, -1, -1):
        while e < b and rows.indices[e] < tables.sizes[k]:
            i, x = rows.indices[e], rows.values[e]
            if i < tables.sizes[k + 1] + tables.heads[k]:
                add_to_head(i, k, x, weight, slopes, s, tables, settings, work)
            else:
                o = tables.origins[k] + i * tables.strides[k]
                update_weight(records, o, slopes[m] * x, weight * settings.l2_weights, settings)
                for p in range(k):
                    g, c, j = pull(p, k, x, slopes, s, tables)
                    update_vector(records, o, p, work.sums, j, c, weight * settings.l2 - g * x * x, tables, settings)
            e += 1


@compiled
def add_to_head(i, k, x, weight, slopes, s, tables, settings, work):
    """Add one row's gradient to a head: slope, total weight, and per block c * sum and the factor d of the vector."""
    heads, o = work.heads, tables.head_origins[k] + i * tables.strides[k]
    heads[o] += slopes[tables.widths.size] * x
    heads[o + 1] += weight
    for p in range(k):
        g, c, j = pull(p, k, x, slopes, s, tables)
        heads[o + 2 + p] += weight * settings.l2 - g * x * x
        combine(heads, o + tables.offsets[p], work.sums, j, tables.widths[p], ONE, c)


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


@entry
def train_rows(rows, order, tables, records, bias, settings, work):
    """Train on rows in the given order; return the summed loss and where it stopped being finite (or -1).

    bias is [bias, its state]. One mini-batch after the other: all rows forward, then all updates.
    """
    total, size = 0.0, work.losses.size
    for first in range(0, order.size, size):
        rest = min(size, order.size - first)
        fetch_rows(rows, order, first, first + rest)
        for t in range(rest):
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
def score_block(rows, a, first_free, stop, p, places, tables, records, sums):
    """Return what block p adds to the score: its pairs with at least one free member.

    With T over the dependent features [a, first_free) and S over all of [a, stop): (|S|^2 - |T|^2 - sum_free |v x|^2) / 2.
    """
    n, place, norm = tables.widths[p], tables.offsets[p], ZERO
    sums[:n] = 0
    for e in range(a, first_free):
        add_scaled(records, places[e - a] + place, sums, 0, n, rows.values[e], ONE)
    dependent = combined_norm(sums, 0, sums, 0, n, ONE, ZERO)
    for e in range(first_free, stop):
        norm += add_scaled(records, places[e - a] + place, sums, 0, n, rows.values[e], ONE)
    return half_pairs(sums, 0, n, dependent + norm)


@compiled
def locate_row(rows, r, tables, records, ends, places):
    """Return the linear part; set ends[k] to where features of level k or more stop, and places to their records."""
    a, b = rows.indptr[r], rows.indptr[r + 1]
    linear, e = ZERO, a
    for k in range(tables.strides.size - 1, -1, -1):
        while e < b and rows.indices[e] < tables.sizes[k]:
            places[e - a] = tables.origins[k] + rows.indices[e] * tables.strides[k]
            linear += records[places[e - a]] * rows.values[e]
            e += 1
        ends[k] = e
    return linear


@entry
def score_rows(rows, tables, records, bias, level, scores):
    """Write B_{1,level} of every row into scores. Blocks without a free member, or with one feature, cancel and are skipped."""
    a, longest = 0, 0
    for b in rows.indptr[1:]:
        a, longest = b, max(longest, b - a)
    ends, places = np.zeros(tables.strides.size + 1, np.int64), np.empty(longest, np.int64)
    sums = np.empty(tables.starts[-1], records.dtype)
    for r in range(scores.size):
        a, score = rows.indptr[r], bias
        score += locate_row(rows, r, tables, records, ends, places)
        for p in range(level):
            stop = ends[p + 1]
            free = ends[p + 2] if tables.nested and p + 1 < level else a
            if free < stop and stop > a + 1:
                score += score_block(rows, a, free, stop, p, places, tables, records, sums)
        scores[r] = score
