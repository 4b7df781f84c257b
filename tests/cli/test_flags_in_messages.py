"""Messages name only options that there are: those of the command that says it, or of one that it names."""

import ast
import re
from pathlib import Path

import pytest
from commands import run

import rafm
from rafm.cli.app import app, parser_of

SRC = Path(rafm.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z](?:-?[a-z0-9])*+(?![:-])")  # with a colon it is a property of CSS
OF_ALL = {"--debug", "--help", "--version"}
OF_PROGRAMS = {"--encode"}  # of exported programs
NOT_FLAGS = {"report/page.py", "export/program.py"}  # a style sheet, and a program with a flag of its own
N_ROWS = 240


def options(command):
    return OF_ALL | {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}


def by_command(group, prefix=""):
    """Return the options of each command by its name, those of subcommands as "ray capacity"."""
    found = {}
    for name, command in group.commands.items():
        found |= by_command(command, f"{name} ") if hasattr(command, "commands") else {prefix + name: options(command)}
    return found


OPTIONS = by_command(parser_of(app))


def texts_of(tree):
    """Yield the string constants of a module but for docstrings."""
    documented = ast.Module | ast.FunctionDef | ast.ClassDef
    docs = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and is_text(node.body)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def is_text(body):
    return bool(body) and isinstance(body[0], ast.Expr)


def test_messages_of_the_library_name_options_of_some_command():
    known, modules = set.union(*OPTIONS.values()) | OF_PROGRAMS, sorted(SRC.rglob("*.py"))
    modules = [path for path in modules if str(path.relative_to(SRC)) not in NOT_FLAGS]
    assert len(modules) > 200
    named = {
        flag: path.name
        for path in modules
        for text in texts_of(ast.parse(path.read_text()))
        for flag in FLAG.findall(text)
    }
    assert len(named) > 50
    assert {flag: name for flag, name in named.items() if flag not in known} == {}


def values(**changes):
    """Return the columns of a table, some of them changed or added, as lists of text."""
    columns = {
        "user": [f"u{k % 7}" for k in range(N_ROWS)],
        "film": [f"f{k % 11}" for k in range(N_ROWS)],
        "day": [f"2024-01-{k % 28 + 1:02d}" for k in range(N_ROWS)],
        "price": [f"{k % 13}.5" for k in range(N_ROWS)],
        "liked": [str(k % 2) for k in range(N_ROWS)],
    }
    return columns | changes


def with_one(cells, other):
    return [*cells[:9], other, *cells[10:]]


GOOD = values()
DOUBTFUL = {
    "text among numbers": values(price=with_one(GOOD["price"], "cheap")),
    "text among numbers of no column": values(more=with_one(GOOD["price"], "cheap")),
    "text among the labels": values(liked=with_one(GOOD["liked"], "maybe")),
    "fractions late": values(more=["7"] * (N_ROWS - 1) + ["7.5"]),
    "a date among dates": values(day=with_one(GOOD["day"], "2024-02-31")),
    "dates by day": values(day=[f"{k % 28 + 1}/01/2024" for k in range(N_ROWS)]),
    "times of a zone": values(day=[f"2024-01-{k % 28 + 1:02d}T08:00Z" for k in range(N_ROWS)]),
    "whole numbers for dates": values(day=["20240101"] * N_ROWS),
    "commas": values(price=[f'"{k % 13},5"' for k in range(N_ROWS)]),
    "prose": values(more=[f"a film of number {k}" for k in range(N_ROWS)]),
    "a key": values(user=[f"u{k}" for k in range(N_ROWS)]),
    "many whole numbers": values(more=[str(k) for k in range(N_ROWS)]),
    "spaces": values(more=[" x"] * N_ROWS),
    "an empty name": values(**{"": ["0"] * N_ROWS}),
    "no film": {name: cells for name, cells in GOOD.items() if name != "film"},
    "no label": {name: cells for name, cells in GOOD.items() if name != "liked"},
    "only a header": {name: [] for name in GOOD},
}


def written(columns, path):
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values()))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flags")
    written(GOOD, folder / "good.csv")
    options = ("--label", "liked", "--model", "fm", "--ranks", 2, "--epochs", 1, "--valid-share", 0)
    ran = run("train", folder / "good.csv", *options, "--out", folder / "m.rafm")
    assert ran.code == 0, ran.err
    written({"user": ["u1"], "day": ["2024-01-01"], "price": ["0.5"]}, folder / "users.csv")
    written({"film": ["f1", "f2"]}, folder / "films.csv")
    return folder


def calls(folder, data):
    """Return arguments of every command that reads a table, most of them for a model."""
    model, users, films, out = (folder / name for name in ("m.rafm", "users.csv", "films.csv", "out"))
    return {
        "predict": (model, data),
        "evaluate": (model, data),
        "explain": (model, data, "--rows", 2),
        "importance": (model, data, "--rows", 50),
        "recommend": (model, users, "--items", films, "--exclude", data),
        "convert": (data, out.with_suffix(".arrow"), "--like", model),
        "inspect": (data, "--label", "liked"),
        "train": (data, "--label", "liked", "--model", "lr", "--epochs", 1, "--valid-share", 0, "--out", out),
    }


@pytest.mark.parametrize("command", [*calls(Path(), Path())])
@pytest.mark.parametrize("doubt", DOUBTFUL)
def test_what_a_command_says_about_a_doubtful_file_names_its_own_options(folder, tmp_path, doubt, command):
    ran = run(command, *calls(folder, written(DOUBTFUL[doubt], tmp_path / "t.csv"))[command])
    assert "internal error" not in ran.err
    for line in ran.err.splitlines():
        named = [command, *(name for name in OPTIONS if f"`rafm {name}" in line)]
        assert set(FLAG.findall(line)) <= set.union(*(OPTIONS[name] for name in named)), line


def test_a_flag_of_another_command_would_be_found():
    assert FLAG.findall("set its kind: --column day=category, not a-b--c or var(--ink:#fff)") == ["--column"]
    assert "--column" in OPTIONS["train"]
    assert not {"--column"} & OPTIONS["recommend"] | {"--column"} & OPTIONS["predict"]
