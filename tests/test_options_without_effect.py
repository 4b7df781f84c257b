"""Options that a model, or its optimiser, does not use are refused by name."""

import pytest

from rafm.errors import ConfigError
from rafm.options import resolve

WITHOUT_EFFECT = [
    ({"model": "ffm", "ranks": 4}, "update", "algorithm1"),
    ({"model": "ffm", "ranks": 4}, "dependent_weight", 2.0),
    ({"model": "mrma", "ranks": (4, 8)}, "rank_scale", 2.0),
    ({"model": "mrma", "ranks": (4, 8)}, "update", "algorithm1"),
    ({"optimizer": "gibbs"}, "update", "algorithm1"),
    ({"optimizer": "gibbs"}, "dependent_weight", 2.0),
    ({"model": "lr"}, "l2", 0.1),
]


@pytest.mark.xfail(
    strict=True, raises=pytest.fail.Exception, reason="accepted and ignored: no engine declares what it uses"
)
@pytest.mark.parametrize(("model", "name", "value"), WITHOUT_EFFECT, ids=str)
def test_an_option_that_an_engine_does_not_use_is_refused_by_name(model, name, value):  # case 137
    with pytest.raises(ConfigError, match=name) as caught:
        resolve(task="binary", **model, **{name: value})
    assert caught.value.key == name
