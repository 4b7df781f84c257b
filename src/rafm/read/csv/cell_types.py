"""Infer the types of text columns, and cast those of numbers.

A column is numeric if all its values are numbers, else text. Numbers written like codes are text too: with leading
zeros, or integers of 16 digits or more. In numeric columns, NA, null and the like are missing; an empty field is
missing in every column.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...encode.casts import A_NUMBER, CODE_LIKE, MISSING_NUMBERS
from ...encode.strings import as_strings

FEW = 100  # cells that are tried first, since most text columns show it early
UNKNOWN, TEXT, WHOLE, NUMBER = pa.null(), pa.string(), pa.int64(), pa.float64()
WRITTEN_AS = {WHOLE: r"^-?[0-9]+$", NUMBER: A_NUMBER}
TYPE_NAMES = {WHOLE: "whole numbers", NUMBER: "numbers"}
READ_AS = {
    "category": TEXT,
    "datetime": TEXT,
    "list": TEXT,
    "text": TEXT,
    "integer": WHOLE,
    "number": NUMBER,
    "bins": NUMBER,
    "log_bins": NUMBER,
    "inferred": UNKNOWN,
    "label": UNKNOWN,  # text or numbers, as they come; the column must be there
    "weight": NUMBER,
    "ignore": None,
}
NOT_REQUIRED = ("weight", "ignore")  # columns read so need not be there


def learn_type(cells: pa.Array) -> tuple[pa.DataType, pa.Array]:
    """Return the narrowest type that holds all values, and the cells in that type if the cast is simple.

    The type is UNKNOWN (no values), WHOLE, NUMBER or TEXT. Cells that `cast_text` may reject stay text. Cells that are
    numbers already come from plain_parser.py.

    >>> columns = (["1", "NA"], ["1.5", "2"], ["007"], ["1", "x"], [None])
    >>> [str(learn_type(pa.array(cells, TEXT))[0]) for cells in columns]
    ['int64', 'double', 'string', 'string', 'null']
    """
    if cells.type != TEXT:
        return cells.type, cells
    if len(cells) > FEW and learn_type(cells[:FEW])[0] == TEXT:
        return TEXT, cells
    known = cells
    for kind in (WHOLE, NUMBER):
        numbers = _cast(known, kind)
        if numbers is None or not all_finite(numbers):
            known = _without_words(known)
            numbers = _cast(known, kind)
        if known.null_count == len(known):
            return UNKNOWN, cells
        if numbers is not None and _look_like_codes(known, numbers):
            return TEXT, cells
        if numbers is not None:
            return kind, numbers if all_finite(numbers) else cells
    return TEXT, cells


def wider_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both."""
    order = [UNKNOWN, WHOLE, NUMBER, TEXT]
    return order[max(order.index(a), order.index(b))]


def cast_text(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast text to a type; return None if some value does not fit or is not finite."""
    if cells.type == kind:  # cast by the plain parser already
        return cells
    numbers = _cast(cells, kind)
    if numbers is None or not all_finite(numbers):
        numbers = _cast(_without_words(pc.ascii_trim_whitespace(cells)), kind)
    return numbers if numbers is not None and all_finite(numbers) else None


def first_misfit(cells: pa.Array, kind: pa.DataType) -> int:
    """Return the index of the first value that does not fit the type; there must be one."""
    low, high = 0, len(cells)  # invariant: the first misfit lies in cells[low:high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cast_text(cells[low:middle], kind) is not None else (low, middle)
    return low


def misfits(cells: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Tell which values do not fit the type or are not finite.

    >>> misfits(pa.array(["1", "x", None, "NA", "1e999", "-2"]), NUMBER).tolist()
    [False, True, False, False, True, False]
    """
    if cast_text(cells, kind) is not None:
        return np.zeros(len(cells), bool)
    known = _without_words(pc.ascii_trim_whitespace(cells))
    fits = pc.match_substring_regex(known, WRITTEN_AS[kind]).fill_null(True)
    wrong = ~np.asarray(fits)
    places = np.flatnonzero(~wrong)
    while cast_text(cells.take(pa.array(places)), kind) is None:  # well-formed, but out of range
        place = first_misfit(cells.take(pa.array(places)), kind)
        wrong[places[place]] = True
        places = places[place + 1 :]
    return wrong


def is_number(text: str) -> bool:
    """Tell whether a value is a number.

    >>> is_number("1e3"), is_number("1e999"), is_number("x")
    (True, True, False)
    """
    return _cast(pa.array([text]), NUMBER) is not None


def is_infinite(text: str) -> bool:
    """Tell whether a value is a number, but too large or infinite.

    >>> is_infinite("1e3"), is_infinite("1e999"), is_infinite("x")
    (False, True, False)
    """
    number = _cast(pa.array([text]), NUMBER)
    return number is not None and math.isinf(number[0].as_py())


def _without_words(cells: pa.Array) -> pa.Array:
    """Replace the words for a missing number by null."""
    missing = pc.is_in(cells, value_set=pa.array(MISSING_NUMBERS))
    if not pc.any(missing, min_count=0).as_py():
        return cells
    return pc.if_else(missing, pa.scalar(None, TEXT), cells)


def _look_like_codes(cells: pa.Array, numbers: pa.Array) -> bool:
    """Tell whether some number is written like a code."""
    # The regular expression is slow, so it sees only cells with a leading zero or 16 digits.
    zeros = pc.and_not(pc.starts_with(cells, "0"), pc.starts_with(cells, "0."))
    suspects = pc.or_(pc.and_(zeros, pc.greater(pc.binary_length(cells), 1)), pc.greater_equal(pc.abs(numbers), 10**15))
    return pc.any(pc.match_substring_regex(cells.filter(suspects), CODE_LIKE), min_count=0).as_py() is True


def all_finite(cells: pa.Array) -> bool:
    """Tell whether none of the cells is an infinite number or NaN."""
    return cells.type != NUMBER or pc.all(pc.is_finite(cells), min_count=0).as_py()


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the cells as numbers, or None; unlike Arrow, reject hexadecimal such as 0x1F."""
    try:
        cells[:FEW].cast(kind)  # Arrow formats a message for every cell that fails, so fail on a few
        numbers = cells.cast(kind)
    except pa.ArrowInvalid:
        return None
    return None if kind == WHOLE and _has_an_x(cells) else numbers


def _has_an_x(cells: pa.Array) -> bool:
    strings = as_strings(cells)
    text = strings.data[strings.offsets[0] : strings.offsets[-1]]
    return bool(((text | 32) == ord("x")).any())  # bit 5 is the case of an ASCII letter
