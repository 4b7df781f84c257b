"""Columns of text -> columns of numbers, where they are numbers.

A column is numbers if all its values are, else text. Numbers that are written as labels are text too: with leading
zeros, or whole with 16 digits or more. In a column of numbers, NA, null and the like are missing, as empty fields
are in every column.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...encode.strings import as_strings

MISSING = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")
FEW = 100
LABEL_LIKE = r"^[+-]?(0[0-9]|[0-9]{16,}$)"
UNKNOWN, TEXT, WHOLE, NUMBER = pa.null(), pa.string(), pa.int64(), pa.float64()
WRITTEN_AS = {WHOLE: r"^-?[0-9]+$", NUMBER: r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"}
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
    "ignore": None,
}


def learn_type(cells: pa.Array) -> tuple[pa.DataType, pa.Array]:
    """Return the narrowest type for all values: UNKNOWN if there is none, WHOLE, NUMBER or TEXT; and the cells so.

    They stay text where `convert` has something to say. Those that are numbers already are plain, see splitting.py.

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
        if numbers is not None and _look_like_labels(known, numbers):
            return TEXT, cells
        if numbers is not None:
            return kind, numbers if all_finite(numbers) else cells
    return TEXT, cells


def wider_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type for the values of both."""
    order = [UNKNOWN, WHOLE, NUMBER, TEXT]
    return order[max(order.index(a), order.index(b))]


def convert(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return text as the given type, or None if some value does not have it or is not finite.

    Cells that have the type are taken as they are.
    """
    if cells.type == kind:
        return cells
    numbers = _cast(cells, kind)
    if numbers is None or not all_finite(numbers):
        numbers = _cast(_without_words(pc.ascii_trim_whitespace(cells)), kind)
    return numbers if numbers is not None and all_finite(numbers) else None


def first_misfit(cells: pa.Array, kind: pa.DataType) -> int:
    """Return the index of the first value that does not have the type; there is one."""
    low, high = 0, len(cells)  # the first misfit lies in cells[low:high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if convert(cells[low:middle], kind) is not None else (low, middle)
    return low


def misfits(cells: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Tell which values do not have the type, or are not finite.

    >>> misfits(pa.array(["1", "x", None, "NA", "1e999", "-2"]), NUMBER).tolist()
    [False, True, False, False, True, False]
    """
    if convert(cells, kind) is not None:
        return np.zeros(len(cells), bool)
    known = _without_words(pc.ascii_trim_whitespace(cells))
    fits = pc.match_substring_regex(known, WRITTEN_AS[kind]).fill_null(True)
    wrong = ~np.asarray(fits)
    places = np.flatnonzero(~wrong)
    while convert(cells.take(pa.array(places)), kind) is None:  # well written, but too large
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
    """Return the cells with null for the words that mean a missing number."""
    missing = pc.is_in(cells, value_set=pa.array(MISSING))
    if not pc.any(missing, min_count=0).as_py():
        return cells
    return pc.if_else(missing, pa.scalar(None, TEXT), cells)


def _look_like_labels(cells: pa.Array, numbers: pa.Array) -> bool:
    """Tell whether some number is written as a label; the pattern sees only those that could be."""
    zeros = pc.and_not(pc.starts_with(cells, "0"), pc.starts_with(cells, "0."))
    suspects = pc.or_(pc.and_(zeros, pc.greater(pc.binary_length(cells), 1)), pc.greater_equal(pc.abs(numbers), 10**15))
    return pc.any(pc.match_substring_regex(cells.filter(suspects), LABEL_LIKE), min_count=0).as_py() is True


def all_finite(cells: pa.Array) -> bool:
    """Tell whether none of the cells is an infinite number or NaN."""
    return cells.type != NUMBER or pc.all(pc.is_finite(cells), min_count=0).as_py()


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the cells as numbers, or None; Arrow alone would take 0x1F as a whole number.

    Arrow makes an error message for every cell that fails, so a few cells are tried first.
    """
    try:
        cells[:FEW].cast(kind)
        numbers = cells.cast(kind)
    except pa.ArrowInvalid:
        return None
    return None if kind == WHOLE and _has_an_x(cells) else numbers


def _has_an_x(cells: pa.Array) -> bool:
    strings = as_strings(cells)
    text = strings.data[strings.offsets[0] : strings.offsets[-1]]
    return bool(((text | 32) == ord("x")).any())  # 32 is what tells x from X
