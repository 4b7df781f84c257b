"""Split delimited text into blocks at the ends of rows, and track line numbers.

The rules are those of Arrow's parser: a quote counts only as the first byte of a field; inside quotes, a doubled quote
is one quote and line feeds are text; after the closing quote the field continues unquoted.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...errors import DataFormatError, ResourceLimitError
from ...jit.compile import helper, kernel
from ...jit.vectors import match_bytes
from ..compression import UTF8_BOM, ByteSource
from .byte_masks import CHUNK, LAST_BIT, U0, U1, count_feeds, covered_bits, inner_bits

LF, CR, QUOTE, NUL = b'\n\r"\0'
START, FIELD, QUOTED = 0, 1, 2  # position of a byte: first of a field, later in it, inside quotes

NUL_BYTE = "found a NUL byte, which text must not contain"
LONE_CR = "found a carriage return (CR) without a line feed (LF); end lines with LF or CRLF"
INNER_MARK = "found a byte order mark inside the text; it is allowed only at the start"
OPEN_QUOTE = "this quote is never closed"


class Dialect(NamedTuple):
    """How rows are split; with quoting=False, quotes are ordinary characters."""

    delimiter: str
    quoting: bool = True


class TextBlock(NamedTuple):
    """Whole rows, the line of the first, whether they end the text, and whether each is known to be one line."""

    data: bytes
    first_line: int
    is_last: bool
    one_line: bool = False


class End(NamedTuple):
    """Where the last complete row ends, and whether all rows are known to be one line each."""

    at: int
    one_line: bool


class Failure(NamedTuple):
    """What is wrong with a byte, and where it is."""

    message: str
    at: int


class Walk(NamedTuple):
    """Result of walk_rows: complete rows, where the last of them ends, an open quote, a bad byte; -1 if none."""

    n_rows: int
    end: int
    open_quote: int
    bad: int


@helper()
def next_state(state, byte, after, delimiter, quoting):
    """Return the state after a byte, and whether the next byte belongs to it (a doubled quote)."""
    if state == QUOTED:
        doubled = byte == QUOTE and after == QUOTE
        return FIELD if byte == QUOTE and not doubled else QUOTED, doubled
    if state == START and quoting and byte == QUOTE:
        return QUOTED, False
    return START if byte in (delimiter, LF) else FIELD, False


@kernel()
def walk_rows(text, delimiter, quoting, starts, lines):
    """Find the rows, as many as starts has room for, skipping blank lines; return the fields of Walk."""
    at = line = begin = begin_line = n_rows = state = 0
    open_quote = -1
    while at < text.size and n_rows < starts.size:
        byte, after = text[at], text[at + 1] if at + 1 < text.size else LF
        if byte == NUL or (byte == CR and after != LF and state != QUOTED):
            return n_rows, begin, -1, at
        before = state
        state, doubled = next_state(state, byte, after, delimiter, quoting)
        if before == START and state == QUOTED:
            open_quote = at
        line += byte == LF
        if byte == LF and state != QUOTED:
            if at > begin + (text[at - 1] == CR):  # a lone CR LF is a blank line too
                starts[n_rows], lines[n_rows] = begin, begin_line
                n_rows += 1
            begin, begin_line = at + 1, line
        at += 1 + doubled
    return n_rows, begin, open_quote if state == QUOTED else -1, -1


@kernel()
def follow_quotes(text, stop, delimiter, state):
    """Update the state (inside quotes, a quote may follow, unpaired quotes, line feeds inside) with text[:stop].

    CHUNK bytes of padding follow stop, unless it is a multiple of CHUNK.
    """
    inside, before, unpaired, spanned = state[0], state[1], state[2], state[3]
    for chunk in range(0, stop, CHUNK):
        inner = inner_bits(chunk, stop)
        quotes, feeds = match_bytes(text, chunk, QUOTE) & inner, match_bytes(text, chunk, LF) & inner
        may_precede = quotes | feeds | match_bytes(text, chunk, delimiter)
        covered = covered_bits(quotes, inside)
        unpaired |= quotes & covered & ~(may_precede << U1 | before)
        spanned |= feeds & covered
        inside, before = U0 - (covered >> LAST_BIT), may_precede >> LAST_BIT
    state[0], state[1], state[2], state[3] = inside, before, unpaired, spanned


def pair_quotes(data: bytes, delimiter: str) -> tuple[bool, bool, bool]:
    """Return whether a quote is open at the end, whether quotes pair up, and whether a line feed is inside them.

    They pair up if every quote preceded by an even number of quotes starts a field or follows another quote (together
    they are one doubled quote). Then a byte is inside quotes if an odd number of quotes precedes it.
    """
    whole, state = len(data) - len(data) % CHUNK, np.array([0, 1, 0, 0], np.uint64)
    follow_quotes(np.frombuffer(data, np.uint8), whole, ord(delimiter), state)
    rest = np.frombuffer(data[whole:] + bytes(CHUNK), np.uint8)
    follow_quotes(rest, len(data) - whole, ord(delimiter), state)
    inside, _, unpaired, spanned = (state != 0).tolist()
    return inside, not unpaired, spanned


@kernel()
def last_row_end(text, inside):
    """Return where the last complete row ends, in text whose quotes pair up; inside: whether one is open at the end."""
    for at in range(text.size - 1, -1, -1):
        if text[at] == QUOTE:
            inside = not inside
        elif text[at] == LF and not inside:
            return at + 1
    return 0


def row_places(data: bytes, dialect: Dialect, n_rows: int) -> tuple[np.ndarray, np.ndarray, Walk]:
    """Return where the first rows start, their lines counted from 0, and the result of the walk."""
    starts, lines = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    text = np.frombuffer(data, np.uint8)
    walk = Walk(*walk_rows(text, ord(dialect.delimiter), dialect.quoting, starts, lines))
    return starts[: walk.n_rows], lines[: walk.n_rows], walk


def utf8_rows(data: bytes, starts: np.ndarray) -> np.ndarray:
    """Tell which rows are valid UTF-8."""
    good, row, view = np.ones(starts.size, bool), 0, memoryview(data)
    while row < starts.size:
        try:
            utf_8_decode(view[starts[row] :])  # all the rest at once: bad rows are few
            break
        except UnicodeDecodeError as error:
            row = int(np.searchsorted(starts, starts[row] + error.start, side="right"))
            good[row - 1] = False
    return good


def cut_blocks(source: ByteSource, dialect: Dialect, block_bytes: int, max_row_bytes: int) -> Iterator[TextBlock]:
    """Yield blocks of whole rows, about block_bytes each; add the LF that the last row may lack.

    Raise DataFormatError for a forbidden byte, after yielding the rows before it.
    """
    rest, line, is_last = b"", 1, False
    while not is_last:
        data = source.read(max(block_bytes, len(rest)), behind=rest)  # doubles, so a long row takes linear time
        is_last = source.has_ended()
        if is_last and data and not data.endswith(b"\n"):
            data += b"\n"
        (end, one_line), failure = _last_end(data, dialect, is_last)
        if end:
            yield TextBlock(data[:end], line, is_last, one_line)
        line += count_feeds(np.frombuffer(data, np.uint8), 0, end)
        rest = data[end:]
        if failure:
            at = failure.at - end
            place = line + rest.count(b"\n", 0, at), at - rest.rfind(b"\n", 0, max(at, 0))
            raise DataFormatError(failure.message, source.name, *place)
        if len(rest) > max_row_bytes:
            _refuse_long_row(rest, dialect, source.name, line, max_row_bytes)


def _last_end(data: bytes, dialect: Dialect, is_last: bool) -> tuple[End, Failure | None]:
    """Return where the last complete row ends, or the last one before a forbidden byte."""
    end, failure = data.rfind(b"\n") + 1, None
    # The fast paths use only counts and bit masks; what is odd is walked byte by byte.
    lone_cr = b"\r" in data and data.count(b"\r", 0, end) != data.count(b"\r\n", 0, end)
    simple = not lone_cr and b"\0" not in data
    spans = False
    if simple and dialect.quoting and b'"' in data:
        inside, paired, spans = pair_quotes(data, dialect.delimiter)
        simple = paired and not (inside and is_last)
        end = last_row_end(np.frombuffer(data, np.uint8), inside)
    if not simple:
        *_, walk = row_places(data, dialect, data.count(b"\n") + 1)
        end = walk.end
        if walk.bad >= 0:
            failure = Failure(NUL_BYTE if data[walk.bad] == NUL else LONE_CR, walk.bad)
        elif is_last and walk.open_quote >= 0:
            failure = Failure(OPEN_QUOTE, walk.open_quote)
    if UTF8_BOM[:1] in data and UTF8_BOM in data:  # searching one byte is many times faster than three
        starts, _, _ = row_places(data[:end], dialect, data.count(b"\n", 0, end))
        for start in [*starts.tolist(), end]:
            if data.startswith(UTF8_BOM, start):
                return End(start, False), Failure(INNER_MARK, start)
    return End(end, simple and not spans), failure


def _refuse_long_row(row: bytes, dialect: Dialect, name: str, line: int, max_row_bytes: int) -> None:
    """Raise the error about a row that exceeds the limit; an open quote is the likely reason."""
    *_, walk = row_places(row, dialect, row.count(b"\n") + 1)
    cause = "check the line endings"
    if walk.open_quote >= 0:
        place = line + row.count(b"\n", 0, walk.open_quote)
        cause = f"is the quote in line {place} never closed?"
    raise ResourceLimitError(f"{name}:{line}: row longer than max_row_bytes = {max_row_bytes}; {cause}")
