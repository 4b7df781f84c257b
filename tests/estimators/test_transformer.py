"""The transformer of tables keeps scikit-learn's conventions and encodes as the encoder does."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fitted import long_tail, mixed_table
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from tables import mixed

from rafm import RaFMClassifier, TableSpec, TableTransformer
from rafm.encode.encoder import TableEncoder
from rafm.errors import ConfigError, DataValueError


@parametrize_with_checks([TableTransformer()])
def test_the_transformer_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_matrix_has_the_rows_of_the_encoder_and_its_names():
    table, spec = mixed(200)
    transformer, encoder = TableTransformer(spec).fit(table), TableEncoder.learn(table, spec)
    rows, matrix = encoder.encode(table), transformer.transform(table)
    assert sparse.issparse(matrix)
    assert matrix.format == "csr"
    assert matrix.shape == (200, encoder.n_features)
    np.testing.assert_array_equal(matrix.indices, rows.indices)
    np.testing.assert_array_equal(matrix.data, rows.values)
    assert transformer.get_feature_names_out().tolist() == encoder.feature_names()
    assert transformer.feature_names_in_.tolist() == table.column_names
    assert (transformer.fit_transform(table) != matrix).nnz == 0


@pytest.mark.parametrize("model", [LogisticRegression(), RaFMClassifier(ranks=2, model="fm", n_epochs=3)], ids=type)
def test_a_pipeline_is_trained_on_tables(model):
    table, (_, y) = mixed_table(), long_tail()
    pipeline = make_pipeline(TableTransformer({"columns": {"size": {"kind": "bins", "n_bins": 4}}}), model)
    assert len(cross_val_score(pipeline, table, y, cv=3)) == 3
    fitted = pickle.loads(pickle.dumps(pipeline.fit(table, y)))
    np.testing.assert_array_equal(fitted.predict(table), pipeline.predict(table))
    assert fitted[0].get_feature_names_out().size == 4 + 4


def test_a_pipeline_scores_like_the_estimator_alone():
    table, (_, y) = mixed_table(), long_tail()
    model = RaFMClassifier(
        ranks=(2, 4), n_epochs=3, validation_fraction=0, field_weights="off"
    )  # a matrix has no fields
    alone, pipeline = clone(model).fit(table, y), make_pipeline(TableTransformer(), model).fit(table, y)
    np.testing.assert_array_equal(pipeline.decision_function(table), alone.decision_function(table))


def test_a_specification_may_be_a_file_or_a_dict_and_is_checked_in_fit(tmp_path):
    table = mixed_table()
    (tmp_path / "columns.toml").write_text("[columns]\nsize = 'ignore'\n")
    for spec in (tmp_path / "columns.toml", str(tmp_path / "columns.toml"), {"columns": {"size": "ignore"}}):
        names = TableTransformer(spec).fit(table).get_feature_names_out().tolist()
        assert names == ["word=eggs", "word=ham", "word=spam", "word=<missing>"]
    with pytest.raises(ConfigError, match="did you mean 'columns'"):
        TableTransformer({"column": {}}).fit(table)


def test_labels_are_left_out_of_the_matrix():
    table = pd.DataFrame({"x": ["a", "b"], "y": [0, 1]})
    transformer = TableTransformer(TableSpec(label="y")).fit(table)
    assert transformer.transform(table).shape == (2, 2)
    assert transformer.transform(table[["x"]]).shape == (2, 2)


def test_a_matrix_of_numbers_and_text_is_a_table_of_columns_by_place():
    X = np.array([["a", 1.5], ["b", None]], object)
    transformer = TableTransformer().fit(X)
    assert transformer.get_feature_names_out().tolist() == ["x0=a", "x0=b", "x1=[-inf,inf)", "x1=<missing>"]
    with pytest.raises(DataValueError, match="column 'x1' has type string"):
        transformer.transform(np.array([["a", "b"]], object))


def test_the_output_can_be_a_pandas_or_polars_frame_with_named_columns():
    table, (_, y) = mixed_table(), long_tail()
    table.index = table.index * 3
    plain = TableTransformer().fit(table)
    expected, names = plain.transform(table).toarray(), plain.get_feature_names_out().tolist()
    found = TableTransformer().set_output(transform="pandas").fit_transform(table)
    assert isinstance(found, pd.DataFrame)
    assert found.index.equals(table.index)
    assert found.columns.tolist() == names
    assert found.sparse.density < 0.5
    np.testing.assert_array_equal(found.to_numpy(), expected)
    dense = TableTransformer().set_output(transform="polars").fit_transform(table)
    assert isinstance(dense, pl.DataFrame)
    assert dense.columns == names
    np.testing.assert_array_equal(dense.to_numpy(), expected)
    model = RaFMClassifier(ranks=2, n_epochs=2)
    pipeline = make_pipeline(TableTransformer(), clone(model)).set_output(transform="pandas").fit(table, y)
    assert pipeline[-1].feature_names_in_.tolist() == names  # a frame of sparse columns is a matrix
    alone = make_pipeline(TableTransformer(), model).fit(table, y)
    np.testing.assert_array_equal(pipeline.decision_function(table), alone.decision_function(table))
