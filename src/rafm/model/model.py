"""A trained model: plan, parameters and loss -> scores and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ConfigError, ScoreError
from ..kernels.tables import Rows, Tables
from ..losses.loss import Loss
from ..optimizers import OPTIMIZERS, optimizer_class
from ..plan.field_vectors import layout_of
from ..plan.fields import FeatureFields
from ..plan.layout import RecordLayout
from ..plan.packed_layout import PackedLayout
from ..plan.ranks import RankPlan
from ..rows.blocks import take_rows
from ..rows.checked import CheckedRows
from ..rows.numbering import Numbering, number_rows
from .head import Accountant, Head
from .parameters import Parameters
from .samples import Samples
from .scores import score, score_field_aware, score_mixture, score_packed

CHUNK_ROWS = 1 << 15  # rows scored by a thread at a time


def _score_error(fact: str, row: int, batch: CheckedRows | None) -> ScoreError:
    """Return the error about a row, which names its largest value as the likely cause."""
    one = None if batch is None else take_rows(batch, row, row + 1)
    if one is None or not one.values.size:
        return ScoreError(fact, row)
    entry = int(np.abs(one.values).argmax())
    return ScoreError(fact, row, int(one.indices[entry]), float(one.values[entry]))


@contextmanager
def naming_rows(name_of: Callable[[int], str], first_row: int = 0) -> Iterator[None]:
    """Let errors about scores name the feature as the user does, and count rows from the first of all batches."""
    try:
        yield
    except ScoreError as error:
        name = "" if error.feature is None else name_of(error.feature)
        raise ScoreError(error.fact, first_row + error.row, error.feature, error.value, name) from None


@dataclass(frozen=True)
class Model:
    """A trained model, with feature counts and training history.

    Feature number i has id numbering.ids[i] and occurred counts[i] times. The history has one entry per epoch. The
    fields are those of the features, if they were known in training.
    """

    plan: RankPlan
    numbering: Numbering
    counts: np.ndarray
    loss: Loss
    parameters: Parameters
    n_rows: int  # training rows
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    n_dropped: int = 0  # features that were dropped because all their parameters are 0
    fields: FeatureFields | None = None
    samples: Samples | None = None  # sampled models that this one was distilled from, if some were kept
    head: Head | None = None  # a small network whose output is added to the score

    @cached_property
    def _layout(self) -> RecordLayout:
        if self.parameters.bits is None:
            return layout_of(self.plan, with_states=False)
        return PackedLayout(self.plan, with_states=False, bits=self.parameters.bits)

    @cached_property
    def tables(self) -> Tables:
        return self._layout.tables()

    @cached_property
    def records(self) -> np.ndarray:
        records = self._layout.pack(self.parameters.weights, self.parameters.factors)
        if self.fields is not None and self._layout.has_fields:
            self._layout.put_fields(records, self.fields.numbers)
        return records

    @cached_property
    def accountant(self) -> Accountant:
        """Computes what a head takes in."""
        assert self.fields is not None
        return Accountant(self, self.fields.n_fields if self.head is None else self.head.n_fields)

    @property
    def n_parameters(self) -> int:
        return self.plan.n_parameters + (0 if self.head is None else self.head.n_parameters)

    def scores(self, batch: CheckedRows, level: int | None = None, threads: int = 1) -> np.ndarray:
        """Return the score of every row; with a level p (RaFM only), the paper's B_{1,p}, without the head.

        The scores are bit-identical for any number of threads.
        """
        if level is not None and not (self.plan.nested and 1 <= level <= self.plan.n_levels):
            raise ConfigError(
                f"level must be between 1 and {self.plan.n_levels} and needs model='rafm', "
                f"found {level!r} for {self.plan.family!r}",
                key="level",
            )
        level, starts = None if level is None else int(level), range(0, batch.n_rows, CHUNK_ROWS)
        if threads == 1 or len(starts) < 2:
            found = self._score(batch, level)
        else:
            parts = (take_rows(batch, start, min(start + CHUNK_ROWS, batch.n_rows)) for start in starts)
            first = self._score(next(parts), level)  # before the others, so that records are packed only once
            with ThreadPoolExecutor(threads, "rafm") as pool:
                found = np.concatenate([first, *pool.map(lambda part: self._score(part, level), parts)])
        if not np.isfinite(found).all():
            raise _score_error("the score is out of float32 range", int(np.isfinite(found).argmin()), batch)
        return found

    def _score(self, batch: CheckedRows, level: int | None) -> np.ndarray:
        return self.score_numbered(number_rows(batch, self.numbering), level)

    def score_numbered(self, rows: Rows, level: int | None = None) -> np.ndarray:
        """Return the scores of rows of feature numbers."""
        scores = self.base_scores(rows, level)
        return scores if self.head is None or level is not None else self.accountant.add(self.head, rows, scores)

    def base_scores(self, rows: Rows, level: int | None = None) -> np.ndarray:
        """Return the scores of rows of feature numbers without the head."""
        bias = self.parameters.bias[0]
        if self.parameters.mixture is not None:
            return score_mixture(rows, self.tables, self.records, bias, self.parameters.mixture)
        if self.plan.n_field_vectors:
            return score_field_aware(rows, self._layout, self.tables, self.records, bias)
        if isinstance(self._layout, PackedLayout):
            codes = self._layout.codes(self.records)
            return score_packed(rows, self.tables, (self.records, codes), bias, level, self.parameters.fields)
        return score(rows, self.tables, self.records, bias, level, self.parameters.fields)

    def predict(self, batch: CheckedRows) -> np.ndarray:
        """Return the prediction of every row: a probability, a value or an expected count."""
        return self.link(self.scores(batch).astype(float), batch)

    def link(self, scores: np.ndarray, batch: CheckedRows | None = None) -> np.ndarray:
        """Return the predictions that belong to scores; refuse infinite ones. batch: the rows, to find the cause."""
        with np.errstate(over="ignore"):
            found = self.loss.predict(scores)
        if not np.isfinite(found).all():
            row = int(np.isfinite(found).argmin())
            raise _score_error(
                f"the score {scores[row]:g} is too large: its {self.loss.link_name} is infinite", row, batch
            )
        return found

    def spread(self, batch: CheckedRows) -> np.ndarray:
        """Return the standard deviation, over the sampled models, of the prediction of every row."""
        if self.samples is None:
            raise ConfigError(
                "return_std needs sampled models: train with optimizer='gibbs' and keep_samples=20",
                key="return_std",
            )
        each = (replace(self, parameters=parameters, samples=None).predict(batch) for parameters in self.samples)
        return np.std(np.stack([*each]), axis=0)

    def levels(self) -> np.ndarray:
        """Return the level of every feature id, 0 for ids that never occurred."""
        return self._by_id(self.plan.levels())

    def feature_counts(self) -> np.ndarray:
        """Return the number of occurrences of every feature id in training."""
        return self._by_id(self.counts)

    def with_ids(self, ids: np.ndarray, n_inputs: int) -> Model:
        """Return the model with feature id i renamed to ids[i]."""
        return replace(self, numbering=Numbering(ids[self.numbering.ids], n_inputs))

    def for_scoring(self) -> Model:
        """Return the model without what only training needs: optimiser state, and features that L1 set to 0."""
        if self.parameters.bits is not None:
            return self  # done before its vectors were packed
        model = replace(self, parameters=replace(self.parameters, states=None))
        name = self.options.get("optimizer")
        return model.without_zeros() if name in OPTIMIZERS and optimizer_class(name).has_l1 else model

    def as_floats(self) -> Model:
        """Return the model with vectors of floats, which need more memory."""
        return self if self.parameters.bits is None else replace(self, parameters=self.parameters.as_floats())

    def without_zeros(self) -> Model:
        """Return the model without features whose parameters are all 0, which score like unknown ones.

        A feature with a nonzero weight whose vectors are all 0 is moved to level 0, which has no vectors.
        """
        plan, found = self.plan, self.parameters
        alive = np.zeros(plan.n_features, bool)  # features with a nonzero vector at any level
        for block in found.factors:
            alive[: len(block)] |= block.any(axis=1)
        levels = np.where(alive, plan.levels(), 0)
        kept = np.flatnonzero(alive | (found.weights != 0))
        order = kept[np.lexsort((kept, -self.counts[kept], -levels[kept]))]  # the order of plan_ranks
        sizes = tuple(int((levels[kept] >= level).sum()) for level in range(plan.n_levels + 1))
        factors = [block[order[:size]] for block, size in zip(found.factors, sizes[1:])]
        return replace(
            self,
            plan=replace(plan, sizes=(*sizes, 0)),
            numbering=Numbering(self.numbering.ids[order], self.numbering.n_inputs),
            counts=self.counts[order],
            fields=None if self.fields is None else self.fields.ordered(order),
            parameters=replace(found, weights=found.weights[order], factors=factors),
            n_dropped=self.n_dropped + plan.n_features - order.size,
            samples=None,
        )

    def _by_id(self, by_number: np.ndarray) -> np.ndarray:
        table = np.zeros(self.numbering.n_inputs, np.int64)
        table[self.numbering.ids] = by_number
        return table
