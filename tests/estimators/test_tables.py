"""Estimators take any table, with missing values and the kinds that the user gives, and say what they did not know."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fitted import long_tail, make, mixed_table
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from tables import Capsule

from rafm import DataWarning, RaFMRegressor, TableSpec, UnseenValuesWarning, load
from rafm.errors import ConfigError


def visits(n_rows=400, seed=0):
    """Return a table of numbers only, and labels that follow from its ids, but for some."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"sku": draw.integers(0, 9, n_rows), "price": draw.normal(size=n_rows).round(2)})
    table.loc[0, "price"] = 0.5
    return table, ((table.sku % 3 == 0).to_numpy() ^ (draw.random(n_rows) < 0.03)).astype(int)


def kinds_of(model):
    return {column.name: column.kind for column in model.encoder_.columns}


# Kinds


def test_a_table_of_numbers_with_missing_ones_is_encoded_like_any_other():
    table, y = visits()
    holes = table.mask(np.random.default_rng(1).random(table.shape) < 0.1)
    models = [make(n_epochs=20, l2=0).fit(one, y) for one in (table, holes)]
    assert kinds_of(models[0]) == kinds_of(models[1]) == {"price": "bins", "sku": "category"}
    assert models[0].score(table, y) > 0.95
    assert models[1].score(holes, y) > 0.9
    assert models[1].coverage_["sku"].missing == int(holes.sku.isna().sum())


KINDS = {
    "a dict": {"price": {"kind": "bins", "n_bins": 3}, "sku": "ignore"},
    "a spec": TableSpec.from_dict({"columns": {"price": {"kind": "bins", "n_bins": 3}, "sku": "ignore"}}),
}


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_given_kinds_hold_in_fit_evaluation_partial_fit_and_prediction(given, task, tmp_path):
    table, y = visits()
    y = y if task == "binary" else 2 * y  # no classes
    model = make(task, columns=KINDS[given]).fit(table, y, eval_set=(table[:50], y[:50]))
    assert clone(model).columns == KINDS[given]
    assert kinds_of(model) == {"price": "bins"}
    assert model.encoder_.n_features == 3
    assert model.feature_names_in_.tolist() == ["sku", "price"]
    expected = model.predict(table)
    np.testing.assert_array_equal(model.predict(table[["price"]]), expected)
    model.save(tmp_path / "m.rafm")
    again = load(tmp_path / "m.rafm")
    np.testing.assert_array_equal(again.predict(table), expected)
    assert kinds_of(again.fit(table, y)) == {"price": "bins"}
    first = make(task, columns=KINDS[given]).partial_fit(table, y).partial_fit(table.assign(price=9.5), y)
    assert first.encoder_.n_features == 3


def test_given_kinds_that_cannot_be_are_refused():
    table, y = visits()
    with pytest.raises(ConfigError, match="did you mean 'price'"):
        make(columns={"prize": "bins"}).fit(table, y)
    with pytest.raises(ConfigError, match="did you mean 'bins'"):
        make(columns={"price": "bin"}).fit(table, y)
    with pytest.raises(ConfigError, match="columns must be a dict from names to kinds, or a TableSpec, found 'bins'"):
        make(columns="bins").fit(table, y)
    with pytest.raises(ConfigError, match="columns are those of a table, but X is a matrix"):
        make(columns={"price": "bins"}).fit(table.to_numpy(), y)


def test_kinds_and_reasons_are_printed_if_asked_for(capsys):
    table, y = visits()
    make(verbose=True, columns={"price": "number"}).fit(table, y)
    printed = capsys.readouterr()
    assert (
        "price   double   number     as given\nsku     int64    category   whole numbers" in printed.out + printed.err
    )


# Forms


