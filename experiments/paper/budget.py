"""What to run: data sets, models, candidate ranks and L2, seeds. Every model gets the same number of training runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rafm.plan.ranks import NearestRank, RankPlan, plan_ranks

from .tasks import Run

L2_GRID = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)  # the paper's grid
PAPER_RANKS = (32, 64, 128, 256, 512)
MIXTURES = (  # candidate ranks of MRMA, which has no rank rule
    *((4, 8), (4, 16), (8, 16), (8, 32), (16, 32), (16, 64), (32, 64), (32, 128)),
    *((4, 8, 16), (8, 16, 32), (16, 32, 64), (8, 32, 128)),
)
TOP = 512  # highest rank
# Candidate values of rank_scale: 2^-12 to 2^12 in quarter octaves.
SCALES = tuple(float(f"{2.0 ** (k / 4):.3g}") for k in range(-48, 49))
TAG_SETS = {  # the paper's S_1 .. S_4
    "S1": (32, 512),
    "S2": (32, 128, 512),
    "S3": PAPER_RANKS,
    "S4": tuple(range(32, 513, 32)),
}


@dataclass(frozen=True)
class Study:
    """A data set, or its first columns, on which all models are compared."""

    data: str
    n_columns: int | None = None
    mrma: bool = False

    @property
    def title(self) -> str:
        return self.data + (f", first {self.n_columns} columns" if self.n_columns else "")


@dataclass(frozen=True)
class SizeStudy:
    """A data set on which models of equal size are compared; parameters: the middle size."""

    data: str
    task: str
    parameters: int
    n_columns: int | None = None


@dataclass(frozen=True)
class SampledStudy:
    """A data set that is sampled at some ranks; share: of the highest, with vectors of measured length."""

    data: str
    ranks: tuple[int, ...]
    sweeps: int = 200
    n_seeds: int = 5
    share: float | None = None
    n_columns: int | None = None


@dataclass(frozen=True)
class Budget:
    """The amount of work: data sets, candidates, seeds and sizes."""

    name: str
    studies: tuple[Study, ...]
    occurrences: tuple[str, ...]
    tag_data: str
    fm_ranks: tuple[int, ...]  # candidates of FM
    sizes: tuple[int, ...]  # the other models have two candidates each, no larger than an FM of this rank
    coarse: tuple[float, ...]  # values of L2 to try first
    refine: bool
    seeds: tuple[int, ...]
    epochs: int
    tag_sets: tuple[str, ...]
    fm_curve_ranks: tuple[int, ...]
    complexity_levels: tuple[int, ...]
    complexity_rows: int
    stream_rows_per_day: int
    stream_scales: tuple[float, ...]
    stream_seeds: tuple[int, ...]
    size_studies: tuple[SizeStudy, ...]
    factors: tuple[float, ...]  # of the middle size
    size_seeds: tuple[int, ...]
    sampled_studies: tuple[SampledStudy, ...]

    def candidates(self, study: Study, counts: np.ndarray) -> dict[str, list[Run]]:
        """Return the candidates of every model, the same number for each; L2 is chosen later.

        counts: occurrences of each feature in the training rows.
        """
        ratings = study.data.startswith(("ml-1", "ml-20", "ciao", "amazon"))
        shared: dict[str, Any] = {
            "data": study.data,
            "n_columns": study.n_columns,
            "epochs": self.epochs,
            "patience": 5 if ratings else 3,
        }
        found = {"FM": [Run(model="fm", ranks=(rank,), **shared) for rank in self.fm_ranks]}
        ranked: dict[str, dict[str, Any]] = {"DiFacto": {"model": "difacto"}, "RaFM": {"model": "rafm"}}
        ranked["RaFM (Algorithm 1)"] = {"model": "rafm", "update": "algorithm1"}
        for family, more in ranked.items():
            sets = [(ranks, size) for size in self.sizes for ranks in rank_sets(size, ratings)]
            scales = [scale_within(more["model"], ranks, counts, size) for ranks, size in sets]
            found[family] = [Run(ranks=r, rank_scale=c, **more, **shared) for (r, _), c in zip(sets, scales)]
        if study.mrma:
            found["MRMA"] = [Run(model="mrma", ranks=ranks, **shared) for ranks in MIXTURES[: len(self.fm_ranks)]]
        return found


def rank_sets(size: int, ratings: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two sets of ranks for a model about as large as an FM of this rank; those for ratings are lower.

    >>> rank_sets(16), rank_sets(256), rank_sets(16, ratings=True)
    (((4, 16, 64), (8, 32)), ((64, 256), (128, 512)), ((4, 16), (8, 32)))
    """
    sets = ((size // 4, size) if ratings else (size // 4, size, 4 * size), (size // 2, 2 * size))
    first, second = (tuple(rank for rank in own if 1 <= rank <= TOP) for own in sets)
    return first, second


def scale_within(family: str, ranks: tuple[int, ...], counts: np.ndarray, rank: int) -> float:
    """Return the largest rank_scale, in quarter octaves, with no more parameters than an FM of this rank.

    >>> scale_within("rafm", (4, 16, 64), np.arange(1, 1001), 16)
    0.0312
    """
    limit = RankPlan("fm", (rank,), (counts.size, counts.size, 0)).n_parameters
    found = SCALES[0]
    for scale in SCALES:
        # The number of parameters never decreases with the scale.
        if plan_ranks(family, ranks, counts, NearestRank(scale))[0].n_parameters > limit:
            break
        found = scale
    return found


FULL = Budget(
    name="full",
    studies=(
        Study("frappe"),
        Study("ml10m-tag-popularity"),
        Study("lastfm-tag-popularity"),
        Study("ml-1m"),
        Study("ml-1m", n_columns=2, mrma=True),
        Study("ciao", mrma=True),
    ),
    occurrences=("frappe", "ml10m-tag-popularity", "lastfm-tag-popularity", "ml-1m", "ciao"),
    tag_data="ml10m-tag-popularity",
    fm_ranks=(8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 384, 512),
    sizes=(8, 16, 32, 64, 128, 256),
    coarse=(1e-3, 1e-2, 1e-1),
    refine=True,
    seeds=(0, 1, 2, 3, 4),
    epochs=30,
    tag_sets=tuple(TAG_SETS),
    fm_curve_ranks=PAPER_RANKS,
    complexity_levels=(2, 4, 8),
    complexity_rows=20_000,
    stream_rows_per_day=250_000,
    stream_scales=(1 / 256, 1 / 64, 1 / 16, 1 / 4),
    stream_seeds=(0, 1, 2),
    size_studies=(
        SizeStudy("frappe", "binary", 350_000),
        SizeStudy("ml10m-tag-popularity", "binary", 880_000),
        SizeStudy("lastfm-tag-popularity", "binary", 780_000),
        SizeStudy("ml-1m", "regression", 220_000),
    ),
    factors=(0.1, 0.25, 0.5, 1, 2, 4),
    size_seeds=(0, 1, 2, 3, 4),
    sampled_studies=(
        SampledStudy("ml-100k", (8, 16)),
        SampledStudy("ciao", (8, 16)),
        SampledStudy("ciao", (32,), n_seeds=2, share=0.25),
        SampledStudy("ml-1m", (8, 16)),
        SampledStudy("ml-1m", (32,), n_seeds=2, share=0.25),
        SampledStudy("ml10m-tag-popularity", (16,), sweeps=600, n_seeds=3),
        SampledStudy("frappe", (16,), sweeps=600, n_seeds=3),
    ),
)
QUICK = Budget(
    name="quick",
    studies=(Study("frappe"), Study("ml10m-tag-popularity")),
    occurrences=("frappe", "ml10m-tag-popularity"),
    tag_data="ml10m-tag-popularity",
    fm_ranks=(32, 64, 256, 512),
    sizes=(64, 256),
    coarse=(5e-3, 1e-2),
    refine=False,
    seeds=(0, 1),
    epochs=6,
    tag_sets=("S1", "S3"),
    fm_curve_ranks=(32, 128, 512),
    complexity_levels=(2, 4),
    complexity_rows=5_000,
    stream_rows_per_day=20_000,
    stream_scales=(1 / 64, 1 / 4),
    stream_seeds=(0,),
    size_studies=(SizeStudy("ml10m-tag-popularity", "binary", 880_000),),
    factors=(0.25, 1),
    size_seeds=(0, 1),
    sampled_studies=(SampledStudy("ml10m-tag-popularity", (8,), sweeps=100, n_seeds=1),),
)
