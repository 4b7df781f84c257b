"""Two sides of a score: with vectors of contexts and of items, a score is an inner product.

A context U and an item I share no feature. With S_k(U) the sum of v_i^(k) x_i over the features of U of level k or
higher, and T_k(U) the same vectors over those of level k + 1 or higher, the pairs between U and I add up to

    sum_k [S_k(U).S_k(I) - T_k(U).T_k(I)]

because a pair of lower level l occurs in S_1 .. S_l and in T_1 .. T_{l-1}, and all but the last cancel. With

    phi(U) = [S_1 .. S_m, T_1 .. T_{m-1}, 1]  and  psi(I) = [S_1 .. S_m, -T_1 .. -T_{m-1}, own score of I]

phi(U).psi(I) is the score of both together less what U adds by itself, which does not change the order of items. In an
FM and in DiFacto, where each level extends a vector, there is no T. With field weights the same sums of t v x follow,
with the opposite signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from ..errors import ConfigError
from ..kernels.tables import Rows
from ..model.model import Model
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows

SIDES = ("context", "item")


def side_vectors(model: Model, batch: CheckedRows, side: str) -> np.ndarray:
    """Return phi of every row for the side "context", or psi for "item", as float32.

    The score of a context and an item together is phi.psi plus `own_scores` of the context plus the bias.
    """
    if side not in SIDES:
        raise ConfigError(f"side must be 'context' or 'item', found {side!r}", key="side")
    if not model.plan.traits.has_common_vectors:
        raise ConfigError(f"model {model.plan.family!r} has no vectors: its pairs are not inner products", key="model")
    parts = [sums if side == "context" else sign * sums for sign, sums in signed_sums(model, batch)]
    last = np.ones(batch.n_rows, np.float32) if side == "context" else own_scores(model, batch)
    return np.column_stack([*parts, last]).astype(np.float32)


def refuse_field_vectors(model: Model, what: str) -> None:
    """Reject models whose features have another vector for each field."""
    if model.plan.traits.has_field_vectors:
        raise ConfigError(
            f"model {model.plan.family!r} cannot {what}: its features have a different vector for each field. Score "
            "rows with predict, or train model='rafm' with field weights.",
            key="model",
        )


def own_scores(model: Model, batch: CheckedRows) -> np.ndarray:
    """Return what each row adds to a score by itself: its linear terms and the pairs within it; without a head."""
    return replace(model, head=None).scores(batch) - model.parameters.bias[0]


def signed_sums(model: Model, batch: CheckedRows) -> Iterator[tuple[int, np.ndarray]]:
    """Yield sign and sums: S_k with sign +1, and T_k with -1 if a pair interacts at its lower level alone."""
    rows = number_rows(batch, model.numbering)
    sizes, factors = model.plan.sizes[1:], model.parameters.factors
    for sign, values in _signed_values(model, rows):
        matrix = csr_matrix((values, rows.indices, rows.indptr), (batch.n_rows, model.plan.n_features))
        for block in factors:
            yield sign, matrix[:, : len(block)] @ block[: len(block)]  # vectors of few bits become floats
        for block, size in zip(factors, sizes[1:-1] if model.plan.nested else ()):
            yield -sign, matrix[:, :size] @ block[:size]


def _signed_values(model: Model, rows: Rows) -> Iterator[tuple[int, np.ndarray]]:
    yield 1, rows.values
    if model.parameters.fields is not None and model.fields is not None:
        yield -1, rows.values * model.parameters.fields[model.fields.numbers[rows.indices]]


def row_levels(model: Model, batch: CheckedRows) -> np.ndarray:
    """Return the highest level of each row's features; 0 if it has none with a vector."""
    rows = number_rows(batch, model.numbering)
    first = np.append(rows.indices, model.plan.n_features)[rows.indptr[:-1]]  # numbers ascend, levels descend
    levels = np.append(model.plan.levels(), 0)[first]
    return np.where(np.diff(rows.indptr) > 0, levels, 0)


def coordinates_by_level(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the coordinates of `side_vectors`, and how many of them rows of each level use.

    In that order those that can be nonzero in rows of a level come before all others.
    """
    levels = [k for k, block in enumerate(model.parameters.factors, 1) for _ in range(block.shape[1])]
    if model.plan.nested:
        levels += [k + 1 for k, block in enumerate(model.parameters.factors[:-1], 1) for _ in range(block.shape[1])]
    if model.parameters.fields is not None:
        levels += levels
    owners = np.array([*levels, 0])
    order = np.argsort(owners, kind="stable")
    return order, np.searchsorted(owners[order], np.arange(model.plan.n_levels + 1), side="right")
