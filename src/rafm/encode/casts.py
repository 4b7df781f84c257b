"""Cast Arrow cells of any type to text or numbers. Errors name the column, the row and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError
from .strings import decimal_text

CELL_TYPES = ("text", "number", "boolean", "time", "list", "nothing")
MISSING_NUMBERS = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")  # as text writes them
NAME_OF_WHOLE = r"^(0|-?[1-9][0-9]*)$"  # as decimal_text writes it
CODE_LIKE = r"^[+-]?(0[0-9]|[0-9]{16,}$)"  # zip codes, phone numbers, ids beyond float64
A_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE_LIMIT = 2.0**63  # whole floats below this are written like integers
ELEMENTS = ("text", "number", "boolean", "time", "nothing")  # what a list may hold


def cell_type(kind: pa.DataType) -> str:
    """Return the kind of cells of an Arrow type: one of CELL_TYPES, or "other".

    >>> cell_type(pa.dictionary(pa.int8(), pa.string())), cell_type(pa.uint16()), cell_type(pa.date32())
    ('text', 'number', 'time')
    """
    return "other" if isinstance(kind, pa.BaseExtensionType) else _cell_type(kind)  # those of Python have no hash


@lru_cache(maxsize=4096)
def _cell_type(kind: pa.DataType) -> str:
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return cell_type(kind.value_type)
    if is_list(kind):
        return "list" if cell_type(kind.value_type) in ELEMENTS else "other"
    tests = {
        "text": (kinds.is_string, kinds.is_large_string, kinds.is_string_view, is_bytes),
        "number": (kinds.is_integer, kinds.is_floating, kinds.is_decimal),
        "boolean": (kinds.is_boolean,),
        "time": (kinds.is_timestamp, kinds.is_date),
        "nothing": (kinds.is_null,),
    }
    return next((name for name, group in tests.items() if any(test(kind) for test in group)), "other")


def is_list(kind: pa.DataType) -> bool:
    """Tell whether the cells of a type are lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Tell whether the cells of a type are bytes of variable length."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


