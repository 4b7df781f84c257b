"""Tables become rows and can be read back from them; another table is understood by the names of its columns."""

import decimal
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from drawing import examples
from fitted import long_tail, make, mixed_table
from hypothesis import given
from hypothesis import strategies as st
from tables import assert_same_rows, cells_of, features_of, mixed, spec_of

from rafm.encode.coverage import ColumnCounts, Coverage
from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.encode.table_blocks import BLOCK_ROWS
from rafm.errors import ConfigError, DataValueError, UnseenValuesWarning
from rafm.read.frames import as_table, is_frame
from rafm.rows.blocks import join_rows

TABLE = pa.table(
    {"city": ["Rome", "Oslo", None, "Rome"], "ok": [True, None, False, True], "age": [30.5, 40.0, 50.0, 60.5]}
)


# Round trips


def test_every_cell_of_the_example_becomes_the_feature_that_names_it():
    encoder = TableEncoder.learn(TABLE, spec_of(age="number"))
    assert encoder.feature_names() == [
        "age",
        *("city=Oslo", "city=Rome", "city=<missing>"),
        *("ok=false", "ok=true", "ok=<missing>"),
    ]
    assert [encoder.feature_name(i) for i in range(7)] == encoder.feature_names()
    found = cells_of(encoder, encoder.encode(TABLE))
    assert [row["city"] for row in found] == ["Rome", "Oslo", None, "Rome"]
    assert [row["ok"] for row in found] == ["true", None, "false", "true"]
    ages = TABLE["age"].to_numpy()
    # mean and spread keep 20 bits
    np.testing.assert_allclose([row["age"] for row in found], (ages - ages.mean()) / ages.std(), rtol=4e-6)


@pytest.mark.parametrize("id", [-1, 7])
def test_a_feature_that_is_none_has_no_name(id):
    with pytest.raises(IndexError, match=f"feature {id} of 7"):
        TableEncoder.learn(TABLE, spec_of(age="number")).feature_name(id)


words = st.lists(st.none() | st.text(max_size=6), min_size=1, max_size=12)
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.binary()]
SPECIAL = ["", "<missing>", "<rare>", "\\", "\\<missing>", "=", "a=b", "#3", "\0", "\U0001f600"]


@given(
    st.dictionaries(
        st.text(max_size=4) | st.sampled_from(SPECIAL),
        st.tuples(st.sampled_from(KINDS), st.randoms()),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 8),
    st.data(),
)
def test_tables_of_categories_can_be_read_back_by_the_names_of_features(names, n_rows, data):
    cells = st.none() | st.text(max_size=6) | st.sampled_from(SPECIAL)
    columns = {name: data.draw(st.lists(cells, min_size=n_rows, max_size=n_rows)) for name in names}
    table = pa.table({name: pa.array(columns[name], pa.string()).cast(kind) for name, (kind, _) in names.items()})
    spec = spec_of(**dict.fromkeys(names, "category"))
    encoder = TableEncoder.learn(table, spec)
    assert len(set(encoder.feature_names())) == encoder.n_features
    found = cells_of(encoder, encoder.encode(table))
    assert {name: [row[name] for row in found] for name in names} == columns
    both = TableEncoder.learn_encode(table, spec)
    assert both[0] == encoder
    assert_same_rows(both[1], encoder.encode(table))


def test_columns_with_equals_signs_in_their_names_are_told_apart():
    encoder = TableEncoder.learn(pa.table({"a": ["b=c"], "a=b": ["c"], "a\\": ["=b=c"]}))
    assert encoder.feature_names() == ["a=b=c", "a\\=b=c", "a\\\\==b=c"]


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_numbers_can_be_read_back_and_missing_ones_count_as_the_mean(column):
    table = pa.table({"x": pa.array(column, pa.float64())})
    encoder = TableEncoder.learn(table, spec_of(x="number"))
    coder = encoder.columns[0].coder
    found = cells_of(encoder, encoder.encode(table))
    assert [row["x"] is None for row in found] == [value is None for value in column]
    known = [value for value in column if value is not None]
    values = [row["x"] * coder.spread + coder.mean for row in found if row["x"] is not None]
    # float32 keeps 24 bits of each standardised value
    np.testing.assert_allclose(values, known, rtol=1e-6, atol=1e-6 * (1 + np.abs(known).max(initial=0)))
    if known:
        assert coder.mean == pytest.approx(np.mean(known), rel=1e-9, abs=2e-6 * np.std(known) + 1e-12)


