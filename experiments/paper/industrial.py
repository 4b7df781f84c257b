"""Experiment B: train on seven days of a stream and predict the eighth; AUC against model size."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rafm.checks import effective
from rafm.metrics.evaluation import evaluate
from rafm.model.model import Model
from rafm.options import Options, resolve
from rafm.rows.blocks import join_rows
from rafm.train.dispatch import train_model

from .artefact import Artefact, table
from .budget import Budget
from .lab import Lab
from .stream import DAYS, Stream
from .tasks import Result
from .verdicts import mean_and_deviation

OPTIMIZER = "ftrl"
RANKS = (1, 2, 4, 8)
L2_VALUES = (1e-3, 5e-3, 1e-2, 5e-2)
PASSES = 2


@dataclass(frozen=True)
class SeenEnough:
    """Assign the highest rank that is at most scale * count, and no vector if there is none.

    >>> SeenEnough(0.5)(np.array([1, 2, 9, 100]), (1, 2, 4, 8)).tolist()
    [0, 1, 3, 4]
    """

    scale: float

    def __call__(self, counts: np.ndarray, ranks: Any) -> np.ndarray:
        return np.searchsorted(np.asarray(ranks) / self.scale, counts, side="right")


def stream_run(config: dict[str, Any], folder: Path) -> Result:
    """Train on some days and evaluate on another."""
    training, later = streams_of(config)
    start = time.process_time()
    model = train_model(training, options_of(config))
    seconds = time.process_time() - start
    return {**evaluated(model, later), "train_seconds": seconds}


def streams_of(config: dict[str, Any]) -> tuple[Stream, Stream]:
    """Return the days to train on, and the day to evaluate on."""
    shape = {"rows_per_day": config["rows_per_day"], "seed": config["stream_seed"]}
    return Stream(days=tuple(config["days"]), **shape), Stream(days=(config["judge"],), **shape)


def options_of(config: dict[str, Any]) -> Options:
    """Return the training options of a run."""
    chosen = {
        "model": config["model"],
        "ranks": tuple(config["ranks"]) or None,
        "levels": SeenEnough(config["scale"]),
        "optimizer": config["optimizer"],
        "l2": config["l2"],
        "n_epochs": config["passes"],
        "averaging": False,
        "calibrate": "off",
        "init_scale": 0.01,
        "patience": None,
        "seed": config["seed"],
    }
    return resolve(task="binary", **effective(chosen))


def evaluated(model: Model, later: Stream) -> Result:
    """Return the size of a model and its metrics on a later day."""
    held_out = join_rows([later.block(number) for number in range(later.n_blocks)])
    assert held_out.labels is not None
    metrics = evaluate(model.loss, held_out.labels, model.scores(held_out), np.ones(held_out.n_rows))
    return {"parameters": nonzeros(model), "valid": metrics["log_loss"], "test": metrics}


def nonzeros(model: Model) -> int:
    """Count the nonzero parameters, which a sparse model has to store."""
    found = model.parameters
    return sum(int(np.count_nonzero(part)) for part in (found.bias, found.weights, *found.factors))


def contenders(budget: Budget) -> dict[str, list[dict[str, Any]]]:
    """Return the models of every family, in ascending size."""
    return {
        "LR": [{"model": "lr", "ranks": [], "scale": 1.0}],
        "FM": [{"model": "fm", "ranks": [rank], "scale": 1.0} for rank in RANKS],
        "DiFacto": [{"model": "difacto", "ranks": list(RANKS), "scale": c} for c in budget.stream_scales],
        "RaFM": [{"model": "rafm", "ranks": list(RANKS), "scale": c} for c in budget.stream_scales],
    }


def name_of(each: dict[str, Any]) -> str:
    """Return the name of a model in the table."""
    ranks = ",".join(map(str, each["ranks"]))
    return {"lr": "", "fm": ranks}.get(each["model"], f"{{{ranks}}} c=1/{1 / each['scale']:.0f}")


def figure4(lab: Lab, budget: Budget) -> Artefact:
    """Choose L2 on the seventh day with one seed, then train on seven days and test on the eighth."""
    return stream_artefact(budget, stream_points(lab, budget, {})[0])


def stream_points(lab: Lab, budget: Budget, how: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return size and AUC of all models, and the tasks that were executed; how: added to every task."""
    shared = {**shared_settings(budget), **how}
    models = [(family, each) for family, own in contenders(budget).items() for each in own]
    tries = [  # train on the first six days, validate on the seventh
        {**shared, **each, "l2": l2, "days": list(range(DAYS - 2)), "judge": DAYS - 2, "seed": 0, "stream_seed": 0}
        for _, each in models
        for l2 in (L2_VALUES if each["ranks"] else (0.0,))  # LR has no vectors to penalise
    ]
    losses: dict[str, dict[float, float]] = {}
    for each, done in zip(tries, lab.results(tries)):
        losses.setdefault(f"{each['model']} {each['ranks']} {each['scale']}", {})[each["l2"]] = done["valid"]
    points, finals = [], []
    for family, each in models:
        own = losses[f"{each['model']} {each['ranks']} {each['scale']}"]
        l2, days = min(own, key=own.__getitem__), list(range(DAYS - 1))
        final = {**shared, **each, "l2": l2, "days": days, "judge": DAYS - 1}
        finals += [{**final, "seed": seed, "stream_seed": seed} for seed in budget.stream_seeds]
        points.append({"family": family, "name": name_of(each), "l2": l2})
    results = iter(lab.results(finals))
    for point in points:
        found = [next(results) for _ in budget.stream_seeds]
        point["auc"] = [one["test"]["auc"] for one in found]
        point["parameters"] = int(np.mean([one["parameters"] for one in found]))
    return points, tries + finals


