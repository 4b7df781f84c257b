"""Figure 1 (feature counts) and, on the tag data, Figure 3 (learning curves) and Table 2 (rank sets)."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from .artefact import Artefact, table
from .budget import TAG_SETS, Budget
from .competition import Contender, with_seeds
from .lab import Lab
from .published import TABLE2
from .search import choose_l2, choose_rate
from .tasks import RATES, Run
from .verdicts import luck, mean_and_deviation, p_value, standing

CURVE_EPOCHS = 10


def figure1(lab: Lab, budget: Budget) -> Artefact:
    """Show the distribution of feature counts."""
    from .figures import draw_occurrences

    results = lab.results([{"kind": "occurrences", "data": name} for name in budget.occurrences])
    found = dict(zip(budget.occurrences, results))
    bins = [name for name, _, _ in results[0]["bins"]]
    lines = [
        [name, f"{each['features']:,}", *(f"{size:,}" for _, size, _ in each["bins"])] for name, each in found.items()
    ]
    shares = [
        f"{name}: {sum(size for _, size, _ in each['bins'][:2]) / each['features']:.0%} of the features occur at most "
        f"eight times and make up {sum(share for _, _, share in each['bins'][:2]):.0%} of all occurrences"
        for name, each in found.items()
    ]
    text = ["Features of the training rows by how often they occur. " + "; ".join(shares) + "."]
    text.append(table(["data", "features", *bins], lines))
    config = {"data": list(budget.occurrences)}
    draw = lambda path: draw_occurrences(path, found)  # noqa: E731
    return Artefact("figure1", "Figure 1: occurrences of features", config, found, text, draw)


def _runs(budget: Budget) -> tuple[dict[str, Run], dict[str, Run]]:
    """Return the FMs and RaFMs of Figure 3 and Table 2; L2 and learning rate are chosen later."""
    shared = {"data": budget.tag_data, "epochs": budget.epochs}
    fms = {f"FM {rank}": Run(model="fm", ranks=(rank,), **shared) for rank in budget.fm_curve_ranks}  # type: ignore[arg-type]
    sets = {name: Run(model="rafm", ranks=TAG_SETS[name], **shared) for name in budget.tag_sets}  # type: ignore[arg-type]
    return fms, sets


def _chosen(lab: Lab, budget: Budget, runs: dict[str, Run]) -> dict[str, Run]:
    chosen = choose_l2(lab, list(runs.values()), budget.coarse, budget.refine)
    return dict(zip(runs, choose_rate(lab, chosen, RATES["binary"], budget.refine)))


def figure3(lab: Lab, budget: Budget) -> Artefact:
    """Draw learning curves of FMs, RaFM {32,512} and its lowest level over ten epochs, each with its best settings."""
    from .figures import draw_curves

    fms, sets = _runs(budget)
    chosen = _chosen(lab, budget, {**fms, "S1": sets["S1"]})
    epochs = min(CURVE_EPOCHS, budget.epochs)
    # Patience of all epochs: curves must not end early.
    whole = {name: replace(run, epochs=epochs, patience=epochs) for name, run in chosen.items()}
    results = lab.results([run.task() for run in whole.values()])
    curves = {name.replace("S1", "RaFM {32,512}"): found["history"] for name, found in zip(whole, results)}
    low = whole["S1"]
    (lowest,) = lab.results([{**low.task(), "kind": "low_curve"}])
    curves["RaFM-low (rank 32)"] = lowest["history"]
    text = [_curve_sentence(curves, budget)]
    lines = [[name, f"{min(own):.4f}", str(int(np.argmin(own)) + 1)] for name, own in curves.items()]
    text.append(table(["model", "least validation log loss", "after epoch"], lines))
    config = {name: asdict(run) for name, run in whole.items()}
    draw = lambda path: draw_curves(path, curves, budget.tag_data)  # noqa: E731
    return Artefact("figure3", f"Figure 3: FM and RaFM over training, on {budget.tag_data}", config, curves, text, draw)


def _curve_sentence(curves: dict[str, list[float]], budget: Budget) -> str:
    fms = {name: min(own) for name, own in curves.items() if name.startswith("FM")}
    best, rafm = min(fms, key=fms.__getitem__), min(curves["RaFM {32,512}"])
    low, fm32 = min(curves["RaFM-low (rank 32)"]), fms["FM 32"]
    below = [name for name, loss in fms.items() if rafm < loss]  # FMs that RaFM beats
    return (
        "The paper has RaFM below every FM, and RaFM-low near FM 32. Here, one seed, L2 and learning rate chosen for "
        f"each: RaFM ({rafm:.4f}) is below "
        f"{len(below)} of {len(fms)} FMs; the best FM is {best} ({fms[best]:.4f}). RaFM-low reaches {low:.4f}, "
        f"{abs(low - fm32):.4f} {'above' if low > fm32 else 'below'} FM 32 ({fm32:.4f})."
    )


def table2(lab: Lab, budget: Budget) -> Artefact:
    """Compare rank sets with FM 512."""
    fms, sets = _runs(budget)
    chosen = _chosen(lab, budget, {"FM 512": fms["FM 512"], **sets})
    found = dict(zip(chosen, with_seeds(lab, list(chosen.values()), budget.seeds)))
    fm = found["FM 512"]
    lines = []
    for name, one in found.items():
        loss, millions, seconds = TABLE2[name]
        shown = name if name == "FM 512" else f"RaFM {name} {_short(one)}"
        line = [shown, f"{one.run.l2:g}", f"{one.run.rate or RATES['binary']:g}"]
        line += [mean_and_deviation(one.losses), f"{one.parameters / 1e6:.2f} M"]
        line += [f"{one.seconds('pass_seconds') / fm.seconds('pass_seconds'):.2f}x"]
        line += [f"{one.results[0]['factors_per_row'] / fm.results[0]['factors_per_row']:.2f}x"]
        line += ["" if one is fm else f"{standing(one.losses, fm.losses)} ({luck(p_value(one.losses, fm.losses))})"]
        lines.append([*line, f"{loss:.4f}", f"{millions:.2f} M", f"{seconds:.2f}x"])
    header = ["model", "L2", "rate", "log loss", "parameters", "pass", "numbers touched", "against FM 512"]
    header += ["paper (ML Tag): log loss", "parameters", "time"]
    record = {name: one.record() for name, one in found.items()}
    text = [
        "The paper's rank sets by its rank rule (c = 1); L2 and learning rate of each model are chosen as in Table 3.",
        table(header, lines),
    ]
    config = {name: run.task() for name, run in chosen.items()}
    return Artefact("table2", f"Table 2: sets of ranks, on {budget.tag_data}", config, record, text)


def _short(one: Contender) -> str:
    ranks = one.run.ranks
    return one.run.rank_text if len(ranks) <= 5 else f"{{{ranks[0]},{ranks[1]},...,{ranks[-1]}}}"