@examples(0.3)
@given(words, st.randoms())
def test_an_encoder_does_not_depend_on_the_order_of_rows_nor_on_chunks(column, random):
    shuffled = random.sample(column, len(column))
    cut = random.randrange(len(column) + 1)
    chunks = pa.chunked_array([shuffled[:cut], [], shuffled[cut:]], pa.string())
    table, spec = pa.table({"c": pa.array(column, pa.string())}), spec_of(c="category")
    encoder = TableEncoder.learn(pa.table({"c": chunks}), spec)
    assert encoder == TableEncoder.learn(table, spec)
    assert [row["c"] for row in cells_of(encoder, encoder.encode(pa.table({"c": chunks})))] == shuffled


def test_permuting_columns_changes_nothing():
    table, spec = mixed(100)
    encoder, names = TableEncoder.learn(table, spec), table.column_names[::-1]
    assert TableEncoder.learn(table.select(names), spec) == encoder
    assert_same_rows(encoder.encode(table.select(names)), encoder.encode(table))


def test_permuting_rows_changes_no_encoding_of_a_value():
    table, spec = mixed(3000)
    order = np.random.default_rng(1).permutation(3000)
    encoder, shuffled = TableEncoder.learn(table, spec), table.take(order)
    again = TableEncoder.learn(shuffled, spec)
    assert again == encoder
    rows, found = encoder.encode(table), again.encode(shuffled)
    for at, row in enumerate(order[:200]):
        a, b = (slice(batch.indptr[r], batch.indptr[r + 1]) for batch, r in ((rows, row), (found, at)))
        np.testing.assert_array_equal(found.indices[b], rows.indices[a])
        np.testing.assert_array_equal(found.values[b], rows.values[a])
        assert found.labels[at] == rows.labels[row]
        assert found.weights[at] == rows.weights[row]


@pytest.mark.parametrize("cut", [1, 7, 99, 100])
def test_batches_are_learnt_and_encoded_like_the_whole_table(cut):
    table, spec = mixed(100)
    pieces = [table.slice(at, cut).to_batches()[0] for at in range(0, 100, cut)]
    encoder = TableEncoder.learn(table, spec)
    assert TableEncoder.learn(iter(pieces), spec) == encoder
    both = TableEncoder.learn_encode(iter(pieces), spec)
    assert both[0] == encoder
    assert_same_rows(both[1], encoder.encode(table))
    assert_same_rows(encoder.encode(pa.Table.from_batches(pieces)), encoder.encode(table))
    np.testing.assert_array_equal(
        np.concatenate([encoder.encode(piece).indices for piece in pieces]), encoder.encode(table).indices
    )


def test_tables_longer_than_a_block_are_encoded_like_short_ones():
    n = BLOCK_ROWS + 3
    table = pa.table({"c": [f"v{i % 1000}" for i in range(n)], "y": np.arange(n)})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(label="y"))
    assert rows.n_rows == n
    assert_same_rows(encoder.encode(table), rows)
    np.testing.assert_array_equal(rows.labels, np.arange(n, dtype=np.float32))
    assert encoder.feature_name(int(rows.indices[-1])) == f"c=v{(n - 1) % 1000}"
    assert encoder.reader_columns() == {"c": "text", "y": "number"}
    empty = TableEncoder.learn(pa.table({"price": pa.nulls(2)}), spec_of(price="bins"))
    assert empty.reader_columns() == {"price": "bins"}  # the words for a missing number are none
    coded = table.set_column(0, "c", table["c"].dictionary_encode())
    assert_same_rows(TableEncoder.learn(coded, TableSpec(label="y")).encode(coded), rows)


