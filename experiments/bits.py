"""What do fewer bits cost: size and test loss of one model at 32, 16, 8, 6 and 4 bits, and of a float FM of equal size.

    RAFM_DATA=folder python -m experiments.bits [SET ...] [--rank 64]

A set is a folder with SET.train.libfm.gz, SET.validation.libfm.gz, SET.test.libfm.gz and features.tsv.gz. An FM of the
rank and, with ratings, a RaFM of default ranks are trained with defaults, then quantised as `rafm compress` does. The
last two columns are float FMs whose files have the size of the FM at 8 and at 4 bits: what the bytes buy otherwise.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rafm.compress.budget import compress
from rafm.metrics.evaluation import Evaluation
from rafm.model.file import Saved, file_bytes
from rafm.model.model import Model
from rafm.options import resolve
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, labelled_rows, training_rows
from rafm.rows.source import RowSource
from rafm.train.dispatch import train_model

SETS = {
    "frappe": "binary",
    "lastfm-tag-popularity": "binary",
    "ml10m-tag-popularity": "binary",
    "ml-1m": "regression",
    "ml-100k": "regression",
}
BITS = (16, 8, 6, 4)
EQUAL = (8, 4)


def described(saved: Saved, test: RowSource) -> tuple[int, float]:
    """Return the bytes of a file and the test loss of its model."""
    return file_bytes(saved), loss_of(saved.model, test)


def loss_of(model: Model, rows: RowSource) -> float:
    """Return the metric of the model's loss."""
    evaluation = Evaluation(model.loss)
    for number in range(rows.n_blocks):
        batch = rows.block(number)
        evaluation.add(batch.labels, model.scores(batch), np.ones(batch.n_rows))
    return evaluation.report()[model.loss.metrics[0]]


def compare(name: str, rank: int) -> Iterator[tuple[str, str, int, float]]:
    """Yield model, number of bits, bytes and test loss."""
    folder, task = Path(os.environ.get("RAFM_DATA", "data")) / name, SETS[name]
    files = ReadOptions(task, fields=read_fields(folder / "features.tsv.gz"))
    rows, _ = training_rows(folder / f"{name}.train.libfm.gz", files)
    valid, test = (labelled_rows(folder / f"{name}.{part}.libfm.gz", files, None) for part in ("validation", "test"))

    def trained(**chosen: object) -> Saved:
        return Saved(train_model(rows, resolve(task=task, **chosen), valid).for_scoring())

    sizes: dict[int, int] = {}
    for title, model in ((f"FM {rank}", trained(model="fm", ranks=rank)), ("RaFM", trained())):
        yield title, "32", *described(model, test)
        for bits in BITS:
            found = described(compress(model, bits=bits), test)
            sizes.setdefault(bits, found[0])
            yield title, str(bits), *found
    n = model.model.plan.n_features
    for bits in EQUAL:
        own = max((sizes[bits] - file_bytes(trained(model="lr", n_epochs=1))) // (4 * n), 1)
        yield f"FM {own}", f"32, size of {bits}", *described(trained(model="fm", ranks=own), test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*SETS])
    parser.add_argument("--rank", type=int, default=64)
    given = parser.parse_args()
    print("| set | model | bits | bytes | test loss |\n|---|---|---|--:|--:|")
    for name in given.sets:
        for title, bits, size, loss in compare(name, given.rank):
            print(f"| {name} | {title} | {bits} | {size} | {loss:.5f} |", flush=True)
