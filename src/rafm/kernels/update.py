"""Update phase of a mini-batch: each thread updates its own features, in the order of the rows."""

# mypy: ignore-errors
from ..jit.compile import as_written, compiled
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import add_direction, clear, combine, direct, inner
from .field_weights import unsigned
from .forward import span_of
from .optimizers import step_known, step_number, step_vector
from .tables import GROUPS, ONE, ZERO, FactorBlock, FieldWeights, Gradient, LevelEntries, NoFieldWeights


@compiled
def update_weight(records, o, slope, decay, rate, settings):
    """Step a linear weight along slope + decay * weight."""
    step_number(settings.optimizer, records, o, slope + decay * records[o], rate, settings.l1_weights)


@compiled
def block_of(p, tables):
    """Return block p."""
    return FactorBlock(tables.offsets[p], tables.widths[p], tables.states + p, tables.shares[p])


@compiled
def add_weight(heads, h, slope, weight):
    """Add a row's slope and weight to the sums of a head's linear weight."""
    heads[h] += slope
    heads[h + 1] += weight


@compiled
def update_weights(entries, t, weight, rate, training):
    """Update the weights of a row's tails of level 0; add the row's gradient to the sums of its heads of level 0."""
    _, records, settings, _, work, _ = training
    slope, decay = work.slopes[t, -1], weight * settings.l2_weights
    for q in range(entries.first, entries.middle):
        add_weight(work.heads, entries.places[q] + entries.shift, slope * entries.values[entries.start + q], weight)
    for q in range(entries.middle, entries.stop):
        update_weight(records, entries.places[q], slope * entries.values[entries.start + q], decay, rate, settings)


@compiled
def update_plain_block(_, entries, k, p, t, weight, rate, training):
    """Update block p of a row's tails of level k; add the row's gradient to the sums of its heads.

    The gradient is x c sums[j:] + (decay - g x^2) v. Linear weights are updated with the first block instead of in a
    loop of their own, because leaving a loop of a few iterations costs as much as several of them.
    """
    tables, records, settings, _, work, _ = training
    m, decay, slope, block = tables.widths.size, weight * settings.l2[p], work.slopes[t, -1], block_of(p, tables)
    j, c, g, heads, sums = t * tables.row + tables.starts[p], slope, slope, work.heads, work.sums
    if tables.nested and p + 1 < k:  # dependent: its direction is in T, with the slopes already multiplied in
        j, c, g = j + tables.starts[m], ONE, work.slopes[t, p]
    for q in range(entries.first, entries.middle):
        h, x = entries.places[q] + entries.shift, entries.values[entries.start + q]
        if p == 0:
            add_weight(heads, h, slope * x, weight)
        heads[h + block.state] += decay - g * x * x
        combine(heads, h + block.shift, sums, j, block.n, ONE, c * x)
    for q in range(entries.middle, entries.stop):
        o, x = entries.places[q], entries.values[entries.start + q]
        gradient = Gradient(sums, j, c * x, decay - g * x * x)
        step_vector(settings.optimizer, records, o, block, gradient, rate, settings.l1)
        if p == 0:
            update_weight(records, o, slope * x, weight * settings.l2_weights, rate, settings)


@compiled
def entry_of(fields, entries, u, q):
    """Return the record of a nonzero, its values x and y, its field and the weight of that."""
    e, q = unsigned(entries.start + q), unsigned(q)
    f = unsigned(fields.numbers[u, q])
    return entries.places[q], entries.values[e], fields.values[u, q], f, fields.weights[f]


@as_written
def bend_of(decay, g, x, y):
    """Return the factor of the vector in its gradient; as written, since heads add it to a sum."""
    return decay - g * (x * x - y * y)


@compiled
def weigh_dependent_entries(fields, entries, u, rest, block, slope, training):
    """Add -slope x v.(S' - T') of dependent vectors v, which is at `rest`, to the gradients of their fields."""
    records, sums, total = training.records, training.work.sums, fields.sums[entries.group]
    for q in range(entries.first, entries.stop):
        o, x, _, f, _ = entry_of(fields, entries, u, q)
        total[f] -= slope * x * inner(records, o + block.shift, sums, rest, block.n)


