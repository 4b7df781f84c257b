"""Compare all models at equal numbers of parameters, each with the learning rate and L2 that suit it.

Every family is trained by the same recipe (averaging over epochs, one drop of the rate, up to 100 epochs). Learning
rate and L2 are found by coordinate descent on the validation rows at the middle size, with one seed, and used at the
others; so is the set of ranks, in steps of 2 or of 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rafm.families import family_of
from rafm.plan.ranks import NearestRank, plan_ranks

from .budget import TOP, Budget, SizeStudy
from .competition import training_counts, with_seeds
from .lab import Lab, NotStored
from .search import Losses, loss_of, losses_in
from .tasks import RATES, Result, Run, fields_of
from .verdicts import standing

EPOCHS = 100
FIRST_L2 = {"binary": 0.005, "regression": 0.1}
LARGE_RANK = {"binary": 256, "regression": 64}  # as measured ranks start from
RATE_STEPS, L2_STEPS = (0.5, 2.0), (0.5, 2.0)
SCALES = tuple(float(f"{2.0 ** (k / 4):.3g}") for k in range(-60, 33))
FAMILIES: dict[str, dict[str, Any]] = {
    "FM": {"model": "fm"},
    "FM+t": {"model": "fm", "field_weights": True},
    "DiFacto": {"model": "difacto"},
    "RaFM": {"model": "rafm"},
    "RaFM+t": {"model": "rafm", "field_weights": True},
    "FFM": {"model": "ffm"},
}
PRUNED, PRUNED_T, MEASURED = "pruned FM", "pruned FM+t", "measured"
LARGE = {PRUNED: "FM", PRUNED_T: "FM+t"}  # what is pruned
# Of measured ranks; to be raised when they change, because fingerprints of the engine do not cover them.
VERSIONS = {"binary": 4, "regression": 5}
Settings = dict[str, Any]  # learning rate and L2


@dataclass(frozen=True)
class Entry:
    """A model of some size: what it is called, and its results for each seed."""

    label: str
    results: list[Result]

    @property
    def losses(self) -> list[float]:
        """Return the test loss of each seed: log loss or RMSE."""
        return [next(iter(found["test"].values())) for found in self.results]

    @property
    def parameters(self) -> int:
        return max(found["parameters"] for found in self.results)

    @property
    def valid(self) -> float:
        return loss_of(self.results[0])  # of the first seed, by which all was chosen


@dataclass(frozen=True)
class SizeTable:
    """Entries of every family on one data set, smallest first."""

    study: SizeStudy
    sizes: list[int]
    families: dict[str, list[Entry]]

    def within(self, family: str, size: int) -> Entry | None:
        """Return the entry of a family with the lowest validation loss among those no larger."""
        small = [each for each in self.families.get(family, ()) if each.parameters <= size]
        return min(small, key=lambda each: each.valid, default=None)

    def worse(self, family: str, rivals: Iterable[str]) -> list[tuple[str, int]]:
        """Return by whom, and at which sizes, a family is beaten beyond luck."""
        found = []
        for size in self.sizes:
            own = self.within(family, size)
            for rival in rivals:
                theirs = self.within(rival, size)
                if own and theirs and standing(own.losses, theirs.losses) == "worse":
                    found.append((rival, size))
        return found


def compare_sizes(lab: Lab, budget: Budget, study: SizeStudy) -> SizeTable:
    """Tune every family at the middle size, train it at all sizes, and cut large models to the same sizes."""
    counts, n_fields = training_counts(lab, study), len(fields_of(lab.folder, study.data).names)
    sizes = [round(study.parameters * factor) for factor in budget.factors]
    losses = losses_in(lab)
    families: dict[str, list[Entry]] = {}
    tuned: dict[str, Settings] = {"": {"rate": RATES[study.task], "l2": FIRST_L2[study.task]}}
    for family, own in FAMILIES.items():
        try:
            middle = shapes(own, study, counts, n_fields, study.parameters)
            start = replace(middle[0], **tuned.get("FM", tuned[""]))  # the others start from what suits FM
            found = descend(start, losses, rounds=1 if "FM" in tuned else 2)
            tuned[family] = {"rate": found.rate, "l2": found.l2}
            rivals = losses([replace(run, **tuned[family]) for run in middle])
            best = int(np.argmin(rivals))  # the set of ranks is chosen at the middle size, too
            each = [shapes(own, study, counts, n_fields, size) for size in sizes]
            chosen = [replace(runs[min(best, len(runs) - 1)], **tuned[family]) for runs in each if runs]
            families[family] = [Entry(one.run.label, one.results) for one in with_seeds(lab, chosen, budget.size_seeds)]
        except NotStored:
            if family in LARGE.values():
                raise
            lab.tell(f"{study.data}: {family} is left out of the frontier, because results are missing")
    for family, name in LARGE.items():
        large = large_run(study, FAMILIES[name], tuned[name])
        tasks = [{**replace(large, seed=seed).task(), "kind": "pruned", "sizes": sizes} for seed in budget.size_seeds]
        families[family] = entries(family, lab.results(tasks))
    measured = {"kind": "measured", "data": study.data, "sizes": sizes, "version": VERSIONS[study.task]}
    tasks = [{**measured, "seed": seed} for seed in budget.size_seeds]
    families[MEASURED] = entries(MEASURED, lab.results(tasks))
    return SizeTable(study, sizes, families)


# ---- Candidates


def shapes(own: dict[str, Any], study: SizeStudy, counts: np.ndarray, n_fields: int, size: int) -> list[Run]:
    """Return the candidates of a family with at most `size` parameters; none if even the smallest is larger."""
    traits = family_of(own["model"])
    n_vectors = n_fields if traits.has_field_vectors else 1  # of a feature
    rank = min((size - 1 - counts.size) // (counts.size * n_vectors), TOP)
    shared = {"data": study.data, "epochs": EPOCHS, "recipe": "averaged", **own}
    if not traits.levels_by_count:
        return [Run(ranks=(rank,), **shared)] if rank >= 1 else []
    found = []
    for ranks in rank_ladders(rank):
        scale = generous_scale(own["model"], ranks, counts, size)
        if scale is not None:
            found.append(Run(ranks=ranks, rank_scale=scale, **shared))
    return found


def rank_ladders(rank: int) -> tuple[tuple[int, ...], ...]:
    """Return sets of ranks for a model about as large as an FM of this rank, in steps of 4 and of 2.

    >>> rank_ladders(16), rank_ladders(1)
    (((8, 32), (8, 16, 32), (4, 16, 64)), ((1, 2), (1, 4)))
    """
    found = [(rank // 2, 2 * rank), (rank // 2, rank, 2 * rank), (rank // 4, rank, 4 * rank)]
    return tuple(dict.fromkeys(tuple(sorted({min(max(each, 1), TOP) for each in own})) for own in found))


def generous_scale(family: str, ranks: tuple[int, ...], counts: np.ndarray, size: int) -> float | None:
    """Return the largest rank_scale, in quarter octaves, with at most `size` parameters.

    >>> generous_scale("rafm", (4, 16), np.arange(1, 1001), 12_000), generous_scale("rafm", (4, 16), np.ones(9), 30)
    (0.0131, None)
    """
    fitting = [
        scale for scale in SCALES if plan_ranks(family, ranks, counts, NearestRank(scale))[0].n_parameters <= size
    ]
    return max(fitting, default=None)


# ---- The search


def descend(start: Run, losses: Losses, rounds: int) -> Run:
    """Return the run with the lowest validation loss, moving the rate, then L2, as long as it falls."""
    known = {start: losses([start])[0]}
    for _ in range(rounds):
        before = min(known, key=known.__getitem__)
        for name, steps in (("rate", RATE_STEPS), ("l2", L2_STEPS)):
            for step in steps:
                climb(known, losses, name, step)
        if min(known, key=known.__getitem__) == before:
            break
    return min(known, key=known.__getitem__)


def climb(known: dict[Run, float], losses: Losses, name: str, step: float) -> None:
    """Multiply a setting of the best run by a step as long as its loss falls; add all losses to `known`."""
    while True:
        best = min(known, key=known.__getitem__)
        changed: Settings = {name: float(f"{getattr(best, name) * step:.6g}")}
        moved = replace(best, **changed)
        if moved in known:
            return
        (known[moved],) = losses([moved])
        if known[moved] >= known[best]:
            return


# ---- Large models made small


def large_run(study: SizeStudy, own: dict[str, Any], settings: Settings) -> Run:
    """Return the large FM to prune, with the settings found for a small one."""
    ranks = (LARGE_RANK[study.task],)
    return Run(data=study.data, ranks=ranks, epochs=EPOCHS, recipe="averaged", **own, **settings)


def entries(label: str, found: list[Result]) -> list[Entry]:
    """Return an entry per size from results, one per seed, that hold a model per size; None if none is so small."""
    by_size = zip(*(own["models"] for own in found))
    return [Entry(label, list(models)) for models in by_size if None not in models]