def test_an_encoder_can_be_copied_to_another_process():
    table, spec = mixed(100)
    encoder = TableEncoder.learn(table, spec)
    encoder.encode(table)
    copy = pickle.loads(pickle.dumps(encoder))
    assert copy == encoder
    assert_same_rows(copy.encode(table), encoder.encode(table))


# What a table may be


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pa.array([1, 2], pa.int8()), "category"),
        (pa.array([1, 2], pa.uint64()), "category"),
        (pa.array([1, 2], pa.float32()), "category"),
        (pa.array([np.float16(1.5), None], pa.float16()), "bins"),
        (pa.array([decimal.Decimal("1.50"), None]), "bins"),
        (pa.array(["a", "b"]), "category"),
        (pa.array([b"a", b"b"]), "category"),
        (pa.array([True, False]), "category"),
        (pa.array([None, None]), "category"),
        (pa.array([3, 4]).dictionary_encode(), "category"),
        (pa.array([[1], [2]]), "list"),
        (pa.array([0, 1], pa.timestamp("s")), "datetime"),
    ],
    ids=str,
)
def test_every_type_of_cell_has_its_kind_and_can_be_encoded(cells, kind):
    table = pa.table({"c": cells})
    encoder, rows = TableEncoder.learn_encode(table)
    assert encoder.columns[0].kind == kind
    assert rows.n_rows == 2
    assert_same_rows(encoder.encode(table), rows)


@pytest.mark.parametrize(
    "cells", [pa.array([{"a": 1}]), pa.array([0], pa.duration("s")), pa.array([0], pa.time32("s"))]
)
def test_other_types_are_refused_with_the_name_of_the_column(cells):
    with pytest.raises(DataValueError, match=r"column 'odd' has type .*; convert it to text, a category, a number"):
        TableEncoder.learn(pa.table({"odd": cells}))


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(DataValueError, match="column 'x' has bytes that are not UTF-8 text"):
        TableEncoder.learn(pa.table({"x": [b"\xff"]}))


def test_a_kind_that_does_not_suit_the_type_is_refused():
    with pytest.raises(DataValueError, match="cannot be encoded as number; give it numbers or booleans"):
        TableEncoder.learn(pa.table({"x": ["a"]}), spec_of(x="number"))


def test_two_columns_of_one_name_are_refused():
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["c", "c"])
    with pytest.raises(DataValueError, match="two columns are named 'c'"):
        TableEncoder.learn(twice)
    with pytest.raises(DataValueError, match="two columns are named 'c'"):
        TableEncoder.learn(pa.table({"c": ["a"]})).encode(twice)


def test_a_column_that_the_specification_names_must_be_there():
    with pytest.raises(ConfigError, match="unknown column 'ctiy'; did you mean 'city'"):
        TableEncoder.learn(TABLE, spec_of(ctiy="category"))
    with pytest.raises(ConfigError, match="unknown column 'oks'; did you mean 'ok'"):
        TableEncoder.learn(TABLE, TableSpec(label="oks"))
    assert TableEncoder.learn(TABLE, spec_of(zip="ignore", age="number")).n_features == 7


def test_batches_must_agree_in_their_columns_and_types():
    first, other = (pa.RecordBatch.from_pydict({name: ["a"]}) for name in ("x", "z"))
    with pytest.raises(DataValueError, match="column 'x' is missing in some of the batches"):
        TableEncoder.learn([first, other])
    with pytest.raises(DataValueError, match="column 'x' was text, but from row 2 on it is int64"):
        TableEncoder.learn([first, pa.RecordBatch.from_pydict({"x": [1]})])
    empty = pa.RecordBatch.from_pydict({"x": pa.nulls(1)})
    assert TableEncoder.learn([empty, first, empty]).feature_names() == ["x=a", "x=<missing>"]


def test_no_rows_are_encoded_as_no_rows_and_teach_nothing():
    encoder = TableEncoder.learn(TABLE, spec_of(age="number"))
    assert (encoder.encode(TABLE[:0]).n_rows, encoder.encode(TABLE[:0]).n_features) == (0, 7)
    for nothing in (TABLE[:0], [], iter([TABLE[:1].to_batches()[0][:0]])):
        with pytest.raises(DataValueError, match="no rows to learn"):
            TableEncoder.learn(nothing)


