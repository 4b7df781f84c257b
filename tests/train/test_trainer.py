"""Training as a whole: events, equal bytes from equal seeds, early stopping, scales, divergence, and a known truth."""

import time
from dataclasses import replace

import numpy as np
import pytest
from worlds import changed_rows, one_hot, planted

from rafm import AdaGrad
from rafm.checks import effective
from rafm.errors import ConfigError, DataValueError, DivergenceError
from rafm.jit.barrier import GATE_STRIDE
from rafm.kernels.tables import AnyOptimizer
from rafm.losses import loss_named
from rafm.model.file import Saved, load, save
from rafm.optimizers import OPTIMIZERS
from rafm.options import resolve
from rafm.plan.features import value_scales
from rafm.plan.ranks import RankPlan, Thresholds
from rafm.read.converted.reader import ArrowRows
from rafm.read.converted.writer import write_arrow
from rafm.rows.checked import Batch, check_batch
from rafm.rows.stats import count_rows
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import EpochFinished, Finished, Planned, StartEvaluated
from rafm.train.steps.engine import PIECE_ROWS, RowShape, arrange
from rafm.train.steps.probe import TRIAL_ROWS, Probe
from rafm.train.steps.record_engine import RecordEngine
from rafm.train.steps.run import choose_label_scale
from rafm.train.steps.team import ThreadTeam

FAMILIES = {"lr": (), "fm": (8,), "difacto": (4, 8), "mrma": (4, 8), "rafm": (4, 8)}


def options(task="binary", **chosen):
    return resolve(**effective({"task": task, "ranks": (4, 8), "levels": Thresholds((60,)), "n_epochs": 4, **chosen}))


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=3000)


@pytest.fixture(scope="module")
def ratings():
    return planted("regression", n_rows=3000)


def bytes_of(model):
    """Return all trained numbers as bytes."""
    found = model.parameters
    arrays = [found.bias, found.weights, *found.factors, *([] if found.mixture is None else [found.mixture])]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def test_kernels_without_other_optimisers_write_the_same_bytes(clicks, monkeypatch):
    usual = train_model(clicks[0], options(n_epochs=2))
    monkeypatch.setattr("rafm.train.steps.engine.optimizer_with", AnyOptimizer)
    assert bytes_of(train_model(clicks[0], options(n_epochs=2))) == bytes_of(usual)


# ---- Events


def test_events_come_in_order(clicks):
    data, valid = clicks
    first, judged, *epochs, last = run_recipe(data, options(), valid)
    assert isinstance(first, Planned)
    assert isinstance(judged, StartEvaluated)
    assert judged.metrics["log_loss"] == pytest.approx(np.log(2), abs=0.01)  # both classes are equally likely
    assert judged.metrics["auc"] == 0.5  # a constant ranks no row before another
    assert (first.n_rows, first.counts.sum()) == (2000, 4000)
    assert [event.epoch for event in epochs] == [1, 2, 3, 4]
    assert all(isinstance(event, EpochFinished) and event.seconds > 0 for event in epochs)
    assert isinstance(last, Finished)
    assert last.model.history == [event.entry() for event in epochs]
    assert last.model.plan == first.plan


def test_the_plan_is_known_before_anything_is_trained(clicks):
    events = run_recipe(clicks[0], options())
    assert next(events).plan.n_features == 50
    events.close()


def test_an_epoch_is_best_when_its_validation_loss_is_the_least_so_far(clicks):
    events = run_recipe(clicks[0], options(n_epochs=8, l2=0, patience=None), clicks[1])
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    least = np.inf
    for event in epochs:
        assert event.best == (event.metrics["log_loss"] < least)
        least = min(least, event.metrics["log_loss"])
    assert {event.best for event in epochs} == {True, False}


def test_the_history_holds_no_times(clicks):
    model = train_model(clicks[0], options(), clicks[1])
    assert {frozenset(entry) for entry in model.history} == {
        frozenset({"epoch", "train_loss", "valid_log_loss", "valid_auc"})
    }
    assert model.history == train_model(clicks[0], options(), clicks[1]).history


