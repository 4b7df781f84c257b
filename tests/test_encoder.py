"""Tables become rows and can be read back from them; another table is understood by the names of its columns."""

import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_estimators import long_tail, make, mixed_table

from rafm.data.encoder import MISSING, TableEncoder, column_kind
from rafm.data.frames import as_table, has_categories, is_frame
from rafm.errors import ConfigError, DataValueError

TABLE = pa.table({"city": ["Rome", "Oslo", None, "Rome"], "ok": [True, None, False, True], "age": [30, 40, 50, 60]})


def cells_of(encoder, batch):
    """Read the cells back from encoded rows: per row {column: value}, by the names of the features alone."""
    owner = [(column.name, column.kind) for column in encoder.columns for _ in range(column.n_features)]
    names, rows = encoder.feature_names(), []
    for a, b in zip(batch.indptr, batch.indptr[1:]):
        row = {}
        for i, x in zip(batch.indices[a:b], batch.values[a:b]):
            column, kind = owner[i]
            assert column not in row
            assert kind == "number" or x == 1
            row[column] = x if kind == "number" else names[i].removeprefix(f"{column}=")
        rows.append(row)
    return rows


# Round trips


def test_every_cell_of_the_example_becomes_the_feature_that_names_it():
    encoder = TableEncoder.learn(TABLE)
    assert encoder.feature_names() == [
        *("city=Oslo", "city=Rome", "city=<missing>"),
        *("ok=false", "ok=true", "ok=<missing>"),
        "age",
    ]
    found = cells_of(encoder, encoder.encode(TABLE))
    assert [row["city"] for row in found] == ["Rome", "Oslo", MISSING, "Rome"]
    assert [row["ok"] for row in found] == ["true", MISSING, "false", "true"]
    ages = np.array([30, 40, 50, 60])
    np.testing.assert_allclose([row["age"] for row in found], (ages - ages.mean()) / ages.std(), rtol=1e-6)


words = st.lists(st.none() | st.text(max_size=6), min_size=1, max_size=12)


@given(words, st.data())
def test_categories_can_be_read_back_whatever_the_text(column, data):
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    table = pa.table({"c": pa.array(column, pa.string()).cast(data.draw(st.sampled_from(kinds)))})
    encoder = TableEncoder.learn(table)
    found = cells_of(encoder, encoder.encode(table))
    assert [row["c"] for row in found] == [MISSING if value is None else value for value in column]
    assert encoder.columns[0].values == tuple(sorted({value for value in column if value is not None}))


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_numbers_can_be_read_back_and_missing_ones_count_as_the_mean(column):
    table = pa.table({"x": pa.array(column, pa.float64())})
    encoder = TableEncoder.learn(table)
    (learnt,) = encoder.columns
    known = [value for value in column if value is not None]
    mean = float(np.mean(known)) if known else 0.0
    found = encoder.encode(table).values.astype(float) * learnt.spread + learnt.mean
    expected = [mean if value is None else value for value in column]
    # float32 keeps 24 bits of each standardised value
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * (1 + np.abs(known).max(initial=0)))


@settings(max_examples=30)
@given(words, st.randoms())
def test_an_encoder_does_not_depend_on_the_order_of_rows_nor_on_chunks(column, random):
    shuffled = random.sample(column, len(column))
    cut = random.randrange(len(column) + 1)
    chunks = pa.chunked_array([shuffled[:cut], [], shuffled[cut:]], pa.string())
    table = pa.table({"c": pa.array(column, pa.string())})
    encoder = TableEncoder.learn(pa.table({"c": chunks}))
    assert encoder == TableEncoder.learn(table)
    assert [row["c"] for row in cells_of(encoder, encoder.encode(pa.table({"c": chunks})))] == [
        MISSING if value is None else value for value in shuffled
    ]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pa.array([1, 2], pa.int8()), "number"),
        (pa.array([1, 2], pa.uint64()), "number"),
        (pa.array([1, 2], pa.float32()), "number"),
        (pa.array([1.5, None], pa.float16()), "number"),
        (pa.array([decimal.Decimal("1.50"), None]), "number"),
        (pa.array(["a", "b"]), "category"),
        (pa.array([True, False]), "category"),
        (pa.array([None, None]), "category"),
        (pa.array([3, 4]).dictionary_encode(), "category"),
    ],
    ids=str,
)
def test_every_type_of_cell_has_its_kind_and_can_be_encoded(cells, kind):
    table = pa.table({"c": cells})
    assert column_kind("c", cells.type) == kind
    encoder = TableEncoder.learn(table)
    assert encoder.columns[0].kind == kind
    assert encoder.encode(table).n_rows == 2


