"""Cast Arrow cells of any type to text, numbers or times. Errors name the column, the row and the way out."""

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
WHOLE_LIMIT = 2.0**63  # whole floats below this are written like integers
ELEMENTS = ("text", "number", "boolean", "time", "nothing")  # what a list may hold
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999, since 1970
SENTINELS = (2**63 - 1, -(2**63))  # written for "never" by other programs; as nanoseconds they look like valid times


@lru_cache(maxsize=4096)
def cell_type(kind: pa.DataType) -> str:
    """Return the kind of cells of an Arrow type: one of CELL_TYPES, or "other".

    >>> cell_type(pa.dictionary(pa.int8(), pa.string())), cell_type(pa.uint16()), cell_type(pa.date32())
    ('text', 'number', 'time')
    """
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


def plain(cells: pa.Array) -> pa.Array:
    """Return the cells without dictionary encoding."""
    return cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells


def as_text(cells: pa.Array) -> pa.Array:
    """Return cells as text or bytes; 3 and 3.0 both become "3", and NaN becomes null.

    >>> as_text(pa.array([3.0, 0.5, None, float("nan")])).to_pylist()
    ['3', '0.5', None, None]
    """
    if pa.types.is_floating(cells.type):
        return _float_text(cells.cast(pa.float64()))
    if not pa.types.is_integer(cells.type) or pa.types.is_uint64(cells.type):  # decimal_text is for int64
        return cells if cell_type(cells.type) == "text" else cells.cast(pa.string())
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
    """Return the text with null wherever the cells are null."""
    return pc.if_else(cells.is_valid(), text, pa.scalar(None, text.type)) if cells.null_count else text


def as_numbers(cells: pa.Array) -> np.ndarray:
    """Return cells as float64, NaN for nulls.

    >>> as_numbers(pa.array([1, None, 3]))
    array([ 1., nan,  3.])
    """
    if pa.types.is_float16(cells.type):  # Arrow casts it to float32 only
        cells = cells.cast(pa.float32())
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


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


def as_times(cells: pa.Array, format: str | None, name: str, row: int) -> pa.Array:
    """Return cells as timestamps; text and integers are parsed by the format, text without a format as ISO 8601.

    >>> as_times(pa.array([14102108]), "%y%m%d%H", "hour", 0)[0].as_py()
    datetime.datetime(2014, 10, 21, 8, 0)
    """
    cells = plain(cells)
    if cell_type(cells.type) == "time":
        return _known_times(cells, name, row)
    if format in ("unix", "unix_ms"):
        return _count_times(cells, format, name, row)
    if cell_type(cells.type) == "number" and format is None:
        raise DataValueError(
            f"column {name!r} has type {cells.type}; set how to read it as a time: format = "
            '"unix" (seconds), "unix_ms", or a pattern such as "%y%m%d%H"'
        )
    coded = pc.dictionary_encode(as_text(cells))  # times repeat, so parse each distinct one once
    times = _parse(coded.dictionary.cast(pa.string()), format)
    times = times.take(coded.indices)
    bad = np.flatnonzero(np.asarray(times.is_null()) & np.asarray(cells.is_valid()))
    if bad.size:
        expected = f"a time like {format}" if format else "a time like 2014-10-21T08:00, or a format"
        raise DataValueError(
            f"column {name!r}, row {row + bad[0] + 1}: expected {expected}, found {cells[bad[0]].as_py()!r:.80}"
        )
    return times


def _known_times(cells: pa.Array, name: str, row: int) -> pa.Array:
    """Return dates and timestamps as timestamps; reject unknown time zones and years outside 1 to 9999."""
    if pa.types.is_date(cells.type):
        cells = cells.cast(pa.timestamp("s" if pa.types.is_date32(cells.type) else "ms"))
    zone = cells.type.tz
    if zone is not None and not _is_zone(zone):
        raise DataValueError(f"column {name!r} has the unknown time zone {zone!r}; convert it to UTC")
    counts = cells.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    _check_years(counts, cells.type.unit, name, row)
    return cells


@lru_cache(maxsize=256)
def _is_zone(zone: str) -> bool:
    try:
        pc.hour(pa.array([0], pa.timestamp("s", zone)))  # Arrow looks zones up on first use only
    except pa.ArrowInvalid:
        return False
    return True


def _check_years(counts: np.ndarray, unit: str, name: str, row: int) -> None:
    """Reject times outside of the years 1 to 9999, and sentinels; NaN is a missing time."""
    scale = PER_SECOND[unit]
    far = (counts < FIRST_SECOND * scale) | (counts >= (LAST_SECOND + 1) * scale)
    if unit == "ns":  # int64 covers the years 1677 to 2262 only
        far = np.isin(counts, SENTINELS)
    if far.any():
        bad = int(far.argmax())
        raise DataValueError(
            f"column {name!r}, row {row + bad + 1}: {int(counts[bad])} {unit} since 1970 is not within the years 1 to "
            "9999; leave the cell empty if it has no time"
        )


def _count_times(cells: pa.Array, format: str, name: str, row: int) -> pa.Array:
    """Return numbers, or text of numbers, as seconds or milliseconds since 1970; fractions are dropped."""
    if cell_type(cells.type) == "text":
        cells = _numbers_in(cells, format, name, row)
    numbers, unit = np.floor(as_finite(cells, name, row)), "s" if format == "unix" else "ms"
    _check_years(numbers, unit, name, row)
    return pa.array(numbers, from_pandas=True).cast(pa.int64(), safe=False).cast(pa.timestamp(unit))


def _numbers_in(text: pa.Array, format: str, name: str, row: int) -> pa.Array:
    """Parse text as numbers; reject anything else."""
    trimmed = pc.utf8_trim_whitespace(text.cast(pa.large_string()))
    is_number = pc.match_substring_regex(trimmed, r"^[+-]?\d{1,30}(\.\d*)?$")
    bad = np.flatnonzero(~np.asarray(is_number.fill_null(True).to_numpy(zero_copy_only=False), bool))
    if bad.size:
        found = text[int(bad[0])].as_py()
        raise DataValueError(
            f"column {name!r}, row {row + bad[0] + 1}: expected a number for a time like {format}, found {found!r:.80}"
        )
    return pc.replace_substring_regex(trimmed, r"^\+", "").cast(pa.float64())


def _parse(text: pa.Array, format: str | None) -> pa.Array:
    """Parse text as timestamps; null where it is not one."""
    if format is not None:
        return pc.strptime(text, format=format, unit="s", error_is_null=True)
    # A cast fails as a whole: without zones first, then with zones, then with nanoseconds.
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return pa.array([_parse_one(value.as_py()) for value in text], pa.timestamp("us"))


def _parse_one(text: str | None) -> object:
    """Parse one time, or return None; slow, used only to find the bad one."""
    try:
        return None if text is None else pa.scalar(text).cast(pa.timestamp("us")).as_py()
    except pa.ArrowInvalid:
        return None
