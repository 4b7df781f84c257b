"""A reproduced table or figure of the paper: configuration, result, text and plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rafm.files.atomic import write_atomically


@dataclass(frozen=True)
class Artefact:
    """A table or figure; text is a list of Markdown paragraphs and tables, draw(path) writes the figure, if any."""

    name: str
    title: str
    config: dict[str, Any]
    result: Any
    text: list[str]
    draw: Callable[[Path], None] | None = None
    caption: str = ""

    @property
    def figure(self) -> str | None:
        return f"{self.name}.png" if self.draw else None


def table(header: Sequence[str], lines: Sequence[Sequence[str]], n_words: int = 1) -> str:
    """Return a Markdown table; columns after the first n_words are right-aligned.

    >>> print(table(["model", "loss"], [["FM", "0.1"]]))
    | model | loss |
    |---|--:|
    | FM | 0.1 |
    """
    rule = "|" + "".join("---|" if at < n_words else "--:|" for at in range(len(header)))
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)])


def write_artefact(folder: Path, artefact: Artefact, command: str) -> None:
    """Write configuration, result, figure, and a README with the command that reproduces them."""
    own = folder / artefact.name
    own.mkdir(parents=True, exist_ok=True)
    for file, content in (("config.json", artefact.config), ("result.json", artefact.result)):
        write_atomically(own / file, [(json.dumps(content, indent=1, sort_keys=True) + "\n").encode()])
    if artefact.draw:
        artefact.draw(own / f"{artefact.name}.png")
    again = f"    {command}\n"
    picture = f"\n![{artefact.title}]({artefact.figure})\n" if artefact.draw else ""
    text = f"# {artefact.title}\n\n" + "\n\n".join(artefact.text) + f"\n{picture}\nMade by\n\n{again}"
    write_atomically(own / "README.md", [text.encode()])
