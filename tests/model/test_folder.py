"""A model in a folder of parts: nothing that is missing, damaged or half written is taken for a model."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from commands import run
from models import as_batch, saved_world

from rafm.errors import ConfigError, ModelFormatError, ModelIntegrityError, ModelVersionError
from rafm.model.file import MANIFEST, Saved, load
from rafm.model.folder import begin_folder, finish_folder, load_common, read_manifest, save_part
from rafm.plan.fields import FeatureFields
from rafm.rows.numbering import Numbering


def some_of(model, first, stop):
    """Return a model of some of the features."""
    own = [slice(min(first, size), min(stop, size)) for size in model.plan.sizes]
    found = model.parameters
    return replace(
        model,
        plan=replace(model.plan, sizes=tuple(one.stop - one.start for one in own)),
        numbering=Numbering(model.numbering.ids[own[0]], model.numbering.n_inputs),
        counts=model.counts[own[0]],
        parameters=replace(
            found, weights=found.weights[own[0]], factors=[b[one] for b, one in zip(found.factors, own[1:])]
        ),
        fields=model.fields and FeatureFields(model.fields.names, model.fields.numbers[own[0]]),
    )


def write(folder, saved, ends=(2, 3)):
    """Write a model in parts that end at these features."""
    token, bounds = begin_folder(folder), [0, *ends, saved.model.plan.n_features]
    parts = [
        save_part(folder, token, 0, number, some_of(saved.model, *ends), (0, 1024))
        for number, ends in enumerate(pairwise(bounds))
    ]
    return finish_folder(folder, token, replace(saved, model=some_of(saved.model, 0, 0)), parts)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "m", saved_world("rafm"))
    return tmp_path / "m"


@pytest.mark.parametrize("name", ["rafm", "rafm with field weights", "difacto", "lr", "no features"])
def test_the_parts_of_a_model_are_the_model(tmp_path, name):
    saved = saved_world(name)
    write(tmp_path / "m", saved, ends=(2, 2, 5) if saved.model.plan.n_features else ())
    found = load(tmp_path / "m")
    assert found.model.plan == saved.model.plan
    assert found.index_base == saved.index_base
    for key, array in saved.model.parameters.arrays().items():
        np.testing.assert_array_equal(found.model.parameters.arrays()[key], array)
    rows = as_batch([{id: 1.0} for id in saved.model.numbering.ids.tolist()] + [{0: 1.0, 1: 2.0}])
    assert found.model.scores(rows).tobytes() == saved.model.scores(rows).tobytes()
    assert load_common(tmp_path / "m").model.plan.n_features == 0


def first_part(folder):
    return folder / read_manifest(folder).parts[0].file


def test_a_part_that_is_missing_is_named_in_one_line(folder):
    first_part(folder).unlink()
    with pytest.raises(ModelIntegrityError, match=r"^m: part-.*-0000-0000.rafm is missing\. Copy the folder again"):
        load(folder)
    ran = run("inspect", folder)
    assert ran.code == 4
    assert len(ran.err.strip().splitlines()) == 1


def test_a_part_that_is_truncated_is_named(folder):
    part = first_part(folder)
    part.write_bytes(part.read_bytes()[:-8])
    with pytest.raises(ModelIntegrityError, match=r"^m: part-.*rafm has \d+ bytes, but \d+ were written"):
        load(folder)


def test_a_part_that_was_changed_is_refused(folder):
    part = first_part(folder)
    raw = bytearray(part.read_bytes())
    raw[-1] ^= 1
    part.write_bytes(raw)
    with pytest.raises(ModelIntegrityError, match=r"part-.*its content changed after it was written"):
        load(folder)


def test_a_whole_part_of_another_model_is_refused(folder, tmp_path):
    other = saved_world("rafm")
    other = replace(other, model=replace(other.model, counts=other.model.counts + 1))
    write(tmp_path / "other", other)
    first_part(folder).write_bytes(first_part(tmp_path / "other").read_bytes())
    with pytest.raises(ModelIntegrityError, match=r"belongs to another model: its SHA-256 starts with"):
        load(folder)


def test_a_folder_without_a_manifest_holds_no_model(folder):
    (folder / MANIFEST).unlink()  # as a run that was killed before its end
    with pytest.raises(ModelFormatError, match=r"^m: is a folder without model.json, so it holds no model"):
        load(folder)


CHANGES = {
    "no JSON": lambda found: "{",
    "another kind": lambda found: {**found, "kind": "x"},
    "no parts": lambda found: {**found, "parts": None},
    "a path": lambda found: {**found, "common": {**found["common"], "file": "../m.rafm"}},
    "a part twice": lambda found: {**found, "parts": found["parts"][:1] * 2},
    "sizes of more levels": lambda found: {
        **found,
        "parts": [{**found["parts"][0], "sizes": [1] * 9}, *found["parts"][1:]],
    },
    "text for a number": lambda found: {**found, "common": {**found["common"], "bytes": "9"}},
    "unknown facts": lambda found: {**found, "common": {**found["common"], "more": 1}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_is_not_one_is_refused(folder, change):
    found = CHANGES[change](json.loads((folder / MANIFEST).read_text()))
    (folder / MANIFEST).write_text(found if isinstance(found, str) else json.dumps(found))
    with pytest.raises(ModelFormatError, match=r"^m/model.json: is not the manifest of a model"):
        load(folder)


def test_a_manifest_of_a_newer_version_asks_for_an_upgrade(folder):
    found = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**found, "version": 7}))
    with pytest.raises(ModelVersionError, match=r"has version 7, but this rafm reads 1\. Upgrade rafm"):
        load(folder)


def test_sizes_that_are_not_those_of_the_part_are_refused(folder):
    found = json.loads((folder / MANIFEST).read_text())
    found["parts"][0]["sizes"][-1] -= 1
    (folder / MANIFEST).write_text(json.dumps(found))
    with pytest.raises(ModelFormatError, match=r"does not have the sizes recorded in model.json"):
        load(folder)


def test_features_must_be_in_one_part_only(tmp_path):
    saved = saved_world("rafm")
    token = begin_folder(tmp_path / "m")
    parts = [save_part(tmp_path / "m", token, 0, n, some_of(saved.model, 0, 3), (0, 1024)) for n in range(2)]
    finish_folder(tmp_path / "m", token, Saved(some_of(saved.model, 0, 0)), parts)
    with pytest.raises(ModelFormatError, match="ids must be distinct, but some are in several parts"):
        load(tmp_path / "m")


def test_parts_of_another_family_are_refused(tmp_path):
    token, world = begin_folder(tmp_path / "m"), saved_world("fm").model
    part = save_part(tmp_path / "m", token, 0, 0, world, (0, 1024))
    other = some_of(world, 0, 0)
    finish_folder(tmp_path / "m", token, Saved(replace(other, n_rows=7)), [part])
    with pytest.raises(ModelFormatError, match=r"part-.* belongs to another model"):
        load(tmp_path / "m")


def test_a_folder_of_other_files_is_not_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match=r"holds thesis.tex but no model; choose an empty or a new folder"):
        begin_folder(tmp_path)


def test_what_a_killed_run_left_behind_is_removed(folder):
    left = [folder / "part-00000000-0000-0000.rafm", folder / f".common-00000000.rafm.{'0' * 16}.tmp"]
    for path in left:
        path.write_bytes(b"half")
    assert load(folder).model.plan.n_features == 9
    write(folder, saved_world("rafm"))
    assert not any(path.exists() for path in left)
