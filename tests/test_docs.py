"""The pages about the code are true: folders of the picture, changes that work as printed, flags, names and links."""

import json
import re
import shlex
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from commands import run
from warm import run_script
from worlds import run_python

import rafm
from rafm import errors

ROOT = Path(__file__).parents[1]
ARCHITECTURE, EXTENDING = (ROOT / "docs" / f"{name}.md" for name in ("architecture", "extending"))
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", EXTENDING.read_text(), re.MULTILINE | re.DOTALL))
IMPORT = re.compile(r"\bfrom (rafm[\w.]*) import|\bimport (rafm\b[\w.]*)")
GENERATED = re.compile(r"(reference/(commands|python)|^../examples)/|changelog.md$|decisions/index.md$|public.md$")
FILE = re.compile(r"<!-- (file|new): (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def test_the_picture_names_every_folder_once():
    picture = re.search(r"```text\n(.*?)```", ARCHITECTURE.read_text(), re.DOTALL)[1]
    folders = [path.name for path in (ROOT / "src" / "rafm").rglob("*") if (path / "__init__.py").is_file()]
    assert sorted(re.findall(r"\b([a-z_]+)/", picture)) == sorted(folders)


def test_modules_that_the_page_names_at_the_top_are_there():
    named = set(re.findall(r"`([a-z_]+\.py)`", ARCHITECTURE.read_text()))
    tops = {path.name for path in (ROOT / "src" / "rafm").glob("*.py")}
    assert named == tops - {"__init__.py", "__main__.py", "version.py"}


def test_files_that_are_shown_as_they_are_in_the_package_are_so():
    shown = [(path, text) for kind, path, text in FILE.findall(EXTENDING.read_text()) if kind == "file"]
    assert shown
    for path, text in shown:
        assert (ROOT / path).read_text() == text


def apply(diff, folder):
    """Change files as a diff says: the lines of a part that are not added must be in the file, once."""
    for name, body in re.findall(r"^--- a/(\S+)\n\+\+\+ b/\1\n(.*?)(?=^--- |\Z)", diff, re.MULTILINE | re.DOTALL):
        path = folder / name.removeprefix("src/")
        for part in body.split("@@\n"):
            lines = part.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] != "+")
            after = "".join(line[1:] for line in lines if line[0] != "-")
            assert path.read_text().count(before) == 1, f"{name} has not once:\n{before}"
            path.write_text(path.read_text().replace(before, after))


