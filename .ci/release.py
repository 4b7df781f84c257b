#!/usr/bin/env python3
"""Refuse to release a tag that the files of the checkout contradict.

    python .ci/release.py v0.2.0

`differences` is empty if the tag, the version, the changelog, the citation and the recipe agree, nothing waits under
[Unreleased], and pyproject.toml has the public address.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {  # every file that has the version, and how
    "src/rafm/version.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "recipe/recipe.yaml": r'^  version: "(.+)"$',
    "CHANGELOG.md": r"^## \[(\d.*)\] - ",
}


def differences(root: Path, tag: str) -> list[str]:
    """Return what stands in the way of releasing this tag, a line each."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in VERSIONS}
    versions = {name: re.search(VERSIONS[name], text, re.MULTILINE)[1] for name, text in texts.items()}
    wrong = [f"{name}: {found}, but the tag is {tag}" for name, found in versions.items() if f"v{found}" != tag]
    waiting, _, released = texts["CHANGELOG.md"].partition("## [Unreleased]\n")[2].partition("## [")
    if waiting.strip():
        wrong.append("CHANGELOG.md: lines wait under [Unreleased]")
    if not re.match(r"[\d.a-z]+\] - \d{4}-\d\d-\d\d\n", released):
        wrong.append("CHANGELOG.md: the newest version has no date")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "Repository" not in project.get("urls", {}):
        wrong.append("pyproject.toml: no Repository in [project.urls]")
    return wrong


if __name__ == "__main__":
    sys.exit("\n".join(differences(ROOT, sys.argv[1])) or 0)