@pytest.mark.parametrize("cells", [pa.array([[1], [2]]), pa.array([b"x", b"y"]), pa.array([0, 1], pa.timestamp("s"))])
def test_other_types_are_refused_with_the_name_of_the_column(cells):
    with pytest.raises(DataValueError, match=r"column 'odd' has type .*; make it text, a category or a number"):
        TableEncoder.learn(pa.table({"odd": cells}))


def test_an_infinite_number_is_refused_with_the_name_of_the_column():
    with pytest.raises(DataValueError, match="column 'x' has an infinite value"):
        TableEncoder.learn(pa.table({"x": [1.0, np.inf]}))


def test_two_columns_of_one_name_are_refused():
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["c", "c"])
    with pytest.raises(DataValueError, match="two columns are named 'c'"):
        TableEncoder.learn(twice)
    with pytest.raises(DataValueError, match="two columns are named 'c'"):
        TableEncoder.learn(pa.table({"c": ["a"]})).encode(twice)


def test_a_constant_number_is_zero_for_that_number():
    encoder = TableEncoder.learn(pa.table({"x": [5, 5, 5]}))
    assert encoder.encode(pa.table({"x": [5, 6]})).values.tolist() == [0, 1]


def test_a_table_of_no_rows_is_encoded_as_no_rows():
    encoded = TableEncoder.learn(TABLE).encode(TABLE.slice(0, 0))
    assert encoded.n_rows == 0
    assert encoded.n_features == 7


# Another table than the one of training


def test_a_value_never_seen_is_left_out_of_its_row():
    encoder = TableEncoder.learn(TABLE)
    other = pa.table({"city": ["Lima", "Oslo"], "ok": [True, True], "age": [1, 1]})
    assert [sorted(row) for row in cells_of(encoder, encoder.encode(other))] == [["age", "ok"], ["age", "city", "ok"]]


def test_a_value_never_seen_scores_zero_and_a_missing_one_has_its_own_weight():
    table, (_, y) = mixed_table(), long_tail()
    model = make(n_epochs=10).fit(table, y)
    unseen, missing = (pd.DataFrame({"word": [word], "size": [table["size"].mean()]}) for word in ("unheard of", None))
    assert model.decision_function(unseen)[0] == model.model_.parameters.bias[0]
    assert model.decision_function(missing)[0] != model.model_.parameters.bias[0]


def test_columns_are_found_by_name_in_any_order():
    encoder = TableEncoder.learn(TABLE)
    expected, found = encoder.encode(TABLE), encoder.encode(TABLE.select(["age", "city", "ok"]))
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.values, expected.values)


def test_a_missing_column_is_refused_by_name():
    with pytest.raises(DataValueError, match="column 'ok' is missing; the model was trained with city, ok, age"):
        TableEncoder.learn(TABLE).encode(TABLE.drop_columns(["ok"]))


def test_an_extra_column_is_left_out_with_a_warning_that_names_it():
    encoder = TableEncoder.learn(TABLE)
    with pytest.warns(UserWarning, match="left out: zip"):
        found = encoder.encode(TABLE.append_column("zip", pa.array([1, 2, 3, 4])))
    np.testing.assert_array_equal(found.indices, encoder.encode(TABLE).indices)


def test_a_warning_points_to_the_line_of_the_user():
    table, (_, y) = mixed_table(), long_tail()
    model = make().fit(table, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(table.assign(more=1))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("name", "cells", "before", "now"),
    [("age", ["30"], "number", "string"), ("city", [1], "category", "int64"), ("ok", [1.0], "category", "double")],
)
def test_a_column_of_another_type_is_refused_with_both_types(name, cells, before, now):
    one = {"city": ["Rome"], "ok": [True], "age": [3], name: cells}
    with pytest.raises(DataValueError, match=f"column '{name}' was a {before} in training, now its type is {now}"):
        TableEncoder.learn(TABLE).encode(pa.table(one))