@contextmanager
def naming_column(name: str, kind: pa.DataType) -> Iterator[None]:
    """Turn errors of Arrow into errors that name the column."""
    try:
        yield
    except MemoryError:  # the machine's fault, not the column's
        raise
    except (pa.ArrowException, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataValueError(f"column {name!r} of type {kind} cannot be used: {reason:.200}") from None


def without_views(cells: pa.Array) -> pa.Array:
    """Convert string and binary views, which few functions of Arrow support, to plain arrays."""
    if pa.types.is_string_view(cells.type):
        return cells.cast(pa.large_string())
    return cells.cast(pa.large_binary()) if pa.types.is_binary_view(cells.type) else cells


def without_halves(cells: pa.Array) -> pa.Array:
    """Convert half-precision numbers, of which Arrow can do little but this, to float32."""
    return cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells


def plain(cells: pa.Array) -> pa.Array:
    """Return the cells without dictionary encoding."""
    return cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells


def as_text(cells: pa.Array) -> pa.Array:
    """Return cells as text or bytes, equal for equal cells: 3 and 3.0 become "3", and NaN becomes null.

    >>> as_text(pa.array([3.0, 0.5, None, float("nan")])).to_pylist()
    ['3', '0.5', None, None]
    >>> as_text(pa.array([1_500, 86_400_000], pa.timestamp("ms"))).to_pylist()
    ['1970-01-01 00:00:01.5', '1970-01-02']
    """
    if pa.types.is_floating(cells.type):
        return _float_text(cells)  # in their own precision: the float32 next to 0.1 is 0.1
    if not pa.types.is_integer(cells.type) or pa.types.is_uint64(cells.type):  # decimal_text is for int64
        kind = cell_type(cells.type)
        if kind == "text":
            return cells
        text = cells.cast(pa.string())
        if pa.types.is_decimal(cells.type):
            return as_number_text(pc.replace_substring_regex(text, r"\.0+$", ""))
        return time_names(text) if kind == "time" else text
    filled = cells.fill_null(0) if cells.null_count else cells
    return _with_nulls(decimal_text(filled.to_numpy(zero_copy_only=False)), cells)


def time_names(texts: pa.Array) -> pa.Array:
    """Shorten times as Arrow writes them: drop zeros at the end of fractions, and midnight if there is no zone."""
    for pattern, kept in ((r"\.0+(Z?)$", r"\1"), (r"(\.\d*[1-9])0+(Z?)$", r"\1\2"), (" 00:00:00$", "")):
        texts = pc.replace_substring_regex(texts, pattern, kept)
    return texts


def as_booleans(cells: pa.Array, name: str, row: int) -> pa.Array:
    """Return the words true and false, however capitalised, as booleans.

    >>> as_booleans(pa.array(["True", "false ", "NA", None]), "paid", 0).to_pylist()
    [True, False, None, None]
    """
    text = pc.utf8_trim_whitespace(without_views(plain(cells)))
    words = pc.ascii_lower(pc.if_else(pc.is_in(text, pa.array(MISSING_NUMBERS, text.type)), None, text))
    wrong = pc.index(pc.is_in(words, pa.array(["true", "false", None], words.type)), False).as_py()
    if wrong >= 0:
        found = f"found {cells[wrong].as_py()!r:.80}"
        raise DataValueError(f"column {name!r}, row {row + wrong + 1}: expected true or false as in training, {found}")
    return pc.equal(words, pa.scalar("true", words.type))


def as_number_text(cells: pa.Array) -> pa.Array:
    """Return text as the names of numbers: "3.0", "+3" and "3e0" become "3", words for a missing number null.

    >>> as_number_text(pa.array(["3.0", " 3", "-4.", "-0", "1e3", "0.5", "007", "x.0", "NA", None])).to_pylist()
    ['3', '3', '-4', '0', '1000', '0.5', '007', 'x.0', None, None]
    """
    text = pc.utf8_trim_whitespace(without_views(plain(cells)))
    other = pc.invert(pc.match_substring_regex(text, NAME_OF_WHOLE)).fill_null(False)
    if not pc.any(other, min_count=0).as_py():  # the usual case
        return text
    words = text.filter(other)
    words = pc.if_else(pc.is_in(words, pa.array(MISSING_NUMBERS, text.type)), pa.scalar(None, text.type), words)
    is_number = pc.and_not(pc.match_substring_regex(words, A_NUMBER), pc.match_substring_regex(words, CODE_LIKE))
    numbers = words.filter(is_number).cast(pa.float64())
    named = pc.replace_with_mask(words, is_number.fill_null(False), _float_text(numbers).cast(text.type))
    return pc.replace_with_mask(text, other, named)


def _float_text(cells: pa.Array) -> pa.Array:
    numbers = as_numbers(cells)
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < WHOLE_LIMIT)
    text = decimal_text(np.where(whole, numbers, 0).astype(np.int64))
    if not whole.all():
        text = pc.if_else(pa.array(whole), text, cells.cast(pa.large_string()))
    return _with_nulls(text, pa.array(numbers, from_pandas=True))


def _with_nulls(text: pa.Array, cells: pa.Array) -> pa.Array:
    """Return the text with null wherever the cells are null."""
    return pc.if_else(cells.is_valid(), text, pa.scalar(None, text.type)) if cells.null_count else text


def as_numbers(cells: pa.Array) -> np.ndarray:
    """Return cells as float64, NaN for nulls.

    >>> as_numbers(pa.array([1, None, 3]))
    array([ 1., nan,  3.])
    """
    return np.asarray(without_halves(cells).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def precision_of(kind: pa.DataType) -> type[np.floating]:
    """Return the floating-point type with the precision of cells: float32 and float16 are kept, others are float64."""
    if pa.types.is_dictionary(kind):
        return precision_of(kind.value_type)
    return np.float32 if pa.types.is_float32(kind) else np.float16 if pa.types.is_float16(kind) else np.float64


def as_finite(cells: pa.Array, name: str, row: int) -> np.ndarray:
    """Return cells as float64, NaN for nulls; reject infinite ones. `row`: number of the first row."""
    numbers = as_numbers(cells)
    check_finite(numbers, name, row)
    return numbers


def check_finite(numbers: np.ndarray, name: str, row: int) -> None:
    """Reject infinite numbers; `row`: number of the first row."""
    infinite = np.isinf(numbers)
    if infinite.any():
        bad = int(infinite.argmax())
        raise DataValueError(f"column {name!r}, row {row + bad + 1}: {numbers[bad]} is not finite")
