"""The demo: several models on a generated click log, a table and a picture."""

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
from ..rows.checked import Batch, check_batch
from ..rows.fields import Fields
from ..rows.source import InMemory
from ..train import train
from ..train.events import Finished
from .click_log import ClickLog, make_click_log, write_fields, write_libsvm

N_ROWS = 100_000
SECONDS_PER_ROW = 3e-4  # of one core, all models together
COMPILING = 20  # seconds of a first run
CONTESTANTS: dict[str, dict[str, Any]] = {  # all else by default, for every model
    "linear model": {"model": "lr"},
    "FM, rank 8": {"model": "fm", "ranks": 8},
    "FM, rank 32": {"model": "fm", "ranks": 32},
    "rafm, no option": {},
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
            f"{self.name:17} {loss:9.5f} {area:8.5f} {self.model.n_parameters:11,d} {self.n_bytes:11,d} "
            f"{self.seconds:8.1f}"
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
    """Train all models on a generated log and compare them; rows, models and a picture are written to the folder."""
    out = out or sys.stdout
    log, parts = write_rows(folder, n_rows, seed)
    print(_introduction(log, parts), file=out)
    batches = [check_batch(Batch(p.indptr, p.indices, p.values, log.n_features, p.labels)) for p in parts]
    sources = [InMemory(batch, Fields.of_ranges(log.field_names, log.offsets.tolist())) for batch in batches]
    print(f"\n{'on the test rows':17}  log loss      auc  parameters       bytes  seconds", file=out)
    results = []
    for name in CONTESTANTS:
        results.append(_train_one(name, sources, folder, seed))
        print(results[-1].line(), file=out, flush=True)
    print(f"{'best possible':17} {parts[2].bayes_log_loss:9.5f}   by the true probabilities", file=out)
    picture = Path(folder, "comparison.svg")
    picture.write_text(draw(results))
    print(f"\nRows, models and a picture ({picture.name}) are in {folder}. Try:", file=out)
    print(f"  rafm inspect {folder}/rafm-no-option.rafm", file=out)
    print(f"  rafm explain {folder}/rafm-no-option.rafm {folder}/test.libsvm --rows 3", file=out)
    return results


def _introduction(log: ClickLog, parts: tuple[ClickLog, ...]) -> str:
    counts = np.bincount(parts[0].indices, minlength=log.n_features)
    rare = float((counts[counts > 0] <= 2).mean())
    sizes = ", ".join(f"{len(part):,} {name}" for part, name in zip(parts, ("training", "validation", "test")))
    seconds = COMPILING + SECONDS_PER_ROW * len(parts[0])
    return (
        f"A generated click log: {sizes} rows; fields {', '.join(log.field_names)}.\n"
        f"{(counts > 0).sum():,} features, {rare:.0%} of them seen once or twice; no model has the form of the truth.\n"
        f"Training {len(CONTESTANTS)} models with default settings, about {seconds:.0f} s; less when compiled before."
    )


def _train_one(name: str, sources: list[InMemory], folder: str, seed: int) -> Result:
    training, valid, test = sources[0], sources[1], sources[2].rows
    options = resolve(task="binary", seed=seed, **CONTESTANTS[name])
    start = time.perf_counter()
    *_, last = train(training, options, valid)
    assert isinstance(last, Finished)
    seconds = time.perf_counter() - start
    file = Path(folder, name.lower().replace(", ", "-").replace(" ", "-") + ".rafm")
    n_bytes = save(file, Saved(last.model))
    labels = np.zeros(0, np.float32) if test.labels is None else test.labels
    found = evaluate(last.model.loss, labels, last.model.scores(test), np.ones(test.n_rows))
    return Result(name, last.model, found, n_bytes, seconds)


def draw(results: list[Result]) -> str:
    """Return a picture of test loss against size, as SVG."""
    series = [
        Series(one.name, [one.model.n_parameters], [one.metrics["log_loss"] or 0.0], "marks", style)
        for style, one in enumerate(results, 1)
    ]
    axes = Axis("parameters", is_log=True), Axis("log loss on test rows")
    return chart("Loss of models of a generated click log against their size", *axes, series, style=STYLE)
