"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from commands import run
from warm import run_script

from rafm.demo.comparison import write_rows

README = Path(__file__).parents[1] / "README.md"
CI = Path(__file__).parents[1] / ".ci" / "run"


def blocks(language):
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_python_program_prints_probabilities_a_reason_and_a_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    assert len(program.strip().splitlines()) <= 12
    probabilities, reason, size = run_script(program).stdout.splitlines()
    first, second, third = map(float, probabilities.strip("[]").split())
    assert first > 0.9
    assert max(second, third) < 0.1
    assert reason == "('film=Alien', 'user=ann')"
    assert 0 < int(size) < 10_000


def test_it_is_short_and_has_few_numbers():
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert len(re.findall(r"\d+(?:\.\d+)?", text)) <= 70


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Run the console session on the rows that `rafm demo` writes; return (shown, printed) of each command."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.chdir(tmp_path_factory.mktemp("session"))
    write_rows(Path("rafm-demo"))
    (text,) = blocks("console")
    found = []
    for part in text.split("$ ")[1:]:
        command, _, shown = part.partition("\n")
        typed, redirected, _ = command.partition(" > ")
        ran = run(*shlex.split(typed)[1:])
        assert ran.code == 0, ran
        found.append((shown, "" if redirected else ran.out))
    monkeypatch.undo()
    return found


def without_seconds(text):
    """Drop the one column that differs from run to run."""
    return re.sub(r"(?m)(?<=\d) +\d+\.\d(?=(  best)?$)", "", text)


@pytest.mark.slow
def test_the_console_session_prints_what_it_shows(session):
    """All digits but those of times; another processor may round the last ones differently."""
    for shown, printed in session:
        numbers = [re.findall(r"\d+\.?\d*", without_seconds(text)) for text in (shown, printed)]
        assert [float(n) for n in numbers[1]] == pytest.approx([float(n) for n in numbers[0]], rel=1e-2)
        words = [re.sub(r"[\d.]+", "#", without_seconds(text)) for text in (shown, printed)]
        assert words[0] == words[1]


def test_ci_runs_the_test_command_of_the_readme():
    (command,) = re.findall(r"&& (\S*python -m pytest.*)", README.read_text())
    assert command in CI.read_text()
