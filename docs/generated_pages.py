"""Pages that MkDocs generates from the code: commands, public names of Python, list of decisions, changelog."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import typer

import rafm
from rafm import errors
from rafm.cli import app

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./(experiments/[\w/-]+\.png)\)")  # pictures of results.md, which lie beside docs
WITH_MEMBERS = ("rafm.estimators", "rafm.encode")  # of other classes, users need the constructor alone


def on_config(config: Any) -> Any:
    """Fill the places that `mkdocs.yml` leaves in its navigation, `COMMANDS` and `NAMES`."""
    pages = {"COMMANDS": command_pages(), "NAMES": name_pages()}
    for section in config.nav:
        for entry in next(iter(section.values())) if isinstance(next(iter(section.values())), list) else []:
            ((title, place),) = entry.items()
            if place in pages:
                entry[title] = [{Path(path).stem.replace("-", " "): path} for path in pages[place]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, and the pictures that lie outside of this folder."""
    from mkdocs.structure.files import File

    generated = {**command_pages(), **name_pages(), "decisions/index.md": decisions()}
    generated["changelog.md"] = (ROOT / "CHANGELOG.md").read_text()
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    for path in OUTSIDE.findall((ROOT / "docs" / "results.md").read_text()):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to those pictures at their copies."""
    return OUTSIDE.sub(r"](\1)", markdown)


def command_pages() -> dict[str, str]:
    """Return the page of every command by its path."""
    found = dict(commands(typer.main.get_command(app), ()))
    return {f"reference/commands/{'-'.join(words)}.md": command_page(words, found[words]) for words in found}


def commands(command: Any, words: tuple[str, ...]) -> Any:
    """Yield (words, command) for each command of a group and its groups."""
    for name, one in getattr(command, "commands", {}).items():
        if hasattr(one, "commands"):
            yield from commands(one, (*words, name))
        else:
            yield (*words, name), one


def command_page(words: tuple[str, ...], command: Any) -> str:
    """Return what `--help` says, as a page."""
    context = typer.Context(command, info_name=f"rafm {' '.join(words)}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"# rafm {' '.join(words)}", "", "```text", usage, "```", "", inspect.cleandoc(command.help or ""), ""]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [row(one, context) for one in command.params if one.param_type_name == kind]
        lines += ["", f"## {title}", "", "| name | meaning |", "|---|---|", *rows] if rows else []
    return "\n".join(lines) + "\n"


def row(parameter: Any, context: Any) -> str:
    """Return a row of a table: how it is written, then what it does and its default."""
    names, text = parameter.get_help_record(context)
    names = names.strip() if parameter.param_type_name == "option" else names.split()[0]
    text = re.sub(r"\[(default: .*|required)\]$", r"*(\1)*", text.strip())
    return f"| `{names}` | {text.replace('|', '&#124;').replace('<', '&lt;')} |"


def name_pages() -> dict[str, str]:
    """Return the page of every public name by its path."""
    names = [name for name in rafm.__all__ if not name.startswith("__")]
    names.sort(key=lambda name: not getattr(rafm, name).__module__.startswith(WITH_MEMBERS))  # estimators first
    pages = {f"reference/python/{name}.md": name_page(name) for name in names}
    return pages | {"reference/python/errors.md": f"# Errors\n\n```text\n{inspect.getdoc(errors)}\n```\n"}


def name_page(name: str) -> str:
    """Return a page for mkdocstrings, with the members that are our own, inherited or not."""
    thing = getattr(rafm, name)
    is_listed = inspect.isclass(thing) and thing.__module__.startswith(WITH_MEMBERS)
    own = [member for member in dir(thing) if is_ours(thing, member)] if is_listed else []
    return f"::: {thing.__module__}.{name}\n    options:\n      members: {own}\n      inherited_members: {own}\n"


def is_ours(kind: type, member: str) -> bool:
    """Tell whether a member is public, a method or property, and defined in this package."""
    value = inspect.getattr_static(kind, member)
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    return not member.startswith("_") and str(getattr(function, "__module__", "")).startswith("rafm.")


def decisions() -> str:
    """Return a list of the decisions, by their titles."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    lines = [f"* [{page.read_text().splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages]
    return "\n".join(["# Decisions", "", "Why things are as they are, one page each.", "", *lines, ""])
