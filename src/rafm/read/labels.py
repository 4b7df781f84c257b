"""Decode the labels of a file batch by batch, and name the line or row of a bad one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DataValueError, RowError
from ..files.atomic import PathLike
from ..losses import loss_for
from ..rows.classes import BadLabel, BinaryLabels, WrongGuess
from .compression import source_name


class LabelCheck:
    """Checks the labels of a file for a task, and converts binary ones to 0 and 1.

    labels: the two labels of a binary task, if other files share them. line_of: finds the line of a row of a table, for
    messages; None if rows have no lines.

    >>> labels = LabelCheck("train.svm", "binary")
    >>> labels.check(np.array([-1, 1]), np.array([1, 2]))
    array([0., 1.], dtype=float32)
    >>> labels.check(np.array([1, 0]), np.array([3, 4]))
    Traceback (most recent call last):
    rafm.errors.DataValueError: train.svm:4:1: the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1, found 0
    """

    def __init__(
        self,
        path: PathLike,
        task: str,
        labels: BinaryLabels | None = None,
        line_of: Callable[[int], int | None] | None = None,
    ):
        self._path, self._row, self._line_of = path, 0, line_of
        self._task, self._loss = task, loss_for(task)
        self._labels = BinaryLabels() if labels is None else labels
        self._met: list[Any] = []  # keys of the labels of this file

    def check(self, labels: np.ndarray, lines: np.ndarray | None = None) -> np.ndarray:
        """Return the next labels, binary ones as 0 and 1; lines: their line numbers in a text file, for messages.

        Raises WrongGuess if only now it shows which label is positive, and earlier ones were decoded otherwise.
        """
        if not self._loss.is_classification:
            found = self._checked_numbers(labels, lines)
        else:
            before = [key == self._labels.positive for key in self._met]
            found = (self._coded_words if labels.dtype == object else self._coded_numbers)(labels, lines)
            if self._row and before != [key == self._labels.positive for key in self._met][: len(before)]:
                raise WrongGuess(source_name(self._path), self._row, self._labels)
        self._row += labels.size
        return found

    def _coded_numbers(self, labels: np.ndarray, lines: np.ndarray | None) -> np.ndarray:
        while (new := np.logical_and.reduce([np.ones(labels.size, bool), *(labels != key for key in self._met)])).any():
            place = int(np.argmax(new))
            self._meet(labels[place].item(), place, lines)
        positive = self._labels.positive
        return (labels == (positive if isinstance(positive, float) else np.nan)).astype(np.float32)

    def _coded_words(self, labels: np.ndarray, lines: np.ndarray | None) -> np.ndarray:
        import pyarrow as pa

        coded = pa.array(labels, pa.string()).dictionary_encode()
        codes, words = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
        for number, word in enumerate(words):
            self._meet(word, int(np.argmax(codes == number)), lines)
        return np.array([self._labels.is_positive(word) for word in words], np.float32)[codes]

    def _meet(self, label: Any, place: int, lines: np.ndarray | None) -> None:
        """Take note of a label; reject a third one."""
        try:
            key = self._labels.meet(label, self._met)
        except BadLabel as error:
            raise self._located(str(error), place, lines) from None
        if key not in self._met:
            self._met.append(key)

    def _checked_numbers(self, labels: np.ndarray, lines: np.ndarray | None) -> np.ndarray:
        """Return the labels if the loss of the task can take them."""
        if labels.dtype == object and labels.size:
            raise self._located(f"labels of --task {self._task} are numbers, found {labels[0]!r}", 0, lines)
        numbers = labels.astype(np.float32)
        if numbers.size and self._loss.wrong_labels(float(numbers.min()), float(numbers.max())):
            wrong = (self._loss.wrong_labels(float(label), float(label)) for label in numbers)
            place, message = next((place, told) for place, told in enumerate(wrong) if told)
            raise self._located(message, place, lines)
        return numbers

    def _located(self, message: str, place: int, lines: np.ndarray | None) -> DataValueError:
        """Return the error about a label, with the line or else the row of it."""
        name, row = source_name(self._path), self._row + place
        if lines is not None:
            return DataValueError(message, path=name, line=int(lines[place]), column=1)
        line = None if self._line_of is None else self._line_of(row)
        if line is not None:
            return DataValueError(message, path=name, line=line)
        return DataValueError(str(RowError(message, row)), path=name)
