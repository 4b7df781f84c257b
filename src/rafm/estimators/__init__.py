"""Estimators with scikit-learn's interface; nothing else in rafm depends on scikit-learn."""

from .classifier import RaFMClassifier
from .loading import load
from .regressor import RaFMRegressor
from .transformer import TableTransformer
from .tuning import tune

__all__ = ["RaFMClassifier", "RaFMRegressor", "TableTransformer", "load", "tune"]
