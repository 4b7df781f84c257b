"""Capacity: arithmetic that agrees with what a training really holds and sends."""

from itertools import pairwise

import numpy as np
import pytest
from clusters import alone, job_of, options_of, write_ids

from rafm.distributed.capacity import Cluster, capacity, counts_of_data, zipf_counts
from rafm.distributed.group import LocalGroup
from rafm.distributed.lanes import SlotPlan
from rafm.distributed.run import ClusterRun

CLUSTER = Cluster(machines=8, cores=4, network=10.0, speed=10_000.0)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    return write_ids(tmp_path_factory.mktemp("clicks") / "clicks.parquet", n_rows=3000)


def test_bytes_per_row_are_those_that_a_training_sends(clicks):
    run = ClusterRun(LocalGroup(), job_of(clicks, share=0, slots=SlotPlan(16, 1), n_epochs=1))
    *_, last = run.events()
    found = capacity(counts_of_data(clicks, None), options_of(), 16, 1, CLUSTER)
    sent = 4 * run.traffic.floats / run.traffic.rows
    places = 2 * 4 * run.traffic.ids / run.traffic.rows  # of features in pulls and pushes
    assert found["pulled"] + found["pushed"] == pytest.approx(sent + places, rel=0.03)
    assert found["features_per_slot"] == pytest.approx(16 * run.traffic.ids / run.traffic.rows, rel=0.03)
    assert found["parameters"] == last.model.plan.n_parameters


def test_counts_are_those_of_the_data(clicks):
    found, model = counts_of_data(clicks, None), alone(clicks, share=0, n_epochs=1)
    counts, features = np.unique(model.counts, return_counts=True)
    assert found.rows == 3000
    assert found.counts.tolist() == counts.tolist()
    assert found.features.tolist() == features.tolist()


def test_more_machines_need_less_memory_each_and_never_more_time():
    counts = zipf_counts(1e8, 1e7, 39, 1.05)
    lines = capacity(counts, options_of(ranks=(4, 16)), 65536, 64, CLUSTER)["machines"]
    assert [line["machines"] for line in lines] == [1, 2, 4, 8]
    assert all(a["gigabytes"] > b["gigabytes"] for a, b in pairwise(lines))
    assert all(a["hours"] >= b["hours"] for a, b in pairwise(lines))
    assert lines[0]["megabytes_per_second"] == 0


def test_a_slow_network_binds_and_so_do_few_slots():
    counts = zipf_counts(1e8, 1e7, 39, 1.05)
    slow = capacity(counts, options_of(), 65536, 64, Cluster(4, 16, 0.1, 10_000.0))["machines"][-1]
    few = capacity(counts, options_of(), 65536, 4, Cluster(4, 16, 100.0, 10_000.0))["machines"][-1]
    assert slow["bound"] == "network"
    assert few["bound"] == "slots"


def test_frequencies_fall_by_the_power_law():
    found = zipf_counts(1e9, 1e6, 10, 1.2)
    assert (np.diff(found.counts) <= 0).all()
    tenth, thirtieth = found.counts[9], found.counts[29]
    assert tenth / thirtieth == pytest.approx(3**1.2, rel=0.01)
    assert found.counts[0] == 1e9  # in every row
    assert (found.counts * found.features).sum() == pytest.approx(10 * 1e9, rel=1e-6)
