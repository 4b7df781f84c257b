"""The model that is served: loading, and replacing it when its file changes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import DataFormatError, DataValueError, ModelFileError, RafmError
from ..explain.names import FeatureNames
from ..explain.terms import explain_rows
from ..files.container import messages_starting_with, open_regular
from ..model.file import MANIFEST, load
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.numbering import number_row
from ..scorer import MANY_ROWS, Scorer
from .contract import Contract, contract_of, difference
from .ranges import Ranges
from .settings import Settings

if TYPE_CHECKING:
    from ..recommend.top import Catalogue

CHUNK_BYTES = 1 << 20
SIMPLE_CELLS = {"text": "2000-01-01", "number": 0.5, "boolean": True, "time": "2000-01-01", "list": ["a", "a"]}
WAY_OUT = "serve it at another port, or start with --allow-change"
TRIES = 5  # to read a file that is being replaced
Signature = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model, with the SHA-256 of its file; a request keeps to one from its beginning to its end."""

    name: str
    sha256: str
    scorer: Scorer
    names: FeatureNames
    catalogue: Catalogue | None = None

    @property
    def kind(self) -> str:
        """What a prediction is."""
        return "probability" if self.scorer.saved.model.loss.is_classification else "prediction"

    def score(self, rows: list[Any]) -> dict[str, Any]:
        """Return scores and predictions of rows."""
        if len(rows) == 1:
            return self._score_one(rows[0])
        if len(rows) >= MANY_ROWS and (batch := self.scorer.raw_rows.batch(rows)) is not None:
            with suppress(DataValueError):  # row by row, it comes again and names the row
                return self.score_table(batch)
        self.ranges.check_rows(rows)
        return self._linked(self.scorer.score(rows), lambda: self.scorer.encode(rows))

    def _score_one(self, row: Any) -> dict[str, Any]:
        self.ranges.check_rows([row])
        row = tuple(row) if isinstance(row, list) else row
        score = self.scorer.score(row)
        return {"score": [score], self.kind: [self.scorer.predictions(score, lambda: self.scorer.encode([row]))]}

    def score_columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return scores and predictions of the rows of columns, which are lists of cells."""
        batch = self.scorer.batch_of_columns(columns)
        if batch is not None:
            return self.score_table(batch)
        return self.score([dict(zip(columns, cells)) for cells in zip(*columns.values())])

    def score_table(self, table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
        """Return scores and predictions of the rows of a table."""
        self.ranges.check_table(table)
        return self._linked(self.scorer.score_table(table), lambda: self.scorer.encode_table(table))

    def score_checked(self, rows: CheckedRows) -> dict[str, Any]:
        """Return scores and predictions of rows of feature ids."""
        with self.scorer.saved.naming_rows():
            scores = self.scorer.saved.model.scores(rows).astype(float)
        return self._linked(scores, lambda: rows)

    def _linked(self, scores: np.ndarray, rows: Callable[[], CheckedRows]) -> dict[str, Any]:
        return {"score": scores, self.kind: self.scorer.predictions(scores, rows)}

    @cached_property
    def contract(self) -> Contract:
        """What requests and answers of this model have, which must not change unnoticed."""
        return contract_of(self.scorer)

    @cached_property
    def ranges(self) -> Ranges:
        """Numbers that requests may have."""
        return Ranges(self.scorer)

    def explain(self, rows: list[Any], top: int) -> list[dict[str, Any]]:
        """Return the explanations of rows, each with its largest terms."""
        found = explain_rows(self.scorer.saved.model, self.scorer.encode(rows), self.names)
        return [one.to_dict(top) for one in found]

    def recommend(
        self, contexts: list[Any], items: list[Any] | None, top: int, exclude: list[list[int]] | None
    ) -> list[list[dict[str, Any]]]:
        """Return the best items of each context; items: rows of a catalogue (default: the server's own)."""
        from ..recommend.top import Catalogue  # imports SciPy, which other requests do without

        self.ranges.check_rows([*contexts, *(items or [])])
        catalogue = self.catalogue
        if items is not None:
            catalogue = Catalogue(self.scorer.saved.model, self.scorer.encode(items, partial=True))
        if catalogue is None:
            raise DataValueError("give items in the request, or start the server with --items FILE")
        seen = None if exclude is None else [self._excluded(numbers, catalogue) for numbers in exclude]
        found = catalogue.recommend(self.scorer.encode(contexts, partial=True), top, seen)
        pairs = zip(found.items.tolist(), found.scores.tolist())
        return [[self._entry(catalogue, *one) for one in zip(*pair) if one[0] >= 0] for pair in pairs]

    def _entry(self, catalogue: Catalogue, item: int, score: float) -> dict[str, Any]:
        return {"item": item + 1, "score": score, "features": self.names.of_row(catalogue.items, item)}

    def _excluded(self, numbers: list[int], catalogue: Catalogue) -> np.ndarray:
        found = np.array(numbers, np.int64) - 1
        if found.size and not (found.min() >= 0 and found.max() < catalogue.items.n_rows):
            raise DataValueError(f"exclude: items are numbered from 1 to {catalogue.items.n_rows}")
        return found


def load_served(settings: Settings) -> tuple[ServedModel, Signature]:
    """Load the model file, all of one version, and run its kernels once."""
    for _ in range(TRIES):
        before = signature_of(settings.model)
        sha256, saved = _digest(settings.model), load(settings.model)
        if signature_of(settings.model) == before:
            scorer, names = Scorer.of(saved), FeatureNames.of(saved)
            warm_up(scorer)
            return ServedModel(settings.name, sha256, scorer, names, _catalogue(settings.items, scorer)), before
    raise ModelFileError(f"{settings.model}: the file keeps changing while it is read")


def signature_of(path: str) -> Signature:
    """Return what changes when a file is replaced or written to, or the manifest of a folder of parts."""
    found = os.stat(_main_file(path))
    return found.st_ino, found.st_size, found.st_mtime_ns


def _main_file(path: str) -> str:
    manifest = os.path.join(path, MANIFEST)
    return manifest if os.path.isfile(manifest) else path


def _digest(path: str) -> str:
    sha = hashlib.sha256()
    with messages_starting_with(path), open_regular(_main_file(path)) as file:
        while chunk := file.read(CHUNK_BYTES):
            sha.update(chunk)
    return sha.hexdigest()


def warm_up(scorer: Scorer) -> None:
    """Compile the kernels, or load them from the cache, by scoring a row without features, and one of simple cells."""
    model, encoder = scorer.saved.model, scorer.saved.encoder
    for column in encoder.columns if encoder is not None else ():
        with suppress(DataValueError):  # not every kind takes such a cell; it has run its kernels all the same
            scorer.encode([{column.name: SIMPLE_CELLS.get(column.cell_type)}], partial=True)
    one_row = number_row([], [], model.numbering)
    assert one_row is not None
    model.score_numbered(one_row)
    model.scores(empty_rows(2))


def empty_rows(n_rows: int) -> CheckedRows:
    """Return rows without features."""
    return check_batch(Batch(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 1))


def _catalogue(path: str | None, scorer: Scorer) -> Catalogue | None:
    """Read the items that the server recommends, with the columns of their side only."""
    if path is None:
        return None
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise DataFormatError("is a pipe or device, but items are read again with every model; give a file", path=path)
    from ..predictor import Predictor
    from ..read.open import ReadOptions
    from ..recommend.partial import read_side
    from ..recommend.top import Catalogue

    catalogue = Catalogue(scorer.saved.model, read_side(Predictor(scorer.saved), path, ReadOptions("binary")))
    catalogue.recommend(empty_rows(1), top=1)  # prepares the catalogue now, not in the first request
    return catalogue


class ModelStore:
    """Holds the current model and replaces it by a good one only."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.current, self._signature = load_served(settings)
        self._lock, self._pool = asyncio.Lock(), ThreadPoolExecutor(1, "rafm load")  # nobody waits for it at the end

    async def refresh(self) -> tuple[int, str] | None:
        """Load the file if it has changed; return None if it has not, else the level and the text of a log message.

        logging.INFO means that the new model is served, any other level that the one before is.
        """
        async with self._lock:
            try:
                found = signature_of(self.settings.model)
            except OSError:
                return None  # between two renames, or gone: the model in memory stays
            if found == self._signature:
                return None
            try:
                loop = asyncio.get_running_loop()
                model, loaded = await loop.run_in_executor(self._pool, load_served, self.settings)
            except Exception as error:  # whatever it is, it must not end the watch
                self._signature = found  # not again until the file changes
                is_known = isinstance(error, RafmError | OSError | MemoryError)
                reason = str(error) if is_known and str(error) else f"{type(error).__name__}: {error}"
                return logging.ERROR, f"kept the model before, since the new file is bad: {reason}"
            self._signature = loaded
            change = difference(self.current.contract, model.contract)
            if change and not self.settings.allow_change:
                return logging.WARNING, f"kept the model before, since the new one has {change}; {WAY_OUT}"
            self.current = model  # one assignment: a request has either the old model or the new one
            return logging.INFO, f"serving sha256 {model.sha256} now" + (f", which has {change}" if change else "")
