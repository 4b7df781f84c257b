"""Least squares over all pairs of a context and an item, feature by feature; train/whole_data/ says what is solved.

Letters, here and there:

    i       feature of the side that is being solved; its parameters are u = [weight, vector]
    r       row of that side: a distinct context, or a distinct item
    j       row of the other side, the partner
    x       value of a feature in a row
    t       positive pair of a row and a partner, in the order of the contexts
    g, e    weight and error of a positive: e = 1 - score
    z       design of a partner: [1, sum of its vectors], in the basis in which the Gram matrix is diagonal
    k       slot of the feature that is being solved: a partner, and the sums of g x e and g x^2 over its positives
    d       the diagonal of the Hessian without positives
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

from ..jit.compile import compiled, entry
from .tables import ZERO

COPIED_FLOATS = 1 << 17  # of designs that are copied together, so that they stay in the cache while a feature is solved
LEAST_SQUARE = np.float32(1e-25)  # of a residual that is worth another step
unsigned = np.uint64


class Side(NamedTuple):
    """The features of one side, their rows, and the positives of these."""

    starts: np.ndarray  # per feature: its first entry; then the number of all
    rows: np.ndarray  # per entry: its row
    values: np.ndarray  # per entry: x
    row_starts: np.ndarray  # per row: its first positive, in the order of this side; then the number of all
    partners: np.ndarray  # per positive in that order: j
    places: np.ndarray  # per positive in that order: t


class Positives(NamedTuple):
    """Weights and errors of all positives."""

    weights: np.ndarray  # g
    errors: np.ndarray  # e


class Partners(NamedTuple):
    """The rows of the other side."""

    designs: np.ndarray  # z of each row
    spectrum: np.ndarray  # eigenvalues of their Gram matrix, times the weight of unseen pairs


class Systems(NamedTuple):
    """Systems of equations, one for each of some features.

    Without positives, the Hessian is scales[m] * spectrum + penalties[m].
    """

    members: np.ndarray  # i
    scales: np.ndarray
    penalties: np.ndarray
    gradients: np.ndarray  # without positives, in the basis of the designs
    steps: np.ndarray  # the solutions, in that basis


class Slots(NamedTuple):
    """The partners of one feature, and work space."""

    partners: np.ndarray
    gradients: np.ndarray  # sum of g x e
    weights: np.ndarray  # sum of g x^2
    products: np.ndarray  # z.p of the current step
    totals: np.ndarray  # change of the score per x, so far
    copies: np.ndarray  # designs of few partners
    order: np.ndarray  # 0, 1, 2, ...


@entry
def sum_rows(indptr, features, values, numbers, out):
    """Set out[r] to the sum of x u over the features of row r."""
    for r in range(out.shape[0]):
        for f in range(out.shape[1]):
            out[r, f] = ZERO
        for q in range(indptr[r], indptr[r + 1]):
            i, x = features[q], values[q]
            for f in range(out.shape[1]):
                out[r, f] += x * numbers[i, f]


@entry
def set_errors(first, row_starts, partners, own, other, errors):
    """Set the errors of the positives of rows from `first` on, whose sums are `own`; a sum is [own term, vector]."""
    n = own.shape[1]
    for r in range(own.shape[0]):
        for t in range(row_starts[first + r], row_starts[first + r + 1]):
            j = unsigned(partners[t])
            score = own[r, 0] + other[j, 0]
            for f in range(1, n):
                score += own[r, f] * other[j, f]
            errors[t] = np.float32(1) - score


@entry
def sum_features(members, side, sums, out):
    """Set out[m] to the sum of x times the sums of its rows, for each member."""
    n = sums.shape[1]
    for m in range(members.size):
        for f in range(n):
            out[m, f] = ZERO
        for q in range(side.starts[members[m]], side.starts[members[m] + 1]):
            r, x = unsigned(side.rows[q]), side.values[q]
            for f in range(n):
                out[m, f] += x * sums[r, f]


@entry
def add_steps(members, side, steps, sums):
    """Add x times the step of each member to the sums of its rows."""
    n = steps.shape[1]
    for m in range(members.size):
        i = members[m]
        for q in range(side.starts[i], side.starts[i + 1]):
            r, x = unsigned(side.rows[q]), side.values[q]
            for f in range(n):
                sums[r, f] += x * steps[m, f]


@entry
def colour_features(order, side, n_rows, colours):
    """Give features that share a row different colours: each one more than the highest among its rows so far."""
    free = np.zeros(n_rows, np.int32)
    for m in range(order.size):
        i, colour = order[m], 0
        for q in range(side.starts[i], side.starts[i + 1]):
            colour = max(colour, free[side.rows[q]])
        for q in range(side.starts[i], side.starts[i + 1]):
            free[side.rows[q]] = colour + 1
        colours[i] = colour


@compiled
def count_positives(i, side):
    """Return the number of positives of a feature."""
    n = 0
    for q in range(side.starts[i], side.starts[i + 1]):
        n += side.row_starts[side.rows[q] + 1] - side.row_starts[side.rows[q]]
    return n


@compiled
def fill_slots(i, side, by_partner, weights, errors, slots):
    """List the partners of a feature, each once or by positive, with their sums; return their number."""
    n = slots.totals.size if by_partner else 0
    if by_partner:
        for k in range(n):
            slots.partners[k], slots.gradients[k], slots.weights[k] = k, ZERO, ZERO
    for q in range(side.starts[i], side.starts[i + 1]):
        r, x = side.rows[q], side.values[q]
        for s in range(side.row_starts[r], side.row_starts[r + 1]):
            t, j = unsigned(side.places[s]), side.partners[s]
            gx = weights[t] * x
            if by_partner:
                slots.gradients[j] += gx * errors[t]
                slots.weights[j] += gx * x
            else:
                slots.partners[n], slots.gradients[n], slots.weights[n] = j, gx * errors[t], gx * x
                n += 1
    return n


@compiled
def lower_errors(i, side, by_partner, slots, errors):
    """Subtract from the errors what the scores of a feature's positives have gained."""
    n = 0
    for q in range(side.starts[i], side.starts[i + 1]):
        r, x = side.rows[q], side.values[q]
        for s in range(side.row_starts[r], side.row_starts[r + 1]):
            k = side.partners[s] if by_partner else n
            errors[unsigned(side.places[s])] -= x * slots.totals[unsigned(k)]
            n += 1