def test_the_choice_of_kinds_is_reported_and_columns_may_be_ignored():
    told = []
    encoder = TableEncoder.learn(TABLE, spec_of(ok="ignore"), report=told.append)
    assert told == [
        "ok     bool     ignore     as given\ncity   string   category   text\nage    double   bins       has fractions"
    ]
    assert [column.name for column in encoder.columns] == ["age", "city"]
    only = TableSpec((ColumnSpec("ok"),), others="ignore")
    assert [column.name for column in TableEncoder.learn(TABLE, only).columns] == ["ok"]


def test_missing_values_are_refused_if_they_are_to_be_errors():  # case 47
    spec = TableSpec(missing="error")
    with pytest.raises(DataValueError, match="column 'city', row 3: a value is missing; fill it, or set missing"):
        TableEncoder.learn(TABLE.select(["city"]), spec)
    table = pa.table({"city": ["Rome"], "age": [1.5], "tags": [["a"]], "at": pa.array([0], pa.timestamp("s"))})
    encoder = TableEncoder.learn(table, spec)
    for name in table.column_names:
        broken = pa.concat_tables([table, table])
        cells = pa.array([table[name][0].as_py(), None], table[name].type)
        broken = broken.set_column(table.column_names.index(name), name, cells)
        with pytest.raises(DataValueError, match=f"column '{name}', row 2: a value is missing"):
            encoder.encode(broken)


# Another table than the one of training


def test_a_value_never_seen_changes_only_the_coverage_of_its_row():  # case 48
    table, _ = mixed(200)
    encoder, place = TableEncoder.learn(table, TableSpec(label="y", weight="w")), table.column_names.index("word")
    cells = table["word"].to_pylist()
    cells[7] = "never seen"
    other = table.set_column(place, "word", pa.array(cells))
    before, after = Coverage(), Coverage()
    expected, found = features_of(encoder, table, coverage=before), features_of(encoder, other, coverage=after)
    word = f"word={table['word'][7].as_py()}"
    assert found[7] == {name: x for name, x in expected[7].items() if name != word}
    assert found[:7] + found[8:] == expected[:7] + expected[8:]
    assert after["word"] == before["word"]._replace(known=199)
    assert (after["word"].unseen, after["word"].share, before["word"].share) == (1, 0.995, 1)
    assert after.columns | {"word": 0} == before.columns | {"word": 0}
    assert after.total.unseen == 1


def test_coverage_adds_up_over_calls_and_is_a_table_when_printed():
    encoder, coverage = TableEncoder.learn(pa.table({"x": ["a", "b"]})), Coverage()
    for cells in (["a", "q", "b"], ["q"]):
        encoder.encode(pa.table({"x": cells}), coverage=coverage)
    assert coverage["x"] == ColumnCounts(seen=4, known=2)
    assert coverage.total.share == 0.5
    assert str(coverage).split("\n")[1].split() == ["x", "4", "2", "0", "0", "2"]
    assert Coverage().total == ColumnCounts()
    assert Coverage()["never"].share == 1


def test_an_empty_cell_is_unseen_if_none_was_empty_in_training():  # case 47
    encoder, coverage = TableEncoder.learn(pa.table({"x": ["a"], "z": [1.5]})), Coverage()
    rows = encoder.encode(
        pa.table({"x": pa.array([None], pa.string()), "z": pa.array([None], pa.float64())}), coverage=coverage
    )
    assert rows.indices.size == 0
    assert coverage["x"].missing == coverage["z"].missing == 1


def test_a_value_never_seen_scores_zero_and_a_missing_one_has_its_own_weight():  # cases 47 and 48
    table, (_, y) = mixed_table(), long_tail()
    model = make(n_epochs=10, columns={"size": "number"}).fit(table, y)
    mean = model.encoder_.columns[0].coder.mean
    unseen, missing = (pd.DataFrame({"word": [word], "size": [mean]}) for word in ("unheard of", None))
    with pytest.warns(UnseenValuesWarning, match="word 100.0 % "):
        assert model.decision_function(unseen)[0] == model.model_.parameters.bias[0]
    assert model.decision_function(missing)[0] != model.model_.parameters.bias[0]


