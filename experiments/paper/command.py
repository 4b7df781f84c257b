"""Reproduce artefacts, and write them and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rafm.errors import ConfigError

from .artefact import Artefact, write_artefact
from .budget import Budget
from .complexity import table1
from .curves import figure1, figure3, table2
from .frontier import frontier, size_claims, size_tables
from .industrial import figure4
from .lab import Lab
from .on_ray import ClusterRuns, figure4_on_ray
from .page import write_page
from .sampling import sampling
from .store import Store
from .tables34 import authors, claims, competitions, rules, tables34

ARTEFACTS: dict[str, Callable[[Lab, Budget], Artefact]] = {
    "frontier": frontier,
    "sampling": sampling,
    "figure1": figure1,
    "table1": table1,
    "figure3": figure3,
    "table2": table2,
    "tables34": tables34,
    "update-rules": rules,
    "figure4": figure4,
}
OPTIONAL = {"authors-protocol": authors}


def chosen(names: Sequence[str], with_authors: bool) -> dict[str, Callable[[Lab, Budget], Artefact]]:
    """Return the artefacts to reproduce: the named ones, or all.

    >>> list(chosen(["figure1"], with_authors=True))
    ['figure1', 'authors-protocol']
    """
    known = ARTEFACTS | OPTIONAL
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown artefact {name!r}; choose from {', '.join(known)}", key="artefacts")
    wanted = list(names or ARTEFACTS) + (list(OPTIONAL) if with_authors else [])
    return {name: known[name] for name in known if name in wanted}  # what is new, then in the order of the paper


def check_ray(address: str, wanted: Iterable[str]) -> None:
    """Refuse an address without Ray, and artefacts that are not trained on a cluster."""
    from rafm.distributed.config import check_address

    check_address(address)
    if list(wanted) != ["figure4"]:
        raise ConfigError("--ray trains Experiment B alone; give it with the single name figure4", key="ray")


def reproduce(
    names: Sequence[str],
    budget: Budget,
    data: Path,
    folder: Path,
    page: Path,
    workers: int = 1,
    with_authors: bool = False,
    command: str = "python -m experiments.paper",
    tell: Callable[[str], Any] = print,
    stored: bool = False,
    ray: str | None = None,
) -> list[Artefact]:
    """Execute missing runs, unless only stored results may be used, then write the artefacts' folders and the page.

    ray: address of a cluster to train on, which figure4 alone can do.
    """
    wanted, store = chosen(names, with_authors), Store(folder / "runs.jsonl")
    with ExitStack() as stack:
        lab = Lab(data, store, workers, tell, stored)
        if ray is not None:
            check_ray(ray, wanted)
            wanted = {"figure4": partial(figure4_on_ray, address=ray)}
            runs = stack.enter_context(ClusterRuns(ray, workers, folder))
            lab = Lab(data, store, 1, tell, stored, runs)
        stack.enter_context(lab)
        found = []
        for name, make in wanted.items():
            tell(f"{name}")
            found.append(make(lab, budget))
            own = command if name in OPTIONAL else command.replace(" --authors-protocol", "")
            write_artefact(folder, found[-1], f"{own.replace(' --stored', '')} {name}")
        # What a claim needs is in the store if its artefact was made.
        verdicts = size_claims(size_tables(lab, budget)) if "frontier" in wanted else []
        verdicts += claims(competitions(lab, budget)) if "tables34" in wanted else []
    write_page(page, folder, found, verdicts, budget, command)
    return found
