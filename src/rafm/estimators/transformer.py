"""The transformer of tables."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..encode.encoder import TableEncoder
from ..read.frames import as_table, is_frame
from .arguments import as_spec


class TableTransformer(TransformerMixin, BaseEstimator):
    """Turns tables into sparse matrices for any estimator, as the encoder of the estimators above does.

    Parameters
    ----------
    spec : a `rafm.TableSpec`, a dict as `TableSpec.from_dict` takes it, the path of a TOML file, or None to choose the
        kind of every column. Columns that it names as labels or weights are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"city": ["Rome", "Oslo"], "price": [1.5, 2.5]})
    >>> encode = TableTransformer({"columns": {"price": {"kind": "bins", "n_bins": 2}}}).fit(table)
    >>> encode.get_feature_names_out().tolist()
    ['city=Oslo', 'city=Rome', 'price=[-inf,2.5)', 'price=[2.5,inf)']
    >>> encode.transform(table).toarray()
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.]], dtype=float32)
    """

    def __init__(self, spec: Any = None):
        self.spec = spec

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns; y is not looked at."""
        self.encoder_ = TableEncoder.learn(self._table(X, fitting=True), as_spec(self.spec))
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return one row per row of X, one column per feature."""
        check_is_fitted(self, "encoder_")
        rows = self.encoder_.encode(self._table(X, fitting=False), targets=False)
        return sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (rows.n_rows, rows.n_features))

    def _table(self, X: Any, fitting: bool) -> Any:
        """Return X as a table; the columns of a matrix are called x0, x1, ..."""
        import pyarrow as pa

        if is_frame(X):
            table = as_table(X)
            if fitting:
                self.feature_names_in_ = np.array(table.column_names, object)
                self.n_features_in_ = len(table.column_names)
            return table
        X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=fitting)
        return pa.table({f"x{i}": pa.array(column, from_pandas=True) for i, column in enumerate(X.T)})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, `column=value`."""
        check_is_fitted(self, "encoder_")
        return np.array(self.encoder_.feature_names(), object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags
