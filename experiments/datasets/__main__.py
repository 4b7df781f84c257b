"""`python -m experiments.datasets`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rafm.cli.app import EPILOG, run
from rafm.cli.arguments import Json, print_json
from rafm.cli.outputs import Command

app = typer.Typer(
    help="List, download and check public data sets.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Folder = Annotated[
    str | None,
    typer.Option("--folder", metavar="DIR", help="Directory of data sets (default: $RAFM_DATA, else ./rafm-data)."),
]


@app.callback(invoke_without_command=True)
def bare(context: typer.Context) -> None:
    """List, download and check public data sets. Without a command, list them."""
    if context.invoked_subcommand is None:
        list_()


@app.command("list", cls=Command, epilog=EPILOG)
def list_(folder: Folder = None, json: Json = False) -> None:
    """List all data sets with terms of use, citation and status."""
    from dataclasses import asdict

    from . import CATALOG, data_folder
    from .prepared import ready_names

    ready = ready_names(data_folder(folder))
    if json:
        known = {name: {**asdict(entry), "ready": name in ready} for name, entry in CATALOG.items()}
        print_json({"sets": known, "others": [name for name in ready if name not in CATALOG]})
        return
    for name, entry in CATALOG.items():
        print(f"{name:22} {'ready ' if name in ready else 'absent'} {entry.task:10} {entry.title}")
        print(f"{'':29} terms: {entry.licence}\n{'':29} cite:  {entry.citation}\n{'':29} from:  {entry.page}")
    for name in ready:
        if name not in CATALOG:  # a directory that the user prepared
            print(f"{name:22} ready")


@app.command(cls=Command, epilog=EPILOG)
def get(
    name: Annotated[str, typer.Argument(help="Data set; see `python -m experiments.datasets list`.")],
    raw: Annotated[
        str | None, typer.Option(metavar="PATH", help="Use this archive, file or directory instead of downloading.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Keep only this many rows from the start.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the split and of sampled negatives.")] = 0,
    folder: Folder = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Accept downloads without a known SHA-256; prints the one found.")
    ] = False,
) -> None:
    """Download a data set and prepare it for training.

    With --raw, read its published files from PATH instead.
    """
    from pathlib import Path

    from . import data_folder, entry_of
    from .get import get as prepare

    entry, target = entry_of(name), data_folder(folder)
    print(f"{entry.title}. Terms: {entry.licence}. Cite: {entry.citation}", file=sys.stderr)
    prepare(entry, target, None if raw is None else Path(raw), seed, rows, unverified=unverified)
    print(f"ready: {target / name}")


@app.command(cls=Command, epilog=EPILOG)
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets to check (default: all downloaded).")] = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Read prepared data sets and verify their checksums and counts."""
    from . import data_folder
    from .prepared import check_prepared, ready_names

    place = data_folder(folder)
    for name in names or ready_names(place):
        found = check_prepared(place, name)
        if json:
            print_json(found)
            continue
        sizes = " / ".join(f"{size:,}" for size in found["rows"].values())
        print(f"{name:22} {found['task']:10} {sizes:30} {'as recorded' if found['verified'] else 'unverified'}")


def main() -> None:
    """Run the command line."""
    run(app, "python -m experiments.datasets")


if __name__ == "__main__":
    main()
