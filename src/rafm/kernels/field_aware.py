"""Field-aware factorization machines: feature i has a vector v_{i,f} for every field f.

    score = bias + w.x + sum over pairs i < j of <v_{i,f(j)}, v_{j,f(i)}> x_i x_j,    f(i) the field of feature i

A row has sums S_{a,b} of v_{i,b} x_i over its features i of field a, for all pairs of its fields:

    pairs = sum_{a<b} <S_{a,b}, S_{b,a}> + sum_a sum_{i in a} <v_{i,a} x_i, the S_{a,a} of the features before i>

and the gradient of v_{i,b} is g x_i (S_{b,a} - [a = b] v_{i,b} x_i) + l2 v_{i,b}, with a the field of i. Vectors that
no pair of the row uses have none. With one feature per field these are the pairs one by one; with several, fewer.

A mini-batch has two phases with a barrier after each: threads take turns with the rows and compute sums, losses and
slopes; then each thread updates the features of its groups, in the order of the rows. So a row and a feature are each
computed by one thread, and models are bit-identical for any number of threads. Heads and tails are those of tables.py;
a head steps all its vectors.

A record has one factor block per field, all of the same width n. Here a and b are positions in the list of a row's
fields, and tables.row is the size of the sums of a row.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.barrier import arrive, wait_for_all
from ..jit.compile import compiled, entry
from ..jit.vectors import (
    add_gradients,
    add_spread,
    exp_neg_abs,
    inner,
    prefetch_shared,
    spread,
    strided_products,
)
from .forward import span_of
from .losses import is_finite, link, loss_slope, loss_value
from .optimizers import batch_rate, step_number, step_vectors
from .tables import CACHED_FLOATS, GROUPS, LINE_FLOATS, ONE, ZERO, FieldGradients, FieldVectors
from .training import LONG_WAIT_MICROSECONDS, ask_to_stop, asked_to_stop, copy_bias, fetch_rows, total_of
from .update import add_weight, clear_sums, update_weight

# ---- Forward


@compiled
def fetch_vectors(rows, batch, t, training):
    """Prefetch the records of a row's features, but for frequent ones, which stay in the cache."""
    tables, records = training.tables, training.records
    if records.size <= CACHED_FLOATS or t >= batch.size:
        return
    r, m = batch[t], tables.widths.size
    first, stop = tables.bounds[m, 0, GROUPS], tables.sizes[m]
    for e in range(rows.indptr[r], rows.indptr[r + 1]):
        i = np.int64(rows.indices[e])
        if first <= i < stop:
            o = tables.origins[m] + i * tables.strides[m]
            for line in range(o, o + tables.strides[m], LINE_FLOATS):
                prefetch_shared(records, line)


@compiled
def list_field(f, q, t, tables, work):
    """Return the position of a field in the list of row t, to which it is added if it is new."""
    if work.lookup[f] < 0:
        place = work.counts[t]
        work.lookup[f], work.fields[t, place] = place, f
        work.shifts[t, place], work.states[t, place] = tables.offsets[f], tables.states + f
        work.members[t, place], work.firsts[t, place], work.counts[t] = 0, q, place + 1
    return work.lookup[f]


@compiled
def list_row(rows, r, t, tables, records, work):
    """List the records of a row's nonzeros, and its fields; return the linear part."""
    m, start, linear = tables.widths.size, rows.indptr[r], ZERO
    work.counts[t] = 0
    for q in range(rows.indptr[r + 1] - start):
        i, own = np.int64(rows.indices[start + q]), np.int64(-1)
        k = m if i < tables.sizes[m] else 0
        o = tables.origins[k] + i * tables.strides[k]
        linear += records[o] * rows.values[start + q]
        if k > 0:
            own = list_field(np.int64(records[o + tables.field]), q, t, tables, work)
            work.members[t, own] += 1
        work.places[t, q], work.own[t, q] = o, own
    for place in range(work.counts[t]):
        work.lookup[work.fields[t, place]] = -1
    return linear


