"""Train by wide steps: thousands of rows, all gradients at the parameters of the step's start, one update per feature.

A step has two phases with a barrier after each. Forward: threads take chunks of CHUNK_ROWS rows and compute their sums,
losses and slopes, as for a mini-batch. Update: threads take shares of the step's features; a feature sums the gradient
of its nonzeros in the order of the rows and steps once, damped by the sum of the squared gradients of the rows, see
optimizers/descent.py. Who takes which chunk or share does not matter, so models are bit-identical for any number of
threads: a sum over chunks or shares is added up in their order, by every thread for itself.

The nonzeros of a step are indexed by feature, see plan/steps.py. With v the vector of a feature, all its gradients are
c S + d v, so they are summed in registers, S by S. A row's sums S, T, S', T', S' - T' and its scalars are in one piece
of work.sums, of which work.parts is another name. Features ascend, so records are updated in the order of memory.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.barrier import GATE_STRIDE, arrive, take_ticket, wait_for_all
from ..jit.compile import compiled, entry
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import exp_neg_abs, inner, prefetch, sum_gradients, sum_listed, sum_weighted_gradients
from .field_weights import step_weights, sum_blocks, with_field_weights
from .forward import list_group, slopes_of_row, top_of
from .losses import is_finite
from .optimizers import batch_rate, wide_number, wide_vector
from .tables import (
    CACHED_FLOATS,
    CHUNK_ROWS,
    HALF,
    LINE_FLOATS,
    ONE,
    SHARES,
    ZERO,
    FieldWeights,
    GroupOfRow,
    NoFieldWeights,
    StepFeature,
)
from .training import fetch_records, put_copies, take_copies
from .update import block_of

PREFETCH_ROWS, PREFETCH_FEATURES = 2, 4  # how far ahead records are prefetched


# ---- Forward


@compiled
def _half_pairs(_, sums, j, scalar, n, tables):
    """Return the sum of pair products of a block, (|S|^2 - sum |v x|^2) / 2."""
    return HALF * (inner(sums, j, sums, j, n) - sums[scalar])


@compiled
def _half_weighted_pairs(_, sums, j, scalar, n, tables):
    """Return the same with field weights, (|S|^2 - |S'|^2 - sum (x^2 - y^2) |v|^2) / 2."""
    k = j + tables.weighted
    return HALF * (inner(sums, j, sums, j, n) - inner(sums, k, sums, k, n) - sums[scalar])


half_pairs = with_field_weights(_half_weighted_pairs, otherwise=_half_pairs)


@compiled
def score_row(t, top, tables, work, fields):
    """Compute the scores B_{1,p+1} of a row's blocks; the last one is the row's score."""
    m = tables.widths.size
    whole, place, scalars = tables.starts[m], t * tables.row, t * tables.row + tables.scalars
    score, excess = work.bias[0] + work.sums[scalars], ZERO
    for p in range(top):
        n, j = tables.widths[p], place + tables.starts[p]
        score += half_pairs(fields, work.sums, j, scalars + 1 + 2 * p, n, tables) - excess
        excess = ZERO
        if tables.nested and p + 1 < top:  # pairs of dependent features count in the block above
            excess = half_pairs(fields, work.sums, j + whole, scalars + 2 + 2 * p, n, tables)
        work.scores[p, t] = score
    work.scores[m, t] = score


@compiled
def sum_row(rows, r, t, training):
    """Sum S and T of every block of a row, and compute its scores."""
    tables, records, _, _, work, fields = training
    a, place, top = rows.indptr[r], t * tables.row, top_of(rows, r, tables)
    work.sums[place + tables.scalars] = list_group(rows, a, rows.indptr[r + 1], tables, records, work, 0, fields)
    sum_blocks(fields, rows.values, GroupOfRow(a, 0, place, top), tables, records, work)
    score_row(t, top, tables, work, fields)


@compiled
def forward_chunk(rows, start, chunk, size, training):
    """Compute losses and slopes of a chunk of a step's rows, and their sums; the step starts at row `start`."""
    tables, records, settings, _, work, fields = training
    m, first, stop = tables.widths.size, chunk * CHUNK_ROWS, min((chunk + 1) * CHUNK_ROWS, size)
    far = records.size > CACHED_FLOATS
    for t in range(first, stop):
        if far and t + PREFETCH_ROWS < size:
            fetch_records(rows, start + t + PREFETCH_ROWS, 0, tables, records)
        sum_row(rows, start + t, t, training)
    if settings.uses_exp:
        for p in range(0 if tables.nested else m, m + 1):
            exp_neg_abs(work.scores[p], first, work.exp_neg_abs[p], first, work.log_1p, first, CHUNK_ROWS)
    loss, slope, square = 0.0, ZERO, ZERO
    for t in range(first, stop):
        slopes_of_row(rows, start + t, tables, settings, work, t, fields)
        g = work.slopes[t, m]
        loss, slope, square = loss + work.losses[t], slope + g, square + g * g
    work.totals[chunk, 0], work.totals[chunk, 1], work.totals[chunk, 2] = loss, slope, square


# ---- Update


@compiled
def sum_weight(rows, start, feature, training):
    """List the nonzeros of a feature; return the summed gradient of its linear weight, and the sum of the squares."""
    tables, records, settings, _, work, _ = training
    o, _, a, count = feature
    m, w, gradient, square = tables.widths.size, records[o], ZERO, ZERO
    for n in range(count):
        t, x = np.int64(rows.entry_rows[a + n]), rows.entry_values[a + n]
        slope, weight = work.slopes[t, m] * x, rows.weights[start + t]
        work.listed[n], work.slope_x[n], work.slope_xx[n], work.decays[n] = t * tables.row, slope, slope * x, weight
        g = slope + settings.l2_weights * weight * w
        gradient, square = gradient + g, square + g * g
    return gradient, square


@compiled
def step_weight(o, gradient, square, rate, training):
    """Step the linear weight of a record by its summed gradient."""
    settings, damping = training.settings, training.settings.damping
    wide_number(settings.optimizer, training.records, o, gradient, square, damping, rate, settings.l1_weights)


@compiled
def weigh_free(count, p, bend, training):
    """Set the factors d of v in the gradients of a free vector; those of S are slope_x."""
    work, l2 = training.work, training.settings.l2[p]
    for n in range(count):
        work.ds[n] = l2 * work.decays[n] - bend * work.slope_xx[n]


@compiled
def weigh_dependent(rows, feature, p, bend, training):
    """Set the factors of S and v in the gradients of a dependent vector."""
    work, l2, a = training.work, training.settings.l2[p], feature.a
    for n in range(feature.count):
        x, t = rows.entry_values[a + n], np.int64(rows.entry_rows[a + n])
        work.cs[n] = x
        work.ds[n] = l2 * work.decays[n] - bend * work.slopes[t, p] * x * x


@compiled
def step_vector(o, block, square, rate, training):
    """Step the vector of a record by its summed gradient."""
    settings, square = training.settings, square * block.share
    gradient, damping = training.work.gradient, settings.damping
    wide_vector(settings.optimizer, training.records, o, block, gradient, square, damping, rate, settings.l1)


@compiled
def _sum_block(_, rows, feature, p, share, training):
    """Sum the gradient of block p of a feature over its nonzeros; return the sum of the squared norms."""
    tables, records, _, _, work, _ = training
    (o, k, _, count), block, j, out = feature, block_of(p, tables), tables.starts[p], work.gradient
    n, v, sums, listed = block.n, o + block.shift, work.sums, work.listed
    if tables.nested and p + 1 < k:  # dependent: its direction is in T, with the slopes already multiplied in
        weigh_dependent(rows, feature, p, ONE, training)
        j += tables.starts[tables.widths.size]
        return sum_gradients(sums, listed, j, work.cs, work.ds, count, records, v, out, n)
    weigh_free(count, p, ONE, training)
    return sum_gradients(sums, listed, j, work.slope_x, work.ds, count, records, v, out, n)


@compiled
def _sum_weighted_block(fields, rows, feature, p, share, training):
    """Do the same with field weights; add the gradient of the feature's field to its share's sums.

    With w the weight of the field, the gradient of v is c (S - w S') + d v with 1 - w^2 in d, and that of w is
    -slope x v.(S' - w x v), for a dependent vector -slope x v.(S' - T'); see update.py.
    """
    tables, records, _, _, work, _ = training
    (o, k, _, count), block, j, out = feature, block_of(p, tables), tables.starts[p], work.gradient
    n, v, sums, listed, m = block.n, o + block.shift, work.sums, work.listed, tables.widths.size
    f, other = np.int64(records[o + tables.field]), j + tables.weighted
    w = fields.weights[f]
    if tables.nested and p + 1 < k:
        sum_listed(sums, listed, 0, work.slope_x, 0, count, other + 2 * tables.starts[m], out, 0, n)
        product = inner(records, v, out, 0, n)
        weigh_dependent(rows, feature, p, ONE - w * w, training)
        j, other = j + tables.starts[m], other + tables.starts[m]
        square, _ = sum_weighted_gradients(sums, listed, j, other, w, work.cs, work.ds, count, records, v, out, n)
    else:
        weigh_free(count, p, ONE - w * w, training)
        cs = work.slope_x
        square, product = sum_weighted_gradients(sums, listed, j, other, w, cs, work.ds, count, records, v, out, n)
        product -= w * sum_of(work.slope_xx, count) * inner(records, v, records, v, n)
    work.field_sums[share, f] -= product
    return square


sum_block = chosen_by_type({NoFieldWeights: _sum_block, FieldWeights: _sum_weighted_block})


@compiled
def sum_of(numbers, n):
    """Return the sum of numbers[:n]."""
    total = ZERO
    for k in range(n):
        total += numbers[k]
    return total


@compiled
def fetch_ahead(rows, q, k, tables, records):
    """Prefetch the start of a record, if its feature has level k; a wrong guess does no harm."""
    o = tables.origins[k] + np.int64(rows.features[q]) * tables.strides[k]
    if o + LINE_FLOATS < records.size:
        prefetch(records, o)
        prefetch(records, o + LINE_FLOATS)


@compiled
def update_share(rows, s, share, rate, training):
    """Update the features of one share of step s."""
    tables, records, _, _, work, fields = training
    k, start, stop = tables.widths.size, rows.firsts[s], rows.shares[s, share + 1]
    for f in range(work.field_sums.shape[1]):
        work.field_sums[share, f] = ZERO
    for q in range(rows.shares[s, share], stop):
        i, a = np.int64(rows.features[q]), rows.starts[q]
        while i >= tables.sizes[k]:
            k -= 1
        if q + PREFETCH_FEATURES < stop:
            fetch_ahead(rows, q + PREFETCH_FEATURES, k, tables, records)
        feature = StepFeature(tables.origins[k] + i * tables.strides[k], k, a, rows.starts[q + 1] - a)
        gradient, square = sum_weight(rows, start, feature, training)
        step_weight(feature.o, gradient, square, rate, training)
        for p in range(k):
            square = sum_block(fields, rows, feature, p, share, training)
            step_vector(feature.o, block_of(p, tables), square, rate, training)


@compiled
def _sum_fields(fields, work):
    """Add up the gradients of the field weights, share by share."""
    for f in range(fields.weights.size):
        total = ZERO
        for share in range(SHARES):
            total += work.field_sums[share, f]
        fields.total[f] = total


sum_fields = with_field_weights(_sum_fields)


# ---- Steps


@compiled
def totals_of(work, chunks):
    """Return loss, slope and squared slopes of a step, added up chunk by chunk."""
    loss, slope, square = 0.0, 0.0, 0.0
    for chunk in range(chunks):
        loss, slope = loss + work.totals[chunk, 0], slope + work.totals[chunk, 1]
        square += work.totals[chunk, 2]
    return loss, np.float32(slope), np.float32(square)


@compiled
def meet(turn, team):
    """Wait until all threads have done their part."""
    if team.threads > 1:
        arrive(team.gate, team.thread, turn)
        wait_for_all(team.gate, team.threads, turn)


@compiled
def forward_step(rows, s, taken, training):
    """Take chunks of the rows of step s until none are left; return the number of chunks."""
    team, start, size = training.team, rows.firsts[s], rows.firsts[s + 1] - rows.firsts[s]
    chunks, tickets = -(-size // CHUNK_ROWS), team.threads * GATE_STRIDE
    chunk = take_ticket(team.gate, tickets) - taken
    while chunk < chunks:
        forward_chunk(rows, start, chunk, size, training)
        chunk = take_ticket(team.gate, tickets) - taken
    return chunks


@compiled
def update_step(rows, s, taken, slope, square, training):
    """Take shares of the features of step s until none are left; step the bias."""
    settings, team, work = training.settings, training.team, training.work
    rate = batch_rate(settings.optimizer, settings.learning_rate, work.bias[3] + ONE)
    share = take_ticket(team.gate, team.threads * GATE_STRIDE) - taken
    while share < SHARES:
        update_share(rows, s, share, rate, training)
        share = take_ticket(team.gate, team.threads * GATE_STRIDE) - taken
    wide_number(settings.optimizer, work.bias, 0, slope, square, settings.damping, rate, ZERO)
    work.bias[3] += ONE


@entry
def train_steps(rows, order, bias, total, training):
    """Train by the steps of `rows` in the given order.

    Return total plus the loss of these rows, the first step whose loss is not finite (or -1), and the number of rows
    trained. Every thread of a team calls this function at the same time, and all return the same result.

    bias is [bias, its state, its second state, steps so far]. Tickets are counted behind the counters of the barrier;
    in each phase every thread draws one too many, which is how it notices the end.
    """
    team, work, stopped, trained, taken = training.team, training.work, -1, 0, 0
    if team.threads == 1:  # otherwise cleared before the threads were started
        team.gate[GATE_STRIDE] = 0
    take_copies(bias, training)
    meet(1, team)
    for turn in range(order.size):
        s = order[turn]
        chunks = forward_step(rows, s, taken, training)
        taken += chunks + team.threads
        meet(2 * turn + 2, team)
        loss, slope, square = totals_of(work, chunks)
        if not is_finite(loss):
            stopped = turn
            break
        total += loss
        update_step(rows, s, taken, slope, square, training)
        taken += SHARES + team.threads
        meet(2 * turn + 3, team)
        sum_fields(training.fields, work)
        step_weights(training.fields)
        trained += rows.firsts[s + 1] - rows.firsts[s]
    put_copies(bias, training)
    return total, stopped, trained
