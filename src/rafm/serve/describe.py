"""What people see: the page to try a model, which loads nothing from elsewhere, and the columns of a row."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..encode.coders import Bins, Lists, LogBins, Number, Words
from ..encode.column import Column
from .served import ServedModel

PAGE = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
MAX_VALUES = 50  # of a column, the most frequent ones


@lru_cache(maxsize=1)
def columns_of(model: ServedModel) -> dict[str, Any]:
    """Return name, type and frequent values of each column; for a model of ids, the frequent ids as values."""
    saved = model.scorer.saved
    counts = saved.model.feature_counts() if saved.encoder is not None else np.zeros(0, np.int64)
    answer: dict[str, Any] = {"model": model.name, "sha256": model.sha256, "prediction": model.kind}
    if saved.encoder is None:
        frequent = saved.model.numbering.ids[np.argsort(-saved.model.counts, kind="stable")[:MAX_VALUES]]
        return {**answer, "columns": [], "ids": [model.names.of_id(id) for id in frequent.tolist()]}
    places = zip(saved.encoder.columns, saved.encoder.first_ids)
    columns = [_describe(column, counts[first : first + column.n_features]) for column, first in places]
    order = {name: place for place, name in enumerate(model.scorer.columns)}
    return {**answer, "columns": sorted(columns, key=lambda column: order[column["name"]])}


def _describe(column: Column, counts: np.ndarray) -> dict[str, Any]:
    return {"name": column.name, "type": column.cell_type, "kind": column.kind, "values": _values(column, counts)}


def _values(column: Column, counts: np.ndarray) -> list[Any]:
    """Return the most frequent values, or some from the range of a number."""
    coder = column.coder
    if isinstance(coder, Lists):
        coder = coder.words
    if isinstance(coder, Words):
        frequent = np.argsort(-counts[: coder.n_values], kind="stable")[:MAX_VALUES].tolist()
        return [coder.table[code].decode(errors="replace") for code in frequent if counts[code]]
    if isinstance(coder, Number):
        return [float(f"{coder.mean + step * coder.spread:.4g}") for step in (0, -1, 1, -2, 2)]
    if isinstance(coder, Bins):
        return [float(f"{edge:.4g}") for edge in coder.edges]
    return [*range(3), 10, 100] if isinstance(coder, LogBins) else []
