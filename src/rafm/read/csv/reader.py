"""Read CSV, TSV and the like into record batches: streaming, with the line in every error.

Column types are inferred from the first SAMPLE_BYTES, which are held in memory rather than read twice. Plain numbers
are parsed directly (see plain_parser.py); other columns are text until their type is known.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from ...errors import ConfigError, DataFormatError, DataValueError, RafmError
from ...files.atomic import PathLike
from ...files.terminal import counted
from ...rows.prefetch import THREADS, map_ahead
from ..compression import open_bytes
from ..libsvm.diagnose import quote
from .arrow_parser import BadRow, Layout, OnBad, has_rows, in_one_line, line_of, no_cells, parse_block, split_row
from .cell_types import (
    NOT_REQUIRED,
    READ_AS,
    TEXT,
    TYPE_NAMES,
    UNKNOWN,
    WHOLE,
    cast_text,
    first_misfit,
    is_infinite,
    is_number,
    learn_type,
    misfits,
    wider_type,
)
from .doubts import warn_of_header, warn_of_spaces, warn_of_strays
from .plain_parser import split_block
from .row_blocks import Dialect, TextBlock, cut_blocks, row_places, utf8_rows

BATCH_BYTES = 8 * 2**20
SAMPLE_BYTES = 16 * 2**20
MAX_ROW_BYTES = 16 * 2**20
DELIMITERS = ",\t;|"

Header = bool | Sequence[str]


class Parsed(NamedTuple):
    """A block, its columns as text or already cast, and the failure that follows them, if any.

    lines: the line of each row, counted from the first line of the block; None if no row was left out.
    """

    block: TextBlock
    cells: dict[str, pa.Array]
    failure: Exception | None
    lines: np.ndarray | None = None


EMPTY_BLOCK = TextBlock(b"", 1, False)


class CsvOptions(NamedTuple):
    """The options of read_delimited, checked."""

    delimiter: str | None
    quoting: bool
    header: Header
    label: str | None
    columns: Mapping[str, str]
    others: str
    on_bad: OnBad | None
    batch_bytes: int
    max_row_bytes: int


def read_delimited(
    path: PathLike,
    *,
    delimiter: str | None = None,
    quoting: bool = True,
    header: Header = True,
    label: str | None = None,
    columns: Mapping[str, str] | None = None,
    others: str = "inferred",
    batch_bytes: int = BATCH_BYTES,
    max_row_bytes: int = MAX_ROW_BYTES,
    on_bad: OnBad | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of delimited text in batches of one schema, in bounded memory.

    path: plain, gzip or zstd text, or "-" for standard input. delimiter: by default detected from the first line.
    quoting: if False, quotes are ordinary characters.
    header: True if the first row has the names, False to name columns c1, c2, ..., or the names themselves; a first
    row that repeats them is skipped. label: one of these names that the file may lack.
    columns: how to read some columns (keys of READ_AS; "ignore" drops one). others: how to read all others; by default
    their types are inferred.
    on_bad: called with the error of each bad row, which is then skipped; by default the first error is raised.
    Rows before an error are yielded first. A file with only a header yields one empty batch, an empty file none.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.csv")
    ...     _ = path.write_text("click,city,zip\\n1,Rome,00184\\n0,,\\n")
    ...     [batch.to_pydict() for batch in read_delimited(path)]
    [{'click': [1, 0], 'city': ['Rome', None], 'zip': ['00184', None]}]
    """
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise ConfigError(f"delimiter must be one ASCII character, found {delimiter!r}", key="delimiter")
    for name, kind in (columns or {}).items():
        if kind not in READ_AS:
            raise ConfigError(f"column {name!r} must be one of {', '.join(READ_AS)}; found {kind!r}", key="columns")
    for key, value in (("batch_bytes", batch_bytes), ("max_row_bytes", max_row_bytes)):
        if value < 1:
            raise ConfigError(f"{key} must be positive, found {value}", key=key)
    settings = (delimiter, quoting, header, label, columns or {}, others, on_bad, batch_bytes, max_row_bytes)
    return _batches(path, CsvOptions(*settings))


def find_delimiter(text: bytes) -> str:
    """Return the most frequent of DELIMITERS in the first line, a comma if there is none.

    >>> find_delimiter(b"a;b;c,d\\n1,2;3;4\\n")
    ';'
    """
    line = text.lstrip(b"\r\n").partition(b"\n")[0]
    return max(DELIMITERS, key=lambda delimiter: line.count(delimiter.encode()))


