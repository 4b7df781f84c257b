"""Read a file of fields, and collect the fields of libffm rows.

A file of fields is text, plain or compressed, with one feature per line: its id, a tab, the name of its field. Further
columns are ignored, and so are blank lines, lines that start with # and a first line that names the columns (its first
cell is "id"). Ids count from the same base as in the data.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ..errors import DataFormatError, DataValueError, DataWarning, FeatureRangeError
from ..files.atomic import PathLike
from ..rows.fields import NO_FIELD, Fields, FieldTable
from ..rows.source import RowSource
from ..rows.stats import count_rows
from .compression import open_bytes, source_name
from .libsvm.reader import TextRows

HEADING = b"id"
SHOWN_BYTES = 40  # of a bad cell in messages
MOST_WITHOUT = 0.5  # of the ids of the data, without a field


def read_fields(path: PathLike, index_base: int = 0, max_features: int = 2**32) -> Fields:
    """Read a file of fields; ids without a line have no field.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "fields.tsv")
    ...     _ = path.write_text("0\\tuser\\tAnn\\n1\\tuser\\tBob\\n2\\titem\\tcup\\n")
    ...     fields = read_fields(path)
    >>> fields.names, fields.of(np.arange(4))
    (('user', 'item'), array([ 0,  0,  1, -1], dtype=int32))
    """
    with open_bytes(path) as source:
        text = source.read_all()
    name, names, found = source_name(path), dict[bytes, int](), dict[int, tuple[int, int]]()
    for line, content in enumerate(text.split(b"\n"), start=1):
        if not (content := content.rstrip(b"\r")).strip() or content.startswith(b"#"):
            continue
        cells = content.split(b"\t", 2)
        if line == 1 and cells[0].strip().lower() == HEADING:
            continue
        number, field = _entry(cells, name, line, index_base, max_features)
        field_number = names.setdefault(field, len(names))
        before = found.setdefault(number, (field_number, line))
        if before[0] != field_number:
            rule = f"but in another one in line {before[1]}; a feature has one field"
            raise DataValueError(f"id {number + index_base} is in field {_shown(field)}, {rule}", name, line, 1)
    if not found:
        raise DataValueError("no fields: expected lines of an id, a tab and a field", path=name)
    ids = np.fromiter(found, np.int64, len(found))
    numbers = np.fromiter((field for field, _ in found.values()), np.int32, len(found))
    order = np.argsort(ids)
    fields = Fields.of_ids([_decoded(field, name) for field in names], ids[order], numbers[order])
    return replace(fields, path=name)


def check_use(fields: Fields, rows: RowSource, data: PathLike, index_base: int = 0) -> None:
    """Reject a file of fields that has none of the ids of the rows; warn if it lacks most of them."""
    if fields.path is not None:
        check_ids(fields, count_rows(rows.block(number) for number in range(rows.n_blocks)).ids, data, index_base)


def check_ids(fields: Fields, ids: np.ndarray, data: PathLike, index_base: int = 0) -> None:
    """Do the same with the distinct ids of the rows."""
    without = ids[fields.of(ids) == NO_FIELD]
    if not without.size or without.size <= MOST_WITHOUT * ids.size:
        return
    example = f"such as id {int(without[0]) + index_base}; is this the file of fields for these data?"
    if without.size == ids.size:
        raise DataValueError(f"none of the ids of {source_name(data)} has a field here, {example}", path=fields.path)
    message = f"{fields.path}: {without.size} of {ids.size} ids of {source_name(data)} have no field, {example}"
    warnings.warn(DataWarning(message), stacklevel=2)


def _entry(cells: list[bytes], name: str, line: int, index_base: int, max_features: int) -> tuple[int, bytes]:
    """Return the id, counted from 0, and the field of a line."""
    if len(cells) < 2:
        raise DataFormatError(f"expected an id, a tab and a field, found {_shown(cells[0])}", name, line, 1)
    text, field = cells[0].strip(), cells[1].strip()
    if not text.isdigit():
        raise DataFormatError(f"expected an id, a whole number, found {_shown(text)}", name, line, 1)
    number = int(text) - index_base if len(text) < 20 else max_features
    if not 0 <= number < max_features:
        rule = f"ids must be between {index_base} and {max_features - 1 + index_base}"
        raise FeatureRangeError(f"id {text.decode():.40} is out of range; {rule}", name, line, 1)
    if not field:
        raise DataFormatError(
            "expected the name of a field after the tab, found nothing", name, line, len(cells[0]) + 2
        )
    return number, field


def _shown(cell: bytes) -> str:
    return repr(cell[:SHOWN_BYTES].decode("utf-8", "replace"))


def _decoded(field: bytes, name: str) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise DataFormatError(f"names of fields must be UTF-8, found {_shown(field)}", path=name) from None


class FieldsOfRows:
    """Collects the fields of the rows of a libffm file; other rows have none.

    An id that occurs in several fields belongs to the first one, which is reported as a warning.
    """

    def __init__(self, path: PathLike, index_base: int):
        self._name, self._index_base, self._table, self._is_reported = (
            source_name(path),
            index_base,
            FieldTable(),
            False,
        )

    def add(self, rows: TextRows) -> None:
        """Add the rows of a chunk."""
        if rows.fields is None:
            return
        entry = self._table.add(rows.indices, rows.fields)
        if entry >= 0 and not self._is_reported:
            self._is_reported = True
            line = int(rows.lines[np.searchsorted(rows.indptr, entry, side="right") - 1])
            number = int(rows.indices[entry]) + self._index_base
            warnings.warn(
                f"{self._name}:{line}: id {number} is in field {rows.fields[entry]}, but was in another one before; "
                "a feature has one field, and the first one counts",
                stacklevel=2,
            )

    def fields(self) -> Fields | None:
        """Return the fields; None if the rows have none."""
        return self._table.fields()
