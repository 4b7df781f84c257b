"""The generated stream: the same from the same seed, drifting, and with a long tail; and Experiment B on it."""

import numpy as np
import pytest

from experiments.paper.budget import QUICK
from experiments.paper.command import reproduce
from experiments.paper.industrial import SeenEnough, cheapest_sentence, stream_run
from experiments.paper.lab import Lab
from experiments.paper.on_ray import ClusterRuns, figure4_on_ray
from experiments.paper.store import Store
from experiments.paper.stream import BLOCK_ROWS, DAYS, FIELDS, Stream
from rafm.errors import ConfigError

CONFIG = {
    "rows_per_day": 2000,
    "stream_seed": 0,
    "days": [0, 1],
    "judge": 2,
    "optimizer": "adagrad",
    "passes": 1,
    "seed": 0,
}


def test_a_block_depends_on_its_day_and_the_seed_alone():
    first, second = Stream(3000, (0, 4)), Stream(3000, (4,))
    assert np.array_equal(first.block(1).indices, second.block(0).indices)
    assert np.array_equal(first.block(1).labels, second.block(0).labels)
    assert not np.array_equal(first.block(1).indices, Stream(3000, (4,), seed=1).block(0).indices)


def test_large_days_come_in_several_blocks_of_all_their_rows():
    stream = Stream(BLOCK_ROWS + 10, (3, 5))
    assert stream.n_blocks == 4
    assert [stream.block(number).n_rows for number in range(2)] == [BLOCK_ROWS, 10]


def test_rows_have_one_feature_per_field_within_its_range():
    stream = Stream(5000, tuple(range(DAYS)))
    for number in range(stream.n_blocks):
        rows = stream.block(number).indices.reshape(-1, len(FIELDS))
        for at, field in enumerate(FIELDS):
            inside = rows[:, at] - stream.offsets[field]
            assert 0 <= inside.min() <= inside.max() < stream.sizes[field]


def test_items_fade_and_new_ones_are_born():
    stream = Stream(20_000, (0, 1, 7))
    items = [set(stream.block(number).indices.reshape(-1, len(FIELDS))[:, 1]) for number in range(3)]
    assert len(items[0] & items[1]) > 4 * len(items[0] & items[2]) > 0


def test_most_features_are_rare_and_few_make_most_occurrences():
    counts = np.bincount(Stream(50_000, (0,)).block(0).indices)
    seen = np.sort(counts[counts > 0])[::-1]
    assert (seen <= 8).mean() > 0.5
    assert seen[: seen.size // 20].sum() > 0.6 * seen.sum()


def test_tastes_drift():
    """The same columns score differently on another day, and more so the later it is."""
    stream = Stream(4000, (0,))
    columns = stream.columns(0, 4000, np.random.default_rng(0))
    scores = [stream.scores(columns, day) for day in (0, 1, 7)]
    moved = [np.abs(other - scores[0]).mean() for other in scores]
    assert moved[0] == 0 < 3 * moved[1] < moved[2]


def test_features_seen_seldom_get_no_vector():
    counts = np.array([1, 15, 16, 31, 32, 64, 128, 100_000])
    assert SeenEnough(1 / 16)(counts, (1, 2, 4, 8)).tolist() == [0, 0, 1, 1, 2, 3, 4, 4]


def test_a_run_counts_the_numbers_that_are_not_zero():
    linear = stream_run({**CONFIG, "model": "lr", "ranks": [], "scale": 1.0, "l2": 0.0}, None)
    small = stream_run({**CONFIG, "model": "rafm", "ranks": [1, 2], "scale": 1 / 64, "l2": 0.01}, None)
    large = stream_run({**CONFIG, "model": "fm", "ranks": [2], "scale": 1.0, "l2": 0.01}, None)
    assert linear["parameters"] < small["parameters"] < large["parameters"]
    assert large["parameters"] == pytest.approx(3 * linear["parameters"], rel=0.01)
    assert 0.5 < linear["test"]["auc"] < 1


def test_the_sentence_on_sizes_follows_from_the_points():
    points = [
        {"family": "FM", "size": 2.0, "gain": [0.004]},
        {"family": "FM", "size": 9.0, "gain": [0.010]},
        {"family": "DiFacto", "size": 1.5, "gain": [0.002]},
        {"family": "RaFM", "size": 1.7, "gain": [0.0098]},
        {"family": "RaFM", "size": 3.0, "gain": [0.012]},
    ]
    told = cheapest_sentence(points)
    assert "FM 9.00 times LR's size; DiFacto more than the sizes tried; RaFM 1.70 times LR's size" in told
    lost = [{**point, "gain": [-0.001]} for point in points]
    assert "No FM gains anything" in cheapest_sentence(lost)


# ---- By the slots of a cluster; on a real one: tests/distributed/test_ray_group.py


def test_a_run_by_slots_learns_what_a_run_by_mini_batches_learns(tmp_path):
    model = {"model": "rafm", "ranks": [1, 2], "scale": 1 / 64, "l2": 0.01}
    with ClusterRuns("none", 1, tmp_path) as runs:
        found = runs({**CONFIG, **model, "ray": "none"}, tmp_path)
        again = runs({**CONFIG, **model, "ray": "none"}, tmp_path)
    assert found == again
    assert not [*tmp_path.iterdir()]
    usual = stream_run({**CONFIG, **model}, tmp_path)
    assert found["parameters"] == usual["parameters"]
    assert found["valid"] == pytest.approx(usual["valid"], rel=0.02)


@pytest.mark.parametrize("apart", [0.0, 1e-9])
def test_the_page_says_whether_a_cluster_gave_the_digits_of_one_process(tmp_path, apart):
    def result(task, folder):
        auc = 0.6 + 0.01 * len(task["ranks"]) + task["l2"] + apart * (task["ray"] == "cluster")
        return {"parameters": 1 + sum(task["ranks"]), "valid": 1 - auc, "test": {"auc": auc}, "sha256": "00"}

    told = []
    with Lab(tmp_path, Store(tmp_path / "runs.jsonl"), tell=told.append, execute=result) as lab:
        found = figure4_on_ray(lab, QUICK, "local")
        alone = figure4_on_ray(lab, QUICK, "none")
    assert len(told) == 2 * 42 + 1  # 9 models, 4 values of L2 for all but one
    sentence = "**42 of 42 runs on the cluster differ" if apart else "All 42 runs on the cluster gave the digits"
    assert found.text[-1].startswith(sentence)
    assert "differ" not in alone.text[-1]
    assert (found.name, alone.name) == ("figure4-ray-cluster", "figure4-ray-none")


def test_other_artefacts_are_not_trained_on_a_cluster(tmp_path):
    with pytest.raises(ConfigError, match="Experiment B alone"):
        reproduce(["figure1", "figure4"], QUICK, tmp_path, tmp_path, tmp_path / "page.md", ray="none")
