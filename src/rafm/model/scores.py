"""Score numbered rows, from training or scoring records; single-threaded, without the GIL, and thread-safe."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels import packed, scoring
from ..kernels.tables import FieldScoring, NoFieldWeights, PackedCodes, PackedHalves, Rows, ScoringScratch, Tables
from ..plan.packed_layout import PackedLayout
from ..plan.scratch import make_scoring_scratch

if TYPE_CHECKING:
    from .model import Model

SINGLE = threading.local()  # scratch memory for single rows, and the model's widths that it is for
FEW = 64  # entries of a single row that it has room for, at least


def score_model(model: Model, rows: Rows, level: int | None = None) -> np.ndarray:
    """Return B_{1,level} of every row by the vectors of a model, packed or not; by default its score."""
    layout, tables, records, found = model.layout, model.tables, model.records, model.parameters
    if isinstance(layout, PackedLayout):
        return score_packed(rows, tables, (records, layout.codes(records)), found.bias[0], level, found.fields)
    return score(rows, tables, records, found.bias[0], level, found.fields)


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
