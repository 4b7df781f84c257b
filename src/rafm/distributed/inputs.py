"""From a path and options to what a cluster trains on: files, units, encoder, labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ..checks import AUTO, OFF
from ..encode.encoder import TableEncoder
from ..errors import ConfigError, DataValueError
from ..files.terminal import counted
from ..losses import loss_for
from ..options import Options
from ..read.converted.layout import KEY
from ..read.converted.matching import check_match
from ..read.converted.reader import ArrowRows
from ..read.open import TRAINING, ReadOptions, converted_task_and_base
from ..rows.classes import BinaryLabels
from .lanes import hold_out
from .sources import (
    UNIT_ROWS,
    Groups,
    Source,
    all_batches,
    find_classes,
    find_files,
    find_units,
    is_rows_of_ids,
    refuse_two_targets,
)

UNITS, LEAST_UNIT_ROWS = 64, 64  # small data are divided into 64 units, of at least 64 rows each
LEAST_HELD = 4  # units to hold out of


class Input(NamedTuple):
    """Rows, and what the model file says of them: encoder, labels, number of ids (None: the largest id + 1)."""

    source: Source
    encoder: TableEncoder | None = None
    classes: list[Any] | None = None
    n_inputs: int | None = None


def open_training(path: str, files: ReadOptions, report: Callable[[str], Any] | None = None) -> Input:
    """Return the training rows of a path or URI; fit an encoder if they are a table."""
    source = _open(path, files.task)
    schema = Groups(source.files[0]).schema
    if (schema.metadata or {}).get(KEY) is not None:
        return _open_converted(path, source, files)
    encoder = None
    if not is_rows_of_ids(schema):
        encoder = TableEncoder.learn(all_batches(source), files.table_spec("parquet"), report)
        refuse_two_targets(encoder)
        source = replace(source, encoder=encoder, fields=encoder.fields())
    elif files.spec is not None:
        raise ConfigError(f"--label and --column are for tables, but {path} has rows of ids: drop them", key="label")
    if loss_for(files.task).is_classification:
        source = replace(source, classes=find_classes(source, files.labels.chosen if files.labels else None))
    classes = None if source.classes is None else list(source.classes)
    return Input(source, encoder, classes, None if encoder is None else encoder.n_features)


def _open(path: str, task: str) -> Source:
    n_rows = sum(rows for file in find_files(path) for rows in Groups(file).rows())
    unit_rows = min(UNIT_ROWS, max(LEAST_UNIT_ROWS, n_rows // UNITS))
    return Source(*find_units(path, unit_rows), unit_rows, task)


def _open_converted(path: str, source: Source, files: ReadOptions) -> Input:
    """Return the rows of a converted file, with what it says of them; its labels are stored as 0 and 1."""
    if len(source.files) > 1 or "://" in path:
        raise ConfigError(f"{path}: a converted file must be a single file on a disk that all machines share", "ray")
    converted_task_and_base(path, "arrow", files.task, files.index_base, ("task", "index_base"))
    rows = ArrowRows(path, given_fields=files.fields)
    return Input(replace(source, fields=rows.fields), rows.encoder, rows.conversion.classes, rows.n_features)


def open_like(path: str, like: Input, index_base: int = 0) -> Source:
    """Return rows to be scored by a model that was trained on others."""
    own = _open(path, like.source.task)
    schema = Groups(own.files[0]).schema
    if (schema.metadata or {}).get(KEY) is not None:
        labels = BinaryLabels.known(like.classes) if loss_for(own.task).is_classification else None
        check_match(ArrowRows(path), own.task, index_base, like.encoder, TRAINING, labels)
        return own
    if is_rows_of_ids(schema):
        return replace(own, classes=like.source.classes)
    if like.encoder is None:
        raise DataValueError("the model expects rows of ids, but this is a table", path=path)
    classes = None if like.classes is None else tuple(like.classes)
    return replace(own, encoder=like.encoder, classes=classes)


def choose_units(source: Source, options: Options, has_valid: bool) -> tuple[list[int], list[int]]:
    """Return the units to train on, and those held out for validation: a share of all, by seed."""
    share, n_units = options.validation_fraction, len(source.units)
    if has_valid or not share:
        return list(range(n_units)), []
    if n_units < LEAST_HELD:
        raise ConfigError(
            f"{counted(source.n_rows, 'row')} of data: too few to hold some out on a cluster. Give --valid FILE, or "
            "--valid-share 0",
            key="valid",
        )
    return hold_out(n_units, share, options.seed)


def check_options(options: Options) -> None:
    """Refuse options that a cluster has no use for."""
    refused = {
        f"--task {options.loss.task}": options.loss.is_pairwise,
        f"--model {options.model}": not options.family.has_common_vectors,
        f"--optimizer {options.optimizer.name}": options.optimizer.is_sampler,
        "--ranks auto": options.measured,
        "--learning-rate auto and --l2 auto": bool(options.searched),
        "--rate-drops": bool(options.rate_drops),
        "--keep-state": options.keep_state,
        "--calibrate on": options.calibrate == "on",
        f"--head {options.head}": options.head not in (AUTO, OFF),
        "--step-rows 0": options.step_rows == 0,
        "one level per feature": options.levels is not None and not callable(options.levels),
    }
    for what, is_given in refused.items():
        if is_given:
            raise ConfigError(f"{what} cannot be used on a cluster (--ray): train in one process, or drop it", "ray")
