"""`rafm.distributed.train`: settings in, a model file out."""

import pyarrow as pa
import pytest
from clusters import write_ids, write_table

import rafm
from rafm.distributed import FailureConfig, RunConfig, ScalingConfig, train
from rafm.errors import CheckpointError, ConfigError
from rafm.train.events import EpochFinished, Finished, Planned

ALONE = ScalingConfig(num_workers=0)


def test_a_model_is_written_that_load_opens_and_a_second_call_finds(tmp_path):
    data, valid = write_table(tmp_path / "a.parquet", 800), write_table(tmp_path / "b.parquet", 200, seed=4)
    given = {"valid": valid, "label": "click", "ranks": (4, 8), "n_epochs": 2, "scaling_config": ALONE}
    kept, events = RunConfig(str(tmp_path / "run"), failure_config=FailureConfig(2)), []
    result = train(data, **given, run_config=kept, callback=events.append)
    assert [type(event) for event in events if isinstance(event, Planned | EpochFinished | Finished)] == [
        Planned,
        EpochFinished,
        EpochFinished,
        Finished,
    ]
    assert result.path == str(tmp_path / "run")
    assert result.metrics["valid_log_loss"] == min(epoch["valid_log_loss"] for epoch in result.history)
    model = rafm.load(result.checkpoint)
    assert model.predict_proba(pa.table({"c0": ["v0"], "c1": ["v41"], "c2": ["v80"]})).shape == (1, 2)
    again = train(data, **given, run_config=kept)
    assert again.history == result.history


def test_what_is_missing_or_wrong_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigError, match="storage_path"):
        train("nowhere.parquet", scaling_config=ALONE)
    with pytest.raises(ConfigError, match="client protocol"):
        train("nowhere.parquet", address="ray://head:10001")
    with pytest.raises(ConfigError, match="num_shards between 1 and 1024"):
        ScalingConfig(num_shards=0)
    data, kept = write_ids(tmp_path / "a.parquet", 300), RunConfig(str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="slots must be between"):
        train(data, slots=0, scaling_config=ALONE, run_config=kept)
    with pytest.raises(ConfigError, match="--ranks auto cannot be used on a cluster"):
        train(data, ranks="auto", scaling_config=ALONE, run_config=kept)


def test_two_runs_cannot_share_a_directory(tmp_path):
    data, kept = write_ids(tmp_path / "a.parquet", 300), RunConfig(str(tmp_path / "run"))
    given = {"ranks": 4, "n_epochs": 1, "validation_fraction": 0.0, "scaling_config": ALONE, "run_config": kept}

    def meanwhile(event):
        if isinstance(event, Planned):
            train(data, **given)

    with pytest.raises(CheckpointError, match="another run is writing"):
        train(data, **given, callback=meanwhile)
    assert train(data, **given).history


def test_there_is_a_shard_for_two_workers():
    assert [ScalingConfig(n).n_shards for n in (0, 1, 2, 3, 8)] == [1, 1, 1, 2, 4]
    assert ScalingConfig(2, num_shards=7).n_shards == 7
