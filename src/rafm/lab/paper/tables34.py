"""Tables 3 and 4, and comparisons of update rules and protocols."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from .artefact import Artefact, table
from .budget import L2_GRID, Budget
from .competition import SMALL, Competition, Contender, compete, with_seeds
from .lab import Lab
from .published import NEAREST, TABLES, Published
from .verdicts import luck, mean_and_deviation, p_value, standing, verdict


@lru_cache(maxsize=1)  # several artefacts use them
def competitions(lab: Lab, budget: Budget) -> list[Competition]:
    """Run all studies; stored results are not computed again."""
    return [compete(lab, budget, study) for study in budget.studies]


def tables34(lab: Lab, budget: Budget) -> Artefact:
    """Compare the best model of every family."""
    found = competitions(lab, budget)
    text = [
        f"Ranks and L2 are chosen on validation rows: every model has {len(budget.fm_ranks)} candidates for its ranks "
        f"and, for each, the same {len(budget.coarse)} values of L2{', then neighbours of the best' * budget.refine}. "
        f"Mean and deviation of {len(budget.seeds)} seeds, compared with FM by Welch's t test. Times are CPU seconds "
        "relative to FM, of one pass over the training rows and of scoring the test rows. Models are trained as in the "
        "paper, without averaging, all with the default learning rate (0.2 for clicks, 0.1 for ratings); on the "
        "frontier above it is tuned for each."
    ]
    for each in found:
        text += [f"### {each.study.title}", winners_table(each), *edges(each)]
    record = {each.study.title: {f: [c.record() for c in own] for f, own in each.families.items()} for each in found}
    return Artefact("tables34", "Tables 3 and 4: FM, DiFacto, MRMA and RaFM", _config(budget, found), record, text)


def _config(budget: Budget, found: list[Competition]) -> dict[str, object]:
    runs = {each.study.title: {f: [c.run.task() for c in own] for f, own in each.families.items()} for each in found}
    return {"chosen": runs, "coarse": budget.coarse, "refine": budget.refine, "seeds": budget.seeds}


def winners_table(found: Competition) -> str:
    """Return a table of the best model of every family, beside the paper's results for the nearest data set."""
    name, comparable = NEAREST.get(found.study.data, ("", ""))
    theirs, fm = TABLES.get(name, {}), found.winners["FM"]
    header = ["model", "ranks", "L2", *found.metrics, "parameters", "pass", "test", "against FM"]
    header += [f"paper ({name}): loss", "AUC", "parameters", "pass"] if theirs else []
    lines = []
    for family, one in found.winners.items():
        line = [family, one.run.rank_text, f"{one.run.l2:g}", mean_and_deviation(one.losses)]
        line += [mean_and_deviation(one.second), f"{one.parameters / 1e6:.3f} M"]
        line += [f"{one.seconds(s) / fm.seconds(s):.2f}x" for s in ("pass_seconds", "test_seconds")]
        line.append("" if one is fm else f"{standing(one.losses, fm.losses)} ({luck(p_value(one.losses, fm.losses))})")
        lines.append(line + (_paper_cells(theirs, family) if theirs else []))
    note = f"\n\nThe paper's {name}: {comparable}." if theirs else ""
    return table(header, lines, 2) + note


def _paper_cells(theirs: dict[str, Published], family: str) -> list[str]:
    line = theirs.get(family)
    if line is None:
        return [""] * 4
    area = "" if line.area is None else f"{line.area:.4f}"
    return [f"{line.loss:.4f} ± {line.deviation:.4f}", area, f"{line.millions:.2f} M", f"{line.time:.2f}x"]


def edges(found: Competition) -> list[str]:
    """Report families whose best L2 is at an end of the grid: they might do better beyond it."""
    ends = [f for f, one in found.winners.items() if one.run.l2 in (L2_GRID[0], L2_GRID[-1])]
    return (
        [f"The best L2 of {', '.join(ends)} is at an end of the paper's grid, {L2_GRID[0]:g} to {L2_GRID[-1]:g}."]
        if ends
        else []
    )


# ---- Claims


def claims(found: list[Competition]) -> list[str]:
    """Return the expected results, and whether they were reached."""
    return [line for each in found for line in (*_tag_claims(each), *_frappe_claims(each), *_rating_claims(each))]


