"""Read libsvm (libfm) text: strict, fast, in bounded memory.

    label (blanks id:value)* (blanks? # comment)? end-of-line

Blanks are spaces and tabs, lines end with LF or CRLF; blank lines and comments are skipped. Numbers are
decimal, `[+-]digits[.digits][e[+-]digits]`, also `.5` and `5.`, rounded to float32. Ids are whole numbers.
A last line without a newline is kept, so a file cut inside its last value is read as that shorter number:
nothing in the format could tell. Explicit zeros are kept as stored zeros; this reader counts nothing, and
whoever counts how often a feature occurs counts its entries that are not zero.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rafm.data.scan import Rules, Scan, count_lines_and_colons, scan_lines, sort_rows, sum_duplicates
from rafm.data.source import ByteSource, open_bytes, source_name
from rafm.errors import ConfigError, DataError, DataFormatError, DataValueError, RafmError, ResourceLimitError


@dataclass(frozen=True)
class Limits:
    """What a file may ask for before it is refused.

    max_features: ids run from 0 to max_features - 1, which bounds the tables made for them.
    max_line_bytes: the longest line, without its LF. max_rows: stop after so many rows.
    """

    max_features: int = 2**32
    max_line_bytes: int = 16 * 2**20
    max_rows: int | None = None

    def __post_init__(self) -> None:
        highest = {"max_features": 2**62, "max_line_bytes": 2**40, "max_rows": 2**62}
        for key, high in highest.items():
            value, low = getattr(self, key), int(key != "max_rows")
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{key} must be {low} .. {high}, found {value}", key=key)


class TextRows(NamedTuple):
    """Rows of text in CSR form.

    labels: float32, as written. indptr: int64, from 0. indices: int64, from 0 whatever the file's base,
    increasing within a row. values: float32, finite. first_line: the line where their text starts.
    lines: int64, the line of each row.
    """

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    first_line: int
    lines: np.ndarray


class Options(NamedTuple):
    """How one file is read; `name` is what messages call it."""

    name: str
    index_base: int
    duplicates: str
    limits: Limits


class Page(NamedTuple):
    """A buffer, where the lines in it end, and which line of the file is the first."""

    data: bytearray
    end: int
    first_line: int
    options: Options

    def tokens(self, start: int) -> list[re.Match[bytes]]:
        """Return the tokens of the well-formed line that starts there."""
        end = self.data.index(b"\n", start)
        comment = self.data.find(b"#", start, end)
        return list(WORD.finditer(self.data, start, end if comment < 0 else comment))

    def error(self, kind: type[RafmError], message: str, at: int) -> RafmError:
        """Return an error that names the line and column of a position."""
        line = self.first_line + self.data.count(b"\n", 0, at)
        column = at - self.data.rfind(b"\n", 0, at)
        if issubclass(kind, DataError):
            return kind(message, path=self.options.name, line=line, column=column)
        return kind(f"{self.options.name}:{line}:{column}: {message}")


WORD = re.compile(rb"[^ \t\r\n]+")
DEFAULT_LIMITS = Limits()
CHUNK_BYTES = 8 * 2**20


def iterate_libsvm(
    path: str | os.PathLike[str],
    *,
    index_base: int = 0,
    duplicates: str = "error",
    limits: Limits = DEFAULT_LIMITS,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[TextRows]:
    """Yield the rows of a file chunk by chunk, in memory that does not grow with the file.

    path: plain or gzip text, "-" for the standard input. index_base: the smallest id, 0 or 1; never guessed.
    duplicates: "error", or "sum" to add up the values of an id that occurs twice in a row.
    chunk_bytes: about how much text is read at once. The good rows before an error are yielded first.
    """
    if index_base not in (0, 1):
        raise ConfigError(f"index_base must be 0 or 1, found {index_base}", key="index_base")
    if duplicates not in ("error", "sum"):
        raise ConfigError(f'duplicates must be "error" or "sum", found "{duplicates}"', key="duplicates")
    if chunk_bytes < 1:
        raise ConfigError(f"chunk_bytes must be positive, found {chunk_bytes}", key="chunk_bytes")
    return _chunks(path, Options(source_name(path), index_base, duplicates, limits), chunk_bytes)


def read_libsvm(path: str | os.PathLike[str], **options: Any) -> TextRows:
    """Read a whole file; the options are those of iterate_libsvm. A file without rows gives zero rows.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.svm")
    ...     _ = path.write_text("1 7:0.5 3:1  # unsorted\\n0\\n")
    ...     rows = read_libsvm(path)
    >>> rows.labels.tolist(), rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    ([1.0, 0.0], [0, 2, 2], [3, 7], [1.0, 0.5])
    """
    chunks = [_empty_rows(), *iterate_libsvm(path, **options)]
    offsets = np.cumsum([0, *(chunk.indices.size for chunk in chunks)])
    indptr = [chunk.indptr[1:] + offset for chunk, offset in zip(chunks, offsets)]
    labels, indices, values, lines = (
        np.concatenate([getattr(chunk, part) for chunk in chunks]) for part in ("labels", "indices", "values", "lines")
    )
    return TextRows(labels, np.concatenate([[0], *indptr]), indices, values, 1, lines)


def check_binary_labels(labels: np.ndarray, lines: np.ndarray, path: str | os.PathLike[str]) -> np.ndarray:
    """Return labels 0/1 or -1/1 as float32 zeros and ones; refuse others and a mix of 0 and -1.

    >>> check_binary_labels(np.array([-1, 1]), np.array([1, 2]), "train.svm")
    array([0., 1.], dtype=float32)
    """
    rule = "binary labels are 0 and 1, or -1 and 1"
    bad = ~np.isin(labels, (-1, 0, 1))
    if not bad.any() and (labels == 0).any() and (labels == -1).any():
        bad = labels == (-1 if np.argmax(labels == 0) < np.argmax(labels == -1) else 0)
        rule = "the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1"
    if bad.any():
        row = int(np.argmax(bad))
        message = f"{rule}, found {labels[row]:.9g}"
        raise DataValueError(message, path=source_name(path), line=int(lines[row]), column=1)
    return (labels == 1).astype(np.float32)


def _chunks(path: str | os.PathLike[str], options: Options, chunk_bytes: int) -> Iterator[TextRows]:
    """Yield the rows of each block of lines, at most max_rows in all, then raise what went wrong."""
    first_line, left = 1, options.limits.max_rows
    with open_bytes(path) as source:
        for data, end in _line_blocks(source, chunk_bytes, options.limits.max_line_bytes):
            rows, n_lines, failure = _parse(Page(data, end, first_line, options))
            if left is not None:
                if rows.labels.size >= left:
                    rows, failure = _head(rows, left), None
                left -= rows.labels.size
            if rows.labels.size:
                yield rows
            if failure:
                raise failure
            if left == 0:
                return
            first_line += n_lines


def _line_blocks(source: ByteSource, chunk_bytes: int, max_line_bytes: int) -> Iterator[tuple[bytearray, int]]:
    """Yield a buffer of lines and where they end; the buffer is used again for the next lines.

    A line that is too long comes cut, a last line without LF gets one.
    """
    buffer, held = bytearray(chunk_bytes + 1), 0
    while held <= max_line_bytes:
        if 2 * held >= len(buffer) - 1:
            buffer = buffer + bytes(len(buffer))
        size = held + source.readinto(memoryview(buffer)[held:-1])
        if size == held:
            break
        end = buffer.rfind(b"\n", held, size) + 1
        if end:
            yield buffer, end
        held = size - end
        buffer[:held] = buffer[end:size]
    if held:
        buffer[held : held + 1] = b"\n"
        yield buffer, held + 1


def _parse(page: Page) -> tuple[TextRows, int, RafmError | None]:
    """Return the rows before the first failure, the number of lines read and that failure."""
    text = np.frombuffer(page.data, np.uint8, count=page.end)
    scan = _new_scan(*count_lines_and_colons(text))
    _, base, _, limits = page.options
    rules = Rules(base, limits.max_features + base, limits.max_line_bytes)
    n_rows, n_lines, at = scan_lines(text, rules, scan)
    failure = _explain(page, ~at) if at < 0 else None
    n_rows, failure = _settle_numbers(page, scan, n_rows, failure)
    n_rows, failure = _settle_order(page, scan, n_rows, failure)
    return _head(TextRows(*scan[:4], page.first_line, scan.lines + page.first_line), n_rows), n_lines, failure


def _new_scan(n_lines: int, n_colons: int) -> Scan:
    """Allocate for as many rows and entries as the text can hold."""
    return Scan(
        labels=np.empty(n_lines, np.float32),
        indptr=np.zeros(n_lines + 1, np.int64),
        indices=np.empty(n_colons, np.int64),
        values=np.empty(n_colons, np.float32),
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
    )


def _empty_rows() -> TextRows:
    return _head(TextRows(*_new_scan(0, 0)[:4], 1, np.empty(0, np.int64)), 0)


def _settle_numbers(page: Page, scan: Scan, n_rows: int, failure: RafmError | None) -> tuple[int, RafmError | None]:
    """Read again, with float(), the rows with a number the scanner could not round; stop at one too large."""
    entries = np.flatnonzero(np.isnan(scan.values[: scan.indptr[n_rows]]))
    rows = np.searchsorted(scan.indptr[: n_rows + 1], entries, side="right") - 1
    for row in np.union1d(rows, np.flatnonzero(np.isnan(scan.labels[:n_rows]))):
        tokens = page.tokens(scan.starts[row])
        exact = np.array([float(token[0].rpartition(b":")[2]) for token in tokens])
        with np.errstate(over="ignore"):
            numbers = exact.astype(np.float32)
        if np.isinf(numbers).any():
            return int(row), _explain(page, tokens[np.argmax(np.isinf(numbers))].start())
        scan.labels[row] = numbers[0]
        scan.values[scan.indptr[row] : scan.indptr[row + 1]] = numbers[1:]
    return n_rows, failure


def _settle_order(page: Page, scan: Scan, n_rows: int, failure: RafmError | None) -> tuple[int, RafmError | None]:
    """Sort the ids within the rows where needed; refuse or add up repeated ids."""
    indptr = scan.indptr[: n_rows + 1]
    if not scan.unsorted[0] or (repeat := sort_rows(indptr, scan.indices, scan.values)) < 0:
        return n_rows, failure
    rule = 'occurs twice in a row; remove one or add them up with duplicates="sum"'
    if page.options.duplicates == "sum":
        sum_duplicates(indptr, scan.indices, scan.values)
        rule, infinite = "has values that add up beyond float32", np.isinf(scan.values[: indptr[-1]])
        if not infinite.any():
            return n_rows, failure
        repeat = np.argmax(infinite)
    row = int(np.searchsorted(indptr, repeat, side="right")) - 1
    number = scan.indices[repeat] + page.options.index_base
    head, entries = (b"%d:" % number).lstrip(b"0"), page.tokens(scan.starts[row])[1:]
    again = [entry for entry in entries if entry[0].lstrip(b"0").startswith(head)][1]
    return row, page.error(DataValueError, f"id {number} {rule}", again.start())


CSV_HINT = "read comma-separated text with --format csv"
Fault = tuple[type[RafmError], str]  # the kind of error and its message
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
ROGUES = {
    b"\0": "a NUL byte, which text must not contain",
    b"\r": "a carriage return (CR) without a line feed (LF); end lines with LF or CRLF",
    b"\xef\xbb\xbf": "a byte order mark inside the text; it may only stand at its start",
}


def _explain(page: Page, at: int) -> RafmError:
    """Say what is wrong with the token that starts there, which the scanner refused."""
    start = page.data.rfind(b"\n", 0, at) + 1
    limits, end = page.options.limits, page.data.index(b"\n", at)
    if end - start > limits.max_line_bytes:
        rule = f"line longer than max_line_bytes = {limits.max_line_bytes}"
        return page.error(ResourceLimitError, f"{rule}; check the line ends or raise the limit", start)
    token = re.split(rb"[ \t#]", bytes(page.data[at:end]).removesuffix(b"\r"), maxsplit=1)[0]
    for rogue, message in ROGUES.items():
        if rogue in token:
            return page.error(DataFormatError, f"found {message}", at + token.index(rogue))
    is_label = not page.data[start:at].strip(b" \t")
    kind, message = _label_fault(token) if is_label else _entry_fault(token, page.options)
    return page.error(kind, message, at)


def _label_fault(token: bytes) -> Fault:
    if b"," in token:
        return DataFormatError, f"expected a label, found {_quote(token)}; {CSV_HINT}"
    if b":" in token:
        return DataFormatError, f'expected a label before the first "id:value", found {_quote(token)}'
    return _number_fault(token, token, "label")


def _entry_fault(token: bytes, options: Options) -> Fault:
    """Say what is wrong with `id:value`."""
    head, colon, value = token.partition(b":")
    found = f'expected "id:value", found {_quote(token)}'
    if b"," in token:
        return DataFormatError, f"{found}; {CSV_HINT}"
    if head == b"qid":
        return DataValueError, f"{_quote(token)} is not supported: there is no ranking by query; remove it"
    if b":" in value:
        return DataFormatError, f'{found}; read "field:id:value" with --format libffm'
    if not colon or not value:
        return DataFormatError, found
    if re.fullmatch(rb"-[0-9]+", head):
        return DataValueError, f"ids must not be negative, found {_quote(token)}"
    if not re.fullmatch(rb"[0-9]+", head):
        return DataFormatError, f"{found}; an id is a whole number in decimal digits"
    return _id_fault(head, options) or _number_fault(value, token, "value")


def _id_fault(digits: bytes, options: Options) -> Fault | None:
    """Say whether an id is too small or too large."""
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > 19 or int(digits) >= 2**63:
        return DataValueError, f"id {_quote(digits)} does not fit into 64 bits; ids are below 2**63"
    number, largest = int(digits), options.limits.max_features
    if number < options.index_base:
        return DataValueError, f"id {number} in a file with ids from {options.index_base}; check --index-base"
    if number - options.index_base < largest:
        return None
    table = f"needs a table of {4 * (number + 1) / 2**30:,.1f} GiB at 4 bytes per id"
    return ResourceLimitError, f"id {number} {table}, above max_features = {largest}; renumber or raise it"


def _number_fault(number: bytes, token: bytes, what: str) -> Fault:
    """Say why something is not a finite decimal number."""
    if NOT_FINITE.fullmatch(number):
        return DataValueError, f"a {what} must be finite, found {_quote(token)}"
    if NUMBER.fullmatch(number):
        return DataValueError, f"a {what} must be at most 3.4e38 (float32), found {_quote(token)}"
    return DataFormatError, f"expected a decimal number as the {what}, found {_quote(token)}"


def _quote(token: bytes) -> str:
    """Return the token in quotes, printable and not too long."""
    text = token[:40].decode("utf-8", "backslashreplace") + ("..." if len(token) > 40 else "")
    return '"' + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text) + '"'
