"""Warn about columns whose kind may not be what the user means, with the kinds to set."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..errors import DataWarning, caller_level
from ..files.terminal import printable
from .column import ColumnLearner
from .infer import (
    AS_WORDS,
    FEW_KEYS,
    FLAG_REASONS,
    NEARLY_UNIQUE,
    PROSE_UNIQUE,
    TEXT_NOW,
    Choice,
)

MANY_FLAGS = 20  # this many columns of 0 and 1 look like one-hot encoded categories


def warn_of_kinds(choices: list[Choice], metadata: dict[bytes, bytes] | None) -> None:
    """Warn about kinds that may be wrong; metadata: of the schema, tells what the reader has warned about."""
    doubtful = [choice for choice in choices if choice.doubt]
    if doubtful:
        found = ", ".join(f"{printable(choice.column.name)!r} ({choice.doubt})" for choice in doubtful[:10])
        message = (
            f"encoded as categories, like ids: {found}. If one is a quantity, set its kind: {{kinds}}; if not, "
            'set it to "category"'
        )
        kinds = {choice.column.name: "bins" for choice in doubtful}
        warnings.warn(DataWarning(message, kinds), stacklevel=caller_level())
    for choice in choices:
        if choice.stray and b"strays" not in (metadata or {}):
            message = (
                f"column {printable(choice.column.name)!r}, row {choice.stray.place + 1}: {choice.stray}; {TEXT_NOW}"
            )
            warnings.warn(DataWarning(message, {choice.column.name: "category"}), stacklevel=caller_level())
    for choice in choices:
        if choice.advice:
            text, given = choice.advice
            warnings.warn(DataWarning(printable(text), given), stacklevel=caller_level())
    flags = [choice for choice in choices if choice.reason in FLAG_REASONS]
    if len(flags) >= max(MANY_FLAGS, 0.9 * len(choices)):
        message = (
            f"{len(flags)} columns have only two values, like one-hot encoded categories; the original columns train "
            "faster, and a matrix (scipy.sparse.csr_matrix) has features for the ones only"
        )
        warnings.warn(DataWarning(message), stacklevel=caller_level())


def warn_of_keys(learners: list[ColumnLearner], n_rows: int) -> None:
    """Warn about prose, and about columns with a different value in nearly every row, unless the rows are too few."""
    if n_rows <= FEW_KEYS:
        return
    prose = [one.spec.name for one in learners if one.n_words >= PROSE_UNIQUE * n_rows and one.is_prose]
    if prose:
        message = (
            f"column {_quoted(prose)}: text of several words, which seldom recurs as a whole, so that little can be "
            "learned from it as a category; to learn from its words, set its kind: {kinds}"
        )
        warnings.warn(DataWarning(message, dict.fromkeys(prose, AS_WORDS)), stacklevel=caller_level())
    keys = [one.spec.name for one in learners if one.n_words >= NEARLY_UNIQUE * n_rows and one.spec.name not in prose]
    if keys:
        message = (
            f"nearly every row has a different value in column {_quoted(keys)}: nothing can be learned from values "
            "that do not recur. Leave it out: {kinds}"
        )
        warnings.warn(DataWarning(message, dict.fromkeys(keys, "ignore")), stacklevel=caller_level())


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(printable(name)) for name in names[:10])