@compiled
def sum_row(rows, r, t, tables, records, work):
    """Sum S of all pairs of a row's fields; return the pairs of features of the same field."""
    start, count, n, pairs, shifts = rows.indptr[r], work.counts[t], tables.widths[0], ZERO, work.shifts[t]
    for q in range(rows.indptr[r + 1] - start):
        a, o, x = work.own[t, q], work.places[t, q], rows.values[start + q]
        if a < 0:
            continue
        j = t * tables.row + a * count * n
        if work.firsts[t, a] == q:
            spread(records, o, shifts, count, x, work.sums, j, n, n)
        else:
            pairs += x * inner(records, o + shifts[a], work.sums, j + a * n, n)
            add_spread(records, o, shifts, count, x, work.sums, j, n, n)
    return pairs


@compiled
def score_row(rows, r, t, tables, records, work):
    """Compute the sums of a row; return its score without the bias."""
    score = list_row(rows, r, t, tables, records, work)
    score += sum_row(rows, r, t, tables, records, work)
    count, n, sums = work.counts[t], tables.widths[0], work.sums
    for a in range(count):
        i = t * tables.row + (a * count + a) * n  # S_{a,a}; S_{a,b} follow it, and S_{b,a} are below it
        score += strided_products(sums, i + n, i + count * n, n, count * n, count - 1 - a, n)
    return score


@entry
def score_rows(rows, tables, records, bias, work, scores):
    """Write the score of every row into scores."""
    for r in range(scores.size):
        scores[r] = bias + score_row(rows, r, 0, tables, records, work)


@compiled
def slope_of_row(rows, r, t, settings, work):
    """Compute the loss of a row and its slope."""
    loss, shape, label, weight = settings.loss, settings.loss_shape, rows.labels[r], rows.weights[r]
    score, small = work.scores[4 * t], work.exp_neg_abs[4 * t]
    work.losses[t] = weight * loss_value(loss, score, label, small, work.log_1p[4 * t], shape)
    work.slopes[t] = weight * loss_slope(loss, score, link(loss, score, small), label, shape)


@compiled
def forward_rows(rows, batch, training):
    """Compute sums, losses and slopes of this thread's rows of a batch."""
    tables, records, settings, team, work, _ = training
    for t in range(team.thread, batch.size, team.threads):
        fetch_vectors(rows, batch, t + team.threads, training)
        lane = 4 * t  # vectors have at least 4 elements, and those of other rows belong to other threads
        work.scores[lane] = work.bias[0] + score_row(rows, batch[t], t, tables, records, work)
        if settings.uses_exp:
            exp_neg_abs(work.scores, lane, work.exp_neg_abs, lane, work.log_1p, lane, 4)
        slope_of_row(rows, batch[t], t, settings, work)


# ---- Update


@compiled
def fields_of(part, t, a, weight, c, x, training):
    """Return first, stop and d of one part of a row's fields: those before field a, a itself, and those after it.

    The gradient of their vectors is c S + d v. The own field of a feature counts if it has other features in the row.
    """
    work, decay = training.work, weight * training.settings.l2[0]
    if part == 0:
        return np.int64(0), a, decay
    if part == 1:
        return a, a + (work.members[t, a] > 1), decay - c * x
    return a + 1, work.counts[t], decay


@compiled
def update_feature(t, q, x, weight, rate, training):
    """Step weight and vectors of a tail by the gradient of row t."""
    tables, records, settings, _, work, _ = training
    a, o, n, c = work.own[t, q], work.places[t, q], tables.widths[0], work.slopes[t] * x
    j, stride = t * tables.row + a * n, work.counts[t] * n  # of S_{b,a}
    for part in range(3 if a >= 0 else 0):
        first, stop, d = fields_of(part, t, a, weight, c, x, training)
        vectors = FieldVectors(work.shifts[t], work.states[t], first, stop, n, tables.shares[0])
        gradients = FieldGradients(work.sums, j, stride, c, d)
        step_vectors(settings.optimizer, records, o, vectors, gradients, rate, settings.l1)
    update_weight(records, o, c, weight * settings.l2_weights, rate, settings)


@compiled
def add_feature(t, q, x, h, weight, training):
    """Add the gradient of row t to the sums of a head."""
    tables, records, _, _, work, _ = training
    a, o, n, c = work.own[t, q], work.places[t, q], tables.widths[0], work.slopes[t] * x
    j, stride = t * tables.row + a * n, work.counts[t] * n
    for part in range(3 if a >= 0 else 0):
        first, stop, d = fields_of(part, t, a, weight, c, x, training)
        count, sums = stop - first, work.sums
        add_gradients(work.heads, h, records, o, work.shifts[t], first, count, sums, j, stride, c, d, n)
    add_weight(work.heads, h, c, weight)