CHECKS = {
    "A metric": """
import numpy as np
from sklearn.metrics import brier_score_loss
from rafm.losses import loss_for
from rafm.metrics.evaluation import evaluate
labels, scores = np.array([0.0, 1, 1]), np.array([-1.0, 0.5, 2])
found = evaluate(loss_for("binary"), labels, scores, np.ones(3), ["brier"])["brier"]
assert abs(found - brier_score_loss(labels, 1 / (1 + np.exp(-scores)))) < 1e-12
from rafm.options import resolve
assert resolve(task="binary", metric="brier").metric == "brier"
""",
    "An optimiser": """
from rafm.options import resolve
from rafm.train.dispatch import train_model
from worlds import planted
data, valid = planted(n_rows=300)
model = train_model(data, resolve(task="binary", model="fm", ranks=2, optimizer="rmsprop", n_epochs=2), valid)
assert model.options["optimizer"] == "rmsprop"
assert model.history[1]["train_loss"] < model.history[0]["train_loss"]
""",
    "An option": """
import inspect
from rafm import RaFMRegressor
from rafm.cli.train import train
from rafm.options import resolve
assert inspect.signature(RaFMRegressor).parameters["mixture_pull"].default == 0.01
assert inspect.signature(train).parameters["mixture_pull"].default == 0.01
from rafm.train.dispatch import train_model
from worlds import planted
data, _ = planted("regression", n_rows=200)
models = [train_model(data, resolve(task="regression", model="mrma", ranks=(2, 4), n_epochs=1, mixture_pull=pull))
          for pull in (0.0, 1.0)]
assert abs(models[1].parameters.mixture - 1).sum() < abs(models[0].parameters.mixture - 1).sum()
""",
    "A format": """
import pathlib, tempfile
from rafm.read.tables import read_table
from rafm.read.formats import format_help
assert "jsonl" in format_help()
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "clicks.jsonl")
    path.write_text('{"click": 1, "city": "Rome"}\\n{"click": 0, "city": "Oslo"}\\n')
    assert [batch.to_pydict() for batch in read_table(path)] == [{"click": [1, 0], "city": ["Rome", "Oslo"]}]
""",
    "A model family": """
import os, tempfile
import numpy as np
import rafm
from commands import run
from rafm.distributed.inputs import check_options
from rafm.errors import ConfigError
from rafm.options import resolve
os.chdir(tempfile.mkdtemp())
cells = [f"u{k % 7},i{k % 5}" for k in range(70)]
files = {"d.csv": ["click,user,item", *(f"{int(k % 3 < 1)},{two}" for k, two in enumerate(cells))],
         "users.csv": ["user", "u1", "u2"], "items.csv": ["item", "i0", "i1", "i2"]}
for name, lines in files.items():
    open(name, "w").write("\\n".join([*lines, ""]))
train = "train d.csv --label click --model pairs --ranks 2 --epochs 2 --valid d.csv --head off --out m.rafm".split()
train.append("--keep-state")
for words in ("--step-rows 64", "--task ranking --item-fields item", "--optimizer gibbs", "--l2-weights 0.1",
              "--rank-scale 2"):
    assert "--model pairs" in run(*train, *words.split()).error()
try:
    check_options(resolve(task="binary", model="pairs"))
except ConfigError as error:
    assert "--model pairs cannot be used on a cluster" in str(error)
else:
    raise AssertionError("trained on a cluster")
assert "pairs (factorization machine without linear terms)" in " ".join(run("train", "--help").out.split())
commands = [" ".join(train), "evaluate m.rafm d.csv", "predict m.rafm d.csv", "inspect m.rafm", "explain m.rafm d.csv",
            "recommend m.rafm users.csv --items items.csv", "similar m.rafm user=u1",
            "report m.rafm --data d.csv --out r.html", "train d.csv --resume-from m.rafm --out m.rafm",
            "compress m.rafm --max-parameters 20 --out s.rafm", "predict s.rafm d.csv",
            "compress m.rafm --bits 8 --out s.rafm", "predict s.rafm d.csv",
            "export m.rafm --to python --out p.py", "export m.rafm --to c --out p.c"]
for command in commands:
    ran = run(*command.split())
    assert ran.code == 0, (command, ran)
fitted = rafm.load("m.rafm")
found = fitted.model_
assert found.plan.family == "pairs" and found.history[-1]["train_loss"] > 0
assert not found.parameters.weights.any() and found.parameters.factors[0].any()
weights = found.parameters.fields[found.fields.numbers]
names = [fitted.encoder_.feature_name(id) for id in found.numbering.ids.tolist()]
i, j = names.index("user=u3"), names.index("item=i2")
vectors, table = found.parameters.factors[0].astype(float), {"user": ["u3"], "item": ["i2"]}
import pandas as pd
score = found.parameters.bias[0] + vectors[i] @ vectors[j] * (1 - weights[i] * weights[j])
assert abs(fitted.decision_function(pd.DataFrame(table))[0] - score) < 1e-6
assert abs(rafm.Scorer("m.rafm").predict({"user": "u3", "item": "i2"}) - 1 / (1 + np.exp(-score))) < 1e-6
(terms,) = [one.terms for one in fitted.explain(pd.DataFrame(table)).rows]
assert [sorted(term.features) for term in terms] == [["item=i2", "user=u3"]]
assert np.isfinite(fitted.shapley_values(pd.DataFrame(table)).values).all()
assert fitted.vectors(pd.DataFrame({"user": ["u3"]}), "context").shape[0] == 1
""",
}


@pytest.mark.parametrize("section", CHECKS)
def test_a_change_of_the_page_works_as_it_is_printed(section, tmp_path):
    package = tmp_path / "rafm"
    shutil.copytree(ROOT / "src" / "rafm", package, ignore=shutil.ignore_patterns("*.nb?"))  # no compiled kernels
    for kind, path, text in FILE.findall(SECTIONS[section]):
        assert kind == "new"
        (tmp_path / path.removeprefix("src/")).write_text(text)
    for diff in re.findall(r"```diff\n(.*?)```", SECTIONS[section], re.DOTALL):
        apply(diff, tmp_path)
    run_python("-W", "ignore", "-c", CHECKS[section], path=tmp_path, NUMBA_DISABLE_JIT="1")


def test_the_registry_line_of_the_loss_is_that_of_the_package():
    added = re.findall(r"^\+(LOSSES = .*)$", SECTIONS["A loss"], re.MULTILINE)
    assert len(added) == 1
    assert f"{added[0]}\n" in (ROOT / "src" / "rafm" / "losses" / "__init__.py").read_text()


def test_every_section_with_a_change_is_tried():
    assert {name for name in SECTIONS if name != "A loss"} == set(CHECKS)


