"""The paper's equations, slow and obvious, in float64. Nothing here shares code with the package.

A model is a dict: ranks D, levels k (one per feature), bias, w, and v[p][i], the vector v_i^(p+1) (None if inactive).
A row is a pair of arrays: feature ids and values.
"""

import numpy as np


def random_model(rng, ranks, levels, spread=0.5):
    """Return a model with random numbers for the given levels."""
    n = len(levels)
    vectors = [
        [rng.normal(0, spread, rank) if levels[i] > p else None for i in range(n)] for p, rank in enumerate(ranks)
    ]
    return {
        "ranks": ranks,
        "levels": list(levels),
        "bias": rng.normal(),
        "w": rng.normal(0, spread, n),
        "v": vectors,
    }


def linear(model, row):
    """Return bias + w.x."""
    return model["bias"] + sum(model["w"][i] * x for i, x in zip(*row))


def pairs(row):
    """Yield each pair of the row's features once, with the product of their values."""
    ids, values = row
    for a in range(len(ids)):
        for b in range(a):
            yield ids[a], ids[b], values[a] * values[b]


def rafm_score(model, row, lower, upper):
    """Return B_{l,k} by its definition: a pair interacts at level max(l, min(k, k_i, k_j)).

    lower > 1 needs vectors of that level for all features.
    """
    total = linear(model, row)
    for i, j, xx in pairs(row):
        level = max(lower, min(upper, model["levels"][i], model["levels"][j]))
        if min(model["levels"][i], model["levels"][j]) > 0:  # level 0: a weight and no vector
            total += model["v"][level - 1][i] @ model["v"][level - 1][j] * xx
    return total


def a_term(model, row, l, k):
    """Return A_{l,k}: the pairs of F_k with vectors of level l, one by one."""
    levels = model["levels"]
    return sum(
        model["v"][l - 1][i] @ model["v"][l - 1][j] * xx for i, j, xx in pairs(row) if levels[i] >= k and levels[j] >= k
    )


def difacto_score(model, row):
    """Return the score when a pair uses the common prefix of two vectors of lengths D_{k_i} and D_{k_j}.

    model["v"][p][i] holds the coordinates that level p + 1 adds.
    """

    def whole(i):
        parts = [model["v"][p][i] for p in range(model["levels"][i])]
        return np.concatenate(parts) if parts else np.zeros(0)

    total = linear(model, row)
    for i, j, xx in pairs(row):
        short = min(whole(i).size, whole(j).size)
        total += whole(i)[:short] @ whole(j)[:short] * xx
    return total


def mrma_score(model, row):
    """Return bias, weights and the mixture over ranks of u.v, weighted by a_i^k b_j^k."""
    (i, j), _ = row
    mix = model["mixture"]
    weights = [mix[i][p] * mix[j][p] for p in range(len(model["ranks"]))]
    products = [model["v"][p][i] @ model["v"][p][j] for p in range(len(model["ranks"]))]
    return linear(model, row) + np.dot(weights, products) / np.sum(weights)


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def loss(kind, score, label):
    """Return the log loss, or half the squared error."""
    if kind == "squared":
        return 0.5 * (score - label) ** 2
    return -label * np.log(sigmoid(score)) - (1 - label) * np.log(1 - sigmoid(score))


def target_loss(kind, score, target):
    """Return L(B_{1,p}, B_{1,p+1}): the loss with the prediction of another score as the label."""
    return loss(kind, score, target if kind == "squared" else sigmoid(target))


def numbers(model):
    """Yield (name, array) of every trained number as views that can be nudged."""
    yield ("w",), model["w"]
    for p, block in enumerate(model["v"]):
        for i, vector in enumerate(block):
            if vector is not None:
                yield ("v", p, i), vector


def finite_difference(function, array, at, step=1e-6):
    """Return the central difference of function() in one number."""
    old = array[at]
    array[at] = old + step
    up = function()
    array[at] = old - step
    down = function()
    array[at] = old
    return (up - down) / (2 * step)


def derivative(function, array):
    """Return the central differences of function() in every number of an array."""
    return np.array([finite_difference(function, array, at) for at in range(array.size)])


def penalty(model, row, l2, l2_weights):
    """Return the L2 penalty that one row adds: each occurrence of a feature counts."""
    total = 0.0
    for i in row[0]:
        total += 0.5 * l2_weights * model["w"][i] ** 2
        total += sum(0.5 * l2 * (model["v"][p][i] ** 2).sum() for p in range(model["levels"][i]))
    return total


def rafm_gradient(model, row, label, kind, joint, dependent_weight=1.0, l2=0.0, l2_weights=0.0):
    """Return {name: gradient} of every number of a RaFM by Algorithm 1 or the joint rule, from finite differences.

    Free numbers follow L(B_{1,m}, y). A dependent v_i^(p), k_i > p, follows L(B_{1,p}, B_{1,p+1}) with B_{1,p+1} held
    fixed, and by the joint rule L(B_{1,m}, y) too.
    """
    m = len(model["ranks"])

    def outer():
        return loss(kind, rafm_score(model, row, 1, m), label) + penalty(model, row, l2, l2_weights)

    gradients = {
        ("bias",): (
            loss(kind, rafm_score(model, row, 1, m) + 1e-6, label)
            - loss(kind, rafm_score(model, row, 1, m) - 1e-6, label)
        )
        / 2e-6
    }
    for name, array in numbers(model):
        if name[0] == "v" and model["levels"][name[2]] > name[1] + 1:
            gradients[name] = _dependent_gradient(
                model, row, kind, name, array, joint, dependent_weight, outer, l2, l2_weights
            )
        else:
            gradients[name] = derivative(outer, array)
    return gradients


def _dependent_gradient(model, row, kind, name, array, joint, dependent_weight, outer, l2, l2_weights):
    level = name[1] + 1
    target = rafm_score(model, row, 1, level + 1)

    def inner():
        return dependent_weight * target_loss(kind, rafm_score(model, row, 1, level), target)

    if joint:
        return derivative(inner, array) + derivative(outer, array)
    return derivative(inner, array) + derivative(lambda: penalty(model, row, l2, l2_weights), array)


def auc(labels, scores):
    """Return the share of (positive, negative) pairs in the right order, ties half."""
    positive = [s for s, y in zip(scores, labels) if y > 0]
    negative = [s for s, y in zip(scores, labels) if y <= 0]
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return wins / (len(positive) * len(negative))