def shared_settings(budget: Budget) -> dict[str, Any]:
    """Return what all tasks have in common."""
    rows = budget.stream_rows_per_day
    return {"kind": "stream", "rows_per_day": rows, "optimizer": OPTIMIZER, "passes": PASSES}


def stream_artefact(budget: Budget, points: list[dict[str, Any]]) -> Artefact:
    """Return the table and figure of sizes and AUC."""
    from .figures import draw_sizes

    unit = points[0]["parameters"]  # LR comes first
    linear = float(np.mean(points[0]["auc"]))
    for point in points:
        point["size"] = point["parameters"] / unit
        point["gain"] = [value - linear for value in point["auc"]]
    lines = [
        [p["family"], p["name"], f"{p['size']:.2f}", mean_and_deviation(p["auc"]), f"{np.mean(p['gain']):+.4f}"]
        for p in points
    ]
    rows = budget.stream_rows_per_day
    text = (
        f"A generated stream of {DAYS} days of {rows:,} rows (`stream.py`), optimiser {OPTIMIZER}, {PASSES} passes; "
        f"L2 is chosen on day {DAYS - 1} after training on the days before, all with the default learning rate; then "
        "models are trained on seven days and tested on the eighth. Size is the number of nonzero parameters "
        f"relative to LR's {unit:,}."
    )
    header = ["model", "ranks", "size / LR", "AUC of day 8", "gain over LR"]
    return Artefact(
        "figure4",
        "Experiment B and Figure 4: an industrial stream",
        {**shared_settings(budget), "stream_seeds": list(budget.stream_seeds), "l2": list(L2_VALUES)},
        points,
        [text, table(header, lines, 2), cheapest_sentence(points)],
        lambda path: draw_sizes(path, points),
    )


def cheapest_sentence(points: list[dict[str, Any]], share: float = 0.95) -> str:
    """Report how small each family can be while keeping most of the best FM's gain over LR."""
    best = max(float(np.mean(p["gain"])) for p in points if p["family"] == "FM")
    if best <= 0:
        return f"No FM gains anything over LR here (at best {best:+.4f}), so sizes cannot be compared."
    smallest = {}
    for family in ("FM", "DiFacto", "RaFM"):
        able = [p["size"] for p in points if p["family"] == family and np.mean(p["gain"]) >= share * best]
        smallest[family] = f"{min(able):.2f} times LR's size" if able else "more than the sizes tried"
    sizes = "; ".join(f"{family} {size}" for family, size in smallest.items())
    return (
        f"To keep {share:.0%} of the best FM's gain in AUC over LR ({best:.4f}), the models need: {sizes}. "
        "The paper has 1.55 for RaFM and about 7 for FM on its own data."
    )
