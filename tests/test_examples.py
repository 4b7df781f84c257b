"""The examples run as they are, without a warning, and print that the model beats what they compare it with."""

import json
import re
import runpy
import tempfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = {path.name for path in EXAMPLES.glob("*.py")}
BETTER = {  # how the lower of two printed losses is found, then the higher
    "click_log_from_csv.py": (r"log loss +(\S+)", r"of a constant +(\S+)"),
    "ratings_from_dataframe.py": (r"RMSE +(\S+)", r"of a constant +(\S+)"),
    "larger_than_memory.py": (r"all epochs, spilled +log loss (\S+)", r"one pass, in pieces +log loss (\S+)"),
    "new_users_tomorrow.py": (r"of Tuesday +log loss (\d\.\d+)", r"of Monday +log loss (\d\.\d+)"),
    "tour.ipynb": (r"\nrafm +test log loss (\d\.\d+)", r"lr +test log loss (\d\.\d+)"),
}


def run_example(name, folder):
    """Run a script, or the code of a notebook."""
    path = EXAMPLES / name
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        path = folder / "tour.py"
        path.write_text("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:not seen in training")
@pytest.mark.parametrize("name", BETTER)
def test_an_example_runs_and_its_model_is_the_better_one(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run_example(name, tmp_path)
    printed = capsys.readouterr().out
    lower, higher = (float(re.search(pattern, printed)[1]) for pattern in BETTER[name])
    assert lower < higher


def test_every_example_is_run_and_listed():
    assert {*SCRIPTS, "tour.ipynb"} == set(BETTER)
    listed = re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text())
    assert set(listed) == set(BETTER)


def test_only_the_example_that_says_so_needs_pandas():
    needing = {name for name in SCRIPTS if re.search(r"import (pandas|polars)", (EXAMPLES / name).read_text())}
    assert needing == {"ratings_from_dataframe.py"}
    assert "pip install pandas" in (EXAMPLES / "ratings_from_dataframe.py").read_text()


def test_the_notebook_is_stored_without_output():
    for cell in json.loads((EXAMPLES / "tour.ipynb").read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