@cache
def generated_pages():
    """Return the pages that the site generates, by their places in its navigation."""
    program = """
import json, generated_pages
print(json.dumps({**generated_pages.sections(), "PUBLIC": {"policies/public.md": generated_pages.public_page()}}))
"""
    return json.loads(run_python("-c", program, path=ROOT / "docs"))


def test_generated_pages_name_every_flag_that_help_shows_and_every_public_name():
    """Both come from processes of their own."""
    pages = generated_pages()
    for command in ("train", "predict", "convert"):
        flags = set(re.findall(r"^ +(?:-h, )?(--[a-z0-9-]+)", run(command, "--help").out, re.MULTILINE))
        page = pages["COMMANDS"][f"reference/commands/{command}.md"]
        assert flags - {"--help"} == set(re.findall(r"^\| `(--[a-z0-9-]+)", page, re.MULTILINE)) - {"--help"}
    names = {Path(path).stem for path in pages["NAMES"]}
    assert names == {name for name in rafm.__all__ if not name.startswith("__")} | {"errors"}


def test_the_page_of_public_names_lists_those_of_the_public_modules():
    """The modules that the page names are read as they are; errors by their docstring, which draws the tree."""
    lists = dict(re.findall(r"^## (rafm\S*)\n\n(.*)$", generated_pages()["PUBLIC"]["policies/public.md"], re.MULTILINE))
    listed = {module: set(re.findall(r"`(\w+)`", names)) for module, names in lists.items()}
    assert listed.pop("rafm.errors") == set(re.findall(r"^\W*(\w+(?:Error|Warning)) ", errors.__doc__, re.MULTILINE))
    assert listed == {name: set(import_module(name).__all__) for name in ("rafm", "rafm.distributed")}


def test_pages_for_users_and_examples_import_public_names_only():
    pages = [
        path for path in (ROOT / "docs").rglob("*.md") if path.name != "extending.md" and "decisions" not in path.parts
    ]
    pages += [ROOT / "README.md", *(ROOT / "examples").iterdir()]
    public = set(re.findall(r"^## (rafm\S*)$", generated_pages()["PUBLIC"]["policies/public.md"], re.MULTILINE))
    imports = [(page.name, *found) for page in pages for found in re.findall(IMPORT, page.read_text())]
    assert len(imports) > 20
    assert not [found for found in imports if (found[1] or found[2]) not in public]


def test_pages_have_no_link_that_leads_to_no_file():
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            is_generated = re.search(
                r"(reference/(commands|python)|^../examples)/|^(\.\./)?changelog.md|decisions/index.md|public.md$",
                target,
            )
            assert is_generated or (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_pages_and_messages_install_extras_as_the_page_about_it_does():
    """`pip install rafm[serve]` would take a package of that name from an index."""
    assert "pip install '.[serve]'" in (ROOT / "docs" / "install.md").read_text()
    texts = (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "src").rglob("*.py"))
    assert [path for path in texts if re.search(r"\brafm\[[a-z]", path.read_text())] == []


def test_commands_on_pages_have_the_flags_that_they_are_shown_with():
    pages = generated_pages()["COMMANDS"]
    known = {Path(path).stem.replace("-", " "): page for path, page in pages.items()}
    wrong = []
    for path, line in shown_commands():
        words = shlex.split(line)
        name = next((one for one in (" ".join(words[1:3]), words[1]) if one in known), None)
        flags = set(re.findall(r"(--[a-z][a-z0-9-]*)", known[name])) if name else set()
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        if words[1] not in ("--version", "--help") and (name is None or given - flags - {"--debug"}):
            wrong.append((path, line))
    assert not wrong


def shown_commands():
    """Yield (page, command) for each line of code on a page that calls rafm."""
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        text = page.read_text().replace(" \\\n", " ")
        for line in re.findall(r"^(?:    |\$ )(?:zcat .* \| )?(rafm .*)$", text, re.MULTILINE):
            yield page.name, line.partition(" | ")[0].partition(" > ")[0].partition(" && ")[0]


@pytest.mark.slow
def test_the_quickstart_works_as_it_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "quickstart.md").read_text()
    make, use = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert run_script(make).returncode == 0
    for command in re.findall(r"^    (rafm .*)$", text, re.MULTILINE):
        assert run(*shlex.split(command)[1:]).code == 0
    predicted = [float(line) for line in (tmp_path / "predictions.txt").read_text().split()]
    printed = [float(word) for word in run_script(use).stdout.strip("[]\n").split()]
    assert len(predicted) == 2000
    assert printed == pytest.approx(predicted[:3], abs=1e-6)
