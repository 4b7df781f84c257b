"""A synthetic news click stream: several days, drifting tastes, items that appear and fade, and a long tail.

It resembles the paper's Experiment B in kind, not in size: most features are rare, few features cover most rows, and
the last day is to be predicted. Blocks of rows are generated on demand from the seed and their number, so a stream can
be larger than memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from rafm.rows.checked import Batch, CheckedRows, check_batch

DAYS = 8
AXES = 8  # rank of the true tastes
DRIFT = 0.08  # rotation of tastes per day, in radians
FADE = 0.6  # share of its readers that an item keeps per day
CLICK_SCORE = -2.2
BLOCK_ROWS = 1 << 18
FIXED = {"city": 400, "device": 3000, "hour": 24, "position": 20, "source": 2000, "topic": 300}
FIELDS = ("user", "item", *FIXED)
TASTE = {"user": 0.5, "item": 0.5, "source": 0.5, "topic": 0.6, "device": 0.3}
EFFECT = {"user": 0.3, "item": 0.5, "position": 0.5}


@dataclass(frozen=True)
class Stream:
    """A row source of the given days, which start at 0.

    >>> stream = Stream(rows_per_day=1000, days=(0, 1))
    >>> stream.n_blocks, stream.block(1).n_rows
    (2, 1000)
    """

    rows_per_day: int
    days: tuple[int, ...]
    seed: int = 0
    in_memory: bool = False

    @property
    def n_users(self) -> int:
        return max(self.rows_per_day // 5, 100)

    @property
    def born_per_day(self) -> int:
        return max(self.rows_per_day // 25, 20)

    @property
    def sizes(self) -> dict[str, int]:
        return {"user": self.n_users, "item": self.born_per_day * (DAYS + 4), **FIXED}  # some items predate day 0

    @cached_property
    def offsets(self) -> dict[str, int]:
        ends = np.cumsum([0, *self.sizes.values()])
        return dict(zip(FIELDS, ends.tolist()))

    @property
    def fields(self) -> None:
        """The fields are unknown, as in the paper's experiment."""
        return None

    @property
    def n_features(self) -> int:
        return sum(self.sizes.values())

    @property
    def blocks_per_day(self) -> int:
        return -(-self.rows_per_day // BLOCK_ROWS)

    @property
    def n_blocks(self) -> int:
        return len(self.days) * self.blocks_per_day

    def block(self, number: int) -> CheckedRows:
        """Generate a block of rows."""
        day, piece = self.days[number // self.blocks_per_day], number % self.blocks_per_day
        size = min(BLOCK_ROWS, self.rows_per_day - piece * BLOCK_ROWS)
        draw = np.random.default_rng([self.seed, 1, day, piece])  # the same block whenever it is read
        columns = self.columns(day, size, draw)
        scores = self.scores(columns, day)
        labels = (draw.random(size) < 1 / (1 + np.exp(-scores))).astype(np.float32)
        table = np.stack([columns[field] + self.offsets[field] for field in FIELDS], axis=1)
        indptr = np.arange(size + 1, dtype=np.int64) * len(FIELDS)
        ones = np.ones(table.size, np.float32)
        return check_batch(Batch(indptr, table.ravel(), ones, self.n_features, labels))

    def columns(self, day: int, size: int, draw: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw the fields of rows; source and topic are functions of the item, city and device of the user."""
        users = _long_tail(self.n_users, size, draw)
        age = np.minimum(draw.geometric(1 - FADE, size) - 1, day + 3)  # in days, at most to the oldest items
        items = (day + 3 - age) * self.born_per_day + _long_tail(self.born_per_day, size, draw)
        return {
            "user": users,
            "item": items,
            "city": _hash(users, FIXED["city"]),
            "device": _hash(users + 1, FIXED["device"]),
            "hour": draw.integers(0, 24, size),
            "position": _long_tail(FIXED["position"], size, draw),
            "source": _hash(items, FIXED["source"]),
            "topic": _hash(items + 7, FIXED["topic"]),
        }

    def scores(self, columns: dict[str, np.ndarray], day: int) -> np.ndarray:
        """Return the true scores of rows on a day, from which `block` draws the labels."""
        scores = np.full(columns["user"].size, CLICK_SCORE)
        for field in EFFECT:
            scores += self._truth(field, 0)[0][columns[field]]
        tastes = {}
        for field in TASTE:
            start, end = self._truth(field, 1)
            # A rotation keeps the variance of the tastes the same on all days.
            tastes[field] = np.cos(DRIFT * day) * start[columns[field]] + np.sin(DRIFT * day) * end[columns[field]]
        for (one, other), signs in self._agreement().items():
            scores += (tastes[one] * tastes[other]) @ signs
        return scores

    def _agreement(self) -> dict[tuple[str, str], np.ndarray]:
        """Return the sign of each axis for each pair of fields: agree (1), ignore (0) or disagree (-1).

        So the truth has the form of none of the models: one vector per feature cannot fit all pairs at once.
        """
        draw = np.random.default_rng([self.seed, 3])
        return {pair: draw.integers(-1, 2, AXES).astype(np.float32) for pair in combinations(TASTE, 2)}

    def _truth(self, field: str, what: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the true effects of a field's values, or their initial tastes and those they rotate towards."""
        key = (field, what)  # cached: drawing all users anew for every block would take most of the time
        if key not in self._known:
            draw = np.random.default_rng([self.seed, 2, FIELDS.index(field), what])
            n = self.sizes[field]
            if what == 0:
                found = draw.normal(0, EFFECT[field], n), np.zeros(0)
            else:
                start, end = draw.normal(0, TASTE[field], (2, n, AXES)).astype(np.float32)
                found = start, end
            self._known[key] = found
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
        return {}


def _long_tail(n: int, size: int, draw: np.random.Generator) -> np.ndarray:
    """Draw from n values, value r approximately in proportion to 1 / (r + 1)."""
    # The inverse of the distribution function log(r + 1) / log(n + 1).
    return np.minimum((n + 1) ** draw.random(size) - 1, n - 1).astype(np.int64)


def _hash(values: np.ndarray, n: int) -> np.ndarray:
    """Map every value to one of n groups of uneven sizes."""
    # Knuth's multiplicative hash; squaring makes low groups larger.
    mixed = (values * 2654435761 + 12345) % 4294967296 / 4294967296
    return (n * mixed**2).astype(np.int64)
