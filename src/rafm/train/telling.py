"""Find columns that tell the label by themselves: the label itself, left in the table, or what followed from it.

A sample of rows is dealt out into two halves. In one, each feature gets the slope of the label against its values: of
a category, by how much its labels differ from the mean. A column scores the rows of the other half by these slopes, so
a value that occurs once says nothing, as it would for new rows. Numbers in bins cannot tell all, even if they are the
label: scores are compared with what they would reach in the order of the labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from ..errors import DataWarning, caller_level
from ..files.terminal import printable
from ..metrics.auc import auc
from ..options import Options
from ..rows.blocks import pick_rows
from ..rows.source import RowSource
from .events import Event, Finished

MOST_OF_ALL = 0.999  # of what its scores could reach: a column that reaches more says all that it can
LEAST_AUC, LEAST_CORRELATION = 0.95, 0.9  # with less, it is no label: a rare value may be pure by luck
LEAST_ROWS = 50  # of the rarer class, or of ratings, in each half; with fewer, no column is suspected
MOST_ENTRIES = 1 << 19  # of the sample
PRIOR_ROWS = 2.0  # that pull the slope of a feature towards 0
MOST_NAMES = 5  # in the message


def with_telling_columns(events: Iterable[Event], source: RowSource, options: Options) -> Iterator[Event]:
    """Pass events through; warn before the last one of columns that tell the label."""
    for event in events:
        if isinstance(event, Finished) and (found := telling_columns(source, options)):
            warnings.warn(DataWarning(printable(telling_line(found, options))), stacklevel=caller_level())
        yield event


def telling_line(found: list[tuple[str, float]], options: Options) -> str:
    """Return the warning of these columns."""
    what = "AUC" if options.loss.is_classification else "correlation"
    shown = ", ".join(f"{name} ({what} {power:.4f})" for name, power in found[:MOST_NAMES])
    shown += f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    verb, they, them = ("tells", "is it", "it") if len(found) == 1 else ("tell", "are they", "them")
    return (
        f"{shown} alone {verb} nearly all about the label: {they} known before the label is? If not, leave {them} out"
    )


def telling_columns(source: RowSource, options: Options) -> list[tuple[str, float]]:
    """Return name and AUC, or correlation, of each column that tells nearly all about the label, the best one first."""
    block = source.block(0)
    if block.labels is None or options.loss.is_ranking or not block.n_rows:
        return []
    n_rows = int(min(block.n_rows, MOST_ENTRIES * block.n_rows // max(block.indices.size, 1)))
    rows = pick_rows(block, np.random.default_rng(options.seed).permutation(block.n_rows)[:n_rows])
    labels, is_other = np.asarray(rows.labels, float), np.arange(n_rows) % 2 == 1
    least = _least_entries(labels[is_other], options)
    if least is None or _least_entries(labels[~is_other], options) is None:
        return []
    entry_rows = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
    ids, features = np.unique(rows.indices, return_inverse=True)
    terms = _terms(
        features, rows.values.astype(float), labels[entry_rows] - labels[~is_other].mean(), is_other[entry_rows]
    )
    columns = ids if source.fields is None else source.fields.of(ids).astype(np.int64)
    found = []
    for column, places in _by_column(columns[features], is_other[entry_rows], least):
        scores = np.bincount(entry_rows[places] // 2, terms[places], is_other.sum())
        power = _power(labels[is_other], scores, options)
        if column >= 0 and power is not None:
            name = f"feature {column}" if source.fields is None else f"column {source.fields.names[column]!r}"
            found.append((name, power))
    return sorted(found, key=lambda one: -one[1])


def _least_entries(labels: np.ndarray, options: Options) -> float | None:
    """Return in how many rows a column must be nonzero to tell the labels; None if there are too few of them."""
    if not options.loss.is_classification:
        return 0.0 if labels.size >= LEAST_ROWS and np.ptp(labels) > 0 else None
    rarer = min(int((labels > 0).sum()), int((labels <= 0).sum()))
    return 0.9 * rarer if rarer >= LEAST_ROWS else None


def _terms(features: np.ndarray, values: np.ndarray, errors: np.ndarray, is_other: np.ndarray) -> np.ndarray:
    """Return slope times value of each entry; slopes are those of the entries that are not in the other half."""
    n, own = int(features.max(initial=-1)) + 1, ~is_other
    counts, squares, products = (
        np.bincount(features[own], each[own], n) for each in (np.ones_like(values), values**2, values * errors)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.nan_to_num(products / (squares * (1 + PRIOR_ROWS / counts)))
    return slopes[features] * values


def _by_column(columns: np.ndarray, is_other: np.ndarray, least: float) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each column with the places of its entries in the other half, if they are enough."""
    places = np.flatnonzero(is_other)
    places = places[np.argsort(columns[places], kind="stable")]
    names, starts = np.unique(columns[places], return_index=True)
    for name, start, stop in zip(names.tolist(), starts, [*starts[1:], places.size]):
        if stop - start >= least:
            yield name, places[start:stop]


def _power(labels: np.ndarray, scores: np.ndarray, options: Options) -> float | None:
    """Return the AUC of scores, or their correlation with the labels, if they tell nearly all that they can."""
    if np.ptp(scores) == 0:
        return None
    measure, least = (_auc, LEAST_AUC) if options.loss.is_classification else (_correlation, LEAST_CORRELATION)
    found = measure(labels, scores)
    if found < least:  # of most columns
        return None
    best = measure(np.sort(labels), np.sort(scores))  # no other order has more, by the rearrangement inequality
    return found if found > MOST_OF_ALL * best else None


def _auc(labels: np.ndarray, scores: np.ndarray) -> float:
    return auc(labels, scores, np.ones(labels.size)) or 0.0


def _correlation(labels: np.ndarray, scores: np.ndarray) -> float:
    return float(np.corrcoef(labels, scores)[0, 1])
