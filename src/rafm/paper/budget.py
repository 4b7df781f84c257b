"""What is run: data sets, models, candidates for ranks and L2, seeds. Every model gets the same number of trainings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .tasks import Run

L2_GRID = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)  # the paper's
PAPER_RANKS = (32, 64, 128, 256, 512)
FM_RANKS = (4, 8, 16, *PAPER_RANKS)
RANK_SETS: tuple[tuple[tuple[int, ...], float], ...] = (  # ranks and the generosity c of the rank rule
    ((4, 16), 1),
    ((8, 32), 1),
    ((8, 32, 128), 1),
    ((8, 32, 128, 512), 1),
    ((8, 32, 128, 512), 4),
    (PAPER_RANKS, 1),
    (PAPER_RANKS, 4),
    ((64, 512), 2),
)
MIXTURES = ((4, 8), (4, 16), (8, 16), (8, 32), (16, 32), (16, 64), (32, 64), (8, 32, 128))  # MRMA has no rank rule
TAG_SETS = {  # the paper's S_1 .. S_4
    "S1": (32, 512),
    "S2": (32, 128, 512),
    "S3": PAPER_RANKS,
    "S4": tuple(range(32, 513, 32)),
}


@dataclass(frozen=True)
class Study:
    """A data set, or its first columns, on which all models compete."""

    data: str
    n_columns: int | None = None
    mrma: bool = False

    @property
    def title(self) -> str:
        return self.data + (f", first {self.n_columns} columns" if self.n_columns else "")


@dataclass(frozen=True)
class Budget:
    """How much is run."""

    name: str
    studies: tuple[Study, ...]
    occurrences: tuple[str, ...]
    tag_data: str
    n_candidates: int
    coarse: tuple[float, ...]
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

    def candidates(self, study: Study) -> dict[str, list[Run]]:
        """Return the candidates of every model, as many for each; L2 is still to be chosen."""
        ratings = study.data.startswith(("ml-1", "ml-20", "ciao", "amazon"))
        shared: dict[str, Any] = {
            "data": study.data,
            "n_columns": study.n_columns,
            "epochs": self.epochs,
            "patience": 5 if ratings else 3,
        }
        sets = _spread(RANK_SETS, self.n_candidates)
        found = {
            "FM": [Run(model="fm", ranks=(rank,), **shared) for rank in _spread(FM_RANKS, self.n_candidates)],
            "DiFacto": [Run(model="difacto", ranks=ranks, rank_scale=c, **shared) for ranks, c in sets],
            "RaFM": [Run(model="rafm", ranks=ranks, rank_scale=c, **shared) for ranks, c in sets],
        }
        found["RaFM (Algorithm 1)"] = [
            Run(model="rafm", ranks=ranks, rank_scale=c, update="algorithm1", **shared) for ranks, c in sets
        ]
        if study.mrma:
            found["MRMA"] = [Run(model="mrma", ranks=ranks, **shared) for ranks in _spread(MIXTURES, self.n_candidates)]
        return found


def _spread(values: Any, n: int) -> list[Any]:
    """Return n of the values, evenly spaced, with the first and the last.

    >>> _spread((1, 2, 3, 4, 5), 3)
    [1, 3, 5]
    """
    return [values[round(k * (len(values) - 1) / (n - 1))] for k in range(n)]


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
    n_candidates=8,
    coarse=(1e-4, 1e-3, 1e-2, 1e-1),
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
)
QUICK = Budget(
    name="quick",
    studies=(Study("frappe"), Study("ml10m-tag-popularity")),
    occurrences=("frappe", "ml10m-tag-popularity"),
    tag_data="ml10m-tag-popularity",
    n_candidates=3,
    coarse=(1e-3, 1e-2),
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
)
