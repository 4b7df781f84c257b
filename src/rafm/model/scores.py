"""Score numbered rows, from training or scoring records; single-threaded, without the GIL, and thread-safe."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..kernels import mixture, packed, scoring
from ..kernels.tables import FieldScoring, NoFieldWeights, PackedCodes, PackedHalves, Rows, ScoringScratch, Tables
from ..plan.layout import RecordLayout
from ..plan.scratch import field_vector_tables, make_field_vector_scratch, make_scoring_scratch

SINGLE = threading.local()  # scratch memory for single rows, and the model's widths that it is for
FEW = 64  # entries of a single row that it has room for, at least


def score(
    rows: Rows,
    tables: Tables,
    records: np.ndarray,
    bias: np.float32,
    level: int | None = None,
    field_weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return B_{1,level} of every row; by default the top level, which is the model's score."""
    is_single = rows.labels.size == 1  # then preparing takes longer than scoring
    longest = rows.indices.size if is_single else int(np.diff(rows.indptr).max(initial=0))
    scores = np.empty(rows.labels.size, records.dtype)
    level = tables.widths.size if level is None else level
    scratch = _scratch(tables, longest, records.dtype, is_single)
    fields = _scoring_fields(field_weights, longest, records.dtype)
    scoring.score_rows(rows, tables, records, bias, level, scratch, scores, fields)
    return scores


def _scratch(tables: Tables, longest: int, dtype: np.dtype, is_single: bool) -> ScoringScratch:
    """Return scratch memory; for single rows, that of the thread's last one if the model is the same."""
    if not is_single:
        return make_scoring_scratch(tables, longest, dtype)
    last: ScoringScratch | None = getattr(SINGLE, "scratch", None)
    if last is None or SINGLE.widths is not tables.widths or last.places.size < longest or last.sums.dtype != dtype:
        last = make_scoring_scratch(tables, max(longest, FEW), dtype, own_pages=False)
        SINGLE.widths, SINGLE.scratch = tables.widths, last
    return last


def _scoring_fields(field_weights: np.ndarray | None, longest: int, dtype: Any) -> FieldScoring | NoFieldWeights:
    return NoFieldWeights() if field_weights is None else FieldScoring(field_weights, np.empty(longest, dtype))


def score_packed(
    rows: Rows,
    tables: Tables,
    stored: tuple[np.ndarray, np.ndarray],
    bias: np.float32,
    level: int | None = None,
    field_weights: np.ndarray | None = None,
) -> np.ndarray:
    """Do the same for packed vectors; stored: the records, and the same memory as codes."""
    is_single = rows.labels.size == 1
    longest = rows.indices.size if is_single else int(np.diff(rows.indptr).max(initial=0))
    kind = PackedHalves if stored[1].dtype == np.uint8 else PackedCodes
    scores = np.empty(rows.labels.size, np.float32)
    level = tables.widths.size if level is None else level
    scratch = _scratch(tables, longest, np.dtype(np.float32), is_single)
    fields = _scoring_fields(field_weights, longest, np.float32)
    packed.score_packed_rows(rows, tables, kind(*stored), bias, level, scratch, scores, fields)
    return scores


def score_field_aware(
    rows: Rows, layout: RecordLayout, tables: Tables, records: np.ndarray, bias: np.float32
) -> np.ndarray:
    """Return the score of every row of a field-aware model."""
    from ..kernels import field_aware  # its kernels are prepared only if they are used

    longest = int(np.diff(rows.indptr).max(initial=0))
    tables, scores = field_vector_tables(tables, longest), np.empty(rows.labels.size, records.dtype)
    (work,) = make_field_vector_scratch(layout, tables, longest, dtype=records.dtype)
    field_aware.score_rows(rows, tables, records, bias, work, scores)
    return scores


def score_mixture(rows: Rows, tables: Tables, records: np.ndarray, bias: np.float32, weights: np.ndarray) -> np.ndarray:
    """Return the MRMA score of every row, given the mixture weights."""
    scores = np.empty(rows.labels.size, records.dtype)
    mixture.score_rows(rows, tables, records, bias, weights, scores)
    return scores
