"""Execute single tasks. A task is a kind and JSON values; its result is a dict of JSON values.

Times are CPU seconds of one thread, under names that end in `seconds`; nothing else differs when a run is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rafm.checks import effective
from rafm.errors import DivergenceError
from rafm.families import family_of
from rafm.inspect.report import histogram
from rafm.inspect.sketch import Frequencies
from rafm.metrics.evaluation import evaluate
from rafm.model.model import Model
from rafm.options import Options, resolve
from rafm.plan.ranks import NearestRank, describe_plan
from rafm.read.fields import read_fields
from rafm.rows.checked import Batch, CheckedRows, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import EpochFinished, Finished

from ..datasets.prepared import DataSet, load_prepared

CLIP = 1e-4  # the authors' scripts clip probabilities to [1e-4, 1 - 1e-4]
RATES = {"binary": 0.2, "regression": 0.1}  # usual learning rates
SPREADS = {"binary": 0.03, "regression": 0.01}  # initial spreads of the averaged recipe
LATER: dict[str, Any] = {"rate": None, "recipe": "paper", "field_weights": False}
Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training run on one data set, or on its first n_columns columns.

    With protocol "authors", features are counted over training, validation and test rows, probabilities are clipped,
    and ratings are clamped to the range of the test labels, as in the authors' scripts. rate: None for the usual one.
    recipe: "paper", or "averaged": averaging over epochs, a larger initial spread for clicks, and one drop of the rate.
    """

    data: str
    model: str
    ranks: tuple[int, ...] = ()
    rank_scale: float = 1.0
    update: str = "joint"
    l2: float = 0.0
    seed: int = 0
    epochs: int = 30
    patience: int = 3
    n_columns: int | None = None
    protocol: str = "ours"
    rate: float | None = None
    recipe: str = "paper"
    field_weights: bool = False

    @property
    def family(self) -> str:
        """The name of the model in tables."""
        names = {"lr": "LR", "fm": "FM", "difacto": "DiFacto", "mrma": "MRMA", "rafm": "RaFM", "ffm": "FFM"}
        more = (" (Algorithm 1)" if self.update == "algorithm1" else "") + ("+t" if self.field_weights else "")
        return names[self.model] + more

    @property
    def rank_text(self) -> str:
        """The ranks and, if it is not the paper's, the scale c of the rank rule.

        >>> Run("frappe", "rafm", (64, 512), rank_scale=2).rank_text
        '{64,512} c=2'
        """
        ranks = ",".join(map(str, self.ranks))
        text = ranks if self.model in ("fm", "ffm", "lr") else f"{{{ranks}}}"
        return text + (f" c={self.rank_scale:g}" if self.rank_scale != 1 else "")

    @property
    def uses_fields(self) -> bool:
        """Whether it trains with the fields of its data set."""
        return self.field_weights or family_of(self.model).has_field_vectors

    @property
    def label(self) -> str:
        return f"{self.family} {self.rank_text}".strip()

    def task(self) -> dict[str, Any]:
        """Return the run as a task; later additions are left out where unused, so that keys stay what they were."""
        values = {"kind": "train", **asdict(self), "ranks": list(self.ranks), "rank_scale": float(self.rank_scale)}
        return {name: value for name, value in values.items() if name not in LATER or value != LATER[name]}


@lru_cache(maxsize=2)
def rows_of(folder: Path, data: str, n_columns: int | None) -> DataSet:
    """Read a data set; the last two are cached."""
    return load_prepared(folder, data, n_columns)


@lru_cache(maxsize=2)
def fields_of(folder: Path, data: str) -> Fields:
    """Read the fields of a data set."""
    return read_fields(folder / data / "features.tsv.gz")


def options_of(run: Run, found: DataSet) -> Options:
    """Return the training options of a run."""
    levels = None
    if run.protocol == "authors" and run.ranks:
        counts = np.zeros(found.parts[0].n_features, np.int64)
        for part in found.parts:
            counts += np.bincount(part.indices, minlength=counts.size)  # test rows included, as the authors do
        levels = NearestRank(run.rank_scale)(counts, run.ranks)
    chosen = dict(
        model=run.model,
        ranks=run.ranks or None,
        rank_scale=run.rank_scale,
        levels=levels,
        update=run.update,
        l2=run.l2,
        n_epochs=run.epochs,
        calibrate="off",  # as in the paper
        patience=run.patience,
        seed=run.seed,
        learning_rate=RATES[found.task] if run.rate is None else run.rate,
        field_weights="on" if run.field_weights else "off",
        **recipe_of(run.recipe, found.task),
    )
    return resolve(task=found.task, **effective(chosen))


def recipe_of(name: str, task: str) -> dict[str, Any]:
    """Return the options of a recipe."""
    if name == "paper":
        return {"averaging": False, "init_scale": 0.01, "rate_drops": 0}
    return {"averaging": True, "init_scale": SPREADS[task], "rate_drops": 1}


