"""Specification of how each column of a table is encoded.

| kind | features of a cell |
|---|---|
| category | one per distinct text, number or boolean |
| number | one, whose value is the number standardised by mean and standard deviation of the training rows |
| bins | one of n_bins quantile bins of the training rows |
| log_bins | one per distinct floor(log(x)^2), or floor(x) up to 2 |
| datetime | the hour and the weekday |
| list | one per element: an Arrow list, or text with a separator |
| ignore | none |
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ..aliases import did_you_mean, nearest
from ..errors import ConfigError
from ..files.atomic import PathLike

# The first setting of a kind is the one that "name=kind:setting" sets.
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
MAX_BUCKETS = 2**31 - 2  # codes are int32
MOST_CROSSED = 3  # columns of a conjunction
MAX_SPEC_BYTES = 16 * 2**20  # of a TOML file


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once, or None.

    >>> first_repeated(["a", "b", "c", "b", "a"])
    'a'
    """
    counts = Counter(names)
    return next((name for name, count in counts.items() if count > 1), None)


def check_known(found: str, known: Iterable[str], what: str) -> None:
    """Reject an unknown name and suggest the closest one.

    >>> check_known("categry", SETTINGS, "kind")
    Traceback (most recent call last):
    rafm.errors.ConfigError: unknown kind 'categry'; did you mean 'category'?
    """
    names = [str(name) for name in known]
    if found in names:
        return
    near = nearest(str(found), names, {}, cutoff=0.5)
    hint = did_you_mean(near and repr(near), f"choose from {', '.join(names[:20])}")
    raise ConfigError(f"unknown {what} {found!r}{hint}", key=str(found))


def parse_cross(given: Any) -> str | tuple[tuple[str, ...], ...]:
    """Return conjunctions as sorted tuples of names, "off" without any, or "auto".

    >>> parse_cross("hour*day, user*item"), parse_cross([("a*b", "c")]), parse_cross([])
    ((('day', 'hour'), ('item', 'user')), (('a*b', 'c'),), 'off')
    """
    if given in ("off", "auto"):
        return str(given)
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence):
        raise ConfigError(f'cross must be off, auto or conjunctions such as "a*b,c*d", found {given!r}', key="cross")
    found = set()
    for part in parts:
        names = [name.strip() for name in part.split("*")] if isinstance(part, str) else part
        if not isinstance(names, Sequence) or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f'cross: expected the names of columns, such as "a*b", found {part!r}', key="cross")
        if not 2 <= len(names) <= MOST_CROSSED or len(set(names)) < len(names):
            raise ConfigError(f"cross: expected 2 to {MOST_CROSSED} different columns, found {part!r}", key="cross")
        found.add(tuple(sorted(names)))
    return tuple(sorted(found)) or "off"


def _check_whole(found: Any, key: str, low: int, high: int, where: str = "") -> None:
    if type(found) is not int or not low <= found <= high:
        raise ConfigError(f"{where}{key} must be a whole number from {low} to {high}, found {found!r}", key=key)


def _check_one_of(found: Any, key: str, allowed: Sequence[str], where: str = "") -> None:
    if found not in allowed:
        quoted = " or ".join(f'"{name}"' for name in allowed)
        raise ConfigError(f"{where}{key} must be {quoted}, found {found!r}", key=key)


@dataclass(frozen=True)
class ColumnSpec:
    """Kind and settings of one column.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : str, default="category"
        One of "category", "number", "bins", "log_bins", "datetime", "list" and "ignore".
    n_bins : int, default=10
        Number of quantile bins.
    format : str, default=None
        Format of times in text or integers, such as "%y%m%d%H", "unix" or "unix_ms". ISO 8601 by default.
    separator : str, default=None
        Separator of the elements of a list in text.
    scale : str, default="1"
        Value of each of n elements of a list: "1", "1/n" or "1/sqrt(n)".
    hash_size, min_count : int, default=None
        Override those of the table.

    Examples
    --------
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
        """Return the settings that differ from their defaults."""
        found = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        return {key: value for key, value in found.items() if value != getattr(type(self), key)}

    @classmethod
    def from_dict(cls, name: str, given: str | Mapping[str, Any]) -> ColumnSpec:
        """Create a column from its kind, or from a mapping of kind and settings."""
        given = {"kind": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping):
            raise ConfigError(f"column {name!r} must be a kind or a table of settings, found {given!r}", key=name)
        for key in given:
            check_known(key, [field.name for field in fields(cls)[1:]], f"setting of column {name!r}")
        return cls(name, **given)

    @classmethod
    def from_argument(cls, argument: str) -> ColumnSpec:
        """Create a column from "name=kind" or "name=kind:setting", where setting is the first one of the kind.

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
        whole = key not in ("format", "separator")  # separator "1" stays text
        return cls(name, kind, **{key: int(value) if whole and value.isdecimal() else value})  # type: ignore[arg-type]


