"""Encode tables that have only some of a model's columns: those of contexts, or those of items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..encode.coverage import Coverage
from ..encode.encoder import TableEncoder
from ..errors import ConfigError, DataValueError
from ..predictor import Predictor
from ..read.open import ReadOptions, batches_of, table_names
from ..rows.blocks import join_rows
from ..rows.checked import Batch, CheckedRows, check_batch


@dataclass(frozen=True)
class PartialEncoder:
    """The encoder of some columns, and the ids that its features have in the whole."""

    encoder: TableEncoder
    ids: np.ndarray
    n_features: int

    @classmethod
    def of(cls, whole: TableEncoder, names: Iterable[str]) -> PartialEncoder:
        """Return the encoder of the columns that have one of these names."""
        given = set(names)
        places = [place for place, column in enumerate(whole.columns) if column.name in given]
        if not places:
            known = ", ".join(column.name for column in whole.columns)
            raise DataValueError(f"none of the columns that the model was trained with: {known}")
        n_given = [sum(column.name in given for column in cross.columns) for cross in whole.crosses]
        parted = [cross.name for cross, n in zip(whole.crosses, n_given) if 0 < n < len(cross.columns)]
        if parted:
            raise ConfigError(
                f"the conjunction {parted[0]!r} of the model needs columns of contexts and of items, which are "
                'scored apart; train with cross "off", or predict for pairs',
                key="cross",
            )
        own = [place for place, n in enumerate(n_given) if n]
        part = replace(
            whole,
            columns=tuple(whole.columns[place] for place in places),
            crosses=tuple(whole.crosses[place] for place in own),
        )
        places += [len(whole.columns) + place for place in own]
        ids = [np.arange(whole.first_ids[place], whole.first_ids[place + 1]) for place in places]
        return cls(part, np.concatenate(ids), whole.n_features)

    def encode(self, table: Any) -> CheckedRows:
        """Encode a table; labels and weights are left out."""
        return self.with_whole_ids(self.encoder.encode(table, targets=False))

    def with_whole_ids(self, rows: Batch) -> CheckedRows:
        """Return rows of the partial encoder with the ids of the whole one."""
        indices = self.ids[rows.indices] if rows.indices.size else rows.indices
        return check_batch(Batch(rows.indptr, indices, rows.values, self.n_features))


def read_side(predictor: Predictor, path: str, options: ReadOptions, coverage: Coverage | None = None) -> CheckedRows:
    """Read contexts or items; a table may have some of the model's columns only.

    coverage: if given, counts the known and unseen values of a table.
    """
    if predictor.saved.encoder is None:
        batches = [*predictor.batches(path, options, targets=False)]
    else:
        part = PartialEncoder.of(predictor.saved.encoder, table_names(path, options))
        batches = [*map(part.with_whole_ids, batches_of(path, options, part.encoder, False, coverage))]
    if not batches:
        raise DataValueError("no rows", path=path)
    return join_rows(batches)
