"""Field weights: a pair of features of fields a and b counts 1 - t_a t_b, with one number t in [-1, 1] per field.

With y = t x, the pairs of a block are those of the values x less those of the values y:

    A = (|S|^2 - sum |v x|^2) / 2 - (|S'|^2 - sum |v y|^2) / 2,    S = sum v x,    S' = sum v y

and T' is to S' as T is to S. The recursion over the blocks stays as it is. The gradients are in update.py.

A mini-batch sums the gradient of every t, group by group, while vectors are updated. Threads exchange these sums with
the partial sums of the next mini-batch, so no barrier is added: t steps one mini-batch late, by AdaGrad, for any number
of threads. Functions whose first argument is `fields` do nothing without field weights.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import compiled
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import add_listed, add_listed_twice, combine, copy, join, join_twice, sum_listed, sum_listed_twice
from .tables import GROUPS, HALF, ONE, ZERO, FieldScoring, FieldWeights, NoFieldWeights

unsigned = np.uint64  # of an index: Numba would also prepare for one that counts from the end
RATE = np.float32(0.05)  # AdaGrad's, for all optimisers
SHARED_WEIGHTS, SHARED_STATES, SHARED_SUMS = 0, 1, 2  # lines of FieldWeights.shared; one line of sums per group


def with_field_weights(function, kind=FieldWeights, otherwise=None):
    """Return a function that does nothing, or what `otherwise` does, without field weights."""
    return chosen_by_type({kind: function, NoFieldWeights: otherwise or do_nothing})


@compiled
def do_nothing(_, *arguments):
    """Do nothing."""


@compiled
def _weigh_value(fields, o, x, u, q, tables, records):
    """Set the field and y = t x of a nonzero; its record is at o."""
    f, q = np.int64(records[unsigned(o + tables.field)]), unsigned(q)
    fields.numbers[u, q] = f
    fields.values[u, q] = fields.weights[unsigned(f)] * x


@compiled
def _weigh_row(fields, values, a, tables, records, scratch):
    """Set y = (1 - t) x of a row to be scored."""
    if tables.widths.size > 0:
        for q in range(scratch.ends[1] - a):
            field = np.int64(records[scratch.places[q] + tables.field])
            fields.values[q] = (ONE - fields.weights[field]) * values[a + q]


@compiled
def _sum_blocks(_, values, where, tables, records, work):
    """Sum S and T of every block, and their squared norms, of one group of a row."""
    a, u, part, top = where
    parts, places, ends, scalars = work.parts, work.places[u], work.ends[u], part + tables.scalars
    whole = tables.starts[tables.widths.size]
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
def _sum_weighted_blocks(fields, values, where, tables, records, work):
    """Sum S, T, S' and T' of every block, and (x^2 - y^2) |v|^2, of one group of a row."""
    a, u, part, top = where
    parts, places, ends, y, scalars = work.parts, work.places[u], work.ends[u], fields.values[u], part + tables.scalars
    whole = tables.starts[tables.widths.size]
    for p in range(top):
        j, n, shift, stop = part + tables.starts[p], tables.widths[p], tables.offsets[p], ends[p + 1]
        k = j + tables.weighted
        if tables.nested and p + 1 < top:
            free = ends[p + 2]
            square = sum_listed_twice(records, places, 0, values, a, y, free, shift, parts, j, k, n)
            parts[scalars + 2 + 2 * p] = square
            copy(parts, j + whole, parts, j, n)
            copy(parts, k + whole, parts, k, n)
            square += add_listed_twice(records, places, free, values, a + free, y, stop - free, shift, parts, j, k, n)
        else:
            square = sum_listed_twice(records, places, 0, values, a, y, stop, shift, parts, j, k, n)
        parts[scalars + 1 + 2 * p] = square


@compiled
def scalars_of(groups, scalar):
    """Return the sum of a scalar over the groups."""
    return groups.first[groups.i + scalar] + groups.second[groups.j + scalar]


@compiled
def _join_groups(_, j, work, groups, place, scalar, n, tables):
    """Add the groups' partial sums into sums[j:]; return the sum of pair products, (|S|^2 - sum |v x|^2) / 2."""
    square = join(groups.first, groups.i + place, groups.second, groups.j + place, work.sums, j, n)
    return HALF * (square - scalars_of(groups, scalar))


