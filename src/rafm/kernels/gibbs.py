"""Draws of Gibbs sampling: parameters, their priors, sweeps over all factors. Names are those of gibbs_tables.py."""

# mypy: ignore-errors
import numpy as np

from ..jit.barrier import arrive, wait_for_all
from ..jit.compile import compiled, entry
from .gibbs_rows import (
    add_moments,
    moments_of_run,
    sum_rows,
    turn_sums,
    update_inner,
    update_inner_run,
    update_rows,
    update_run,
)
from .gibbs_tables import INNER, OWN, WHOLE
from .philox import fill_normals, gamma, normal
from .tables import HALF, ONE, ZERO

MOST_PRECISION = 1000.0  # about the largest lambda / s that is learnt, for fields of fewer features than this
EARLY_SWEEPS = 30  # with a lower one: factors that have not grown yet would be taken for needless, and stay small

OF_BIAS, OF_NOISE, OF_PRECISION, OF_MEAN, OF_PARAMETER = (np.uint64(purpose) for purpose in range(5))  # last counter


@compiled
def meet(turn, team):
    """Wait for all threads; return the next turn."""
    if team.threads > 1:
        arrive(team.gate, team.thread, turn + 1)
        wait_for_all(team.gate, team.threads, turn + 1)
    return turn + 1


@compiled
def share(n, thread, threads):
    """Return the first and one past the last of n things that a thread owns."""
    return n * thread // threads, n * (thread + 1) // threads


@compiled
def sum_features(design, s, f, chain):
    """Sum the parameters of factor f, and their squares, over the share of part s of each field."""
    for k in range(design.field_bounds.size - 1):
        first, n = design.field_bounds[k], design.field_bounds[k + 1] - design.field_bounds[k]
        a, b = share(n, s, design.cuts.size - 1)
        total, square = 0.0, 0.0
        for i in range(first + a, first + b):
            v = np.float64(chain.numbers[f, i])
            total += v
            square += v * v
        chain.partial[s, k, 0], chain.partial[s, k, 1] = total, square


@compiled
def sum_errors(design, s, chain):
    """Sum g e and g over the rows of part s."""
    total, weight = 0.0, 0.0
    for r in range(design.cuts[s], design.cuts[s + 1]):
        g = design.weights[r] if design.weights.size else ONE
        total += g * chain.errors[r]
        weight += g
    chain.partial[s, -1, 0], chain.partial[s, -1, 1] = total, weight


@compiled
def joined(chain, k):
    """Return the two sums of a field over all parts, in order."""
    total, square = 0.0, 0.0
    for s in range(chain.partial.shape[0]):
        total += chain.partial[s, k, 0]
        square += chain.partial[s, k, 1]
    return total, square


@compiled
def draw_hyper(design, k, f, chain, draw):
    """Return lambda and mu of a field and factor, drawn given its parameters.

    The prior of lambda / s is Gamma(1/2, c/2), that of mu is N(0, 1 / lambda). c is 1 at first, and for fields of many
    features; for those of few, 1 would keep lambda small though they say nothing.
    """
    old, n, size = chain.hyper[draw.sweep % 2, f, k], 0, design.sizes[k]
    if draw.pull > 0:
        return draw.pull * size, 0.0
    if not draw.learns:
        return old[0], old[1]
    for b in range(design.fields.size):
        n += design.active[b, f] if design.fields[b] == k else 0
    total, square = joined(chain, k)
    rate = 1.0 if draw.sweep < EARLY_SWEEPS else min(1.0, n / MOST_PRECISION)
    spread = square - 2 * old[1] * total + n * old[1] * old[1]  # sum of (v - mu)^2
    counters = np.uint64(f), np.uint64(draw.sweep)
    key = np.uint64(draw.key), np.uint64(draw.more_key)
    drawn = gamma(0.5 * n + 1, k << 10, counters[0], counters[1], OF_PRECISION, key[0], key[1])
    precision = drawn / (0.5 * (max(spread, 0.0) + old[1] * old[1] + rate / size))
    z = normal(k, counters[0], counters[1], OF_MEAN, key[0], key[1])
    return precision, total / (n + 1) + z / np.sqrt((n + 1) * precision)


