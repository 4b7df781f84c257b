"""Memory reserved for processes: enough for what shards really hold, and not many times that."""

import numpy as np
import pytest
from clusters import job_of, options_of, write_ids

from rafm.distributed import ScalingConfig
from rafm.distributed.capacity import counts_of_data, held_bytes
from rafm.distributed.group import LocalGroup
from rafm.distributed.inputs import open_training
from rafm.distributed.reservations import MARGIN, check_room, sampled_counts, with_reservations
from rafm.distributed.run import ClusterRun
from rafm.errors import ClusterError
from rafm.read.open import ReadOptions


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    return write_ids(tmp_path_factory.mktemp("clicks") / "clicks.parquet", n_rows=3000)


@pytest.fixture(scope="module")
def source(clicks):
    return open_training(clicks, ReadOptions("binary")).source


def test_a_sample_of_all_rows_has_their_counts(source, clicks):
    some = range(4)
    found, rows = sampled_counts(source, some), sum(source.units[unit].rows for unit in some)
    assert found.rows == rows
    assert (found.counts * found.features).sum() == 3 * rows
    assert found.features[-1] == 0  # none that it has not seen


def test_counts_of_a_few_units_tell_those_of_all(source, clicks):
    found, exact = sampled_counts(source, range(len(source.units))), counts_of_data(clicks, None)
    assert exact.features.sum() <= found.features.sum() < 2 * exact.features.sum()
    for rank_scale in (0.01, 0.5):
        options = options_of(rank_scale=rank_scale)
        assert 1 / MARGIN < held_bytes(found, options) / held_bytes(exact, options) < 2
    few = sampled_counts(source, range(len(source.units)), n_inputs=100)
    assert few.features.sum() <= max(100, exact.features.sum())


@pytest.mark.parametrize("optimizer", ["adagrad", "ftrl", "adam"])
def test_shards_hold_what_was_computed(clicks, optimizer):
    job, group = job_of(clicks, share=0, n_epochs=1, optimizer=optimizer), LocalGroup(2)
    [*ClusterRun(group, job).events()]
    held = sum(
        array.nbytes
        for shard in group.shards
        for array in (shard.ids, shard.counts, shard.records, shard.where, shard.touched, shard.levels, shard.scales)
    )
    held += sum(0 if shard.average is None else shard.average.nbytes for shard in group.shards)
    computed = held_bytes(counts_of_data(clicks, None), job.options)
    assert held < computed < 2.5 * held  # the rest is the hash table, and the copy of the best epoch


def test_memory_that_was_given_is_kept(source):
    units, options = range(len(source.units)), options_of()
    found = with_reservations(ScalingConfig(2, 2, memory_per_shard=7), source, units, options, None)
    assert (found.memory_per_shard, found.memory_per_worker) == (7, 600_000_000)
    found = with_reservations(ScalingConfig(2, 2, memory_per_worker=7), source, units, options, None)
    assert found.memory_per_worker == 7
    assert found.memory_per_shard == pytest.approx(300e6, rel=0.01)
    alone = ScalingConfig(0)
    assert with_reservations(alone, source, units, options, None) is alone


def test_more_features_reserve_more(source):
    units, given = range(len(source.units)), ScalingConfig(2, 1)
    sizes = [
        with_reservations(given, source, units, options_of(ranks=ranks), None).memory_per_shard
        for ranks in ((4,), (512,))
    ]
    assert np.diff(sizes) > 120 * 512 * 4


def test_what_cannot_be_placed_is_said_at_once():
    given = ScalingConfig(2, 1, memory_per_worker=10**9, memory_per_shard=9 * 10**9)
    check_room(given, 11e9, "this machine")
    with pytest.raises(ClusterError, match=r"1 shard of 9.0 GB and 2 workers of 1.0 GB need 11.0 GB, but Ray has 8.0"):
        check_room(given, 8e9, "this machine")
