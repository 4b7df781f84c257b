"""Items that a context has seen already: matched by the columns, or fields, that name contexts and items.

Whatever else a row of seen pairs holds, such as the age of a user or the time of a click, does not matter. A side is
named by its column of categories with the most values in the model; cells are compared as text, so that values which
the model does not know are matched too. Rows of ids are compared by the field with the most features, if fields are
known, and otherwise by all features of a side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..encode.casts import as_text, naming_column, plain, without_views
from ..encode.column import Column
from ..encode.encoder import TableEncoder
from ..errors import ConfigError, DataValueError, DataWarning, caller_level
from ..model.model import Model
from ..predictor import Predictor
from ..read.formats import TABLE
from ..read.open import ReadOptions, table_names
from ..read.tables import naming_file, read_table
from ..rows.checked import CheckedRows
from .partial import read_side
from .top import Catalogue

Keys = Sequence[Hashable | None]  # of rows: what names them, None for nothing
SIDES = ("contexts", "items")
TWO = (False, True)  # whether features of each side occur in items
NOTHING = np.zeros(0, np.int64)
HINT = "name the columns of both sides by exclude_by"


def naming_columns(
    encoder: TableEncoder, contexts: Sequence[str], items: Sequence[str], by: Sequence[str] | None = None
) -> tuple[str, str]:
    """Return the columns that name contexts and items, given the columns of both tables; by: both, as chosen."""
    if by is None:
        return _naming_column(encoder, contexts, "contexts"), _naming_column(encoder, items, "items")
    if isinstance(by, str) or len(by) != 2 or not all(isinstance(name, str) for name in by):
        raise ConfigError(f"exclude_by must be two columns, of contexts and of items, found {by!r}", key="exclude_by")
    for name, names, side in zip(by, (contexts, items), SIDES):
        if name not in names:
            known = ", ".join(names)
            raise ConfigError(f"exclude_by: the {side} have no column {name!r}, only {known}", key="exclude_by")
    return by[0], by[1]


def _naming_column(encoder: TableEncoder, names: Sequence[str], side: str) -> str:
    fitted = {column.name: column for column in encoder.columns if column.kind == "category"}
    found = [name for name in names if name in fitted]
    if not found:
        raise ConfigError(f"no column of the {side} is a category, which would name them; {HINT}", key="exclude_by")
    return max(found, key=lambda name: fitted[name].coder.n_values)  # the first one, if several have as many


def check_named(names: tuple[str, str], columns: Sequence[str]) -> None:
    """Reject a table of seen pairs without a column that names a side."""
    for name, side in zip(names, SIDES):
        if name not in columns:
            raise DataValueError(
                f"the seen pairs have no column {name!r}, which names the {side}, only {', '.join(columns)}; add it, "
                f"or {HINT}"
            )


def excluded_rows(names: tuple[str, str], contexts: pa.Table, items: pa.Table, seen: pa.Table) -> list[np.ndarray]:
    """Return for each row of a table of contexts the rows of the items that it was seen with; names: of both sides."""
    check_named(names, seen.column_names)
    context, item = names
    found = match(text_keys(seen, context), text_keys(seen, item), text_keys(contexts, context), text_keys(items, item))
    return warned(found, f"{context!r} and {item!r}")


def text_keys(table: pa.Table, name: str) -> Keys:
    """Return the cells of a column as text, None for missing ones; 196 and "196" are equal."""
    cells, found = table.column(name), []
    with naming_column(name, cells.type):
        for chunk in cells.chunks:
            found += as_text(plain(without_views(chunk))).to_pylist()
    return found


def match(seen_contexts: Keys, seen_items: Keys, contexts: Keys, items: Keys) -> list[np.ndarray]:
    """Return for each context the rows of the items that occur with it in the seen pairs.

    >>> match(["ann", "bob", None], ["Heat", "Alien", "Heat"], ["bob", None, "ann"], ["Alien", "Heat"])
    [array([0]), array([], dtype=int64), array([1])]
    """
    rows: dict[Hashable, list[int]] = {}
    for row, key in enumerate(items):
        rows.setdefault(key, []).append(row)
    found: dict[Hashable, set[int]] = {}
    for context, item in zip(seen_contexts, seen_items):
        if context is not None and item is not None and item in rows:
            found.setdefault(context, set()).update(rows[item])
    arrays = {key: np.array(sorted(own), np.int64) for key, own in found.items()}
    return [arrays.get(key, NOTHING) for key in contexts]


def warned(found: list[np.ndarray], names: str) -> list[np.ndarray]:
    """Return what is excluded; warn if that is nothing."""
    if not any(own.size for own in found):
        message = f"nothing is excluded: no seen pair has one of the contexts and one of the items, compared by {names}"
        warnings.warn(DataWarning(message), stacklevel=caller_level())
    return found


def excluded_items(
    seen: CheckedRows, contexts: CheckedRows, catalogue: Catalogue, encoder: TableEncoder | None = None
) -> list[np.ndarray]:
    """Return for each row of context features, or of both sides', the items that occur with it in the seen rows.

    Rows of seen pairs have the features of both sides; ids that occur in no item belong to the context.
    """
    items, model, sides = catalogue.items, catalogue.model, (-1, -1)
    fields = None if model.fields is None else KnownFields.of_model(model)
    fields = fields if encoder is None else KnownFields(encoder.fields().of, _numbers_of_values(encoder))
    if fields is not None:
        others = contexts.indices[~np.isin(contexts.indices, catalogue.known)]
        sides = fields.largest(others), fields.largest(items.indices)
    if fields is not None and -1 not in sides and sides[0] != sides[1]:
        found = [fields.keys(rows, side) for rows, side in zip((seen, seen, contexts, items), 2 * sides)]
        return warned(match(*found), "the fields with the most features")
    found = [[*row_keys(rows, catalogue.known, inside)] for rows, inside in zip((seen, seen, contexts, items), 2 * TWO)]
    return warned(match(*found), "all their features")


def _numbers_of_values(encoder: TableEncoder) -> np.ndarray:
    """Return the number of values of each column, 0 if they are no categories, which name nothing."""
    return np.array([column.coder.n_values * (column.kind == "category") for column in encoder.columns])


class KnownFields:
    """Fields of features: a function that returns the number of the field of each id, -1 for none; and their sizes."""

    def __init__(self, of: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray):
        self.of, self.sizes = of, sizes

    @classmethod
    def of_model(cls, model: Model) -> KnownFields:
        """Return the fields that a model knows."""
        assert model.fields is not None
        numbers = np.append(model.fields.numbers, -1)  # the last for ids that are not known
        return cls(lambda ids: numbers[model.numbering.lookup(ids)], model.fields.counts())

    def largest(self, ids: np.ndarray) -> int:
        """Return the largest field with one of these ids; -1 if there is none."""
        present = np.setdiff1d(self.of(np.unique(ids)), [-1])
        best = int(present[np.argmax(self.sizes[present])]) if present.size else -1
        return best if best >= 0 and self.sizes[best] else -1

    def keys(self, rows: CheckedRows, field: int) -> Keys:
        """Return the features of each row in a field, as bytes; None if there is none."""
        wanted = np.unique(rows.indices[self.of(rows.indices) == field])
        return [key or None for key in row_keys(rows, wanted)]


def row_keys(rows: CheckedRows, ids: np.ndarray | None = None, inside: bool = True) -> Iterator[bytes]:
    """Yield the sorted ids of each row as bytes; only those inside, or outside, of the given ids."""
    kept = np.ones(rows.indices.size, bool) if ids is None else np.isin(rows.indices, ids) == inside
    for a, b in zip(rows.indptr[:-1], rows.indptr[1:]):
        yield np.sort(rows.indices[a:b][kept[a:b]]).astype(np.int64).tobytes()


def excluded_by_numbers(exclude: Iterable[Any], n_items: int) -> Iterator[np.ndarray]:
    """Yield row numbers of items, given for each context; reject what cannot be row numbers, such as ids."""
    for context, numbers in enumerate(exclude, 1):
        found = np.asarray(numbers)
        rule = f"exclude must have, for each context, an array of row numbers of items, from 0 to {n_items - 1}"
        hint = "to exclude by ids, pass a table with the columns that name contexts and items"
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ConfigError(f"{rule}; found {repr(numbers)[:80]} for context {context}; {hint}", key="exclude")
        wrong = found[(found < 0) | (found >= n_items)] if found.size else found
        if wrong.size:
            raise ConfigError(f"{rule}; found {wrong[0]} for context {context}; {hint}", key="exclude")
        yield found.astype(np.int64)


def read_columns(path: str, options: ReadOptions, encoder: TableEncoder, names: Iterable[str]) -> pa.Table:
    """Read some columns of a table as the encoder would; those that it does not know as text."""
    there, wanted = table_names(path, options), set(names)
    kinds = {**dict.fromkeys(there, "text"), **encoder.reader_columns()}
    columns = {name: kinds[name] if name in wanted else "ignore" for name in there}
    columns = {name: "text" if kind == "ignore" and name in wanted else kind for name, kind in columns.items()}
    format = options.format_of(path).name
    with naming_file(path, format):
        table = pa.Table.from_batches([*read_table(path, format=format, columns=columns)])
    for column in encoder.columns:
        if column.name in wanted:
            place, cells = table.column_names.index(column.name), table[column.name]
            table = table.set_column(place, column.name, pa.chunked_array(_names(column, cells.chunks)))
    return table


def _names(column: Column, chunks: Iterable[pa.Array]) -> list[pa.Array]:
    """Return the cells of a category as text, as the encoder names them."""
    return [as_text(column.as_learned(chunk, 0)) if column.kind == "category" else chunk for chunk in chunks]


def read_excluded(
    predictor: Predictor,
    paths: Sequence[str],
    options: ReadOptions,
    by: str | None,
    contexts: CheckedRows,
    catalogue: Catalogue,
) -> list[np.ndarray]:
    """Return for each row of a file of contexts, or of both sides, the items to exclude.

    paths: of contexts, items and seen rows. by: "context,item", the columns that name them.
    """
    encoder, chosen = predictor.saved.encoder, None if by is None else by.split(",")
    tables = [options.format_of(path).gives == TABLE for path in paths]
    if encoder is not None and all(tables) and encoder.spec.clicks is None:  # which a table would have in several rows
        names = [table_names(path, options) for path in paths]
        own = [name for name in names[0] if name not in names[1]]
        both = naming_columns(encoder, own, names[1], chosen)
        check_named(both, names[2])
        found = (read_columns(path, options, encoder, some) for path, some in zip(paths, (both[:1], both[1:], both)))
        return excluded_rows(both, *found)
    if by is not None:
        raise ConfigError("exclude_by names columns of tables, but these are rows of ids: drop it", key="exclude_by")
    return excluded_items(read_side(predictor, paths[2], options), contexts, catalogue, encoder)
