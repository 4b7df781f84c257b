"""What becomes of each column of a table: the specification of an encoder, and the automatic choice.

| kind | features of a cell |
|---|---|
| category | one per distinct text, number or truth value |
| number | one, whose value is the number standardised by mean and spread of the training rows |
| bins | one of n_bins quantile bins of the training rows |
| log_bins | one per distinct floor(log(x)^2), the whole number itself up to 2 |
| datetime | its hour and its weekday |
| list | one per value in it: an Arrow list, or text with a separator |
| ignore | none |
"""

from __future__ import annotations

import difflib
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import ConfigError
from ..files.atomic import PathLike

SETTINGS: dict[str, tuple[str, ...]] = {
    "category": ("hash_size", "min_count"),
    "number": (),
    "bins": ("n_bins",),
    "log_bins": ("min_count",),
    "datetime": ("format",),
    "list": ("separator", "scale", "hash_size", "min_count"),
    "ignore": (),
}
SCALES = ("1", "1/n", "1/sqrt(n)")
TARGETS = ("label", "weight", "clicks", "impressions")
MAX_BUCKETS = 2**31 - 2
MAX_SPEC_BYTES = 16 * 2**20  # of a TOML file


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs again, or None.

    >>> first_repeated(["a", "b", "c", "b", "a"])
    'a'
    """
    counts = Counter(names)
    return next((name for name, count in counts.items() if count > 1), None)


def check_known(found: str, known: Iterable[str], what: str) -> None:
    """Refuse a name that is not known, and say which one is nearest.

    >>> check_known("categry", SETTINGS, "kind")
    Traceback (most recent call last):
    rafm.errors.ConfigError: unknown kind 'categry'; did you mean 'category'?
    """
    names = [str(name) for name in known]
    if found in names:
        return
    near = difflib.get_close_matches(str(found), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names[:20])}"
    raise ConfigError(f"unknown {what} {found!r}; {hint}", key=str(found))


def _check_whole(found: Any, key: str, low: int, high: int, where: str = "") -> None:
    if type(found) is not int or not low <= found <= high:
        raise ConfigError(f"{where}{key} must be a whole number from {low} to {high}, found {found!r}", key=key)


def _check_one_of(found: Any, key: str, allowed: Sequence[str], where: str = "") -> None:
    if found not in allowed:
        quoted = " or ".join(f'"{name}"' for name in allowed)
        raise ConfigError(f"{where}{key} must be {quoted}, found {found!r}", key=key)


@dataclass(frozen=True)
class ColumnSpec:
    """One column: its name, its kind, and the settings of that kind.

    n_bins: how many quantile bins. format: how text or whole numbers are read as times, such as "%y%m%d%H", or "unix",
    "unix_ms"; ISO 8601 unless given. separator: what stands between the values of a text list. scale: the value of each
    of n values in a list: "1", "1/n" or "1/sqrt(n)". hash_size, min_count: instead of the table's.

    >>> ColumnSpec("price", "bins", n_bins=20).n_bins
    20
    """

    name: str
    kind: str = "category"
    n_bins: int = 10
    format: str | None = None
    separator: str | None = None
    scale: str = "1"
    hash_size: int | None = None
    min_count: int | None = None

    def __post_init__(self) -> None:
        where = f"column {self.name!r}: "
        if not isinstance(self.name, str):
            raise ConfigError(f"a column's name must be text, found {self.name!r}", key="columns")
        check_known(self.kind, SETTINGS, f"kind of column {self.name!r}")
        for key in self.settings():
            if key not in SETTINGS[self.kind]:
                kinds = " or ".join(kind for kind, keys in SETTINGS.items() if key in keys)
                raise ConfigError(f"{where}{key} is a setting of {kinds}, not of {self.kind}", key=key)
        _check_whole(self.n_bins, "n_bins", 2, 10_000, where)
        _check_whole(self.hash_size or 0, "hash_size", 0, MAX_BUCKETS, where)
        _check_whole(1 if self.min_count is None else self.min_count, "min_count", 1, 2**62, where)
        _check_one_of(self.scale, "scale", SCALES, where)
        if self.separator is not None and not (isinstance(self.separator, str) and self.separator):
            raise ConfigError(f"{where}separator must be text, found {self.separator!r}", key="separator")
        if self.format is not None and not isinstance(self.format, str):
            raise ConfigError(f"{where}format must be text, found {self.format!r}", key="format")

    def settings(self) -> dict[str, Any]:
        """Return the settings that are not as they are unless given."""
        found = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        return {key: value for key, value in found.items() if value != getattr(type(self), key)}

    @classmethod
    def from_dict(cls, name: str, given: str | Mapping[str, Any]) -> ColumnSpec:
        """Return a column from its kind, or from its kind and settings."""
        given = {"kind": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping):
            raise ConfigError(f"column {name!r} must be a kind or a table of settings, found {given!r}", key=name)
        for key in given:
            check_known(key, [field.name for field in fields(cls)[1:]], f"setting of column {name!r}")
        return cls(name, **given)

    @classmethod
    def from_argument(cls, argument: str) -> ColumnSpec:
        """Return a column from "name=kind" or "name=kind:setting", the kind's first setting.

        >>> ColumnSpec.from_argument("hour=datetime:%y%m%d%H").format
        '%y%m%d%H'
        """
        name, equals, rest = argument.partition("=")
        kind, colon, value = rest.partition(":")
        if not equals or not name:
            raise ConfigError(f'a column must be given as "name=kind" or "name=kind:setting", found {argument!r}')
        check_known(kind, SETTINGS, f"kind of column {name!r}")
        if not colon:
            return cls(name, kind)
        if not SETTINGS[kind]:
            raise ConfigError(f"column {name!r}: kind {kind} has no settings, found {value!r}", key=name)
        key = SETTINGS[kind][0]
        whole = key not in ("format", "separator")
        return cls(name, kind, **{key: int(value) if whole and value.isdecimal() else value})  # type: ignore[arg-type]


@dataclass(frozen=True)
class TableSpec:
    """A whole table: its columns, which of them are labels or weights, and what holds for all columns.

    columns: those whose kind is not left to choice. label, weight: names of columns with one number per row. clicks,
    impressions: instead of both; a row becomes clicks positive and impressions - clicks negative ones, as weights.
    min_count: values seen less often in training are rare. rare: "shared", one feature `column=<rare>` for all of them
    and for unseen values, or "drop". hash_size: 0, or how many buckets the values of each column are hashed into.
    missing: "feature", an empty cell is a feature of its own, or "error". others: "auto" or "ignore", for columns that
    are not listed.

    >>> TableSpec.from_dict({"label": "clicked", "columns": {"price": {"kind": "bins", "n_bins": 20}}}).columns[0].kind
    'bins'
    """

    columns: tuple[ColumnSpec, ...] = ()
    label: str | None = None
    weight: str | None = None
    clicks: str | None = None
    impressions: str | None = None
    min_count: int = 1
    rare: str = "shared"
    hash_size: int = 0
    missing: str = "feature"
    others: str = "auto"

    def __post_init__(self) -> None:
        _check_whole(self.min_count, "min_count", 1, 2**62)
        _check_whole(self.hash_size, "hash_size", 0, MAX_BUCKETS)
        _check_one_of(self.rare, "rare", ("shared", "drop"))
        _check_one_of(self.missing, "missing", ("feature", "error"))
        _check_one_of(self.others, "others", ("auto", "ignore"))
        self._check_targets()
        if self.hash_size and self.min_count > 1:
            raise ConfigError("hashed values have no counts: choose hash_size or min_count", key="min_count")
        twice = first_repeated(column.name for column in self.columns)
        if twice is not None:
            raise ConfigError(f"column {twice!r} is given twice", key=twice)
        both = [column.name for column in self.columns if column.kind != "ignore" and column.name in self.targets()]
        if both:
            raise ConfigError(f"column {both[0]!r} is a label or weight and cannot be a feature too", key=both[0])

    def _check_targets(self) -> None:
        given = {key: getattr(self, key) for key in TARGETS if getattr(self, key) is not None}
        wrong = [key for key, name in given.items() if not isinstance(name, str)]
        if wrong:
            raise ConfigError(f"{wrong[0]} must be a column's name, found {given[wrong[0]]!r}", key=wrong[0])
        if len(set(given.values())) < len(given):
            raise ConfigError("label, weight, clicks and impressions must be different columns", key="label")
        if ("clicks" in given) != ("impressions" in given):
            raise ConfigError("clicks and impressions must be given together", key="clicks")
        if "clicks" in given and len(given) > 2:
            raise ConfigError("clicks and impressions take the place of label and weight", key="clicks")

    def targets(self) -> list[str]:
        """Return the names of the columns that are labels or weights."""
        return [name for name in (getattr(self, key) for key in TARGETS) if name is not None]

    def with_columns(self, columns: Iterable[ColumnSpec]) -> TableSpec:
        """Return the same with more columns."""
        return replace(self, columns=(*self.columns, *columns))

    def to_dict(self) -> dict[str, Any]:
        """Return all that differs from an empty specification, as `from_dict` takes it."""
        found = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        changed = {key: value for key, value in found.items() if value != getattr(type(self), key)}
        columns = {column.name: {"kind": column.kind, **column.settings()} for column in self.columns}
        return {**changed, **({"columns": columns} if columns else {})}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> TableSpec:
        """Return a specification from settings and a mapping `columns` from names to kinds or settings."""
        known = [field.name for field in fields(cls)]
        for key in given:
            check_known(key, known, "setting")
        columns = given.get("columns", {})
        if not isinstance(columns, Mapping):
            raise ConfigError(f"columns must be a table from names to kinds, found {columns!r}", key="columns")
        read = tuple(ColumnSpec.from_dict(name, column) for name, column in columns.items())
        return cls(**{**given, "columns": read})

    @classmethod
    def from_toml(cls, path: PathLike) -> TableSpec:
        """Read a specification from a TOML file; see docs/encoding.md."""
        with open(path, "rb") as file:
            content = file.read(MAX_SPEC_BYTES + 1)
        if len(content) > MAX_SPEC_BYTES:
            raise ConfigError(f"{path}: has more than {MAX_SPEC_BYTES} bytes, which no specification needs")
        try:
            return cls.from_dict(tomllib.loads(content.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}", key=error.key) from None

    @classmethod
    def from_arguments(cls, columns: Sequence[str] = (), **settings: Any) -> TableSpec:
        """Return a specification from command-line arguments; settings that are None count as not given.

        >>> TableSpec.from_arguments(["genres=list:|", "price=bins:20"], label="clicked", weight=None).label
        'clicked'
        """
        given = {key: value for key, value in settings.items() if value is not None}
        for key in given:
            check_known(key, [field.name for field in fields(cls)[1:]], "setting")
        return cls(columns=tuple(ColumnSpec.from_argument(argument) for argument in columns), **given)