def evaluate_model(model: Model, batch: CheckedRows, protocol: str = "ours") -> dict[str, float | None]:
    """Return the metrics of a model on labelled rows."""
    assert batch.labels is not None
    scores = model.scores(batch)
    if protocol == "authors":
        scores = clip(scores, model.loss.task, batch.labels)
    return evaluate(model.loss, batch.labels, scores, np.ones(batch.n_rows))


def clip(scores: np.ndarray, task: str, labels: np.ndarray) -> np.ndarray:
    """Clip scores to probabilities between 1e-4 and 1 - 1e-4, or to ratings within the range of the labels.

    >>> clip(np.array([50.0, 0.0]), "binary", np.zeros(2)).round(2)
    array([9.21, 0.  ])
    """
    limit = np.log1p(-CLIP) - np.log(CLIP)  # log odds of 1 - CLIP
    low, high = (-limit, limit) if task == "binary" else (float(labels.min()), float(labels.max()))
    return np.clip(scores, low, high)


def train_run(config: dict[str, Any], folder: Path) -> Result:
    """Train a model and evaluate its best epoch; a run that diverges has no loss."""
    run = Run(**{**config, "ranks": tuple(config["ranks"])})
    found = rows_of(folder, run.data, run.n_columns)
    training, valid, test = found.parts
    source = InMemory(training, fields_of(folder, run.data)) if run.uses_fields else training
    options = options_of(run, found)
    start = time.process_time()
    try:
        *_, last = run_recipe(source, options, valid)
    except DivergenceError as error:
        return {"diverged": str(error), "valid": None}
    train_seconds = time.process_time() - start
    assert isinstance(last, Finished)
    model = last.model  # of the best epoch by validation loss
    start = time.process_time()
    metrics = evaluate_model(model, test, run.protocol)
    history = [entry[f"valid_{model.loss.metrics[0]}"] for entry in model.history]
    return {
        "parameters": model.n_parameters,
        "factors_per_row": factors_per_row(model),
        "valid": history[model.best_epoch - 1],
        "test": metrics,
        "best_epoch": model.best_epoch,
        "history": history,
        "pass_seconds": train_seconds / len(history),
        "test_seconds": time.process_time() - start,
    }


def factors_per_row(model: Model) -> float:
    """Return the mean number of factors that a row touches, to which time should be proportional."""
    lines = describe_plan(model.plan, model.counts, model.n_rows)[:-1]
    return round(sum(line["factors_per_row"] for line in lines), 3)


def low_curve(config: dict[str, Any], folder: Path) -> Result:
    """Return the validation loss of B_{1,1} after each epoch.

    Training is deterministic, so a run of n epochs is the beginning of one of n + 1.
    """
    run = Run(**{**config, "ranks": tuple(config["ranks"])})
    found = rows_of(folder, run.data, run.n_columns)
    training, valid, _ = found.parts
    assert valid.labels is not None
    losses = []
    for epochs in range(1, run.epochs + 1):
        model = train_model(training, options_of(replace(run, epochs=epochs), found))
        scores = model.scores(valid, level=1)
        losses.append(evaluate(model.loss, valid.labels, scores, np.ones(valid.n_rows))[model.loss.metrics[0]])
    return {"history": losses}


def occurrences(config: dict[str, Any], folder: Path) -> Result:
    """Return a histogram of feature counts in the training rows."""
    found = count_rows([rows_of(folder, config["data"], None).parts[0]])
    bins = histogram(Frequencies(*np.unique(found.counts, return_counts=True)))
    return {"rows": found.rows, "features": int(found.counts.size), "bins": [list(line) for line in bins]}


def time_pass(training: CheckedRows, options: Options) -> float:
    """Return the CPU seconds of the fastest epoch."""
    seconds, start = [], time.process_time()
    for event in run_recipe(training, options):
        now = time.process_time()
        if isinstance(event, EpochFinished):
            seconds.append(now - start)
        start = now  # other events restart the clock, so that planning does not count
    return min(seconds)


def warm_up() -> None:
    """Train on a few rows, so that times exclude compiling and loading kernels."""
    ids, labels = np.array([0, 1, 1, 2]), np.array([0.0, 1.0])
    rows = check_batch(Batch(np.array([0, 2, 4]), ids, np.ones(4, np.float32), 3, labels))
    for model in ("rafm", "mrma"):
        train_model(rows, resolve(task="binary", model=model, ranks=(2, 4), n_epochs=1), rows)


def kinds() -> dict[str, Callable[[dict[str, Any], Path], Result]]:
    """Return the function of each kind of task."""
    # Imported here: these modules import this one.
    from .complexity import measure
    from .industrial import stream_run
    from .large import measured_sizes, pruned_sizes
    from .sampling import sampled_run

    return {
        "train": train_run,
        "low_curve": low_curve,
        "occurrences": occurrences,
        "complexity": measure,
        "stream": stream_run,
        "measured": measured_sizes,
        "pruned": pruned_sizes,
        "sampled": sampled_run,
    }


def execute(task: dict[str, Any], folder: Path) -> Result:
    """Execute a task."""
    config = dict(task)
    return kinds()[config.pop("kind")](config, folder)
