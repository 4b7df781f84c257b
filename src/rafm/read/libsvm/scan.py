"""Compiled scanner of libsvm and libffm text. It finds the first bad token; diagnose.py explains it.

text   uint8, whole lines followed by WORD_BYTES of padding; every loop stops at the LF of the last line
at     position in text; functions that can fail return a negative number instead
row    index of a data row, below the number of LF in the text
entry  index of an id:value pair, below the number of colons in the text

Numbers become the float32 that float() and a cast would give, or nan where float64 arithmetic is too coarse to tell;
the caller parses those again.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...jit.compile import helper, kernel
from ..digits import TENS, WORD_BYTES, called, inlined, peek, take_word

TAB, LF, CR, BLANK, HASH, PLUS, MINUS, DOT, COLON = b"\t\n\r #+-.:"
ZERO, NINE, UPPER_E, LOWER_E = b"09Ee"
MANTISSA_FULL = 9 * 10**17  # one more digit still fits into int64
END_FIELD = 2**31
EXACT_MANTISSA, EXACT_POWER = 2**53, 22  # one float64 operation on these rounds once, hence correctly
LOWEST_POWER, HIGHEST_POWER = -70, 38  # beyond these, any mantissa gives 0 or infinity in float32
BELOW, ABOVE = 1 - 2.0**-50, 1 + 2.0**-50  # wider than the error of float64(mantissa) * float64(power)
ROOM_FOR_WORD = 9 * 10**9  # a number below this can take eight more digits
RUN_ENTRIES = 16  # sorted by insertion, before runs are merged
POWERS = np.array([float(f"1e{k}") for k in range(-LOWEST_POWER + 1)])


class Rules(NamedTuple):
    """Limits that the scanner checks besides the grammar."""

    index_base: int
    end_id: int  # ids as written are below this
    max_line_bytes: int
    has_fields: bool  # entries are field:id:value


class Scan(NamedTuple):
    """Arrays filled by the scanner; nan in labels or values marks a number left to float()."""

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    fields: np.ndarray  # empty if there are none
    lines: np.ndarray  # per row: its line in this text, counted from 0
    starts: np.ndarray  # per row: where its line starts in this text
    unsorted: np.ndarray  # one flag: some row's ids do not increase


@kernel()
def count_lines_and_colons(text):
    """Count the bytes that bound the number of rows and of entries."""
    n_lines = n_colons = 0
    for byte in text:
        n_lines += byte == LF
        n_colons += byte == COLON
    return n_lines, n_colons


@inlined
def ends_row(byte):
    """Tell whether nothing but a comment or the end of the line follows."""
    return byte in (LF, CR, HASH)


@inlined
def ends_token(byte):
    """Tell whether a number may end before this byte."""
    return byte in (BLANK, TAB, LF, CR, HASH)


@inlined
def is_digit(byte):
    """Tell whether the byte is one of 0 to 9."""
    return ZERO <= byte <= NINE


@inlined
def skip_blanks(text, at):
    """Return the position of the next byte that is neither space nor tab."""
    while peek(text, at) == BLANK or peek(text, at) == TAB:
        at += 1
    return at


@called
def take_digits(text, at, number):
    """Append digits to number; return where they end, the number and how many digits did not fit."""
    dropped = 0
    while is_digit(peek(text, at)):
        if number < MANTISSA_FULL:
            number = number * 10 + (np.int64(peek(text, at)) - ZERO)
        else:
            dropped += 1
        at += 1
    return at, number, dropped


@inlined
def take_many_digits(text, at, number):
    """Do the same as take_digits, faster for several digits."""
    if number >= ROOM_FOR_WORD:
        return take_digits(text, at, number)
    n_digits, more = take_word(text, at)
    number = number * TENS[n_digits] + more
    if n_digits == WORD_BYTES:
        return take_digits(text, at + n_digits, number)
    return at + n_digits, number, 0


@called
def take_exponent(text, at):
    """Read `[+-]digits` after the e; return where it ends, or -1, and the exponent."""
    negative = peek(text, at) == MINUS
    if negative or peek(text, at) == PLUS:
        at += 1
    end, exponent, _ = take_digits(text, at, 0)
    exponent = min(exponent, 10**15)  # avoids overflow; no line has enough digits to compensate for it
    return end if end > at else -1, -exponent if negative else exponent


@called
def scale(mantissa, exponent):
    """Return the float32 nearest to mantissa * 10**exponent, or nan if float64 is too coarse to tell."""
    if mantissa == 0 or exponent < LOWEST_POWER:
        return np.float32(0)
    if exponent > HIGHEST_POWER:
        return np.float32(np.inf)
    number = mantissa / POWERS[-exponent] if exponent < 0 else mantissa * POWERS[exponent]
    if mantissa <= EXACT_MANTISSA and -EXACT_POWER <= exponent <= EXACT_POWER:
        return np.float32(number)
    low, high = np.float32(number * BELOW), np.float32(number * ABOVE)
    return low if low == high else np.float32(np.nan)


@called
def take_number(text, at):
    """Read a decimal number; return where it ends, or -1 if it is invalid or too large, and the number."""
    negative = peek(text, at) == MINUS
    if negative or peek(text, at) == PLUS:
        at += 1
    end, mantissa, exponent = take_digits(text, at, 0)
    n_digits = end - at
    if peek(text, end) == DOT:
        point = end
        end, mantissa, dropped = take_many_digits(text, point + 1, mantissa)
        n_digits += end - point - 1
        exponent += dropped - (end - point - 1)
    if n_digits > 0 and (peek(text, end) == LOWER_E or peek(text, end) == UPPER_E):
        end, power = take_exponent(text, end + 1)
        exponent += power
    if n_digits == 0 or end < 0 or not ends_token(peek(text, end)):
        return -1, np.float32(0)
    number = scale(mantissa, exponent)
    return -1 if np.isinf(number) else end, -number if negative else number


@inlined
def take_short_decimal(text, at):
    """Read `[-]d.digits` with at most seven digits after the point, the usual decimal; return -1 for anything else."""
    negative = peek(text, at) == MINUS
    at += negative
    first = peek(text, at)
    if not is_digit(first) or peek(text, at + 1) != DOT:
        return -1, np.float32(0)
    n_digits, fraction = take_word(text, at + 2)
    end = at + 2 + n_digits
    if n_digits == WORD_BYTES or not ends_token(peek(text, end)):
        return -1, np.float32(0)
    mantissa = (np.int64(first) - ZERO) * TENS[n_digits] + fraction
    number = np.float32(mantissa / POWERS[n_digits])  # one operation on exact numbers, as in scale
    return end, -number if negative else number


@inlined
def take_value(text, at):
    """Do the same as take_number, faster for one digit and for short decimals."""
    first = peek(text, at)
    if is_digit(first) and ends_token(peek(text, at + 1)):  # the usual value is 1
        return at + 1, np.float32(np.int64(first) - ZERO)
    end, number = take_short_decimal(text, at)
    if end < 0:
        return take_number(text, at)
    return end, number


@inlined
def take_key(text, at, low, high):
    """Read `id:` with low <= id < high; return where it ends, or -1, and the id."""
    end, number, dropped = take_many_digits(text, at, 0)
    if end == at or peek(text, end) != COLON or dropped > 0 or not low <= number < high:
        return -1, number
    return end + 1, number


@inlined
def take_entry(text, at, low, high):
    """Read `id:value` with low <= id < high; return where it ends, or -1, the id and the value."""
    end, number = take_key(text, at, low, high)
    if end < 0:
        return -1, number, np.float32(0)
    after, value = take_value(text, end)
    return after, number, value


@inlined
def take_row(text, at, rules, indices, values, fields, entry):
    """Read a row; return where it ends, or ~(start of the bad token), the next entry, the label, order."""
    low, high, _, has_fields = rules
    last, increasing = -1, True
    end, label = take_value(text, at)
    while end >= 0:
        at = skip_blanks(text, end)
        if not is_digit(peek(text, at)):
            return at if ends_row(peek(text, at)) else ~at, entry, label, increasing
        begin = at
        if has_fields:
            begin, field = take_key(text, at, 0, END_FIELD)
            if begin < 0:
                break
            fields[entry] = field
        end, number, value = take_entry(text, begin, low, high)
        indices[np.uint64(entry)], values[np.uint64(entry)] = number - low, value
        entry += end >= 0  # without a branch: a bad entry is written, but not counted
        increasing &= number > last
        last = number
    return ~at, entry, label, increasing


@called
def take_line_end(text, at):
    """Skip a comment and the line end; return the start of the next line, or ~(position of a lone CR or NUL)."""
    while peek(text, at) != LF:
        if peek(text, at) == 0 or (peek(text, at) == CR and peek(text, at + 1) != LF):
            return ~at
        at += 1
    return at + 1


@kernel()
def scan_lines(text, rules, scan):
    """Fill scan; return the number of rows and lines read, and ~(start of the bad token) if there is one."""
    labels, indptr, indices, values, fields, lines, starts, unsorted = scan  # passing the tuple on counts references
    at = row = line = 0
    while at < text.size - WORD_BYTES:
        start, entry = at, indptr[row]
        at = skip_blanks(text, at)
        has_row = not ends_row(peek(text, at))
        if has_row:
            at, entry, labels[row], increasing = take_row(text, at, rules, indices, values, fields, entry)
            unsorted[0] |= not increasing
        if at >= 0:
            at = take_line_end(text, at)
        if at - start - 1 > rules.max_line_bytes:
            at = ~start
        if at < 0:
            break
        if has_row:
            lines[row], starts[row] = line, start
            row += 1
            indptr[row] = entry
        line += 1
    return row, line, at


@helper()
def sort_run(ids, order, first, stop):
    """Sort a few entries by insertion, stably."""
    for end in range(first + 1, stop):
        entry, at = order[end], end
        while at > first and ids[order[at - 1]] > ids[entry]:
            order[at], at = order[at - 1], at - 1
        order[at] = entry


@helper()
def merge_runs(ids, order, merged, width):
    """Merge neighbouring sorted runs of this many entries; earlier entries come first among equal ids."""
    for first in range(0, order.size, 2 * width):
        middle, stop = min(first + width, order.size), min(first + 2 * width, order.size)
        left, right = first, middle
        for at in range(first, stop):
            if left < middle and (right >= stop or ids[order[left]] <= ids[order[right]]):
                merged[at], left = order[left], left + 1
            else:
                merged[at], right = order[right], right + 1


@helper(makes_arrays=True)
def sort_long_row(ids, values, fields):
    """Sort the entries of one row by id, stably. NumPy's merge sort and indexing would take seconds to compile."""
    order, other, width = np.arange(ids.size), np.empty(ids.size, np.int64), RUN_ENTRIES
    for first in range(0, ids.size, width):
        sort_run(ids, order, first, min(first + width, ids.size))
    while width < ids.size:
        merge_runs(ids, order, other, width)
        order, other, width = other, order, 2 * width
    old_ids, old_values, old_fields = ids.copy(), values.copy(), fields.copy()
    for at in range(ids.size):
        ids[at], values[at] = old_ids[order[at]], old_values[order[at]]
        if fields.size:
            fields[at] = old_fields[order[at]]


