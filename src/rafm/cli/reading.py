"""Flags that say how files are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..flag_values import flag_name
from .arguments import (
    TABLE_OPTIONS,
    Column,
    Columns,
    Cross,
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
    check_fields_flag,
    check_row_flags,
    read_options,
    table_spec,
    with_room,
)

if TYPE_CHECKING:
    from ..read.open import ReadOptions


@dataclass(frozen=True)
class FileFlags:
    """What files hold."""

    index_base: Annotated[int, typer.Option(help="Smallest feature id in the data: 0 or 1.")] = 0
    format: Format = "auto"
    label: Label = None
    positive: Positive = None
    weight: Weight = None
    column: Column = None
    columns: Columns = None
    min_count: MinCount = None
    cross: Cross = None
    fields: FieldsFile = None
    duplicates: Duplicates = "error"
    max_features: MaxFeatures = None
    max_line_bytes: MaxLineBytes = None

    def what_to_read(self, task: str, index_base: int) -> ReadOptions:
        """Return the options for reading files."""
        from ..rows.classes import BinaryLabels

        spec = table_spec(self.columns, self.column, self.label, self.weight, self.min_count, self.cross)
        files = read_options(
            task, self.format, self.duplicates, index_base, self.max_features, self.max_line_bytes, spec, self.fields
        )
        return replace(files, labels=BinaryLabels(self.positive))


@dataclass(frozen=True)
class ReadingFlags(FileFlags):
    """How training files are read."""

    memory: Memory = 1000
    spill: Spill = None

    def read_options(self, task: str, index_base: int, report: Any) -> ReadOptions:
        """Return the options for reading files; report is called with a message if rows spill to disk."""
        return with_room(self.what_to_read(task, index_base), self.memory, self.spill, report)


def check_flags(data: str, files: ReadOptions, reading: ReadingFlags, given: set[str]) -> None:
    """Reject options that have no effect on data of this format."""
    check_table_flags(data, files, reading, given)
    check_row_flags(data, files, given)
    check_fields_flag(data, files)


def check_table_flags(data: str, files: ReadOptions, reading: ReadingFlags, given: set[str]) -> None:
    """Reject options about the columns of a table if the data have no columns, or were encoded before."""
    from ..errors import ConfigError
    from ..read.detect import NO_ROWS
    from ..read.formats import CONVERTED, TABLE

    if files.find(data) == NO_ROWS or (entry := files.format_of(data)).gives == TABLE:
        return
    is_converted = entry.gives == CONVERTED
    what = "was encoded when it was converted; convert its source again" if is_converted else f"is {entry.name}"
    spec = vars(encoder.spec) if is_converted and (encoder := entry.read(data).encoder) else {}
    for name in TABLE_OPTIONS:
        if name in given and getattr(reading, name) != spec.get(
            name
        ):  # the label it was converted with may be repeated
            raise ConfigError(f"{flag_name(name)} is for tables, but {data} {what}", key=name)
