"""Compiled splitter of delimited text: rows -> where cells begin and stop -> numbers and texts.

It knows the plain case alone and declines all else, which is left to a parser that knows everything: quotes only around
whole cells, none inside of them, as many cells in every row; numbers as `-12.5`, of up to MAX_DIGITS digits.

text            uint8, whole rows and CHUNK more bytes of anything, since they are read by words and chunks
bounds          per column and row: where its cell begins, which is the stop of the cell before it
begins, stops   per cell of a column: its first byte, and one past the byte behind it
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from ...jit.cache import kernel
from ...jit.vectors import count_ones, match_bytes, trailing_zeros
from ..digits import WORD_BYTES, digits_of, inlined, load_word, peek
from .byte_masks import ALL, CHUNK, LAST_BIT, U0, U1, covered_bits, inner_bits

LF, CR, QUOTE, MINUS, DOT, ZERO = b'\n\r"-.0'
MAX_DIGITS = 15  # whole numbers with more are labels; so many digits over a power of ten round once, hence correctly
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

    There is room for one cell more than a row has, and for one row more than there are lines. Quotes are where they
    should be if all of them are the two of quoted cells. Blank lines are no rows.
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
            inside = U0 - (covered >> LAST_BIT)
        while separators:
            bit = trailing_zeros(separators)
            separators &= separators - U1
            end = chunk + np.int64(bit)
            end_of_cell, ends_row = end, (feeds >> bit) & U1
            if ends_row and end > begin and peek(text, end - 1) == CR:
                end_of_cell -= 1
            if n_quotes > 0:
                n_quoted += is_quoted(text, begin, end_of_cell)
            place += stride
            if place > last + row:
                return DECLINED
            flat[np.uint64(place)] = end_of_cell + 1
            if ends_row:
                is_blank = place == stride + row and end_of_cell == begin
                if place < last + row and not is_blank:
                    return DECLINED
                row += not is_blank
                place = row
                flat[np.uint64(place)] = end + 1
            begin = end + 1
    return row if begin == stop and place == row and n_quotes == 2 * n_quoted else DECLINED


@inlined
def span_of(text, begin, stop, quoting):
    """Return where a cell begins and stops, without its quotes."""
    begin, stop = np.int64(begin), np.int64(stop) - 1
    if quoting and is_quoted(text, begin, stop):
        return begin + 1, stop - 1
    return begin, stop


# ---- Cells -> numbers


@inlined
def next_word(text, at, stop):
    """Return eight bytes as one number, those from stop on as no digits."""
    word, left = load_word(text, at), stop - at
    return word | ALL << np.uint64(8 * left) if left < WORD_BYTES else word


@inlined
def take_digits(text, at, stop):
    """Return how many digits come next, up to sixteen, and their number."""
    n_digits, number = digits_of(next_word(text, at, stop))
    if n_digits == WORD_BYTES:
        n_more, more = digits_of(next_word(text, at + WORD_BYTES, stop))
        return n_digits + n_more, number * TENS[n_more] + more
    return n_digits, number


@inlined
def plain_number(text, at, stop):
    """Read text[at:stop]; return the number without its point, and how many digits are behind that, or DECLINED."""
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
    """Set either wholes or reals, and which cells are not empty; return how many are, or DECLINED."""
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
        if n_fraction < 0 or (whole and n_fraction > 0) or (negative and number == 0):  # -0 depends on the type
            return DECLINED
        sign = 1 - 2 * negative  # signs come at random: a branch that is guessed wrong costs more
        if whole:
            wholes[i] = number * sign
        else:
            reals[i] = number / POWERS[n_fraction] * sign
    return n_empty


@kernel()
def read_columns(text, bounds, columns, are_whole, quoting, wholes, reals, known, n_empty):
    """Read some columns of numbers, row k of the arrays being for the k-th; wholes and reals are the same memory."""
    for k in range(columns.size):
        begins, stops = bounds[columns[k]], bounds[columns[k] + 1]
        n_empty[k] = read_column(text, begins, stops, quoting, are_whole[k], wholes[k], reals[k], known[k])


# ---- Cells -> texts


@inlined
def store_word(data, at, word):
    """Write eight bytes; the compiler makes one store of it."""
    for place in range(WORD_BYTES):
        data[np.uint64(at + place)] = np.uint8(word >> np.uint64(8 * place) & np.uint64(255))


@inlined
def copy_column(text, begins, stops, quoting, data, offsets):
    """Write cells one after the other from offsets[0] on, and where each ends; return how many are empty."""
    end, n_empty = np.int64(offsets[0]), 0
    for i in range(offsets.size - 1):
        at, stop = span_of(text, begins[i], stops[i], quoting)
        store_word(data, end, load_word(text, at))
        for place in range(WORD_BYTES, stop - at, WORD_BYTES):
            store_word(data, end + place, load_word(text, at + place))
        n_empty += at == stop
        end += stop - at
        offsets[i + 1] = end
    return n_empty


@kernel()
def copy_columns(text, bounds, columns, quoting, data, offsets, n_empty):
    """Copy the texts of some columns, row k of the arrays being for the k-th, all into the same data.

    That has room for WORD_BYTES more than they take: cells are copied by words.
    """
    for k in range(columns.size):
        offsets[k, 0] = offsets[k - 1, offsets.shape[1] - 1] if k > 0 else 0
        begins, stops = bounds[columns[k]], bounds[columns[k] + 1]
        n_empty[k] = copy_column(text, begins, stops, quoting, data, offsets[k])