def described(one: Contender) -> str:
    """Describe a contender by its loss and its number of parameters."""
    return f"{one.run.label} has {mean_and_deviation(one.losses)} with {one.parameters / 1e6:.2f} M"


def _tag_claims(found: Competition) -> list[str]:
    if "tag" not in found.study.data:
        return []
    fm = found.winners["FM"]  # the best by validation loss, of any size
    rafm = found.within("RaFM", fm.parameters / SMALL)
    claim = f"{found.study.title}: RaFM beats the best FM with at most a fifth of its parameters"
    if rafm is None:
        return [verdict(False, claim, "No RaFM so small was tried.")]
    why = f"{described(rafm)}, {described(fm)} ({luck(p_value(rafm.losses, fm.losses))})."
    return [verdict(standing(rafm.losses, fm.losses) == "better", claim, why)]


def _frappe_claims(found: Competition) -> list[str]:
    if found.study.data != "frappe":
        return []
    theirs = TABLES["Frappe"]["RaFM"]
    rafm = found.within("RaFM", theirs.millions * 1e6)  # no larger than the paper's
    paper = f"the paper's RaFM ({theirs.loss}, AUC {theirs.area}, {theirs.millions} M)"
    claim = f"frappe: better than {paper} without being larger"
    if rafm is None:
        return [verdict(False, claim, "No RaFM so small was tried.")]
    loss, area = np.mean(rafm.losses), np.mean(rafm.second)
    why = f"RaFM {rafm.run.rank_text}: {loss:.4f}, AUC {area:.4f}, {rafm.parameters / 1e6:.2f} M."
    return [verdict(bool(loss < theirs.loss and area > (theirs.area or 0)), claim, why)]


def _rating_claims(found: Competition) -> list[str]:
    if found.metrics[0] != "RMSE":
        return []
    fm, rafm = found.winners["FM"], found.winners["RaFM"]
    why = f"{described(rafm)}, {described(fm)} ({luck(p_value(rafm.losses, fm.losses))})."
    holds = standing(rafm.losses, fm.losses) != "worse"
    return [verdict(holds, f"{found.study.title}: RaFM's RMSE is no worse than that of the best FM", why)]


def rules(lab: Lab, budget: Budget) -> Artefact:
    """Compare the two update rules, each with its best ranks and L2."""
    found = competitions(lab, budget)
    lines, outcomes = [], []
    for each in found:
        joint, letter = each.winners["RaFM"], each.winners["RaFM (Algorithm 1)"]
        outcomes.append(standing(joint.losses, letter.losses))
        chance = luck(p_value(joint.losses, letter.losses))
        cells = [f"{one.run.rank_text}: {mean_and_deviation(one.losses)}" for one in (joint, letter)]
        lines.append([each.study.title, *cells, outcomes[-1], chance])
    tally = ", ".join(f"{outcomes.count(word)} {word}" for word in ("better", "level", "worse"))
    text = [
        "Algorithm 1 updates a dependent factor by the gradient of L(B_1p, B_1p+1) alone; the joint rule adds the "
        f"gradient of the prediction's own loss, which involves the factor too. Joint against Algorithm 1: {tally}.",
        table(["data", "joint", "Algorithm 1", "joint is", "luck"], lines, 1),
    ]
    return Artefact("update-rules", "Algorithm 1 and the joint update rule", _config(budget, found), lines, text)


def authors(lab: Lab, budget: Budget) -> Artefact:
    """Train the winners again with the authors' protocol."""
    lines, found = [], competitions(lab, budget)
    for each in found:
        for family, one in each.winners.items():
            (theirs,) = with_seeds(lab, [replace(one.run, protocol="authors")], budget.seeds)
            change = np.mean(theirs.losses) - np.mean(one.losses)
            cells = [mean_and_deviation(one.losses), mean_and_deviation(theirs.losses), f"{change:+.4f}"]
            lines.append([each.study.title, family, *cells, luck(p_value(theirs.losses, one.losses))])
    text = [
        "Counts over training, validation and test rows, probabilities clipped to 1e-4, ratings clamped to the test "
        "labels' range, as in the authors' scripts; ranks and L2 as chosen above. Everything else here counts training "
        "rows alone and clips nothing.",
        table(["data", "model", "ours", "authors' protocol", "change", "luck"], lines, 2),
    ]
    return Artefact("authors-protocol", "The authors' protocol", _config(budget, found), lines, text)