def test_a_lazy_frame_and_exported_arrow_data_train_the_same_model():
    table, y = visits()
    expected = make().fit(table, y).decision_function(table)
    for form in (lambda table: pl.from_pandas(table).lazy(), lambda table: Capsule(pa.Table.from_pandas(table))):
        model = make().fit(form(table), y)
        assert model.feature_names_in_.tolist() == ["sku", "price"]
        np.testing.assert_array_equal(model.decision_function(form(table)), expected)


# Values that are new


def test_values_that_training_did_not_have_are_said_once_per_call_and_counted():
    table, y = visits()
    model = make().fit(table, y)
    other = table.assign(sku=[99, 100] * 10 + [3] * 380)
    for method in (model.predict, model.predict_proba, model.decision_function, lambda X: model.score(X, y)):
        with pytest.warns(UnseenValuesWarning) as caught:
            method(other)
        assert [str(one.message) for one in caught] == ["not seen in training: sku 5.0 % (20 of 400)"]
        assert caught[0].filename == __file__
        assert model.coverage_["sku"].unseen == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(table)
    assert model.coverage_.total.unseen == 0


def test_fewer_new_values_than_are_worth_saying_are_counted_only():
    """New users and items are usual: below 5 % of a column, `coverage_` has them and nothing is said."""
    table, y = visits()
    model = make().fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(table.assign(sku=[99] * 19 + [3] * 381))
    assert model.coverage_["sku"].unseen == 19
    with pytest.warns(UnseenValuesWarning, match=r"^not seen in training: sku 5.0 % \(20 of 400\)$"):
        model.predict(table.assign(sku=[99] * 20 + [3] * 380))


def test_a_column_that_is_mostly_new_is_doubted():
    table, y = visits()
    with pytest.warns(UnseenValuesWarning, match="most values of column 'sku' were never seen in training"):
        RaFMRegressor(ranks=2, n_epochs=1).fit(table, 2 * y).predict(table.assign(sku=99))


def test_rare_values_are_no_news():
    table, y = visits()
    table.loc[:2, "sku"] = [100, 101, 102]
    model = make(columns=TableSpec(min_count=2)).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(table)
    assert model.coverage_["sku"].rare == 3


def test_folds_of_a_table_are_scored():
    table, (_, y) = mixed_table(), long_tail()
    assert cross_val_score(make(n_epochs=2), table, y, cv=3).size == 3


# Ids in a matrix


def test_a_dense_matrix_of_ids_is_warned_about():
    draw = np.random.default_rng(0)
    ids = np.stack([draw.integers(0, 200, 400), draw.integers(0, 5, 400), draw.integers(0, 3000, 400)], axis=1)
    y = ids[:, 0] % 2
    for X in (ids, ids.astype(float), ids.tolist(), pd.DataFrame(ids)):
        with pytest.warns(DataWarning, match=r"columns 0, 2 of X hold whole numbers up to \d+, like ids") as caught:
            make(learning_rate=1e-3).fit(X, y)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (ids[:, 1:2], ids / 3000, ids % 100, -ids, np.eye(400) * 1000):
            make(n_epochs=1).fit(X, y)
        table = pd.DataFrame(ids % 300, columns=["user", "day", "item"])
        make(n_epochs=1).fit(table, y)


# In a notebook


def test_a_notebook_shows_the_plan_and_the_columns_beside_the_diagram():
    table, y = visits()
    model = make(ranks=(2, 5)).fit(table.rename(columns={"sku": "<sku>"}), y)
    for shown in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "sk-top-container" in shown
        assert f"rafm, log loss: {model.encoder_.n_features} features, {model.n_parameters_} parameters" in shown
        assert "<td>&lt;sku&gt;</td><td>category</td><td>9</td>" in shown
        assert "<td>price</td><td>bins</td><td>10</td>" in shown
        for level, rank in enumerate(model.model_.plan.ranks, start=1):
            assert f"<td>{level}</td><td>{rank}</td>" in shown
    assert "rafm-plan" not in make()._repr_html_()
    assert "<td>price</td>" not in make("regression", "lr").fit(long_tail()[0], 2 * y)._repr_html_()
