"""Read libsvm (libfm) and libffm text into CSR rows: strict, fast, in bounded memory.

    label (blanks id:value)* (blanks? # comment)? end-of-line           libsvm
    label (blanks field:id:value)* (blanks? # comment)? end-of-line     libffm

Blanks are spaces and tabs, lines end with LF or CRLF; blank lines and comments are skipped. Numbers are
decimal, `[+-]digits[.digits][e[+-]digits]`, also `.5` and `5.`, rounded to float32. Ids are whole numbers, and so are
fields, below 2**31. An id is one feature, whatever its field: the same id twice in a row is a duplicate.
A last line without a newline is kept, so in a file truncated inside its last value, that value is read as the shorter
number: the format cannot tell. Explicit zeros are kept as stored zeros; counts of features elsewhere ignore them.

Text is read in chunks of whole lines. Threads scan the chunks and results are returned in order, so that neither rows
nor errors depend on the number of threads or the size of the chunks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import ConfigError, DataError, DataFormatError, DataValueError, RafmError
from ...files.atomic import PathLike
from ...rows.prefetch import THREADS, map_ahead
from ..compression import ByteSource, open_bytes, source_name
from .diagnose import Options, explain
from .scan import WORD_BYTES, Rules, Scan, count_lines_and_colons, scan_lines, sort_rows, sum_duplicates

WORD = re.compile(rb"[^ \t\r\n]+")
CHUNK_BYTES = 4 * 2**20
SHORT_BYTES = 1 << 12  # parsed at once after a bad line, since another one may follow soon


@dataclass(frozen=True)
class Limits:
    """Limits on what a file may contain.

    max_features: ids must be below this, which bounds the size of tables indexed by id. max_line_bytes: length of the
    longest line, without its LF.
    """

    max_features: int = 2**32
    max_line_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        for key, high in {"max_features": 2**62, "max_line_bytes": 2**40}.items():
            if not 1 <= getattr(self, key) <= high:
                raise ConfigError(f"{key} must be 1 .. {high}, found {getattr(self, key)}", key=key)


DEFAULT_LIMITS = Limits()


class TextRows(NamedTuple):
    """Rows of a text file in CSR form.

    labels: float32, as written. indptr: int64, from 0. indices: int64, from 0 whatever the base of the file, increasing
    within a row. values: float32, finite. first_line: the first line of the chunk. lines: int64, the line of each row.
    fields: int32, as written, one per entry; None if the format has none.
    """

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    first_line: int
    lines: np.ndarray
    fields: np.ndarray | None = None


class TextChunk(NamedTuple):
    """A buffer of whole lines, where they end in it, the line number of the first, and counts of what is in them."""

    data: bytearray
    end: int
    first_line: int
    n_lines: int
    n_colons: int
    options: Options

    def tokens(self, start: int) -> list[re.Match[bytes]]:
        """Return the tokens of the well-formed line at a position."""
        end = self.data.index(b"\n", start)
        comment = self.data.find(b"#", start, end)
        return list(WORD.finditer(self.data, start, end if comment < 0 else comment))

    def error(self, kind: type[RafmError], message: str, at: int) -> RafmError:
        """Return an error that names the line and column of a position."""
        line = self.first_line + self.data.count(b"\n", 0, at)
        column = at - self.data.rfind(b"\n", 0, at)
        if issubclass(kind, DataError):
            return kind(message, path=self.options.name, line=line, column=column)
        error = kind(f"{self.options.name}:{line}:{column}: {message}")  # ResourceLimitError takes no place
        error.line = line
        return error

    def part(self, start: int, size: int, first_line: int) -> TextChunk:
        """Return a copy of about `size` bytes of whole lines from a position on."""
        end = self.data.index(b"\n", min(start + size, self.end) - 1) + 1
        data = self.data[start:end] + bytes(WORD_BYTES)
        n_lines, n_colons = count_lines_and_colons(np.frombuffer(data, np.uint8, count=end - start))
        return TextChunk(data, end - start, first_line, n_lines, n_colons, self.options)


Outcome = tuple[TextRows, RafmError | None]  # the rows before the first failure, and that failure
OnBad = Callable[[RafmError], object]


def iterate_rows(
    path: PathLike,
    *,
    has_fields: bool = False,
    index_base: int = 0,
    duplicates: str = "error",
    limits: Limits = DEFAULT_LIMITS,
    chunk_bytes: int = CHUNK_BYTES,
    threads: int = THREADS,
    on_bad: OnBad | None = None,
) -> Iterator[TextRows]:
    """Check the options, then yield the rows of a file in chunks; rows before an error are yielded first.

    path: plain, gzip or zstd text, or "-" for standard input. has_fields: whether it is libffm text.
    index_base: the smallest id, 0 or 1; never guessed. duplicates: "sum" adds the values of an id that occurs twice in
    a row, and keeps its first field. chunk_bytes: about how much text is read at once.
    on_bad: called with the error of each bad line, which is then skipped; by default the first error is raised.
    """
    if index_base not in (0, 1):
        raise ConfigError(f"index_base must be 0 or 1, found {index_base}", key="index_base")
    if duplicates not in ("error", "sum"):
        raise ConfigError(f'duplicates must be "error" or "sum", found "{duplicates}"', key="duplicates")
    for key, value in (("chunk_bytes", chunk_bytes), ("threads", threads)):
        if value < 1:
            raise ConfigError(f"{key} must be positive, found {value}", key=key)
    options = Options(source_name(path), has_fields, index_base, duplicates, limits.max_features, limits.max_line_bytes)
    if on_bad is not None:
        return _good_chunks(path, options, chunk_bytes, threads, on_bad)
    return _chunks(path, options, chunk_bytes, threads)


def _chunks(path: PathLike, options: Options, chunk_bytes: int, threads: int) -> Iterator[TextRows]:
    """Yield the rows of each chunk, then raise the failure, if any."""
    with open_bytes(path) as source:
        for rows, failure in _outcomes(source, options, chunk_bytes, threads, _parse):
            if rows.labels.size:
                yield rows
            if failure:
                raise failure


def _good_chunks(path: PathLike, options: Options, chunk_bytes: int, threads: int, on_bad: OnBad) -> Iterator[TextRows]:
    """Yield the rows of each chunk between its bad lines; report a failure of the source like a bad line."""
    with open_bytes(path) as source:
        try:
            for parts in _outcomes(source, options, chunk_bytes, threads, _parse_around):
                for rows, failure in parts:
                    if rows.labels.size:
                        yield rows
                    if failure:
                        on_bad(failure)
        except DataFormatError as failure:
            on_bad(failure)


def _parse_around(chunk: TextChunk) -> list[Outcome]:
    """Return the rows of a chunk between its bad lines, with the errors of those."""
    # Parts double in size while all goes well, so that many bad lines do not take quadratic time.
    part, start, size, parts = chunk, 0, SHORT_BYTES, []
    while True:
        rows, failure = _parse(part)
        parts.append((rows, failure))
        line, size = part.first_line + part.n_lines, 2 * size
        end = start + part.end
        if failure is not None and failure.line is not None:
            line, size = failure.line + 1, SHORT_BYTES
            end = _line_start(chunk.data, start, line - part.first_line)
        if end >= chunk.end:
            return parts
        start, part = end, chunk.part(end, size, line)


def _line_start(data: bytearray, at: int, n_lines: int) -> int:
    """Return where the line starts that comes n_lines after the one at a position."""
    for _ in range(n_lines):
        at = data.index(b"\n", at) + 1
    return at


def _outcomes(
    source: ByteSource, options: Options, chunk_bytes: int, threads: int, parse: Callable[[TextChunk], Any]
) -> Iterator[Any]:
    """Yield the results of parsing, in order, while threads read and parse later chunks."""
    free: deque[bytearray] = deque()  # buffers to reuse: new memory would have to be paged in for every chunk

    def parse_and_free(chunk: TextChunk) -> Any:
        outcome = parse(chunk)
        free.append(chunk.data)
        return outcome

    return map_ahead(parse_and_free, _text_chunks(source, options, chunk_bytes, free), threads)


def _text_chunks(source: ByteSource, options: Options, chunk_bytes: int, free: deque[bytearray]) -> Iterator[TextChunk]:
    """Yield chunks of whole lines in free or new buffers.

    A line that is too long is truncated, which the scanner rejects; a last line without LF gets one.
    """
    rest, first_line, is_last = b"", 1, False
    while not is_last:
        buffer, held = free.popleft() if free else bytearray(), len(rest)
        if len(buffer) < (room := max(chunk_bytes, 2 * held) + 1 + WORD_BYTES):
            buffer = bytearray(room)
        buffer[:held] = rest
        size = held + source.readinto(memoryview(buffer)[held : -1 - WORD_BYTES])
        end = buffer.rfind(b"\n", held, size) + 1
        is_last = size == held or size - end > options.max_line_bytes
        if is_last and size > end:
            buffer[size : size + 1], end = b"\n", size + 1
        if end:
            n_lines, n_colons = count_lines_and_colons(np.frombuffer(buffer, np.uint8, count=end))
            yield TextChunk(buffer, end, first_line, n_lines, n_colons, options)
            first_line += n_lines
        else:
            free.append(buffer)
        rest = bytes(buffer[end:size])


def _parse(chunk: TextChunk) -> Outcome:
    """Return the rows before the first failure, and that failure."""
    text = np.frombuffer(chunk.data, np.uint8, count=chunk.end + WORD_BYTES)
    _, has_fields, base, _, max_features, max_line_bytes = chunk.options
    scan = _new_scan(chunk.n_lines, chunk.n_colons, has_fields)  # counted before, so that arrays never grow
    rules = Rules(base, max_features + base, max_line_bytes, has_fields)
    n_rows, _, at = scan_lines(text, rules, scan)
    failure = _failure(chunk, ~at) if at < 0 else None
    n_rows, failure = _settle_numbers(chunk, scan, n_rows, failure)
    n_rows, failure = _settle_order(chunk, scan, n_rows, failure)
    fields = scan.fields if has_fields else None
    rows = TextRows(*scan[:4], chunk.first_line, scan.lines + chunk.first_line, fields)
    return _head(rows, n_rows), failure


def _new_scan(n_lines: int, n_colons: int, has_fields: bool) -> Scan:
    """Allocate arrays for as many rows and entries as the text can hold, and one bad entry."""
    n_entries = n_colons // (1 + has_fields) + 1
    return Scan(
        labels=np.empty(n_lines, np.float32),
        indptr=np.zeros(n_lines + 1, np.int64),
        indices=np.empty(n_entries, np.int64),
        values=np.empty(n_entries, np.float32),
        fields=np.empty(n_entries * has_fields, np.int32),
        lines=np.empty(n_lines, np.int64),
        starts=np.empty(n_lines, np.int64),
        unsorted=np.zeros(1, np.bool_),
    )


def _head(rows: TextRows, n_rows: int) -> TextRows:
    """Return the first rows."""
    indptr = rows.indptr[: n_rows + 1]
    entries = slice(indptr[-1])
    return TextRows(
        rows.labels[:n_rows],
        indptr,
        rows.indices[entries],
        rows.values[entries],
        rows.first_line,
        rows.lines[:n_rows],
        None if rows.fields is None else rows.fields[entries],
    )


def _failure(chunk: TextChunk, at: int) -> RafmError:
    """Return the error about the token at a position, which the scanner rejected."""
    start, end = chunk.data.rfind(b"\n", 0, at) + 1, chunk.data.index(b"\n", at)
    kind, message, offset = explain(bytes(chunk.data[start:end]), at - start, chunk.options)
    return chunk.error(kind, message, start + offset)


def _settle_numbers(
    chunk: TextChunk, scan: Scan, n_rows: int, failure: RafmError | None
) -> tuple[int, RafmError | None]:
    """Read with float() the rows with a number that the scanner could not round; stop at one too large."""
    entries = np.flatnonzero(np.isnan(scan.values[: scan.indptr[n_rows]]))
    rows = np.searchsorted(scan.indptr[: n_rows + 1], entries, side="right") - 1
    for row in np.union1d(rows, np.flatnonzero(np.isnan(scan.labels[:n_rows]))):
        tokens = chunk.tokens(scan.starts[row])
        exact = np.array([float(token[0].rpartition(b":")[2]) for token in tokens])
        with np.errstate(over="ignore"):  # an overflow becomes inf, which is reported below
            numbers = exact.astype(np.float32)
        if np.isinf(numbers).any():
            return int(row), _failure(chunk, tokens[np.argmax(np.isinf(numbers))].start())
        scan.labels[row] = numbers[0]
        scan.values[scan.indptr[row] : scan.indptr[row + 1]] = numbers[1:]
    return n_rows, failure


def _settle_order(chunk: TextChunk, scan: Scan, n_rows: int, failure: RafmError | None) -> tuple[int, RafmError | None]:
    """Sort the ids within rows where needed; reject or sum repeated ids."""
    indptr = scan.indptr[: n_rows + 1]
    entries = (scan.indices, scan.values, scan.fields)
    if not scan.unsorted[0] or (repeat := sort_rows(indptr, *entries)) < 0:
        return n_rows, failure
    rule = 'occurs twice in a row; remove one or sum them with --duplicates sum (duplicates="sum")'
    if chunk.options.duplicates == "sum":
        sum_duplicates(indptr, *entries)
        rule, infinite = "has values whose sum exceeds float32", np.isinf(scan.values[: indptr[-1]])
        if not infinite.any():
            return n_rows, failure
        repeat = np.argmax(infinite)
    row = int(np.searchsorted(indptr, repeat, side="right")) - 1
    number = scan.indices[repeat] + chunk.options.index_base
    again = [token for token in chunk.tokens(scan.starts[row])[1:] if _has_id(token[0], int(number))][1]
    return row, chunk.error(DataValueError, f"id {number} {rule}", again.start())


def _has_id(token: bytes, number: int) -> bool:
    """Tell whether an entry has this id, with any number of leading zeros."""
    return token.rsplit(b":", 2)[-2].lstrip(b"0") == (b"%d" % number).lstrip(b"0")
