"""What families declare: their files, their refusals, the options they use, and whether scores scale."""

import re
from pathlib import Path

import numpy as np
import pytest
from worlds import planted, run_python

from rafm.errors import ConfigError
from rafm.families import FAMILIES, family, family_of
from rafm.optimizers import OPTIMIZERS, SAMPLERS, optimizer, optimizer_class
from rafm.options import declared_options, resolve
from rafm.rows.checked import Batch, check_batch
from rafm.train.calibration import is_wanted
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.recipe import Recipe

SOURCE = Path(__file__).parents[2] / "src" / "rafm"


def test_every_family_has_a_file_of_its_name():
    files = {path.stem for path in (SOURCE / "families").glob("*.py")} - {"__init__", "family"}
    assert files == set(FAMILIES)
    assert [family_of(name).name for name in FAMILIES] == list(FAMILIES)


def test_a_family_refuses_only_what_some_command_asks_for():
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    asked = set(re.findall(r'\.(?:check|can)\(\s*"([a-z ]+)"', text))
    assert asked >= {what for name in FAMILIES for what in family_of(name).cannot}


def test_a_refusal_names_model_reason_and_option():
    with pytest.raises(ConfigError, match=r"^model 'ffm' cannot be exported: its features have a .* vector") as raised:
        family_of("ffm").check("be exported", key="to")
    assert raised.value.key == "to"
    family_of("fm").check("be exported")


def test_options_that_not_all_use_are_declared_and_used_by_some_but_not_by_all():
    known = {name for name, _ in declared_options()}
    for all_of_them, users in (
        (family.OPTIONS, [family_of(name).options for name in FAMILIES]),
        (optimizer.OPTIONS, [optimizer_class(name).options for name in (*OPTIMIZERS, *SAMPLERS)]),
    ):
        assert all_of_them <= known
        assert frozenset.union(*users) == all_of_them > frozenset.intersection(*users)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_scored_without_importing_what_trains_it(name):
    program = f"import sys, rafm.model.file, rafm.families.{name}; print('rafm.train' in sys.modules)"
    assert run_python("-c", program).strip() == "False"


@pytest.mark.parametrize(("is_homogeneous", "scale", "value_scale"), [(True, 64, 128), (False, 1, 1)])
def test_labels_and_values_are_scaled_only_if_scores_scale_with_them(monkeypatch, is_homogeneous, scale, value_scale):
    monkeypatch.setattr(type(family_of("fm")), "is_homogeneous", is_homogeneous)
    rows, _ = planted("regression", n_rows=200)
    labels = rows.labels * np.float32(64 / rows.labels.std())
    large = Batch(rows.indptr, rows.indices, rows.values * 128, rows.n_features, labels)
    options = resolve(task="regression", model="fm", ranks=2, n_epochs=1, keep_state=True)
    first = train_model(check_batch(large), options)
    *_, last = run_recipe(check_batch(large), options, start=first.for_scoring())  # without states: scaled anew
    for model in (first, last.model):
        assert model.parameters.states.label_scale.tolist() == [scale]
        assert set(model.parameters.states.value_scales.tolist()) == {value_scale}


def test_scores_that_do_not_scale_are_not_calibrated(monkeypatch):
    assert is_wanted(Recipe.of(resolve(task="binary", model="fm")))
    monkeypatch.setattr(type(family_of("fm")), "is_homogeneous", False)
    with pytest.raises(ConfigError, match="calibrate 'on': scores of model 'fm' cannot be scaled"):
        resolve(task="binary", model="fm", calibrate="on")
    assert not is_wanted(Recipe.of(resolve(task="binary", model="fm")))
