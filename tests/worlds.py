"""Tiny data with known answers, strategies that draw models and rows, and a way to drive the kernels in float64.

A world is a model of `naive` together with the plan and the records that hold the same numbers in the package.
"""

import copy
import os
import subprocess
import sys
from dataclasses import dataclass

import naive
import numpy as np
from hypothesis import strategies as st

from rafm.families.ffm import score_field_aware
from rafm.jit.compile import PLAIN
from rafm.kernels import field_aware
from rafm.kernels import tables as kernels
from rafm.kernels.training import train_rows
from rafm.losses import loss_named
from rafm.model.scores import score
from rafm.optimizers import optimizer_for
from rafm.plan.grouping import Grouping
from rafm.plan.ranks import RankPlan
from rafm.plan.scratch import (
    field_vector_tables,
    make_field_scratch,
    make_field_vector_scratch,
    make_training_scratch,
)
from rafm.rows.checked import Batch, check_batch
from rafm.train.steps.team import ThreadTeam

ODD_RANKS = (1, 3, 5, 17, 33, 70)  # none a multiple of 4: all vectors are padded
ALL_RANKS = (*ODD_RANKS, 4, 8, 16, 32)
FAMILIES = ("rafm", "difacto", "fm", "lr")
# Compiled, what is tested is what is used; interpreted, sums are exact enough for finite differences.
PRECISION, TOLERANCE, ROUNDING = (np.float64, 1e-10, 1e-12) if PLAIN else (np.float32, 1e-4, 1e-5)
RULE = {
    "kind": "squared",
    "joint": True,
    "dependent_weight": 1.0,
    "optimizer": "sgd",
    "learning_rate": 1.0,
    "l2": 0.0,
    "l2_weights": 0.0,
    "l1": 0.0,
    "l1_weights": 0.0,
}


@dataclass(frozen=True)
class World:
    """The same model twice: as plain equations, and as plan and records."""

    plan: RankPlan
    model: dict

    def arrays(self, dtype=PRECISION):
        """Return weights and factors as the package keeps them."""
        blocks = zip(self.model["v"], self.model["ranks"])
        factors = [np.array([v for v in block if v is not None], dtype).reshape(-1, rank) for block, rank in blocks]
        if self.plan.n_field_vectors:
            factors = [np.concatenate(factors, axis=1)]
        return self.model["w"].astype(dtype), factors

    def layout(self, with_states=True, n_slots=0):
        return self.plan.traits.layout(self.plan, with_states, n_slots)

    def scores(self, rows, level=None, dtype=PRECISION, with_states=False):
        """Score rows with the package's kernels."""
        layout = self.layout(with_states)
        records, weights = layout.pack(*self.arrays(dtype)), None
        tables, bias = layout.tables(dtype=dtype), dtype(self.model["bias"])
        if "fields" in self.model:
            layout.put_fields(records, self.model["fields"])
            weights = self.model["t"].astype(dtype) if "t" in self.model else None
        if self.plan.n_field_vectors:
            return score_field_aware(pack_rows(rows, dtype=dtype), layout, tables, records, bias)
        return score(pack_rows(rows, dtype=dtype), tables, records, bias, level, weights)


def make_world(family, ranks, levels, seed=0, n_fields=0):
    """Return a world of random numbers; levels are put in falling order, as features are numbered."""
    levels = sorted((int(level) for level in levels), reverse=True)
    sizes = [sum(level >= k for level in levels) for k in range(len(ranks) + 1)]
    blocks = tuple(np.diff(ranks, prepend=0).tolist()) if family == "difacto" else tuple(ranks)
    if family == "ffm":  # a block per field, all of which every feature has
        blocks, levels = blocks * n_fields, [n_fields] * len(levels)
    model = naive.random_model(np.random.default_rng(seed), blocks, levels, family=family, n_fields=n_fields)
    if family == "ffm":
        return World(RankPlan(family, tuple(ranks), (*sizes, 0), n_field_vectors=n_fields), model)
    return World(RankPlan(family, tuple(ranks), (*sizes, 0), n_fields), model)