def line_of_row(path: PathLike, row: int, **settings: Any) -> int | None:
    """Return the line of a data row, counted from 0, by reading the text again; None for standard input.

    settings: delimiter, quoting, header and label, as for read_delimited.
    """
    if not os.path.isfile(path):
        return None
    usual = {"delimiter": None, "quoting": True, "header": True, "label": None}
    options = CsvOptions(
        **usual | settings, columns={}, others="text", on_bad=None, batch_bytes=BATCH_BYTES, max_row_bytes=2**40
    )
    with open_bytes(path) as source:
        dialect = Dialect(options.delimiter or find_delimiter(source.peek(2**16)), options.quoting)
        blocks = (block for block in cut_blocks(source, dialect, *options[-2:]) if has_rows(block))
        first, _ = _take_names(next(blocks), dialect, options, source.name)
        for block in chain([first], blocks):
            starts, lines, _ = row_places(block.data, dialect, block.data.count(b"\n"))
            if row < starts.size:
                return block.first_line + int(lines[row])
            row -= starts.size
    return None


def _batches(path: PathLike, options: CsvOptions) -> Iterator[pa.RecordBatch]:
    """Open the file, infer the types of its columns, then cast block by block."""
    with open_bytes(path) as source:
        dialect = Dialect(options.delimiter or find_delimiter(source.peek(2**16)), options.quoting)
        blocks = (block for block in cut_blocks(source, dialect, *options[-2:]) if has_rows(block))
        first = next(blocks, None)
        if first is None:
            return
        line = first.first_line
        first, names = _take_names(first, dialect, options, source.name)
        given = _given_types(names, options, source.name)
        types = {column: given.get(column, READ_AS[options.others]) for column in names}
        kept = {column: kind for column, kind in types.items() if kind is not None}
        header_line = line if options.header is True else 0
        layout = Layout(source.name, dialect, names, kept, given, options.on_bad, header_line)
        yield from _typed(chain([first] if first.data else [], blocks), layout)