@compiled
def draw_parameter(i, f, A, B, prior, chain, draw):
    """Draw one parameter given A, B and its prior (lambda, mu); return new minus old."""
    v = chain.numbers[f, i]
    precision, mean, alpha = prior[0], prior[1], draw.alpha
    if draw.pull > 0:
        mean, alpha = np.float64(chain.centres[f, i]), 1.0
    variance = 1 / (precision + alpha * A)
    mean = (alpha * (B + A * v) + precision * mean) * variance
    if draw.collects:
        chain.means[f, i] += mean
    new = np.float32(mean if draw.pull > 0 else mean + chain.normals[i] * np.sqrt(variance))
    chain.numbers[f, i] = new
    return new - v


@compiled
def prepare_normals(first, stop, f, chain, draw):
    """Fill the normals of these features."""
    if draw.pull == 0:
        counters = np.uint64(f), np.uint64(draw.sweep)
        key = np.uint64(draw.key), np.uint64(draw.more_key)
        fill_normals(chain.normals, first, stop, counters[0], counters[1], OF_PARAMETER, key[0], key[1])


@compiled
def own_share(design, b, f, chain):
    """Return how much of q is v of the feature itself, for a feature of block b."""
    return ZERO if f == 0 else chain.shares[OWN, design.fields[b]]


@compiled
def draw_block(design, b, f, prior, chain, draw, team):
    """Draw this thread's share of the features of a block from their moments, which are cleared."""
    first, n, table = design.bounds[b], design.bounds[b + 1] - design.bounds[b], chain.moments
    copies, own = (design.cuts.size - 1) * (design.lanes[b] + 1), own_share(design, b, f, chain)
    start, stop = share(n, team.thread, team.threads)
    prepare_normals(first + start, first + stop, f, chain, draw)
    for i in range(start, stop):
        A, B = 0.0, 0.0
        for copy in range(copies):
            t = 2 * (copy * n + i)
            A += table[t]
            B += table[t + 1]
            table[t], table[t + 1] = 0.0, 0.0
        is_active = i < design.active[b, f]
        step = 2 * (first + i)
        chain.steps[step] = own * chain.numbers[f, first + i]
        chain.steps[step + 1] = draw_parameter(first + i, f, A, B, prior, chain, draw) if is_active else ZERO


@compiled
def draw_main(design, s, f, prior, chain, draw):
    """Draw the features of the main block in part s and update their rows, which no other part has."""
    b, own = design.main, own_share(design, design.main, f, chain)
    first, x0, inner = design.bounds[b], design.starts[b], chain.shares[INNER, design.fields[b]]
    start, stop = design.main_cuts[s], min(design.main_cuts[s + 1], design.active[b, f])
    prepare_normals(first + start, first + max(start, stop), f, chain, draw)
    for i in range(start, stop):
        a, end, v = design.runs[i], design.runs[i + 1], own * chain.numbers[f, first + i]
        A, B = moments_of_run(design, a, end, x0, v, chain)
        d = draw_parameter(first + i, f, A, B, prior, chain, draw)
        update_run(design, a, end, x0, v, d, own, chain)
        if f > 0 and inner != 0:
            update_inner_run(design, a, end, x0, inner * d, chain)


@compiled
def sample_block(design, b, f, prior, chain, draw, team, turn):
    """Draw all features of a block and update the rows; return the next turn of the barrier."""
    first, stop = share(design.cuts.size - 1, team.thread, team.threads)
    own, inner = own_share(design, b, f, chain), chain.shares[INNER, design.fields[b]]
    if f > 0:
        before = chain.shares[INNER, design.fields[b - 1]] if b > 0 else ZERO
        for s in range(first, stop):
            turn_sums(design, s, before - inner, chain)
    if b == design.main:
        for s in range(first, stop):
            draw_main(design, s, f, prior, chain, draw)
        return turn
    for s in range(first, stop):
        add_moments(design, b, s, chain.numbers[f], own, chain)
    turn = meet(turn, team)
    draw_block(design, b, f, prior, chain, draw, team)
    turn = meet(turn, team)
    for s in range(first, stop):
        update_rows(design, b, s, own, chain)
        if f > 0 and inner != 0:
            update_inner(design, b, s, inner, chain)
    return turn


@compiled
def draw_bias(chain, draw):
    """Return the step of the bias, whose prior is flat."""
    error, weight = joined(chain, chain.partial.shape[1] - 1)
    step = error / max(weight, 1e-30)
    if draw.pull > 0:
        return step
    key = np.uint64(draw.key), np.uint64(draw.more_key)
    z = normal(0, np.uint64(0), np.uint64(draw.sweep), OF_BIAS, key[0], key[1])
    return step + z / np.sqrt(max(draw.alpha * weight, 1e-30))


