"""Tables 3 and 4, and comparisons of update rules and protocols."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from .artefact import Artefact, table
from .budget import L2_GRID, Budget
from .competition import SMALL, Competition, Contender, compete, with_seeds
from .lab import Lab, NotStored
from .published import NEAREST, TABLES, Published
from .tasks import RATES
from .verdicts import luck, mean_and_deviation, p_value, standing, verdict


@lru_cache(maxsize=1)  # several artefacts use them
def competitions(lab: Lab, budget: Budget) -> list[Competition]:
    """Run all studies; stored results are not computed again."""
    return [compete(lab, budget, study) for study in budget.studies]


def tables34(lab: Lab, budget: Budget) -> Artefact:
    """Compare the best model of every family."""
    found = competitions(lab, budget)
    text = [
        "Ranks, L2 and learning rate are chosen on validation rows with one seed, for every model alike. With the "
        f"default learning rate ({RATES['binary']:g} for clicks, {RATES['regression']:g} for ratings), each has "
        f"{len(budget.fm_ranks)} candidates for its ranks and, for each, the same {len(budget.coarse)} values of L2"
        f"{', then neighbours of the best' * budget.refine}. Then the rate of the best candidate (for the claims on "
        f"clicks, also of the best small one) moves by factors of 2{', and its L2 to neighbours,' * budget.refine} as "
        "long as that helps; ranks are not chosen again. "
        f"Mean and deviation of {len(budget.seeds)} seeds, compared with FM by Welch's t test. Times are CPU seconds "
        "relative to FM, of one pass over the training rows and of scoring the test rows. Models are trained as in the "
        f"paper, without averaging, for up to {budget.epochs} epochs"
        f"{', or 2 or 4 times as many if a tuned one uses all of them' * budget.refine}."
    ]
    for each in found:
        text += [f"### {each.title}", winners_table(each), *edges(each)]
        text += (
            [] if each.is_tuned else ["Not complete: the learning rate is not tuned here, it is the default for all."]
        )
    record = {each.title: {f: [c.record() for c in own] for f, own in each.families.items()} for each in found}
    return Artefact("tables34", "Tables 3 and 4: FM, DiFacto, MRMA and RaFM", _config(budget, found), record, text)


def _config(budget: Budget, found: list[Competition]) -> dict[str, object]:
    runs = {each.title: {f: [c.run.task() for c in own] for f, own in each.families.items()} for each in found}
    return {"chosen": runs, "coarse": budget.coarse, "refine": budget.refine, "seeds": budget.seeds}


def winners_table(found: Competition) -> str:
    """Return a table of the best model of every family, beside the paper's results for the nearest data set."""
    name, comparable = NEAREST.get(found.study.data, ("", ""))
    theirs, fm = TABLES.get(name, {}), found.winners["FM"]
    header = ["model", "ranks", "L2", "rate", *found.metrics, "parameters", "pass", "test", "against FM"]
    header += [f"paper ({name}): loss", "AUC", "parameters", "pass"] if theirs else []
    lines = []
    for family, one in found.winners.items():
        line = [family, one.run.rank_text, f"{one.run.l2:g}", f"{one.run.rate or found.usual_rate:g}"]
        line += [mean_and_deviation(one.losses), mean_and_deviation(one.second), f"{one.parameters / 1e6:.3f} M"]
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
    """Report families whose best L2 or epoch is the last one allowed: they might do better beyond it."""
    ends = [f for f, one in found.winners.items() if one.run.l2 in (L2_GRID[0], L2_GRID[-1])]
    last = [f for f, one in found.winners.items() if any(own["best_epoch"] == one.run.epochs for own in one.results)]
    grid = f"The best L2 of {', '.join(ends)} is at an end of the paper's grid, {L2_GRID[0]:g} to {L2_GRID[-1]:g}."
    epochs = f"For some seed, the last epoch allowed is the best of {', '.join(last)}."
    return [grid] * bool(ends) + [epochs] * bool(last)


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
    claim = f"{found.title}: RaFM beats the best FM with at most a fifth of its parameters"
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
    return [verdict(holds, f"{found.title}: RaFM's RMSE is no worse than that of the best FM", why)]


def rules(lab: Lab, budget: Budget) -> Artefact:
    """Compare the two update rules, each with its best ranks, L2 and learning rate."""
    found = competitions(lab, budget)
    lines, outcomes = [], []
    for each in found:
        joint, letter = each.winners["RaFM"], each.winners["RaFM (Algorithm 1)"]
        outcomes.append(standing(joint.losses, letter.losses))
        chance = luck(p_value(joint.losses, letter.losses))
        cells = [f"{one.run.rank_text}: {mean_and_deviation(one.losses)}" for one in (joint, letter)]
        lines.append([each.title, *cells, outcomes[-1], chance])
    tally = ", ".join(f"{outcomes.count(word)} {word}" for word in ("better", "level", "worse"))
    text = [
        "Algorithm 1 updates a dependent factor by the gradient of L(B_1p, B_1p+1) alone; the joint rule adds the "
        "gradient of the prediction's own loss, which involves the factor too. Ranks, L2 and learning rate of "
        f"each are those of Tables 3 and 4. Joint against Algorithm 1: {tally}.",
        table(["data", "joint", "Algorithm 1", "joint is", "luck"], lines, 1),
    ]
    return Artefact("update-rules", "Algorithm 1 and the joint update rule", _config(budget, found), lines, text)


def authors(lab: Lab, budget: Budget) -> Artefact:
    """Train the winners again with the authors' protocol; if nothing may be run, leave out what is not stored."""
    lines, missing, found = [], [], competitions(lab, budget)
    for each in found:
        try:
            again = [replace(one.run, protocol="authors") for one in each.winners.values()]
            theirs = with_seeds(lab, again, budget.seeds)
        except NotStored:
            missing.append(each.title)
            continue
        for (family, one), other in zip(each.winners.items(), theirs):
            change = np.mean(other.losses) - np.mean(one.losses)
            cells = [mean_and_deviation(one.losses), mean_and_deviation(other.losses), f"{change:+.4f}"]
            lines.append([each.title, family, *cells, luck(p_value(other.losses, one.losses))])
    text = [
        "Counts over training, validation and test rows, probabilities clipped to 1e-4, ratings clamped to the test "
        "labels' range, as in the authors' scripts; ranks, L2 and learning rate as chosen above. Everything "
        "else here counts training rows alone and clips nothing.",
        *([f"Not complete, and left out: {', '.join(missing)}."] if missing else []),
        table(["data", "model", "ours", "authors' protocol", "change", "luck"], lines, 2),
    ]
    return Artefact("authors-protocol", "The authors' protocol", _config(budget, found), lines, text)
