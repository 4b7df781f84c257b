"""The engine of whole-data training: every positive counts 1, every pair of a context and an item 0.

    loss = sum g (1 - s)^2 over positives + a sum s^2 over all pairs + sum l2 (n_i + a m_i)^power |u_i|^2

with g the weight of a positive, n_i the weight of the positives of feature i, and m_i the number of all pairs with it.
The score of context C and item J is k-separable, as pairs within a side do not count:

    s = c + d + p.q,    c, p: sums of x w and of x v over the features of C;    d, q: the same of J

So the second sum needs no pairs but the Gram matrices of both sides, and for one feature u = (w, v) of a context, with
z = (1, q), its Hessian is sum g x^2 z z' over its positives + a (sum x^2 over its rows) G + penalty, with G = sum z z'
over all items. In the basis in which G is diagonal that is a diagonal plus the positives: conjugate gradients need two
products of the designs of its positives and a vector for a step, and the square of the rank occurs only where all
features are turned into that basis. Each side is solved in turn; features that share a row, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ...kernels import whole_data as kernels
from ...kernels.whole_data import Partners, Positives, Side, Systems
from ...losses.whole_data import WholeData
from ...model.parameters import Parameters
from ...plan.ranks import RankPlan
from .pairs import CONTEXT, ITEM, Pairs

FIRST_SPREAD = 0.1  # of the first score of a pair, about
N_STEPS = 3  # of conjugate gradients; more bring nothing, as the other side moves too
BLOCK_ROWS = 4096  # of a matrix product: fixed, so that threads do not change a sum
CHUNK_FEATURES, CHUNKS = 256, 64  # solved by a thread at a time: at most, and parts of the positives at least
LEAST_PENALTY = 1e-6  # keeps the diagonal positive
EMPTY = np.zeros((0, 0))  # a Gram matrix that is not known
CROSS = np.float32(np.sqrt(0.5))  # with field weights 1 and -1 a pair across the sides counts 2, one within a side 0


class Group(NamedTuple):
    """Features of one level of which no two share a row, in chunks. width: of their parameters."""

    width: int
    chunks: list[np.ndarray]


class Basis(NamedTuple):
    """The basis of the first coordinates in which the Gram matrix of the other side is diagonal.

    pull: from the sums of rows to their gradient, offset: the same of own terms of the other side, with a.
    """

    turn: np.ndarray
    partners: Partners
    pull: np.ndarray
    offset: np.ndarray


class WholeDataEngine:
    """Trains FM and DiFacto's form. threads: have no effect on the result."""

    def __init__(
        self, pairs: Pairs, plan: RankPlan, is_item: np.ndarray, fields: np.ndarray, recipe: Any, n_fields: int
    ):
        self.pairs, self.plan, self.loss, self.threads = pairs, plan, recipe.loss, recipe.threads
        self.sides, self.unseen = pairs.sides(plan.n_features), self._weight_of_pair()
        self.field_weights = np.ones(n_fields, np.float32)
        self.field_weights[fields[is_item]] = -1
        self.widths = 1 + np.concatenate([[0], np.cumsum(plan.block_ranks)]).astype(int)  # by level
        self.squares, self.firsts = (_feature_sums(self.sides, power) for power in (2, 1))
        self.penalties = self._penalties(is_item, np.asarray(recipe.l2, np.float64))
        self.is_alone = [bool((np.diff(table.indptr) <= 1).all()) for table in pairs.tables]
        self.groups = [self._groups(side, np.flatnonzero(is_item == side), fields) for side in (CONTEXT, ITEM)]
        self.numbers = self._first_numbers(recipe.seed)
        self.positives = Positives(pairs.weights, np.empty(pairs.items.size, np.float32))
        self.sums = [np.empty((table.n_items, self.widths[-1]), np.float32) for table in pairs.tables]
        self.renew()
        self.set_errors()

    def _weight_of_pair(self) -> float:
        """Return a."""
        n_contexts, n_items = (float(table.n_items) for table in self.pairs.tables)
        found = self.loss.weight_of_pair(self.total_weight, self.pairs.items.size, n_contexts * n_items)
        return float(found)

    def _first_numbers(self, seed: int) -> np.ndarray:
        """Return small random vectors, and weights of 0."""
        rank, levels = int(self.widths[-1]) - 1, self.plan.levels()
        numbers = np.zeros((levels.size, rank + 1), np.float32)
        numbers[:, 1:] = np.random.default_rng(seed).standard_normal((levels.size, rank), np.float32)
        numbers *= np.float32(FIRST_SPREAD / max(rank, 1) ** 0.5)
        numbers[np.arange(rank + 1) >= self.widths[levels][:, None]] = 0
        return numbers

    def _penalties(self, is_item: np.ndarray, l2: np.ndarray) -> np.ndarray:
        """Return the penalty of each feature: it grows with the weight of all pairs that have it."""
        loss: WholeData = self.loss
        n_others = np.where(is_item, self.pairs.tables[CONTEXT].n_items, self.pairs.tables[ITEM].n_items)
        seen = _positive_weights(self.sides, self.pairs.weights)
        of_level = l2[np.maximum(self.plan.levels() - 1, 0)] if l2.size else np.zeros(self.plan.n_features)
        found = of_level * (seen + self.unseen * self.squares * n_others) ** loss.penalty_power
        return np.maximum(found, LEAST_PENALTY).astype(np.float32)

    def _groups(self, side: int, features: np.ndarray, fields: np.ndarray) -> list[Group]:
        """Return the features of a side in the order in which they are solved."""
        order, colours = features[np.argsort(fields[features], kind="stable")], np.zeros(self.plan.n_features, np.int64)
        kernels.colour_features(order, self.sides[side], self.pairs.tables[side].n_items, colours)
        levels, counts = self.plan.levels(), _counts(self.sides[side])
        found = []
        for colour in range(int(colours[features].max(initial=-1)) + 1):
            for level in range(self.plan.n_levels, -1, -1):
                own = features[(colours[features] == colour) & (levels[features] == level)]
                if own.size:
                    found.append(Group(int(self.widths[level]), _chunks(own, counts)))
        return found

    # Training

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that training changes, by name; not copies."""
        return {"numbers": self.numbers, "errors": self.positives.errors}

    def renew(self) -> None:
        """Compute the sums of all rows from the parameters."""
        for side in (CONTEXT, ITEM):
            self._sum_rows(side)
        self.grams = [EMPTY, EMPTY]

    def set_errors(self) -> None:
        """Compute the errors from the sums, without the rounding of many steps."""
        own, other = self.sums
        starts = self.sides[CONTEXT].row_starts

        def fill(rows: slice) -> None:
            kernels.set_errors(rows.start, starts, self.pairs.items, own[rows], other, self.positives.errors)

        self.each(fill, _blocks(len(own)))

    def solve(self, side: int) -> None:
        """Improve all features of one side, given the other."""
        with threadpool_limits(1, "blas"):
            gram, bases = self._gram(1 - side), dict[int, Basis]()
            for group in self.groups[side]:
                if group.width not in bases:
                    bases[group.width] = self._basis(gram, self.sums[1 - side], group.width)
                basis = bases[group.width]
                self.each(lambda chunk: self._solve_chunk(side, chunk, basis), group.chunks)  # noqa: B023
            self._sum_rows(side)
            self.grams[side] = EMPTY

    def _solve_chunk(self, side: int, members: np.ndarray, basis: Basis) -> None:
        table, width = self.sides[side], len(basis.turn)
        own = self.numbers[members, :width] @ basis.turn
        scales, penalties = self.squares[members], self.penalties[members]
        if self.is_alone[side]:
            gradients = own * (scales[:, None] * basis.partners.spectrum)
        else:
            sums = np.empty((members.size, self.widths[-1]), np.float32)
            kernels.sum_features(members, table, self.sums[side], sums)
            gradients = sums @ basis.pull
        gradients += self.firsts[members, None] * basis.offset + penalties[:, None] * own
        systems = Systems(members, scales, penalties, gradients, np.empty_like(own))
        kernels.solve_systems(systems, table, basis.partners, self.positives, N_STEPS)
        steps = systems.steps @ basis.turn.T
        self.numbers[members, :width] += steps
        if not self.is_alone[side]:
            kernels.add_steps(members, table, steps, self.sums[side])

    def _basis(self, gram: np.ndarray, others: np.ndarray, width: int) -> Basis:
        """Return the basis of the first coordinates; gram: of [1, vector, own term] of the other side's rows."""
        values, turn = np.linalg.eigh(gram[:width, :width])
        single, designs = turn.astype(np.float32), np.empty((len(others), width), np.float32)

        def fill(rows: slice) -> None:
            np.matmul(others[rows, 1:width], single[1:], out=designs[rows])
            designs[rows] += single[0]

        self.each(fill, _blocks(len(others)))
        spectrum = (self.unseen * np.maximum(values, 0)).astype(np.float32)
        pull, offset = self.unseen * (gram[:-1, :width] @ turn), self.unseen * (gram[-1, :width] @ turn)
        return Basis(single, Partners(designs, spectrum), pull.astype(np.float32), offset.astype(np.float32))

    def _gram(self, side: int) -> np.ndarray:
        """Return the sum of z z' over the rows of a side, with z = [1, vector, own term]."""
        if self.grams[side] is EMPTY:
            sums = self.sums[side]

            def product(rows: slice) -> np.ndarray:
                wide = np.column_stack([np.ones(len(sums[rows]), np.float32), sums[rows, 1:], sums[rows, 0]])
                return wide.T @ wide

            found = np.zeros((sums.shape[1] + 1,) * 2)
            for one in self.each(product, _blocks(len(sums))):
                found += one
            self.grams[side] = found
        return self.grams[side]

    def _sum_rows(self, side: int) -> None:
        table, sums = self.pairs.tables[side], self.sums[side]

        def fill(rows: slice) -> None:
            indptr = table.indptr[rows.start : rows.stop + 1]
            kernels.sum_rows(indptr, table.indices, table.values, self.numbers, sums[rows])

        self.each(fill, _blocks(len(sums)))

    def each(self, call: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        """Call once for each part; return the results in order."""
        if self.threads == 1:
            return [call(part) for part in parts]
        with ThreadPoolExecutor(self.threads, "rafm") as pool:
            return [*pool.map(call, parts)]

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all positives."""
        return float(self.pairs.weights.sum(dtype=float))

    def total_loss(self) -> float:
        """Return the loss."""
        with threadpool_limits(1, "blas"):
            contexts, items = self._gram(CONTEXT), self._gram(ITEM)
        partners = [len(items) - 1, *range(1, len(items) - 1), 0]  # 1 meets the other side's own term
        unseen = float((contexts * items[np.ix_(partners, partners)]).sum())
        seen = float((self.pairs.weights * self.positives.errors.astype(float) ** 2).sum())
        penalty = float((self.penalties * (self.numbers.astype(float) ** 2).sum(axis=1)).sum())
        return seen + self.unseen * unseen + penalty

    # The model

    def parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the current parameters, in the order of the plan."""
        sizes, ends = self.plan.sizes[1:], self.widths
        factors = [self.numbers[:size, a:b] * CROSS for size, a, b in zip(sizes, ends, ends[1:])]
        weights = self.numbers[:, 0].copy()
        return Parameters(np.zeros(1, np.float32), weights, factors, fields=self.field_weights.copy())


def _feature_sums(sides: tuple[Side, Side], power: int) -> np.ndarray:
    """Return the sum of x^power over the rows of each feature."""
    found = np.zeros(sides[CONTEXT].starts.size - 1)
    for side in sides:
        owners = np.repeat(np.arange(found.size), np.diff(side.starts))
        found += np.bincount(owners, side.values.astype(float) ** power, minlength=found.size)
    return found.astype(np.float32)


def _positive_weights(sides: tuple[Side, Side], weights: np.ndarray) -> np.ndarray:
    """Return the sum of g x^2 over the positives of each feature."""
    found = np.zeros(sides[0].starts.size - 1)
    for side in sides:
        totals = np.concatenate([[0], np.cumsum(weights[side.places], dtype=float)])
        of_rows = np.diff(totals[side.row_starts])
        owners = np.repeat(np.arange(found.size), np.diff(side.starts))
        found += np.bincount(owners, of_rows[side.rows] * side.values.astype(float) ** 2, minlength=found.size)
    return found


def _counts(side: Side) -> np.ndarray:
    """Return the number of positives of each feature of a side."""
    totals = np.concatenate([[0], np.cumsum(np.diff(side.row_starts)[side.rows])])
    return np.diff(totals[side.starts])


def _chunks(features: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Cut features into chunks of limited numbers of features and positives."""
    most, work = max(int(counts[features].sum()) // CHUNKS, 1), np.cumsum(counts[features])
    found, first = [], 0
    while first < features.size:
        limit = (work[first - 1] if first else 0) + most
        stop = max(first + 1, min(first + CHUNK_FEATURES, int(np.searchsorted(work, limit, side="right"))))
        found.append(features[first:stop])
        first = stop
    return found


def _blocks(n: int) -> list[slice]:
    return [slice(first, min(first + BLOCK_ROWS, n)) for first in range(0, n, BLOCK_ROWS)]
