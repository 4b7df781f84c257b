"""Factorization machines that give every feature the rank its data can support."""

from __future__ import annotations

from importlib import import_module

from .version import __version__

TYPE_CHECKING = False  # of typing, whose import would take longer than everything here
if TYPE_CHECKING:
    from typing import Any

    from .encode.spec import TableSpec
    from .errors import DataWarning, UnseenValuesWarning
    from .estimators import RaFMClassifier, RaFMRanker, RaFMRegressor, TableTransformer, load, tune
    from .losses.bpr import Bpr
    from .losses.huber import Huber
    from .losses.whole_data import WholeData
    from .optimizers.adagrad import AdaGrad
    from .optimizers.adam import Adam
    from .optimizers.ftrl import Ftrl
    from .optimizers.sgd import Sgd
    from .plan.ranks import NearestRank, Thresholds
    from .scorer import Scorer

__all__ = [
    "AdaGrad",
    "Adam",
    "Bpr",
    "DataWarning",
    "Ftrl",
    "Huber",
    "NearestRank",
    "RaFMClassifier",
    "RaFMRanker",
    "RaFMRegressor",
    "Scorer",
    "Sgd",
    "TableSpec",
    "TableTransformer",
    "Thresholds",
    "UnseenValuesWarning",
    "WholeData",
    "__version__",
    "load",
    "tune",
]

_HOMES = {
    "RaFMClassifier": "estimators",
    "RaFMRanker": "estimators",
    "RaFMRegressor": "estimators",
    "TableTransformer": "estimators",
    "load": "estimators",
    "tune": "estimators",
    "DataWarning": "errors",
    "UnseenValuesWarning": "errors",
    "TableSpec": "encode.spec",
    "AdaGrad": "optimizers.adagrad",
    "Adam": "optimizers.adam",
    "Ftrl": "optimizers.ftrl",
    "Sgd": "optimizers.sgd",
    "Bpr": "losses.bpr",
    "WholeData": "losses.whole_data",
    "Huber": "losses.huber",
    "NearestRank": "plan.ranks",
    "Thresholds": "plan.ranks",
    "Scorer": "scorer",
}


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import rafm` is quick."""
    if name == "distributed":  # a folder of public names of its own
        return import_module(".distributed", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'rafm' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