@compiled
def sum_inner(design, s, f, chain):
    """Set q' of the rows of part s, if fields have weights."""
    if chain.inner.size:
        sum_rows(design, s, chain.numbers[f], chain.shares[INNER], chain.inner, False)


@compiled
def prepare_factor(design, f, chain, team):
    """Set q of this thread's rows, and sum its shares of the parameters and of the errors."""
    first, stop = share(design.cuts.size - 1, team.thread, team.threads)
    for s in range(first, stop):
        sum_features(design, s, f, chain)
        if f > 0:
            sum_rows(design, s, chain.numbers[f], chain.shares[WHOLE], chain.sums, False)
            sum_inner(design, s, f, chain)
        else:
            sum_errors(design, s, chain)
            for r in range(design.cuts[s], design.cuts[s + 1]):
                chain.sums[r] = ONE


@compiled
def step_bias(design, chain, draw, team):
    """Draw the bias and update this thread's errors."""
    step = draw_bias(chain, draw)
    first, stop = share(design.cuts.size - 1, team.thread, team.threads)
    for r in range(design.cuts[first], design.cuts[stop]):
        chain.errors[r] -= np.float32(step)
    if team.thread == 0:
        chain.bias[0] += step


@entry
def sample_factors(design, first, stop, chain, draw, team):
    """Draw the bias (with factor 0), then factors first .. stop - 1, block by block; return the work done.

    Every thread of a team calls this at the same time.
    """
    turn, fresh = 0, 1 - draw.sweep % 2
    for f in range(first, stop):
        prepare_factor(design, f, chain, team)
        turn = meet(turn, team)
        if f == 0:
            step_bias(design, chain, draw, team)
        k, prior = -1, (0.0, 0.0)
        for b in range(design.fields.size):
            if design.fields[b] != k:
                k = design.fields[b]
                prior = draw_hyper(design, k, f, chain, draw)
                if team.thread == 0:  # to the other half of `hyper`: threads may still be reading
                    chain.hyper[fresh, f, k, 0], chain.hyper[fresh, f, k, 1] = prior
            turn = sample_block(design, b, f, prior, chain, draw, team, turn)
        turn = meet(turn, team)
    return 0.0, -1, (stop - first) * design.ids.size


@compiled
def subtract_factor(design, s, f, chain):
    """Subtract the term of factor f from the errors of part s; `steps` holds the squared parameters."""
    errors, sums = chain.errors, chain.sums
    sum_rows(design, s, chain.numbers[f], chain.shares[WHOLE], sums, False)
    for r in range(design.cuts[s], design.cuts[s + 1]):
        errors[r] -= sums[r] if f == 0 else HALF * sums[r] * sums[r]
    if f > 0 and chain.inner.size:
        sum_inner(design, s, f, chain)
        for r in range(design.cuts[s], design.cuts[s + 1]):
            errors[r] += HALF * chain.inner[r] * chain.inner[r]
    if f > 0:
        sum_rows(design, s, chain.steps, chain.shares[OWN], sums, True)
        for r in range(design.cuts[s], design.cuts[s + 1]):
            errors[r] += HALF * sums[r]


@entry
def renew_errors(design, labels, chain, team):
    """Compute the errors from the parameters, for labels that may be other than those of the rows."""
    turn, parts = 0, share(design.cuts.size - 1, team.thread, team.threads)
    for r in range(design.cuts[parts[0]], design.cuts[parts[1]]):
        chain.errors[r] = labels[r] - np.float32(chain.bias[0])
    for f in range(chain.numbers.shape[0]):
        first, stop = share(chain.numbers.shape[1], team.thread, team.threads)
        for i in range(first, stop):
            chain.steps[i] = chain.numbers[f, i] * chain.numbers[f, i]
        turn = meet(turn, team)
        for s in range(parts[0], parts[1]):
            subtract_factor(design, s, f, chain)
        turn = meet(turn, team)
    return 0.0, -1, 2 * chain.numbers.shape[0] * design.ids.size


@entry
def draw_noise(weight, loss, sweep, key, more_key):
    """Return the noise precision alpha, drawn given the weight of all rows and their weighted squared errors.

    Its prior is Gamma(1/2, 1/2).
    """
    counters, keys = (np.uint64(0), np.uint64(sweep)), (np.uint64(key), np.uint64(more_key))
    drawn = gamma(max(0.5 * weight + 0.5, 1.0), 0, counters[0], counters[1], OF_NOISE, keys[0], keys[1])
    return drawn / (0.5 * loss + 0.5)
