"""Evaluate a model as a recommender: rank a catalogue for each context of test rows, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, DataValueError
from ..metrics.top_items import TopItems
from ..model.model import Model
from ..rows.blocks import pick_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from .excluded import NOTHING, row_keys
from .top import Catalogue

BLOCK_CONTEXTS = 4096  # whose lists are in memory at a time


def evaluate_ranking(
    model: Model,
    test: CheckedRows,
    items: CheckedRows,
    at: Sequence[int] = (10,),
    seen: Sequence[np.ndarray] | None = None,
    leave_one_out: bool = False,
    least: float | None = None,
    threads: int = 1,
) -> dict[str, Any]:
    """Return metrics of the best items of each context in the test rows, averaged over contexts.

    Parameters
    ----------
    model : Model
        Scores context and item together.
    test : CheckedRows
        Rows of context and item; those with a label above 0 are relevant.
    items : CheckedRows
        The catalogue, one row per item; its features tell which of a test row belong to the item.
    at : sequence of int, default=(10,)
        Lengths of the lists.
    seen : sequence of int arrays, default=None
        For each test row, the rows of the items that are not recommended to its context, such as those of training.
    leave_one_out : bool, default=False
        Whether only the last relevant item of each context counts; the others are treated as seen.
    least : float, default=None
        Smallest label of a relevant item, if it is not the first one above 0.
    threads : int, default=1
        Worker threads.
    """
    if not at or min(at) < 1:
        raise ConfigError(f"at must be lengths of at least 1, found {list(at)}", key="at")
    catalogue = Catalogue(model, items)
    labels = np.asarray(test.labels)
    chosen = np.flatnonzero(labels > 0 if least is None else labels >= least)
    contexts, relevant, examples = relevant_items(pick_rows(test, chosen), catalogue)
    hidden = [NOTHING] * contexts.n_rows if seen is None else [seen[row] for row in chosen[examples]]
    told = {} if seen is None else {"excluded": sum(own.size for own in hidden)}
    if leave_one_out:
        hidden = [np.union1d(own, wanted[:-1]) for own, wanted in zip(hidden, relevant)]
        relevant = [wanted[-1:] for wanted in relevant]
    # what is not recommended cannot be found
    wanted = [np.setdiff1d(own, gone) for own, gone in zip(relevant, hidden)]
    kept = np.flatnonzero([own.size > 0 for own in wanted])
    if not kept.size:
        raise DataValueError(
            "no context of the test rows has a relevant item that is in the catalogue and not excluded"
        )
    metrics = TopItems(at, items.n_rows)
    for first in range(0, kept.size, BLOCK_CONTEXTS):
        block = kept[first : first + BLOCK_CONTEXTS]
        gone = [hidden[row] for row in block]
        found = catalogue.recommend(pick_rows(contexts, block), max(at), gone, threads).items
        hits = np.stack([np.isin(best, wanted[row]) for best, row in zip(found, block)])
        metrics.add(found, hits, np.array([wanted[row].size for row in block]))
    skipped = contexts.n_rows - kept.size
    return {"contexts": metrics.contexts, "skipped": skipped, "items": items.n_rows, **told, **metrics.values()}


def relevant_items(positive: CheckedRows, catalogue: Catalogue) -> tuple[CheckedRows, list[np.ndarray], np.ndarray]:
    """Return the distinct contexts of rows of context and item, their items in order, and the first row of each."""
    keys = {key: row for row, key in enumerate(row_keys(catalogue.items))}
    first: dict[bytes, int] = {}
    found: list[list[int]] = []
    rows = zip(row_keys(positive, catalogue.known, inside=False), row_keys(positive, catalogue.known))
    examples: list[int] = []
    for number, (context, item) in enumerate(rows):
        place = first.setdefault(context, len(first))
        if place == len(found):
            found.append([])
            examples.append(number)
        if item in keys and keys[item] not in found[place]:
            found[place].append(keys[item])
    firsts = np.array(examples, np.int64)
    contexts = without_items(pick_rows(positive, firsts), catalogue.known)
    return contexts, [np.array(own, np.int64) for own in found], firsts


def without_items(rows: CheckedRows, known: np.ndarray) -> CheckedRows:
    """Return the rows without the features of items."""
    kept = ~np.isin(rows.indices, known)
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return check_batch(Batch(indptr, rows.indices[kept], rows.values[kept], rows.n_features, None, None))
