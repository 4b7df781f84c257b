"""`rafm train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .arguments import DataPath, Duplicates, Format, Json, MaxFeatures, MaxLineBytes, print_json, reading, whole_numbers


def train(
    data: DataPath,
    out: Annotated[str, typer.Option(metavar="MODEL", help="Where to write the model.")],
    valid: Annotated[str | None, typer.Option(metavar="FILE", help="Rows to choose the best epoch by.")] = None,
    task: Annotated[str, typer.Option(help="binary or regression.")] = "binary",
    model: Annotated[str, typer.Option(help="rafm, fm, lr, difacto or mrma.")] = "rafm",
    ranks: Annotated[str, typer.Option(help="Rising ranks; one for fm.")] = "8,32,128",
    rank_scale: Annotated[float, typer.Option(help="A feature seen n times gets the rank nearest to C n.")] = 1.0,
    thresholds: Annotated[str | None, typer.Option(help="Counts from which the next rank begins, instead.")] = None,
    update: Annotated[str, typer.Option(help="joint, or algorithm1 for the paper to the letter.")] = "joint",
    optimizer: Annotated[str, typer.Option(help="adagrad or sgd.")] = "adagrad",
    learning_rate: Annotated[float | None, typer.Option(help="0.2 for clicks, 0.1 for ratings unless given.")] = None,
    l2: Annotated[float | None, typer.Option(help="Factors: 0.003 for clicks, 0.1 for ratings unless given.")] = None,
    l2_weights: Annotated[float, typer.Option(help="Linear weights.")] = 0.0,
    epochs: Annotated[int, typer.Option(help="At most so many passes over the data.")] = 30,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without improvement.")] = 3,
    threads: Annotated[int, typer.Option(help="Accepted; training uses one core. The model never depends on it.")] = 1,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal models.")] = 0,
    index_base: Annotated[int, typer.Option(help="The smallest feature id of the files, 0 or 1.")] = 0,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    max_features: MaxFeatures = None,
    max_line_bytes: MaxLineBytes = None,
    json: Json = False,
) -> None:
    """Train a model and save it. Shows the plan of ranks first, then one line per epoch."""
    from ..options import resolve
    from ..ranks import Thresholds

    given = None if thresholds is None else Thresholds(whole_numbers(thresholds, "thresholds"))
    options = resolve(
        task=task,
        model=model,
        ranks=whole_numbers(ranks, "ranks") if model != "lr" else None,
        rank_scale=rank_scale,
        levels=given,
        update=update,
        optimizer=optimizer,
        learning_rate=learning_rate,
        l2=l2,
        l2_weights=l2_weights,
        n_epochs=epochs,
        patience=patience,
        seed=seed,
    )
    _check_folder(out)
    files = reading(format, duplicates, max_features, max_line_bytes) | {"index_base": index_base}
    report = _run(data, valid, out, options, files, sys.stderr if json else sys.stdout)
    if json:
        print_json(report)
    else:
        print(f"saved {out}: {report['parameters']} parameters, {report['model_bytes']} bytes")


def _check_folder(out: str) -> None:
    """Refuse an impossible output before the training, not after it."""
    if not Path(out).parent.is_dir():
        raise FileNotFoundError(2, "the folder for the model does not exist", str(Path(out).parent))
    if Path(out).is_dir():
        raise IsADirectoryError(21, "is a folder, not a place for a model file", out)


def _run(data: str, valid: str | None, out: str, options: Any, files: dict[str, Any], stream: Any) -> dict[str, Any]:
    import time

    from ..progress import show_events
    from ..storage import Saved, save
    from ..trainer import Finished
    from ..trainer import train as train_events

    start = time.perf_counter()
    rows = _read(data, options, files)
    held_out = None if valid is None else _read(valid, options, files, rows.n_features)
    for event in show_events(train_events(rows, options, held_out), options, stream=stream):
        last = event
    assert isinstance(last, Finished)
    fitted = last.model
    size = save(out, Saved(fitted, index_base=files["index_base"]))
    return {
        "model": fitted.plan.family,
        "task": fitted.loss.task,
        "parameters": fitted.n_parameters,
        "model_bytes": size,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "history": fitted.history,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _read(path: str, options: Any, files: dict[str, Any], n_features: int | None = None) -> Any:
    """Read a file whole; unknown ids of validation rows are left to the model, which scores them 0."""
    from dataclasses import replace

    from ..batch import check_batch
    from ..data import read_rows
    from ..errors import DataValueError

    rows = read_rows(path, task=options.loss.task, **files)
    if rows.n_rows == 0:
        raise DataValueError("no rows", path=path)
    if options.loss.task == "binary" and rows.labels is not None and rows.labels.min() == rows.labels.max():
        print(f"warning: {path}: all labels are the same", file=sys.stderr)
    return check_batch(replace(rows, n_features=max(rows.n_features, n_features or 0)))
