"""Worlds as trained models whose features have scattered ids, and their rows as batches of ids."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from worlds import make_world

from rafm.compress.quantise import quantise
from rafm.kernels.head import Network
from rafm.losses import loss_named
from rafm.model.file import Saved
from rafm.model.head import Head, n_inputs
from rafm.model.model import Model
from rafm.model.parameters import Parameters
from rafm.plan.fields import FeatureFields
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import Numbering

N_INPUTS = 40


def model_of(world, loss="squared", seed=0):
    """Return the world as a model whose features have scattered ids."""
    ids = np.random.default_rng(seed).permutation(N_INPUTS)[: world.plan.n_features]
    weights, factors = world.arrays(np.float32)
    mixture = world.model["mixture"].astype(np.float32) if world.plan.family == "mrma" else None
    t, fields = None, None
    if "t" in world.model:
        t, numbers = world.model["t"].astype(np.float32), np.array(world.model["fields"], np.int32)
        fields = FeatureFields(tuple(f"field {number}" for number in range(t.size)), numbers)
    if world.plan.n_field_vectors:
        names = tuple(f"field {number}" for number in range(world.plan.n_field_vectors))
        fields = FeatureFields(names, np.array(world.model["fields"], np.int32))
    parameters = Parameters(np.array([world.model["bias"]], np.float32), weights, factors, mixture, fields=t)
    counts = np.arange(weights.size, 0, -1)
    numbering = Numbering(ids, N_INPUTS)
    return Model(world.plan, numbering, counts, loss_named(loss), parameters, n_rows=100, fields=fields)


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


def random_head(rng, n_fields, n_units=5):
    """Return a head of random numbers."""
    n = n_inputs(n_fields)
    shapes = [(n,), (n,), (n, n_units), (n_units,), (n_units,), (1,)]
    arrays = [rng.normal(0, 0.7, shape).astype(np.float32) for shape in shapes]
    return Head(Network(arrays[0], np.abs(arrays[1]), *arrays[2:]), n_fields)


WORLDS = {  # name: family, ranks, levels, number of fields, loss, bits, index base
    "rafm": ("rafm", (3, 5, 70), [3, 3, 3, 2, 2, 1, 1, 0, 0], 0, "log", None, 1),
    "rafm with field weights": ("rafm", (2, 9), [2, 2, 2, 2, 1, 1, 1, 0], 3, "squared", None, 0),
    "fm": ("fm", (17,), [1] * 9, 0, "poisson", None, 0),
    "fm with field weights": ("fm", (4,), [1] * 9, 2, "log", None, 0),
    "difacto": ("difacto", (1, 5, 9), [3, 3, 2, 2, 1, 1, 0], 2, "huber", None, 0),
    "lr": ("lr", (), [0] * 9, 0, "log", None, 1),
    "mrma": ("mrma", (2, 66), [2] * 12, 0, "squared", None, 0),
    "16 bits": ("rafm", (3, 9), [2, 2, 2, 1, 1, 1], 2, "squared", 16, 0),
    "8 bits": ("fm", (7,), [1] * 9, 0, "log", 8, 0),
    "6 bits": ("difacto", (3, 7), [2, 2, 1, 1, 0], 0, "log", 6, 0),
    "4 bits": ("rafm", (3, 6, 9), [3, 3, 3, 2, 2, 1, 1], 2, "log", 4, 1),
    "rafm with a head": ("rafm", (3, 5, 9), [3, 3, 2, 2, 2, 1, 1, 0], 3, "log", None, 1),
    "fm of many fields with a head": ("fm", (4,), [1] * 23, 21, "squared", None, 0),
    "8 bits with a head": ("difacto", (2, 5), [2, 2, 2, 1, 1, 1, 0], 3, "log", 8, 0),
    "no features": ("fm", (4,), [], 0, "log", None, 0),
}


def ids_of(name):
    """Return the ids that the model of one of WORLDS knows; nothing is compiled for it."""
    family, ranks, levels, *_ = WORLDS[name]
    return model_of(make_world(family, ranks, levels)).numbering.ids.tolist()


def saved_world(name):
    """Return one of WORLDS as the content of a model file, with vectors as long as those of trained models."""
    family, ranks, levels, n_fields, loss, bits, base = WORLDS[name]
    model = model_of(make_world(family, ranks, levels, seed=3, n_fields=n_fields), loss)
    shorter = [block * np.float32(0.25) for block in model.parameters.factors]
    model = replace(model, parameters=replace(model.parameters, factors=shorter))
    if name.endswith("with a head"):
        model = replace(model, head=random_head(np.random.default_rng(4), n_fields))
    saved = Saved(model if bits is None else quantise(model, bits), index_base=base)
    # Scored once, so that nothing is imported later: Hypothesis draws constants that it finds in imported modules.
    saved.model.predict(as_batch([dict.fromkeys(model.numbering.ids[:2].tolist(), 1.0)]))
    return saved


def rows_of_ids(model, longest=7):
    """Draw rows as {id: value}: known and unknown ids in any order, values of both signs, some of them 0."""
    known = st.sampled_from([*model.numbering.ids.tolist(), 0]) if model.plan.n_features else st.just(0)
    ids = st.one_of(known, st.integers(0, 2 * N_INPUTS))
    two = model.plan.traits.has_mixture
    return st.dictionaries(ids, st.floats(-2, 2, width=16), min_size=2 if two else 0, max_size=3 if two else longest)


def as_batch(rows):
    """Return rows of {id: value} as checked rows."""
    indptr = np.cumsum([0, *map(len, rows)])
    ids, values = ([entry for row in rows for entry in part(row)] for part in (dict.keys, dict.values))
    return check_batch(Batch(indptr, np.array(ids, int), np.array(values, float), 10**6))
