"""Choose the kind of each column automatically, with a reason.

The kind depends only on the name, the type and the cells of the column, and not on their order, on missing cells, on
the width of the type or on other columns. See docs/encoding.md for the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError, Kinds
from .casts import as_numbers, cell_type, is_bytes, naming_column, without_views
from .spec import ColumnSpec
from .times import guessed_format

QUANTITY_WORDS = frozenset(
    re.findall(
        r"\w+",
        """age amount average avg balance budget cents clicks cost count days depth distance duration eur fare fee
        height hours impressions income kg km latitude length longitude mean median miles minutes months ms pct percent
        price qty quantity rate ratio revenue salary score seconds spend sum temperature time timestamp total usd
        value views visits votes weight width years""",
    )
)
QUANTITY_PREFIXES = frozenset(("avg", "max", "mean", "min", "n", "num", "sum", "total"))
ID_WORDS = frozenset(
    re.findall(
        r"\w+",
        """account ad advertiser app asin brand campaign category channel city class client code country creative
        customer device domain ean group guid hash id index isbn item key movie order page postcode product publisher
        query region section seller session shop site sku song source store tag track type uid upc user uuid vendor zip
        zipcode""",
    )
)
ISO_DATE = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?)?$"
)
LATE_DAY = r"^\d{4}-\d\d-(29|30|31)"  # which not every month has
WITH_COMMA = r"^[+-]?\d+(,\d+)?$"
DIGITS_LIMIT = 10.0**15  # whole numbers from here on are names, such as hashes; text readers take them for text
MANY_VALUES = 100  # whole numbers with more different values may be quantities
MANY_WORDS, PROSE_SHARE = 3, 0.5  # words of a text, and the share of texts with as many, that make a column prose
PROSE_UNIQUE = 0.5  # values per row of prose that teaches little as categories
AS_WORDS = {"kind": "list", "separator": " "}
NEARLY_UNIQUE, FEW_KEYS = 0.9, 100  # values per row of a column that identifies rows; in fewer rows it may be luck
LIST_SHARE = 0.5  # minimum share of texts with a "|"
A_NUMBER = r"^\s*([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|#?N/?A|[Nn]a[Nn]|null|NULL|None)\s*$"
INDEX_NAME = "Unnamed: "  # by which pandas reads the index that it has written
FEW_TEXTS, MOST = 20, 0.9  # texts that are tried first, and the share of numbers that makes the rest stray
AT_ONCE = 1 << 16  # cells that are examined at once, to stop early
FEW = 1000  # cells that are tried first, since most columns show what they are early
TEXT_NOW = "the column is text now. Correct or empty such cells, or set its kind: {kinds}"
FLAG_REASONS = ("true or false", "0 and 1")


class Stray(NamedTuple):
    """The first other text among numbers or dates: its place and text; how many there are, and how many cells."""

    place: int
    text: str
    n_texts: int
    n_cells: int
    what: str = "a number"

    def __str__(self) -> str:
        return f"{self.text!r} is not {self.what}, unlike {self.n_cells - self.n_texts} of {self.n_cells} cells"


class Choice(NamedTuple):
    """A column with its kind, its Arrow type and the reason for the kind.

    doubt: what speaks against the kind, if anything. must_be_whole: cells not yet seen must be whole numbers too.
    stray: the first text, if the column is text but has mostly numbers or dates. advice: about text that may be meant
    as something else, and the kinds to set.
    """

    column: ColumnSpec
    type: str
    reason: str
    doubt: str = ""
    must_be_whole: bool = False
    stray: Stray | None = None
    advice: tuple[str, Kinds] | None = None


def choose_kinds(schema: pa.Schema, sample: pa.RecordBatch | pa.Table) -> list[Choice]:
    """Choose the kind of each column by its type, its name and its cells.

    >>> table = pa.table({"store": [7, 8], "price": [1.5, 2.5], "city": ["Rome", "Oslo"]})
    >>> print(describe_choices(choose_kinds(table.schema, table)))
    store   int64    category   whole numbers
    price   double   bins       has fractions
    city    string   category   text
    """
    return [_choose(field, cells) for field, cells in zip(schema, sample.columns)]


def describe_choices(choices: Iterable[Choice]) -> str:
    """Return one line per column: name, type, kind, reason."""
    rows = [(choice.column.name, choice.type, choice.column.kind, choice.reason) for choice in choices]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    return "\n".join("   ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]) for row in rows)


def _choose(field: pa.Field, cells: pa.Array | pa.ChunkedArray) -> Choice:
    kind, name = cell_type(field.type), field.name
    if kind == "other":
        raise DataValueError(
            f"column {name!r} has type {field.type}, which is not supported; convert it to text, a category, a number, "
            "a time or a list, or ignore it"
        )
    with naming_column(name, field.type):
        return _choose_by_cells(field, cells, kind)


def _choose_by_cells(field: pa.Field, cells: pa.Array | pa.ChunkedArray, kind: str) -> Choice:
    name, shown = field.name, str(field.type)
    if pa.types.is_dictionary(field.type):
        return Choice(ColumnSpec(name), shown, "categories")
    if kind == "number":
        return _choose_number(name, field.type, cells)
    if kind == "text":
        column, reason = _choose_text(name, cells)
        if reason != "text":
            return Choice(column, shown, reason)
        return Choice(column, shown, reason, stray=find_stray(cells), advice=_advice(name, cells))
    chosen = {"time": "datetime", "list": "list"}.get(kind, "category")
    reasons = {"time": "time", "list": "list", "boolean": "true or false", "nothing": "no values"}
    return Choice(ColumnSpec(name, chosen), shown, reasons[kind], must_be_whole=kind == "nothing")


def _parts(cells: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the cells that are not null in pieces, a small one first."""
    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    for chunk in chunks:
        for start, end in ((0, FEW), *((at, at + AT_ONCE) for at in range(FEW, len(chunk), AT_ONCE))):
            part = without_views(chunk[start:end])
            yield part.drop_null() if part.null_count else part