@compiled
def _join_weighted_groups(fields, j, work, groups, place, scalar, n, tables):
    """Do the same for S and S'; return the sum of pair products, (|S|^2 - |S'|^2 - sum (x^2 - y^2) |v|^2) / 2."""
    i, k = groups.i + place, groups.j + place
    square, other = join_twice(groups.first, i, groups.second, k, work.sums, j, n, tables.weighted)
    return HALF * (square - other - scalars_of(groups, scalar))


@compiled
def _weigh_dependents(fields, j, sums, tables, p, slope, free):
    """Put S' - T' behind T', then replace T' like T by the gradient direction of the dependent factors."""
    n, whole = tables.widths[p], tables.starts[tables.widths.size]
    copy(sums, j + 2 * whole, sums, j, n)
    combine(sums, j + 2 * whole, sums, j + whole, n, ONE, -ONE)
    combine(sums, j + whole, sums, j, n, -free, slope + free)


@compiled
def _begin_weights(fields):
    """Copy weights, states and gradient sums: each thread steps its own."""
    for f in range(fields.weights.size):
        fields.weights[f], fields.states[f] = fields.shared[SHARED_WEIGHTS, f], fields.shared[SHARED_STATES, f]
        for group in range(GROUPS):
            fields.sums[group, f] = fields.shared[SHARED_SUMS + group, f]


@compiled
def _end_weights(fields, team):
    """Write back the weights, which all threads have, and the sums of this thread's groups."""
    for f in range(fields.weights.size):
        if team.thread == 0:
            fields.shared[SHARED_WEIGHTS, f], fields.shared[SHARED_STATES, f] = fields.weights[f], fields.states[f]
        for group in range(team.first, team.stop):
            fields.shared[SHARED_SUMS + group, f] = fields.sums[group, f]


@compiled
def _pass_sums(fields, side, team, tables, work):
    """Copy this thread's gradient sums of the last mini-batch behind its partial sums in the exchange buffer."""
    place = side + work.losses.size * tables.part
    for f in range(fields.weights.size):
        work.passed[place + f] = fields.sums[team.first, f]


@compiled
def _take_sums(fields, other, team, tables, work):
    """Add the gradient sums of all groups, in their order, and clear this thread's."""
    place = other + work.losses.size * tables.part
    for f in range(fields.weights.size):
        first, second = fields.sums[0, f], fields.sums[1, f]
        if team.threads > 1:
            first = work.passed[place + f] if team.thread > 0 else first
            second = work.passed[place + f] if team.thread == 0 else second
        fields.total[f] = first + second
        fields.sums[0, f] = fields.sums[1, f] = ZERO


@compiled
def _step_weights(fields):
    """Step all weights by the gradient of the mini-batch before, and keep them between 0 and 1."""
    for f in range(fields.weights.size):
        gradient = fields.total[f]
        fields.states[f] += gradient * gradient
        stepped = fields.weights[f] - RATE / np.sqrt(fields.states[f]) * gradient
        fields.weights[f] = min(max(stepped, ZERO), ONE)


weigh_value = with_field_weights(_weigh_value)
weigh_row = with_field_weights(_weigh_row, FieldScoring)
sum_blocks = with_field_weights(_sum_weighted_blocks, otherwise=_sum_blocks)
join_groups = with_field_weights(_join_weighted_groups, otherwise=_join_groups)
weigh_dependents = with_field_weights(_weigh_dependents)
begin_weights = with_field_weights(_begin_weights)
end_weights = with_field_weights(_end_weights)
pass_sums = with_field_weights(_pass_sums)
take_sums = with_field_weights(_take_sums)
step_weights = with_field_weights(_step_weights)