def _typed(blocks: Iterator[TextBlock], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Infer unknown types, then yield the batches and raise the failure, if any."""
    sample = deque(_parsed(_sample(blocks), layout) if UNKNOWN in layout.types.values() else [])
    unknown = [column for column, kind in layout.types.items() if kind == UNKNOWN]
    layout, on_bad, n_parts = _learn(layout, sample), layout.on_bad, 0
    texts = [column for column in unknown if layout.types[column] == TEXT and column not in layout.given]
    warn_of_strays(sample, texts, layout)
    warn_of_spaces(sample, texts, layout)
    if layout.header_line:
        warn_of_header(sample, layout)
    parts = _parsed(blocks, layout)
    sample.extend(islice(parts, 1))  # starts the threads: they parse ahead while the sample is consumed
    while part := sample.popleft() if sample else next(parts, None):
        n_parts += 1
        batch, failure = (
            _cast_part(part, layout) if on_bad is None else (_cast_good_rows(part, layout, on_bad), part.failure)
        )
        if batch.num_rows:
            yield batch
        if failure and on_bad and isinstance(failure, RafmError):  # an OSError is raised in any case
            on_bad(failure)
        elif failure:
            raise failure
    if not n_parts:  # a header only: an empty batch still tells the schema
        yield _cast_part(Parsed(EMPTY_BLOCK, no_cells(layout), None), layout)[0]


def _take_names(first: TextBlock, dialect: Dialect, options: CsvOptions, name: str) -> tuple[TextBlock, list[str]]:
    """Return the first block without its header, and the names."""
    starts, lines, _ = row_places(first.data, dialect, 2)
    end = int(starts[1]) if starts.size > 1 else len(first.data)
    line = first.first_line + int(lines[0])
    try:
        cells = split_row(first.data[starts[0] : end], dialect)
    except pa.ArrowInvalid as error:
        raise DataFormatError(f"the first row cannot be read: {in_one_line(error)}", name, line) from None
    has_names, names = _names(cells, options.header, options.label, name, line)
    if has_names:
        first_line = first.first_line + first.data.count(b"\n", 0, end)
        first = first._replace(data=first.data[end:], first_line=first_line)
    return first, names


def _names(cells: list[str], header: Header, label: str | None, name: str, line: int) -> tuple[bool, list[str]]:
    """Return whether the first row is a header, and the names."""
    if header is False:
        return False, [f"c{k + 1}" for k in range(len(cells))]
    found = [cell.strip() for cell in cells]
    if header is True:
        _check_names(found, name, line)
        return True, found
    names = list(header)
    if label in names and len(cells) == len(names) - 1:
        names.remove(label)
    if len(cells) != len(names):
        raise DataFormatError(f"expected {counted(len(names), 'column')}, found {len(cells)}", name, line)
    return found == names, names


def _check_names(names: list[str], name: str, line: int) -> None:
    """Reject empty and duplicate names."""
    hint = "if the first line is data, add a line with the names of the columns above it"
    first: dict[str, int] = {}
    for k, column in enumerate(names):
        if not column and not k and all(names[1:]):
            way_out = "pandas writes its index so: write the file with to_csv(..., index=False), or name the column"
            raise DataFormatError(f"column 1 has no name; {way_out}", name, line)
        if not column:
            raise DataFormatError(f"column {k + 1} has no name; give it one, or, {hint}", name, line)
        if first.setdefault(column, k) != k:
            places = f"columns {first[column] + 1} and {k + 1}"
            same = f"have the same name {quote(column.encode())}; rename or drop one, or, {hint}"
            raise DataFormatError(f"{places} {same}", name, line)


def _given_types(names: list[str], options: CsvOptions, name: str) -> dict[str, pa.DataType | None]:
    """Return the types chosen by the caller; reject missing columns."""
    there = set(names)
    for column, kind in options.columns.items():
        if column not in there and kind not in NOT_REQUIRED and column != options.label:
            hint = "; is the first line data? It must have the names" if any(map(is_number, names)) else ""
            raise DataValueError(f"column {column!r} is missing; the columns are {_listed(names)}{hint}", name)
    if all(options.columns.get(column) == "ignore" for column in names):
        raise DataValueError("all columns are ignored", name)
    return {column: READ_AS[kind] for column, kind in options.columns.items() if column in there}


def _parsed(blocks: Iterable[TextBlock], layout: Layout) -> Iterator[Parsed]:
    """Yield the columns of each block; the last part holds the failure, if any."""
    try:
        around = layout.on_bad and (_parse_around(block, layout, layout.on_bad) for block in blocks)
        for part in around or _parse_each(blocks, layout):
            yield part
            if part.failure:
                return
    except (RafmError, OSError) as failure:
        yield Parsed(EMPTY_BLOCK, no_cells(layout), failure)


def _parse_each(blocks: Iterable[TextBlock], layout: Layout) -> Iterator[Parsed]:
    """Yield each block up to its first bad row, while threads split the next ones."""
    # Only this thread calls Arrow, whose parser is known to hang when called from foreign threads.
    for block, cells in map_ahead(lambda block: (block, split_block(block, layout)), blocks):
        yield _parse_good_rows(block, layout) if cells is None else Parsed(block, cells, None)


def _parse_good_rows(block: TextBlock, layout: Layout) -> Parsed:
    """Parse the rows before the first bad one."""
    failure, head = None, block
    while True:  # the rows before may still be bad for another reason, which Arrow checks later
        try:
            return Parsed(head, parse_block(head, layout), failure)
        except BadRow as bad:
            starts, _, _ = row_places(head.data, layout.dialect, bad.row + 1)
            failure, head = bad.error, head._replace(data=head.data[: starts[bad.row]])


def _parse_around(block: TextBlock, layout: Layout, on_bad: OnBad) -> Parsed:
    """Parse rows of valid UTF-8 with the right number of cells; report and skip the others."""
    ragged: dict[int, str] = {}
    starts, lines, _ = row_places(block.data, layout.dialect, block.data.count(b"\n"))
    whole = utf8_rows(block.data, starts)
    for line in lines[~whole].tolist():
        on_bad(DataFormatError("the row is not UTF-8; convert the file to UTF-8", layout.name, block.first_line + line))
    ends = np.append(starts[1:], len(block.data))
    if not whole.all():
        block = block._replace(data=b"".join(block.data[a:b] for a, b in zip(starts[whole], ends[whole])))
    lines = lines[whole]

    def skip(row: csv.InvalidRow) -> str:
        ragged[row.number - 1] = f"expected {counted(row.expected_columns, 'column')}, found {row.actual_columns}"
        return "skip"

    try:
        cells = split_block(block, layout) or parse_block(block, layout, skip)
    except BadRow as bad:
        raise bad.error from None
    for row, message in ragged.items():
        on_bad(DataFormatError(message, layout.name, block.first_line + int(lines[row])))
    return Parsed(block, cells, None, np.delete(lines, list(ragged)))


def _cast_good_rows(part: Parsed, layout: Layout, on_bad: OnBad) -> pa.RecordBatch:
    """Return the rows whose cells all fit their columns; report and skip the others."""
    cells, lines = part.cells, part.lines
    lines = np.zeros(0, np.int64) if lines is None else lines
    wrong = {column: misfits(cells[column], kind) for column, kind in layout.types.items() if kind != TEXT}
    rows = np.logical_or.reduce([np.zeros(lines.size, bool), *wrong.values()])
    for row in np.flatnonzero(rows).tolist():
        column = next(column for column, found in wrong.items() if found[row])  # one error per row is enough
        on_bad(_misfit(part, layout, row, column, cells[column][row].as_py()))
    good = pa.array(~rows)
    return _cast_part(part._replace(cells={column: own.filter(good) for column, own in cells.items()}), layout)[0]


def _sample(blocks: Iterator[TextBlock]) -> Iterator[TextBlock]:
    """Yield blocks until they reach SAMPLE_BYTES."""
    size = 0
    for block in blocks:
        yield block
        size += len(block.data)
        if size >= SAMPLE_BYTES:
            return


def _learn(layout: Layout, sample: Iterable[Parsed]) -> Layout:
    """Return the layout with all types inferred, and cast the sample; a column without values is text."""

    def learned(column: str) -> pa.DataType:
        kind, converted = layout.types[column], []
        if kind != UNKNOWN:
            return kind
        for part in sample:
            if kind != TEXT:
                found, cells = learn_type(part.cells[column])
                kind = wider_type(kind, found)
                converted.append(cells)
        for part, cells in zip(sample, converted):
            if cells.type == kind:
                part.cells[column] = cells
        if kind == TEXT:
            _put_text_back(sample, column, layout)
        return TEXT if kind == UNKNOWN else kind

    with ThreadPoolExecutor(THREADS) as pool:
        return layout._replace(types=dict(zip(layout.types, pool.map(learned, layout.types))))


def _put_text_back(sample: Iterable[Parsed], column: str, layout: Layout) -> None:
    """Parse a column again as text where it was read as numbers, because another block has text in it."""
    for part in sample:
        if part.cells[column].type != TEXT:
            part.cells.update(split_block(part.block, layout._replace(types={column: TEXT})) or {})


def _cast_part(part: Parsed, layout: Layout) -> tuple[pa.RecordBatch, Exception | None]:
    """Cast the rows before the first cell that does not fit its column; return them and the failure."""
    cells, failure = part.cells, part.failure
    columns = {column: cells[column] for column in layout.types}
    odd = {column: kind for column, kind in layout.types.items() if cells[column].type != kind}
    if odd:
        with ThreadPoolExecutor(THREADS) as pool:
            columns |= zip(odd, pool.map(cast_text, map(cells.__getitem__, odd), odd.values()))
    misfits = [
        (first_misfit(cells[column], layout.types[column]), column)
        for column, numbers in columns.items()
        if numbers is None
    ]
    if misfits:
        row, column = min(misfits, key=lambda misfit: misfit[0])
        failure = _misfit(part, layout, row, column, cells[column][row].as_py())
        columns = {column: cast_text(cells[column][:row], kind) for column, kind in layout.types.items()}
    schema = pa.schema(layout.types.items(), metadata={"strays": "warned"})
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema), failure


def _misfit(part: Parsed, layout: Layout, row: int, column: str, value: str) -> RafmError:
    """Return the error about a cell that does not fit its column."""
    kind, block = layout.types[column], part.block
    line = line_of(block, layout, row) if part.lines is None else block.first_line + int(part.lines[row])
    found = f"found {quote(value.encode())}"
    if is_infinite(value):
        return DataValueError(f"column {column!r} must be finite, {found}", layout.name, line)
    if layout.given.get(column) == UNKNOWN:
        return DataValueError(f"label column {column!r} had {TYPE_NAMES[kind]} before, {found}", layout.name, line)
    comma = "; write it with a decimal point" if re.fullmatch(r"[+-]?\d+,\d+", value.strip()) else ""
    if column in layout.given:
        return DataValueError(f"column {column!r} must be {TYPE_NAMES[kind]}, {found}{comma}", layout.name, line)
    other = "number" if kind == WHOLE and is_number(value) else "category"
    way_out = f"read it as {other}: --column {column}={other}"
    return DataValueError(
        f"column {column!r} had only {TYPE_NAMES[kind]} in the sample, {found}; {way_out}", layout.name, line
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
