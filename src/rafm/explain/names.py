"""Names of features and the columns that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..encode.encoder import TableEncoder
from ..model.file import Saved
from ..model.names import feature_name
from ..rows.checked import CheckedRows
from ..rows.numbering import Numbering


@dataclass(frozen=True)
class FeatureNames:
    """Names of the features of a model: column=value of a table, the column of a matrix, or the id in a file."""

    numbering: Numbering
    encoder: TableEncoder | None = None
    columns: list[str] | None = None
    index_base: int = 0

    @classmethod
    def of(cls, saved: Saved) -> FeatureNames:
        """Return the names of a saved model's features."""
        return cls(saved.model.numbering, saved.encoder, saved.columns, saved.index_base)

    def of_id(self, id: int) -> str:
        """Return the name of a feature id."""
        return feature_name(id, self.encoder, self.columns, self.index_base)

    @cached_property
    def players(self) -> list[str]:
        """Names of what can be replaced one by one: columns and conjunctions of a table, or columns of a matrix."""
        if self.encoder is not None:
            return [part.name for part in self.encoder.parts]
        return [self.of_id(id) for id in range(self.numbering.n_inputs)]

    def columns_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the position of the column that each feature id belongs to."""
        if self.encoder is None:
            return ids
        return np.searchsorted(self.encoder.first_ids, ids, side="right") - 1

    def of_row(self, rows: CheckedRows, row: int) -> list[str]:
        """Return the names of a row's features."""
        return [self.of_id(id) for id in rows.indices[slice(*rows.indptr[row : row + 2])].tolist()]

    def column_of_feature(self, id: int) -> str:
        """Return the name of the column that a feature id belongs to."""
        return self.players[int(self.columns_of(np.array([id]))[0])]

    def unseen(self, ids: np.ndarray, values: np.ndarray) -> tuple[str, ...]:
        """Return the ids or columns of a row that are unknown to the model."""
        known = (self.numbering.lookup(ids) >= 0) & (values != 0)
        if self.encoder is None:
            return tuple(self.of_id(id) for id in ids[~known & (values != 0)])
        found = set(self.columns_of(ids[known]).tolist())
        # a combination of values that is new is usual, and unknown values are told by their columns
        return tuple(column.name for place, column in enumerate(self.encoder.columns) if place not in found)
