"""A table or figure of the paper: what was run, what came out, how it reads and how it looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...files.atomic import write_atomically


@dataclass(frozen=True)
class Artefact:
    """text holds paragraphs and tables of Markdown; draw(path) makes the figure, if there is one."""

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
    """Return a Markdown table; columns after the first n_words are numbers.

    >>> print(table(["model", "loss"], [["FM", "0.1"]]))
    | model | loss |
    |---|--:|
    | FM | 0.1 |
    """
    rule = "|" + "".join("---|" if at < n_words else "--:|" for at in range(len(header)))
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)])


def write_artefact(folder: Path, artefact: Artefact, command: str) -> None:
    """Write what was run, what came out, the figure, and how to run it again."""
    place = folder / artefact.name
    place.mkdir(parents=True, exist_ok=True)
    for file, content in (("config.json", artefact.config), ("result.json", artefact.result)):
        write_atomically(place / file, [(json.dumps(content, indent=1, sort_keys=True) + "\n").encode()])
    if artefact.draw:
        artefact.draw(place / f"{artefact.name}.png")
    again = f"    {command} {artefact.name}\n"
    picture = f"\n![{artefact.title}]({artefact.figure})\n" if artefact.draw else ""
    text = f"# {artefact.title}\n\n" + "\n\n".join(artefact.text) + f"\n{picture}\nMade by\n\n{again}"
    write_atomically(place / "README.md", [text.encode()])
