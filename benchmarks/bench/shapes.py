"""Generate the rows that the benchmarks run on, shaped like well-known public data sets.

    python -m benchmarks.bench.shapes      prints them

Every value is 1; ids start at 0 and ascend within a row, one per field. Labels come from linear weights: these rows are
for measuring speed, not accuracy (see rafm.demo.click_log for data with interactions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rafm.rows.checked import Batch, CheckedRows, check_batch

FRAPPE_FIELDS = (957, 4082, 7, 7, 2, 3, 2, 9, 80, 233)
CRITEO_NUMBERS = (50,) * 13  # 13 integer columns of 50 bins
CRITEO_FIELDS = CRITEO_NUMBERS + tuple(np.geomspace(3, 380_000, 26).astype(int).tolist())


class Rows(NamedTuple):
    """Rows in CSR form, for all libraries."""

    name: str
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    n_features: int

    def __str__(self) -> str:
        counts = np.bincount(self.indices, minlength=self.n_features)
        shares = [f"{counts[counts > c].sum() / counts.sum():.0%} > {c}" for c in (8, 32, 128, 512)]
        per_row, seen = self.indices.size / self.labels.size, (counts > 0).sum()
        return (
            f"{self.name}: {self.labels.size:,} rows, {per_row:.0f} nonzeros per row, "
            f"{self.n_features:,} features, {seen:,} seen; nonzeros by count: {', '.join(shares)}"
        )

    def batch(self) -> CheckedRows:
        """Return the rows as CheckedRows."""
        return check_batch(Batch(self.indptr, self.indices, self.values, self.n_features, self.labels))

    def first(self, n_rows: int) -> Rows:
        """Return at most the first n_rows rows."""
        n_rows = min(n_rows, self.labels.size)
        end = self.indptr[n_rows]
        values, indices = self.values[:end], self.indices[:end]
        return Rows(self.name, self.indptr[: n_rows + 1], indices, values, self.labels[:n_rows], self.n_features)


def frappe_shaped(n_rows: int = 200_000, seed: int = 0) -> Rows:
    """Draw 10 fields of Frappe's sizes: 5,382 features, whose records fit into the caches."""
    return zipf_rows("frappe-shaped", n_rows, FRAPPE_FIELDS, 1.0, seed)


def criteo_shaped(n_rows: int = 60_000, seed: int = 0) -> Rows:
    """Draw 39 fields with about a million features, whose records do not."""
    return zipf_rows("criteo-shaped", n_rows, CRITEO_FIELDS, 1.05, seed)


SHAPES = {"frappe": frappe_shaped, "criteo": criteo_shaped}


def even_rows(n_rows: int, n_features: int, per_row: int, seed: int = 0) -> Rows:
    """Draw fields of equal size with uniformly distributed values."""
    return zipf_rows("even", n_rows, [n_features // per_row] * per_row, 0.0, seed)


def zipf_rows(name: str, n_rows: int, sizes: Sequence[int], exponent: float, seed: int) -> Rows:
    """Draw one feature per field and row; the r-th most frequent has a probability proportional to r ** -exponent."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *sizes])
    table = np.column_stack([start + zipf_column(n_rows, size, exponent, rng) for start, size in zip(offsets, sizes)])
    scores = rng.normal(0, 1 / np.sqrt(len(sizes)), offsets[-1])[table].sum(axis=1)
    labels = (rng.random(n_rows) < 1 / (1 + np.exp(1 - scores))).astype(np.float32)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * len(sizes)
    values = np.ones(table.size, dtype=np.float32)
    return Rows(name, indptr, table.astype(np.int64).ravel(), values, labels, int(offsets[-1]))


def zipf_column(n_rows: int, size: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the values 0 .. size - 1 of one field; they are not sorted by frequency."""
    ends = np.cumsum(np.arange(1, size + 1) ** -float(exponent))
    drawn = np.searchsorted(ends, rng.random(n_rows) * ends[-1], side="right")
    return rng.permutation(size)[np.minimum(drawn, size - 1)]


if __name__ == "__main__":
    for rows in (frappe_shaped(), criteo_shaped()):
        print(rows)
