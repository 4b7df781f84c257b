"""Exceptions raised by rafm.

RafmError                              exit code of the command line
|-- ConfigError (ValueError)           2   an option has an invalid value
|-- DataError (ValueError)             3   the input is invalid; has path, line and column
|   |-- DataFormatError                    the bytes do not follow the format
|   |-- DataValueError                     well-formed, but not allowed
|   |   `-- RowError                           in a row of a table
|   |       `-- ScoreError                           its score, or the prediction of it, is no finite number
|   `-- FeatureRangeError                  a feature id outside the range of the model or the limits
|-- ModelFileError (ValueError)        4   a model file cannot be used
|   |-- ModelFormatError                   not a model file, or its parts are inconsistent
|   |-- ModelVersionError                  written by a newer version of rafm
|   `-- ModelIntegrityError                corrupted after it was written
|-- CheckpointError (ValueError)       4   a checkpoint belongs to another run, is in use or is damaged
|-- DivergenceError (ArithmeticError)  5   training diverged
|-- ResourceLimitError (MemoryError)   6   the input exceeds a limit on memory or size
`-- ClusterError (RuntimeError)        6   a cluster cannot be used, or lost too many processes

DataWarning (UserWarning)              the input may not be what was meant
`-- UnseenValuesWarning                values that the model has not seen in training

Each message says what was found, where, which rule it breaks and how to fix it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping


class RafmError(Exception):
    """Base class of all exceptions raised by rafm."""

    exit_code = 1  # of the command line; each subclass sets its own
    line: int | None = None  # of the input, counted from 1


class ConfigError(RafmError, ValueError):
    """An option has an invalid value; `key` names the option.

    >>> raise ConfigError("ranks must be increasing, found (8, 4)", key="ranks")
    Traceback (most recent call last):
    rafm.errors.ConfigError: ranks must be increasing, found (8, 4)
    """

    exit_code = 2

    def __init__(self, message: str, key: str | None = None):
        super().__init__(message)
        self.key = key  # as in rafm.options, also where the message names a flag


class DataError(RafmError, ValueError):
    """The input is invalid; `path`, `line` and `column` say where, counted from 1.

    >>> raise DataFormatError('expected "id:value", found "17;1"', path="train.libsvm", line=1207, column=14)
    Traceback (most recent call last):
    rafm.errors.DataFormatError: train.libsvm:1207:14: expected "id:value", found "17;1"
    """

    exit_code = 3

    def __init__(self, message: str, path: str | None = None, line: int | None = None, column: int | None = None):
        self.path, self.line, self.column = path, line, column
        # path:line:column is what editors and terminals turn into a link
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class DataFormatError(DataError):
    """The bytes do not follow the format."""


class DataValueError(DataError):
    """A value is well-formed but not allowed here."""


class RowError(DataValueError):
    """A value in a row of a table, counted from 0; a reader that knows the lines of its rows names the line instead.

    >>> raise RowError("weights must not be negative, found -1", row=0)
    Traceback (most recent call last):
    rafm.errors.RowError: row 1 (counted from 1): weights must not be negative, found -1
    """

    def __init__(self, message: str, row: int):
        super().__init__(f"row {row + 1} (counted from 1): {message}")
        self.message, self.row = message, row


class ScoreError(RowError):
    """The score of a row, or the prediction that belongs to it, is not finite; feature, value: the likely cause.

    >>> raise ScoreError("the score is infinite", row=0, feature=7, value=1e30)
    Traceback (most recent call last):
    rafm.errors.ScoreError: row 1 (counted from 1): the score is infinite; its largest value is 1e+30, of feature 7
    """

    def __init__(self, fact: str, row: int, feature: int | None = None, value: float = 0.0, name: str = ""):
        cause = f"; its largest value is {value:g}, of feature {name or feature}"
        super().__init__(fact + ("" if feature is None else cause), row)
        self.fact, self.feature, self.value = fact, feature, value


class FeatureRangeError(DataError):
    """A feature id is outside the range of the model or the limits."""


class ModelFileError(RafmError, ValueError):
    """A model file cannot be used."""

    exit_code = 4


class ModelFormatError(ModelFileError):
    """Not a model file, or its parts are inconsistent."""


class ModelVersionError(ModelFileError):
    """Written by a newer version of rafm."""


class ModelIntegrityError(ModelFileError):
    """The file was corrupted after it was written, or holds parameters that are not finite."""


class CheckpointError(RafmError, ValueError):
    """A checkpoint belongs to another run, is in use by one, or is damaged."""

    exit_code = 4


class DivergenceError(RafmError, ArithmeticError):
    """Training diverged: scores or parameters are not finite, or absurdly large; `epoch` and `row` say when."""

    exit_code = 5

    def __init__(self, message: str, epoch: int | None = None, row: int | None = None):
        super().__init__(message)
        self.epoch, self.row = epoch, row


class ResourceLimitError(RafmError, MemoryError):
    """The input exceeds a limit on memory or size."""

    exit_code = 6


class ClusterError(RafmError, RuntimeError):
    """A cluster cannot be used, or lost too many processes."""

    exit_code = 6


Kinds = Mapping[str, str | Mapping[str, str]]  # of columns by name, with a setting or without


def kinds_in_flags(kinds: Kinds) -> str:
    """Return kinds of columns as flags of the command line.

    >>> kinds_in_flags({"n": "bins", "words": {"kind": "list", "separator": " "}})
    "--column n=bins --column 'words=list: '"
    """
    texts = (kind if isinstance(kind, str) else ":".join(kind.values()) for kind in kinds.values())
    return " ".join(f"--column {shlex.quote(f'{name}={text}')}" for name, text in zip(kinds, texts))


def spelled_kinds(kinds: Kinds) -> str:
    """Return kinds of columns as a parameter of Python, and as flags.

    >>> spelled_kinds({"n": "bins"})
    "columns={'n': 'bins'}, on the command line --column n=bins"
    """
    return f"columns={kinds}, on the command line {kinds_in_flags(kinds)}"


class DataWarning(UserWarning):
    """The input is probably not what was intended; `kinds` are the kinds to set for some columns.

    >>> print(DataWarning("is 'n' a quantity? Then set its kind: {kinds}", {"n": "bins"}))
    is 'n' a quantity? Then set its kind: columns={'n': 'bins'}
    """

    def __init__(self, message: str, kinds: Kinds | None = None):
        self.kinds = kinds or {}
        self._message = message
        super().__init__(message.replace("{kinds}", f"columns={self.kinds}"))

    def in_flags(self) -> str:
        """Return the message with the flags of the command line.

        >>> DataWarning("is 'n' a quantity? Then set its kind: {kinds}", {"n": "bins"}).in_flags()
        "is 'n' a quantity? Then set its kind: --column n=bins"
        """
        return self._message.replace("{kinds}", kinds_in_flags(self.kinds))


class UnseenValuesWarning(DataWarning):
    """Some values have no feature in the model, because they did not occur in training."""


def caller_level() -> int:
    """Return the stack level of the caller of the library, so that a warning points there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in ("rafm", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level
