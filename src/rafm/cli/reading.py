"""Flags that say how files are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    Column,
    Columns,
    Duplicates,
    FieldsFile,
    Format,
    Label,
    MaxFeatures,
    MaxLineBytes,
    Memory,
    MinCount,
    Positive,
    Spill,
    Weight,
    read_options,
    table_spec,
    with_room,
)

if TYPE_CHECKING:
    from ..read.open import ReadOptions


@dataclass(frozen=True)
class ReadingFlags:
    """How training files are read."""

    index_base: Annotated[int, typer.Option(help="Smallest feature id in the files: 0 or 1.")] = 0
    format: Format = "auto"
    label: Label = None
    positive: Positive = None
    weight: Weight = None
    column: Column = None
    columns: Columns = None
    min_count: MinCount = None
    fields: FieldsFile = None
    duplicates: Duplicates = "error"
    max_features: MaxFeatures = None
    max_line_bytes: MaxLineBytes = None
    memory: Memory = 1000
    spill: Spill = None

    def read_options(self, task: str, index_base: int, report: Any) -> ReadOptions:
        """Return the options for reading files; report is called with a message if rows spill to disk."""
        from ..rows.classes import BinaryLabels

        spec = table_spec(self.columns, self.column, self.label, self.weight, self.min_count)
        files = read_options(
            task, self.format, self.duplicates, index_base, self.max_features, self.max_line_bytes, spec, self.fields
        )
        files = replace(files, labels=BinaryLabels(self.positive))
        return with_room(files, self.memory, self.spill, report)