# ---- Text


def _choose_text(name: str, cells: pa.Array | pa.ChunkedArray) -> tuple[ColumnSpec, str]:
    if is_bytes(cells.type):
        return ColumnSpec(name), "bytes"
    if len(cells) == cells.null_count:
        return ColumnSpec(name), "no values"
    if all(_are_dates(part) for part in _parts(cells)):  # the first text that is no date ends this
        return ColumnSpec(name, "datetime"), "text of times"
    with_bar = sum(_count(pc.match_substring(part, "|")) for part in _parts(cells))
    if with_bar >= LIST_SHARE * (len(cells) - cells.null_count):
        return ColumnSpec(name, "list", separator="|"), "text with | between values"
    return ColumnSpec(name), "text"


def _are_dates(texts: pa.Array) -> bool:
    return all(pc.all(_date_flags(some), min_count=0).as_py() for some in (texts[:1], texts))


def _date_flags(texts: pa.Array) -> pa.Array:
    """Tell which texts are ISO dates or times that exist, unlike February 30."""
    fits = pc.match_substring_regex(texts, ISO_DATE)
    late = pc.and_(fits, pc.match_substring_regex(texts, LATE_DAY))
    if not pc.any(late).as_py():
        return fits
    days = pc.utf8_slice_codeunits(texts, 0, 10)
    wrong = [day for day in pc.unique(days.filter(late)).to_pylist() if not _exists(day)]
    return pc.and_not(fits, pc.is_in(days, pa.array(wrong, days.type)))


def _exists(day: str) -> bool:
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def _advice(name: str, cells: pa.Array | pa.ChunkedArray) -> tuple[str, Kinds] | None:
    """Return what to do with dates and numbers that are written in another way than usual, None for other text."""
    if (format := _date_format(cells)) is not None:
        return (
            f"column {name!r} looks like dates, such as {_first(cells, '')!r}, but is taken as categories; if they are "
            "dates, set its kind: {kinds}",
            {name: {"kind": "datetime", "format": format}},
        )
    fits = all(pc.all(pc.match_substring_regex(part, WITH_COMMA), min_count=0).as_py() for part in _parts(cells))
    if fits and (example := _first(cells, ",")) is not None:
        return (
            f"column {name!r} is text, because its numbers have commas, such as {example!r}; write them with a decimal "
            "point and without separators of thousands: in pandas, read_csv(..., decimal=',') or thousands=','",
            {},
        )
    return None


def _date_format(cells: pa.Array | pa.ChunkedArray) -> str | None:
    """Return the format of dates with the year last, None if some text is none."""
    found = None
    for part in filter(len, _parts(cells)):
        if (own := guessed_format(part)) is None:  # ends most columns early
            return None
        found = own if found is None or own.startswith("%m") else found
    return found


def _first(cells: pa.Array | pa.ChunkedArray, mark: str) -> str | None:
    """Return the first text that contains a mark, None without any."""
    return next((text for part in _parts(cells) for text in part.to_pylist() if mark in text), None)


