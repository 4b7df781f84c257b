"""Options that a model, or its optimiser, does not use are refused by name."""

import numpy as np
import pytest

from rafm.errors import ConfigError
from rafm.options import from_summary, resolve
from rafm.plan.ranks import Thresholds

WITHOUT_EFFECT = [
    ({"model": "ffm", "ranks": 4}, "update", "algorithm1"),
    ({"model": "ffm", "ranks": 4}, "dependent_weight", 2.0),
    ({"model": "mrma", "ranks": (4, 8)}, "rank_scale", 2.0),
    ({"model": "mrma", "ranks": (4, 8)}, "update", "algorithm1"),
    ({"optimizer": "gibbs"}, "update", "algorithm1"),
    ({"optimizer": "gibbs"}, "dependent_weight", 2.0),
    ({"model": "lr"}, "l2", 0.1),
    ({"model": "lr"}, "init_scale", 0.1),
    ({"model": "lr", "optimizer": "ftrl"}, "l1", 0.1),
    ({"model": "fm"}, "rank_scale", 2.0),
    ({"model": "fm"}, "levels", Thresholds((3,))),
    ({"model": "fm"}, "levels", np.array([1, 0])),
    ({"model": "difacto"}, "dependent_weight", 2.0),
    ({"optimizer": "gibbs"}, "learning_rate", 0.1),
    ({"optimizer": "gibbs"}, "learning_rate", "auto"),
    ({"optimizer": "gibbs"}, "l2", [0.1]),
    ({"optimizer": "gibbs"}, "l2_weights", 0.1),
    ({"optimizer": "gibbs"}, "step_rows", 64),
    ({"optimizer": "gibbs"}, "averaging", True),
    ({"optimizer": "gibbs"}, "rate_drops", 1),
    ({"optimizer": "gibbs"}, "init_scale", 0.1),
]
WITH_EFFECT = [
    ({"model": "rafm"}, "update", "algorithm1"),
    ({"model": "rafm"}, "dependent_weight", 2.0),
    ({"model": "difacto"}, "rank_scale", 2.0),
    ({"model": "difacto", "optimizer": "gibbs"}, "rank_scale", 2.0),
    ({"model": "ffm"}, "l2", 0.1),
    ({"model": "mrma"}, "init_scale", 0.1),
    ({"model": "lr"}, "l2_weights", 0.1),
    ({"model": "fm", "optimizer": "ftrl"}, "l1", 0.1),
    # they ask for nothing
    ({"model": "lr"}, "l2", 0),
    ({"model": "ffm"}, "update", "joint"),
    ({"optimizer": "gibbs"}, "averaging", False),
    ({"optimizer": "gibbs"}, "step_rows", 0),
]


@pytest.mark.parametrize(("model", "name", "value"), WITHOUT_EFFECT, ids=str)
def test_an_option_that_an_engine_does_not_use_is_refused_by_name(model, name, value):  # case 137
    with pytest.raises(ConfigError, match=name) as caught:
        resolve(task="binary", **model, **{name: value})
    assert caught.value.key == name


@pytest.mark.parametrize(("model", "name", "value"), WITH_EFFECT, ids=str)
def test_an_option_that_is_used_or_asks_for_nothing_is_accepted(model, name, value):
    resolve(task="binary", **model, **{name: value})


@pytest.mark.parametrize("optimizer", ["adagrad", "gibbs"])
def test_options_of_a_model_file_are_taken_without_those_that_its_family_does_not_use(optimizer):
    """A model that was cut to a linear one was trained with options of another."""
    summary = {"rank_scale": 4.0, "dependent_weight": 2.0, "l2": 0.1, "metric": "auc", "optimizer": optimizer}
    known = from_summary(summary, "lr")
    assert known == {"model": "lr", "metric": "auc", "optimizer": optimizer}
    resolve(task="binary", **known)
