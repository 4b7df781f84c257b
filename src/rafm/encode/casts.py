"""Arrow cells -> text, numbers or times, whatever their exact type. Errors name the column, the row and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError
from .strings import decimal_text

FAMILIES = ("text", "number", "boolean", "time", "list", "nothing")
WHOLE_LIMIT = 2.0**63  # floats below it that are whole numbers are written like integers
ELEMENTS = ("text", "number", "boolean", "time", "nothing")  # what a list may hold
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999
SENTINELS = (2**63 - 1, -(2**63))  # what programs write for "never"; in nanoseconds these would be ordinary times


@lru_cache(maxsize=4096)
def family(kind: pa.DataType) -> str:
    """Return what an Arrow type holds: one of FAMILIES, or "other".

    >>> family(pa.dictionary(pa.int8(), pa.string())), family(pa.uint16()), family(pa.date32())
    ('text', 'number', 'time')
    """
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return family(kind.value_type)
    if is_list(kind):
        return "list" if family(kind.value_type) in ELEMENTS else "other"
    tests = {
        "text": (kinds.is_string, kinds.is_large_string, kinds.is_string_view, is_bytes),
        "number": (kinds.is_integer, kinds.is_floating, kinds.is_decimal),
        "boolean": (kinds.is_boolean,),
        "time": (kinds.is_timestamp, kinds.is_date),
        "nothing": (kinds.is_null,),
    }
    return next((name for name, group in tests.items() if any(test(kind) for test in group)), "other")


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type has lists as cells."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Tell whether a type has bytes of any length as cells."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


@contextmanager
def naming_column(name: str, kind: pa.DataType) -> Iterator[None]:
    """Let what Arrow cannot do with the cells of a column be an error that names it."""
    try:
        yield
    except (pa.ArrowException, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataValueError(f"column {name!r} of type {kind} cannot be used: {reason:.200}") from None


def without_views(cells: pa.Array) -> pa.Array:
    """Return text and bytes of the types with views, which Arrow has few functions for, as those without."""
    if pa.types.is_string_view(cells.type):
        return cells.cast(pa.large_string())
    return cells.cast(pa.large_binary()) if pa.types.is_binary_view(cells.type) else cells


def plain(cells: pa.Array) -> pa.Array:
    """Return the cells without dictionary encoding."""
    return cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells


def as_text(cells: pa.Array) -> pa.Array:
    """Return cells as text or bytes; 3 and 3.0 are the same value, written "3", and NaN is null.

    >>> as_text(pa.array([3.0, 0.5, None, float("nan")])).to_pylist()
    ['3', '0.5', None, None]
    """
    if pa.types.is_floating(cells.type):
        return _float_text(cells.cast(pa.float64()))
    if not pa.types.is_integer(cells.type) or pa.types.is_uint64(cells.type):
        return cells if family(cells.type) == "text" else cells.cast(pa.string())
    filled = cells.fill_null(0) if cells.null_count else cells
    return _with_nulls(decimal_text(filled.to_numpy(zero_copy_only=False)), cells)


def _float_text(cells: pa.Array) -> pa.Array:
    numbers = as_numbers(cells)
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < WHOLE_LIMIT)
    text = decimal_text(np.where(whole, numbers, 0).astype(np.int64))
    if not whole.all():
        text = pc.if_else(pa.array(whole), text, cells.cast(pa.large_string()))
    return _with_nulls(text, pa.array(numbers, from_pandas=True))


def _with_nulls(text: pa.Array, cells: pa.Array) -> pa.Array:
    """Return the text with nulls where the cells have them."""
    return pc.if_else(cells.is_valid(), text, pa.scalar(None, text.type)) if cells.null_count else text


def as_numbers(cells: pa.Array) -> np.ndarray:
    """Return cells as float64, NaN for nulls.

    >>> as_numbers(pa.array([1, None, 3]))
    array([ 1., nan,  3.])
    """
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def as_finite(cells: pa.Array, name: str, row: int) -> np.ndarray:
    """Return cells as float64, NaN for nulls; infinite ones are refused. `row` is that of the first cell."""
    numbers = as_numbers(cells)
    check_finite(numbers, name, row)
    return numbers


def check_finite(numbers: np.ndarray, name: str, row: int) -> None:
    """Refuse infinite numbers; `row` is that of the first one."""
    infinite = np.isinf(numbers)
    if infinite.any():
        bad = int(infinite.argmax())
        raise DataValueError(f"column {name!r}, row {row + bad}: {numbers[bad]} is not finite")


def as_times(cells: pa.Array, format: str | None, name: str, row: int) -> pa.Array:
    """Return cells as timestamps; text and whole numbers are read by the format, text without one as ISO 8601.

    >>> as_times(pa.array([14102108]), "%y%m%d%H", "hour", 0)[0].as_py()
    datetime.datetime(2014, 10, 21, 8, 0)
    """
    cells = plain(cells)
    if family(cells.type) == "time":
        return _known_times(cells, name, row)
    if format in ("unix", "unix_ms"):
        return _count_times(cells, format, name, row)
    if family(cells.type) == "number" and format is None:
        raise DataValueError(
            f"column {name!r} has type {cells.type}; say how to read it as a time: format = "
            '"unix" (seconds), "unix_ms", or a pattern such as "%y%m%d%H"'
        )
    coded = pc.dictionary_encode(as_text(cells))  # times repeat: read each distinct one once
    times = _parse(coded.dictionary.cast(pa.string()), format)
    times = times.take(coded.indices)
    bad = np.flatnonzero(np.asarray(times.is_null()) & np.asarray(cells.is_valid()))
    if bad.size:
        expected = f"a time like {format}" if format else "a time like 2014-10-21T08:00, or a format"
        raise DataValueError(
            f"column {name!r}, row {row + bad[0]}: expected {expected}, found {cells[bad[0]].as_py()!r}"
        )
    return times


def _known_times(cells: pa.Array, name: str, row: int) -> pa.Array:
    """Return timestamps of dates and timestamps; a zone that nobody knows and times far away are refused."""
    if pa.types.is_date(cells.type):
        cells = cells.cast(pa.timestamp("s" if pa.types.is_date32(cells.type) else "ms"))
    zone = cells.type.tz
    if zone is not None and not _is_zone(zone):
        raise DataValueError(f"column {name!r} has the time zone {zone!r}, which is not known here; convert it to UTC")
    counts = cells.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    _check_years(counts, cells.type.unit, name, row)
    return cells


@lru_cache(maxsize=256)
def _is_zone(zone: str) -> bool:
    try:
        pc.hour(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowInvalid:
        return False
    return True


def _check_years(counts: np.ndarray, unit: str, name: str, row: int) -> None:
    """Refuse times outside of the years 1 to 9999, and the largest and smallest number; NaN stands for none."""
    scale = PER_SECOND[unit]
    far = (counts < FIRST_SECOND * scale) | (counts >= (LAST_SECOND + 1) * scale)
    if unit == "ns":  # all of int64 is within these years
        far = np.isin(counts, SENTINELS)
    if far.any():
        bad = int(far.argmax())
        raise DataValueError(
            f"column {name!r}, row {row + bad}: {int(counts[bad])} {unit} since 1970 is not within the years 1 to "
            "9999; leave the cell empty if it has no time"
        )


def _count_times(cells: pa.Array, format: str, name: str, row: int) -> pa.Array:
    """Read numbers, also where they are text, as seconds or milliseconds since 1970, parts of them dropped."""
    if family(cells.type) == "text":
        cells = _numbers_in(cells, format, name, row)
    numbers, unit = np.floor(as_finite(cells, name, row)), "s" if format == "unix" else "ms"
    _check_years(numbers, unit, name, row)
    return pa.array(numbers, from_pandas=True).cast(pa.int64(), safe=False).cast(pa.timestamp(unit))


def _numbers_in(text: pa.Array, format: str, name: str, row: int) -> pa.Array:
    """Return the numbers that texts are."""
    trimmed = pc.utf8_trim_whitespace(text.cast(pa.large_string()))
    is_number = pc.match_substring_regex(trimmed, r"^[+-]?\d{1,30}(\.\d*)?$")
    bad = np.flatnonzero(~np.asarray(is_number.fill_null(True).to_numpy(zero_copy_only=False), bool))
    if bad.size:
        found = text[int(bad[0])].as_py()
        raise DataValueError(
            f"column {name!r}, row {row + bad[0]}: expected a number for a time like {format}, found {found!r:.80}"
        )
    return pc.replace_substring_regex(trimmed, r"^\+", "").cast(pa.float64())


def _parse(text: pa.Array, format: str | None) -> pa.Array:
    """Return timestamps, null where the text is none."""
    if format is not None:
        return pc.strptime(text, format=format, unit="s", error_is_null=True)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return pa.array([_parse_one(value.as_py()) for value in text], pa.timestamp("us"))


def _parse_one(text: str | None) -> object:
    """Return one time, or None: this runs only to find out which of them is bad."""
    try:
        return None if text is None else pa.scalar(text).cast(pa.timestamp("us")).as_py()
    except pa.ArrowInvalid:
        return None