@helper(makes_arrays=True)
def sort_row(ids, values, fields):
    """Sort the entries of one row by id, stably."""
    if ids.size > 64:  # insertion sort is quadratic, but faster for short and nearly sorted rows
        sort_long_row(ids, values, fields)
        return
    for end in range(1, ids.size):
        number, value, at = ids[end], values[end], end
        field = fields[end] if fields.size else 0
        while at > 0 and ids[at - 1] > number:
            ids[at], values[at] = ids[at - 1], values[at - 1]
            if fields.size:
                fields[at] = fields[at - 1]
            at -= 1
        ids[at], values[at] = number, value
        if fields.size:
            fields[at] = field


@kernel()
def sort_rows(indptr, ids, values, fields):
    """Sort the entries of every row by id; return the first entry that repeats an id, or -1."""
    repeat = -1
    for row in range(indptr.size - 1):
        begin, end = indptr[row], indptr[row + 1]
        sort_row(ids[begin:end], values[begin:end], fields[begin:end])
        for entry in range(begin + 1, end):
            if repeat < 0 and ids[entry] == ids[entry - 1]:
                repeat = entry
    return repeat


@kernel()
def sum_duplicates(indptr, ids, values, fields):
    """Sum the values of equal neighbouring ids in place, in float64; keep the field of the first."""
    kept = begin = 0
    for row in range(indptr.size - 1):
        entry, end = begin, indptr[row + 1]
        while entry < end:
            first, total = entry, np.float64(0)
            while entry < end and ids[entry] == ids[first]:
                total += values[entry]
                entry += 1
            ids[kept], values[kept] = ids[first], np.float32(total)
            if fields.size:
                fields[kept] = fields[first]
            kept += 1
        begin, indptr[row + 1] = end, kept