def pack_rows(rows, labels=None, weights=None, dtype=PRECISION):
    """Return rows, pairs of ids and values, as the kernels want them."""
    lengths = [len(ids) for ids, _ in rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return kernels.Rows(
        indptr=indptr,
        middles=indptr[1:],
        indices=np.concatenate([np.empty(0), *(ids for ids, _ in rows)]).astype(np.int32),
        values=np.concatenate([np.empty(0), *(values for _, values in rows)]).astype(dtype),
        labels=np.zeros(len(rows), dtype) if labels is None else np.asarray(labels, dtype),
        weights=np.ones(len(rows), dtype) if weights is None else np.asarray(weights, dtype),
    )


def pack_settings(rule, n_blocks, dtype=PRECISION, choose=kernels.AnyOptimizer):
    """Return a rule of `naive` as the kernels' settings; `choose` says which kernel: one for all optimisers, or two."""
    loss = loss_named({"logistic": "log"}.get(rule["kind"], rule["kind"]))
    return kernels.Settings(
        loss=loss.code,
        loss_shape=dtype(loss.shape()),
        uses_exp=loss.uses_exp,
        joint=rule["joint"],
        dependent_weight=dtype(rule["dependent_weight"]),
        optimizer=choose(optimizer_for(rule["optimizer"]).code),
        learning_rate=dtype(rule["learning_rate"]),
        l2=np.full(n_blocks, rule["l2"], dtype),
        l2_weights=dtype(rule["l2_weights"]),
        l1=dtype(rule["l1"]),
        l1_weights=dtype(rule["l1_weights"]),
    )


@dataclass(frozen=True)
class Trained:
    """What a pass over rows left behind."""

    records: np.ndarray
    bias: np.ndarray  # with its state
    weights: np.ndarray
    factors: list
    loss: float
    stopped: int
    n_slots: int = 0
    fields: np.ndarray | None = None  # field weights, their states, and gradient sums per group


def split_levels(plan, heads):
    """Return bounds of groups of neighbours; the first heads[k] features of level k are heads."""
    sizes, steps = np.array(plan.sizes), np.arange(kernels.GROUPS + 1)
    start, middle, stop = sizes[1:, None], sizes[1:, None] + np.reshape(heads, (-1, 1)), sizes[:-1, None]
    parts = ((start, middle), (middle, stop))
    return np.stack([first + (last - first) * steps // kernels.GROUPS for first, last in parts], axis=1)


def fresh_records(world, layout, optimizer, rule, dtype):
    """Return records with states at their start; those of weights that are not 0 too."""

    def slot(vectors, l1=rule["l1"]):
        return optimizer.first_slot(vectors, rule["learning_rate"], l1)

    weights, factors = world.arrays(dtype)
    records = layout.pack(weights, factors, optimizer.first_state, slot if optimizer.n_slots else None)
    for _, _, view in layout.views(records):
        if optimizer.n_slots:
            view[:, 2:3] = slot(view[:, :1], rule["l1_weights"])
    return records


def fresh_fields(world, layout, records, dtype):
    """Return field weights with states at their start, if there are any, and put the fields into the records."""
    if "fields" in world.model:
        layout.put_fields(records, world.model["fields"])
    if "t" not in world.model:
        return None
    n_fields = world.plan.n_field_weights
    return np.array([world.model["t"], np.ones(n_fields), *np.zeros((kernels.GROUPS, n_fields))], dtype)


def train(world, batch, rule, heads=None, batch_size=16, dtype=PRECISION, order=None, threads=1, paired=False):
    """Train on a batch of `naive` with the package's kernels; heads[k] features of level k sum their gradients."""
    optimizer = optimizer_for(rule["optimizer"])
    layout = world.layout(n_slots=optimizer.n_slots)
    bounds = split_levels(layout.plan, [0] * len(layout.members) if heads is None else heads)
    tables, records = layout.tables(bounds, dtype), fresh_records(world, layout, optimizer, rule, dtype)
    rows = pack_rows(*([item[part] for item in batch] for part in range(3)), dtype=dtype)
    rows = Grouping(np.arange(world.plan.n_features), bounds).split(rows)
    rows = kernels.PairedRows(*rows) if paired else rows
    longest = max((len(ids) for (ids, _), _, _ in batch), default=0)
    kernel, make_scratch = train_rows, make_training_scratch
    if world.plan.n_field_vectors:
        tables, kernel, make_scratch = (
            field_vector_tables(tables, longest),
            field_aware.train_rows,
            make_field_vector_scratch,
        )
    works = make_scratch(layout, tables, longest, batch_size, dtype, threads)
    bias = np.array([world.model["bias"], *optimizer.states_of(world.model["bias"], rule["learning_rate"]), 0], dtype)
    order = np.arange(len(batch)) if order is None else np.asarray(order)
    choose = kernels.optimizer_with if paired else kernels.AnyOptimizer  # as pairs are trained elsewhere
    settings = pack_settings(rule, len(world.model["ranks"]), dtype, choose)
    shared = fresh_fields(world, layout, records, dtype)
    fields = make_field_scratch(shared, tables, longest, batch_size, threads)
    together, loss, stopped, done = ThreadTeam(threads), 0.0, -1, 0
    together.probe.alone = False

    def step(team):
        training = kernels.Training(tables, records, settings, team, works[team.thread], fields[team.thread])
        return kernel(rows, order[done:], bias, loss, training)

    while done < order.size and stopped < 0:  # threads that have to wait for long stop early
        loss, stopped, trained = together.run(step)
        done += trained
    weights, factors = layout.unpack(records)
    factors = np.split(factors[0], world.plan.n_field_vectors, axis=1) if world.plan.n_field_vectors else factors
    return Trained(records, bias, weights, factors, loss, stopped, layout.n_slots, shared)


def changes(world, trained):
    """Yield (name, number before less number after) of everything trained."""
    before, after = naive.numbers(world.model), trained
    yield ("bias",), PRECISION(world.model["bias"]) - after.bias[0]
    for name, array in before:
        if name == ("t",):  # of one batch, by which the weights have not stepped yet
            yield name, trained.fields[2:].sum(axis=0)
            continue
        yield name, array.astype(PRECISION) - (after.weights if name == ("w",) else after.factors[name[1]][name[2]])


def head_ids(world, heads):
    """Return the feature numbers of the first heads[k] features of every level."""
    sizes = world.layout().plan.sizes
    return {sizes[k + 1] + place for k, count in enumerate(heads) for place in range(count)}


def twin(world, batches, rule, heads, paired=False):
    """Return model, states and loss after training the twin on one mini-batch after the other."""
    model = copy.deepcopy(world.model)
    states = naive.fresh_states(model, rule)
    loss = sum(naive.train_batch(model, states, batch, head_ids(world, heads), rule, paired) for batch in batches)
    return model, states, loss


# Strategies


def seeds():
    return st.integers(0, 2**32 - 1)


@st.composite
def worlds(draw, families=FAMILIES, ranks=ALL_RANKS, max_features=9, max_fields=0):
    """Draw a model of any family: levels may be empty, one level may hold all features, and some may have no vector."""
    family = draw(st.sampled_from(families))
    fixed = {"lr": 0, "fm": 1, "ffm": 1}
    n_levels = fixed[family] if family in fixed else draw(st.integers(1, 3))
    chosen = sorted(draw(st.lists(st.sampled_from(ranks), min_size=n_levels, max_size=n_levels, unique=True)))
    n_features = draw(st.integers(1, max_features))
    lowest = 0 if family in ("rafm", "difacto") else n_levels
    levels = draw(st.lists(st.integers(lowest, n_levels), min_size=n_features, max_size=n_features))
    n_fields = draw(st.integers(1, max_fields)) if max_fields else 0
    return make_world(family, chosen, levels, draw(seeds()), n_fields)


@st.composite
def rows_of(draw, n_features):
    """Draw a row: rising ids, maybe none, and values of both signs, not zero."""
    ids = sorted(draw(st.sets(st.integers(0, n_features - 1))))
    values = st.floats(-4, 4, width=16).filter(bool)
    return np.array(ids, np.int32), np.array(draw(st.lists(values, min_size=len(ids), max_size=len(ids))))


@st.composite
def worlds_with_rows(draw, n_rows=3, **kinds):
    """Draw a world and some rows of its features."""
    world = draw(worlds(**kinds))
    return world, [draw(rows_of(world.plan.n_features)) for _ in range(n_rows)]


# Data


def random_rows(rng, n_features, n_rows, longest):
    """Return rows of random ids and values."""
    rows = []
    for _ in range(n_rows):
        ids = np.sort(rng.choice(n_features, rng.integers(0, min(longest, n_features) + 1), replace=False))
        rows.append((ids, rng.normal(size=ids.size)))
    return rows


def one_hot(columns, labels, weights=None):
    """Return a checked batch from a table of feature ids, all values 1."""
    n_rows, n_columns = columns.shape
    n_features = int(columns.max()) + 1
    indptr = np.arange(n_rows + 1) * n_columns
    return check_batch(Batch(indptr, columns.ravel(), np.ones(columns.size), n_features, labels, weights))


def changed_rows(rows, **parts):
    """Return rows with other arrays, checked again."""
    kept = {name: getattr(rows, name) for name in ("indptr", "indices", "values", "n_features", "labels", "weights")}
    return check_batch(Batch(**{**kept, **parts}))


def planted(task="binary", n_rows=6000, seed=0):
    """Return training and validation rows of two fields whose truth is a product of two rank-2 vectors.

    Neither field tells anything alone: a linear model can do no better than a constant.
    """
    rng = np.random.default_rng(seed)
    n_users, n_items = 30, 20
    users, items = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    users, items = users - users.mean(0), items - items.mean(0)
    columns = np.stack([rng.integers(0, n_users, n_rows), n_users + rng.integers(0, n_items, n_rows)], axis=1)
    truth = 1.5 * (users[columns[:, 0]] * items[columns[:, 1] - n_users]).sum(axis=1)
    labels = truth if task == "regression" else rng.random(n_rows) < naive.sigmoid(truth)
    split = 2 * n_rows // 3
    return one_hot(columns[:split], labels[:split]), one_hot(columns[split:], labels[split:])


# Fresh interpreters


def run_python(*arguments, path=None, **environment):
    """Run a fresh interpreter that finds the same packages, with path first; return what it prints."""
    paths = [path, *sys.path] if path else sys.path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **environment}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