def find_stray(cells: pa.Array | pa.ChunkedArray) -> Stray | None:
    """Return the first other text in a column of mostly numbers or dates, None if it has more texts or none.

    >>> print(find_stray(pa.array(["1.5"] * 20 + ["abc", None])))
    'abc' is not a number, unlike 20 of 21 cells
    >>> print(find_stray(pa.array(["2024-02-29"] * 20 + ["2023-02-29"])))
    '2023-02-29' is not a date, unlike 20 of 21 cells
    """
    for what, tell in (("a number", _number_flags), ("a date", _date_flags)):
        head = _flags(cells.slice(0, FEW_TEXTS), tell)  # rules out most columns
        if 2 * _count(head) < len(head) - head.null_count:
            continue
        fits = _flags(cells, tell)
        n_cells, n_fitting = len(cells) - cells.null_count, _count(fits)
        if n_cells > n_fitting >= MOST * n_cells:
            place = pc.index(fits, False).as_py()
            return Stray(place, cells[place].as_py(), n_cells - n_fitting, n_cells, what)
    return None


def _flags(texts: pa.Array | pa.ChunkedArray, tell: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return pa.chunked_array([tell(without_views(chunk)) for chunk in chunks], pa.bool_())


def _number_flags(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, A_NUMBER)


def _count(flags: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0


def has_many_words(texts: pa.Array) -> pa.Array:
    """Tell which texts have at least MANY_WORDS words.

    >>> has_many_words(pa.array(["well worth it", "two words", None])).to_pylist()
    [True, False, None]
    """
    n_words = pc.add(pc.count_substring(pc.utf8_trim_whitespace(texts), " "), 1)
    return pc.greater_equal(n_words, MANY_WORDS)


def is_prose(texts: pa.Array) -> bool:
    """Tell whether enough texts have many words to be written language rather than names."""
    return _count(has_many_words(texts)) >= PROSE_SHARE * max(len(texts) - texts.null_count, 1)


# ---- Numbers


def _choose_number(name: str, kind: pa.DataType, cells: pa.Array | pa.ChunkedArray) -> Choice:
    bounds = _whole_bounds(cells)
    if bounds is None:
        return Choice(ColumnSpec(name, "bins"), str(kind), "has fractions")
    chosen, reason = _whole_kind(name, *bounds)
    is_category = chosen == "category"
    doubt = _doubt(name, cells) if is_category and max(map(abs, bounds)) < DIGITS_LIMIT else ""
    return Choice(ColumnSpec(name, chosen), str(kind), reason, doubt, is_category and not pa.types.is_integer(kind))


def _whole_bounds(cells: pa.Array | pa.ChunkedArray) -> tuple[float, float] | None:
    """Return the smallest and largest number, inf and -inf without any; None if some has a fraction or is infinite."""
    low, high = np.inf, -np.inf
    for part in _parts(cells):
        numbers = as_numbers(part)
        numbers = numbers[~np.isnan(numbers)]
        if not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
            return None
        low, high = float(numbers.min(initial=low)), float(numbers.max(initial=high))
    return low, high


def _whole_kind(name: str, low: float, high: float) -> tuple[str, str]:
    """Return kind and reason of a column of whole numbers from low to high."""
    if high < low:
        return "category", "no values"
    if low >= 0 and high <= 1:
        return "category", "0 and 1"
    if is_quantity(name) and max(-low, high) < DIGITS_LIMIT:
        return "bins", "whole numbers, named like a quantity"
    return "category", "whole numbers"


def is_quantity(name: str) -> bool:
    """Tell whether a name is that of a quantity.

    >>> [is_quantity(name) for name in ("unitPrice", "n_items", "age", "age_group", "sku", "x")]
    [True, True, True, False, False, False]
    """
    words = _words(name)
    return bool(words) and (words[-1] in QUANTITY_WORDS or (len(words) > 1 and words[0] in QUANTITY_PREFIXES))


def is_id(name: str) -> bool:
    """Tell whether a name is that of an id; such a column is not doubtful.

    >>> [is_id(name) for name in ("userId", "stores", "item_ids", "paid")]
    [True, True, True, False]
    """
    words = _words(name)
    return bool(words) and (words[-1] in ID_WORDS or words[-1].removesuffix("s") in ID_WORDS)


def _words(name: str) -> list[str]:
    """Return the words of a name: userId and user_id have two."""
    return re.findall("[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())


def _doubt(name: str, cells: pa.Array | pa.ChunkedArray) -> str:
    """Say why a column of whole numbers may not be a category."""
    if is_id(name) or name.startswith(INDEX_NAME):
        return ""
    n_values = np.unique(np.concatenate([as_numbers(part) for part in _parts(cells.slice(0, AT_ONCE))])).size
    return f"{n_values} different whole numbers" if n_values > MANY_VALUES else ""
