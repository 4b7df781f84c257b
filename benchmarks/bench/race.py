"""How long does it take from a text file to a given validation loss, for rafm and every installed peer?

A generated click log with a known truth is written in every contestant's own format. One run is one process that
imports its library, reads the text, trains for some epochs and scores the validation rows; it is timed from the import
to the probabilities. For each setting, the number of epochs is doubled until the loss rises or the contestant's time is
over. The target is the loss that all contestants reach: the best loss of the weakest one that beats a constant. The run
with which each contestant reaches it first is then repeated, with one thread and with two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .budget import Budget
from .child import call
from .clock import now
from .contestants import CONTESTANTS, SETTINGS, THREADED, library_of

Point = dict[str, Any]  # settings, epochs, loss, elapsed, cpu, peak


def write_files(folder: Path, n_rows: int, seed: int = 1) -> dict[str, Any]:
    """Write training and validation rows in the format of every contestant; return their statistics."""
    import numpy as np

    from rafm.demo.click_log import make_click_log, write_libsvm

    log = make_click_log(n_rows, seed)
    train, valid = log.split((0.8, 0.2), seed)
    for name, part in (("train", train), ("valid", valid)):
        libsvm = folder / f"{name}.libsvm"
        write_libsvm(libsvm, part)
        lines = [line.split(" ") for line in libsvm.read_text().splitlines()]
        marks = {"0": "-1", "1": "1"}  # Vowpal Wabbit's labels
        vw = (f"{marks[label]} |a {' '.join(token[:-2] for token in tokens)}\n" for label, *tokens in lines)
        (folder / f"{name}.vw").write_text("".join(vw))
        ffm = (f"{label} {' '.join(f'{f}:{t}' for f, t in enumerate(tokens))}\n" for label, *tokens in lines)
        (folder / f"{name}.libffm").write_text("".join(ffm))
    valid.labels.astype(np.float32).tofile(folder / "labels.f4")
    return {
        "training_rows": len(train),
        "validation_rows": len(valid),
        "features": log.n_features,
        "megabytes": (folder / "train.libsvm").stat().st_size / 1e6,
        "constant_loss": _entropy(float(valid.labels.mean())),
        "best_possible_loss": valid.bayes_log_loss,
    }


def _entropy(rate: float) -> float:
    """Return the log loss of predicting the click rate for every row."""
    return -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))


def run_once(contestant: str, folder: str, epochs: int, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Run one contestant in this process; return its loss and time."""
    start = now()  # before imports, which count
    probabilities = CONTESTANTS[contestant](Path(folder), epochs, threads, **settings)
    taken = now().less(start)
    import numpy as np

    labels = np.fromfile(Path(folder, "labels.f4"), np.float32)
    assert len(probabilities) == len(labels), f"{len(probabilities)} probabilities for {len(labels)} rows"
    chosen = np.clip(np.where(labels > 0, probabilities, 1 - probabilities), 1e-7, 1)  # avoids log(0)
    return {"loss": float(-np.log(chosen).mean()), "elapsed": taken.elapsed, "cpu": taken.cpu}


def search(contestant: str, folder: Path, budget: Budget) -> tuple[list[Point], str]:
    """Try all settings with doubling numbers of epochs; return the runs, and the error message or ""."""
    points: list[Point] = []
    end, failure = time.perf_counter() + budget.race_seconds, ""
    for settings in SETTINGS[contestant][: budget.race_settings]:
        epochs, last = 1, float("inf")
        while epochs <= budget.race_epochs and (left := end - time.perf_counter()) > 0:
            found = call(
                "race",
                "run_once",
                left + 1,
                contestant=contestant,
                folder=str(folder),
                epochs=epochs,
                settings=settings,
            )
            if "failed" in found:
                failure = found["failed"]
                break
            points.append({"settings": settings, "epochs": epochs, **found})
            if found["loss"] > last:  # overfitting: more epochs will not help
                break
            epochs, last = 2 * epochs, found["loss"]
    return points, failure


def target_of(runs: dict[str, list[Point]], constant: float) -> float:
    """Return the loss that all contestants reach: the worst of their best losses, ignoring those above a constant's.

    >>> runs = {"a": [{"loss": 0.5}, {"loss": 0.4}], "b": [{"loss": 0.45}], "crashed": [], "lost": [{"loss": 0.7}]}
    >>> target_of(runs, constant=0.6)
    0.45
    """
    best = [min(point["loss"] for point in points) for points in runs.values() if points]
    return max((loss for loss in best if loss < constant), default=max(best, default=constant))


def soonest(points: Sequence[Point], loss: float) -> Point | None:
    """Return the run that reaches a loss in the shortest time, if any."""
    return min((p for p in points if p["loss"] <= loss), key=lambda p: float(p["elapsed"]), default=None)


def run_race(peers: Sequence[str], budget: Budget, folder: Path, tell: Callable[[str], Any]) -> dict[str, Any]:
    """Write the files, let every contestant search, choose the target, and repeat the runs that reach it."""
    log = write_files(folder, budget.race_rows)
    names = [name for name in CONTESTANTS if library_of(name) in ("rafm", *peers)]
    _warm_up(folder)
    runs, failures = {}, {}
    for name in names:
        tell(f"race: {name}")
        runs[name], failures[name] = search(name, folder, budget)
    target, lines = target_of(runs, log["constant_loss"]), []
    chosen = {name: soonest(points, target) for name, points in runs.items()}
    for threads in (1, 2):
        for name, point in chosen.items():
            if point is not None and (threads == 1 or name in THREADED):
                lines.append(_repeat(name, point, threads, folder, budget))
    peers_runs = {name: points for name, points in runs.items() if points and library_of(name) != "rafm"}
    own = [_own_best(name, points, runs["rafm"] + runs["rafm-ffm"]) for name, points in peers_runs.items()]
    failed = {name: why for name, why in failures.items() if why}
    return {"log": log, "target": target, "lines": lines, "own_best": own, "runs": runs, "failed": failed}


def _warm_up(folder: Path) -> None:
    """Run rafm once, so that its compiled code is in Numba's cache."""
    for name in ("rafm", "rafm-ffm"):
        for threads in (1, 2):
            shared = {"contestant": name, "folder": str(folder), "epochs": 1, "settings": SETTINGS[name][0]}
            call("race", "run_once", 600, threads, **shared)


def _repeat(name: str, point: Point, threads: int, folder: Path, budget: Budget) -> dict[str, Any]:
    """Repeat a run; with one thread, the faster of both counts."""
    given = {"contestant": name, "epochs": point["epochs"], "settings": point["settings"]}
    found = call("race", "run_once", 4 * budget.race_seconds, threads, folder=str(folder), **given)
    if threads == 1 and ("failed" in found or point["elapsed"] < found["elapsed"]):
        found = {name: point[name] for name in ("loss", "elapsed", "cpu", "peak")}
    return {**given, "threads": threads, **found}


def _own_best(name: str, points: list[Point], ours: list[Point]) -> dict[str, Any]:
    """Compare the time to a peer's best loss on one thread."""
    best = min(points, key=lambda point: float(point["loss"]))
    equal = soonest(ours, best["loss"])
    reached = None if equal is None else equal["elapsed"]
    return {"peer": name, "loss": best["loss"], "elapsed": best["elapsed"], "rafm_elapsed": reached}
