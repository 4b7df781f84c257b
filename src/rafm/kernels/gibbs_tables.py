"""Gibbs sampling of FM and DiFacto: draw every parameter from its distribution given all others, factor by factor.

    score = bias + sum_i w_i x_i + sum_f (q_f^2 - sum_i (x_i v_if)^2) / 2,  q_f = sum_i x_i v_if

The score is linear in each parameter: v_if has the slope h = x_i (q_f - x_i v_if), w_i has h = x_i. With errors
e = label - score, row weights g and noise precision alpha, a parameter v with prior N(mu, 1 / lambda) has the posterior

    N((alpha (B + A v) + lambda mu) / p, 1 / p),  p = lambda + alpha A,  A = sum g h^2,  B = sum g h e

over the rows that have its feature. What a row has of field k is sum_i x_i v_i, whose prior variance is s / lambda with
s = sum_i x_i^2. So the prior, Gamma(1/2, c/2), is one of lambda / s, with the mean s of all rows; c is at most 1.

Features of a block never share a row, so all of them are drawn at once: two passes over the rows, one for A and B, one
to update e and q. Weights are factor 0, with q = 1 and 0 in place of v in h.

If fields have weights t, a pair counts 1 - t_k t_l. With q'_f = sum_i t_i x_i v_if, the score has q_f^2 - q'_f^2 -
sum_i (1 - t_i^2) (x_i v_if)^2, and v_if has the slope x_i (q_f - t_i q'_f - (1 - t_i^2) x_i v_if). All features of a
block have the same t, so q - t q' takes the place of q while a block is drawn.

Nonzeros are kept block by block: in the order of rows if all rows have one, or if rows are sorted by the features of
the block; else part by part and feature by feature, so that the moments of a feature are sums over a span.

Rows are divided into parts, the same for any number of threads, and A and B are joined in the order of the parts.
Letters:

    i, f    feature, in the order of blocks; factor, 0 for the weights
    b, k    block of features; field, one or more blocks with common lambda and mu
    r, e    row; position of a nonzero
    t       position of a feature's A in the table of moments; its B follows
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

WHOLE, INNER, OWN = range(3)  # lines of `shares`


class Design(NamedTuple):
    """The training rows, block by block."""

    labels: np.ndarray
    weights: np.ndarray  # of rows; empty if all are 1
    cuts: np.ndarray  # rows of part s are cuts[s] .. cuts[s + 1] - 1
    bounds: np.ndarray  # features of block b are bounds[b] .. bounds[b + 1] - 1
    fields: np.ndarray  # per block: its field
    field_bounds: np.ndarray  # features of field k
    sizes: np.ndarray  # per field: sum of x^2 over its features in a row, mean of the rows that have some
    active: np.ndarray  # per block and factor: how many of its features have the factor; they come first
    starts: np.ndarray  # per block: position of its first nonzero; a last one has the end
    ids: np.ndarray  # per nonzero: its row or, in a leading block, its feature, counted from the first of the block
    values: np.ndarray  # per nonzero; empty if all are 1
    places: np.ndarray  # per block: where its spans are, or -1 if it is leading: the first rows have a nonzero each
    spans: np.ndarray  # per other block, part and feature: position of the first nonzero; a last one has the end
    lanes: np.ndarray  # per block: accumulators per part and feature, minus 1
    main: int  # the block that rows are sorted by, or -1
    runs: np.ndarray  # rows of each of its features
    main_cuts: np.ndarray  # its features, counted from 0, of each part


class Chain(NamedTuple):
    """State of the sampler, and scratch memory."""

    numbers: np.ndarray  # per factor and feature: the parameters
    bias: np.ndarray
    errors: np.ndarray  # per row: e
    sums: np.ndarray  # per row: q, or q - t q'
    inner: np.ndarray  # per row: q'; empty without field weights
    shares: np.ndarray  # per field: 1, t and 1 - t^2
    hyper: np.ndarray  # per parity of the sweep, factor and field: lambda and mu
    means: np.ndarray  # sums over sweeps of the parameters' posterior means
    centres: np.ndarray  # prior means of distillation
    steps: np.ndarray  # per feature: its old value, 0 for weights; new minus old
    normals: np.ndarray  # per feature
    moments: np.ndarray  # the table of A and B; all 0 between uses
    partial: np.ndarray  # per part and field: sums of parameters and of squares; last, of the errors and row weights


class Draw(NamedTuple):
    """What a sweep does."""

    sweep: int
    key: int
    more_key: int
    alpha: float
    learns: bool  # whether lambda and mu are drawn
    collects: bool  # whether posterior means are summed
    pull: float  # distillation: lambda / s of the prior around `centres`; 0: sample
