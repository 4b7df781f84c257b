"""The account that a trained model gives of a row, and what a small network on it adds to the score.

An account has, in this order: the score; the sums of the pairs of features of each two fields (of each field with all
others, if there are many), without field weights; per field the sum of its linear terms, and of log(1 + count).
Sums of a row are in the order of its nonzeros, so an account does not depend on the rows around it.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

from ..jit.compile import compiled, entry
from .tables import ZERO, Tables


class HeadFields(NamedTuple):
    """What an account needs to know of features and fields; see model/head.py."""

    numbers: np.ndarray  # per feature: its field
    log_counts: np.ndarray  # per feature: log(1 + count)
    pairs: np.ndarray  # per two fields: the one or two places of their sum; -1 on the diagonal; later fields have none
    linear: int  # where the linear terms begin
    counts: int  # where the counts begin
    kind: int  # NESTED, PREFIX or FIELD_AWARE


class HeadSource(NamedTuple):
    """A model, as accounts read it."""

    tables: Tables
    records: np.ndarray
    fields: HeadFields


NESTED, PREFIX, FIELD_AWARE = 0, 1, 2  # at the lower level of two; common prefix; the vector for the other's field


@compiled
def dot(records, left, right, n):
    """Return the dot product of two vectors."""
    total = ZERO
    for f in range(n):
        total += records[left + f] * records[right + f]
    return total


@compiled
def level_of(i, tables):
    """Return the level of a feature."""
    k = tables.widths.size
    while i >= tables.sizes[k]:
        k -= 1
    return k


@compiled
def pair_product(i, j, o, c, k, source):
    """Return the product of two features with records at o and c; k: the lower one of their levels."""
    total, (tables, records, fields) = ZERO, source
    if fields.kind == FIELD_AWARE:
        if k > 0:
            left, right = tables.offsets[fields.numbers[j]], tables.offsets[fields.numbers[i]]
            total = dot(records, o + left, c + right, tables.widths[0])
    else:
        for p in range(k - 1 if fields.kind == NESTED and k > 0 else 0, k):
            total += dot(records, o + tables.offsets[p], c + tables.offsets[p], tables.widths[p])
    return total


@compiled
def add_pairs(rows, a, e, places, k, source, account):
    """Add the pairs of nonzero e with those before it, whose levels are at least its own."""
    i, x, fields = np.int64(rows.indices[e]), rows.values[e], source.fields
    for d in range(a, e):
        j = np.int64(rows.indices[d])
        if fields.numbers[j] >= fields.pairs.shape[0]:
            continue
        one, other = fields.pairs[fields.numbers[i], fields.numbers[j]]
        if one >= 0:
            amount = x * rows.values[d] * pair_product(j, i, places[d - a], places[e - a], k, source)
            account[one] += amount
            if other != one:
                account[other] += amount


@entry
def describe_rows(rows, source, places, first, accounts):
    """Write the accounts of rows first, first + 1, ...; the score is written by others."""
    tables, records, fields = source
    for t in range(accounts.shape[0]):
        a, b, account = rows.indptr[first + t], rows.indptr[first + t + 1], accounts[t]
        account[1:] = ZERO
        for e in range(a, b):
            i = np.int64(rows.indices[e])
            k, field = level_of(i, tables), fields.numbers[i]
            o = tables.origins[k] + i * tables.strides[k]
            places[e - a] = o
            if field < fields.pairs.shape[0] and rows.values[e] != ZERO:
                account[fields.linear + field] += records[o] * rows.values[e]
                account[fields.counts + field] += fields.log_counts[i]
                add_pairs(rows, a, e, places, k, source, account)


class Network(NamedTuple):
    """One hidden layer of rectified linear units on standardised, clipped inputs."""

    means: np.ndarray
    scales: np.ndarray  # 1 / standard deviation; 0 for constant inputs
    hidden: np.ndarray  # a line per input
    hidden_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray  # one element


LIMIT = np.float32(6)  # of standardised inputs


@compiled
def standardised(network, account, k):
    """Return an input of the hidden layer."""
    return min(max((account[k] - network.means[k]) * network.scales[k], -LIMIT), LIMIT)


@entry
def add_network(network, accounts, units, scores):
    """Add the output of the network to the scores; units: scratch memory of its hidden layer."""
    for t in range(accounts.shape[0]):
        units[:] = network.hidden_bias
        for k in range(network.means.size):
            value = standardised(network, accounts[t], k)
            if value != ZERO:
                for u in range(units.size):
                    units[u] += value * network.hidden[k, u]
        total = network.output_bias[0]
        for u in range(units.size):
            total += max(units[u], ZERO) * network.output[u]
        scores[t] += total
