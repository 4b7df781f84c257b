"""The one pass over the rows before anything is trained: what all later decisions need to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..model.model import Model
from ..options import Options
from ..rows.holdout import RowCounts
from ..rows.overlap import Copies, copies_among
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .checkpoint import RowsFingerprint, identity
from .decision import Facts
from .dispatch import check_labels
from .policy import FOLD_ROWS
from .resources import Resources
from .steps.loader import labelled_blocks
from .steps.measured import check_limits


@dataclass(frozen=True)
class ScannedRows:
    """What one pass over the rows found.

    counts: rows by hash, None if none are to be held out. copies: how many of the given validation rows are training
    rows. identity: what determines the result, None if no checkpoint needs it.
    """

    source: RowSource
    found: RowStats
    counts: RowCounts | None
    copies: Copies
    identity: dict[str, Any] | None
    has_start: bool  # whether training goes on from a model
    is_classification: bool

    @property
    def facts(self) -> Facts:
        """What decides which models are tried."""
        fields = self.source.fields
        return Facts(
            self.found,
            None if fields is None else len(fields.names),
            self.source.in_memory,
            self.counts is not None or self.copies.n_rows > 0,
            self.copies.are_most(),
            self.has_start,
            self.counts is not None and self.found.rows <= FOLD_ROWS,
        )

    @property
    def has_one_class(self) -> bool:
        """Whether all labels are equal, which is known before any rows are held out."""
        if self.counts is None or not self.is_classification:
            return False
        return self.counts.label_range[0] == self.counts.label_range[1]


def scan(
    source: RowSource, options: Options, valid: RowSource | None, resources: Resources, start: Model | None = None
) -> ScannedRows:
    """Read all rows once; check their labels, and the limits of size against the features that occur."""
    counts = RowCounts(options.seed) if valid is None and options.validation_fraction else None
    fingerprint, wanted = RowsFingerprint(), resources.checkpoint.wanted
    blocks = labelled_blocks(source, options.family)
    blocks = fingerprint.watch(blocks) if wanted else blocks
    found = count_rows(blocks if counts is None else counts.watch(blocks))
    check_labels(found, options.loss)
    if options.measured:
        check_limits(source, found, options, resources)
    copies = Copies() if valid is None else copies_among(valid, source)
    known = None
    if wanted:
        checked = None if valid is None else RowsFingerprint.of(valid)
        known = identity(options, resources, fingerprint, checked, start, source.fields)
    return ScannedRows(source, found, counts, copies, known, start is not None, options.loss.is_classification)
