"""Distributed training in one process: the same steps, whoever holds the features; resumed and reloaded."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import alone, bytes_of, job_of, n_steps, options_of, rows_of_clicks, trained, write_ids, write_table
from worlds import one_hot

from rafm.distributed.group import LocalGroup
from rafm.distributed.lanes import SlotPlan
from rafm.distributed.run import ClusterRun
from rafm.distributed.shard import Shard
from rafm.distributed.spec import ModelSpec
from rafm.encode.spec import TableSpec
from rafm.errors import CheckpointError, ClusterError, DataValueError, DivergenceError
from rafm.plan.ranks import describe_plan
from rafm.train.dispatch import train_model
from rafm.train.events import EpochFinished, Planned, StartEvaluated


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


def stopping(moment, step):
    def hook(now, at):
        if now == moment and at == step:
            raise Killed

    return hook


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    return write_ids(tmp_path_factory.mktemp("clicks") / "clicks.parquet", n_rows=300, group=45)


@pytest.fixture(scope="module")
def usual(clicks):
    return bytes_of(alone(clicks))


KINDS = {
    "rafm": {},
    "ftrl with l1": {"model": "fm", "ranks": 4, "optimizer": "ftrl", "l1": 0.02, "l1_weights": 0.05},
    "lr by sgd": {"model": "lr", "ranks": None, "optimizer": "sgd"},
    "difacto by adam": {"model": "difacto", "optimizer": "adam"},
    "counts": {"task": "count", "n_epochs": 1},
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_learn_and_do_not_depend_on_the_number_of_shards(clicks, kind):
    first, other = (alone(clicks, n_shards=n, **KINDS[kind]) for n in (1, 3))
    assert bytes_of(first) == bytes_of(other)
    losses = [epoch["train_loss"] for epoch in first.history]
    assert losses == sorted(losses, reverse=True)
    assert np.isfinite(losses).all()


def test_fields_have_weights_and_columns_of_a_table_are_encoded(tmp_path):
    path, spec = write_table(tmp_path / "clicks.parquet"), TableSpec(label="click")
    first, other = (alone(path, n_shards=n, spec=spec) for n in (1, 2))
    assert bytes_of(first) == bytes_of(other)
    assert first.fields.names == ("c0", "c1", "c2")
    assert len(set(first.parameters.fields.tolist())) == 3
    assert (first.parameters.fields != 0.3).all()


def test_field_weights_need_fields(clicks):
    with pytest.raises(DataValueError, match="field weights need fields"):
        alone(clicks, field_weights="on")


def test_values_are_scaled_alike_by_any_number_of_shards(tmp_path):
    values = np.random.default_rng(1).gamma(2.0, 30.0, 1800)
    path = write_ids(tmp_path / "values.parquet", values=values)
    first, other = (alone(path, n_shards=n, n_epochs=1) for n in (1, 2))
    assert bytes_of(first) == bytes_of(other)
    assert np.abs(first.parameters.weights).max() < 0.1  # they were undone: values of 60 have small weights


def test_defaults_adapt_to_the_rows_as_those_of_one_process_do(tmp_path):
    """The learning rate, L2 and the initial spread follow from rows, features, their length and the labels."""
    path, labels, ids = write_ids(tmp_path / "few.parquet", n_rows=90), *rows_of_clicks(90)
    given = {"n_epochs": 1, "share": 0}
    usual = train_model(one_hot(ids, labels), options_of(n_epochs=1, step_rows=0))
    found = alone(path, **given)
    assert options_of().l2[0] < usual.options["l2"]  # features of few rows need more
    for name in ("l2", "learning_rate", "init_scale"):
        assert found.options[name] == pytest.approx(usual.options[name], rel=1e-12)


# ---- Interruptions


@pytest.mark.parametrize(
    ("moment", "epochs"),
    [("computed", 0.3), ("joined", 0.6), ("manifest", 0.4), ("saving", 1), ("saved", 1), ("pushed", 1.2)],
)
def test_a_run_resumes_to_the_same_model_wherever_it_was_stopped(clicks, usual, tmp_path, moment, epochs):
    step = int(epochs * n_steps(job_of(clicks)))
    with pytest.raises(Killed):
        alone(clicks, n_shards=2, folder=tmp_path, seconds=0, hook=stopping(moment, step))
    resumed = alone(clicks, n_shards=3, folder=tmp_path, seconds=0)  # and by another number of shards
    assert bytes_of(resumed) == usual


def test_a_checkpoint_without_its_manifest_is_not_used(clicks, usual, tmp_path):
    with pytest.raises(Killed):
        alone(clicks, n_shards=2, folder=tmp_path, hook=stopping("manifest", n_steps(job_of(clicks))))
    torn = max(tmp_path.glob("step-*"))
    assert len([*torn.iterdir()]) == 2
    assert [path.name for path in tmp_path.glob("manifest-*")] == ["manifest-0000000000.json"]
    (torn / "shard-0.rafm").write_bytes(b"half")
    assert bytes_of(alone(clicks, folder=tmp_path)) == usual
    assert not torn.exists()


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(clicks, usual, tmp_path, is_missing):
    alone(clicks, folder=tmp_path)
    newest = max(tmp_path.glob("manifest-*"))
    file = tmp_path / json.loads(newest.read_text())["folder"] / "shard-0.rafm"
    raw = bytearray(file.read_bytes())
    raw[-9] ^= 1
    file.write_bytes(raw)
    if is_missing:
        file.unlink()
    assert bytes_of(alone(clicks, n_shards=2, folder=tmp_path)) == usual


def test_a_finished_run_is_not_trained_again(clicks, usual, tmp_path):
    alone(clicks, folder=tmp_path)
    run = ClusterRun(LocalGroup(2), job_of(clicks, folder=tmp_path))
    events = [*run.events()]
    assert not any(isinstance(event, EpochFinished) for event in events)
    assert bytes_of(events[-1].model) == usual


def test_a_checkpoint_of_another_run_is_refused(clicks, tmp_path):
    alone(clicks, folder=tmp_path)
    with pytest.raises(CheckpointError, match="another run: n_epochs was 2, now 1"):
        alone(clicks, folder=tmp_path, n_epochs=1)
    Path(tmp_path, "manifest-9999999999.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a manifest"):
        alone(clicks, folder=tmp_path)


def test_the_manifest_says_that_every_row_was_used_once(clicks, tmp_path):
    job = job_of(clicks, folder=tmp_path)
    trained(LocalGroup(), job)
    at = json.loads(max(tmp_path.glob("manifest-*")).read_text())["state"]["position"]
    rows = np.concatenate([np.arange(job.train.units[k].rows) + job.train.units[k].first_row for k in job.chosen])
    assert (at["last_rows"], at["last_row_sum"]) == (rows.size, rows.sum())


def test_a_row_that_is_missing_is_noticed(clicks):
    job = job_of(clicks)
    first, second = job.chosen[:2]
    with pytest.raises(ClusterError, match="used 255 rows with number sum 35760, but the data have 255 with 33735"):
        trained(LocalGroup(), replace(job, slots=Forgetful(4, 4, forgotten=(first, second))))


class Forgetful(SlotPlan):
    """A plan that visits one unit twice, and another never."""

    def __init__(self, slot_rows, slots, forgotten):
        super().__init__(slot_rows, slots)
        object.__setattr__(self, "forgotten", forgotten)

    def steps(self, units, chosen, epoch, done):
        wrong, right = self.forgotten
        return super().steps(units, [right if unit == wrong else unit for unit in chosen], epoch, done)


def test_training_stops_when_the_loss_no_longer_improves(clicks):
    model = alone(clicks, n_epochs=30, patience=1, learning_rate=2.0)
    assert len(model.history) < 30
    assert model.best_epoch == len(model.history) - 1
    scores = [epoch["valid_log_loss"] for epoch in model.history]
    assert min(scores) == scores[model.best_epoch - 1]


def test_the_first_line_is_that_of_a_constant(clicks):
    events = ClusterRun(LocalGroup(1), job_of(clicks)).events()
    start = next(event for event in events if isinstance(event, StartEvaluated))
    assert start.metrics["auc"] == 0.5


def test_the_plan_is_that_of_the_models_counts_though_the_driver_has_none(clicks):
    *events, last = ClusterRun(LocalGroup(3), job_of(clicks, n_epochs=1)).events()
    planned, model = next(event for event in events if isinstance(event, Planned)), last.model
    assert planned.counts.size == 0
    assert planned.levels() == describe_plan(model.plan, model.counts, model.n_rows)


def test_divergence_is_reported(clicks):
    with pytest.raises(DivergenceError, match="Lower learning_rate"):
        alone(clicks, task="regression", optimizer="sgd", learning_rate=1e30, share=0)


# ---- Shards


def shard_of_counts(n_features=3, ranks=(4,), **chosen):
    """Return a shard that was built, its spec, and what a push for all its features looks like."""
    options = options_of(ranks=ranks, model="fm", **chosen)
    shard = Shard()
    shard.count(0, np.arange(n_features), np.ones(n_features, np.int64), np.ones(n_features))
    shard.totals(1, "fm", ranks, options.rule)
    shard.build(ModelSpec(options, 1, 1.0, 1.0, 1.0, 16.0, 4, 4, False))
    numbers = np.arange(n_features, dtype=np.int32)
    return shard, (numbers, np.ones(n_features * (3 + ranks[0]), np.float32))


def test_repeated_and_late_pushes_are_ignored():
    shards, found = [], []
    for is_repeated in (False, True):
        shard, (numbers, sums) = shard_of_counts()
        for step in (1, 2):
            for slot in (1, 0):  # in any order
                assert shard.push(1, step, [(slot, numbers, sums * (slot + 1))])
                if is_repeated:
                    assert shard.push(1, step, [(slot, numbers, sums * (slot + 1))])
            assert shard.apply(1, step, 2) == 3
            if is_repeated:
                assert shard.apply(1, step, 2) == 0
                assert not shard.push(1, step, [(0, numbers, sums * 99)])  # late: the step is done
        shards.append(shard)
        found.append(shard.pull(1, numbers).tobytes())
    assert found[0] == found[1]


def test_sums_are_joined_in_the_order_of_slots_whatever_the_order_of_pushes():
    found = []
    for slots in ([0, 1, 2], [2, 0, 1]):
        shard, (numbers, sums) = shard_of_counts()
        values = [1e8, -1e8, 1.0]  # float32 sums that depend on the order
        for slot in slots:
            shard.push(1, 1, [(slot, numbers, sums * np.float32(values[slot]))])
        shard.apply(1, 1, 3)
        found.append(shard.pull(1, numbers).tobytes())
    assert found[0] == found[1]


def test_units_are_counted_once_and_in_their_order():
    found = []
    for turns in ([0, 1, 2], [2, 1, 1, 0, 0]):
        shard = Shard()
        for turn in turns:
            shard.count(turn, np.array([5, turn]), np.array([1, 2]), np.array([[1e16, 1.0, -1e16][turn], 1.0]))
        shard.totals(3, "lr", (), None)
        found.append((shard.ids.tolist(), shard.counts.tolist(), shard.squares.tolist()))
    assert found[0] == found[1]
    assert found[0][0] == [5, 0, 1, 2]
    assert found[0][1] == [3, 2, 2, 2]


def test_the_memory_of_a_shard_stays_within_its_tables_over_a_thousand_steps():
    shard, (numbers, sums) = shard_of_counts(n_features=2000, ranks=(8,))
    some, values = numbers[:400], sums[: 400 * 11] * 0
    shard.push(1, 1, [(0, some, values)])
    shard.apply(1, 1, 1)
    tables, before = shard.memory()["tables"], 0
    tracemalloc.start()
    for step in range(2, 1002):
        for slot in range(4):
            shard.push(1, step, [(slot, some.copy(), values.copy())])
        shard.apply(1, step, 4)
        assert shard.memory()["pushes"] == 0
        before = tracemalloc.get_traced_memory()[0] if step == 100 else before
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 0.01 * tables
    assert peak < 1.5 * tables  # the pushes of one step, and their joined sums
