"""Estimators with scikit-learn's interface; nothing else in rafm depends on scikit-learn."""

from .classifier import RaFMClassifier
from .loading import load
from .ranker import RaFMRanker
from .regressor import RaFMRegressor
from .transformer import TableTransformer
from .tuning import tune

__all__ = ["RaFMClassifier", "RaFMRanker", "RaFMRegressor", "TableTransformer", "load", "tune"]
