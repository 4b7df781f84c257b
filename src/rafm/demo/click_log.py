"""A synthetic click log with a long tail and a known truth, for demos, tests and benchmarks.

The truth has the form of none of the models. A user has interests, frequent users several, and likes an item as much
as the nearest interest that is active at this hour: a maximum over three fields at once, which saturates. Sites and
categories belong to groups that suit each other or not. No sum of pair products equals the truth, so models can only
approximate it, and do so better for frequent users than for infrequent ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np

from ..errors import ConfigError


class Field(NamedTuple):
    """A categorical column.

    Value r = 1, 2, ... is drawn in proportion to 1 / (r + shift) ** exponent. `effect` is the standard deviation of
    what each value adds to the true score by itself.
    """

    name: str
    size: int
    exponent: float
    shift: float
    effect: float


FIELDS = (
    Field("user", 30_000, 1.1, 4.0, 0.3),
    Field("item", 15_000, 1.1, 4.0, 0.3),
    Field("site", 400, 1.0, 2.0, 0.3),
    Field("device", 40, 1.2, 1.0, 0.2),
    Field("hour", 24, 0.0, 0.0, 0.2),
    Field("weekday", 7, 0.0, 0.0, 0.1),
    Field("position", 10, 0.7, 0.0, 0.5),
    Field("category", 60, 0.0, 0.0, 0.2),
)
CLICK_RATE = 0.2
AXES, THEMES, SCATTER = 5, 20, 0.25  # interests are themes, points on a sphere; items scatter around their category's
MAX_INTERESTS, ROWS_PER_INTEREST = 4, 100  # a user has one more per this many occurrences in 300,000 rows
LIKING, ROWS_UNTIL_CERTAIN = 6.0, 40.0  # how much a liking matters, and occurrences until it matters half as much
PARTS_OF_DAY, ASLEEP = 4, 0.3  # share of a user's interests that sleep in each part of the day
GROUPS, SUITING = 12, 0.6  # of sites and of categories, and how much they matter


@dataclass(frozen=True)
class ClickLog:
    """Rows of a click log as CSR arrays, with the probability that each label was drawn from.

    Row r has the features `indices[indptr[r]:indptr[r + 1]]`, one per field, in ascending order; those of field f have
    ids from `offsets[f]` to `offsets[f + 1]` (exclusive).

    >>> log = make_click_log(n_rows=1000, seed=7)
    >>> len(log), log.n_features, log.field_names[:2]
    (1000, 45541, ('user', 'item'))
    >>> [len(part) for part in log.split((0.8, 0.1, 0.1))]
    [800, 100, 100]
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    field_names: tuple[str, ...]
    offsets: np.ndarray

    def __len__(self) -> int:
        return self.labels.size

    @property
    def n_features(self) -> int:
        """Number of features of all fields, whether they occur or not."""
        return int(self.offsets[-1])

    @property
    def bayes_log_loss(self) -> float:
        """Log loss of the true probabilities: no model can be expected to do better."""
        chosen = np.where(self.labels > 0, self.probabilities, 1 - self.probabilities)
        return float(-np.log(chosen).mean())

    def take(self, rows: np.ndarray) -> ClickLog:
        """Return a log of the given rows, in the given order."""
        table = self.indices.reshape(len(self), len(self.field_names))[rows]
        return _log_of(table, self.labels[rows], self.probabilities[rows], self.field_names, self.offsets)

    def split(self, fractions: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0) -> tuple[ClickLog, ...]:
        """Split the rows at random into parts of the given fractions."""
        if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
            raise ConfigError(f"fractions must be at least 0 and sum to 1, found {tuple(fractions)}", "fractions")
        ends = np.rint(np.cumsum(fractions)[:-1] * len(self)).astype(np.int64)
        order = np.random.default_rng(seed).permutation(len(self))
        return tuple(self.take(rows) for rows in np.split(order, ends))


def make_click_log(n_rows: int = 300_000, seed: int = 0) -> ClickLog:
    """Generate a click log: eight fields, Zipf-like users and items, one click in five rows.

    The same `n_rows` and `seed` give the same log. Except for its constant, the truth depends only on the seed.
    """
    if n_rows < 1:
        raise ConfigError(f"n_rows must be at least 1, found {n_rows}", "n_rows")
    # Separate generators: the truth must not depend on how many rows are drawn.
    truth_rng, row_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    shares = {field.name: _shares(field, truth_rng) for field in FIELDS}
    category_of = truth_rng.integers(_size("category"), size=_size("item"))
    columns = {name: _draw(share, n_rows, row_rng) for name, share in shares.items()}
    columns["category"] = category_of[columns["item"]]  # an item does not change its category
    scores = _true_scores(columns, shares, truth_rng)
    probabilities = _with_click_rate(scores, CLICK_RATE)
    labels = (row_rng.random(n_rows) < probabilities).astype(np.float32)
    offsets = np.cumsum([0, *(field.size for field in FIELDS)])
    table = np.column_stack([columns[field.name] + start for field, start in zip(FIELDS, offsets)])
    return _log_of(table, labels, probabilities, tuple(columns), offsets)


