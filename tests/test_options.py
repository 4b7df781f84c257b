"""Every choice of a training run is checked in one place, and what is left open gets the documented default."""

import inspect

import numpy as np
import pytest
from commands import run

from rafm import AdaGrad, RaFMClassifier, RaFMRanker, RaFMRegressor
from rafm.cli.groups import in_flags
from rafm.cli.train import train as train_command
from rafm.errors import ConfigError
from rafm.options import declared_options, from_summary, resolve
from rafm.plan.ranks import NearestRank, Thresholds

BAD = {
    "unknown task": ("task", "multiclass"),
    "unknown model": ("model", "gbm"),
    "unknown update": ("update", "algorithm2"),
    "unknown optimizer": ("optimizer", "adamw"),
    "rank of zero": ("ranks", (0,)),
    "scale of zero": ("rank_scale", 0),
    "scale as text": ("rank_scale", "2"),
    "negative learning rate": ("learning_rate", -0.1),
    "learning rate of zero": ("learning_rate", 0),
    "learning rate that is no number": ("learning_rate", float("nan")),
    "learning rate as text": ("learning_rate", "fast"),
    "negative l2": ("l2", -1e-3),
    "infinite l2": ("l2", float("inf")),
    "negative l2 of weights": ("l2_weights", -1),
    "negative weight of dependents": ("dependent_weight", -1),
    "no epochs": ("n_epochs", 0),
    "half an epoch": ("n_epochs", 1.5),
    "no patience": ("patience", 0),
    "negative seed": ("seed", -1),
    "seed as text": ("seed", "0"),
}


@pytest.mark.parametrize(("key", "value"), BAD.values(), ids=BAD)
def test_a_choice_that_cannot_work_is_named(key, value):
    with pytest.raises(ConfigError, match=str(key)) as caught:
        resolve(**{"task": "binary", key: value})
    assert caught.value.key == key
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("task", "ranks", "learning_rate", "l2", "dependent_weight"),
    [("binary", (8, 32, 128), 0.2, 5e-3, 0.5), ("regression", (8, 32), 0.1, 0.1, 3)],
)
def test_defaults_depend_on_the_task(task, ranks, learning_rate, l2, dependent_weight):
    options = resolve(task=task)
    assert (options.learning_rate, options.l2, options.l2_weights) == (learning_rate, (l2,) * len(ranks), 0)
    assert options.dependent_weight == dependent_weight
    assert resolve(task=task, update="algorithm1").dependent_weight == 1
    assert (options.model, options.ranks, options.rule) == ("rafm", ranks, NearestRank(4.0))
    assert resolve(task=task, ranks=(8, 32)).rule == NearestRank(1.0)  # the paper's
    assert options.init_scale == (0.03 if task == "binary" else 0.01)
    assert options.joint
    assert options.optimizer == AdaGrad()


def test_zero_is_a_choice_and_not_a_default():
    assert resolve(task="binary", l2=0).l2 == (0, 0, 0)
    assert resolve(task="binary", dependent_weight=0).dependent_weight == 0
    assert resolve(task="binary", patience=None).patience is None


def test_l2_may_differ_between_ranks():
    options = resolve(task="binary", ranks=(2, 4), l2=[0.1, 0.2])
    assert (options.l2, options.summary()["l2"]) == ((0.1, 0.2), [0.1, 0.2])
    with pytest.raises(ConfigError, match="l2 must be one number, or 3: one per rank, found 2"):
        resolve(task="binary", l2=(0.1, 0.2))


def test_numpy_numbers_are_numbers():
    options = resolve(task="binary", l2=np.float32(0.5), n_epochs=np.int64(3), seed=np.int32(7), ranks=np.array([4]))
    assert (options.l2, options.n_epochs, options.seed, options.ranks) == ((0.5,), 3, 7, (4,))


def test_levels_replace_the_scale():
    rule = Thresholds((5,))
    assert resolve(task="binary", levels=rule, ranks=(4, 8)).rule is rule
    assert resolve(task="binary", rank_scale=4).rule == NearestRank(4)


def test_ranks_are_left_out_for_lr():
    assert resolve(task="binary", model="lr").ranks == ()


def test_the_summary_holds_plain_values():
    summary = resolve(task="binary", update="algorithm1", optimizer="sgd", seed=np.int64(5)).summary()
    assert summary["update"] == "algorithm1"
    assert summary["optimizer"] == "sgd"
    assert all(type(value) in (str, int, float, bool, type(None)) for value in summary.values())


# ---- One declaration, many faces

DECLARED = dict(declared_options())


def test_every_option_is_a_flag_of_rafm_train_with_its_default_and_help():
    command = {parameter.name: parameter for parameter in inspect.signature(train_command).parameters.values()}
    for name, declared in DECLARED.items():
        parameter = command[declared.flag or name]
        assert parameter.default == declared.default
        assert parameter.annotation.__metadata__[0].help == in_flags(declared.help)
    printed = " ".join(run("train", "--help").out.split())
    assert all(f"--{(declared.flag or name).replace('_', '-')} " in printed for name, declared in DECLARED.items())


@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor, RaFMRanker])
def test_every_option_is_a_documented_parameter_of_the_estimators(kind):
    parameters = inspect.signature(kind).parameters
    for name, declared in DECLARED.items():
        if (name == "loss" and kind is RaFMClassifier) or (name == "item_fields" and kind is not RaFMRanker):
            continue
        own = declared.parameter or name
        assert f"    {own} : {declared.type}, default={parameters[own].default!r}\n" in kind.__doc__


def test_the_fields_of_items_come_back_from_the_summary():
    chosen = resolve(task="ranking", item_fields=["item", "a, b"])
    again = resolve(task="ranking", **{**from_summary(chosen.summary(), chosen.model), "model": chosen.model})
    assert again.item_fields == ("item", "a, b")
    assert "item_fields" not in resolve(task="binary").summary()


def test_what_is_kept_comes_back_from_the_summary():
    chosen = resolve(
        task="binary", rank_scale=2.0, update="algorithm1", l2=(0.1, 0.2, 0.3), n_epochs=7, metric="auc", seed=3
    )
    again = resolve(task="binary", **from_summary(chosen.summary(), "rafm"))
    kept = {name for name, declared in DECLARED.items() if declared.is_kept} | {"l2", "optimizer"}
    assert {name: getattr(again, name) for name in kept} == {name: getattr(chosen, name) for name in kept}


def test_the_identity_of_a_run_names_all_that_has_an_effect_and_nothing_else():
    known = set(resolve(task="binary").identity())
    for name, declared in DECLARED.items():
        assert ((declared.flag or name) in known) == declared.has_effect


def test_an_unknown_option_is_named():
    with pytest.raises(ConfigError, match="unknown option 'rank'") as caught:
        resolve(task="binary", rank=3)
    assert caught.value.key == "rank"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "fm"}, "max_parameters needs measured ranks, which model='rafm' has: drop model='fm', or the limit"),
        ({"optimizer": "gibbs"}, "max_parameters of a model of clicks needs training by steps: drop optimizer='gibbs'"),
        ({"ranks": (8,)}, "max_parameters requires ranks='auto': given ranks determine the size of the model"),
    ],
)
def test_a_limit_of_size_says_which_option_is_in_its_way(given, said):
    with pytest.raises(ConfigError) as caught:
        resolve(task="binary", max_parameters=1000, **given)
    assert str(caught.value) == said
