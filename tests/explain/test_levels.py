"""Losses by level, against scores by the definition."""

import naive
import numpy as np
import pytest
from models import by_id, model_of
from worlds import changed_rows, make_world, random_rows

from rafm.errors import ConfigError, DataValueError
from rafm.explain.levels import level_losses

ROWS = random_rows(np.random.default_rng(0), 6, 40, 6)


def labelled(model, labels):
    return changed_rows(by_id(model, ROWS), labels=labels)


@pytest.mark.parametrize("family", ["rafm", "difacto", "fm", "lr"])
def test_each_level_has_the_loss_of_the_scores_up_to_it(family):
    ranks, levels = {"fm": ((4,), [1] * 6), "lr": ((), [0] * 6)}.get(family, ((2, 5), [2, 2, 2, 1, 1, 0]))
    world, labels = make_world(family, ranks, levels), np.arange(40) % 2.0
    model = model_of(world)

    def loss(score):
        kind = {"log": "logistic"}.get(model.loss.name, model.loss.name)
        values = np.mean([naive.loss(kind, score(row), label) for row, label in zip(ROWS, labels)])
        return model.loss.report(values)

    found = level_losses(model, labelled(model, labels))
    parts = {0: lambda row: naive.linear(world.model, row), len(ranks): lambda row: naive.score(world.model, row)}
    if family == "rafm":
        parts[1] = lambda row: naive.rafm_score(world.model, row, 1, 1)
    assert {one.level: one.loss for one in found} == pytest.approx({k: loss(of) for k, of in parts.items()}, rel=1e-5)
    assert sum(one.gain for one in found) == pytest.approx(found[0].loss - found[-1].loss)
    assert [one.rank for one in found] == ([0, 2, 5] if family == "rafm" else [0, *ranks[-1:]])


def test_rows_need_labels_and_mixtures_have_no_levels():
    fm, mixture = model_of(make_world("fm", (4,), [1] * 6)), model_of(make_world("mrma", (2, 3), [2] * 6))
    with pytest.raises(DataValueError, match="need labelled rows"):
        level_losses(fm, by_id(fm, ROWS))
    with pytest.raises(ConfigError, match="model 'mrma' cannot give losses by level"):
        level_losses(mixture, labelled(mixture, np.ones(40)))
