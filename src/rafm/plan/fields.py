"""The field of each feature of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataValueError
from ..rows.fields import NO_FIELD, Fields

OTHER = "<other>"  # the field of features for which none is known


@dataclass(frozen=True, eq=False)
class FeatureFields:
    """Names of the fields, and the number of the field of every feature, by feature number."""

    names: tuple[str, ...]
    numbers: np.ndarray

    @property
    def n_fields(self) -> int:
        return len(self.names)

    def ordered(self, order: np.ndarray) -> FeatureFields:
        """Return the fields of the features in another order; features may be left out."""
        return FeatureFields(self.names, self.numbers[order])

    def counts(self) -> np.ndarray:
        """Return the number of features of each field."""
        return np.bincount(self.numbers, minlength=self.n_fields)


def plan_fields(fields: Fields | None, ids: np.ndarray) -> FeatureFields | None:
    """Return the fields of the features with these ids; fields without any of them are left out.

    Ids for which no field is known share the field <other>.

    >>> known = Fields.of_ids(("user", "day", "item"), ids=np.array([3, 5]), numbers=np.array([0, 2]))
    >>> found = plan_fields(known, np.array([5, 4, 3]))
    >>> found.names, found.numbers
    (('user', 'item', '<other>'), array([1, 2, 0], dtype=int32))
    """
    return None if fields is None else _compact(fields.names, fields.of(ids))


def _compact(names: Sequence[str], numbers: np.ndarray) -> FeatureFields:
    """Return the fields that occur, in their order; NO_FIELD becomes <other>, which may be among the names."""
    names = [*names] if OTHER in names else [*names, OTHER]
    numbers = np.where(numbers == NO_FIELD, names.index(OTHER), numbers)
    used, found = np.unique(numbers, return_inverse=True)
    return FeatureFields(tuple(names[k] for k in used), found.astype(np.int32))


def continue_fields(
    before: FeatureFields | None, places: np.ndarray, fields: Fields | None, ids: np.ndarray
) -> FeatureFields | None:
    """Return the fields of the features `ids` when training continues, from those of the model and of the new rows.

    places[i] is the new number of its feature i. Its fields keep their numbers; new ones follow. A feature that has
    another field in the rows is an error.
    """
    if before is None:
        return plan_fields(fields, ids)
    names, given = list(before.names), np.full(ids.size, NO_FIELD)
    if fields is not None:
        found = fields.of(ids)
        used = [fields.names[k] for k in np.unique(found[found != NO_FIELD])]
        names += [name for name in used if name not in names]
        table = {name: number for number, name in enumerate(names)}
        lookup = np.array([*(table.get(name, NO_FIELD) for name in fields.names), NO_FIELD])  # the last for NO_FIELD
        given = lookup[found]
        _check_same(before, given[places], names, ids[places])
    given[places] = before.numbers
    if (given == NO_FIELD).any() and OTHER not in names:
        names.append(OTHER)
    numbers = np.where(given == NO_FIELD, names.index(OTHER) if OTHER in names else 0, given)
    return FeatureFields(tuple(names), numbers.astype(np.int32))


def _check_same(before: FeatureFields, given: np.ndarray, names: Sequence[str], ids: np.ndarray) -> None:
    differing = np.flatnonzero((given != NO_FIELD) & (given != before.numbers))
    if differing.size:
        first = differing[0]
        raise DataValueError(
            f"feature id {ids[first]} is in field {names[given[first]]!r}, but in field "
            f"{names[before.numbers[first]]!r} of the model. Use the fields that the model was trained with."
        )
