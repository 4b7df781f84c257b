"""Data, runs and kills for tests of distributed training."""

import os
import signal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from rafm.checks import effective
from rafm.distributed.group import LocalGroup
from rafm.distributed.inputs import open_training
from rafm.distributed.lanes import SlotPlan, hold_out
from rafm.distributed.manifest import Checkpoints
from rafm.distributed.run import ClusterJob, ClusterRun
from rafm.distributed.spec import no_hook
from rafm.options import resolve
from rafm.read.open import ReadOptions

FIELDS, VALUES = 3, 40
SLOTS = SlotPlan(slot_rows=4, slots=4)  # 16 rows per step, so that the first steps are whole ones


def rows_of_clicks(n_rows, seed=0):
    """Return labels and ids of rows with one feature per field, some frequent and most rare."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, VALUES + 1)
    ids = np.stack([rng.choice(VALUES, n_rows, p=share / share.sum()) + VALUES * f for f in range(FIELDS)], axis=1)
    weights = np.random.default_rng(7).normal(size=(FIELDS * VALUES))
    return (rng.random(n_rows) < 1 / (1 + np.exp(-weights[ids].sum(axis=1)))).astype(np.float32), ids


def write_ids(path, n_rows=600, seed=0, group=90, values=None):
    """Write a Parquet file of rows of ids."""
    labels, ids = rows_of_clicks(n_rows, seed)
    offsets = np.arange(0, ids.size + 1, FIELDS, dtype=np.int32)
    columns = {"label": labels, "ids": pa.ListArray.from_arrays(offsets, pa.array(ids.ravel().astype(np.int32)))}
    if values is not None:
        columns["values"] = pa.ListArray.from_arrays(offsets, pa.array(values.astype(np.float32)))
    parquet.write_table(pa.table(columns), path, row_group_size=group)
    return str(path)


def write_table(path, n_rows=600, seed=0, group=90):
    """Write a Parquet table with one column per field."""
    labels, ids = rows_of_clicks(n_rows, seed)
    columns = {f"c{f}": pa.array([f"v{id}" for id in ids[:, f]]) for f in range(FIELDS)}
    parquet.write_table(pa.table({"click": labels, **columns}), path, row_group_size=group)
    return str(path)


def options_of(**chosen):
    task, usual = chosen.pop("task", "binary"), {"ranks": (4, 8), "n_epochs": 2, "rank_scale": 0.5}
    return resolve(task=task, **effective({**usual, **chosen}))


def job_of(path, share=0.1, folder=None, hook=no_hook, seconds=1e9, slots=SLOTS, max_failures=9, spec=None, **chosen):
    """Return what to train on, with a share of the units held out."""
    options = options_of(**chosen)
    given = open_training(path, ReadOptions(options.loss.task, spec=spec))
    train, held = hold_out(len(given.source.units), share, options.seed)
    states = None if folder is None else Checkpoints(str(folder), {"n_epochs": options.n_epochs})
    more = {"checkpoint_seconds": seconds, "max_failures": max_failures, "hook": hook}
    return ClusterJob(given.source, options, slots, train, held, None, given.n_inputs, states, **more)


def n_steps(job):
    """Return the number of steps of the first epoch."""
    return sum(1 for _ in job.slots.steps(job.train.units, job.chosen, 1, 0))


def trained(group, job):
    """Train a job on a group; return the model."""
    *_, last = ClusterRun(group, job).events()
    return last.model


def alone(path, n_shards=1, hook=no_hook, **chosen):
    """Train in this process."""
    return trained(LocalGroup(n_shards, hook), job_of(path, hook=hook, **chosen))


def bytes_of(model):
    """Return everything that training computed."""
    arrays = {name: array.tobytes() for name, array in model.parameters.arrays().items()}
    return {**arrays, "ids": model.numbering.ids.tolist(), "sizes": model.plan.sizes, "history": model.history}


def killing(moment, step, marker):
    """Return a hook that kills its process at a moment of a step, the first time anybody gets there."""
    marker = str(marker)

    def hook(now, at):
        if now == moment and at == step:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    return hook
