"""Worlds as trained models whose features have scattered ids, and their rows as batches of ids."""

import numpy as np

from rafm.losses import loss_named
from rafm.model.model import Model
from rafm.model.parameters import Parameters
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import Numbering

N_INPUTS = 40


def model_of(world, loss="squared", seed=0):
    """Return the world as a model whose features have scattered ids."""
    ids = np.random.default_rng(seed).permutation(N_INPUTS)[: world.plan.n_features]
    weights, factors = world.arrays(np.float32)
    mixture = world.model["mixture"].astype(np.float32) if world.plan.family == "mrma" else None
    parameters = Parameters(np.array([world.model["bias"]], np.float32), weights, factors, mixture)
    counts = np.arange(weights.size, 0, -1)
    return Model(world.plan, Numbering(ids, N_INPUTS), counts, loss_named(loss), parameters, n_rows=100)


def by_id(model, rows, extra=()):
    """Return numbered rows as a batch of ids in random order, with further unknown ids."""
    rng = np.random.default_rng(1)
    indptr, indices, values = [0], [], []
    for numbers, x in rows:
        ids = np.concatenate([model.numbering.ids[numbers], extra]).astype(int)
        order = rng.permutation(ids.size)
        indices += ids[order].tolist()
        values += np.concatenate([x, np.ones(len(extra))])[order].tolist()
        indptr.append(len(indices))
    return check_batch(Batch(np.array(indptr), np.array(indices, int), np.array(values), 10**6))
