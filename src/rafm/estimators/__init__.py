"""The scikit-learn face: the only users of its base classes."""

from .classifier import RaFMClassifier
from .loading import load
from .regressor import RaFMRegressor
from .transformer import TableTransformer

__all__ = ["RaFMClassifier", "RaFMRegressor", "TableTransformer", "load"]