@compiled
def update_group(rows, r, t, group, rate, training):
    """Update a group's tails of a row, and add the row's gradient to the sums of its heads."""
    tables, work, m = training.tables, training.work, training.tables.widths.size
    (first, stop), weight, start = span_of(rows, r, group), rows.weights[r], rows.indptr[r]
    for e in range(first, stop):
        i, x = rows.indices[e], rows.values[e]
        k = m if i < tables.sizes[m] else 0
        if i < tables.bounds[k, 0, GROUPS]:
            h = work.places[t, e - start] - tables.origins[k] + tables.head_origins[k, group]
            add_feature(t, e - start, x, h, weight, training)
        else:
            update_feature(t, e - start, x, weight, rate, training)


@compiled
def update_head(o, h, k, rate, training):
    """Step weight and vectors of a head by its gradient sums at h, and clear them."""
    tables, records, settings, _, work, _ = training
    update_weight(records, o, work.heads[h], work.heads[h + 1] * settings.l2_weights, rate, settings)
    if k > 0:
        place, stride = tables.offsets[0], tables.offsets[k - 1] - tables.offsets[0]
        stride = stride // (k - 1) if k > 1 else stride
        vectors = FieldVectors(tables.offsets, work.all_states, np.int64(0), k, tables.widths[0], tables.shares[0])
        gradients = FieldGradients(work.heads, h + place, stride, ONE, ZERO)
        step_vectors(settings.optimizer, records, o, vectors, gradients, rate, settings.l1)
    clear_sums(work.heads, h, tables.strides[k])


@compiled
def update_heads(rate, training):
    """Step each head of this thread that occurred in the batch once, by its summed gradient."""
    tables, _, _, team, work, _ = training
    m = tables.widths.size
    for k in range(0, m + 1, m):
        for group in range(team.first, team.stop):
            for i in range(tables.bounds[k, 0, group], tables.bounds[k, 0, group + 1]):
                h = tables.head_origins[k, group] + i * tables.strides[k]
                if work.heads[h + 1] != 0:  # the summed row weights: 0 if it did not occur
                    update_head(tables.origins[k] + i * tables.strides[k], h, k, rate, training)


@compiled
def update_rows(rows, batch, rate, training):
    """Update this thread's features of a batch, and its copy of the bias."""
    work = training.work
    for t in range(batch.size):
        for group in range(training.team.first, training.team.stop):
            update_group(rows, batch[t], t, group, rate, training)
    update_heads(rate, training)
    step_number(training.settings.optimizer, work.bias, 0, total_of(work.slopes, batch.size), rate, ZERO)
    work.bias[3] += ONE


# ---- Training


@compiled
def meet(turn, team):
    """Wait until all threads have arrived; return the microseconds waited, 0 if it was short."""
    if team.threads == 1:
        return 0
    arrive(team.gate, team.thread, turn)
    return wait_for_all(team.gate, team.threads, turn)


@entry
def train_rows(rows, order, bias, total, training):
    """Train on rows in the given order, as train_rows of training.py does; see there for arguments and result."""
    settings, team, work = training.settings, training.team, training.work
    size, stopped, trained, waited = work.losses.size, -1, 0, 0
    copy_bias(work.bias, bias)
    for turn in range(-(-order.size // size)):
        batch, following = order[turn * size : (turn + 1) * size], order[(turn + 1) * size : (turn + 2) * size]
        rate = batch_rate(settings.optimizer, settings.learning_rate, work.bias[3] + ONE)
        if waited > LONG_WAIT_MICROSECONDS:
            ask_to_stop(turn, team)
        forward_rows(rows, batch, training)
        waited += meet(2 * turn + 1, team)
        asked = asked_to_stop(turn, team)
        loss = total_of(work.losses, batch.size)
        if not is_finite(loss):
            stopped = turn * size
            break
        total, trained = total + loss, trained + batch.size
        fetch_rows(rows, following)
        update_rows(rows, batch, rate, training)
        fetch_vectors(rows, following, team.thread, training)
        waited += meet(2 * turn + 2, team)
        if asked:
            break
    if team.thread == 0:
        copy_bias(bias, work.bias)
    return total, stopped, trained
