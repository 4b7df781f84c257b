"""What clients rely on: the task, the classes and the columns of a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from ..scorer import Scorer


@dataclass(frozen=True)
class Contract:
    """What requests and answers of a model have.

    columns: names in the order in which a list has the cells, each with the type of its cells; for a model of feature
    ids, the names if it has some. index_base: the smallest feature id, None for a table.
    """

    task: str
    classes: list[Any] | None
    columns: dict[str, str]
    index_base: int | None

    def digest(self) -> str:
        """Return a SHA-256."""
        return hashlib.sha256(json.dumps([asdict(self), [*self.columns]]).encode()).hexdigest()


def contract_of(scorer: Scorer) -> Contract:
    """Return the contract of a model."""
    saved = scorer.saved
    task, classes = saved.model.loss.task, saved.classes
    if saved.encoder is None:
        return Contract(task, classes, dict.fromkeys(scorer.columns, "number"), saved.index_base)
    types = {column.name: column.cell_type for column in saved.encoder.columns}
    return Contract(task, classes, {name: types[name] for name in scorer.columns}, None)


def difference(old: Contract, new: Contract) -> str:
    """Return what is different in the new contract, "" if nothing is.

    >>> old = Contract("binary", [0, 1], {"city": "text", "age": "number"}, None)
    >>> difference(old, Contract("binary", [0, 1], {"city": "number", "sky": "text"}, None))
    "column 'city' of type number instead of text, no column 'age', the new column 'sky'"
    """
    found = []
    if new.task != old.task:
        found.append(f"the task {new.task} instead of {old.task}")
    if new.classes != old.classes:
        found.append(f"the classes {new.classes!r:.80} instead of {old.classes!r:.80}")
    if (new.index_base is None) != (old.index_base is None):
        kinds = ("feature ids", "the columns of a table")
        found.append(f"{kinds[new.index_base is None]} instead of {kinds[old.index_base is None]}")
    elif new.index_base != old.index_base:
        found.append(f"feature ids from {new.index_base} on instead of {old.index_base}")
    changes = _changes(old.columns, new.columns)
    found += changes[:5] + (["more"] if len(changes) > 5 else [])
    if not changes and [*new.columns] != [*old.columns]:
        found.append("the columns in another order")
    return ", ".join(found)


def _changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    types = [
        f"column {name[:80]!r} of type {new[name]} instead of {old[name]}"
        for name in old
        if name in new and new[name] != old[name]
    ]
    gone = [f"no column {name[:80]!r}" for name in old if name not in new]
    return [*types, *gone, *(f"the new column {name[:80]!r}" for name in new if name not in old)]