def test_a_number_may_be_of_another_width_and_a_category_of_another_encoding():
    encoder = TableEncoder.learn(TABLE)
    other = TABLE.set_column(0, "city", TABLE["city"].dictionary_encode())
    other = other.set_column(2, "age", TABLE["age"].cast(pa.float32()))
    np.testing.assert_array_equal(encoder.encode(other).indices, encoder.encode(TABLE).indices)
    np.testing.assert_array_equal(encoder.encode(other).values, encoder.encode(TABLE).values)


# Frames


FRAMES = {
    "pandas": lambda table: table,
    "pandas objects": lambda table: table.astype({"word": object}),
    "pandas categories": lambda table: table.astype({"word": "category"}),
    "pandas with row labels": lambda table: table.set_axis(np.arange(len(table))[::-1] * 3, axis=0),
    "polars": pl.from_pandas,
    "polars categories": lambda table: pl.from_pandas(table).with_columns(pl.col("word").cast(pl.Categorical)),
    "pyarrow": lambda table: pa.Table.from_pandas(table),
    "pyarrow in chunks": lambda table: pa.concat_tables(
        [pa.Table.from_pandas(table[:7]), pa.Table.from_pandas(table[7:])]
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_all_libraries_give_the_same_scores(kind):
    table, (_, y) = mixed_table(), long_tail()
    expected = make().fit(table, y)
    frame = FRAMES[kind](table)
    assert is_frame(frame)
    assert has_categories(frame)
    found = make().fit(frame, y)
    assert found.encoder_ == expected.encoder_
    for model in (found, expected):
        np.testing.assert_array_equal(model.decision_function(frame), expected.decision_function(table))


def test_labels_may_come_as_a_column_of_any_library():
    table, (_, y) = mixed_table(), long_tail()
    expected = make().fit(table, y).decision_function(table)
    for labels in (y.tolist(), pd.Series(y), pl.Series(y), pa.array(y)):
        np.testing.assert_array_equal(make().fit(table, labels).decision_function(table), expected)


def test_a_frame_of_numbers_needs_no_encoder_and_is_taken_as_it_is():
    frame = pd.DataFrame(np.eye(4), columns=list("abcd"))
    assert not has_categories(frame)
    model = make(ranks=2, model="fm").fit(frame, [0, 1, 0, 1])
    assert model.encoder_ is None
    assert model.feature_names_in_.tolist() == list("abcd")


def test_lists_arrays_and_columns_are_no_frames():
    assert not any(map(is_frame, ([[1]], np.eye(2), pd.Series([1]), {"a": [1]}, "text", None)))


def test_a_frame_becomes_a_table_without_its_row_labels():
    frame = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    assert as_table(frame).column_names == ["a"]


def test_a_model_of_a_table_asks_for_a_table():
    table, (X, y) = mixed_table(), long_tail()
    model = make().fit(table, y)
    with pytest.raises(ConfigError, match="trained on a table"):
        model.predict(X)


def test_validation_rows_of_a_table_are_encoded_as_the_training_rows_were():
    table, (_, y) = mixed_table(), long_tail()
    other = table.assign(word="unheard of")
    model = make(n_epochs=1).fit(table, y, eval_set=(other, y))
    alone = model.decision_function(other)
    losses = np.log1p(np.exp(-np.where(y == 1, alone, -alone)))
    assert model.history_[0]["valid_log_loss"] == pytest.approx(losses.mean(), rel=1e-6)


@pytest.mark.parametrize("short", ["X", "y"])
def test_tables_and_labels_of_other_lengths_are_refused(short):
    table, (_, y) = mixed_table(), long_tail()
    table, y = (table[:-1], y) if short == "X" else (table, y[:-1])
    with pytest.raises(ValueError, match="one label for each of"):
        make().fit(table, y)


def test_a_table_of_no_rows_is_refused_in_fit():
    with pytest.raises(DataValueError, match="no rows"):
        make().fit(mixed_table()[:0], [])
