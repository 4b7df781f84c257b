"""MRMA kernels: a mixture of FMs of all ranks for rows of two features, trained by iterated conditional modes.

    score = bias + w_i x_i + w_j x_j + sum_p c_p q_p / sum_p c_p
    c_p = a_i^p a_j^p, the mixture weights of the two features;  q_p = (v_i^p . v_j^p) x_i x_j

A row that does not have exactly two known features is scored by its linear part. Names are those of tables.py.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import MATHS, helper, kernel
from .losses import is_finite, link, loss_slope, loss_value

compiled, entry = helper(makes_arrays=True, **MATHS), kernel(**MATHS)
FLOOR = np.float32(0.01)  # lower bound of mixture weights: shares divide by their sum


@compiled
def dot(left, right):
    """Return the inner product."""
    total = left[0] * 0  # a zero of the arrays' type
    for f in range(left.size):
        total += left[f] * right[f]
    return total


@compiled
def linear_part(rows, r, tables, records):
    """Return w.x of a row."""
    total = records[:1].sum() * 0
    for e in range(rows.indptr[r], rows.indptr[r + 1]):
        total += records[tables.origins[-1] + rows.indices[e] * tables.strides[-1]] * rows.values[e]
    return total


@compiled
def mix(i, j, xx, tables, records, mixture, shares, products):
    """Set shares to c_p / sum c and products to q_p; return sum_p shares_p products_p."""
    n = shares.size
    o, u = (tables.origins[n] + i * tables.strides[n], tables.origins[n] + j * tables.strides[n])
    for p in range(n):
        place, width = tables.offsets[p], tables.widths[p]
        shares[p] = mixture[i, p] * mixture[j, p]
        left = records[o + place : o + place + width]
        products[p] = xx * dot(left, records[u + place : u + place + width])
    shares /= shares.sum()
    return dot(shares, products)


@compiled
def score_pair(rows, r, tables, records, mixture, shares, products):
    """Return the score of a row without the bias, and its pair term."""
    a, pair = rows.indptr[r], shares[0] * 0
    if rows.indptr[r + 1] - a == 2:
        i, j, xx = rows.indices[a], rows.indices[a + 1], rows.values[a] * rows.values[a + 1]
        pair = mix(i, j, xx, tables, records, mixture, shares, products)
    return linear_part(rows, r, tables, records) + pair, pair


@entry
def score_rows(rows, tables, records, bias, mixture, scores):
    """Write the score of every row into scores."""
    shares, products = np.zeros_like(mixture[0]), np.zeros_like(mixture[0])
    for r in range(scores.size):
        scores[r] = bias + score_pair(rows, r, tables, records, mixture, shares, products)[0]


@compiled
def slope_and_loss(settings, score, label):
    """Return the slope and value of the loss, computed in float64."""
    small = np.exp(-abs(score)) if settings.uses_exp else 0.0
    prediction, shape = link(settings.loss, score, small), np.float64(settings.loss_shape)
    value = loss_value(settings.loss, score, label, small, np.log1p(small), shape)
    return loss_slope(settings.loss, score, prediction, label, shape), value


@compiled
def adagrad(states, at, square, learning_rate):
    """Add a squared gradient to the state; return the step size."""
    states[at] += square
    return learning_rate / np.sqrt(states[at])


@compiled
def step_weights(rows, r, slope, decay, tables, records, learning_rate):
    """Step the linear weights of a row along slope x + decay * weight."""
    for e in range(rows.indptr[r], rows.indptr[r + 1]):
        o = tables.origins[-1] + rows.indices[e] * tables.strides[-1]
        g = slope * rows.values[e] + decay * records[o]
        records[o] -= adagrad(records, o + 1, g * g, learning_rate) * g


@compiled
def step_vector(vector, other, c, decay, share, records, state, learning_rate):
    """Step a vector along c * other + decay * vector; share is 1 / rank, since vector.size includes padding."""
    square = c * 0
    for f in range(vector.size):
        g = c * other[f] + decay * vector[f]
        square += g * g
    step = adagrad(records, state, square * share, learning_rate)
    for f in range(vector.size):
        vector[f] -= step * (c * other[f] + decay * vector[f])  # the gradient again: it is not stored


@compiled
def step_factors(i, j, c, weight, l2, shares, tables, records, learning_rate):
    """Step all vectors of a pair simultaneously; c is slope * x_i x_j.

    The penalty of a vector, like its slope, is weighted by its share in the prediction.
    """
    n = shares.size
    o, u = (tables.origins[n] + i * tables.strides[n], tables.origins[n] + j * tables.strides[n])
    for p in range(n):
        place, width = tables.offsets[p], tables.widths[p]
        left, right = records[o + place : o + place + width], records[u + place : u + place + width]
        before, share, shrink = left.copy(), tables.shares[p], weight * l2[p] * shares[p]
        step_vector(left, right, c * shares[p], shrink, share, records, o + 2 + p, learning_rate)
        step_vector(right, before, c * shares[p], shrink, share, records, u + 2 + p, learning_rate)


@compiled
def step_mixture(i, other, slope, pair, total, products, mixture, states, pull, learning_rate):
    """Step the mixture weights of feature i, whose gradient is slope a_other^p (q_p - pair) / total.

    An L1 penalty pulls them towards 1, their prior mean.
    """
    for p in range(products.size):
        g = slope * other[p] * (products[p] - pair) / total
        step = adagrad(states[i], p, g * g, learning_rate)
        away = mixture[i, p] - step * g - 1
        kept = max(abs(away) - step * pull, 0.0)
        mixture[i, p] = max(1 + (kept if away > 0 else -kept), FLOOR)


@entry
def train_factors(rows, order, tables, records, bias, mixture, settings):
    """Train all parameters but the mixture weights.

    Return the summed loss, and the first position in order whose loss is not finite or -1.
    """
    shares, products, total = np.zeros_like(mixture[0]), np.zeros_like(mixture[0]), 0.0
    for t in range(order.size):
        r = order[t]
        a, weight = rows.indptr[r], rows.weights[r]
        score, _ = score_pair(rows, r, tables, records, mixture, shares, products)
        slope, value = slope_and_loss(settings, np.float64(bias[0] + score), np.float64(rows.labels[r]))
        if not is_finite(value):
            return total, t
        total += weight * value
        g = mixture.dtype.type(weight * slope)
        bias[0] -= adagrad(bias, 1, g * g, settings.learning_rate) * g
        step_weights(rows, r, g, weight * settings.l2_weights, tables, records, settings.learning_rate)
        if rows.indptr[r + 1] - a == 2:
            i, j, c = rows.indices[a], rows.indices[a + 1], g * rows.values[a] * rows.values[a + 1]
            step_factors(i, j, c, weight, settings.l2, shares, tables, records, settings.learning_rate)
    return total, -1


@entry
def train_mixture(rows, order, tables, records, bias, mixture, states, pull, settings):
    """Train the mixture weights with all other parameters fixed; return (0, -1), the shape of train_factors' result."""
    shares, products = np.zeros_like(mixture[0]), np.zeros_like(mixture[0])
    for r in order:
        a = rows.indptr[r]
        if rows.indptr[r + 1] - a != 2:
            continue
        i, j = rows.indices[a], rows.indices[a + 1]
        score, pair = score_pair(rows, r, tables, records, mixture, shares, products)
        slope, _ = slope_and_loss(settings, np.float64(bias[0] + score), np.float64(rows.labels[r]))
        g, before = mixture.dtype.type(rows.weights[r] * slope), mixture[i].copy()
        total, shrink = dot(mixture[i], mixture[j]), rows.weights[r] * pull
        step_mixture(i, mixture[j], g, pair, total, products, mixture, states, shrink, settings.learning_rate)
        step_mixture(j, before, g, pair, total, products, mixture, states, shrink, settings.learning_rate)
    return 0.0, -1
