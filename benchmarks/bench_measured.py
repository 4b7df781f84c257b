"""What do field weights and measured ranks cost, relative to a plain FM?

    python -m benchmarks.bench_measured [--rows N] [--ranks 8,32,128,512] [--turns 15] [--skip passes|trainings]

First the CPU time of a training pass with field weights over that of one without. Two engines in one process take turns
on the same rows, one pass at a time and each first in every second turn, so that a noisy machine slows both alike; what
surrounds the passes (planning, averaging, validation) is outside the clock. The ratio is about the same in all turns of
a process, but differs between processes, so there are several. Of each one, the ratio of both minima and the median of
the turns' ratios count; printed are the medians and ranges over the processes.

Then CPU time and peak memory of a whole training with `ranks="auto"`, and of the FM of the rank that it starts from
with the same settings, each in a process of its own, less what a process needs that trains a tiny model.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.bench.shapes import FRAPPE_FIELDS, frappe_shaped
from benchmarks.bench.trainee import CALM, Trainee
from rafm.demo.click_log import make_click_log
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe
from rafm.train.events import Measuring, Searched

PASS_ROWS, PROCESSES = 50_000, 9


def trainees(rank: int) -> list[Trainee]:
    """Return an engine with field weights and one without, compiled and checked."""
    rows = frappe_shaped(PASS_ROWS)
    fields = Fields.of_ranges([str(k) for k in range(len(FRAPPE_FIELDS))], np.cumsum([0, *FRAPPE_FIELDS]).tolist())
    found = [Trainee(rows, "fm", (rank,), 1, CALM, fields=given) for given in (fields, None)]
    for trainee, is_weighted in zip(found, (True, False)):
        trainee.check()
        assert (trainee.engine.field_weights is not None) == is_weighted
    return found


def pass_seconds(trainee: Trainee) -> float:
    """Return the CPU seconds of one pass."""
    begun = time.process_time()
    trainee.epoch()
    return time.process_time() - begun


def take_turns(pair: list[Trainee], turns: int) -> np.ndarray:
    """Return the CPU seconds of the passes of both, turn by turn."""
    seconds = np.empty((turns, 2))
    for turn in range(turns):
        for place in (0, 1) if turn % 2 else (1, 0):
            seconds[turn, place] = pass_seconds(pair[place])
    return seconds


def passes(ranks: list[int], turns: int) -> None:
    """Print the ratios of passes with and without field weights."""
    shape = f"pass over {PASS_ROWS} rows like Frappe's, one thread, {turns} turns in each of {PROCESSES} processes"
    print(f"{shape}: CPU with field weights / without\n rank  of minima            of medians           ns per row")
    command = [sys.executable, "-m", "benchmarks.bench_measured", "--turns", str(turns), "--pass"]
    for rank in ranks:
        ran = [subprocess.run([*command, str(rank)], check=True, capture_output=True) for _ in range(PROCESSES)]
        seconds = np.array([json.loads(one.stdout) for one in ran])
        minima, least = seconds.min(axis=1), 1e9 * seconds.min(axis=(0, 1)) / PASS_ROWS
        print(f"{rank:5d}", end="  ")
        for ratios in (minima[:, 0] / minima[:, 1], np.median(seconds[..., 0] / seconds[..., 1], axis=1)):
            print(f"{np.median(ratios):.3f} ({ratios.min():.2f} - {ratios.max():.2f})", end="  ")
        print(f"{least[0]:.0f} / {least[1]:.0f}", flush=True)


def write_log(path: str, n_rows: int) -> None:
    """Write training and validation rows: making them takes more memory than training."""
    log = make_click_log(n_rows, 0)
    arrays = {"offsets": log.offsets}
    for name, part in zip(("train", "valid"), log.split((0.8, 0.2), 0)):
        arrays |= {f"{name}.indices": part.indices, f"{name}.labels": part.labels}
    np.savez(path, **arrays)


def rows_of(arrays: dict[str, np.ndarray], name: str) -> InMemory:
    """Return the rows of a part."""
    offsets, indices, labels = arrays["offsets"], arrays[f"{name}.indices"], arrays[f"{name}.labels"]
    indptr = np.arange(labels.size + 1) * (offsets.size - 1)
    batch = check_batch(Batch(indptr, indices, np.ones(indices.size, np.float32), int(offsets[-1]), labels))
    return InMemory(batch, Fields.of_ranges([str(k) for k in range(offsets.size - 1)], offsets.tolist()))


def one_training(what: str, path: str) -> None:
    """Train in this process; print CPU seconds, peak memory and settings as JSON."""
    arrays = dict(np.load(path))
    source, held_out = (rows_of(arrays, name) for name in ("train", "valid"))
    given = json.loads(what)
    chosen = {"averaging": True, "init_scale": 0.03, "rate_drops": 1, "n_epochs": 100, **given}
    if "tiny" in given:
        chosen = {"model": "fm", "ranks": 1, "n_epochs": 1}
    begun, found = time.process_time(), {}
    for event in run_recipe(source, resolve(task="binary", **chosen), held_out):
        if isinstance(event, Measuring):
            found = {"told_megabytes": event.megabytes, **found, "rank": event.rank}  # a second one has a smaller rank
        if isinstance(event, Searched):
            found |= {"learning_rate": event.learning_rate, "l2": event.l2}
    found |= {"seconds": time.process_time() - begun}
    # Not ru_maxrss: it is at least that of the process which started this one.
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    found |= {"megabytes": 1024e-6 * int(peak)}
    print(json.dumps(found))


def training_of(given: dict[str, object], path: str) -> dict[str, float]:
    """Train in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_measured", "--file", path, "--one", json.dumps(given)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def trainings(n_rows: int, folder: str) -> None:
    """Print CPU time and memory of measured ranks relative to the FM they start from."""
    path, few = f"{folder}/log.npz", f"{folder}/few.npz"
    write_log(path, n_rows)
    write_log(few, 3000)
    for given in ({"ranks": "auto", "max_parameters": 200_000}, {"tiny": True}):
        training_of(given, few)  # compile
    tiny = training_of({"tiny": True}, path)
    measured = training_of({"ranks": "auto", "max_parameters": 200_000}, path)
    settings = {name: measured[name] for name in ("learning_rate", "l2")}
    plain = training_of({"model": "fm", "ranks": measured["rank"], **settings}, path)
    own, theirs = (one["megabytes"] - tiny["megabytes"] for one in (measured, plain))
    print(f"whole training on {n_rows} rows of the demo's log; FM: rank {measured['rank']:.0f}, the same settings")
    print(f"CPU seconds: measured {measured['seconds']:.1f}, FM {plain['seconds']:.1f}", end="")
    print(f", ratio {measured['seconds'] / plain['seconds']:.2f}")
    ratio = f"{own / theirs:.2f}" if theirs > 0 else "-"
    print(f"megabytes above a tiny training: measured {own:.0f}, FM {theirs:.0f}, ratio {ratio}")
    print(f"told before: {measured['told_megabytes']:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000, help="of the whole trainings")
    parser.add_argument("--ranks", default="8,32,128,512")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--skip", choices=["passes", "trainings"])
    parser.add_argument("--pass", dest="rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rank:
        print(json.dumps(take_turns(trainees(asked.rank), asked.turns).tolist()))
        sys.exit()
    if asked.one:
        one_training(asked.one, asked.file)
        sys.exit()
    if asked.skip != "passes":
        passes([*map(int, asked.ranks.split(","))], asked.turns)
    if asked.skip != "trainings":
        with tempfile.TemporaryDirectory() as folder:
            trainings(asked.rows, folder)
