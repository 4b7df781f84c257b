"""Compare all models on one data set: choose L2 on validation rows for every candidate, then train with all seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from ...rows.stats import count_rows
from .budget import Budget, SampledStudy, SizeStudy, Study
from .lab import Lab
from .published import TABLES
from .search import choose_l2, loss_of
from .tasks import Result, Run, rows_of

SMALL = 5  # claim: on tags, RaFM beats the best FM with at most a fifth of its parameters


@dataclass(frozen=True)
class Contender:
    """A candidate with its chosen L2, and its results for each seed."""

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
        return loss_of(self.results[0])  # of the first seed, with which all candidates were searched

    def seconds(self, name: str) -> float:
        """Return a time, averaged over the seeds."""
        return float(np.mean([found[name] for found in self.results]))

    def record(self) -> dict[str, Any]:
        """Return the contender as a JSON-compatible dict."""
        return {"run": self.run.task(), "results": self.results}


@dataclass(frozen=True)
class Competition:
    """The contenders of every family."""

    study: Study
    families: dict[str, list[Contender]]

    @property
    def metrics(self) -> tuple[str, str]:
        return ("log loss", "AUC") if "auc" in self.families["FM"][0].metrics else ("RMSE", "MAE")

    @property
    def winners(self) -> dict[str, Contender]:
        return {family: best(own) for family, own in self.families.items()}

    def within(self, family: str, parameters: float) -> Contender | None:
        """Return the best contender of a family by validation loss, with at most this many parameters."""
        small = [each for each in self.families[family] if each.parameters <= parameters]
        return best(small) if small else None

    def decisive(self) -> set[Run]:
        """Return the runs that tables and claims compare; only those need all seeds."""
        limits = [self.winners["FM"].parameters / SMALL, TABLES["Frappe"]["RaFM"].millions * 1e6]
        small = [self.within("RaFM", limit) for limit in limits]
        return {each.run for each in (*self.winners.values(), *small) if each}


def best(contenders: Sequence[Contender]) -> Contender:
    """Return the contender with the lowest validation loss."""
    return min(contenders, key=lambda each: each.valid)


def training_counts(lab: Lab, study: Study | SizeStudy | SampledStudy) -> np.ndarray:
    """Return the counts of the features that occur in the training rows."""
    return count_rows([rows_of(lab.folder, study.data, study.n_columns).parts[0]]).counts


def compete(lab: Lab, budget: Budget, study: Study) -> Competition:
    """Search with the first seed, then train the runs to compare with all seeds."""
    candidates = budget.candidates(study, training_counts(lab, study))
    chosen = {family: choose_l2(lab, runs, budget.coarse, budget.refine) for family, runs in candidates.items()}
    first = {
        family: [one for one in with_seeds(lab, runs, budget.seeds[:1]) if isfinite(one.valid)]
        for family, runs in chosen.items()
    }
    found = Competition(study, first)
    again = sorted(found.decisive(), key=str)  # sets have no order, and runs should
    seeded = dict(zip(again, with_seeds(lab, again, budget.seeds)))
    return Competition(study, {f: [seeded.get(one.run, one) for one in own] for f, own in first.items()})


def with_seeds(lab: Lab, runs: Sequence[Run], seeds: Sequence[int]) -> list[Contender]:
    """Train every run with every seed."""
    results = iter(lab.results([replace(run, seed=seed).task() for run in runs for seed in seeds]))
    return [Contender(run, [next(results) for _ in seeds]) for run in runs]
