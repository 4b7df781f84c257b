"""All models on one data set: L2 chosen on validation for every candidate, then all seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..survey import survey
from .budget import Budget, Study
from .lab import Lab
from .search import choose_l2, loss_of
from .tasks import Result, Run, rows_of

ALL_SEEDS = ("FM", "RaFM")  # families whose candidates are all trained with every seed; of others, only the winner is


@dataclass(frozen=True)
class Contender:
    """A candidate with its chosen L2, and what came out for each seed."""

    run: Run
    results: list[Result]

    @property
    def losses(self) -> list[float]:
        """Return the test loss of each seed: log loss or RMSE."""
        return [found["test"][self.metrics[0]] for found in self.results]

    @property
    def second(self) -> list[float]:
        """Return the other test metric of each seed: AUC or MAE."""
        return [found["test"][self.metrics[1]] for found in self.results]

    @property
    def metrics(self) -> tuple[str, str]:
        return ("log_loss", "auc") if "auc" in self.results[0]["test"] else ("rmse", "mae")

    @property
    def parameters(self) -> int:
        return self.results[0]["parameters"]

    @property
    def valid(self) -> float:
        return loss_of(self.results[0])

    def seconds(self, name: str) -> float:
        """Return a time, averaged over seeds."""
        return float(np.mean([found[name] for found in self.results]))

    def record(self) -> dict[str, Any]:
        """Return the contender as plain values."""
        return {"run": self.run.task(), "results": self.results}


@dataclass(frozen=True)
class Competition:
    """The contenders of every family, and the one of each with the least validation loss."""

    study: Study
    families: dict[str, list[Contender]]

    @property
    def metrics(self) -> tuple[str, str]:
        return ("log loss", "AUC") if "auc" in self.families["FM"][0].metrics else ("RMSE", "MAE")

    @property
    def winners(self) -> dict[str, Contender]:
        return {family: best(own) for family, own in self.families.items()}

    def within(self, family: str, parameters: float) -> Contender | None:
        """Return the best of a family, by validation, with at most so many parameters."""
        small = [each for each in self.families[family] if each.parameters <= parameters]
        return best(small) if small else None


def best(contenders: Sequence[Contender]) -> Contender:
    """Return the contender of least validation loss."""
    return min(contenders, key=lambda each: each.valid)


def training_counts(lab: Lab, study: Study) -> np.ndarray:
    """Return how often each feature that occurs does so in the training rows."""
    return survey([rows_of(lab.folder, study.data, study.n_columns).parts[0]]).counts


def compete(lab: Lab, budget: Budget, study: Study, families: Sequence[str] | None = None) -> Competition:
    """Search, then train with all seeds what the tables and the frontier need."""
    candidates = budget.candidates(study, training_counts(lab, study))
    chosen = {
        family: choose_l2(lab, runs, budget.coarse, budget.refine)
        for family, runs in candidates.items()
        if families is None or family in families
    }
    found = {}
    for family, runs in chosen.items():
        first = [Contender(run, lab.results([run.task()])) for run in runs]
        kept = [each for each in first if np.isfinite(each.valid)]
        again = kept if family in ALL_SEEDS else [best(kept)]
        seeded = dict(zip((each.run for each in again), with_seeds(lab, [each.run for each in again], budget.seeds)))
        found[family] = [seeded.get(each.run, each) for each in kept]
    return Competition(study, found)


def with_seeds(lab: Lab, runs: Sequence[Run], seeds: Sequence[int]) -> list[Contender]:
    """Train every run with every seed."""
    results = iter(lab.results([replace(run, seed=seed).task() for run in runs for seed in seeds]))
    return [Contender(run, [next(results) for _ in seeds]) for run in runs]
