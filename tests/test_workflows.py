"""What surrounds the code is sound: workflows, release, recipe. Nothing here runs on a hosted machine."""

import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from rafm.version import __version__

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yml")}
JOBS = {f"{name}:{job}": found for name, flow in WORKFLOWS.items() for job, found in flow["jobs"].items()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lines_with(key):
    """Yield every line of the workflows that has the key."""
    for path in FOLDER.glob("*.yml"):
        yield from re.findall(rf"^\s*(?:- )?{key}: *(.*)$", path.read_text(), re.MULTILINE)


def commands():
    """Yield every line that a workflow runs."""
    for job in JOBS.values():
        for step in job.get("steps", ()):
            yield from step.get("run", "").splitlines()


def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it():
    used = [line for line in lines_with("uses") if not line.startswith("./")]
    assert len(used) > 10
    assert not [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]
    versions = {line.partition("@")[0] for line in used}
    assert len(versions) == len(set(used))  # one version of each


def test_workflows_may_read_and_only_publishing_may_sign():
    assert all(flow["permissions"] == {"contents": "read"} for flow in WORKFLOWS.values())
    allowed = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert allowed == {"release.yml:publish": {"id-token": "write"}}
    checkouts = [step for job in JOBS.values() for step in job.get("steps", ()) if "checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_text_of_a_stranger_becomes_a_command():
    """Expressions in commands are values of the matrix, which stand in the same file."""
    assert not [line for line in commands() if re.search(r"\$\{\{(?! matrix\.)", line)]
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & {
        event
        for flow in WORKFLOWS.values()
        for event in flow[True]  # YAML 1.1 reads `on` as true
    }


def test_tests_run_on_every_system_and_python_that_the_policy_names():
    matrix = JOBS["checks.yml:test"]["strategy"]["matrix"]
    assert matrix["python"] == sorted(matrix["python"], key=lambda version: int(version.split(".")[1]))
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    classifiers = [line.removeprefix("Programming Language :: Python :: ") for line in PROJECT["classifiers"]]
    assert [version for version in classifiers if re.fullmatch(r"3\.\d+", version)] == matrix["python"]
    assert matrix["versions"] == ["lowest", "newest"]
    policy = (ROOT / "docs" / "policies" / "platforms.md").read_text()
    assert set(re.findall(r"`([a-z]+-\d[\w.-]*)`", policy)) == set(matrix["system"])
    assert JOBS["release.yml:smoke"]["strategy"]["matrix"]["system"] == matrix["system"]
    assert JOBS["checks.yml:old-processor"]["env"] == {"NUMBA_CPU_NAME": "x86-64-v2"}


def test_nothing_is_published_that_was_not_checked_built_and_used():
    assert set(JOBS["release.yml:publish"]["needs"]) == {"checks", "smoke"}
    assert JOBS["release.yml:smoke"]["needs"] == "build"
    assert JOBS["release.yml:publish"]["steps"][-1]["with"] == {"attestations": True}
    assert not any("run" in step for step in JOBS["release.yml:publish"]["steps"])  # what may sign runs no code of ours


def test_files_that_workflows_name_exist():
    named = {word for text in FOLDER.glob("*.yml") for word in re.findall(r"(?:\.ci|tests)/[\w./]+", text.read_text())}
    assert len(named) > 5
    assert not [name for name in named if not (ROOT / name).exists()]


def test_extras_that_workflows_install_exist():
    extras = {extra for line in commands() for part in re.findall(r"\[([a-z,]+)\]", line) for extra in part.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])
    assert "dev" in extras


def test_the_recipe_of_conda_has_the_requirements_of_the_package():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    named = [re.sub(r" ", "", line) for line in recipe["requirements"]["run"][1:]]
    assert sorted(named) == sorted(line.partition(";")[0].strip() for line in PROJECT["dependencies"])
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    assert recipe["about"]["summary"] == PROJECT["description"]
    [entry] = recipe["build"]["python"]["entry_points"]
    assert entry == f"rafm = {PROJECT['scripts']['rafm']}"


@pytest.fixture
def release(tmp_path):
    """Return a copy of the files with versions, ready to release, and what the check says of it."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in (*module.VERSIONS, "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog, project = tmp_path / "CHANGELOG.md", tmp_path / "pyproject.toml"
    text = re.sub(r"(## \[Unreleased\]\n).*?(?=^## )", r"\1\n", changelog.read_text(), flags=re.DOTALL | re.MULTILINE)
    changelog.write_text(re.sub(r"(## \[\d[\d.]+\] - ).*", r"\g<1>2027-01-01", text, count=1))
    if "[project.urls]" not in project.read_text():
        project.write_text(project.read_text() + '\n[project.urls]\nRepository = "https://example.org"\n')
    return tmp_path, module.differences


def test_a_release_is_allowed_if_all_files_have_its_version(release):
    folder, differences = release
    assert differences(folder, f"v{__version__}") == []
    assert len(differences(folder, "v9.9.9")) == 4


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("CITATION.cff", "version: 0", "version: 9", "CITATION.cff: 9"),
        ("CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n- A line.\n", "lines wait"),
        ("CHANGELOG.md", "2027-01-01", "soon", "has no date"),
        ("pyproject.toml", "Repository =", "Repo =", "no Repository"),
    ],
)
def test_a_release_is_refused_if_a_file_contradicts_it(release, name, old, new, said):
    folder, differences = release
    (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
    [line] = differences(folder, f"v{__version__}")
    assert said in line
