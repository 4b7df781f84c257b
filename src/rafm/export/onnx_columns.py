"""Encode the columns of a table in an ONNX graph, where ONNX can say it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..encode.coders import Bins, LogBins, Number, Words
from ..encode.column import Column
from ..encode.encoder import TableEncoder
from .graph import Graph

ABSENT = -1  # id of no feature
REASONS = {"datetime": "it has no times", "list": "it has no lists of words"}


def unsupported(encoder: TableEncoder) -> dict[str, str]:
    """Return the columns that ONNX cannot encode, and why."""
    found = {}
    for column in encoder.columns:
        if column.kind in REASONS:
            found[column.name] = REASONS[column.kind]
        elif column.kind == "category" and not isinstance(column.coder, Words):
            found[column.name] = "it has no XXH64 for hashed values"
        elif column.kind == "category" and column.cell_type == "time":
            found[column.name] = "it has no times"
    found |= {cross.name: "it has no combinations of values" for cross in encoder.crosses}
    if encoder.spec.missing == "error":
        found.setdefault("*", "it cannot refuse missing values")
    return found


def column_inputs(graph: Graph, encoder: TableEncoder) -> tuple[str, str]:
    """Add an input per column; return names of ids and values of shape (rows, columns)."""
    ids, values = [], []
    for first, column in zip(encoder.first_ids, encoder.columns):
        coded = ColumnGraph(graph, column, int(first))
        found, value = coded.entries()
        ids.append(found)
        values.append(value)
    return graph.node("Concat", ids, axis=1), graph.node("Concat", values, axis=1)


class ColumnGraph:
    """Emits ids and values of one column, of shape (rows, 1)."""

    def __init__(self, graph: Graph, column: Column, first: int):
        self.graph, self.column, self.first = graph, column, first
        last = first + column.coder.n_values
        self.rare = last if column.has_rare else ABSENT
        self.missing = last + column.has_rare if column.has_missing else ABSENT

    def entries(self) -> tuple[str, str]:
        """Return names of ids and values."""
        coder: Any = self.column.coder
        if isinstance(coder, Words):
            cells = self.graph.input(self.column.name, str, 1)
            return self._of_words(cells, coder), self._ones(cells)
        cells = self.graph.input(self.column.name, np.float64, 1)
        is_missing = self.graph.node("IsNaN", [cells])
        if isinstance(coder, Number):
            return self._or_missing(is_missing, np.int64(self.first)), self._standardised(cells, is_missing, coder)
        assert isinstance(coder, Bins | LogBins)
        ids = self._of_edges(cells, coder) if isinstance(coder, Bins) else self._of_log_bins(cells, coder)
        return self._or_missing(is_missing, ids), self._ones(is_missing)

    def _ones(self, cells: str) -> str:
        """Return a value of 1 for each cell."""
        shape = self.graph.node("Shape", [cells])
        return self.graph.node("Expand", [np.float32(1), shape])

    def _or_missing(self, is_missing: str, ids: Any) -> str:
        return self.graph.node("Where", [is_missing, np.int64(self.missing), ids])

    def _of_words(self, cells: str, coder: Words) -> str:
        """Return the ids of texts; an empty text stands for a missing value unless it is a value of its own."""
        texts = [coder.table[code].decode() for code in range(coder.n_values)]
        keys = {text: self.first + code for code, text in enumerate(texts)}
        keys.setdefault("", self.missing)
        mapping = {"keys_strings": [*keys], "values_int64s": [*keys.values()], "default_int64": self.rare}
        return self.graph.node("LabelEncoder", [cells], domain="ai.onnx.ml", **mapping)

    def _standardised(self, cells: str, is_missing: str, coder: Number) -> str:
        g = self.graph
        scaled = g.node("Div", [g.sub(cells, np.float64(coder.mean)), np.float64(coder.spread)])
        return g.cast(g.node("Where", [is_missing, np.float64(1), scaled]), np.float32)

    def _of_edges(self, cells: str, coder: Bins) -> str:
        """Return first + the number of edges up to each number."""
        g = self.graph
        if not coder.edges:
            return g.node("Expand", [np.int64(self.first), g.node("Shape", [cells])])
        above = g.cast(g.node("GreaterOrEqual", [cells, np.array(coder.edges)]), np.int64)  # (rows, edges)
        counted = g.node("ReduceSum", [above, np.array([1])], keepdims=1)
        return g.add(counted, np.int64(self.first))

    def _of_log_bins(self, cells: str, coder: LogBins) -> str:
        """Return the ids of floor(log(x)^2), or of floor(x) up to 2."""
        g = self.graph
        log = g.node("Log", [g.node("Max", [cells, np.float64(1)])])
        large = g.node("Greater", [cells, np.float64(2)])
        found = g.cast(g.node("Floor", [g.node("Where", [large, g.mul(log, log), cells])]), np.int64)
        if not coder.bins:
            return g.node("Expand", [np.int64(self.rare), g.node("Shape", [cells])])
        mapping = {
            "keys_int64s": [int(one) for one in coder.bins],
            "values_int64s": [self.first + code for code in range(coder.n_values)],
            "default_int64": self.rare,
        }
        return g.node("LabelEncoder", [found], domain="ai.onnx.ml", **mapping)
