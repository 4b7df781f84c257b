"""Table 1: the cost of RaFM under four growth regimes: theoretical, counted and measured.

Features are drawn uniformly, so that the share of F_k in a row's nonzeros is |F_k| / |F|, as the table assumes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch

from .artefact import Artefact, table
from .budget import Budget
from .lab import Lab
from .tasks import Result, time_pass

TOP_RANK, N_FEATURES, PER_ROW, EPOCHS = 256, 2048, 32, 4
GROWTH = ("linear", "exponential")


def ranks_of(growth: str, m: int) -> list[int]:
    """Return D_1 .. D_m: k/m D, or 2^(k-m) D.

    >>> ranks_of("linear", 4), ranks_of("exponential", 4)
    ([64, 128, 192, 256], [32, 64, 128, 256])
    """
    if growth == "linear":
        return [k * TOP_RANK // m for k in range(1, m + 1)]
    return [TOP_RANK >> (m - k) for k in range(1, m + 1)]


def sizes_of(decay: str, m: int) -> list[int]:
    """Return |F_1| .. |F_m|: (1 - (k-1)/m) |F|, or 2^(1-k) |F|."""
    if decay == "linear":
        return [N_FEATURES - (k - 1) * N_FEATURES // m for k in range(1, m + 1)]
    return [N_FEATURES >> (k - 1) for k in range(1, m + 1)]


def order_of(growth: str, decay: str, m: int) -> float:
    """Return the factor of D |F| in the paper's O(.): m, 1, 1 or m / 2^(m-1)."""
    if growth == decay == "linear":
        return m
    return 1.0 if growth != decay else m / 2 ** (m - 1)


def measure(config: dict[str, Any], folder: Path) -> Result:
    """Count and time one regime relative to an FM of the top rank."""
    m = config["m"]
    ranks, sizes = ranks_of(config["growth"], m), sizes_of(config["decay"], m)
    draw = np.random.default_rng(config["seed"])
    # The first entries of a random permutation: features without repetition.
    indices = np.argsort(draw.random((config["rows"], N_FEATURES), np.float32), axis=1)[:, :PER_ROW].ravel()
    labels = draw.integers(0, 2, config["rows"]).astype(np.float32)
    indptr = np.arange(config["rows"] + 1) * PER_ROW
    rows = check_batch(Batch(indptr, indices, np.ones(indices.size, np.float32), N_FEATURES, labels))
    levels = sum((np.arange(N_FEATURES) < size).astype(int) for size in sizes)  # F_1 to F_m are nested
    shared: dict[str, Any] = {"task": "binary", "n_epochs": EPOCHS, "patience": None, "learning_rate": 0.01}
    shared["averaging"] = False
    seconds = time_pass(rows, resolve(model="rafm", ranks=ranks, levels=np.asarray(levels), **shared))
    whole = time_pass(rows, resolve(model="fm", ranks=TOP_RANK, **shared))
    # Factors that the rows touch, as drawn.
    touched = sum(int((indices < size).sum()) * rank for rank, size in zip(ranks, sizes))
    return {
        "theory": sum(rank * size for rank, size in zip(ranks, sizes)) / (TOP_RANK * N_FEATURES),
        "counted": touched / (indices.size * TOP_RANK),
        "rafm_seconds": seconds,
        "fm_seconds": whole,
    }


def table1(lab: Lab, budget: Budget) -> Artefact:
    """Measure all regimes."""
    regimes = [(growth, decay, m) for growth in GROWTH for decay in GROWTH for m in budget.complexity_levels]
    shared = {"kind": "complexity", "rows": budget.complexity_rows, "seed": 0}
    results = lab.results([{**shared, "growth": g, "decay": d, "m": m} for g, d, m in regimes])
    lines, worst = [], 0.0
    for (growth, decay, m), found in zip(regimes, results):
        clock = found["rafm_seconds"] / found["fm_seconds"]
        worst = max(worst, abs(found["counted"] / found["theory"] - 1))
        order = f"{order_of(growth, decay, m):.3g}"
        lines.append(
            [growth, decay, str(m), order, f"{found['theory']:.3f}", f"{found['counted']:.3f}", f"{clock:.2f}"]
        )
    header = ["D_k grows", "F_k shrinks", "m", "paper's order", "sum D_k F_k", "counted", "time of a pass"]
    text = (
        f"Cost relative to an FM of rank {TOP_RANK}. The sum is the exact cost, for which the paper gives an order; "
        f"the factors counted in generated rows differ from it by at most {worst:.1%}. Time is one training pass in "
        "CPU seconds."
    )
    rows = [{"growth": g, "decay": d, "m": m, **found} for (g, d, m), found in zip(regimes, results)]
    config = {"top_rank": TOP_RANK, "features": N_FEATURES, "per_row": PER_ROW, **shared}
    return Artefact("table1", "Table 1: complexity under four regimes", config, rows, [text, table(header, lines, 2)])
