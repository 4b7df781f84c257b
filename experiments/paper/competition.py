"""Compare all models on one data set: choose L2 and learning rate on validation rows, then train with all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from rafm.rows.stats import count_rows

from .budget import Budget, SampledStudy, SizeStudy, Study
from .lab import Lab, NotStored
from .published import TABLES
from .search import choose_l2, choose_rate, loss_of
from .tasks import RATES, Result, Run, rows_of

SMALL = 5  # claim: on tags, RaFM beats the best FM with at most a fifth of its parameters


@dataclass(frozen=True)
class Contender:
    """A candidate with its chosen L2 and learning rate, and its results for each seed."""

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
    """The contenders of every family; is_tuned: whether their learning rates are."""

    study: Study
    families: dict[str, list[Contender]]
    is_tuned: bool = True

    @property
    def title(self) -> str:
        return self.study.title + ("" if self.is_tuned else ", default learning rate")

    @property
    def metrics(self) -> tuple[str, str]:
        return ("log loss", "AUC") if "auc" in self.families["FM"][0].metrics else ("RMSE", "MAE")

    @property
    def usual_rate(self) -> float:
        """Return the learning rate of runs that state none."""
        return RATES["binary" if self.metrics[0] == "log loss" else "regression"]

    @property
    def winners(self) -> dict[str, Contender]:
        return {family: best(own) for family, own in self.families.items()}

    def within(self, family: str, parameters: float) -> Contender | None:
        """Return the best contender of a family by validation loss, with at most this many parameters."""
        small = [each for each in self.families[family] if each.parameters <= parameters]
        return best(small) if small else None

    @property
    def limits(self) -> list[float]:
        """Return the numbers of parameters within which a claim compares models."""
        if "tag" in self.study.data:
            return [self.winners["FM"].parameters / SMALL]
        return [TABLES["Frappe"]["RaFM"].millions * 1e6] if self.study.data == "frappe" else []

    def leaders(self) -> list[Run]:
        """Return the best run of every family, of any size and within each limit."""
        small = [self.within(family, limit) for family in self.families for limit in self.limits]
        return list(dict.fromkeys(each.run for each in (*self.winners.values(), *small) if each))

    def decisive(self) -> set[Run]:
        """Return the runs that tables and claims compare; only those need all seeds."""
        small = [self.within("RaFM", limit) for limit in self.limits]
        return {each.run for each in (*self.winners.values(), *small) if each}

    def replacing(self, contenders: Mapping[Run, Contender]) -> Competition:
        """Return the competition with other contenders in the places of some runs."""
        families = {f: [contenders.get(one.run, one) for one in own] for f, own in self.families.items()}
        return replace(self, families=families)


def best(contenders: Sequence[Contender]) -> Contender:
    """Return the contender with the lowest validation loss."""
    return min(contenders, key=lambda each: each.valid)


def training_counts(lab: Lab, study: Study | SizeStudy | SampledStudy) -> np.ndarray:
    """Return the counts of the features that occur in the training rows."""
    return count_rows([rows_of(lab.folder, study.data, study.n_columns).parts[0]]).counts


def compete(lab: Lab, budget: Budget, study: Study) -> Competition:
    """Search with the first seed, then train the runs to compare with all seeds.

    If nothing may be run and results of tuned learning rates are missing, all models have the usual one.
    """
    candidates = budget.candidates(study, training_counts(lab, study))
    chosen = {family: choose_l2(lab, runs, budget.coarse, budget.refine) for family, runs in candidates.items()}
    first = {family: with_seeds(lab, runs, budget.seeds[:1]) for family, runs in chosen.items()}
    found = Competition(study, {f: [one for one in own if isfinite(one.valid)] for f, own in first.items()})
    try:
        return seeded(lab, budget, with_tuned_rates(lab, budget, found))
    except NotStored:
        lab.tell(f"{study.title}: all models have the usual learning rate, because results are missing")
        return seeded(lab, budget, replace(found, is_tuned=False))


def with_tuned_rates(lab: Lab, budget: Budget, found: Competition) -> Competition:
    """Tune the learning rate of the leaders of every family, by validation loss."""
    tuned: set[Run] = set()
    while pending := [run for run in found.leaders() if run not in tuned]:
        better = dict(zip(pending, choose_rate(lab, pending, found.usual_rate, budget.refine)))
        tuned |= set(better.values())
        found = found.replacing(dict(zip(better, with_seeds(lab, list(better.values()), budget.seeds[:1]))))
    return found


def seeded(lab: Lab, budget: Budget, found: Competition) -> Competition:
    """Train the runs that are compared with all seeds."""
    again = sorted(found.decisive(), key=str)  # sets have no order, and runs should
    return found.replacing(dict(zip(again, with_seeds(lab, again, budget.seeds))))


def with_seeds(lab: Lab, runs: Sequence[Run], seeds: Sequence[int]) -> list[Contender]:
    """Train every run with every seed."""
    results = iter(lab.results([replace(run, seed=seed).task() for run in runs for seed in seeds]))
    return [Contender(run, [next(results) for _ in seeds]) for run in runs]
