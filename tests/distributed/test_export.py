"""A model that shards write to a folder: the same model as one file, read by part, whole or by other shards."""

from dataclasses import replace

import numpy as np
import pytest
from clusters import alone, bytes_of, job_of, trained, write_ids, write_table

from rafm.distributed import parts
from rafm.distributed.export import FolderExport
from rafm.distributed.group import LocalGroup
from rafm.distributed.scoring import PartScorer, rows_for
from rafm.encode.spec import TableSpec
from rafm.errors import DivergenceError
from rafm.model.file import load
from rafm.model.folder import load_common, read_manifest
from rafm.predictor import Predictor

KINDS = {
    "rafm": {},
    "ftrl with features that L1 drops": {"model": "fm", "ranks": 4, "optimizer": "ftrl", "l1": 1.0, "l1_weights": 3.0},
    "lr": {"model": "lr", "ranks": None},
    "difacto": {"model": "difacto", "n_epochs": 1},
}


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    return write_ids(tmp_path_factory.mktemp("clicks") / "clicks.parquet", n_rows=200)


def exported(path, folder, n_shards=1, encoder=None, **chosen):
    """Train in this process, and let its shards write the model; return what the driver was left with."""
    job = job_of(path, **chosen)
    export = FolderExport(str(folder), encoder or job.train.encoder)
    return trained(LocalGroup(n_shards), replace(job, collect=export)), export.written


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few features."""
    monkeypatch.setattr(parts, "PART_BYTES", 80)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_holds_the_model_that_one_file_would(clicks, tmp_path, kind):
    usual = alone(clicks, **KINDS[kind])
    for n_shards in (1, 3):
        common, written = exported(clicks, tmp_path / str(n_shards), n_shards, **KINDS[kind])
        assert common.plan.n_features == 0  # all that the driver has
        assert len(written.parts) > n_shards
        model = load(tmp_path / str(n_shards)).model
        assert bytes_of(model) == bytes_of(usual)
        assert model.counts.tolist() == usual.counts.tolist()
        assert model.n_dropped == usual.n_dropped
        assert model.options == usual.options
        assert model.n_rows == usual.n_rows
    assert (usual.n_dropped > 0) == ("drops" in kind)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("weights", ["on", "off"])
def test_fields_encoder_and_scales_are_in_the_folder(tmp_path, weights):
    path, spec = write_table(tmp_path / "clicks.parquet", 400), TableSpec(label="click")
    given = {"spec": spec, "field_weights": weights, "n_epochs": 1}
    usual = alone(path, **given)
    exported(path, tmp_path / "m", 2, **given)
    found = load(tmp_path / "m")
    assert bytes_of(found.model) == bytes_of(usual)
    assert found.model.fields.names == usual.fields.names
    assert found.model.fields.numbers.tolist() == usual.fields.numbers.tolist()
    scores = np.concatenate([*Predictor(found).scores(path)])
    for n_shards in (1, 3):  # whoever wrote it
        group, source = LocalGroup(n_shards), rows_for(load_common(tmp_path / "m"), path)
        group.start([source])
        units = PartScorer(group, str(tmp_path / "m")).score(range(len(source.units)), targets=False)
        assert np.concatenate([unit.scores for unit in units]).tobytes() == scores.astype(np.float32).tobytes()


def test_values_are_scaled_back(tmp_path):
    path = write_ids(tmp_path / "values.parquet", 400, values=np.random.default_rng(1).gamma(2.0, 30.0, 1200))
    exported(path, tmp_path / "m", 2, n_epochs=1)
    assert bytes_of(load(tmp_path / "m").model) == bytes_of(alone(path, n_epochs=1))


def test_shards_read_only_parts_that_have_features_of_theirs(clicks, tmp_path):
    _, written = exported(clicks, tmp_path / "m", 4, n_epochs=1)
    read = [[*parts.read_parts(str(tmp_path / "m"), written.parts, shard, 2)] for shard in range(2)]
    assert [len(own) for own in read] == [2, 2]
    ids = np.sort(np.concatenate([one["ids"] for own in read for one in own]))
    assert ids.tolist() == np.sort(load(tmp_path / "m").model.numbering.ids).tolist()


def test_a_folder_that_is_written_again_holds_the_new_model_alone(clicks, tmp_path):
    _, before = exported(clicks, tmp_path / "m", 2, n_epochs=1)
    old = bytes_of(load(tmp_path / "m").model)
    _, after = exported(clicks, tmp_path / "m", 1, n_epochs=1, seed=5)
    assert bytes_of(load(tmp_path / "m").model) != old
    assert read_manifest(tmp_path / "m") == after != before
    files = {part.file for part in (after.common, *after.parts)}
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"model.json", *files}


def test_a_run_that_diverged_leaves_the_model_before(clicks, tmp_path, monkeypatch):
    exported(clicks, tmp_path / "m", 1, n_epochs=1)
    before = bytes_of(load(tmp_path / "m").model)
    with pytest.raises(DivergenceError, match="Lower learning_rate"):
        exported(clicks, tmp_path / "m", 2, task="regression", optimizer="sgd", learning_rate=1e30, share=0)
    assert bytes_of(load(tmp_path / "m").model) == before