def test_columns_are_found_by_name_in_any_order():  # case 45
    encoder = TableEncoder.learn(TABLE)
    assert_same_rows(encoder.encode(TABLE.select(["age", "ok", "city"])), encoder.encode(TABLE))


def test_a_missing_column_is_refused_by_name():  # case 45
    with pytest.raises(DataValueError, match="column 'ok' is missing; the model was trained with age, city, ok"):
        TableEncoder.learn(TABLE).encode(TABLE.drop_columns(["ok"]))


def test_an_extra_column_is_left_out_with_one_warning_that_names_it():  # case 45
    encoder = TableEncoder.learn(TABLE)
    more = TABLE.append_column("zip", pa.array([1, 2, 3, 4]))
    with pytest.warns(UserWarning, match="ignoring columns .*: zip") as caught:
        found = encoder.encode(more)
    assert caught[0].filename == __file__
    assert_same_rows(found, encoder.encode(TABLE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(more)
        TableEncoder.learn(TABLE, TableSpec((ColumnSpec("ok"),), others="ignore")).encode(more)
        TableEncoder.learn(more, spec_of(zip="ignore")).encode(more)
        TableEncoder.learn(more, TableSpec(label="zip")).encode(more)


def test_a_warning_points_to_the_line_of_the_user():
    table, (_, y) = mixed_table(), long_tail()
    model = make().fit(table, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(table.assign(more=1))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("name", "cells", "message"),
    [
        ("age", ["30"], "column 'age' has type string, which cannot be encoded as bins"),
        ("city", [True], "column 'city' was text in training, now its type is bool"),
        ("ok", [1.0], "column 'ok' was boolean in training, now its type is double"),
        ("ok", [[True]], "column 'ok' has type list<.*>, which cannot be encoded as category"),
    ],
)
def test_a_column_of_another_type_is_refused_with_both_types(name, cells, message):  # case 46
    one = {"city": ["Rome"], "ok": [True], "age": [3.5], name: cells}
    with pytest.raises(DataValueError, match=message):
        TableEncoder.learn(TABLE).encode(pa.table(one))


def test_a_number_may_be_of_another_width_and_a_category_of_another_encoding():
    encoder = TableEncoder.learn(TABLE)
    other = TABLE.set_column(0, "city", TABLE["city"].dictionary_encode())
    other = other.set_column(2, "age", TABLE["age"].cast(pa.float32()))
    assert_same_rows(encoder.encode(other), encoder.encode(TABLE))


def test_files_read_by_arrow_are_encoded_batch_by_batch(tmp_path):
    table, spec = mixed(2000)
    table = table.drop_columns(["tags", "when"])
    spec = TableSpec(tuple(column for column in spec.columns if column.name != "tags"), label="y", weight="w")
    pa.csv.write_csv(table, tmp_path / "t.csv")

    def batches():
        return pa.csv.open_csv(tmp_path / "t.csv", pa.csv.ReadOptions(block_size=20_000))

    assert len(list(batches())) > 3
    encoder = TableEncoder.learn(batches(), spec)
    assert encoder == TableEncoder.learn(table, spec)
    rows = [encoder.encode(batch) for batch in batches()]
    whole = encoder.encode(table)
    np.testing.assert_array_equal(np.concatenate([part.indices for part in rows]), whole.indices)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in rows]), whole.labels)


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
    found = make().fit(frame, y)
    assert found.encoder_ == expected.encoder_
    for model in (found, expected):
        np.testing.assert_array_equal(model.decision_function(frame), expected.decision_function(table))


def test_labels_may_come_as_a_column_of_any_library():
    table, (_, y) = mixed_table(), long_tail()
    expected = make().fit(table, y).decision_function(table)
    for labels in (y.tolist(), pd.Series(y), pl.Series(y), pa.array(y)):
        np.testing.assert_array_equal(make().fit(table, labels).decision_function(table), expected)


