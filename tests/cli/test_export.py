"""`rafm export`: a file for each target, told in one line, and errors in flags."""

import subprocess
import sys

import pytest
from commands import rows_of_pairs, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("export")
    (path / "rows").write_text(rows_of_pairs())
    assert run("train", path / "rows", "--out", path / "m.rafm", "--epochs", 2, "--ranks", "4,8").code == 0
    return path


@pytest.mark.parametrize(("to", "name"), [("c", "m.c"), ("python", "m.py"), ("onnx", "m.onnx")])
def test_a_file_is_written_and_told(folder, to, name):
    found = run("export", folder / "m.rafm", "--to", to, "--out", folder / name)
    assert (found.code, found.err) == (0, "")
    assert found.out == f"saved {folder / name}: {to}, {(folder / name).stat().st_size} bytes\n"
    again = run("export", folder / "m.rafm", "--to", to, "--out", folder / "again", "--json").json()
    assert (again["to"], again["bytes"]) == (to, (folder / name).stat().st_size)
    assert (folder / "again").read_bytes() == (folder / name).read_bytes()


def test_the_python_file_predicts_as_the_command_does(folder):
    run("export", folder / "m.rafm", "--to", "python", "--out", folder / "m.py")
    with open(folder / "rows") as rows:
        done = subprocess.run([sys.executable, folder / "m.py"], stdin=rows, capture_output=True, text=True)
    expected = run("predict", folder / "m.rafm", folder / "rows").out
    assert [float(line) for line in done.stdout.split()] == pytest.approx([*map(float, expected.split())], abs=1e-6)


def test_what_cannot_be_written_is_one_line(folder):
    found = run("export", folder / "m.rafm", "--to", "java", "--out", folder / "none")
    assert (found.code, found.error()) == (2, "--to must be one of onnx, c, python, found 'java'")
    assert run("export", folder / "rows", "--to", "c", "--out", folder / "none").code == 4
    assert run("export", folder / "m.rafm", "--to", "c", "--out", folder / "m.rafm").code == 2
    assert not (folder / "none").exists()