@compiled
def start_residual(designs, listed, n_slots, slots, residual):
    """Add the designs of all slots, times the sums of g x e; copy them if they are few."""
    copies = n_slots <= slots.copies.shape[0]
    for k in range(n_slots):
        j, gradient = unsigned(listed[k]), slots.gradients[k]
        for f in range(residual.size):
            residual[f] += gradient * designs[j, f]
        if copies:
            for f in range(residual.size):
                slots.copies[k, f] = designs[j, f]


@compiled
def multiply(designs, listed, n_slots, weights, vector, products, out):
    """Set products to z.p of each slot, and add the sum of g x^2 (z.p) z to out; four slots at a time."""
    k, n = 0, vector.size
    while k + 4 <= n_slots:
        a, b = unsigned(listed[k]), unsigned(listed[k + 1])
        c, d = unsigned(listed[k + 2]), unsigned(listed[k + 3])
        s = t = u = v = ZERO
        for f in range(n):
            p = vector[f]
            s += designs[a, f] * p
            t += designs[b, f] * p
            u += designs[c, f] * p
            v += designs[d, f] * p
        products[k], products[k + 1], products[k + 2], products[k + 3] = s, t, u, v
        s *= weights[k]
        t *= weights[k + 1]
        u *= weights[k + 2]
        v *= weights[k + 3]
        for f in range(n):
            out[f] += (s * designs[a, f] + t * designs[b, f]) + (u * designs[c, f] + v * designs[d, f])
        k += 4
    while k < n_slots:
        a, s = unsigned(listed[k]), ZERO
        for f in range(n):
            s += designs[a, f] * vector[f]
        products[k] = s
        s *= weights[k]
        for f in range(n):
            out[f] += s * designs[a, f]
        k += 1


