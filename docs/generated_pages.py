"""Pages that MkDocs generates: commands, public names of Python, examples, list of decisions, changelog."""

from __future__ import annotations

import ast
import inspect
import json
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import typer

import rafm
import rafm.distributed
from rafm import errors
from rafm.cli.app import app
from rafm.optimizers.optimizer import Optimizer

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./(experiments/[\w/-]+\.png)\)")  # pictures of results.md, which lie beside docs
INHERITED = """
The settings are those of every optimiser:

::: rafm.optimizers.optimizer.Optimizer
    options: { members: [], show_root_heading: false, show_root_toc_entry: false, show_docstring_description: false }
"""
PUBLIC = """# What is public

The [policy on versions](versions.md) holds for:

* the names below, their documented parameters, methods and attributes;
* the commands, their flags, exit codes, and what they print with `--json` and write with `--events`;
* [files](files.md), and the routes of [`rafm serve`](../guide/serve.md).

Everything else is internal and may change in any version: other modules of the package, although their names have no
underscore, names that begin with one, the wording of messages, and the layout of what is printed for people.
"""
WITH_MEMBERS = ("rafm.estimators", "rafm.encode")  # of other classes, users need the constructor alone


def on_config(config: Any) -> Any:
    """Fill the places that `mkdocs.yml` leaves in its navigation, such as `COMMANDS`."""
    config.nav = [filled(entry, sections()) for entry in config.nav]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, and the pictures that lie outside of this folder."""
    from mkdocs.structure.files import File

    changelog = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    alone = {"decisions/index.md": decisions(), "changelog.md": changelog, "policies/public.md": public_page()}
    for path, text in chain(alone.items(), *(pages.items() for pages in sections().values())):
        files.append(File.generated(config, path, content=text))
    for path in OUTSIDE.findall((ROOT / "docs" / "results.md").read_text()):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


@cache
def sections() -> dict[str, dict[str, str]]:
    """Return the generated pages, path -> text, by the place in the navigation where they are listed."""
    return {"COMMANDS": command_pages(), "NAMES": name_pages(), "EXAMPLES": example_pages()}


def filled(entry: dict[str, Any], pages: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return an entry of the navigation with lists of pages in place of names of sections."""
    ((title, target),) = entry.items()
    if isinstance(target, list):
        return {title: [filled(one, pages) for one in target]}
    # a page of mkdocstrings gets its title too late for the navigation
    listed = [
        path if text.startswith("# ") else {Path(path).stem: path} for path, text in pages.get(target, {}).items()
    ]
    return {title: listed or target}


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


def public_names() -> dict[str, list[str]]:
    """Return all names that programs may import, by module."""
    kinds = (errors.RafmError, Warning)
    raised = [name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, kinds)]
    names = {"rafm": rafm.__all__, "rafm.distributed": rafm.distributed.__all__, "rafm.errors": raised}
    return {module: sorted(listed) for module, listed in names.items()}


def public_page() -> str:
    """Return the page of what is public."""
    lists = (f"## {module}\n\n{', '.join(f'`{name}`' for name in names)}\n" for module, names in public_names().items())
    return "\n".join([PUBLIC, *lists])


def name_page(name: str) -> str:
    """Return a page for mkdocstrings, with the members that are our own, inherited or not."""
    thing = getattr(rafm, name)
    is_listed = inspect.isclass(thing) and thing.__module__.startswith(WITH_MEMBERS)
    own = [member for member in dir(thing) if is_ours(thing, member)] if is_listed else []
    page = f"::: {thing.__module__}.{name}\n    options:\n      members: {own}\n      inherited_members: {own}\n"
    return page + INHERITED if inspect.isclass(thing) and issubclass(thing, Optimizer) else page


def is_ours(kind: type, member: str) -> bool:
    """Tell whether a member is public, a method or property, and defined in this package."""
    value = inspect.getattr_static(kind, member)
    function = getattr(value, "fget", None) or getattr(value, "__func__", value)
    return not member.startswith("_") and str(getattr(function, "__module__", "")).startswith("rafm.")


def example_pages() -> dict[str, str]:
    """Return the page of every example by its path: its words, then its code."""
    scripts = {path.stem: script_page(path.read_text()) for path in sorted((ROOT / "examples").glob("*.py"))}
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
    tour = "\n\n".join(cell_text(cell) for cell in notebook["cells"]).replace("../docs/", "../")
    pages = {"tour": tour, **scripts}
    return {f"examples/{name.replace('_', '-')}.md": text for name, text in pages.items()}


def script_page(text: str) -> str:
    """Return a script as a page: the first sentence of its docstring is the title."""
    words = inspect.cleandoc(ast.get_docstring(ast.parse(text)) or "")
    title, _, more = words.partition("\n")
    code = text.partition('"""\n\n')[2]
    return f"# {title.partition(':')[0]}\n\n{title}\n{more}\n\n```python\n{code}```\n"


def cell_text(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook as Markdown."""
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def decisions() -> str:
    """Return a list of the decisions, by their titles."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    lines = [f"* [{page.read_text().splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages]
    return "\n".join(["# Decisions", "", "Why things are as they are, one page each.", "", *lines, ""])
