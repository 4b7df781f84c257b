"""What a model does on a data set as a whole: strength of column pairs, strongest pairs of features, share by level."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ..model.model import Model
from ..rows.checked import CheckedRows
from .names import FeatureNames
from .terms import explain_rows


@dataclass(frozen=True)
class Overview:
    """Mean absolute size of terms per row.

    Parameters
    ----------
    columns : dict
        Linear terms by column.
    column_pairs : dict
        Pair terms by two columns.
    pairs : dict
        Pair terms by two features.
    levels : dict
        Pair terms by level; 0 stands for linear terms.
    """

    columns: dict[str, float]
    column_pairs: dict[tuple[str, str], float]
    pairs: dict[tuple[str, str], float]
    levels: dict[int, float]

    def top(self, n: int) -> dict[str, Any]:
        """Return the n largest entries of each view, as plain values."""

        def largest(view: dict[Any, float]) -> list[dict[str, Any]]:
            return [{"name": " x ".join(k) if isinstance(k, tuple) else k, "size": v} for k, v in [*view.items()][:n]]

        return {
            "columns": largest(self.columns),
            "column_pairs": largest(self.column_pairs),
            "pairs": largest(self.pairs),
            "levels": {str(level): size for level, size in self.levels.items()},
        }


def overview(model: Model, batch: CheckedRows, names: FeatureNames) -> Overview:
    """Return the mean absolute size of all terms on the rows, largest first."""
    sums: tuple[defaultdict[Any, float], ...] = tuple(defaultdict(float) for _ in range(4))
    columns, column_pairs, pairs, levels = sums
    for row in explain_rows(model, batch, names):
        for term in row.terms:
            owners = tuple(sorted(names.column_of_feature(feature) for feature in term.ids)) or term.features
            size = abs(term.value) / batch.n_rows
            levels[term.level or 0] += size
            if len(owners) == 1:
                columns[owners[0]] += size
            else:
                column_pairs[owners] += size
                pairs[tuple(sorted(term.features))] += size
    ordered = (dict(sorted(view.items(), key=lambda entry: (-entry[1], entry[0]))) for view in sums)
    return Overview(*ordered)
