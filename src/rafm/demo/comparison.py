"""The demo: several models on a generated click log, a table and a chart."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..charts import STYLE, Axis, Series, chart
from ..metrics.evaluation import evaluate
from ..model.file import Saved, save
from ..model.model import Model
from ..options import resolve
from ..rows.blocks import take_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.fields import Fields
from ..rows.source import InMemory
from ..train import train
from ..train.dispatch import train_model
from ..train.events import Finished
from ..train.progress import show_events
from .click_log import ClickLog, make_click_log, write_fields, write_libsvm

N_ROWS = 300_000
SMALL = {"ranks": (2, 8, 32), "rank_scale": 0.25}
CONTESTANTS: dict[str, dict[str, Any]] = {  # all else by default, for every model
    "LR": {"model": "lr"},
    "FM 8": {"model": "fm", "ranks": 8},
    "FM 32": {"model": "fm", "ranks": 32},
    "FM 128": {"model": "fm", "ranks": 128},
    "DiFacto 2,8,32": {"model": "difacto", **SMALL},
    "RaFM 2,8,32": {"model": "rafm", **SMALL},
    "measured": {"ranks": "auto"},
    "default": {},
}


@dataclass(frozen=True)
class Result:
    """Test result of one model."""

    name: str
    model: Model
    metrics: dict[str, float | None]
    n_bytes: int
    seconds: float

    def line(self) -> str:
        """Return one line of the comparison table."""
        loss, area = self.metrics["log_loss"], self.metrics["auc"]
        return (
            f"{self.name:15} {loss:9.5f} {area:8.5f} {self.model.n_parameters:11,d} {self.n_bytes:11,d} "
            f"{self.model.best_epoch:6d} {self.seconds:8.1f}"
        )


def write_rows(folder: str, n_rows: int = N_ROWS, seed: int = 0) -> tuple[ClickLog, tuple[ClickLog, ...]]:
    """Write a generated log to train.libsvm, valid.libsvm, test.libsvm and fields.tsv; return the log and its parts."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    log = make_click_log(n_rows, seed)
    parts = log.split((0.8, 0.1, 0.1), seed)
    for part, name in zip(parts, ("train", "valid", "test")):
        write_libsvm(Path(folder, f"{name}.libsvm"), part)
    write_fields(Path(folder, "fields.tsv"), log)
    return log, parts


def run_demo(folder: str, n_rows: int = N_ROWS, seed: int = 0, out: TextIO | None = None) -> list[Result]:
    """Train all models on a generated log and compare them; rows, models and chart are written to the folder."""
    out = out or sys.stdout
    log, parts = write_rows(folder, n_rows, seed)
    print(_introduction(log, parts), file=out)
    batches = [check_batch(Batch(p.indptr, p.indices, p.values, log.n_features, p.labels)) for p in parts]
    sources = [InMemory(batch, Fields.of_ranges(log.field_names, log.offsets.tolist())) for batch in batches]
    print(f"Kernels ready after {_compile(batches[0], seed):.1f} s; compiled code is kept for the next run.", file=out)
    results = [_train_one(name, sources, folder, seed, out) for name in CONTESTANTS]
    print("\nmodel            log loss      auc  parameters       bytes   kept  seconds", file=out)
    print("\n".join(result.line() for result in results), file=out)
    # The log loss of the true probabilities.
    print(f"{'best possible':15} {parts[2].bayes_log_loss:9.5f}", file=out)
    picture = Path(folder, "comparison.svg")
    draw(results, picture)
    print(f"figure: {picture}", file=out)
    return results


def _compile(rows: CheckedRows, seed: int) -> float:
    """Train on a few rows, so that training times exclude compilation; return the seconds it took."""
    start = time.perf_counter()
    few = take_rows(rows, 0, min(64, rows.n_rows))
    train_model(few, resolve(task="binary", ranks=(2, 4), n_epochs=1, seed=seed), few)
    return time.perf_counter() - start


def _introduction(log: ClickLog, parts: tuple[ClickLog, ...]) -> str:
    counts = np.bincount(parts[0].indices, minlength=log.n_features)
    rare = float((counts[counts > 0] <= 2).mean())
    sizes = ", ".join(f"{len(part):,} {name}" for part, name in zip(parts, ("training", "validation", "test")))
    return (
        f"A generated click log: {sizes} rows; fields {', '.join(log.field_names)}.\n"
        f"{(counts > 0).sum():,} features, {rare:.0%} of them seen once or twice; no model has the form of the truth."
    )


def _train_one(name: str, sources: list[InMemory], folder: str, seed: int, out: TextIO) -> Result:
    training, valid, test = sources[0], sources[1], sources[2].rows
    options = resolve(task="binary", seed=seed, **CONTESTANTS[name])
    print(f"\n{name}", file=out)
    start = time.perf_counter()
    for event in show_events(train(training, options, valid), options, stream=out):
        last = event
    assert isinstance(last, Finished)
    seconds = time.perf_counter() - start
    file = Path(folder, name.lower().replace(" ", "-").replace(",", "-") + ".rafm")
    n_bytes = save(file, Saved(last.model))
    labels = np.zeros(0, np.float32) if test.labels is None else test.labels
    found = evaluate(last.model.loss, labels, last.model.scores(test), np.ones(test.n_rows))
    return Result(name, last.model, found, n_bytes, seconds)


def draw(results: list[Result], path: Path) -> None:
    """Write a chart of test loss against size as SVG."""
    families: dict[str, list[Result]] = {}
    for result in results[1:]:  # without the linear model, which is far off and would compress the scale
        families.setdefault(result.name.split()[0], []).append(result)
    series = []
    for style, group in enumerate(families.values(), 1):
        names = [result.name for result in group]
        sizes, losses = zip(*((result.model.n_parameters, result.metrics["log_loss"] or 0.0) for result in group))
        series.append(Series(", ".join(names), sizes, losses, "marks", style, names))
    title = f"Test loss against size (LR: {results[0].metrics['log_loss']:.3f})"
    axes = Axis("parameters", is_log=True), Axis("test log loss")
    path.write_text(chart(title, *axes, series, style=STYLE + "svg{background:#fff}"), encoding="utf-8")