@dataclass(frozen=True)
class TableSpec:
    """Specification of how a table is encoded.

    Parameters
    ----------
    columns : tuple of ColumnSpec, default=()
        Columns with a given kind.
    label : str, default=None
        Name of the label column.
    weight : str, default=None
        Name of the column of row weights.
    clicks, impressions : str, default=None
        Names of columns used instead of label and weight. Each row becomes a positive row weighted by clicks and a
        negative one weighted by impressions - clicks.
    min_count : int, default=1
        Values seen less often in training are rare.
    rare : str, default="shared"
        "shared" encodes rare and unseen values as one feature `column=<rare>`; "drop" leaves them out.
    hash_size : int, default=0
        Number of buckets that the values of each column are hashed into; 0 for no hashing.
    missing : str, default="feature"
        "feature" encodes an empty cell as `column=<missing>`; "error" rejects it.
    others : str, default="auto"
        "auto" chooses a kind for columns that are not listed; "ignore" leaves them out.
    cross : str or sequence, default="off"
        Conjunctions of two or three columns, whose combinations of values become features: "a*b,c*d" or
        [("a", "b"), ("c", "d")]; "auto" chooses pairs that predict the labels of held-out rows better.

    Examples
    --------
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
    cross: str | tuple[tuple[str, ...], ...] = "off"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross", parse_cross(self.cross))
        _check_whole(self.min_count, "min_count", 1, 2**62)
        _check_whole(self.hash_size, "hash_size", 0, MAX_BUCKETS)
        _check_one_of(self.rare, "rare", ("shared", "drop"))
        _check_one_of(self.missing, "missing", ("feature", "error"))
        _check_one_of(self.others, "others", ("auto", "ignore"))
        self._check_targets()
        if self.hash_size and self.min_count > 1:
            raise ConfigError("hashed values are not counted: choose either hash_size or min_count", key="min_count")
        twice = first_repeated(column.name for column in self.columns)
        if twice is not None:
            raise ConfigError(f"column {twice!r} is given twice", key=twice)
        both = [column.name for column in self.columns if column.kind != "ignore" and column.name in self.targets()]
        if both:
            raise ConfigError(f"column {both[0]!r} is a label or weight and cannot also be a feature", key=both[0])

    def _check_targets(self) -> None:
        given = {key: getattr(self, key) for key in TARGETS if getattr(self, key) is not None}
        wrong = [key for key, name in given.items() if not isinstance(name, str)]
        if wrong:
            raise ConfigError(f"{wrong[0]} must be the name of a column, found {given[wrong[0]]!r}", key=wrong[0])
        if len(set(given.values())) < len(given):
            raise ConfigError("label, weight, clicks and impressions must be different columns", key="label")
        if ("clicks" in given) != ("impressions" in given):
            raise ConfigError("clicks and impressions must be given together", key="clicks")
        if "clicks" in given and len(given) > 2:
            raise ConfigError("clicks and impressions replace label and weight; give either pair", key="clicks")

    @property
    def crosses(self) -> tuple[tuple[str, ...], ...]:
        """Names of the columns of each conjunction."""
        return () if isinstance(self.cross, str) else self.cross

    def targets(self) -> list[str]:
        """Return the names of the label and weight columns.

        Returns
        -------
        list of str
        """
        return [name for name in (getattr(self, key) for key in TARGETS) if name is not None]

    def with_columns(self, columns: Iterable[ColumnSpec]) -> TableSpec:
        """Return a copy with more columns.

        Parameters
        ----------
        columns : iterable of ColumnSpec
            Columns to append.

        Returns
        -------
        TableSpec
        """
        return replace(self, columns=(*self.columns, *columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, for `from_dict`.

        Returns
        -------
        dict
        """
        found = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        changed = {key: value for key, value in found.items() if value != getattr(type(self), key)}
        if self.crosses:
            changed["cross"] = [list(names) for names in self.crosses]
        columns = {column.name: {"kind": column.kind, **column.settings()} for column in self.columns}
        return {**changed, **({"columns": columns} if columns else {})}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> TableSpec:
        """Create a specification from a dict.

        Parameters
        ----------
        given : dict
            Settings by name; `columns` maps names of columns to kinds, or to dicts of kind and settings.

        Returns
        -------
        TableSpec
        """
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
        """Read a specification from a TOML file; see docs/encoding.md.

        Parameters
        ----------
        path : path
            TOML file with the settings of `from_dict`.

        Returns
        -------
        TableSpec
        """
        with open(path, "rb") as file:
            content = file.read(MAX_SPEC_BYTES + 1)
        if len(content) > MAX_SPEC_BYTES:
            raise ConfigError(f"{path}: a specification must not exceed {MAX_SPEC_BYTES} bytes; is this another file?")
        try:
            return cls.from_dict(tomllib.loads(content.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}", key=error.key) from None

    @classmethod
    def from_arguments(cls, columns: Sequence[str] = (), **settings: Any) -> TableSpec:
        """Create a specification from command-line arguments.

        Parameters
        ----------
        columns : sequence of str, default=()
            Columns as "name=kind" or "name=kind:setting".
        **settings
            Other settings; None means the default.

        Returns
        -------
        TableSpec

        Examples
        --------
        >>> TableSpec.from_arguments(["genres=list:|", "price=bins:20"], label="clicked", weight=None).label
        'clicked'
        """
        given = {key: value for key, value in settings.items() if value is not None}
        for key in given:
            check_known(key, [field.name for field in fields(cls)[1:]], "setting")
        return cls(columns=tuple(ColumnSpec.from_argument(argument) for argument in columns), **given)