@compiled
def update_weighted_block(fields, entries, k, p, t, weight, rate, training):
    """Do the same with field weights, of which each feature has its own direction; add to the gradient of its field.

    With w the weight of the field and y = w x, the gradient of v is x c (S - w S') + (decay - g (x^2 - y^2)) v, and
    that of w is -slope x v.(S' - y v); for a dependent vector -slope x v.(S' - T'). The vector is that before its step.
    """
    tables, records, settings, _, work, _ = training
    decay, slope, block, whole = weight * settings.l2[p], work.slopes[t, -1], block_of(p, tables), tables.starts[-1]
    u, j, c, g, mine = t * GROUPS + entries.group, t * tables.row + tables.starts[p], slope, slope, slope
    heads, sums, out, total = work.heads, work.sums, fields.direction, fields.sums[entries.group]
    if tables.nested and p + 1 < k:  # dependent: what its vector meets is counted here, and not below
        weigh_dependent_entries(fields, entries, u, j + tables.weighted + 2 * whole, block, slope, training)
        j, c, g, mine = j + whole, ONE, work.slopes[t, p], ZERO
    for q in range(entries.first, entries.middle):
        o, x, y, f, w = entry_of(fields, entries, u, q)
        h, v = o + entries.shift, o + block.shift
        heads[h + block.state] += bend_of(decay, g, x, y)
        met = add_direction(heads, h + block.shift, sums, j, j + tables.weighted, records, v, block.n, w, y, c * x)
        if p == 0:
            add_weight(heads, h, slope * x, weight)
        total[f] -= mine * x * met
    for q in range(entries.middle, entries.stop):
        o, x, y, f, w = entry_of(fields, entries, u, q)
        v, d = o + block.shift, bend_of(decay, g, x, y)
        met, square = direct(out, sums, j, j + tables.weighted, records, v, block.n, w, y, c * x, d)
        step_known(settings.optimizer, records, o, block, Gradient(out, 0, c * x, d), square, rate, settings.l1)
        if p == 0:
            update_weight(records, o, slope * x, weight * settings.l2_weights, rate, settings)
        total[f] -= mine * x * met


update_block = chosen_by_type({NoFieldWeights: update_plain_block, FieldWeights: update_weighted_block})


@compiled
def update_group(rows, r, group, rate, training, t):
    """Update a group's tails of a row, and add the row's gradient to the sums of its heads."""
    tables, work = training.tables, training.work
    u, first, (start, _), weight = t * GROUPS + group, 0, span_of(rows, r, group), rows.weights[r]
    for k in range(tables.strides.size - 1, -1, -1):
        middle, stop, shift = work.head_ends[u, k], work.ends[u, k], tables.head_origins[k, group] - tables.origins[k]
        if first < stop:
            entries = LevelEntries(work.places[u], rows.values, start, first, middle, stop, group, shift)
            if k == 0:
                update_weights(entries, t, weight, rate, training)
            for p in range(k):
                update_block(training.fields, entries, k, p, t, weight, rate, training)
        first = stop


@compiled
def update_heads(rate, training):
    """Step each head of this thread that occurred in the batch once, by its summed gradient; clear the sums.

    Iterate away from the boundary between the groups: towards it, the hardware prefetcher would run into records that
    another thread is writing.
    """
    tables, _, _, team, work, _ = training
    for k in range(tables.strides.size):
        stride = tables.strides[k]
        for group in range(team.first, team.stop):
            first, stop = tables.bounds[k, 0, group], tables.bounds[k, 0, group + 1]
            for n in range(stop - first):
                i = stop - 1 - n if group == 0 else first + n
                h = tables.head_origins[k, group] + i * stride
                if work.heads[h + 1] != 0:  # the summed row weights: 0 if it did not occur
                    update_head(tables.origins[k] + i * stride, h, k, rate, training)


@compiled
def update_head(o, h, k, rate, training):
    """Step one head of level k by its gradient sums at h, and clear them."""
    tables, records, settings, _, work, _ = training
    update_weight(records, o, work.heads[h], work.heads[h + 1] * settings.l2_weights, rate, settings)
    for p in range(k):
        place, d = h + tables.offsets[p], work.heads[h + tables.states + p]
        gradient = Gradient(work.heads, place, ONE, d)
        step_vector(settings.optimizer, records, o, block_of(p, tables), gradient, rate, settings.l1)
    clear_sums(work.heads, h, tables.strides[k])


@compiled
def clear_sums(heads, h, n):
    """Set heads[h : h + n] to 0."""
    rest = n % 4  # records without vectors may be shorter than 4, which `clear` cannot handle
    clear(heads, h, n - rest)
    for f in range(h + n - rest, h + n):
        heads[f] = ZERO
