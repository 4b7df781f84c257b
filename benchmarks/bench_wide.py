"""What do wide steps cost, in time and in loss, and what do two threads bring?

    python -m benchmarks.bench_wide speed [--ranks 8,32,128] [--rows 200000] [--step-rows 4096]
    python -m benchmarks.bench_wide loss [--rows 6000000] [--step-rows 4096] [--epochs 3] [--ranks 8,32] ...
    python -m benchmarks.bench_wide loss --train FILE --valid FILE [--fields FILE] [--task regression] ...

speed: a plain FM on generated rows like Criteo's (39 nonzeros, a million features), epochs taking turns: CPU time of
small mini-batches to that of wide steps on one thread, and seconds by the clock of one thread to two, best and median.

loss: the same model by small mini-batches and by wide steps; the loss of each epoch on held-out rows of a generated
click log (see rafm.demo.click_log), or of files.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.bench.clock import least_seconds
from benchmarks.bench.shapes import criteo_shaped
from benchmarks.bench.trainee import Trainee
from rafm.demo.click_log import make_click_log
from rafm.options import Options, resolve
from rafm.read.fields import read_fields
from rafm.read.open import read_rows
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe
from rafm.train.events import EpochFinished

TURNS = 5


def speed(given: argparse.Namespace) -> None:
    """Print the ratios, one line per rank."""
    rows = criteo_shaped(given.rows)
    print(rows)
    print("rank, ns per nonzero small and wide, wide to small; two threads to one, best and median: wide, small")
    for rank in map(int, given.ranks.split(",")):
        trainees = [Trainee(rows, "fm", (rank,), n, step_rows=s) for n in (1, 2) for s in (0, given.step_rows)]
        for trainee in trainees:
            trainee.epoch()
            trainee.engine.team.probe.alone = False  # the team as it is, never replaced by one thread
            trainee.engine.team.probe.left = 1e9  # seconds; infinity would mean that nothing has been trained yet
        taken = np.array([[least_seconds(trainee.epoch) for trainee in trainees] for _ in range(TURNS)])
        elapsed, cpu = taken[..., 0], taken[..., 1].min(axis=0)
        small, wide = 1e9 * cpu[:2] / rows.indices.size
        best, median = elapsed.min(axis=0), np.median(elapsed, axis=0)
        ratios = [best[1] / best[3], median[1] / median[3], best[0] / best[2], median[0] / median[2]]
        shown = [f"{x:7.1f}" for x in (small, wide)] + [f"{x:7.2f}" for x in (small / wide, *ratios)]
        print(f"{rank:5} " + " ".join(shown), flush=True)


def click_log(n_rows: int) -> tuple[InMemory, InMemory]:
    """Return training rows and held-out rows of a click log."""
    log, split = make_click_log(n_rows, seed=1), n_rows // 12
    end, fields = log.indptr[split], Fields.of_ranges(log.field_names, log.offsets.tolist())
    held_out = Batch(log.indptr[: split + 1], log.indices[:end], log.values[:end], log.n_features, log.labels[:split])
    rest = Batch(log.indptr[split:] - end, log.indices[end:], log.values[end:], log.n_features, log.labels[split:])
    return InMemory(check_batch(rest), fields), InMemory(check_batch(held_out), fields)


def files(given: argparse.Namespace) -> tuple[InMemory, InMemory]:
    """Return training rows and held-out rows of files."""
    fields = read_fields(given.fields) if given.fields else None
    data, valid = (InMemory(read_rows(path, task=given.task), fields) for path in (given.train, given.valid))
    return data, valid


def loss(given: argparse.Namespace) -> None:
    """Print the loss of each epoch by both ways."""
    data, valid = files(given) if given.train else click_log(given.rows)
    chosen = {"model": given.model, "ranks": tuple(map(int, given.ranks.split(","))), "n_epochs": given.epochs}
    chosen |= {"optimizer": given.optimizer, "patience": None, "field_weights": given.field_weights}
    numbers = {name: getattr(given, name) for name in ("l1", "l1_weights", "l2", "learning_rate")}
    chosen |= {name: number for name, number in numbers.items() if number is not None}
    small = resolve(task=given.task, step_rows=0, **chosen)
    sizes = ["0", *given.step_rows.split(",")]
    found = [epochs(data, valid, replace(small, step_rows=int(size))) for size in sizes]
    print(f"{given.model} {given.ranks} {given.optimizer}")
    for size, losses in zip(sizes, found):
        change = min(losses) / min(found[0]) - 1
        print(f"{size:>6} best {min(losses):.5f} ({change:+.2%}) ", *(f"{x:.5f}" for x in losses), flush=True)


def epochs(data: InMemory, valid: InMemory, options: Options) -> list[float]:
    """Return the loss on the held-out rows after each epoch."""
    metric = options.loss.metrics[0]
    return [event.metrics[metric] for event in run_recipe(data, options, valid) if isinstance(event, EpochFinished)]


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "loss"])
    for name, usual in {"rows": 200_000, "epochs": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    for name in ("l1", "l1-weights", "l2", "learning-rate"):
        parser.add_argument(f"--{name}", type=float)
    texts = {"ranks": "8,32,128", "step-rows": "4096", "task": "binary", "model": "fm", "optimizer": "adagrad"}
    for name, usual in (texts | {"field-weights": "auto", "fields": "", "train": "", "valid": ""}).items():
        parser.add_argument(f"--{name}", default=usual)
    given = parser.parse_args()
    if given.what == "speed":
        given.step_rows = int(given.step_rows)
        speed(given)
    else:
        loss(given)


if __name__ == "__main__":
    main()
