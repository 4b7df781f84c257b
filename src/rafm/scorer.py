"""Score rows of Python values one by one, in microseconds: no scikit-learn, no pandas, no tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .encode.cell_columns import batch_of_columns
from .encode.id_lists import rows_of_lists
from .encode.raw_rows import IdRows, RawRows, TableRows
from .errors import DataValueError, ScoreError
from .files.atomic import PathLike
from .model.file import Saved, load
from .rows.checked import Batch, CheckedRows, check_batch
from .rows.numbering import number_row

if TYPE_CHECKING:
    import pyarrow as pa

MANY_ROWS = 160  # from here on, rows are encoded column by column: twice as fast at 500, slower below 130


class Scorer:
    """Scores single rows, or lists of them, given as plain Python values.

    A row is a dict or a tuple. For a model of a table, a dict has the cells by the names of their columns, and a tuple
    has them in the order of `columns`; a missing cell is None. For a model of a matrix or of a file of ids, a dict has
    the values by feature id, as in the training file, or by column name; a tuple has the values of all columns.
    Several threads may use a scorer at once.

    Parameters
    ----------
    path : path
        Model file (.rafm), or folder of parts.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns; empty if the model has feature ids without names.
    saved : rafm.model.file.Saved
        Content of the model file.

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> from rafm import RaFMClassifier
    >>> path = tempfile.mkdtemp() + "/films.rafm"
    >>> table = pa.table({"user": ["ann", "ann", "bob", "bob"] * 50, "film": ["Alien", "Bambi"] * 100})
    >>> RaFMClassifier(ranks=4, model="fm", l2=0).fit(table, [1, 0, 0, 1] * 50).save(path)
    >>> scorer = Scorer(path)
    >>> scorer.predict({"user": "ann", "film": "Alien"}) > 0.5
    True
    >>> scorer.predict([("ann", "Bambi"), ("bob", "Bambi")]) > 0.5
    array([False,  True])
    """

    def __init__(self, path: PathLike):
        self._take(load(path))

    @classmethod
    def of(cls, saved: Saved) -> Self:
        """Return the scorer of a loaded model."""
        scorer = cls.__new__(cls)
        scorer._take(saved)
        return scorer

    def _take(self, saved: Saved) -> None:
        self.saved, self._model = saved, saved.model
        self.raw_rows: RawRows
        if saved.encoder is not None:
            self.raw_rows = TableRows(saved.encoder, saved.columns)
        else:
            self.raw_rows = IdRows(saved.model.numbering.n_inputs, saved.index_base, saved.columns)
        self.columns = self.raw_rows.columns

    def predict(self, rows: Any) -> Any:
        """Return the prediction: a probability of the positive class, a value or an expected count.

        Parameters
        ----------
        rows : dict, tuple, or list of them
            A row, or several.

        Returns
        -------
        float, or ndarray of shape (n_rows,) for a list
        """
        return self.predictions(self.score(rows), lambda: self.encode(rows if isinstance(rows, list) else [rows]))

    def score(self, rows: Any) -> Any:
        """Return the score, before the link of the loss.

        Parameters
        ----------
        rows : dict, tuple, or list of them
            A row, or several.

        Returns
        -------
        float, or ndarray of shape (n_rows,) for a list
        """
        if isinstance(rows, list):
            return self._scores(self.encode(rows)) if len(rows) else np.zeros(0)
        return self._score_one(rows)

    def score_table(self, table: Any) -> np.ndarray:
        """Return the scores of the rows of a table, which is faster than row by row.

        Parameters
        ----------
        table : Arrow table or record batch, or dict of lists
            The columns of the model. For a model of ids, an Arrow table has the columns `ids` and `values`, whose cells
            are lists; without `values`, they are 1.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._scores(self.encode_table(table))

    def _scores(self, rows: CheckedRows) -> np.ndarray:
        with self.saved.naming_rows():
            return self._model.scores(rows).astype(float)

    def link(self, scores: Any) -> Any:
        """Return the predictions that belong to scores.

        Parameters
        ----------
        scores : float or ndarray
            Scores, as `score` returns them.

        Returns
        -------
        float or ndarray
        """
        return self.predictions(scores)

    def predictions(self, scores: Any, encode: Callable[[], CheckedRows] | None = None) -> Any:
        """Return the predictions that belong to scores; encode: returns their rows, to name what made one infinite."""
        found = np.atleast_1d(scores)
        with self.saved.naming_rows():
            try:
                linked = self._model.link(found)
            except ScoreError:
                linked = self._model.link(found, None if encode is None else encode())
        return linked if isinstance(scores, np.ndarray) else float(linked[0])

    def encode(self, rows: list[Any], partial: bool = False) -> CheckedRows:
        """Return rows of feature ids; partial: rows may lack columns, which then have no feature."""
        if len(rows) >= MANY_ROWS and not partial and (batch := self.raw_rows.batch(rows)) is not None:
            try:
                return self.encode_table(batch)
            except DataValueError:
                pass  # row by row, it comes again and names the row
        ids: list[int] = []
        values: list[float] = []
        ends = [0]
        for number, row in enumerate(rows):
            self.raw_rows.add(row, number, ids, values, partial)
            ends.append(len(ids))
        width = max(self._model.numbering.n_inputs, 1 + max(ids, default=0))  # ids unknown to the model are dropped
        return check_batch(Batch(np.array(ends), np.array(ids, np.int64), np.array(values, np.float64), width))

    def encode_table(self, table: Any) -> CheckedRows:
        """Return rows of feature ids; table: as in `score_table`."""
        if isinstance(table, Mapping):
            return self._encode_columns(table)
        if self.saved.encoder is not None:
            return check_batch(self.saved.encoder.encode(table, targets=False))
        return check_batch(rows_of_lists(table, self._model.numbering.n_inputs, self.saved.index_base))

    def _encode_columns(self, columns: Mapping[str, Any]) -> CheckedRows:
        batch = self.batch_of_columns(columns)
        if batch is not None:
            return self.encode_table(batch)
        return self.encode([dict(zip(columns, cells)) for cells in zip(*columns.values())])

    def batch_of_columns(self, columns: Mapping[str, Any]) -> pa.RecordBatch | None:
        """Return lists of cells as an Arrow batch; None if they must be encoded row by row."""
        if len({*map(len, columns.values())}) > 1:
            raise DataValueError("the columns must have the same number of cells")
        encoder = self.saved.encoder
        if encoder is None:
            return None
        encoder.check_columns([*columns])
        return batch_of_columns(encoder, columns)

    def _score_one(self, row: Mapping[str, Any] | tuple[Any, ...]) -> float:
        """Score one row without the checks that are made for any batch: its ids are right by construction."""
        ids: list[int] = []
        values: list[float] = []
        self.raw_rows.add(row, 0, ids, values)
        numbered = number_row(ids, values, self._model.numbering)
        score = np.nan if numbered is None else float(self._model.score_numbered(numbered)[0])
        return score if np.isfinite(score) else float(self.score([row])[0])  # which says what is wrong
