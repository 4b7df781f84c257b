"""One registry of formats: an entry is all that a new one needs."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from commands import rows_of_pairs, run

from rafm.errors import ConfigError
from rafm.read.formats import CONVERTED, FORMATS, ROWS, TABLE, Format, format_named
from rafm.read.labels import LabelCheck
from rafm.read.libsvm.reader import TextRows


def read_pairs(path, *, index_base, duplicates, limits, chunk_bytes=0, on_bad=None):
    """Read lines of "label|id id"."""
    rows = [re.split(r"[| ]", line) for line in Path(path).read_text().splitlines()]
    labels = np.array([row[0] for row in rows], np.float32)
    ids = np.array([row[1:] for row in rows], np.int64) - index_base
    indptr, lines = np.arange(len(rows) + 1) * 2, np.arange(len(rows)) + 1
    yield TextRows(labels, indptr, ids.ravel(), np.ones(ids.size, np.float32), 1, lines, None)


@pytest.fixture
def pairs(monkeypatch, tmp_path):
    """Add a format by an entry; return a file of it and the same rows as libsvm text."""
    monkeypatch.setitem(sys.modules, "pairs_format", types.SimpleNamespace(read_pairs=read_pairs))
    monkeypatch.setitem(
        FORMATS, "pairs", Format("pairs", ROWS, "pairs_format:read_pairs", "label|id id", suffixes=(".pairs",))
    )
    text = rows_of_pairs(200)
    (tmp_path / "rows.svm").write_text(text)
    (tmp_path / "rows.pairs").write_text(re.sub(r"^(\d) (\d+):1 (\d+):1$", r"\1|\2 \3", text, flags=re.MULTILINE))
    return tmp_path / "rows.pairs", tmp_path / "rows.svm"


def test_an_entry_is_all_that_a_new_format_needs(pairs, tmp_path):
    models = []
    for number, (data, options) in enumerate([(pairs[0], []), (pairs[0], ["--format", "pairs"]), (pairs[1], [])]):
        ran = run("train", data, "--valid", data, "--out", tmp_path / str(number), "--ranks", "2", *options)
        assert ran.code == 0, ran.err
        models.append((tmp_path / str(number)).read_bytes())
    assert models[0] == models[1] == models[2]
    found = run("inspect", pairs[0], "--json").json()
    assert (found["format"], found["rows"]) == ("pairs", 200)
    assert run("convert", pairs[0], tmp_path / "o.arrow").code == 0
    with pytest.raises(ConfigError, match="pairs; found 'svmlight'"):
        format_named("svmlight")


def test_every_entry_is_complete():
    for name, entry in FORMATS.items():
        assert (entry.name, entry.gives in (ROWS, TABLE, CONVERTED)) == (name, True)
        assert entry.help
        assert entry.magic or entry.looks_like or entry.suffixes
        assert bool(entry.looks_like) == bool(entry.lines)


def test_help_names_every_format():
    told = " ".join(run("train", "--help").out.split())
    assert all(re.search(rf"\b{name}\b", told) for name in FORMATS)


COMMANDS = {
    "train": ("train", "DATA", "--valid", "OTHER", "--out", "m2", "--label", "click", "--epochs", "1", "--ranks", "2"),
    "evaluate": ("evaluate", "m", "DATA"),
    "predict": ("predict", "m", "DATA"),
    "inspect": ("inspect", "DATA", "--label", "click"),
    "convert": ("convert", "DATA", "t.arrow", "--label", "click"),
    "convert again": ("convert", "DATA", "t.arrow", "--label", "click"),
    "go on": ("train", "DATA", "--resume-from", "m", "--out", "m3"),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    for name in ("DATA", "OTHER"):
        (folder / name).write_text("click,x,y\n" + "1,a,b\n0,b,c\n" * 20)
    ran = run("train", folder / "DATA", "--label", "click", "--out", folder / "m", "--epochs", "1", "--ranks", "2")
    assert ran.code == 0, ran.err
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_looked_at_once_per_command(command, table, monkeypatch):
    looks = []
    probe = Format("probe", ROWS, "nowhere:nothing", "", looks_like=lambda lines: looks.append(lines[0]), lines="none")
    monkeypatch.setitem(FORMATS, "probe", probe)
    arguments = [
        table / part if (table / part).exists() or "." in part or part[0] == "m" else part for part in COMMANDS[command]
    ]
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    assert len(looks) == ("OTHER" in COMMANDS[command]) + 1


# ---- Labels


@pytest.mark.parametrize("labels", [[[1, 0], [0, 1]], [[1], [-1, 1]], [[1, 1]]])
def test_labels_of_either_convention_become_0_and_1(labels):
    binary = LabelCheck("rows", "binary")
    found = [binary.check(np.array(part, np.float32)).tolist() for part in labels]
    assert found == [[float(label == 1) for label in part] for part in labels]


def test_what_is_wrong_with_a_label_is_told_by_row_or_line():
    rows = LabelCheck("t.csv", "binary")
    rows.check(np.zeros(5))
    with pytest.raises(ValueError, match=r"^t.csv: row 7 \(counted from 1\): a third label, 3, after 0 and 1: "):
        rows.check(np.array([1.0, 3.0]))
    with pytest.raises(ValueError, match=r"^t.csv: row 8 \(counted from 1\): the labels 0 and -1 are mixed"):
        rows.check(np.array([1.0, 1.0, -1.0]))
    text = LabelCheck("t.svm", "binary")
    text.check(np.array([1, -1]), np.array([3, 4]))
    with pytest.raises(ValueError, match=r"^t.svm:9:1: the labels 0 and -1 are mixed; .*, found 0$"):
        text.check(np.array([1, 0]), np.array([8, 9]))
    with pytest.raises(ValueError, match=r"^t.svm:10:1: a third label, 0.5, after 1 and -1: "):
        text.check(np.array([0.5, 0]), np.array([10, 11]))
