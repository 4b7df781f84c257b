"""Does a run that is killed again and again end with the bytes of one that is left alone?

Kills `rafm train` with SIGKILL at random moments and starts it again, so many times, then lets it end and compares the
model with that of an undisturbed run. Then interrupts a run with SIGINT and measures how long it takes to leave.

    python -m benchmarks.kill [--kills 50] [--rows 1500000] [--model rafm] [--seed 0]

`--model gibbs` samples a DiFacto by `--optimizer gibbs`, with clicks as ratings.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rafm.demo.click_log import make_click_log, write_libsvm
from rafm.files.container import read_container


def main() -> None:
    """Run the comparison; the exit code is 1 if any byte differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--model", default="rafm", choices=("rafm", "difacto", "fm", "gibbs"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, rows in zip(("train", "valid"), make_click_log(chosen.rows, chosen.seed).split((0.95, 0.05), 0)):
            write_libsvm(folder / f"{part}.libsvm", rows)
            convert(folder, part, chosen.model)
        begin = time.perf_counter()
        finish(start(folder, "whole.rafm", chosen.model))
        print(f"undisturbed: {time.perf_counter() - begin:.1f} s")
        kills, lives = kill_often(folder, chosen)
        whole, resumed = ((folder / name).read_bytes() for name in ("whole.rafm", "resumed.rafm"))
        print(f"{kills} kills in {lives} lives: {'the same bytes' if whole == resumed else 'OTHER BYTES'}")
        print(f"SIGINT to exit: {interrupt(folder, chosen.model):.2f} s")
    sys.exit(whole != resumed)


def options_of(model: str) -> list[str]:
    """Return what to train, and how long."""
    if model == "gibbs":
        chosen = ["--model", "difacto", "--ranks", "2,8", "--optimizer", "gibbs", "--task", "regression"]
        return [*chosen, "--epochs", "40", "--patience", "9"]
    ranks = "32" if model == "fm" else "4,16,64"
    return ["--model", model, "--ranks", ranks, "--epochs", "8", "--patience", "8", "--l2", "0.003"]


def convert(folder: Path, part: str, model: str) -> None:
    """Convert rows, so that lives begin quickly."""
    files = (folder / f"{part}.libsvm", folder / f"{part}.arrow")
    task = ["--task", "regression" if model == "gibbs" else "binary"]
    subprocess.run([sys.executable, "-m", "rafm", "convert", *files, *task], check=True, stdout=subprocess.DEVNULL)


def start(folder: Path, out: str, model: str, states: str | None = None, seconds: float = 0.2) -> subprocess.Popen:
    """Begin to train."""
    command = [sys.executable, "-m", "rafm", "train", folder / "train.arrow", "--valid", folder / "valid.arrow"]
    command += ["--out", folder / out, *options_of(model)]
    if states:
        command += ["--checkpoint", folder / states, "--checkpoint-seconds", str(seconds)]
    return subprocess.Popen([os.fspath(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen) -> int:
    """Wait for the end; only kills and interrupts may have an exit code."""
    _, err = process.communicate()
    if process.returncode not in (0, 130, -signal.SIGKILL):
        sys.exit(f"exit code {process.returncode}: {err.decode()}")
    return process.returncode


def place(folder: Path) -> tuple[int, int, int]:
    """Return number, epoch and rows of the newest state, zeros if there is none."""
    found = [(int(path.stem.split("-")[1]), path) for path in folder.glob("checkpoint-*.rafm")]
    if not found:
        return 0, 0, 0
    number, path = max(found)
    position = read_container(path)[0]["position"]
    return number, position["epoch"], position["rows"]


def wait_for_state(folder: Path, process: subprocess.Popen) -> None:
    """Wait until a life has written a state of its own."""
    known = set(folder.glob("checkpoint-*"))
    while process.poll() is None and set(folder.glob("checkpoint-*")) <= known:
        time.sleep(0.005)


def kill_often(folder: Path, chosen: argparse.Namespace) -> tuple[int, int]:
    """Kill the run so many times, then let it end; a life that ends too early begins a new run. Return kills, lives."""
    draw, kills, lives, run = random.Random(chosen.seed), 0, 0, 0
    whole = (folder / "whole.rafm").read_bytes()
    while kills < chosen.kills:
        lives += 1
        process = start(folder, "resumed.rafm", chosen.model, f"states-{run}")
        wait_for_state(folder / f"states-{run}", process)
        time.sleep(draw.uniform(0, 0.4))
        process.kill()
        if finish(process) == 0:
            if (folder / "resumed.rafm").read_bytes() != whole:
                sys.exit(f"OTHER BYTES after {kills} kills")
            run += 1
        else:
            kills += 1
            number, epoch, rows = place(folder / f"states-{run}")
            print(f"kill {kills:3d}: run {run}, state {number}, epoch {epoch}, {rows} rows", flush=True)
    finish(start(folder, "resumed.rafm", chosen.model, f"states-{run}"))
    return kills, lives + 1


def interrupt(folder: Path, model: str) -> float:
    """Return the seconds from SIGINT to the exit of a run, which must write a state on its way."""
    process = start(folder, "interrupted.rafm", model, "interrupted", seconds=3600)
    wait_for_state(folder / "interrupted", process)
    time.sleep(0.3)  # into the next epoch
    process.send_signal(signal.SIGINT)
    begin = time.perf_counter()
    if finish(process) != 130 or place(folder / "interrupted")[0] < 2:
        sys.exit("the interrupted run did not write its state")
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