def test_a_frame_with_named_columns_is_a_table_and_one_of_numbers_without_names_a_matrix():
    named, plain = pd.DataFrame(np.eye(4), columns=list("dbca")), pd.DataFrame(np.eye(4))
    y = [0, 1, 0, 1]
    model = make(ranks=2, model="fm").fit(named, y)
    assert [column.kind for column in model.encoder_.columns] == ["category"] * 4
    assert model.feature_names_in_.tolist() == list("dbca")
    assert make(ranks=2, model="fm").fit(plain, y).encoder_ is None
    for cell in (np.nan, "text"):
        other = plain.astype(object if cell == "text" else float)
        other.iloc[0, 0] = cell
        other[0] = other[0].astype(str) if cell == "text" else other[0]
        assert make(ranks=2, model="fm").fit(other, y).encoder_ is not None


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
    with pytest.warns(UnseenValuesWarning, match="eval_set: most values of column 'word'"):
        model = make(n_epochs=1).fit(table, y, eval_set=(other, y))
    with pytest.warns(UnseenValuesWarning):
        alone = model.decision_function(other)
    losses = np.log1p(np.exp(-np.where(y == 1, alone, -alone)))
    assert model.history_[0]["valid_log_loss"] == pytest.approx(losses.mean(), rel=1e-6)


@pytest.mark.parametrize("short", ["X", "y"])
def test_tables_and_labels_of_other_lengths_are_refused(short):  # case 53
    table, (_, y) = mixed_table(), long_tail()
    table, y = (table[:-1], y) if short == "X" else (table, y[:-1])
    with pytest.raises(ValueError, match="one label for each of"):
        make().fit(table, y)


def test_a_table_of_no_rows_is_refused_in_fit():  # case 8
    with pytest.raises(DataValueError, match="no rows"):
        make().fit(mixed_table()[:0], [])


def test_values_of_encoded_rows_can_be_written_without_changing_other_rows():
    table = pa.table({"city": ["Rome", "Oslo"]})
    encoder, learnt = TableEncoder.learn_encode(table)
    for rows in (learnt, encoder.encode(table)):
        rows.values[:] = 7
    assert encoder.encode(table).values.tolist() == [1, 1]


# Growing


GROWTHS = {
    "rare values are new, missing ones were known": (["a", "a", None], ["a", "a", "b"]),
    "missing values are new, rare ones were known": (["a", "a", "b"], ["a", "a", None]),
    "both were known": (["a", "a", "b", None], ["c", "c"]),
    "both are new": (["a", "a"], ["b", None]),
    "values are new before both": (["a", "a", "b", None], ["c", "c", "d", "d", "e", None]),
}


@pytest.mark.parametrize("kind", ["category", "list"])
@pytest.mark.parametrize(("before", "after"), GROWTHS.values(), ids=GROWTHS)
def test_every_feature_keeps_its_name_when_the_encoder_grows(before, after, kind):
    """What was learnt of missing values must not become what is known of rare ones, nor the other way round."""
    column = ColumnSpec("c", kind, separator="|" if kind == "list" else None)
    spec = TableSpec((column, ColumnSpec("z")), min_count=2)
    tables = [pa.table({"c": pa.array(cells, pa.string()), "z": ["x"] * len(cells)}) for cells in (before, after)]
    old = TableEncoder.learn(tables[0], spec)
    grown, rows = old.grow_then_encode(tables[1])
    assert [grown.feature_name(int(id)) for id in old.ids_in(grown)] == old.feature_names()
    assert_same_rows(join_rows(list(rows)), grown.encode(tables[1]))
    for table in tables:
        expected = [
            "c=<missing>" if cell is None else f"c={cell}" if f"c={cell}" in grown.feature_names() else "c=<rare>"
            for cell in table["c"].to_pylist()
        ]
        known = set(grown.feature_names())
        assert [set(row) & {*expected} for row in features_of(grown, table)] == [{name} & known for name in expected]
