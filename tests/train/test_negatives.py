"""What is drawn against each row, and rankings trained by pairs: threads, kills, blocks, metrics, messages."""

from dataclasses import dataclass

import numpy as np
import pytest
from worlds import one_hot

from rafm.checks import effective
from rafm.errors import ConfigError, DataValueError
from rafm.losses.bpr import Bpr
from rafm.options import resolve
from rafm.rows.blocks import take_rows
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.numbering import Numbering
from rafm.rows.source import InMemory
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import CheckpointWritten, EpochFinished, Finished
from rafm.train.resources import Resources
from rafm.train.steps import record_engine
from rafm.train.steps.loader import Blocks
from rafm.train.steps.negatives import Negatives

N_USERS, N_ITEMS, N_TASTES = 30, 24, 3
FIELDS = Fields.of_ranges(("user", "item", "genre"), [0, N_USERS, N_USERS + N_ITEMS, N_USERS + N_ITEMS + 4])


def choices(n_rows=1200, seed=0):
    """Return what users chose: two of three times an item of their taste, which one of four genres tells, too."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, N_USERS, n_rows)
    tastes = np.where(rng.random(n_rows) < 2 / 3, users % N_TASTES, rng.integers(0, N_TASTES, n_rows))
    items = tastes + N_TASTES * rng.integers(0, N_ITEMS // N_TASTES, n_rows)
    columns = np.stack([users, N_USERS + items, N_USERS + N_ITEMS + items % N_TASTES], axis=1)
    return one_hot(columns, np.ones(n_rows))


@dataclass(frozen=True)
class InBlocks(InMemory):
    """Rows in three blocks."""

    n_blocks: int = 3

    def block(self, number):
        bounds = np.linspace(0, self.rows.n_rows, 4).astype(int)
        return take_rows(self.rows, bounds[number], bounds[number + 1])


def options(**chosen):
    usual = {"loss": "bpr", "ranks": (4, 8), "rank_scale": 0.2, "n_epochs": 3, "item_fields": ("item", "genre")}
    return resolve(task="ranking", **effective({**usual, **chosen}))


def drawer(source, power=0.0, valid=None):
    """Return what draws against the rows of a source; features are numbered by their ids."""
    n = source.rows.n_features
    numbering, scales = Numbering(np.arange(n), n), np.ones(n, np.float32)
    blocks = Blocks(source, numbering, scales)
    held_out = None if valid is None else Blocks(InMemory(valid), numbering, scales)
    return Negatives(blocks, np.arange(n) >= N_USERS, Bpr(power), 0, held_out), blocks, held_out


# What is drawn


@pytest.mark.parametrize("kind", [InMemory, InBlocks])
def test_an_item_that_was_seen_with_the_context_is_never_drawn(kind):
    rows = choices()
    seen = {tuple(row) for row in rows.indices.reshape(-1, 3)}
    catalogue = {row[1:] for row in seen}
    negatives, blocks, _ = drawer(kind(rows))
    assert negatives.items.n_items == len(catalogue)
    drawn = set()
    for number, block in enumerate(blocks):
        found = negatives.drawn(number, block, np.random.default_rng(number))
        pairs = found.pairs(np.arange(block.labels.size))
        others = pairs.indices.reshape(-1, 3)[1::2][pairs.weights[1::2] > 0]
        drawn |= {tuple(row) for row in others.tolist()}
    assert not drawn & seen
    assert {row[1:] for row in drawn} == catalogue
    assert len(drawn) > 100


def test_a_row_whose_context_saw_everything_is_left_out():
    columns = np.array([[0, 30], [0, 31], [1, 30]])
    negatives, blocks, _ = drawer(InMemory(one_hot(columns, np.ones(3))))
    found = negatives.drawn(0, blocks.rows(0), np.random.default_rng(0))
    assert found.drawn.tolist() == [-1, -1, 1]
    assert found.pairs(np.arange(3)).weights.tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_items_are_drawn_by_their_counts_to_the_power(power):
    counts = np.array([1, 4, 16, 64])
    items = np.repeat(np.arange(4), counts)
    columns = np.stack([np.zeros_like(items), 30 + items], axis=1)
    alone = np.tile([1, 34], (20, 1))  # of a user who saw none of them
    rows = one_hot(np.concatenate([columns, alone]), np.ones(items.size + 20))
    negatives, blocks, _ = drawer(InMemory(rows), power)
    found = [negatives.drawn(0, blocks.rows(0), np.random.default_rng(seed)).drawn[-20:] for seed in range(200)]
    expected = counts**power / (counts**power).sum()
    np.testing.assert_allclose(np.bincount(np.ravel(found), minlength=4) / 4000, expected, atol=0.03)


def test_validation_rows_are_judged_by_the_same_differences_every_time():
    train_rows, valid = choices(), choices(300, seed=1)
    negatives, _, held_out = drawer(InMemory(train_rows), valid=valid)
    weights = np.random.default_rng(0).normal(size=train_rows.n_features)

    def scores(rows):
        return np.add.reduceat(weights[rows.indices], rows.indptr[:-1])

    found = [[*negatives.differences(0, held_out.rows(0), scores)] for _ in range(2)]
    for (one, weight), (other, _) in zip(*found):
        np.testing.assert_array_equal(one, other)
        assert 0 < weight.sum() <= 300
    positive = weights[valid.indices.reshape(-1, 3)].sum(axis=1)
    lowest = [weights[[N_USERS + i, N_USERS + N_ITEMS + i % 3]].sum() for i in range(N_ITEMS)]
    item = weights[valid.indices.reshape(-1, 3)[:, 1:]].sum(axis=1)
    assert (found[0][0][0] <= item - min(lowest) + 1e-6).all()
    assert positive.size == found[0][0][0].size


# Training


@pytest.mark.parametrize("family", ["rafm", "difacto", "fm", "lr"])
def test_pairs_teach_what_users_like(family):
    chosen = options(model=family, ranks=None if family == "lr" else 8 if family == "fm" else (4, 8), n_epochs=10)
    epochs = list(run_recipe(InMemory(choices(), FIELDS), chosen, choices(600, seed=1)))
    best = max(event.metrics["pair_auc"] for event in epochs if isinstance(event, EpochFinished))
    assert (best > 0.6) == (family != "lr")  # a linear model knows no tastes
    assert epochs[-1].model.parameters.bias[0] == 0


def test_models_have_the_same_bytes_for_any_number_of_threads():
    source, valid = InBlocks(choices(), FIELDS), choices(300, seed=1)
    found = [train_model(source, options(threads=threads), valid) for threads in (1, 2, 4)]
    for model in found[1:]:
        assert model.history == found[0].history
        for name, array in model.parameters.arrays().items():
            assert array.tobytes() == found[0].parameters.arrays()[name].tobytes(), name


@pytest.mark.parametrize("power", [0.0, 0.75])
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch, power):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)
    source, valid, chosen = InBlocks(choices(), FIELDS), choices(300, seed=1), options(loss=Bpr(power))
    straight = train_model(source, chosen, valid)
    written, last = 0, None
    for _ in range(100):
        with Checkpoint(tmp_path, seconds=0) as checkpoint:
            for event in run_recipe(source, chosen, valid, Resources(checkpoint=checkpoint)):
                last = event
                if isinstance(event, CheckpointWritten) and (written := written + 1) % 9 == 0:
                    break  # as if killed: nothing more is written
        if isinstance(last, Finished):
            break
    assert written > 20
    assert last.model.history == straight.history
    for name, array in last.model.parameters.arrays().items():
        assert array.tobytes() == straight.parameters.arrays()[name].tobytes(), name


def test_seeds_draw_different_items():
    one, other = (train_model(InMemory(choices(), FIELDS), options(n_epochs=1, seed=seed)) for seed in (0, 1))
    assert one.history[0]["train_loss"] != other.history[0]["train_loss"]


def test_a_model_goes_on_with_new_rows():
    first = train_model(InMemory(choices(), FIELDS), options())
    *_, last = run_recipe(InMemory(choices(400, seed=5), FIELDS), options(n_epochs=1), start=first)
    assert last.model.n_rows == 1600
    assert len(last.model.history) == 4


# Messages


def test_what_cannot_be_ranked_is_named():
    rows = choices(60)
    labels = np.where(np.arange(60) == 7, 0.0, 1.0)
    negative = check_batch(Batch(rows.indptr, rows.indices, rows.values, rows.n_features, labels, None))
    with pytest.raises(DataValueError, match="labels must be above 0, found 0"):
        train_model(InMemory(negative, FIELDS), options())
    with pytest.raises(DataValueError, match="ranking needs fields"):
        train_model(InMemory(rows), options())
    with pytest.raises(ConfigError, match="item_fields has 'movie', but the fields of the rows are user, item, genre"):
        train_model(InMemory(rows, FIELDS), options(item_fields="movie"))
    with pytest.raises(ConfigError, match="all fields of the rows"):
        train_model(InMemory(rows, FIELDS), options(item_fields=("user", "item", "genre")))
    same = one_hot(np.array([[0, 30], [1, 30]]), np.ones(2))
    with pytest.raises(DataValueError, match="at least two different items"):
        train_model(InMemory(same, FIELDS), options(item_fields="item"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"item_fields": None}, "task='ranking' needs item_fields"),
        ({"model": "mrma", "ranks": (4, 8), "rank_scale": None}, "model 'mrma' cannot rank items"),
        ({"model": "ffm", "ranks": 4, "rank_scale": None}, "model 'ffm' cannot rank items"),
        ({"ranks": "auto", "rank_scale": None}, "task='ranking' cannot train ranks='auto'"),
        ({"step_rows": 64}, "task='ranking' has no wide steps"),
        ({"optimizer": "gibbs", "model": "fm", "ranks": 4}, "'gibbs' requires loss="),
        ({"metric": "auc"}, "metric must be pair_loss or pair_auc for ranking, found 'auc'"),
    ],
)
def test_options_that_do_not_go_with_pairs_are_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        options(**given)


def test_only_rankings_have_items():
    with pytest.raises(ConfigError, match="item_fields is for task='ranking', found task='binary'"):
        resolve(task="binary", item_fields="item")
    with pytest.raises(ConfigError, match="negative_power must be a number of at least 0"):
        Bpr(-1)
