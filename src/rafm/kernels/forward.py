"""Forward phase of a mini-batch: sums, scores, losses and slopes of its rows, from the parameters at its start.

Pairs of rows have the loss -log sigma(d), with d the score of the first less that of the second. The log loss of d with
label 1 and that of -d with label 0 have this value, and opposite slopes. So rows train as a pair if each one's score,
at every level, is replaced by its difference to the other's; all else stays as it is. A mini-batch has whole pairs.
"""

# mypy: ignore-errors
from ..jit.compile import compiled
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import combine, exp_neg_abs
from .field_weights import do_nothing, join_groups, scalars_of, sum_blocks, weigh_dependents, weigh_value
from .losses import link, loss_slope, loss_value
from .tables import GROUPS, ZERO, GroupOfRow, IndexedRows, PairedRows, Rows


@compiled
def span_of(rows, r, group):
    """Return the range of a row's nonzeros that belong to a group."""
    if group == 0:
        return rows.indptr[r], rows.middles[r]
    return rows.middles[r], rows.indptr[r + 1]


@compiled
def top_of(rows, r, tables):
    """Return the highest level of a row's features."""
    a, middle, b = rows.indptr[r], rows.middles[r], rows.indptr[r + 1]
    # Ids ascend within a group and levels descend with ids: the first id of each group has its highest level.
    highest = rows.indices[a] if a < middle else tables.sizes[0]
    if middle < b:
        highest = min(highest, rows.indices[middle])
    top = 0
    while top < tables.widths.size and highest < tables.sizes[top + 1]:
        top += 1
    return top


@compiled
def list_group(rows, a, b, tables, records, work, u, fields):
    """Record a group's nonzeros of a row, and where each level and its heads end; return their linear part."""
    places, ends, head_ends = work.places[u], work.ends[u], work.head_ends[u]
    indices, values, linear, e = rows.indices, rows.values, ZERO, a
    for k in range(tables.strides.size - 1, -1, -1):
        size, middle, origin = tables.sizes[k], tables.bounds[k, 0, GROUPS], tables.origins[k]
        stride, heads = tables.strides[k], e
        while e < b and indices[e] < size:
            i = indices[e]
            o = origin + i * stride
            places[e - a] = o
            linear += records[o] * values[e]
            if k > 0:
                weigh_value(fields, o, values[e], u, e - a, tables, records)
            heads += i < middle  # heads have the lowest numbers of a level, so they come first
            e += 1
        head_ends[k], ends[k] = heads - a, e - a
    return linear


@compiled
def part_of(group, t, tables, work):
    """Return the position of a group's partial sums of row t; the rows of a group are contiguous."""
    return group * (work.parts.size // GROUPS) + t * tables.part


@compiled
def sum_group(rows, r, group, tables, records, work, t, fields):
    """Sum one group of a row: linear part, S and T of every block, squared norms."""
    (a, b), u, part = span_of(rows, r, group), t * GROUPS + group, part_of(group, t, tables, work)
    work.parts[part + tables.scalars] = list_group(rows, a, b, tables, records, work, u, fields)
    sum_blocks(fields, rows.values, GroupOfRow(a, u, part, top_of(rows, r, tables)), tables, records, work)


@compiled
def join_row(rows, r, tables, bias, work, t, groups, fields):
    """Join the groups of a row into S, T and the scores B_{1,p+1} of its blocks; the last one is the row's score."""
    m, top = tables.widths.size, top_of(rows, r, tables)
    whole, place, scalars = tables.starts[m], t * tables.part, t * tables.part + tables.scalars
    score, excess = bias + scalars_of(groups, scalars), ZERO
    for p in range(top):
        n, j = tables.widths[p], t * tables.row + tables.starts[p]
        # Pairs of dependent features count in the block above, so their products in this one come off again.
        start = place + tables.starts[p]
        score += join_groups(fields, j, work, groups, start, scalars + 1 + 2 * p, n, tables) - excess
        excess = ZERO
        if tables.nested and p + 1 < top:
            excess = join_groups(fields, j + whole, work, groups, start + whole, scalars + 2 + 2 * p, n, tables)
        work.scores[p, t] = score
    work.scores[m, t] = score


@compiled
def _couple_scores(rows, batch, tables, work):
    """Replace the scores of each pair, at every level, by their differences."""
    m = tables.widths.size
    for t in range(0, batch.size, 2):
        first, second = top_of(rows, batch[t], tables), top_of(rows, batch[t + 1], tables)
        for p in range(m + 1):  # above a row's highest level its score stays the same
            difference = work.scores[p if p < first else m, t] - work.scores[p if p < second else m, t + 1]
            work.scores[p, t], work.scores[p, t + 1] = difference, -difference


@compiled
def _own_target(rows, top, prediction, settings, work, t):
    """Return the prediction of a row, which is that of its highest level."""
    return prediction


@compiled
def _target_of_pair(rows, top, prediction, settings, work, t):
    """Return the prediction at a row's highest level; that of its pair may be higher."""
    p = max(top - 1, 0)
    return link(settings.loss, work.scores[p, t], work.exp_neg_abs[p, t])


couple_scores = chosen_by_type({Rows: do_nothing, PairedRows: _couple_scores})
first_target = chosen_by_type({Rows: _own_target, IndexedRows: _own_target, PairedRows: _target_of_pair})


@compiled
def prepare_exp(tables, settings, work):
    """Compute exp(-|score|) and log(1 + exp(-|score|)) of all scores at once, by SIMD."""
    m, lanes = tables.widths.size, work.scores.shape[1]
    if settings.uses_exp:
        for p in range(0 if tables.nested else m, m + 1):  # without dependent factors only the row's score counts
            exp_neg_abs(work.scores[p], 0, work.exp_neg_abs[p], 0, work.log_1p, 0, lanes)


@compiled
def slopes_of_row(rows, r, tables, settings, work, t, fields):
    """Compute the loss of a row, its slopes and, for dependent factors, the direction of their gradient."""
    m, weight, label, score = tables.widths.size, rows.weights[r], rows.labels[r], work.scores[-1, t]
    loss, shape, small = settings.loss, settings.loss_shape, work.exp_neg_abs[m, t]
    work.losses[t] = weight * loss_value(loss, score, label, small, work.log_1p[t], shape)
    prediction = link(loss, score, small)
    work.slopes[t, m] = weight * loss_slope(loss, score, prediction, label, shape)
    if tables.nested:
        top = top_of(rows, r, tables)
        target = first_target(rows, top, prediction, settings, work, t)
        slopes_of_dependents(tables, settings, work, t, top, weight, target, fields)


@compiled
def slopes_of_dependents(tables, settings, work, t, top, weight, target, fields):
    """Replace T by the gradient direction of the dependent factors: g_p S, plus g (S - T) by the joint rule."""
    m = tables.widths.size
    slopes, upper = work.slopes[t], target
    free = slopes[m] if settings.joint else ZERO
    for p in range(top - 2, -1, -1):  # downwards: the prediction of each level is the target of the one below
        score = work.scores[p, t]
        lower = link(settings.loss, score, work.exp_neg_abs[p, t])
        slope = loss_slope(settings.loss, score, lower, upper, settings.loss_shape)
        slopes[p] = weight * settings.dependent_weight * slope
        upper = lower
        j = t * tables.row + tables.starts[p]
        combine(work.sums, j + tables.starts[m], work.sums, j, tables.widths[p], -free, slopes[p] + free)
        weigh_dependents(fields, j + tables.weighted, work.sums, tables, p, slopes[p], free)
