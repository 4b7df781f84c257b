"""Every error that rafm raises on purpose.

RafmError                              exit code of the command line
|-- ConfigError (ValueError)           2   an option has a value that cannot work
|-- DataError (ValueError)             3   something is wrong with the input; knows path, line, column
|   |-- DataFormatError                    the bytes do not follow the format
|   |-- DataValueError                     well-formed, but not allowed
|   `-- FeatureRangeError                  a feature id outside the range that the model or the limits allow
|-- ModelFileError (ValueError)        4   a model file cannot be used
|   |-- ModelFormatError                   it is not a model file, or its parts do not fit together
|   |-- ModelVersionError                  it was written by a newer version
|   `-- ModelIntegrityError                its content changed after it was written
|-- CheckpointError (ValueError)       4   a checkpoint belongs to another run, or is in use
|-- DivergenceError (ArithmeticError)  5   training produced numbers that are not finite, or absurd
`-- ResourceLimitError (MemoryError)   6   more memory or bytes would be needed than the limits allow

Each message says what was found, where, which rule it breaks and what to do.
"""

from __future__ import annotations


class RafmError(Exception):
    """Base of all errors that rafm raises on purpose; `line` is that of the input, counted from 1, if there is one."""

    exit_code = 1
    line: int | None = None


class ConfigError(RafmError, ValueError):
    """An option has a value that cannot work; `key` names the option.

    >>> raise ConfigError("ranks must be increasing, found (8, 4)", key="ranks")
    Traceback (most recent call last):
    rafm.errors.ConfigError: ranks must be increasing, found (8, 4)
    """

    exit_code = 2

    def __init__(self, message: str, key: str | None = None):
        super().__init__(message)
        self.key = key


class DataError(RafmError, ValueError):
    """Something is wrong with the input; `path`, `line` and `column` say where, counted from 1.

    >>> raise DataFormatError('expected "id:value", found "17;1"', path="train.libsvm", line=1207, column=14)
    Traceback (most recent call last):
    rafm.errors.DataFormatError: train.libsvm:1207:14: expected "id:value", found "17;1"
    """

    exit_code = 3

    def __init__(self, message: str, path: str | None = None, line: int | None = None, column: int | None = None):
        self.path, self.line, self.column = path, line, column
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class DataFormatError(DataError):
    """The bytes do not follow the format."""


class DataValueError(DataError):
    """A well-formed value that is not allowed here."""


class FeatureRangeError(DataError):
    """A feature id outside the range that the model or the limits allow."""


class ModelFileError(RafmError, ValueError):
    """A model file cannot be used."""

    exit_code = 4


class ModelFormatError(ModelFileError):
    """Not a model file, or its parts do not fit together."""


class ModelVersionError(ModelFileError):
    """Written by a newer version of rafm."""


class ModelIntegrityError(ModelFileError):
    """The content changed after the file was written, or holds numbers that are not finite."""


class CheckpointError(RafmError, ValueError):
    """A checkpoint belongs to another run, is in use by one, or is damaged."""

    exit_code = 4


class DivergenceError(RafmError, ArithmeticError):
    """Training produced numbers that are not finite, or absurd; `epoch` and `row` say when."""

    exit_code = 5

    def __init__(self, message: str, epoch: int | None = None, row: int | None = None):
        super().__init__(message)
        self.epoch, self.row = epoch, row


class ResourceLimitError(RafmError, MemoryError):
    """More memory or bytes would be needed than the limits allow."""

    exit_code = 6
