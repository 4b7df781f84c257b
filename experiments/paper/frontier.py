"""The frontier of loss against size: one table per data set, a figure, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .artefact import Artefact, table
from .budget import Budget
from .equal_sizes import FAMILIES, MEASURED, PRUNED, PRUNED_T, Entry, SizeTable, compare_sizes
from .lab import Lab, NotStored
from .verdicts import mean_and_deviation, standing, verdict

RIVALS = (*FAMILIES, PRUNED, PRUNED_T)
TITLE = "The frontier: all models at equal numbers of parameters"


@lru_cache(maxsize=1)  # for the artefact and for the claims
def size_tables(lab: Lab, budget: Budget) -> list[SizeTable]:
    """Run all comparisons at equal size; stored results are not computed again.

    If nothing may be run, data sets with missing results are left out.
    """
    found = []
    for study in budget.size_studies:
        try:
            found.append(compare_sizes(lab, budget, study))
        except NotStored:
            lab.tell(f"{study.data}: left out of the frontier, because results are missing")
    return found


def frontier(lab: Lab, budget: Budget) -> Artefact:
    """Compare all models at equal numbers of parameters."""
    from .figures import draw_frontier

    found = size_tables(lab, budget)
    text = [
        "At each size: the model of every family that is no larger and has the lowest validation loss, and its test "
        f"loss (log loss, RMSE for ratings), mean and deviation of {len(budget.size_seeds)} seeds. All but "
        f"*{MEASURED}* are trained alike: averaging over epochs, one drop of the learning rate, up to 100 epochs; "
        "their learning rate, L2 and pattern of ranks (steps of 2 or of 4) are tuned on validation rows at the middle "
        "size. "
        "*FFM*: each feature has a vector for every field, so ranks are low, and the smallest sizes have no model. "
        f"*+t*: with field weights. *{PRUNED}*: a large FM with all but its largest coordinates set to 0; what counts "
        f"is the nonzero parameters. *{MEASURED}*: `--ranks auto --max-parameters N`, which finds its own settings: "
        "clicks with field weights, ratings by sampling. The lowest loss of a column is bold, and so are those that "
        "are level with it."
    ]
    there = {each.study.data for each in found}
    if missing := [study.data for study in budget.size_studies if study.data not in there]:
        text.append(f"Not complete, and left out: {', '.join(missing)}.")
    for each in found:
        text += [f"### {each.study.data}", sizes_table(each)]
    record = {each.study.data: _record(each) for each in found}
    config = {
        "factors": budget.factors,
        "seeds": budget.size_seeds,
        "studies": [[each.data, each.parameters] for each in budget.size_studies],
    }
    draw = lambda path: draw_frontier(path, found)  # noqa: E731
    return Artefact("frontier", TITLE, config, record, text, draw if found else None)


def _record(found: SizeTable) -> dict[str, list[dict[str, object]]]:
    return {
        family: [{"label": each.label, "parameters": each.parameters, "losses": each.losses} for each in own]
        for family, own in found.families.items()
    }


def sizes_table(found: SizeTable) -> str:
    """Return the losses of every family by size."""
    header = ["model", *(f"{size / 1e6:.3g} M" for size in found.sizes)]
    columns = []
    for size in found.sizes:
        own = {family: found.within(family, size) for family in found.families}
        columns.append({family: _cell(entry, list(own.values())) for family, entry in own.items()})
    return table(header, [[family, *(column[family] for column in columns)] for family in found.families])


def _cell(entry: Entry | None, rivals: Sequence[Entry | None]) -> str:
    if entry is None:
        return ""
    least = min((each for each in rivals if each), key=lambda each: float(np.mean(each.losses)))
    shown = mean_and_deviation(entry.losses)
    is_best = entry is least or (len(entry.losses) > 1 and standing(entry.losses, least.losses) == "level")
    return f"**{shown}**" if is_best else shown


# ---- What follows


def size_claims(found: Sequence[SizeTable]) -> list[str]:
    """Return what was claimed or expected about equal sizes, and whether it holds."""
    lines = [_against(each, "RaFM", "FM", "the paper's claim") for each in found]
    lines += [_against(each, "RaFM", "DiFacto", "the paper's claim") for each in found]
    lines += [_nowhere_worse(each) for each in found]
    return lines + [_what_beats(each) for each in found]


def _against(found: SizeTable, family: str, rival: str, whose: str) -> str:
    outcomes, where = [], []
    for size in found.sizes:
        own, theirs = found.within(family, size), found.within(rival, size)
        if own and theirs:
            outcomes.append(standing(own.losses, theirs.losses))
            if outcomes[-1] == "worse":
                where.append(f"{_millions(size)} ({np.mean(own.losses):.4f} against {np.mean(theirs.losses):.4f})")
    counted = ", ".join(f"{outcomes.count(word)} {word}" for word in ("better", "level", "worse"))
    why = f"Of {len(outcomes)} sizes: {counted}" + (f"; worse at {', '.join(where)}." if where else ".")
    holds = "better" in outcomes and not where
    return verdict(holds, f"{found.study.data}: at equal size {family} is better than {rival} ({whose})", why)


def _nowhere_worse(found: SizeTable) -> str:
    lost = found.worse(MEASURED, RIVALS)
    rivals = [name for name in RIVALS if found.within(name, found.sizes[-1])]  # some may have no results yet
    why = f"Compared with {', '.join(rivals)} at {len(found.sizes)} sizes"
    for rival, size in lost:
        pair = [found.within(name, size) for name in (MEASURED, rival)]
        ours, theirs = (np.mean(each.losses) for each in pair if each)
        why += f"; worse than {rival} at {_millions(size)} ({ours:.4f} against {theirs:.4f})"
    return verdict(not lost, f"{found.study.data}: measured ranks are nowhere worse beyond luck", why + ".")


def _what_beats(found: SizeTable) -> str:
    """Tell which families beat the paper's model at the middle size, the best first."""
    size = found.study.parameters
    rafm = found.within("RaFM", size)
    if rafm is None:
        return f"* {found.study.data}, {_millions(size)}: no RaFM is so small."
    own = {family: found.within(family, size) for family in found.families if family != "RaFM"}
    better = {
        name: np.mean(one.losses) for name, one in own.items() if one and standing(one.losses, rafm.losses) == "better"
    }
    listed = ", ".join(f"{name} {better[name]:.4f}" for name in sorted(better, key=better.__getitem__)) or "nothing"
    place, own_loss = f"{found.study.data}, {_millions(size)}", mean_and_deviation(rafm.losses)
    return f"* {place}: RaFM has {own_loss}; better beyond luck: {listed}."


def _millions(size: int) -> str:
    return f"{size / 1e6:.3g} M"
