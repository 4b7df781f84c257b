"""Read cells as times, and compare their kind with that of training.

A column learns times with a zone, which are taken in UTC; times without one, which are taken as they are; or dates.
Taking one for another would shift hours, so `times_like` refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError, spelled_kinds
from .casts import as_finite, as_text, cell_type, plain

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER_DAY = 86_400
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999, since 1970
SENTINELS = (2**63 - 1, -(2**63))  # written for "never" by other programs; as nanoseconds they look like valid times
HAS_ZONE = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
AN_OFFSET = r"[+-]\d\d:\d\d"
HAS_HOURS = r"%[-_^0#]*[HIMSTRcXsrklp]"  # in a format
YEAR_LAST = r"^\d{1,2}([./-])\d{1,2}[./-]\d{4}( \d{1,2}:\d\d(:\d\d)?)?$"
MONTH_FIRST = r"^\d{1,2}[./-](1[3-9]|[23]\d)"
ABSENT, DATE, MIDNIGHT, NAIVE, AWARE = range(5)  # kinds of cells; a midnight may be meant as a date
# What a column learned, and the kinds of cells that it takes; the first that takes all cells of training is learned.
TAKES = {
    "aware": {AWARE},
    "date": {DATE, MIDNIGHT},
    "naive": {NAIVE, MIDNIGHT},
    "naive or date": {NAIVE, MIDNIGHT, DATE},
}
LEARNED = {  # in messages
    "aware": "times with a time zone",
    "naive": "times without a time zone",
    "date": "dates",
    "naive or date": "times without a time zone",
}
GIVE_ZONE = "say which zone it is in: in pandas .dt.tz_localize(zone)"
REFUSED = {  # what was found, and the way out: by what was learned, if that matters, and the kind of the cell
    ("aware", DATE): ("a date", GIVE_ZONE),
    ("aware", MIDNIGHT): ("one without", GIVE_ZONE),
    ("aware", NAIVE): ("one without", GIVE_ZONE),
    ("date", NAIVE): ("one with a time of day", "give dates: in pandas .dt.normalize()"),
    ("", DATE): ("a date", "give the times of day too, or train on dates"),
    ("", AWARE): (
        "one with a time zone",
        "convert the column to the zone of the training rows and drop it: in pandas "
        ".dt.tz_convert(zone).dt.tz_localize(None)",
    ),
}


class Times(NamedTuple):
    """Cells as timestamps, and the kind of each of them."""

    cells: pa.Array
    kinds: np.ndarray


def learned_times(kinds: Set[int]) -> str | None:
    """Return what a column learns from cells of these kinds, a key of TAKES; None if it has no times.

    >>> learned_times({MIDNIGHT, NAIVE}), learned_times({MIDNIGHT}), learned_times({ABSENT})
    ('naive', 'date', None)
    """
    return next((name for name, taken in TAKES.items() if kinds - {ABSENT} and kinds - {ABSENT} <= taken), None)


def times_like(learned: str, cells: pa.Array, format: str | None, name: str, row: int) -> pa.Array:
    """Return cells as timestamps, in UTC if they have a zone; reject kinds of times that training did not have."""
    times = read_times(cells, format, name, row)
    wrong = ~np.isin(times.kinds, [ABSENT, *TAKES[learned]])
    if wrong.any():
        bad = int(wrong.argmax())
        where = f"column {name!r}, row {row + bad + 1}"
        check_taken(learned, {int(times.kinds[bad])}, where, f": {_shown(plain(cells)[bad])}")
    return in_utc(times.cells)


def check_taken(learned: str, kinds: Set[int], where: str, cell: str = "") -> None:
    """Reject kinds of cells that are not those of training; cell: the first one, for the message."""
    for kind in sorted(kinds - TAKES[learned] - {ABSENT}):
        found, way_out = REFUSED[learned if (learned, kind) in REFUSED else "", kind]
        raise DataValueError(f"{where}: the model learned {LEARNED[learned]}, found {found}{cell}; {way_out}")


def _shown(cell: pa.Scalar) -> str:
    """Return a cell as text for messages."""
    value = cell.as_py()
    return repr(value if isinstance(value, str | int | float) else str(value))[:80]


def check_one_kind(before: Set[int], times: Times, name: str, row: int) -> None:
    """Reject cells with a time zone if others have none; before: kinds of the cells before them."""
    kinds = before | {*times.kinds.tolist()}
    if AWARE in kinds and kinds - {ABSENT, AWARE}:
        is_other = (times.kinds != AWARE) if AWARE in before else (times.kinds == AWARE)
        bad = int((is_other & (times.kinds != ABSENT)).argmax())
        raise DataValueError(
            f"column {name!r}, row {row + bad + 1}: some times have a time zone and others do not, found "
            f"{_shown(times.cells[bad])}; give all of them one, or none"
        )


def in_utc(times: pa.Array) -> pa.Array:
    """Return timestamps of any zone in UTC; others as they are.

    >>> in_utc(pa.array([0], pa.timestamp("s", "Europe/Oslo"))).type
    TimestampType(timestamp[s, tz=UTC])
    """
    times = plain(times)
    has_zone = pa.types.is_timestamp(times.type) and times.type.tz is not None
    return times.cast(pa.timestamp(times.type.unit, "UTC")) if has_zone else times


def read_times(cells: pa.Array, format: str | None, name: str, row: int, learning: bool = False) -> Times:
    """Return cells as timestamps, in the zone that they have, and their kinds; other arguments: as for `as_times`."""
    cells = _with_known_zone(plain(cells))
    times = as_times(cells, format, name, row, learning)
    if times.type.tz is not None or (format in ("unix", "unix_ms") and cell_type(cells.type) != "time"):
        kinds = np.full(len(cells), AWARE, np.int8)
    else:
        counts = times.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        kinds = np.where(counts % (SECONDS_PER_DAY * PER_SECOND[times.type.unit]), NAIVE, MIDNIGHT).astype(np.int8)
        kinds[_are_dates(cells, format)] = DATE
    kinds[np.asarray(times.is_null())] = ABSENT
    return Times(times, kinds)


def _are_dates(cells: pa.Array, format: str | None) -> np.ndarray | slice:
    """Tell which cells are dates without a time of day."""
    kind = cell_type(cells.type)
    if pa.types.is_date(cells.type):
        return slice(None)
    if kind in ("time", "nothing") or (format is not None and re.search(HAS_HOURS, format)):
        return slice(0)
    if format is not None:
        return slice(None)
    lengths = pc.binary_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths <= len("2014-10-21"))


def as_times(cells: pa.Array, format: str | None, name: str, row: int, learning: bool = False) -> pa.Array:
    """Return cells as timestamps; text and integers are parsed by the format, text without a format as ISO 8601.

    learning: whether the format can still be set, which messages then advise.

    >>> as_times(pa.array([14102108]), "%y%m%d%H", "hour", 0)[0].as_py()
    datetime.datetime(2014, 10, 21, 8, 0)
    """
    cells = plain(cells)
    if cell_type(cells.type) == "time":
        return _known_times(cells, name, row)
    if format in ("unix", "unix_ms"):
        return _count_times(cells, format, name, row)
    if cell_type(cells.type) == "number" and format is None:
        way_out = 'set how to read it as a time: format = "unix" (seconds), "unix_ms", or a pattern such as "%y%m%d%H"'
        raise DataValueError(f"column {name!r} has type {cells.type}; {way_out if learning else 'give times'}")
    coded = pc.dictionary_encode(as_text(cells))  # times repeat, so parse each distinct one once
    times = _parse(coded.dictionary.cast(pa.string()), format).take(coded.indices)
    bad = np.flatnonzero(np.asarray(times.is_null()) & np.asarray(cells.is_valid()))
    if bad.size:
        place = int(bad[0])
        what = _not_a_time(cells[place], format, name, learning)
        raise DataValueError(f"column {name!r}, row {row + place + 1}: {what}")
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


def _with_known_zone(cells: pa.Array) -> pa.Array:
    """Return times with an offset such as +02:00 in UTC if this version of Arrow, before 22, takes it for no zone."""
    zone = cells.type.tz if pa.types.is_timestamp(cells.type) else None
    is_foreign = zone is not None and re.fullmatch(AN_OFFSET, zone) and not _is_zone(zone)
    return in_utc(cells) if is_foreign else cells


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
    """Parse text as timestamps, all of them with a zone or none; null where it is not one."""
    if format is not None:
        return pc.strptime(text, format=format, unit="s", error_is_null=True)
    zone = "UTC" if pc.any(pc.match_substring_regex(text, HAS_ZONE), min_count=0).as_py() else None
    for unit in ("us", "ns"):
        try:
            return text.cast(pa.timestamp(unit, zone))
        except pa.ArrowInvalid:
            continue
    return pa.array([_parse_one(value, zone) for value in text], pa.timestamp("us", zone))


def _parse_one(text: pa.Scalar, zone: str | None) -> object:
    """Parse one time, or return None; slow, used only to find the bad one."""
    try:
        return text.cast(pa.timestamp("us", zone)).as_py()
    except pa.ArrowInvalid:
        return None


def _not_a_time(cell: pa.Scalar, format: str | None, name: str, learning: bool) -> str:
    """Say what is wrong with a cell that was not parsed."""
    found = cell.as_py()
    if format is not None:
        return f"expected a time like {format}, found {found!r:.80}"
    if _parse_one(as_text(pa.array([found]))[0], None) is not None:  # parsed with a zone, as another cell has one
        return f"some times have a time zone and others, such as {found!r:.80}, do not; give all of them one, or none"
    hint = ""
    if learning and (guess := guessed_format(pa.array([str(found)]))) is not None:
        hint = f"; set its format: {spelled_kinds({name: {'kind': 'datetime', 'format': guess}})}"
    return f"expected a time like 2014-10-21T08:00{', or a format' * learning}, found {found!r:.80}{hint}"


def guessed_format(texts: pa.Array) -> str | None:
    """Return the format of dates such as 31/12/2014, None for other text; day first, if either may be.

    >>> [guessed_format(pa.array([text])) for text in ("31/12/2014", "12/31/2014", "1.2.2014 08:30", "2014-12-31")]
    ['%d/%m/%Y', '%m/%d/%Y', '%d.%m.%Y %H:%M', None]
    """
    known = texts.drop_null()
    if not len(known) or not pc.all(pc.match_substring_regex(known, YEAR_LAST)).as_py():
        return None
    mark, hours, seconds = re.fullmatch(YEAR_LAST, known[0].as_py()).groups()  # type: ignore[union-attr]
    month_first = pc.any(pc.match_substring_regex(known, MONTH_FIRST)).as_py()
    date = f"%m{mark}%d{mark}%Y" if month_first else f"%d{mark}%m{mark}%Y"
    return date + (" %H:%M" if hours else "") + (":%S" if seconds else "")
