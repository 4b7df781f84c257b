"""What do field weights and measured ranks cost, relative to a plain FM?

    python benchmarks/bench_measured.py [--rows N]

First the CPU time of a pass with field weights over that of one without, at ranks 8 to 512, the least of several turns
in one process. Then CPU time and peak memory of a whole training with `ranks="auto"`, and of the FM of the rank that it
starts from with the same settings, each in a process of its own, less what a process needs that trains a tiny model.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from rafm.lab.bench.shapes import FRAPPE_FIELDS, frappe_shaped
from rafm.lab.click_log import make_click_log
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.events import EpochFinished, Measuring, Searched
from rafm.train.trainer import train

RANKS, TURNS = (8, 32, 128, 512), 5


def pass_seconds(rank: int, weighted: bool, n_rows: int) -> float:
    """Return the CPU seconds of the fastest of three passes."""
    rows = frappe_shaped(n_rows).batch()
    fields = Fields.of_ranges([str(k) for k in range(10)], np.cumsum([0, *FRAPPE_FIELDS]).tolist())
    choice = "on" if weighted else "off"
    options = resolve(task="binary", model="fm", ranks=rank, n_epochs=3, field_weights=choice, averaging=False)
    seconds, begun = [], time.process_time()
    for event in train(InMemory(rows, fields), options):
        now = time.process_time()
        if isinstance(event, EpochFinished):
            seconds.append(now - begun)
        begun = now
    return min(seconds)


def passes(n_rows: int) -> None:
    """Print the ratio of passes with and without field weights."""
    print(f"pass over {n_rows} rows like Frappe's: CPU with field weights / without")
    for rank in RANKS:
        pass_seconds(rank, True, 1000), pass_seconds(rank, False, 1000)  # compile
        with_t, without = (min(pass_seconds(rank, on, n_rows) for _ in range(TURNS)) for on in (True, False))
        print(f"rank {rank:4d}: {with_t / without:.2f}   ({1e9 * without / n_rows:.0f} ns per row without)", flush=True)


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
    for event in train(source, resolve(task="binary", **chosen), held_out):
        if isinstance(event, Measuring):
            found = {"told_megabytes": event.megabytes, **found, "rank": event.rank}  # a second one has a smaller rank
        if isinstance(event, Searched):
            found |= {"learning_rate": event.learning_rate, "l2": event.l2}
    found |= {"seconds": time.process_time() - begun}
    found |= {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}
    print(json.dumps(found))


def training_of(given: dict[str, object], path: str) -> dict[str, float]:
    """Train in a process of its own."""
    command = [sys.executable, __file__, "--file", path, "--one", json.dumps(given)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def trainings(n_rows: int, folder: str) -> None:
    """Print CPU time and memory of measured ranks relative to the FM they start from."""
    path, few = f"{folder}/log.npz", f"{folder}/few.npz"
    write_log(path, n_rows)
    write_log(few, 3000)
    training_of({"ranks": "auto", "max_parameters": 200_000}, few)  # compile
    tiny = training_of({"tiny": True}, path)
    measured = training_of({"ranks": "auto", "max_parameters": 200_000}, path)
    settings = {name: measured[name] for name in ("learning_rate", "l2")}
    plain = training_of({"model": "fm", "ranks": measured["rank"], **settings}, path)
    own, theirs = (one["megabytes"] - tiny["megabytes"] for one in (measured, plain))
    print(f"whole training on {n_rows} rows of the demo's log; FM: rank {measured['rank']:.0f}, the same settings")
    print(f"CPU seconds: measured {measured['seconds']:.1f}, FM {plain['seconds']:.1f}", end="")
    print(f", ratio {measured['seconds'] / plain['seconds']:.2f}")
    print(f"megabytes above a tiny training: measured {own:.0f}, FM {theirs:.0f}, ratio {own / theirs:.2f}")
    print(f"told before: {measured['told_megabytes']:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one_training(asked.one, asked.file)
    else:
        passes(asked.rows // 3)
        with tempfile.TemporaryDirectory() as folder:
            trainings(asked.rows, folder)
