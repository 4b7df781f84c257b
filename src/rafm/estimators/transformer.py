"""Transformer of tables with scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..encode.coverage import Coverage
from ..encode.encoder import TableEncoder
from ..read.frames import as_table, is_frame
from .arguments import as_spec, warn_of_unseen


class TableTransformer(TransformerMixin, BaseEstimator):
    """Encode tables as sparse matrices, in the same way as `RaFMClassifier` and `RaFMRegressor` do internally.

    Parameters
    ----------
    spec : TableSpec, dict, path or None, default=None
        Kinds of the columns: a `rafm.TableSpec`, a dict for `TableSpec.from_dict`, or the path of a TOML file. None
        chooses the kind of each column. Label and weight columns are left out.

    Attributes
    ----------
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, if X was a table.

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
        """Fit the encoder to a table.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            Rows.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
        """
        self.encoder_ = TableEncoder.learn(self._table(X, fitting=True), as_spec(self.spec))
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            Rows with the columns seen in `fit`.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_rows, n_features)
            One column per feature. Values never seen in `fit` are left out or share `column=<rare>`. After
            `set_output(transform="pandas")` a DataFrame of sparse columns, after "polars" a dense one.
        """
        check_is_fitted(self, "encoder_")
        table, coverage = self._table(X, fitting=False), Coverage()
        rows = self.encoder_.encode(table, targets=False, coverage=coverage)  # X may lack the label column
        warn_of_unseen(coverage)
        matrix = sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (rows.n_rows, rows.n_features))
        return self._in_container(matrix, X)

    def _in_container(self, matrix: sparse.csr_matrix, X: Any) -> Any:
        """Return the matrix as scikit-learn's `set_output` asks for; it names the columns of frames itself."""
        container = _get_output_config("transform", self)["dense"]
        if container != "pandas":
            return matrix if container == "default" else matrix.toarray()
        import pandas as pd

        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame.sparse.from_spmatrix(matrix, index=index)

    def _table(self, X: Any, fitting: bool) -> Any:
        """Return X as an Arrow table; the columns of a matrix are named x0, x1, ..."""
        import pyarrow as pa

        if is_frame(X):
            table = as_table(X)
            if fitting:  # validate_data would do this, but it converts the cells too
                self.feature_names_in_ = np.array(table.column_names, object)
                self.n_features_in_ = len(table.column_names)
            return table
        X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=fitting)
        return pa.table({f"x{i}": pa.array(column, from_pandas=True) for i, column in enumerate(X.T)})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the feature names, `column=value`.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "encoder_")
        return np.array(self.encoder_.feature_names(), object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # values are float32, whatever the input
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags
