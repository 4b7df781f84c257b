"""Emit the network of a model with a head, on sums by field; see kernels/head.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels.head import LIMIT
from ..model.head import MOST_PAIRED_FIELDS, Head

if TYPE_CHECKING:
    from .onnx import Scoring


def network_output(scoring: Scoring, head: Head, score: str) -> str:
    """Return what the network adds to the score of each row."""
    g, network = scoring.graph, head.network
    account = g.node("Concat", [g.expand(score, 1), *_account(scoring, head)], axis=1)
    inputs = g.mul(g.sub(account, network.means), network.scales)
    inputs = g.node("Clip", [inputs, -LIMIT, LIMIT])
    units = g.node("Relu", [g.add(g.node("MatMul", [inputs, network.hidden]), network.hidden_bias)])
    return g.add(g.node("MatMul", [units, network.output]), network.output_bias)


def _account(scoring: Scoring, head: Head) -> list[str]:
    """Return the account of each row without its score: pairs of fields, linear terms and counts of fields."""
    g, model, n = scoring.graph, scoring.model, head.n_fields
    assert model.fields is not None
    members = np.zeros((model.plan.n_features + 1, n), np.float32)  # the last line is that of unknown features
    known = np.flatnonzero(model.fields.numbers < n)
    members[known, model.fields.numbers[known]] = 1
    by_field = scoring.look_up(members, scoring.numbers)  # rows, entries, fields
    weights = scoring.look_up(np.append(model.parameters.weights, np.float32(0)), scoring.numbers)
    linear = g.sum(g.mul(by_field, g.expand(g.mul(weights, scoring.values), 2)), 1)
    is_given = g.node("Not", [g.node("Equal", [scoring.values, np.float32(0)])])
    logs = scoring.look_up(np.append(np.log1p(model.counts), 0).astype(np.float32), scoring.numbers)
    counts = g.sum(g.mul(by_field, g.expand(g.mul(logs, g.cast(is_given, np.float32)), 2)), 1)
    valued = g.node("Transpose", [g.mul(by_field, g.expand(scoring.values, 2))], perm=[0, 2, 1])
    return [_pairs(scoring, valued, n), linear, counts]


def _pairs(scoring: Scoring, valued: str, n: int) -> str:
    """Return the sum of pairs of each two fields, or of each field with all others if there are many.

    valued: the value of each entry where its field is; shape (rows, fields, entries).
    """
    g, plan, total = scoring.graph, scoring.model.plan, None
    for block, vectors in enumerate(scoring.vectors):
        products = _products(scoring, g.node("MatMul", [valued, vectors]))
        total = products if total is None else g.add(total, products)
        if plan.nested and block + 1 < plan.n_levels:  # pairs of higher levels do not interact here
            is_higher = g.cast(g.node("Less", [scoring.numbers, np.int64(plan.sizes[block + 2])]), np.float32)
            higher = g.mul(vectors, g.expand(is_higher, 2))
            total = g.sub(total, _products(scoring, g.node("MatMul", [valued, higher])))
    assert total is not None
    if n > MOST_PAIRED_FIELDS:
        return g.sum(g.mul(total, 1 - np.eye(n, dtype=np.float32)), 2)
    first, second = np.triu_indices(n, 1)
    flat = g.node("Reshape", [total, np.array([-1, n * n])])
    return g.node("Gather", [flat, first * n + second], axis=1)


def _products(scoring: Scoring, sums: str) -> str:
    """Return the inner products of the sums of all fields."""
    g = scoring.graph
    return g.node("MatMul", [sums, g.node("Transpose", [sums], perm=[0, 2, 1])])
