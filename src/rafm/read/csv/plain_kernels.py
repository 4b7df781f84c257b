"""Compiled splitter of delimited text: rows -> bounds of cells -> numbers and texts.

It handles only the plain case and declines everything else, which Arrow's parser then reads. Plain means: quotes only
around whole cells and none inside, the same number of cells in every row, numbers such as `-12.5` with up to MAX_DIGITS
digits.

text            uint8, whole rows followed by CHUNK bytes of padding, since it is read in words and chunks
bounds          per column and row: where the cell begins, which is also the stop of the cell before it
begins, stops   per cell of a column: its first byte, and one past the delimiter that follows it
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from ...jit.compile import kernel
from ...jit.vectors import count_ones, match_bytes, trailing_zeros
from ..digits import WORD_BYTES, digits_of, inlined, load_word, peek
from .byte_masks import ALL, CHUNK, LAST_BIT, U0, U1, covered_bits, inner_bits

LF, CR, QUOTE, MINUS, DOT, ZERO = b'\n\r"-.0'
MAX_DIGITS = 15  # exact in float64, so the division by a power of ten rounds once; longer integers are codes
DECLINED = -1
TENS = np.array([10**k for k in range(2 * WORD_BYTES + 1)])
POWERS = TENS.astype(np.float64)


# ---- Rows -> cells


@inlined
def is_quoted(text, begin, stop):
    """Tell whether text[begin:stop] is in quotes."""
    return peek(text, begin) == QUOTE and stop > begin + 1 and peek(text, stop - 1) == QUOTE


@kernel()
def split_rows(text, at, stop, delimiter, quoting, bounds):
    """Set the bounds of all cells; return the number of rows, or DECLINED.

    bounds has room for one more cell than a row has, and one more row than there are lines. Blank lines are skipped.
    """
    stride, row, n_quotes, n_quoted, inside = bounds.shape[1], 0, np.int64(0), 0, U0
    flat, last, place, begin = bounds.reshape(-1), (bounds.shape[0] - 1) * bounds.shape[1], 0, at
    flat[0] = at
    for chunk in range(at, stop, CHUNK):
        inner = inner_bits(chunk, stop)
        feeds = match_bytes(text, chunk, LF) & inner
        separators = (match_bytes(text, chunk, delimiter) & inner) | feeds
        quotes = match_bytes(text, chunk, QUOTE) & inner if quoting else U0
        if quotes | inside:
            covered = covered_bits(quotes, inside)
            n_quotes += np.int64(count_ones(quotes))
            separators &= ~covered
            inside = U0 - (covered >> LAST_BIT)  # all ones if the last byte is inside quotes
        while separators:
            bit = trailing_zeros(separators)
            separators &= separators - U1  # clears the lowest bit
            end = chunk + np.int64(bit)
            end_of_cell, ends_row = end, (feeds >> bit) & U1
            if ends_row and end > begin and peek(text, end - 1) == CR:
                end_of_cell -= 1
            if n_quotes > 0:
                n_quoted += is_quoted(text, begin, end_of_cell)
            place += stride
            if place > last + row:  # too many cells
                return DECLINED
            flat[np.uint64(place)] = end_of_cell + 1
            if ends_row:
                is_blank = place == stride + row and end_of_cell == begin
                if place < last + row and not is_blank:  # too few cells
                    return DECLINED
                row += not is_blank
                place = row
                flat[np.uint64(place)] = end + 1
            begin = end + 1
    # Quotes are plain if each of them is one of the two around a quoted cell.
    return row if begin == stop and place == row and n_quotes == 2 * n_quoted else DECLINED


@inlined
def span_of(text, begin, stop, quoting):
    """Return the bounds of a cell without its quotes."""
    begin, stop = np.int64(begin), np.int64(stop) - 1
    if quoting and is_quoted(text, begin, stop):
        return begin + 1, stop - 1
    return begin, stop


# ---- Cells -> numbers


@inlined
def next_word(text, at, stop):
    """Return eight bytes as one number; bytes from stop on are set to 0xFF, which is not a digit."""
    word, left = load_word(text, at), stop - at
    return word | ALL << np.uint64(8 * left) if left < WORD_BYTES else word


@inlined
def take_digits(text, at, stop):
    """Return the number of digits that follow, up to sixteen, and their value."""
    n_digits, number = digits_of(next_word(text, at, stop))
    if n_digits == WORD_BYTES:
        n_more, more = digits_of(next_word(text, at + WORD_BYTES, stop))
        return n_digits + n_more, number * TENS[n_more] + more
    return n_digits, number


@inlined
def plain_number(text, at, stop):
    """Parse text[at:stop]; return the digits as one integer, and how many follow the point, or DECLINED."""
    n_whole, number = take_digits(text, at, stop)
    point = at + n_whole
    if n_whole == 0 or n_whole > MAX_DIGITS or (n_whole > 1 and peek(text, at) == ZERO):
        return number, DECLINED
    if point == stop:
        return number, 0
    if peek(text, point) != DOT:
        return number, DECLINED
    n_fraction, fraction = take_digits(text, point + 1, stop)
    if n_fraction == 0 or n_whole + n_fraction > MAX_DIGITS or point + 1 + n_fraction != stop:
        return number, DECLINED
    return number * TENS[n_fraction] + fraction, n_fraction


@inlined
def read_column(text, begins, stops, quoting, whole, wholes, reals, known):
    """Set wholes or reals, and known for cells that are not empty; return the number of empty ones, or DECLINED."""
    n_empty = 0
    for i in range(wholes.size):
        at, stop = span_of(text, begins[i], stops[i], quoting)
        known[i] = at < stop
        if at == stop:
            wholes[i] = 0
            n_empty += 1
            continue
        negative = peek(text, at) == MINUS
        number, n_fraction = plain_number(text, at + negative, stop)
        if n_fraction < 0 or (whole and n_fraction > 0) or (negative and number == 0):  # -0 is 0 or -0.0, by type
            return DECLINED
        sign = 1 - 2 * negative  # no branch: signs are random, and a misprediction costs more than a product
        if whole:
            wholes[i] = number * sign
        else:
            reals[i] = number / POWERS[n_fraction] * sign
    return n_empty


@kernel()
def read_columns(text, bounds, columns, are_whole, quoting, wholes, reals, known, n_empty):
    """Read numeric columns, the k-th into row k of the arrays; wholes and reals share their memory."""
    for k in range(columns.size):
        begins, stops = bounds[columns[k]], bounds[columns[k] + 1]
        n_empty[k] = read_column(text, begins, stops, quoting, are_whole[k], wholes[k], reals[k], known[k])


# ---- Cells -> texts


@inlined
def store_word(data, at, word):
    """Write eight bytes; compiles to a single store."""
    for place in range(WORD_BYTES):
        data[np.uint64(at + place)] = np.uint8(word >> np.uint64(8 * place) & np.uint64(255))


@inlined
def copy_column(text, begins, stops, quoting, data, offsets):
    """Append the cells to data from offsets[0] on and set offsets; return the number of empty cells."""
    end, n_empty = np.int64(offsets[0]), 0
    for i in range(offsets.size - 1):
        at, stop = span_of(text, begins[i], stops[i], quoting)
        store_word(data, end, load_word(text, at))  # may write past the cell; the next one overwrites that
        for place in range(WORD_BYTES, stop - at, WORD_BYTES):
            store_word(data, end + place, load_word(text, at + place))
        n_empty += at == stop
        end += stop - at
        offsets[i + 1] = end
    return n_empty


@kernel()
def copy_columns(text, bounds, columns, quoting, data, offsets, n_empty):
    """Copy text columns into the same data, the offsets of the k-th into row k.

    data needs WORD_BYTES of padding, since cells are copied in words.
    """
    for k in range(columns.size):
        offsets[k, 0] = offsets[k - 1, offsets.shape[1] - 1] if k > 0 else 0
        begins, stops = bounds[columns[k]], bounds[columns[k] + 1]
        n_empty[k] = copy_column(text, begins, stops, quoting, data, offsets[k])
