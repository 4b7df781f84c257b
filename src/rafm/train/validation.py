"""Rows that judge: given ones, a share that is held out, or folds, behind one interface; or none."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import ConfigError, DataWarning, caller_level
from ..rows.holdout import RowCounts, Side, Split
from ..rows.overlap import Copies
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions
from ..rows.stats import RowStats, count_rows
from .events import Event
from .policy import FEW_VALID_ROWS, FOLD_ROWS, deals_folds
from .recipe import Recipe
from .scan import ScannedRows
from .steps.loader import labelled_blocks


@dataclass
class Fold:
    """Rows to train on, and rows to judge by."""

    rows: RowSource
    valid: RowSource
    recipe: Recipe
    known: RowStats | None = None

    @cached_property
    def found(self) -> RowStats:
        """Statistics of the rows to train on, counted once for all candidates."""
        return self.known or count_rows(labelled_blocks(self.rows, self.recipe.family))


@dataclass
class Validation:
    """What candidates are trained on and judged by.

    parts: one, or one for each fold. n_valid: number of rows that judge, all of n_rows if there are folds. is_held_out:
    whether they are training rows, on which a model is to be trained in the end.
    """

    parts: list[Fold] = field(default_factory=list)
    n_rows: int = 0
    n_valid: int = 0
    is_held_out: bool = False
    has_folds: bool = False


def split(scan: ScannedRows, recipe: Recipe, valid: RowSource | None, room: SpillOptions) -> Validation:
    """Return the rows to judge by: those given or, if options ask for them, some of the training rows."""
    n_rows = scan.found.rows
    if valid is not None:
        return Validation([Fold(scan.source, valid, recipe, scan.found)], n_rows, scan.copies.n_rows)
    if scan.counts is None:
        _check_calibration(recipe, False)
        return Validation([], n_rows)
    two_classes = recipe.loss.is_classification
    # different rows, or one that is repeated often
    is_possible, has_folds = scan.counts.n_units(two_classes) > 1, deals_folds(n_rows, recipe)
    _check_calibration(recipe, is_possible and not has_folds)
    if not is_possible:
        return Validation([], n_rows, is_held_out=True)
    if has_folds:
        dealt = _deal(scan.counts, recipe)
        parts = [_part(scan, recipe, dealt, fold) for fold in range(dealt.shares.size)]
        return Validation([part for part in parts if _has_weight(part)], n_rows, n_rows, True, True)
    part = _part(scan, recipe, scan.counts.hold_out(recipe.validation_fraction, two_classes), 0)
    # blocks of their own: the source would be read again in every epoch
    held_out = SpilledRows((part.valid.block(k) for k in range(part.valid.n_blocks)), room, scan.source.n_features)
    part.valid = held_out
    return Validation([part], n_rows, held_out.n_rows, is_held_out=True)


def _deal(counts: RowCounts, recipe: Recipe) -> Split:
    """Return folds of equal size."""
    two_classes, n_folds = recipe.loss.is_classification, round(1 / recipe.validation_fraction)
    n_folds = max(2, min(n_folds, counts.n_units(two_classes)))
    if recipe.metric != recipe.loss.metrics[0] and two_classes:
        n_rare = counts.strata(two_classes)[0].size
        n_folds = max(2, min(n_folds, n_rare or n_folds))  # some metrics need both classes in every fold
    return counts.deal(n_folds, two_classes)


def _part(scan: ScannedRows, recipe: Recipe, dealt: Split, fold: int) -> Fold:
    assert scan.counts is not None
    rest, held_out = (Side(scan.source, dealt, scan.counts.first_rows, fold, inside) for inside in (False, True))
    return Fold(rest, held_out, recipe)


def _has_weight(part: Fold) -> bool:
    return all(weight_of(side) > 0 for side in (part.rows, part.valid))


def weight_of(source: RowSource) -> float:
    """Return the sum of the row weights."""
    blocks = (source.block(number) for number in range(source.n_blocks))
    return float(sum(block.n_rows if block.weights is None else block.weights.sum() for block in blocks))


def _check_calibration(recipe: Recipe, has_rows: bool) -> None:
    """Reject a wanted calibration without rows to fit it to."""
    if recipe.calibrate == "on" and not has_rows:
        raise ConfigError(
            f"calibrate='on' needs validation rows, or more than {FOLD_ROWS} rows of which some are held out",
            key="calibrate",
        )


# ---- Doubts about rows that are given


def with_doubts(events: Iterable[Event], found: Copies) -> Iterator[Event]:
    """Pass events through; warn of doubtful validation rows after the first one, when all checks have passed."""
    lines = [*few_rows(found.n_rows), *copied_rows(found)]
    for event in events:
        while lines:
            warnings.warn(DataWarning(lines.pop(0)), stacklevel=caller_level())
        yield event


def few_rows(n_rows: int) -> Iterator[str]:
    """Yield the warning of a few rows."""
    if 0 < n_rows < FEW_VALID_ROWS:
        rows = "a single validation row decides" if n_rows == 1 else f"only {n_rows} validation rows decide"
        yield (
            f"{rows} how long to train and which model to keep, mostly by luck; give at least {FEW_VALID_ROWS}, or "
            "none at all, so that some of the training rows are held out"
        )


def copied_rows(found: Copies) -> Iterator[str]:
    """Yield the warning of training rows among the validation rows."""
    if found.are_most():
        yield (
            f"{found.n_copies / found.n_compared:.0%} of the validation rows are training rows, which say nothing "
            "about new ones: training may go on for too long, and the model is not calibrated on them; give other "
            "rows, or none, so that some are held out"
        )
