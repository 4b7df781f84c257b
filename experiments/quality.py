"""How good are LR, FM, DiFacto, MRMA and RaFM on public data when each one's L2 is chosen on validation rows?

    RAFM_DATA=folder python -m experiments.quality      writes quality.json and quality.md beside this file

The folder holds <name>/<name>.{train,validation,test}.libfm.gz, with ids from 0; see README.md. A single thread.
Within a data set all models share the grid of L2, the number of epochs and the patience; L2 is that of least validation
loss, by the first seed. The other seeds train with it again and show how much of a difference is luck: their column is
the mean and standard deviation of the first test metric over all seeds. Seconds are CPU time of the first seed's
training, compiled before.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rafm.checks import effective
from rafm.metrics.evaluation import evaluate
from rafm.model.model import Model
from rafm.options import resolve
from rafm.read.open import read_rows
from rafm.rows.checked import Batch, check_batch
from rafm.train.dispatch import train_model

SEEDS, EPOCHS, HERE = (0, 1, 2, 3), 30, Path(__file__).parent
PARTS = ("train", "validation", "test")
GRIDS = {"binary": (1e-3, 5e-3, 1e-2, 5e-2), "regression": (0.01, 0.05, 0.1, 0.5)}  # the paper's, where it matters
PATIENCE = {"binary": 3, "regression": 5}
HEADER = ("model", "ranks", "parameters", "L2", "valid", "test", "test 2", "epoch", "seconds", "seeds")


@dataclass(frozen=True)
class Contender:
    """A model in the table; `more` are further choices of training."""

    model: str
    ranks: tuple[int, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        extras = [f"c={self.more['rank_scale']:g}"] if "rank_scale" in self.more else []
        return " ".join([self.model, *extras, *([self.more["update"]] if "update" in self.more else [])])


@dataclass(frozen=True)
class Study:
    """One data set, or its first columns, and who competes on it."""

    title: str
    data: str
    task: str
    contenders: tuple[Contender, ...]
    n_columns: int | None = None


@dataclass(frozen=True)
class Result:
    """One trained model: what it cost and how well it does. The metrics are log loss and AUC, or RMSE and MAE."""

    n_parameters: int
    l2: float
    valid: float
    best_epoch: int
    seconds: float
    test: dict[str, float | None]
    test_by_seed: list[float]

    @property
    def spread(self) -> str:
        return f"{np.mean(self.test_by_seed):.4f} ± {np.std(self.test_by_seed, ddof=1):.4f}"


def fm(*ranks: int) -> Iterator[Contender]:
    """Yield a plain FM of each rank."""
    return (Contender("fm", (rank,)) for rank in ranks)


WIDE, TAGS, RATINGS = (64, 512), (8, 32, 128, 512), (8, 32)
STUDIES = (
    Study(
        "frappe",
        "frappe",
        "binary",
        (
            Contender("lr"),
            *fm(64, 256, 512),
            Contender("difacto", WIDE, {"rank_scale": 2}),
            Contender("rafm", WIDE, {"rank_scale": 2}),
            Contender("rafm", WIDE, {"rank_scale": 4}),
            Contender("rafm", (32, 256), {"update": "algorithm1"}),
        ),
    ),
    Study(
        "ml10m-tag-popularity",
        "ml10m-tag-popularity",
        "binary",
        (*fm(*TAGS), Contender("difacto", TAGS), Contender("rafm", TAGS)),
    ),
    Study("ml-1m", "ml-1m", "regression", (*fm(32), Contender("rafm", RATINGS))),
    Study(
        "ml-1m, user and movie",
        "ml-1m",
        "regression",
        (*fm(32), Contender("difacto", RATINGS), Contender("mrma", RATINGS), Contender("rafm", RATINGS)),
        n_columns=2,
    ),
)


# ---- Data


def read_part(path: Path, task: str) -> Batch:
    """Read a file of rows; n_features is what this file shows."""
    return read_rows(path, task=task)


def first_columns(batch: Batch, n_columns: int) -> Batch:
    """Keep the first entries of every row, which are those of the first columns: ids rise with the columns."""
    place = np.arange(batch.indices.size) - np.repeat(batch.indptr[:-1], np.diff(batch.indptr))
    kept, lengths = place < n_columns, np.minimum(np.diff(batch.indptr), n_columns)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Batch(indptr, batch.indices[kept], batch.values[kept], batch.n_features, batch.labels)


def read_parts(folder: Path, study: Study) -> list[Batch]:
    """Return checked rows for training, validation and test."""
    paths = [folder / study.data / f"{study.data}.{part}.libfm.gz" for part in PARTS]
    batches = [read_part(path, study.task) for path in paths]
    if study.n_columns is not None:
        batches = [first_columns(batch, study.n_columns) for batch in batches]
    n_features = max(batch.n_features for batch in batches)
    return [check_batch(Batch(b.indptr, b.indices, b.values, n_features, b.labels)) for b in batches]


# ---- Training


def run(contender: Contender, study: Study, l2: float, parts: list[Batch], seed: int, epochs: int = EPOCHS) -> Model:
    """Train once; return the model of the best epoch."""
    chosen = dict(
        model=contender.model,
        ranks=contender.ranks,
        l2=l2,
        n_epochs=epochs,
        patience=PATIENCE[study.task],
        averaging=False,  # these two as when the tables were made
        init_scale=0.01,
        seed=seed,
        **contender.more,
    )
    options = resolve(task=study.task, **effective(chosen))
    return train_model(parts[0], options, parts[1])


def judge(model: Model, batch: Batch) -> dict[str, float | None]:
    """Return the metrics of a model on rows with labels."""
    return evaluate(model.loss, batch.labels, model.scores(batch), np.ones(batch.n_rows))


def first_metric(model: Model, batch: Batch) -> float:
    """Return the metric that early stopping watches."""
    return next(iter(judge(model, batch).values()))


def choose(contender: Contender, study: Study, parts: list[Batch]) -> tuple[float, dict[str, float]]:
    """Train with each L2; return that of least validation loss, and the validation loss of all."""
    grid = GRIDS[study.task] if contender.model != "lr" else (0.0,)
    losses = {l2: first_metric(run(contender, study, l2, parts, SEEDS[0]), parts[1]) for l2 in grid}
    return min(losses, key=losses.get), {f"{l2:g}": loss for l2, loss in losses.items()}


def compete(contender: Contender, study: Study, parts: list[Batch]) -> tuple[Result, dict[str, float]]:
    """Choose L2, then train with every seed; return the result, and the validation loss of every L2."""
    l2, losses = choose(contender, study, parts)
    start = time.process_time()
    model = run(contender, study, l2, parts, SEEDS[0])
    seconds = time.process_time() - start
    others = [first_metric(run(contender, study, l2, parts, seed), parts[2]) for seed in SEEDS[1:]]
    test, valid = judge(model, parts[2]), first_metric(model, parts[1])
    by_seed = [next(iter(test.values())), *others]
    return Result(model.n_parameters, l2, valid, model.best_epoch, seconds, test, by_seed), losses


# ---- Tables


def cells(contender: Contender, result: Result) -> list[str]:
    """Return one line of a table."""
    metrics = [f"{value:.4f}" for value in (result.valid, *result.test.values())]
    ranks, size = ", ".join(map(str, contender.ranks)), f"{result.n_parameters / 1e6:.3f} M"
    end = [str(result.best_epoch), f"{result.seconds:.1f}", result.spread]
    return [contender.label, ranks, size, f"{result.l2:g}", *metrics, *end]


def text_line(line: Sequence[str]) -> str:
    """Return one line of a table as plain text."""
    return f"{line[0]:18} {line[1]:16}" + "".join(f"{cell:>11}" for cell in line[2:-1]) + f"   {line[-1]}"


def markdown(studies: list[tuple[Study, list[list[str]]]]) -> str:
    """Return the tables as a page."""
    text = ["# Quality\n", "Made by `RAFM_DATA=... python -m experiments.quality`; README.md says what is what.\n"]
    for study, lines in studies:
        names = ("log loss", "AUC") if study.task == "binary" else ("RMSE", "MAE")
        header = [*HEADER[:4], f"valid {names[0]}", f"test {names[0]}", f"test {names[1]}", *HEADER[7:9]]
        header.append(f"test {names[0]}, {len(SEEDS)} seeds")
        grid = ", ".join(f"{l2:g}" for l2 in GRIDS[study.task])
        text.append(f"## {study.title}\n")
        text.append(f"L2 out of {grid}; at most {EPOCHS} epochs, patience {PATIENCE[study.task]}.\n")
        text.append("\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * 2 + ["--:"] * 8, *lines)))
        text.append("")
    return "\n".join(text)


def study_all(folder: Path) -> Iterator[tuple[Study, Contender, Result, dict[str, float]]]:
    """Yield what each contender reached, study by study."""
    for study in STUDIES:
        parts = read_parts(folder, study)
        for contender in study.contenders:
            yield study, contender, *compete(contender, study, parts)


def main() -> None:
    """Run all studies, print a line per model and write both files."""
    tables: dict[str, tuple[Study, list[list[str]]]] = {}
    record = []
    for study, contender, result, losses in study_all(Path(os.environ["RAFM_DATA"])):
        if study.title not in tables:
            print(f"\n{study.title}\n{text_line(HEADER)}")
        line = cells(contender, result)
        tables.setdefault(study.title, (study, []))[1].append(line)
        print(text_line(line), flush=True)
        record.append({"data": study.title, **asdict(contender), **asdict(result), "valid_by_l2": losses})
    (HERE / "quality.json").write_text(json.dumps(record, indent=1) + "\n")
    (HERE / "quality.md").write_text(markdown(list(tables.values())))


if __name__ == "__main__":
    main()
