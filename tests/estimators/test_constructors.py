"""Constructors are written by hand; each has the options that are declared, with their defaults and types."""

import inspect

import pytest

from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor
from rafm.options import declared_options

OWN = {RaFMClassifier: {}, RaFMRegressor: {"loss": "squared"}, RaFMRanker: {"loss": None, "item_fields": None}}
NOT_OF_ALL = {"loss", "item_fields"}  # a classifier always trains on log loss; only a ranker has items
TYPES = {  # of annotations, by that of the declaration
    "bool": "bool",
    "float": "float",
    'float or "auto"': "float | str",
    'float, sequence of float or "auto"': "float | str | Sequence[float]",
    "int": "int",
    "int or None": "int | None",
    'int or "auto"': "int | str",
    'int, sequence of int or "auto"': "int | str | Sequence[int]",
    'int or "auto" or "off"': "int | str",
    "int, RandomState or None": "int | np.random.RandomState | None",
    "rule or array of int": "LevelRule | np.ndarray | Sequence[int]",
    "str": "str",
    "str or sequence of str": "str | Sequence[str]",
}
SETTINGS = {"loss": "str | Loss", "optimizer": "str | Optimizer"}
OTHERS = {"columns", "cross", "fields", "callbacks", "verbose"}


def of_options(kind):
    """Yield (name, default, annotation) of each parameter that an estimator should have for an option."""
    for name, one in declared_options():
        if name in OWN[kind] or name not in NOT_OF_ALL:
            default = OWN[kind].get(name, one.parameter_default if one.parameter else one.default)
            written = SETTINGS.get(name) or TYPES[one.type]
            optional = default is None and not written.endswith("None")
            yield one.parameter or name, default, f"{written} | None" if optional else written


@pytest.mark.parametrize("kind", OWN)
def test_a_constructor_has_every_declared_option_with_its_default_and_type(kind):
    parameters = inspect.signature(kind).parameters
    found = [(one.name, one.default, one.annotation) for one in parameters.values() if one.name not in OTHERS]
    assert found == sorted(of_options(kind), key=lambda option: option[0] != "ranks")
    assert set(parameters) - {name for name, *_ in found} == OTHERS


@pytest.mark.parametrize("kind", OWN)
def test_only_ranks_may_be_given_by_position(kind):
    kinds = {one.name for one in inspect.signature(kind).parameters.values() if one.kind is not one.KEYWORD_ONLY}
    assert kinds == {"ranks"}
    assert kind(8, l2=0.5).get_params()["ranks"] == kind(ranks=8).ranks == 8
