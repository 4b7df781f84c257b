"""No command writes to one of its inputs, whichever option names it."""

import os

import pytest
from commands import rows_of_pairs, run

from rafm.cli.app import app, parser_of
from rafm.cli.outputs import FILES, OUTPUTS

# metavars of what is no file: folders, columns, settings
OTHERS = {
    "DIR",
    "COLUMN",
    "LABEL",
    "NAME=KIND",
    "MB",
    "K,...",
    "A*B,...",
    "CONTEXT,ITEM",
    "NAME",
    "NAMES",
    "ADDRESS",
    "16|8|6|4",
    "onnx|c|python",
}
WRITTEN = {"OUT", "HTML", "SMALL"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.svm").write_text(rows_of_pairs(40))
    (tmp_path / "v.svm").write_text(rows_of_pairs(20, seed=1))
    (tmp_path / "f.tsv").write_text("".join(f"{i}\t{'user' if i < 12 else 'item'}\n" for i in range(22)))
    (tmp_path / "t.csv").write_text("click,user\n" + "".join(f"{i % 2},u{i % 3}\n" for i in range(20)))
    (tmp_path / "c.toml").write_text('label = "click"\n')
    return tmp_path


TRAIN = ["train", "r.svm", "--model", "lr", "--epochs", "1"]


@pytest.mark.parametrize(
    ("command", "hurt", "way_out"),
    [
        ([*TRAIN, "--fields", "f.tsv", "--out", "f.tsv"], "f.tsv", "output"),
        ([*TRAIN, "--fields", "f.tsv", "--out", "./f.tsv"], "f.tsv", "output"),
        ([*TRAIN, "--valid", "v.svm", "--out", "m.rafm", "--events", "v.svm"], "v.svm", "--events"),
        ([*TRAIN, "--out", "m.rafm", "--events", "r.svm"], "r.svm", "--events"),
        (["tune", "r.svm", "--fields", "f.tsv", "--out", "m.rafm", "--plot", "f.tsv"], "f.tsv", "--plot"),
        (["convert", "t.csv", "c.toml", "--columns", "c.toml"], "c.toml", "output"),
        (["convert", "r.svm", "f.tsv", "--fields", "f.tsv"], "f.tsv", "output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_no_output_replaces_an_input(folder, command, hurt, way_out):
    before = (folder / hurt).read_bytes()
    ran = run(*command)
    assert ran.error().endswith(f"{hurt} is an input and would be overwritten; choose another {way_out}")
    assert ran.code == 2
    assert (folder / hurt).read_bytes() == before
    assert not os.path.exists("m.rafm")


def test_two_outputs_are_two_files(folder):
    said = run(*TRAIN, "--out", "m.rafm", "--events", "./m.rafm").error()
    assert said == "./m.rafm is named by --out and --events; choose different files"


def test_a_model_may_replace_the_one_that_it_continues(folder):
    assert run(*TRAIN, "--out", "m.rafm").code == 0
    assert run("train", "r.svm", "--resume-from", "m.rafm", "--out", "m.rafm").code == 0


def test_every_option_with_a_metavar_is_known_to_be_a_file_or_not():
    for name, command in parser_of(app).commands.items():
        for parameter in command.params:
            if parameter.metavar is not None:
                known = parameter.metavar in {*FILES, *OTHERS} or parameter.name in OUTPUTS
                assert known, f"rafm {name} {parameter.name}: add {parameter.metavar} to FILES or here"
                assert (parameter.metavar not in WRITTEN) or parameter.name in OUTPUTS


def test_a_file_in_place_of_a_directory_and_other_kinds_of_rows_are_named(folder):
    assert run(*TRAIN, "--out", "m.rafm", "--checkpoint", "f.tsv").error() == "f.tsv: is a file; give a directory"
    table = ("train", "t.csv", "--label", "click", "--out", "m.rafm", "--valid", "v.svm")
    assert run(*table).err == "error: v.svm: the training rows are a table, but this looks like libsvm\n"
    said = run(*TRAIN, "--out", "m.rafm", "--valid", "t.csv").err
    assert said == "error: t.csv: the training rows are rows of ids, but this looks like csv\n"


def test_a_number_that_is_not_whole_is_answered_with_one_that_is(folder):
    said = run("train", "r.svm", "--out", "m.rafm", "--max-parameters", "1e5").error()
    assert said == "Invalid value for '--max-parameters': expected a whole number, such as 100000"
