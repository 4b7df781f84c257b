"""The recipes of docs/howto/ecosystem.md work as they are printed; doctest runs the one for DuckDB."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rafm import RaFMClassifier

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "ecosystem.md").read_text()
BLOCK = re.compile(r"<!-- (file|run): (\S+) -->\n```python\n(.*?)```", re.DOTALL)
BLOCKS = {name: [text for _, found, text in BLOCK.findall(PAGE) if found == name] for _, name, _ in BLOCK.findall(PAGE)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the model of the page."""
    found = tmp_path_factory.mktemp("recipes")
    users, items = ["ann", "ann", "bob", "bob"] * 50, ["tea", "jam"] * 100
    table = pa.table({"user": users, "item": items, "age": [31.0, 31.0, None, 52.0] * 50})
    RaFMClassifier(ranks=4, model="fm", l2=0).fit(table, [1, 0, 0, 1] * 50).save(found / "clicks.rafm")
    return found


@pytest.fixture(scope="module")
def spark(folder):
    """Return the functions that Spark's workers run, with the files where they are, but without Spark."""
    tree = ast.parse("\n".join(BLOCKS["spark"]))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in functions:
        node.decorator_list.clear()
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
    files = SimpleNamespace(get=lambda name: str(folder / name))
    names = {"SparkFiles": files, "pa": pa, "pd": pd}
    exec(compile(ast.Module(functions, []), "ecosystem.md", "exec"), names)
    return names


SHOP = {"user": ["ann", "bob", "bob"], "item": ["tea", "tea", "jam"], "age": [31.0, None, 52.0]}


def test_the_function_for_map_in_arrow_scores_each_batch(spark, folder):
    shop = pa.table({"id": [1, 2, 3], **SHOP})
    found = pa.Table.from_batches(spark["score"](iter([*shop.slice(0, 2).to_batches(), *shop.slice(2).to_batches()])))
    assert found["id"].to_pylist() == [1, 2, 3]
    scores = found["score"].to_numpy()
    assert (scores[0] > 0.5, scores[1] > 0.5) == (True, False)
    batches = [tuple(pd.Series(cells) for cells in SHOP.values())] * 2
    for series in spark["click_probability"](iter(batches)):
        np.testing.assert_array_equal(series.to_numpy(), scores)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs mlflow")
def test_the_recipe_for_mlflow_saves_loads_and_scores(folder):
    [code] = BLOCKS["rafm_pyfunc.py"]
    (folder / "rafm_pyfunc.py").write_text(code)
    [program] = BLOCKS["mlflow"]
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert 0.5 < float(ran.stdout.strip("[]\n")) < 1
    assert (folder / "served" / "artifacts" / "clicks.rafm").exists()