def write_libsvm(path: str | PathLike[str], log: ClickLog) -> None:
    """Write `label id:1 id:1 ...` lines to `path`; ids start at 0 and ascend."""
    # One token per feature, formatted once: much faster than formatting every entry.
    tokens = np.array([b" %d:1" % i for i in range(log.n_features)], dtype=object)
    cells = np.empty((len(log), len(log.field_names) + 2), dtype=object)
    cells[:, 0] = np.where(log.labels > 0, b"1", b"0").astype(object)
    cells[:, 1:-1] = tokens[log.indices].reshape(len(log), -1)
    cells[:, -1] = b"\n"
    with open(path, "wb") as file:
        file.write(b"".join(cells.ravel().tolist()))


def write_fields(path: str | PathLike[str], log: ClickLog) -> None:
    """Write the field of every id to `path`, as `--fields` reads it."""
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for name, start, end in zip(log.field_names, log.offsets, log.offsets[1:]):
            file.writelines(f"{number}\t{name}\n" for number in range(start, end))


def _log_of(
    table: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    names: tuple[str, ...],
    offsets: np.ndarray,
) -> ClickLog:
    """Build a log from a table of feature ids with one column per field."""
    indptr = np.arange(len(table) + 1, dtype=np.int64) * len(names)
    indices = table.astype(np.int64).ravel()
    values = np.ones(indices.size, dtype=np.float32)
    return ClickLog(indptr, indices, values, labels, probabilities, names, offsets.astype(np.int64))


def _size(name: str) -> int:
    """Look up the number of values of a field."""
    return next(field.size for field in FIELDS if field.name == name)


def _shares(field: Field, rng: np.random.Generator) -> np.ndarray:
    """Return the share of rows of each value of a field; ids are not sorted by popularity."""
    shares = (np.arange(1, field.size + 1) + field.shift) ** -field.exponent
    return rng.permutation(shares / shares.sum())


def _draw(shares: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n_rows` values in proportion to their shares."""
    ends = np.cumsum(shares)
    # The last end may round to less than 1.
    return np.minimum(np.searchsorted(ends, rng.random(n_rows), side="right"), shares.size - 1)


def _true_scores(columns: dict[str, np.ndarray], shares: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Score the rows: effects of single values, liking of items, and which groups of sites and categories suit."""
    weights = {field.name: rng.normal(0, field.effect, field.size) for field in FIELDS}
    scores = sum(weights[name][column] for name, column in columns.items())
    scores += LIKING * _likings(columns, shares, rng)
    suits = rng.normal(0, SUITING, (GROUPS, GROUPS))
    site, category = (rng.integers(GROUPS, size=_size(name))[columns[name]] for name in ("site", "category"))
    return scores + suits[site, category]


def _likings(columns: dict[str, np.ndarray], shares: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Return how much the user of each row likes its item at its hour, between -1 and 1."""
    themes = _directions(rng.normal(size=(THEMES, AXES)))
    centres = themes[rng.integers(THEMES, size=_size("category"))]
    own = rng.normal(0, SCATTER, (_size("item"), AXES))
    items = _directions(centres[columns["category"]] + own[columns["item"]])
    counts = 300_000 * shares["user"]
    number = np.minimum(1 + counts / ROWS_PER_INTEREST, MAX_INTERESTS).astype(int)
    interests = themes[rng.integers(THEMES, size=(MAX_INTERESTS, _size("user")))]
    asleep = rng.random((MAX_INTERESTS, _size("user"), PARTS_OF_DAY)) < ASLEEP
    asleep[0] = False  # the first one never sleeps
    users, part = columns["user"], columns["hour"] * PARTS_OF_DAY // _size("hour")
    nearest = np.full(users.size, -1.0)
    for interest in range(MAX_INTERESTS):
        near = (interests[interest, users] * items).sum(axis=1)
        awake = (interest < number[users]) & ~asleep[interest, users, part]
        nearest = np.where(awake, np.maximum(nearest, near), nearest)
    certain = counts / (counts + ROWS_UNTIL_CERTAIN)
    return certain[users] * np.tanh(2 * nearest)


def _directions(points: np.ndarray) -> np.ndarray:
    """Return the points, moved to a distance of 1."""
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def _with_click_rate(scores: np.ndarray, rate: float) -> np.ndarray:
    """Shift the scores until the mean probability is `rate`, by bisection; return the probabilities."""
    low, high = -30.0, 30.0
    for _ in range(40):  # 60 / 2^40 is below the precision of the scores
        middle = (low + high) / 2
        too_many = _sigmoid(scores + middle).mean() > rate
        low, high = (low, middle) if too_many else (middle, high)
    return _sigmoid(scores + low)


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    """Map scores to probabilities."""
    return 1 / (1 + np.exp(-scores))
