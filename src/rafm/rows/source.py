"""Blocks of checked rows that can be read repeatedly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .checked import CheckedRows
from .fields import Fields


class RowSource(Protocol):
    """Blocks of rows that can be read in any order, any number of times."""

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory, so that callers may cache what they derive from them."""

    @property
    def n_features(self) -> int:
        """Upper bound of the ids."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks, numbered from 0."""

    @property
    def fields(self) -> Fields | None:
        """The fields of the ids, if they are known."""

    def block(self, number: int) -> CheckedRows:
        """Return the rows of a block."""


@dataclass(frozen=True)
class InMemory:
    """A source of one block that is in memory."""

    rows: CheckedRows
    fields: Fields | None = None
    n_blocks: int = 1
    in_memory: bool = True

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    def block(self, number: int) -> CheckedRows:
        return self.rows
