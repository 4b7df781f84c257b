"""Convert the arguments of estimators from the forms that users may pass."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..encode.cells import is_missing
from ..encode.coverage import Coverage
from ..encode.spec import TableSpec
from ..encode.targets import Targets
from ..errors import ConfigError, DataValueError, DataWarning, RowError, UnseenValuesWarning, caller_level
from ..files.atomic import PathLike
from ..files.terminal import printable
from ..read.frames import as_table, is_frame
from ..read.matrices import id_columns
from ..rows.fields import Fields
from ..train.checkpoint import Checkpoint, NoCheckpoint
from ..train.events import Event

LOGGER = logging.getLogger("rafm")


def as_frame(X: Any) -> Any:
    """Convert X to an Arrow table; reject anything but a data frame or table."""
    if not is_frame(X):
        raise ConfigError(
            "this model was trained on a table; pass a table with its columns. rafm.Scorer takes dicts and tuples.",
            key="X",
        )
    return as_table(X)


def as_spec(spec: Any) -> TableSpec | None:
    """Convert a dict or the path of a TOML file to a TableSpec."""
    if spec is None or isinstance(spec, TableSpec):
        return spec
    return TableSpec.from_dict(spec) if isinstance(spec, dict) else TableSpec.from_toml(spec)


def spec_of_columns(columns: Any, cross: Any = None) -> TableSpec | None:
    """Convert the parameter `columns` of an estimator, a TableSpec or a dict of kinds by name, to a TableSpec.

    cross: the parameter of that name, which replaces the conjunctions of a TableSpec.
    """
    if cross is not None:
        return replace(spec_of_columns(columns) or TableSpec(), cross=cross)
    if columns is None or isinstance(columns, TableSpec):
        return columns
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns must be a dict from names to kinds, or a TableSpec, found {columns!r}", "columns")
    return TableSpec.from_dict({"columns": columns})


def targets_to_choose_by(y: Any, sample_weight: Any, n_rows: int) -> Targets | None:
    """Return labels and weights of rows that choose conjunctions; None if there are none for every row."""
    if y is None or len(y) != n_rows:
        return None
    check_labels_given(y)
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
    return (np.asarray(y), weights) if weights.shape == (n_rows,) else None


def check_labels_given(y: Any) -> None:
    """Reject a missing label, which is NaN, and among objects None and the like; and an infinite one."""
    y = np.asarray(y)
    if y.ndim != 1:
        return  # which scikit-learn refuses, or flattens
    missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
    if y.dtype == object:
        missing = np.fromiter(map(is_missing, y), bool, len(y))
    if missing.any():
        row = int(missing.argmax())
        raise RowError(
            f"the label is missing, found {y[row : row + 1].tolist()[0]!r}; drop the rows without a label", row
        )
    if y.dtype.kind == "f" and (infinite := np.isinf(y)).any():
        raise RowError("the label is infinite; drop the rows whose label is unknown", int(infinite.argmax()))


def warn_of_classes(y: np.ndarray) -> None:
    """Warn about labels of a regression that are those of classes."""
    if len(y) and set(np.unique(y).tolist()) == {0.0, 1.0}:
        message = (
            "all labels are 0 or 1, like those of classes; if they are, RaFMClassifier trains on log loss and predicts "
            "probabilities"
        )
        warnings.warn(DataWarning(message), stacklevel=caller_level())


def about_pipeline(error: ValueError) -> ValueError:
    """Return an error about eval_set for a matrix X; if it was not transformed as X was, one that says so."""
    if not isinstance(error, TextInMatrix) and "is expecting" not in str(error):  # that many features
        return error
    return ConfigError(
        f"eval_set is not like X: {error} If X went through the steps of a Pipeline, eval_set did not: transform it "
        "before, as with pipeline[:-1].transform(X_valid), or leave it out, and some rows of X are held out instead",
        key="eval_set",
    )


class TextInMatrix(DataValueError):
    """A cell of a matrix is text."""


def about_text(error: ValueError) -> ValueError:
    """Return an error of scikit-learn about a matrix; if it is about text in it, one that says what to do."""
    if not str(error).startswith("could not convert string to float"):
        return error
    found = str(error).partition(": ")[2].removeprefix("np.str_(").removesuffix(")")
    return TextInMatrix(
        f"X is an array with text, {found}, but the cells of a matrix are numbers. Pass a table with named columns "
        "instead, whose columns of text become categories: pd.DataFrame(X, columns=[...])."
    )


def warn_of_ids(X: Any) -> None:
    """Warn about columns of a dense matrix that look like ids."""
    places = id_columns(X)
    if places:
        which = (
            f"columns {', '.join(map(str, places))} of X hold" if len(places) > 1 else f"column {places[0]} of X holds"
        )
        message = (
            f"{which} whole numbers up to {X[:, places].max():g}, like ids, but the cells of a matrix are values. If "
            "they are ids, pass a table: pd.DataFrame(X, columns=[...]) with names; if they are quantities, scale them"
        )
        warnings.warn(DataWarning(message), stacklevel=caller_level())


def warn_of_unseen(coverage: Coverage) -> None:
    """Warn, once, about columns with many values that were not seen in training."""
    if found := coverage.surprising().notes():
        message = "; ".join(note.removeprefix("warning: ") for note in found)
        warnings.warn(UnseenValuesWarning(printable(message)), stacklevel=caller_level())


def warn_of_unseen_validation(coverage: Coverage) -> None:
    """Warn, once, if most values of validation rows were not seen in training."""
    if found := coverage.warnings():
        warnings.warn(UnseenValuesWarning(printable(f"eval_set: {'; '.join(found)}")), stacklevel=caller_level())


def open_checkpoint(folder: PathLike | None, seconds: float) -> Checkpoint | NoCheckpoint:
    """Return the checkpoint in a directory, or one that does nothing."""
    if folder is None:
        return NoCheckpoint()
    return Checkpoint(folder, seconds, lambda text: warnings.warn(text, stacklevel=4))  # 4: the caller of `fit`


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads for n_jobs: None is 1, -1 all cores, -2 all but one.

    >>> threads_of(None), threads_of(3), threads_of(-1) >= 1
    (1, 3, True)
    """
    if n_jobs == 0:
        raise ConfigError("n_jobs must not be 0; None means one thread, -1 all cores", key="n_jobs")
    cores = os.cpu_count() or 1
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def fields_of_columns(fields: Any, n_columns: int) -> Fields | None:
    """Return the fields of the columns of a matrix, given as one name or number per column.

    >>> fields_of_columns(["user", "user", "item"], 3).names
    ('user', 'item')
    """
    if fields is None:
        return None
    given = [value.item() if hasattr(value, "item") else value for value in np.ravel(np.asarray(fields, object))]
    if np.ndim(np.asarray(fields, object)) != 1 or len(given) != n_columns:
        raise ConfigError(f"fields must be {n_columns} names or numbers, one per column; found {len(given)}", "fields")
    wrong = [value for value in given if isinstance(value, bool) or not isinstance(value, str | int)]
    if wrong:
        raise ConfigError(f"fields must be names or whole numbers, found {wrong[0]!r}", key="fields")
    names = list(dict.fromkeys(map(str, given)))
    table = {name: number for number, name in enumerate(names)}
    return Fields.of_ids(names, np.arange(n_columns), np.array([table[str(value)] for value in given], np.int32))


def single_pair(eval_set: Any) -> tuple[Any, Any]:
    """Return the one (X, y) of eval_set."""
    # LightGBM and XGBoost take a list of pairs, so a list of one is accepted too.
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ConfigError("eval_set must be one pair (X, y)", key="eval_set")
    return pair


def wants_to_stop(callbacks: Any, event: Event) -> bool:
    """Call one callback, or several, with an event; return whether any of them returned True."""
    if callbacks is None:
        return False
    several = [callbacks] if callable(callbacks) else list(callbacks)
    answers = [callback(event) for callback in several]  # all are called, whatever the first one says
    return any(answer is True for answer in answers)


def log_notices(events: Iterable[Event]) -> Iterator[Event]:
    """Pass events through; log which rows were held out, what they chose, and what is doubtful about the model."""
    first = ""  # name of the first candidate; of others, only the results count
    for event in events:
        first = first or event.candidate
        if event.level is not None and event.candidate in ("", first):
            for line in event.lines():
                LOGGER.log(event.level, line.removeprefix("warning: ").replace("`", ""))
        yield event
