"""Check the labels of a file batch by batch, and name the line or row of a bad one."""

from __future__ import annotations

import numpy as np

from ..errors import DataValueError
from ..files.atomic import PathLike
from ..losses import loss_for
from .compression import source_name

RULE, MIXED = "binary labels are 0 and 1, or -1 and 1", "the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1"


class LabelCheck:
    """Checks the labels of a file for a task, and converts binary ones to 0 and 1.

    >>> labels = LabelCheck("train.svm", "binary")
    >>> labels.check(np.array([-1, 1]), np.array([1, 2]))
    array([0., 1.], dtype=float32)
    >>> labels.check(np.array([1, 0]), np.array([3, 4]))
    Traceback (most recent call last):
    rafm.errors.DataValueError: train.svm:4:1: the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1, found 0
    """

    def __init__(self, path: PathLike, task: str):
        self._path, self._negative, self._row = path, None, 0  # type: PathLike, float | None, int
        self._loss = loss_for(task)

    def check(self, labels: np.ndarray, lines: np.ndarray | None = None) -> np.ndarray:
        """Return the next labels, binary ones as 0 and 1; lines: their line numbers in a text file, for messages."""
        if not self._loss.is_classification:
            return self._checked_numbers(labels, lines)
        bad = ~np.isin(labels, (-1, 0, 1))
        if bad.any():
            raise self._refusal(RULE, labels, int(np.argmax(bad)), lines)
        if self._negative is None and (labels <= 0).any():
            self._negative = float(labels[np.argmax(labels <= 0)])
        # -1 - x swaps the two negatives, 0 and -1
        if self._negative is not None and (other := labels == -1 - self._negative).any():
            raise self._refusal(MIXED, labels, int(np.argmax(other)), lines)
        self._row += labels.size
        return (labels == 1).astype(np.float32)

    def _checked_numbers(self, labels: np.ndarray, lines: np.ndarray | None) -> np.ndarray:
        """Return the labels if the loss of the task can take them."""
        if labels.size and self._loss.wrong_labels(float(labels.min()), float(labels.max())):
            wrong = (self._loss.wrong_labels(float(label), float(label)) for label in labels)
            place, message = next((place, told) for place, told in enumerate(wrong) if told)
            name, row = source_name(self._path), self._row + place
            if lines is not None:
                raise DataValueError(message, path=name, line=int(lines[place]), column=1)
            raise DataValueError(f"{message} in row {row}", path=name)
        self._row += labels.size
        return labels

    def _refusal(self, rule: str, labels: np.ndarray, place: int, lines: np.ndarray | None) -> DataValueError:
        name, found = source_name(self._path), f"{labels[place]:.9g}"
        if lines is not None:
            return DataValueError(f"{rule}, found {found}", path=name, line=int(lines[place]), column=1)
        found = "a mix of 0 and -1" if rule == MIXED else found
        return DataValueError(f"{RULE}; found {found} in row {self._row + place}", path=name)
