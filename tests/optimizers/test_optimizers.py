"""Optimisers are found by name, and settings that cannot work are refused; their steps are tested with the kernels."""

import pytest

import rafm
from rafm import AdaGrad, Sgd
from rafm.errors import ConfigError
from rafm.optimizers import OPTIMIZERS, optimizer_for
from rafm.options import resolve


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_found_by_name(name):
    assert optimizer_for(name) == getattr(rafm, OPTIMIZERS[name])()
    assert optimizer_for(name).code == [*OPTIMIZERS].index(name)


def test_settings_of_an_optimizer_are_used_as_they_are():
    given = AdaGrad(batch_size=4, head_share=2.0)
    assert resolve(task="binary", optimizer=given).optimizer is given


BAD_BATCHES = {
    "no rows": {"batch_size": 0},
    "half a row": {"batch_size": 1.5},
    "too many rows": {"batch_size": 65_537},
    "negative share": {"head_share": -1.0},
    "share that is no number": {"head_share": float("nan")},
}


@pytest.mark.parametrize("settings", BAD_BATCHES.values(), ids=BAD_BATCHES)
@pytest.mark.parametrize("kind", [AdaGrad, Sgd])
def test_mini_batches_that_cannot_work_are_refused(kind, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))) as caught:
        kind(**settings)
    assert caught.value.key == "optimizer"
