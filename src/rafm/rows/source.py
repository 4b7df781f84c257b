"""Where checked rows come from when they are needed many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .checked import CheckedRows


class Source(Protocol):
    """Rows in blocks that can be asked for in any order, any number of times."""

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory anyway, so that more may be kept of them."""

    @property
    def n_features(self) -> int:
        """Ids are below this."""

    @property
    def n_blocks(self) -> int:
        """Blocks are numbered from 0."""

    def block(self, number: int) -> CheckedRows:
        """Return the rows of a block."""


@dataclass(frozen=True)
class InMemory:
    """Rows in memory as a source of one block."""

    rows: CheckedRows
    n_blocks: int = 1
    in_memory: bool = True

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    def block(self, number: int) -> CheckedRows:
        return self.rows