@compiled
def descend(designs, listed, n_slots, slots, diagonal, work, n_steps, step):
    """Take steps of conjugate gradients, preconditioned by the diagonal; work[0] holds the residual."""
    n, squared = diagonal.size, ZERO
    for f in range(n):
        work[1, f] = work[0, f] / diagonal[f]
        squared += work[0, f] * work[1, f]
    for _ in range(n_steps):
        if not squared > LEAST_SQUARE:
            break
        curvature = ZERO
        for f in range(n):
            work[2, f] = diagonal[f] * work[1, f]
        multiply(designs, listed, n_slots, slots.weights, work[1], slots.products, work[2])
        for f in range(n):
            curvature += work[1, f] * work[2, f]
        length, after = squared / curvature, ZERO
        for f in range(n):
            step[f] += length * work[1, f]
            work[0, f] -= length * work[2, f]
            after += work[0, f] * work[0, f] / diagonal[f]
        for k in range(n_slots):
            slots.totals[k] += length * slots.products[k]
        for f in range(n):
            work[1, f] = work[0, f] / diagonal[f] + after / squared * work[1, f]
        squared = after


@compiled
def most_slots(members, side, n_partners):
    """Return the largest number of slots of a feature."""
    most = 0
    for m in range(members.size):
        most = max(most, min(count_positives(members[m], side), n_partners))
    return most


@entry
def solve_systems(systems, side, partners, positives, n_steps):
    """Set the steps of some features by a few steps of conjugate gradients each; errors follow."""
    designs, (n_partners, n) = partners.designs, partners.designs.shape
    most = most_slots(systems.members, side, n_partners)
    n_copies = min(most, COPIED_FLOATS // n)
    room = np.empty((4, most), np.float32)
    slots = Slots(
        partners=np.empty(most, np.int32),
        gradients=room[0],
        weights=room[1],
        products=room[2],
        totals=room[3],
        copies=np.empty((n_copies, n), np.float32),
        order=np.arange(n_copies).astype(np.int32),
    )
    diagonal, work = np.empty(n, np.float32), np.empty((3, n), np.float32)
    for m in range(systems.members.size):
        i = systems.members[m]
        by_partner = count_positives(i, side) > n_partners
        n_slots = fill_slots(i, side, by_partner, positives.weights, positives.errors, slots)
        for f in range(n):
            diagonal[f] = systems.scales[m] * partners.spectrum[f] + systems.penalties[m]
            work[0, f], systems.steps[m, f] = -systems.gradients[m, f], ZERO
        slots.totals[:n_slots] = ZERO
        start_residual(designs, slots.partners, n_slots, slots, work[0])
        if n_slots <= n_copies:
            descend(slots.copies, slots.order, n_slots, slots, diagonal, work, n_steps, systems.steps[m])
        else:
            descend(designs, slots.partners, n_slots, slots, diagonal, work, n_steps, systems.steps[m])
        lower_errors(i, side, by_partner, slots, positives.errors)


@entry
def count_better(scores, starts, targets, hidden_starts, hidden, better):
    """Hide some items of each line of scores; set better[s] to how many come before the target of each place s.

    Equal scores come in the order of their items.
    """
    for c in range(scores.shape[0]):
        for h in range(hidden_starts[c], hidden_starts[c + 1]):
            scores[c, hidden[h]] = -np.inf
        for s in range(starts[c], starts[c + 1]):
            n, score = 0, scores[c, targets[s]]
            for j in range(targets[s]):
                n += scores[c, j] >= score
            for j in range(targets[s] + 1, scores.shape[1]):
                n += scores[c, j] > score
            better[s] = n
