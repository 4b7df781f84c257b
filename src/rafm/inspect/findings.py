"""Rules that turn an examination into short, actionable findings, with their thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..encode.infer import AS_WORDS, FEW_KEYS, NEARLY_UNIQUE, PROSE_UNIQUE
from ..errors import kinds_in_flags
from ..files.terminal import counted
from .columns import ColumnProfile
from .examine import MAX_BAD, Examination

SUSPICIOUS_AUC, SUSPICIOUS_R2 = 0.95, 0.9  # of one column alone, on held-out rows
FEW_ROWS = 100  # of the rarer class, or in total for regression; with fewer, no column is suspected
MOSTLY_MISSING = 0.95
MANY_REPEATED = 0.01
RARE_CLASS = 0.001


def findings(found: Examination) -> list[str]:
    """Return one line per finding, the most serious first."""
    return [*_bad_lines(found), *_labels(found), *_leaks(found), *_columns(found), *_rows(found)]


def _bad_lines(found: Examination) -> Iterator[str]:
    if found.gave_up:
        yield f"stopped after {MAX_BAD:,} bad lines: is this really {found.format}? (--format)"
    elif found.bad.count:
        yield f"{counted(found.bad.count, 'bad line', ',')}: training stops at the first"


def _labels(found: Examination) -> Iterator[str]:
    labels = found.labels
    if not found.is_labelled:
        yield "no labels: name the label column with --label COLUMN"
    elif labels.are_mixed:
        yield "the labels 0 and -1 are mixed: use 0 and 1, or -1 and 1"
    elif labels.words and len(labels.words) > 2:
        yield f"{len(labels.words)} different labels that are not numbers: training takes two"
    elif labels.weight and labels.low == labels.high:
        yield f"all labels are {next(iter(labels.words), f'{labels.low:g}')}: there is nothing to learn"
    elif labels.is_binary and not RARE_CLASS <= share_of_positive(found) <= 1 - RARE_CLASS:
        yield f"{percent(share_of_positive(found))} of the labels are positive: AUC and log loss will be unreliable"


def share_of_positive(found: Examination) -> float:
    """Return the weighted share of the positive one of two classes."""
    return found.labels.share_of_positive


def _leaks(found: Examination) -> Iterator[str]:
    labels = found.labels
    rarer = min(share_of_positive(found), 1 - share_of_positive(found)) if labels.is_binary else 1.0
    if not found.is_labelled or labels.rows * rarer < FEW_ROWS:
        return
    name, least = ("AUC", SUSPICIOUS_AUC) if labels.is_binary else ("R2", SUSPICIOUS_R2)
    for column in found.columns:
        power = column.power(labels)
        if power is not None and power >= least:
            yield f"column `{column.name}` alone has {name} {power:.3f}: is it known before the label?"
    for id, power in found.predictive:
        if power >= least:
            yield f"feature {id} alone has {name} {power:.3f}: is it known before the label?"


def _columns(found: Examination) -> Iterator[str]:
    yield from found.all_faults()
    for column in found.columns:
        if found.rows > 1 and (reason := _useless(column, found.rows)):
            yield f"column `{column.name}` {reason}"


def _useless(column: ColumnProfile, n_rows: int) -> str | None:
    cells = column.known + column.missing
    if not column.known:
        return "is always empty: ignore it"  # before `is_constant`, which is true of it too
    if column.is_constant:
        return "is constant: ignore it"
    if column.missing >= MOSTLY_MISSING * cells:
        return f"is missing in {percent(column.missing / cells)} of the rows"
    if (
        column.kind == "category"
        and column.is_prose
        and column.values.n_keys >= PROSE_UNIQUE * n_rows
        and n_rows > FEW_KEYS
    ):
        return f"has text of several words: to learn from them, use {kinds_in_flags({column.name: AS_WORDS})}"
    if column.kind in ("category", "ids") and column.values.n_keys >= NEARLY_UNIQUE * n_rows and n_rows > FEW_KEYS:
        return "has a different value in nearly every row: ignore it, unless the values will recur"
    return None


def _rows(found: Examination) -> Iterator[str]:
    if found.repeated >= MANY_REPEATED * found.rows:
        share = percent(found.repeated / found.rows)
        yield f"{counted(found.repeated, 'row', ',')} ({share}) repeat an earlier one: joined or logged twice?"


def percent(share: float) -> str:
    """Return a share in percent, with enough digits that only 0 and 1 are shown as 0 and 100.

    >>> percent(0.5), percent(0.00001), percent(0.99999), percent(1.0)
    ('50 %', '0.001 %', '99.999 %', '100 %')
    """
    rest = 100 * min(share, 1 - share)
    digits = 0 if rest in (0, 100) or rest >= 10 else 1 if rest >= 1 else math.ceil(-math.log10(rest) - 1e-9)
    return f"{100 * share:.{digits}f} %"
