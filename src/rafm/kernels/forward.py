"""Forward phase of a mini-batch: sums, scores, losses and slopes of its rows, from the parameters at its start."""

# mypy: ignore-errors
from ..jit.compile import compiled
from ..jit.vectors import add_listed, combine, copy, exp_neg_abs, join, sum_listed
from .losses import link, loss_slope, loss_value
from .tables import GROUPS, HALF, ZERO


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
def list_group(rows, a, b, tables, records, work, u):
    """Record a group's nonzeros of a row, and where each level and its heads end; return their linear part."""
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
            heads += i < middle  # heads have the lowest numbers of a level, so they come first
            e += 1
        head_ends[k], ends[k] = heads - a, e - a
    return linear


@compiled
def part_of(group, t, tables, work):
    """Return the position of a group's partial sums of row t; the rows of a group are contiguous."""
    return group * (work.parts.size // GROUPS) + t * tables.part


@compiled
def sum_group(rows, r, group, tables, records, work, t):
    """Sum one group of a row: linear part, S and T of every block, squared norms."""
    (a, b), u, part = span_of(rows, r, group), t * GROUPS + group, part_of(group, t, tables, work)
    parts, places, values, ends, scalars = work.parts, work.places[u], rows.values, work.ends[u], part + tables.scalars
    parts[scalars] = list_group(rows, a, b, tables, records, work, u)
    top, whole = top_of(rows, r, tables), tables.starts[tables.widths.size]
    for p in range(top):
        j, n, shift, stop = part + tables.starts[p], tables.widths[p], tables.offsets[p], ends[p + 1]
        if tables.nested and p + 1 < top:  # T sums the dependent features only, so it is a partial sum of S
            free = ends[p + 2]
            square = sum_listed(records, places, 0, values, a, free, shift, parts, j, n)
            parts[scalars + 2 + 2 * p] = square
            copy(parts, j + whole, parts, j, n)
            square += add_listed(records, places, free, values, a + free, stop - free, shift, parts, j, n)
        else:
            square = sum_listed(records, places, 0, values, a, stop, shift, parts, j, n)
        parts[scalars + 1 + 2 * p] = square


@compiled
def join_groups(j, work, groups, place, scalar, n):
    """Add the groups' partial sums into sums[j:]; return the sum of pair products, (|S|^2 - sum |v x|^2) / 2."""
    square = join(groups.first, groups.i + place, groups.second, groups.j + place, work.sums, j, n)
    return HALF * (square - scalars_of(groups, scalar))


@compiled
def scalars_of(groups, scalar):
    """Return the sum of a scalar over the groups."""
    return groups.first[groups.i + scalar] + groups.second[groups.j + scalar]


@compiled
def join_row(rows, r, tables, bias, work, t, groups):
    """Join the groups of a row into S, T and the scores B_{1,p+1} of its blocks; the last one is the row's score."""
    m, top = tables.widths.size, top_of(rows, r, tables)
    whole, place, scalars = tables.starts[m], t * tables.part, t * tables.part + tables.scalars
    score, excess = bias + scalars_of(groups, scalars), ZERO
    for p in range(top):
        n, j = tables.widths[p], 2 * t * whole + tables.starts[p]
        # Pairs of dependent features count in the block above, so their products in this one come off again.
        score += join_groups(j, work, groups, place + tables.starts[p], scalars + 1 + 2 * p, n) - excess
        excess = ZERO
        if tables.nested and p + 1 < top:
            excess = join_groups(j + whole, work, groups, place + tables.starts[p] + whole, scalars + 2 + 2 * p, n)
        work.scores[p, t] = score
    work.scores[m, t] = score


@compiled
def prepare_exp(tables, settings, work):
    """Compute exp(-|score|) and log(1 + exp(-|score|)) of all scores at once, by SIMD."""
    m, lanes = tables.widths.size, work.scores.shape[1]
    if settings.uses_exp:
        for p in range(0 if tables.nested else m, m + 1):  # without dependent factors only the row's score counts
            exp_neg_abs(work.scores[p], 0, work.exp_neg_abs[p], 0, work.log_1p, 0, lanes)


@compiled
def slopes_of_row(rows, r, tables, settings, work, t):
    """Compute the loss of a row, its slopes and, for dependent factors, the direction of their gradient."""
    m, weight, label, score = tables.widths.size, rows.weights[r], rows.labels[r], work.scores[-1, t]
    loss, shape, small = settings.loss, settings.loss_shape, work.exp_neg_abs[m, t]
    work.losses[t] = weight * loss_value(loss, score, label, small, work.log_1p[t], shape)
    prediction = link(loss, score, small)
    work.slopes[t, m] = weight * loss_slope(loss, score, prediction, label, shape)
    if tables.nested:
        slopes_of_dependents(tables, settings, work, t, top_of(rows, r, tables), weight, prediction)


@compiled
def slopes_of_dependents(tables, settings, work, t, top, weight, prediction):
    """Replace T by the gradient direction of the dependent factors: g_p S, plus g (S - T) by the joint rule."""
    m = tables.widths.size
    slopes, upper = work.slopes[t], prediction
    free = slopes[m] if settings.joint else ZERO
    for p in range(top - 2, -1, -1):  # downwards: the prediction of each level is the target of the one below
        score = work.scores[p, t]
        lower = link(settings.loss, score, work.exp_neg_abs[p, t])
        slope = loss_slope(settings.loss, score, lower, upper, settings.loss_shape)
        slopes[p] = weight * settings.dependent_weight * slope
        upper = lower
        j = 2 * t * tables.starts[m] + tables.starts[p]
        combine(work.sums, j + tables.starts[m], work.sums, j, tables.widths[p], -free, slopes[p] + free)
