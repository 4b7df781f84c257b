"""A real cluster of two raylets: the bytes of one process, for any number of actors, and whoever is killed when."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import alone, bytes_of, job_of, killing, n_steps, trained, write_ids

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

from experiments.paper.on_ray import ClusterRuns, compared  # noqa: E402
from rafm.distributed.config import ScalingConfig  # noqa: E402
from rafm.distributed.export import FolderExport  # noqa: E402
from rafm.distributed.ray_group import Actors, RayGroup, import_ray, make_actors  # noqa: E402
from rafm.distributed.scoring import PartScorer, predict_scores, rows_for  # noqa: E402
from rafm.distributed.sources import Reader  # noqa: E402
from rafm.errors import ClusterError  # noqa: E402
from rafm.model.file import load, save  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # Ray warns about itself
MOST = 3
SCALING = ScalingConfig(num_workers=MOST, num_shards=MOST, cpus_per_worker=0.1, cpus_per_shard=0.1)


@pytest.fixture(scope="module")
def actors():
    """Start one cluster and its processes for all tests here; Ray restarts those that a test kills.

    It ends with them, as an idle cluster takes a tenth of a processor.
    """
    import_ray()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield make_actors(SCALING)
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    return write_ids(tmp_path_factory.mktemp("clicks") / "clicks.parquet", n_rows=200)


@pytest.fixture(scope="module")
def usual(clicks):
    return bytes_of(alone(clicks))


def on(actors, n_workers, n_shards, hook=None):
    some = Actors(actors.workers[:n_workers], actors.shards[:n_shards])
    return RayGroup(some, 9) if hook is None else RayGroup(some, 9, hook)


@pytest.mark.parametrize(("n_workers", "n_shards"), [(1, 1), (1, 3), (3, 2)])
def test_models_equal_that_of_one_process(actors, clicks, usual, n_workers, n_shards):
    assert bytes_of(trained(on(actors, n_workers, n_shards), job_of(clicks))) == usual


def test_experiment_b_of_the_paper_has_the_digits_of_one_process(actors, tmp_path):
    days = {"rows_per_day": 500, "stream_seed": 0, "days": [0, 1], "judge": 2, "seed": 0}
    task = {**days, "model": "rafm", "ranks": [1, 2], "scale": 1 / 16, "optimizer": "ftrl", "l2": 0.01, "passes": 1}
    with ClusterRuns("auto", 2, tmp_path, on(actors, 2, 2)) as runs:
        alone, found = (runs({**task, "ray": where}, tmp_path) for where in ("none", "cluster"))  # compiles once
    assert compared([found], [alone]).startswith("All 1 runs on the cluster gave the digits of one process")


def test_shards_write_a_folder_that_others_score_by_and_may_be_killed(actors, clicks, usual, tmp_path):
    export, hook = FolderExport(str(tmp_path / "model")), killing("exported", 0, tmp_path / "killed")
    common = trained(on(actors, 1, 2, hook), replace(job_of(clicks, folder=tmp_path / "states"), collect=export))
    assert (tmp_path / "killed").exists()
    assert common.plan.n_features == 0
    files = {part.file for part in (export.written.common, *export.written.parts)}
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", *files}  # nothing of the first try
    saved = load(tmp_path / "model")
    assert bytes_of(saved.model) == usual
    group, source = on(actors, 2, 3), rows_for(saved, clicks)
    group.start([source])
    scorer, expected = PartScorer(group, export.folder), [*scores_of(saved, source)]
    assert [scored.scores.tobytes() for scored in scorer.score([0, 1], targets=True)] == expected[:2]
    os.kill(ray.get(actors.shards[1].pid.remote()), signal.SIGKILL)
    assert [scored.scores.tobytes() for scored in scorer.score([2, 3], targets=False)] == expected[2:4]
    assert scorer.failures >= 1
    save(tmp_path / "m.rafm", saved)  # the whole model, in actors of their own
    scores = predict_scores(str(tmp_path / "m.rafm"), clicks, "auto", ScalingConfig(num_workers=2, cpus_per_worker=0.1))
    assert [unit.astype(np.float32).tobytes() for unit in scores] == expected


def scores_of(saved, source):
    """Yield the scores of each unit by the whole model."""
    reader = Reader(source)
    return (saved.model.scores(reader.rows(unit)).tobytes() for unit in range(len(source.units)))


@pytest.mark.parametrize("moment", ["pulling", "pushing to 1", "pushed"])
def test_a_worker_may_be_killed_before_its_push_in_the_middle_and_after(actors, clicks, usual, tmp_path, moment):
    group = on(actors, 2, 2, killing(moment, 5, tmp_path / "killed"))
    folder = tmp_path / "states"
    assert bytes_of(trained(group, job_of(clicks, folder=folder))) == usual
    assert group.failures == 1
    assert (tmp_path / "killed").exists()
    check_rows(folder, job_of(clicks))


@pytest.mark.parametrize("moment", ["joined", "saving", "saved"])
def test_a_shard_may_be_killed_in_a_step_and_during_a_checkpoint(actors, clicks, usual, tmp_path, moment):
    job = job_of(clicks, folder=tmp_path / "states")
    step = 7 if moment == "joined" else n_steps(job)
    group = on(actors, 2, 2, killing(moment, step, tmp_path / "killed"))
    assert bytes_of(trained(group, job)) == usual
    assert (tmp_path / "killed").exists()
    check_rows(tmp_path / "states", job)


def check_rows(folder, job):
    """Check that the last manifest counts every row once."""
    at = json.loads(max(folder.glob("manifest-*")).read_text())["state"]["position"]
    units = [job.train.units[unit] for unit in job.chosen]
    assert at["last_rows"] == sum(unit.rows for unit in units)
    assert at["last_row_sum"] == sum(sum(range(unit.first_row, unit.first_row + unit.rows)) for unit in units)


def test_without_checkpoints_the_loss_of_a_shard_is_an_error(actors, clicks, tmp_path):
    with pytest.raises(ClusterError, match="no checkpoint to go back to: use --checkpoint DIR"):
        trained(on(actors, 1, 1, killing("joined", 3, tmp_path / "killed")), job_of(clicks))


def test_too_many_failures_end_training(actors, clicks, tmp_path):
    group = on(actors, 1, 1, killing("pushed", 2, tmp_path / "killed"))
    group.max_failures = 0
    with pytest.raises(ClusterError, match=r"worker 0 died .* gave up after 1 failures"):
        trained(group, job_of(clicks))


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from clusters import job_of, killing, no_hook, trained
from rafm.distributed.config import ScalingConfig
from rafm.distributed.ray_group import RayGroup, connect, make_actors
from rafm.model.file import Saved, save

_, _, address, data, folder, out, step = sys.argv
hook = killing("computed", int(step), folder + "/killed")
scaling = ScalingConfig(num_workers=1, num_shards=1, cpus_per_worker=0.1, cpus_per_shard=0.1)
connect(address, scaling)
model = trained(RayGroup(make_actors(scaling)), job_of(data, folder=folder, hook=hook, seconds=0))
save(out, Saved(model))
"""


def test_the_driver_may_be_killed_and_run_again(actors, clicks, usual, tmp_path):
    address, out = ray.get_runtime_context().gcs_address, tmp_path / "model.rafm"
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1]), address, clicks, str(tmp_path), str(out)]
    first = subprocess.run([*command, "9"], capture_output=True, text=True, timeout=300)
    assert first.returncode == -9, first.stderr
    assert not out.exists()
    again = subprocess.run([*command, "9"], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert bytes_of(load(out).model) == usual