def test_the_training_loss_is_that_of_the_scores_before_each_update():
    """One batch, so all scores are those of the fresh model: its bias is the prior, and vectors hardly matter."""
    labels = np.array([0, 0, 0, 1.0])
    data = one_hot(np.array([[0], [0], [1], [1]]), labels)
    *_, event, _ = run_recipe(data, options(model="lr", n_epochs=1))
    assert event.train_loss == pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4, rel=1e-6)


# ---- Seeds


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(family, clicks):
    first, again, other = (
        bytes_of(train_model(clicks[0], options(model=family, ranks=FAMILIES[family], seed=seed))) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_validation_rows_do_not_change_what_is_learnt(clicks):
    alone, judged = (train_model(clicks[0], options(metric="auc"), valid) for valid in (None, clicks[1]))
    assert judged.best_epoch == len(judged.history)  # the last one, as without validation rows
    assert bytes_of(alone) == bytes_of(judged)
    assert [entry["train_loss"] for entry in alone.history] == [entry["train_loss"] for entry in judged.history]


def test_ids_do_not_matter_when_no_two_features_are_seen_equally_often():
    """Features are numbered by level and count, so renamed columns give the same numbers, bit by bit."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(12), np.arange(5, 17))
    items = 12 + np.repeat(np.arange(6), [18, 19, 20, 21, 23, 25])
    columns = np.stack([users, rng.permutation(items)], axis=1)
    counts = np.bincount(columns.ravel())
    assert len(set(counts)) == counts.size
    labels, names = rng.integers(0, 2, users.size), rng.permutation(counts.size)
    plain, renamed = (train_model(one_hot(table, labels), options()) for table in (columns, names[columns]))
    assert bytes_of(plain) == bytes_of(renamed)
    assert renamed.numbering.ids.tolist() == names[plain.numbering.ids].tolist()


# ---- Early stopping


@pytest.mark.parametrize("family", FAMILIES)
def test_early_stopping_keeps_the_best_epoch(family, clicks):
    """As the history shows it, and as training for exactly that many epochs leaves it; epoch 0 is not trained."""
    chosen = {"model": family, "ranks": FAMILIES[family], "l2": 0, "n_epochs": 50}
    events = list(run_recipe(clicks[0], options(patience=2, **chosen), clicks[1]))
    (start,), model = [event for event in events if isinstance(event, StartEvaluated)], events[-1].model
    losses = [entry["valid_log_loss"] for entry in model.history]
    assert model.best_epoch == int(np.argmin([start.metrics["log_loss"], *losses]))
    assert len(losses) == 1 + int(np.argmin(losses)) + 2 < 50
    assert (model.best_epoch == 0) == (family == "lr")  # the labels depend on pairs alone
    again = train_model(clicks[0], replace(options(**chosen, patience=None), n_epochs=model.best_epoch))
    assert bytes_of(model) == bytes_of(again)


def test_the_kept_model_has_the_validation_loss_of_the_history(ratings):
    model = train_model(ratings[0], options("regression"), ratings[1])
    found = np.sqrt(np.mean((model.predict(ratings[1]) - ratings[1].labels) ** 2))
    assert found == pytest.approx(model.history[model.best_epoch - 1]["valid_rmse"], rel=1e-6)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_validation_rows_of_many_blocks_are_judged_like_those_of_one(task, clicks, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 70)
    data, valid = clicks if task == "binary" else ratings
    chosen = options(task=task, metric="normalized_entropy" if task == "binary" else "mae", n_epochs=3)
    write_arrow(tmp_path / "valid.arrow", [valid])
    source = ArrowRows(tmp_path / "valid.arrow")
    assert source.n_blocks > 1
    one, many = (train_model(data, chosen, held_out).history for held_out in (valid, source))
    for first, second in zip(one, many, strict=True):
        assert second == pytest.approx(first, rel=1e-9)


def test_without_validation_rows_there_is_no_early_stop(clicks):
    for valid in (None, check_batch(Batch(np.array([0]), np.array([], int), np.array([]), 5, np.array([])))):
        model = train_model(clicks[0], options(patience=1), valid)
        assert (len(model.history), model.best_epoch) == (4, 4)
        assert set(model.history[0]) == {"epoch", "train_loss"}


# ---- A known truth


@pytest.mark.parametrize("family", ["fm", "difacto", "mrma", "rafm"])
def test_products_of_vectors_are_found_where_a_linear_model_finds_nothing(family, clicks, ratings):
    for task, split, metric in (("binary", clicks, "valid_log_loss"), ("regression", ratings, "valid_rmse")):
        linear, found = (
            train_model(split[0], options(task, model=model, ranks=FAMILIES[model], n_epochs=15, l2=1e-3), split[1])
            for model in ("lr", family)
        )
        least = [model.history[model.best_epoch - 1][metric] for model in (linear, found)]
        assert least[1] < (0.9 if task == "binary" else 0.1) * least[0]


@pytest.mark.parametrize("update", ["joint", "algorithm1"])
@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
def test_every_update_rule_learns(update, optimizer, ratings):
    """All features have both ranks here, or one; SGD wants smaller steps than AdaGrad."""
    rate = {"adagrad": 0.1, "sgd": 0.02}[optimizer]
    chosen = {"update": update, "optimizer": optimizer, "learning_rate": rate, "l2": 1e-4, "n_epochs": 30}
    model = train_model(ratings[0], options("regression", **chosen), ratings[1])
    spread = ratings[1].labels.std()
    assert model.history[model.best_epoch - 1]["valid_rmse"] < 0.5 * spread
    assert 0 < model.plan.sizes[2] < model.plan.sizes[1]


# ---- Weights and scales


def test_rows_of_weight_0_are_not_counted(clicks):
    data = clicks[0]
    weights = np.ones(data.n_rows)
    weights[:500] = 0
    model = train_model(changed_rows(data, weights=weights.astype(np.float32)), options())
    assert model.counts.sum() == 2 * (data.n_rows - 500)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [4.0**-5, 4.0**7])
def test_labels_scaled_by_a_power_of_4_give_the_same_model_scaled(scale, family, ratings):
    """Bit by bit: the scale of the labels is taken out before training and put back after it."""
    data, valid = ratings
    chosen = options("regression", model=family, ranks=FAMILIES[family])
    plain = train_model(data, chosen, valid)
    grown = train_model(scaled(data, scale), chosen, scaled(valid, scale))
    np.testing.assert_array_equal(grown.scores(valid), np.float32(scale) * plain.scores(valid))
    assert [entry["train_loss"] for entry in grown.history] == [scale * entry["train_loss"] for entry in plain.history]


def scaled(batch, scale):
    return changed_rows(batch, labels=(scale * batch.labels).astype(np.float32))


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_labels_of_any_size_are_fitted_as_well(scale, ratings):
    """Not bit by bit, for 1e4 is no power of 4: what is left of it changes the balance of loss and penalty a little."""
    data, valid = ratings
    chosen = options("regression", n_epochs=15, l2=1e-3)
    plain, grown = (train_model(scaled(data, size), chosen, scaled(valid, size)) for size in (1, scale))
    errors = [model.history[model.best_epoch - 1]["valid_rmse"] / valid.labels.std() for model in (plain, grown)]
    assert max(errors[0], errors[1] / scale) < 0.05
    np.testing.assert_allclose(grown.predict(valid).std(), scale * valid.labels.std(), rtol=0.05)


SQUARED = loss_named("squared")


def scale_of(batch, loss=SQUARED):
    """Return the scale of the labels of a batch."""
    return choose_label_scale(count_rows([check_batch(batch)]).label_spread, loss)


@pytest.mark.parametrize("shift", [0, -3.0, 1e3])
def test_the_scale_of_labels_is_the_power_of_4_next_to_their_spread(shift):
    columns = np.zeros((100, 1), int)
    for spread in (1e-3, 0.6, 1.1, 1.9, 5.0, 1e4):
        labels = spread * np.resize([-1.0, 1.0], 100) + shift * spread
        found = scale_of(one_hot(columns, labels, np.ones(100)))
        assert np.log2(found) % 2 == 0
        assert 0.5 <= spread / found <= 2


def test_binary_and_constant_labels_keep_their_scale():
    columns = np.zeros((4, 1), int)
    assert scale_of(one_hot(columns, np.full(4, 1e6), np.ones(4))) == 1
    assert scale_of(one_hot(columns, np.array([0, 1, 0, 1]), np.ones(4)), loss_named("log")) == 1
    assert scale_of(one_hot(columns, np.arange(4), np.zeros(4))) == 1


def with_values(batch, factors):
    """Multiply the values of every feature by its factor."""
    return changed_rows(batch, values=(batch.values * factors[batch.indices]).astype(np.float32))


def test_large_values_are_scaled_down_by_powers_of_2_and_nothing_else_changes(ratings):
    """Features of value 2^k train as those of value 1 do, bit by bit; small ones are scaled up, all alike."""
    data, valid = ratings
    factors = np.where(np.arange(50) % 3 == 0, 2.0**10, 1.0)
    plain = train_model(data, options("regression"), valid)
    grown = train_model(with_values(data, factors), options("regression"), with_values(valid, factors))
    assert plain.history == grown.history
    np.testing.assert_array_equal(plain.predict(valid), grown.predict(with_values(valid, factors)))
    rows = one_hot(np.array([[0, 1], [0, 1]]), np.zeros(2), np.ones(2))
    cases = {(0.6, 1000.0): [1, 1024], (0.01, 1000.0): [2**-7, 1024], (0.3, 0.2): [0.25, 0.25]}
    for factors, expected in cases.items():
        found = count_rows([with_values(rows, np.array(factors))])
        assert value_scales(found.counts, found.squares).tolist() == expected


def test_one_huge_outlier_does_not_end_training(clicks):
    factors = np.ones(clicks[0].values.size, np.float32)
    factors[7] = 1e30
    data = changed_rows(clicks[0], values=clicks[0].values * factors)
    model = train_model(data, options(), clicks[1])
    assert np.isfinite(model.scores(data)).all()


# ---- Divergence


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_learning_rate_far_too_high_is_an_error_and_no_model(family, task, optimizer, clicks, ratings):
    if family == "mrma" and optimizer != "adagrad":
        pytest.skip("MRMA is trained by AdaGrad alone")
    """No warning either, of overflow or of invalid numbers."""
    data = (clicks if task == "binary" else ratings)[0]
    chosen = options(task, model=family, ranks=FAMILIES[family], learning_rate=1e6, optimizer=optimizer)
    events = []
    with pytest.raises(DivergenceError, match=r"Lower learning_rate \(now 1e\+06\)") as caught:
        events.extend(run_recipe(data, chosen))
    assert caught.value.epoch == 1
    assert f"epoch {caught.value.epoch}" in str(caught.value)
    assert not any(isinstance(event, Finished) for event in events)


def test_the_error_says_after_how_many_rows_the_loss_was_not_finite(ratings):
    with pytest.raises(DivergenceError, match="stopped being finite after") as caught:
        train_model(ratings[0], options("regression", optimizer="sgd", learning_rate=1e6))
    assert 0 < caught.value.row < ratings[0].n_rows
    assert f"after {caught.value.row} rows" in str(caught.value)


def test_validation_rows_far_outside_the_training_data_are_an_error(ratings):
    data, valid = ratings
    huge = changed_rows(valid, values=np.full_like(valid.values, 1e37))
    with pytest.raises(DivergenceError, match="validation loss of epoch 1 is not finite") as caught:
        train_model(data, options("regression"), huge)
    assert caught.value.epoch == 1


def test_parameters_that_are_not_finite_after_the_last_batch_yield_no_model():
    """The loss is computed before each update, so the last update of a single batch is seen by nobody else."""
    data = one_hot(np.array([[0, 1], [2, 3]]), np.array([-1e4, 1e4]))
    with pytest.raises(DivergenceError, match="parameters are not finite"):
        train_model(data, options("regression", optimizer="sgd", learning_rate=1e38, n_epochs=1))


# ---- Input


def test_no_rows_are_an_error():
    empty = check_batch(Batch(np.array([0]), np.array([], int), np.array([]), 5, np.array([])))
    with pytest.raises(DataValueError, match="no rows"):
        train_model(empty, options())


def test_rows_without_features_train_a_constant():
    data = check_batch(Batch(np.zeros(5, int), np.array([], int), np.array([]), 0, np.array([0, 1, 1, 1])))
    model = train_model(data, options())
    assert model.predict(data) == pytest.approx(np.full(4, 0.75), abs=0.02)


def test_mrma_wants_exactly_two_features_in_every_row():
    data = one_hot(np.array([[0, 1, 2], [0, 1, 3]]), np.array([0, 1]))
    with pytest.raises(DataValueError, match="row 1 has 3"):
        train_model(data, options(model="mrma"))


def test_levels_may_be_given_for_every_id(clicks):
    levels = np.arange(50) % 3
    model = train_model(clicks[0], options(levels=levels))
    np.testing.assert_array_equal(model.levels(), levels)
    with pytest.raises(ConfigError, match="levels must be 50 integers"):
        train_model(clicks[0], options(levels=levels[:-1]))


# ---- Engine


def test_every_epoch_has_its_own_order_which_the_seed_decides(clicks, monkeypatch):
    orders, step = [], RecordEngine.train
    monkeypatch.setattr(
        RecordEngine, "train", lambda self, rows, order: orders.append(order) or step(self, rows, order)
    )
    for seed in (1, 2, 1):
        train_model(clicks[0], options(n_epochs=2, seed=seed))
    assert all(sorted(order) == list(range(clicks[0].n_rows)) for order in orders)
    assert len({order.tobytes() for order in orders}) == 4
    np.testing.assert_array_equal(orders[:2], orders[4:])


@pytest.mark.parametrize("family", ["fm", "mrma"])
def test_fresh_vectors_depend_on_the_seed(family):
    """A single row has a single order."""
    data = one_hot(np.array([[0, 1]]), np.array([1.0]))
    first, other = (train_model(data, options(model=family, ranks=8, n_epochs=1, seed=seed)) for seed in (1, 2))
    assert (first.parameters.factors[0] != other.parameters.factors[0]).all()


def test_mrma_trains_its_mixture_weights(ratings):
    mixture = train_model(ratings[0], options("regression", model="mrma")).parameters.mixture
    assert mixture.shape == (50, 2)
    assert mixture.min() > 0
    assert (mixture != 1).mean() > 0.5


@pytest.mark.parametrize(("head_share", "heads"), [(1.0, [1, 2, 1]), (1.06, [1, 1, 1]), (0, [1, 3, 2])])
def test_heads_are_the_features_expected_more_often_than_the_threshold(head_share, heads):
    plan, counts, chosen = RankPlan("rafm", (4, 8), (6, 5, 2, 0)), np.array([50, 9, 80, 10, 3, 70]), options
    grouping = arrange(plan, counts, RowShape(19, 3), chosen(optimizer=AdaGrad(batch_size=2, head_share=head_share)))
    assert (grouping.bounds[:, 0, -1] - grouping.bounds[:, 0, 0]).tolist() == heads


def test_long_rows_make_small_batches(monkeypatch):
    """The scratch of a batch stays bounded however long rows are."""
    monkeypatch.setattr("rafm.train.steps.engine.LONG_BATCH", 10)
    data = one_hot(np.arange(12).reshape(3, 4), np.array([0, 1, 1]))
    events = list(run_recipe(data, options(optimizer=AdaGrad(batch_size=64))))
    assert isinstance(events[-1], Finished)
    plan, counts = events[0].plan, events[0].counts
    chosen = options(optimizer=AdaGrad(batch_size=64))
    grouping = arrange(plan, counts, RowShape(3, 4), chosen)
    assert RecordEngine(plan, grouping, RowShape(3, 4), chosen, 0.0).scratch[0].losses.size == 2


# ---- Sources of many blocks


def test_one_block_of_a_file_trains_like_the_same_rows_in_memory(clicks, tmp_path):
    write_arrow(tmp_path / "rows.arrow", [clicks[0]])
    mapped = train_model(ArrowRows(tmp_path / "rows.arrow"), options(), clicks[1])
    held = train_model(changed_rows(clicks[0], n_features=mapped.numbering.n_inputs), options(), clicks[1])
    assert mapped.history == held.history
    np.testing.assert_array_equal(mapped.parameters.weights, held.parameters.weights)


def test_many_blocks_are_all_visited_once_per_epoch_in_an_order_of_their_own(clicks, tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 100)
    write_arrow(tmp_path / "rows.arrow", [clicks[0]])
    source, seen, step = ArrowRows(tmp_path / "rows.arrow"), [], RecordEngine.train
    monkeypatch.setattr(
        RecordEngine, "train", lambda self, rows, order: seen.append((rows.labels, order)) or step(self, rows, order)
    )
    model = train_model(source, options(n_epochs=2, patience=None), clicks[1])
    assert len(seen) == 2 * source.n_blocks > 10
    assert sum(labels.sum() for labels, _ in seen) == 2 * clicks[0].labels.sum()
    assert all(sorted(order) == list(range(labels.size)) for labels, order in seen)
    firsts = [[labels.tobytes() for labels, _ in part] for part in (seen[: len(seen) // 2], seen[len(seen) // 2 :])]
    assert firsts[0] != firsts[1]
    assert model.n_rows == clicks[0].n_rows


def test_many_blocks_learn_as_well_as_one(clicks, tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 500)
    write_arrow(tmp_path / "rows.arrow", [clicks[0]])
    blocks = train_model(ArrowRows(tmp_path / "rows.arrow"), options(n_epochs=10), clicks[1])
    whole = train_model(clicks[0], options(n_epochs=10), clicks[1])
    best = [min(entry["valid_log_loss"] for entry in model.history) for model in (blocks, whole)]
    assert best[0] < 1.05 * best[1]


@pytest.mark.parametrize("labels", [[-1.0, 1.0], [0.0, 2.0]])
def test_binary_labels_outside_0_and_1_are_refused(labels):
    with pytest.raises(DataValueError, match="between 0 and 1"):
        train_model(one_hot(np.array([[0], [1]]), np.array(labels)), options())


def test_validation_rows_need_labels_and_some_weight(clicks):
    with pytest.raises(DataValueError, match="no labels"):
        train_model(clicks[0], options(), changed_rows(clicks[1], labels=None))
    nothing = changed_rows(clicks[1], weights=np.zeros(clicks[1].n_rows, np.float32))
    with pytest.raises(DataValueError, match="weight"):
        train_model(clicks[0], options(), nothing)


# ---- Threads

SHAPES = {"short rows": (3000, 3, 60), "long rows": (700, 21, 40), "pairs": (1500, 2, 30)}  # rows, columns, values


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["rafm", "fm", "lr", "difacto", "mrma"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_number_of_threads_changes_no_bit(shape, model, optimizer, monkeypatch):
    if model == "mrma" and shape != "pairs":
        pytest.skip("MRMA takes rows of two features")
    if model == "mrma" and optimizer != "adagrad":
        pytest.skip("MRMA is trained by AdaGrad alone")
    monkeypatch.setattr("rafm.train.steps.record_engine.PIECE_ROWS", 200)  # so that a team tries both ways
    monkeypatch.setattr("rafm.train.steps.team.TRIAL_ROWS", 32)
    monkeypatch.setattr("rafm.train.steps.probe.ALONE_SECONDS", 0.0)
    monkeypatch.setattr("rafm.train.steps.probe.WARM_UP_SECONDS", 0.0)
    (n_rows, n_columns, n_values), draw = SHAPES[shape], np.random.default_rng(0)
    cells = draw.zipf(1.3, (n_rows, n_columns)) % n_values + n_values * np.arange(n_columns)
    data = one_hot(cells, draw.integers(0, 2, n_rows))
    ranks = {"lr": None, "fm": 5}.get(model, (3, 8, 20))
    found = []
    for threads in (1, 2, 3, 4):
        more = {"optimizer": optimizer, "learning_rate": 0.05, "n_epochs": 2, "threads": threads}
        chosen = options(model=model, ranks=ranks, levels=None, **more)
        trained = train_model(data, chosen)
        found.append([array.tobytes() for array in trained.parameters.arrays().values()])
        found[-1] += [entry["train_loss"] for entry in trained.history]
    assert all(other == found[0] for other in found)


def share_alone(nanoseconds, calls=5000):
    """Return the share of rows that one thread trains, if a row takes so long together or alone."""
    probe, alone, total = Probe(), 0, 0
    for call in range(calls):
        rows = TRIAL_ROWS if probe.probing else PIECE_ROWS
        alone, total = alone + rows * probe.alone, total + rows
        probe.note(rows, 1e-9 * rows * nanoseconds(call)[probe.alone])
    return alone / total


def test_a_team_with_a_busy_neighbour_lets_one_thread_work():
    assert 0.98 < share_alone(lambda call: (2000, 200)) < 1
    assert 0.9 < share_alone(lambda call: (100 if call < 100 else 2000, 200)) < 1  # from the hundredth call on


def test_a_team_works_again_when_the_neighbour_has_gone():
    assert 0 < share_alone(lambda call: (2000 if call < 100 else 100, 200)) < 0.4


def test_a_short_training_is_left_to_one_thread():
    assert share_alone(lambda call: (100, 200), calls=10) == 1


def test_neither_slow_beginnings_nor_a_busy_moment_make_a_team_let_one_thread_work():
    slow = dict.fromkeys(range(21, 24), 900)  # when the helper begins
    assert 0 < share_alone(lambda call: (slow.get(call, 180 if call % 9 == 0 else 100), 170 if call else 1e6)) < 0.02


TRIED = {  # seconds of the team's trials; one thread takes 2
    "undisturbed": ([1, 1], False),
    "a busy moment": ([9, 9, 9, 1, 1, 1, 1], False),
    "busy neighbours, and lucky trials": ([1, 9, 9, 1, 9, 9, 9], True),
    "busy neighbours": ([9] * 7, True),
}


@pytest.mark.parametrize(("team", "alone"), TRIED.values(), ids=TRIED)
def test_a_busy_moment_does_not_decide_against_a_team_and_busy_neighbours_do(team, alone):
    probe, trials = Probe(), iter([9, *team])  # the first one is a warm-up
    for seconds in (9.0, 1.0, 1.0):
        probe.note(TRIAL_ROWS, seconds)
    while probe.probing:
        probe.note(TRIAL_ROWS, 2.0 if probe.alone else next(trials))
    assert probe.alone is alone
    assert next(trials, None) is None


def test_a_team_that_was_given_up_is_tried_again_soon():
    probe, seconds = Probe(), 0.0
    while seconds < 200 or probe.decided:
        rows = TRIAL_ROWS if probe.probing else PIECE_ROWS
        now = 1e-9 * rows * (200 if probe.alone else 900 if seconds < 200 else 100)
        probe.note(rows, now)
        seconds += now
    assert 200 < seconds < 218


def test_an_interrupt_before_the_first_thread_starts_leaves_no_thread_waiting():
    team, gate = ThreadTeam(2), []
    team.probe.alone = False

    def call(team):
        if team.thread == 0:
            raise KeyboardInterrupt
        gate.append(team.gate)
        team.gate[team.thread * GATE_STRIDE] = 1  # as threads do in a kernel
        while team.gate[0] < 2:
            time.sleep(0.001)
        return 0.0, -1, 0

    with pytest.raises(KeyboardInterrupt):
        team.run(call)
    assert gate[0][0] > 2


# ---- Sparse models


@pytest.mark.parametrize("model", ["rafm", "fm", "lr", "difacto"])
def test_features_with_nothing_but_zeros_are_not_kept_and_scores_stay(clicks, model, monkeypatch, tmp_path):
    ranks = {"lr": None, "fm": 4}.get(model, (4, 8))
    chosen = options(model=model, ranks=ranks, optimizer="ftrl", l1=8.0, l1_weights=6.0, learning_rate=0.1, l2=0.0)
    rows = clicks[0]
    sparse = train_model(rows, chosen)
    monkeypatch.setattr("rafm.model.model.Model.without_zeros", lambda self: self)
    whole = train_model(rows, chosen)
    assert 0 < sparse.plan.n_features < whole.plan.n_features == sparse.plan.n_features + sparse.n_dropped
    assert sparse.n_parameters < whole.n_parameters
    np.testing.assert_allclose(sparse.scores(rows), whole.scores(rows), rtol=1e-5, atol=1e-6)
    save(tmp_path / "sparse", Saved(sparse))
    assert load(tmp_path / "sparse").model.n_dropped == sparse.n_dropped


def test_long_rows_are_trained_with_a_lower_rate_unless_it_is_given():
    draw = np.random.default_rng(0)
    rates = []
    for columns, more in ((10, {}), (40, {}), (40, {"learning_rate": 0.2})):
        data = one_hot(draw.integers(0, 9, (200, columns)) + 9 * np.arange(columns), draw.integers(0, 2, 200))
        rates.append(train_model(data, options(**more)).options["learning_rate"])
    assert rates == [0.2, pytest.approx(0.025), 0.2]
