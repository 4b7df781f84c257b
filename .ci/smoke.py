#!/usr/bin/env python3
"""Install a built file into an empty environment and use it outside of the checkout.

    python .ci/smoke.py dist/rafm-*.whl [arguments of pip install, such as --constraint FILE]

Trains, evaluates, predicts, exports, reports and serves (on Windows, is refused). Prints sizes and
the time that `from rafm import Scorer` takes.
"""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

WINDOWS = os.name == "nt"
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
FOREIGN = """
import importlib.util
print([name for name in ("tests", "experiments", "benchmarks", "docs") if importlib.util.find_spec(name)])
"""
SCORE = """
import json, time
start = time.process_time()
from rafm import Scorer
print(f"from rafm import Scorer: {time.process_time() - start:.2f} s of CPU time")
print(Scorer("m.rafm").predict([json.load(open("row.json"))])[0])
"""
EXPORTED = """
import json, m
print(m.predict_record(json.load(open("row.json"))))
"""


def main(built: Path, *pip: str) -> None:
    """Try one built file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        python = install(folder / "environment", built, pip)
        write_tables(folder)
        use(python, folder, version_of(built))
        (serve if not WINDOWS else refuse)(python, folder)
        print(f"{built.name}: {built.stat().st_size / 1e6:.2f} MB; all commands work")


def version_of(built: Path) -> str:
    """Return the version in the name of a wheel or sdist."""
    return re.match(r"rafm-([^-]+?)(-py3-none-any\.whl|\.tar\.gz)$", built.name)[1]


def install(environment: Path, built: Path, pip: tuple[str, ...]) -> Path:
    """Return the interpreter of a new environment with the file, then with what serve needs; print sizes."""
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts/python.exe" if WINDOWS else "bin/python")
    for extra in ("", "[serve]"):
        run(python, "-m", "pip", "install", "-q", *pip, f"rafm{extra} @ {built.resolve().as_uri()}", cwd=environment)
        n_bytes = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file())
        print(f"rafm{extra}: {n_bytes / 1e6:.0f} MB installed, with pip")
    assert run(python, "-c", FOREIGN, cwd=environment) == "[]\n"
    return python


def run(*command: object, cwd: Path, code: int = 0) -> str:
    """Run a command in a folder and return what it printed."""
    ran = subprocess.run([*map(str, command)], cwd=cwd, env=CLEAN, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == code, f"{command}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout if code == 0 else ran.stderr


def write_tables(folder: Path) -> None:
    """Write clicks that follow from pairs of users and items, rows to predict, and the first of them."""
    draw = random.Random(0)
    for name, n_rows in ("clicks.csv", 4000), ("test.csv", 500):
        with open(folder / name, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["user", "item", "click"])
            for _ in range(n_rows):
                user, item = draw.randrange(40), draw.randrange(30)
                chance = 0.8 if (user * 7 + item * 3) % 5 < 2 else 0.1
                out.writerow([f"u{user}", f"i{item}", int(draw.random() < chance)])
    with open(folder / "test.csv", newline="") as file:
        row = next(csv.DictReader(file))
    (folder / "row.json").write_text(json.dumps({"user": row["user"], "item": row["item"]}))


def use(python: Path, folder: Path, version: str) -> None:
    """Run the commands that make or read files; the same row has the same prediction everywhere."""

    def rafm(*arguments: str) -> str:
        return run(python, "-m", "rafm", *arguments, cwd=folder)

    assert rafm("--version") == f"rafm {version}\n"
    rafm("train", "clicks.csv", "--label", "click", "--out", "m.rafm", "--model", "fm", "--ranks", "8")
    assert json.loads(rafm("evaluate", "m.rafm", "test.csv", "--json"))["auc"] > 0.7
    rafm("predict", "m.rafm", "test.csv", "--out", "predictions.txt")
    rafm("report", "m.rafm", "--data", "test.csv", "--out", "report.html")
    rafm("export", "m.rafm", "--to", "c", "--out", "m.c")
    rafm("export", "m.rafm", "--to", "python", "--out", "m.py")
    timed, scored = run(python, "-W", "ignore", "-c", SCORE, cwd=folder).splitlines()
    print(timed)
    expected = first_prediction(folder)
    assert abs(float(scored) - expected) < 1e-6
    assert abs(float(run(python, "-c", EXPORTED, cwd=folder)) - expected) < 1e-6


def first_prediction(folder: Path) -> float:
    """Return what `rafm predict` wrote for the row in row.json."""
    return float((folder / "predictions.txt").read_text().split()[0])


def serve(python: Path, folder: Path) -> None:
    """Start a server, ask it for a prediction and stop it."""
    command = [str(python), "-m", "rafm", "serve", "m.rafm", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=CLEAN, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = re.search(r"http://\S+", server.stdout.readline())[0]
            body = json.dumps({"rows": [json.loads((folder / "row.json").read_text())]}).encode()
            with urllib.request.urlopen(f"{url}/score", body, timeout=60) as answer:
                [probability] = json.load(answer)["probability"]
            assert abs(probability - first_prediction(folder)) < 1e-6
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


def refuse(python: Path, folder: Path) -> None:
    """Expect one line that names the systems on which the server runs."""
    said = run(python, "-m", "rafm", "serve", "m.rafm", cwd=folder, code=2)
    assert re.fullmatch(r"error: rafm serve runs on Linux and macOS only.*\n", said), said


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
