"""Rows of Python values score as the same rows in a table or matrix do, to the bit."""

import datetime
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fitted import RANKS, long_tail, make, scores_of, two_fields
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import mixed, spec_of

from rafm import Scorer, load
from rafm.encode.cell_columns import batch_of_columns
from rafm.encode.encoder import TableEncoder
from rafm.encode.id_lists import rows_of_lists
from rafm.encode.raw_rows import TableRows
from rafm.errors import DataValueError
from rafm.rows.checked import check_batch
from rafm.scorer import MANY_ROWS

CELLS = {  # cells that each column of `columns` is learnt from
    "word": ["a", "b", "b", "é", "<rare>", None],
    "code": [1, 2, 2, -7, 10**12, None],
    "half": [0.5, 2.0, 2.0, 1e300, None, 0.1],
    "flag": [True, False, True, None, True, True],
    "day": [datetime.datetime(2024, 1, day) for day in (1, 2, 2, 3, 4, 5)],
    "size": [1.5, -2.0, 3.0, None, 1e10, 0.0],
    "whole": [3, 4, 5, 6, 7, None],
    "bin": [0.0, 1.0, 2.0, 3.0, None, 5.5],
    "log": [1, 3, 3, 50, 1000, None],
    "agent": ["x", "y", None, "z", "x", "w"],
    "when": [datetime.datetime(2024, 1, 1, hour) for hour in (0, 5, 5, 9, 23, 1)],
    "text_time": ["2024-01-01T05:00", "2024-01-02", None, "2024-01-03 10:00", "2024-01-01", "2024-01-01"],
    "tags": [["a", "b"], ["b"], [], None, ["c", "a", "b"], ["b", "b"]],
    "numbers": [[1, 2], [2], [], None, [3], [1]],
    "joined": ["a|b", "b", "", None, "c| a|b", "b|b"],
}
KINDS = {
    **{name: {"kind": "category", "min_count": 2} for name in ("word", "code", "half", "flag", "day")},
    **dict.fromkeys(("size", "whole"), "number"),
    "bin": {"kind": "bins", "n_bins": 3},
    "log": "log_bins",
    "agent": {"kind": "category", "hash_size": 5},
    **dict.fromkeys(("when", "text_time"), "datetime"),
    "tags": {"kind": "list", "scale": "1/sqrt(n)", "min_count": 2},
    "numbers": {"kind": "list", "scale": "1/n"},
    "joined": {"kind": "list", "separator": "|"},
}
TEXTS = st.sampled_from(
    ["a", "b", "é", "x", "<rare>", "", "a|b", "b|b|zz", "2024-01-01", "2024-01-03 10:00", "\0"]
) | st.text(max_size=3)
INTEGERS = st.sampled_from([0, 1, 2, 3, -7, 50, 10**12, 2**53 + 1, 2**63, 2**64, -(2**63)]) | st.integers(-9, 9)
FLOATS = st.floats(width=64) | st.sampled_from([0.5, 2.0, 3.0, 1e300, 0.1, -0.0, 1e-50])
TIMES = st.datetimes(datetime.datetime(1999, 1, 1), datetime.datetime(2050, 1, 1))
SINGLE = st.one_of(st.none(), TEXTS, INTEGERS, FLOATS, st.booleans(), TIMES)
ANY = SINGLE | st.lists(TEXTS | st.none(), max_size=4) | st.lists(INTEGERS, max_size=3)


@pytest.fixture(scope="module")
def encoders():
    """Return an encoder of each column by itself."""
    return {name: TableEncoder.learn(pa.table({name: CELLS[name]}), spec_of(**{name: KINDS[name]})) for name in CELLS}


def by_table(encoder, name, cell):
    """Return the features of a cell by way of a table; None if it is refused."""
    try:
        batch = encoder.encode(pa.table({name: pa.array([cell], from_pandas=True)}), targets=False)
    except (DataValueError, pa.ArrowException, OverflowError, TypeError, UnicodeError):
        return None
    return sorted(zip(batch.indices.tolist(), batch.values.tolist()))


def by_itself(encoder, name, cell):
    ids, values = [], []
    try:
        TableRows(encoder).add({name: cell}, 0, ids, values)
    except DataValueError:
        return None
    with np.errstate(over="ignore"):
        return sorted(zip(ids, np.array(values, np.float32).tolist()))


@pytest.mark.parametrize("name", CELLS)
@given(cell=ANY)
def test_a_cell_has_the_features_that_it_has_in_a_table(encoders, name, cell):
    if name in ("day", "when") and isinstance(cell, str):
        return  # refused in a table; as a Python value, text stands for a time, since JSON has none
    assert by_itself(encoders[name], name, cell) == by_table(encoders[name], name, cell)


PLAIN = {  # what makes up most columns; anything else is encoded cell by cell
    "text": TEXTS,
    "integers": INTEGERS,
    "numbers": INTEGERS | FLOATS,
    "booleans": st.booleans(),
    "lists": st.lists(TEXTS | st.none(), max_size=4),
    "anything": ANY,
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("name", CELLS)
@given(data=st.data())
@settings(max_examples=15)
def test_a_list_of_cells_has_the_features_that_each_cell_has(encoders, name, kind, data):
    cells, encoder = data.draw(st.lists(PLAIN[kind] | st.none(), min_size=1, max_size=5)), encoders[name]
    batch, one_by_one = batch_of_columns(encoder, {name: cells}), [by_itself(encoder, name, cell) for cell in cells]
    if batch is None:
        return
    try:
        rows = encoder.encode(batch, targets=False)
    except DataValueError:
        assert None in one_by_one
        return
    ends = zip(rows.indptr, rows.indptr[1:])
    assert [sorted(zip(rows.indices[a:b].tolist(), rows.values[a:b].tolist())) for a, b in ends] == one_by_one


def test_lists_of_plain_cells_are_encoded_as_columns(encoders):
    plain = {name: CELLS[name] for name in CELLS if name not in ("day", "when", "numbers")}
    for name, cells in plain.items():
        assert batch_of_columns(encoders[name], {name: cells}) is not None, name


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_training_and_numpy_scalars_are_known(encoders, name):
    for cell in CELLS[name]:
        assert by_itself(encoders[name], name, cell) == by_table(encoders[name], name, cell) is not None
        if isinstance(cell, int | float):
            assert by_itself(encoders[name], name, np.array([cell])[0]) == by_itself(encoders[name], name, cell)


def test_text_of_a_time_counts_as_the_time(encoders):
    for text, hour in (("2024-01-01T05:00", 5), ("2024-01-03 23:30:00", 23)):
        time = datetime.datetime.fromisoformat(text)
        assert by_itself(encoders["when"], "when", text) == by_itself(encoders["when"], "when", time)
        assert (hour, 1.0) in by_itself(encoders["when"], "when", text)
    assert by_itself(encoders["when"], "when", "noon") is None


def family(model, task="binary"):
    X, y = two_fields(task)[0] if model == "mrma" else long_tail(task)
    return make(task, model, n_epochs=2).fit(X, y), X


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("model", RANKS)
def test_every_family_scores_rows_of_ids_as_it_scores_the_matrix(model, task, tmp_path):
    estimator, X = family(model, task)
    estimator.save(tmp_path / "m.rafm")
    scorer, X = Scorer(tmp_path / "m.rafm"), X[:40].tocsr()
    expected = scores_of(estimator, X)
    rows = [dict(zip(row.indices.tolist(), row.data.tolist())) for row in X]
    np.testing.assert_array_equal([scorer.score(row) for row in rows], expected)
    np.testing.assert_array_equal(scorer.score(rows), expected)
    dense = [tuple(row) for row in X.toarray().tolist()]
    np.testing.assert_array_equal([scorer.score(row) for row in dense], expected)
    predicted = estimator.predict_proba(X)[:, 1] if task == "binary" else estimator.predict(X)
    np.testing.assert_array_equal(scorer.predict(rows), predicted)
    np.testing.assert_array_equal([scorer.predict({str(id): x for id, x in row.items()}) for row in rows], predicted)


@pytest.fixture(scope="module")
def of_table(tmp_path_factory):
    """Return an estimator of a table with columns of every kind, its scorer and new rows."""
    table, spec = mixed(600)
    path = tmp_path_factory.mktemp("scorer") / "m.rafm"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = table.drop_columns(["y", "w"])
        kinds = {**spec.to_dict()["columns"], "price": "number"}
        estimator = make(columns=kinds, field_weights="on").fit(columns, table["y"].to_numpy())
    estimator.save(path)
    return load(path), Scorer(path), mixed(80, seed=1)[0].drop_columns(["y", "w"])


def test_rows_of_a_table_score_as_in_the_table(of_table):
    estimator, scorer, table = of_table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = estimator.decision_function(table)
    rows = table.to_pylist()
    np.testing.assert_array_equal([scorer.score(row) for row in rows], expected)
    np.testing.assert_array_equal(scorer.score(rows), expected)
    assert scorer.columns == tuple(table.column_names)
    np.testing.assert_array_equal([scorer.score(tuple(row.values())) for row in rows], expected)
    assert np.unique(expected).size > 40


def test_many_rows_and_tables_score_as_single_rows(of_table):
    _, scorer, table = of_table
    rows = [{**row, "when": str(row["when"])} for row in table.to_pylist()] * 3
    assert len(rows) > MANY_ROWS
    expected = [scorer.score(row) for row in rows[:80]] * 3
    np.testing.assert_array_equal(scorer.score(rows), expected)
    np.testing.assert_array_equal(scorer.score([tuple(row.values()) for row in rows]), expected)
    columns = {name: [row[name] for row in rows] for name in reversed(scorer.columns)}
    np.testing.assert_array_equal(scorer.score_table(columns), expected)
    np.testing.assert_array_equal(scorer.score_table(table), expected[:80])
    np.testing.assert_array_equal(scorer.score_table(table.to_batches()[0]), expected[:80])
    odd = [*rows[:-1], {**rows[-1], "when": table["when"][79].as_py()}]  # of another type: row by row
    np.testing.assert_array_equal(scorer.score(odd), expected)
    for name, wrong, message in (("user", True, "column 'user'"), ("price", 1e300, "row 171 .*: a value is")):
        with pytest.raises(DataValueError, match=message):
            scorer.score([*rows[:170], {**rows[170], name: wrong}, *rows[171:]])
    with pytest.raises(DataValueError, match="row 171: column 'tags' is missing"):
        scorer.score([*rows[:170], {name: cell for name, cell in rows[170].items() if name != "tags"}, *rows[171:]])
    with pytest.raises(DataValueError, match="same number of cells"):
        scorer.score_table({**columns, "user": [1]})
    with pytest.raises(DataValueError, match="column 'user' is missing"):
        scorer.score_table({name: cells for name, cells in columns.items() if name != "user"})


def lists_of(X, kind=np.float64):
    rows = [*X]
    return pa.table({"ids": [row.indices for row in rows], "values": [row.data.astype(kind) for row in rows]})


@pytest.mark.parametrize("base", [0, 1])
def test_lists_of_ids_score_as_the_matrix(base, tmp_path):
    estimator, X = family("rafm")
    estimator.save(tmp_path / "m.rafm")
    saved = replace(Scorer(tmp_path / "m.rafm").saved, index_base=base)
    scorer, X = Scorer.of(saved), X[:40].tocsr()
    table = lists_of(X)
    table = table.set_column(0, "ids", pa.array([[id + base for id in row] for row in table["ids"].to_pylist()]))
    np.testing.assert_array_equal(scorer.score_table(table), scores_of(estimator, X))
    np.testing.assert_array_equal(scorer.score_table(pa.concat_tables([table, table]).slice(35, 10)).size, 10)
    ones = [dict.fromkeys(row, 1.0) for row in table["ids"].to_pylist()]
    np.testing.assert_array_equal(scorer.score_table(table.select(["ids"])), scorer.score(ones))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"values": [[1.0]]}, "expected the columns 'ids' and 'values'"),
        ({"ids": [[1]], "x": [[1]]}, "expected the columns"),
        ({"ids": [1]}, "must have lists"),
        ({"ids": [[1], None]}, "must have lists without nulls"),
        ({"ids": [[1, None]]}, "integers without nulls"),
        ({"ids": [[0.5]]}, "integers"),
        ({"ids": [[1]], "values": [["a"]]}, "lists of numbers"),
        ({"ids": [[1], [2]], "values": [[1.0, 2.0], []]}, "same lengths"),
        ({"ids": [[1], [2]], "values": [[1.0], [None]]}, "row 2 .*: a value is NaN"),
        ({"ids": [[1], [-2]]}, "row 2 has a feature id that is too small"),
        ({"ids": [[3], [1, 2, 1]]}, "row 2: a feature id occurs twice"),
        ({"ids": pa.array([[2**63]], pa.list_(pa.uint64()))}, "does not fit in 64 bits"),
    ],
)
def test_bad_lists_of_ids_are_refused(columns, message):
    with pytest.raises(DataValueError, match=message):
        check_batch(rows_of_lists(pa.table(columns), n_inputs=5))


def test_threads_share_a_scorer(of_table):
    _, scorer, table = of_table
    rows, found = table.to_pylist(), {}
    expected = scorer.score(rows)

    def score(number):
        found[number] = [scorer.score(row) for row in rows]

    threads = [threading.Thread(target=score, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(np.array_equal(found[number], expected) for number in range(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": True}, r"column 'user' was number in training"),
        ({"price": float("inf")}, r"column 'price', row 1: inf is not finite"),
        ({"price": 1e300}, r"row 1 .*: a value is NaN, infinite or out of float32 range"),
        ({"user": 2**70}, r"column 'user'"),
        ({"word": ["w1"]}, r"column 'word'"),
        ({"word": object()}, r"column 'word'"),
        ({"agent": "\ud800"}, r"column 'agent'"),
    ],
)
def test_a_bad_cell_is_refused_with_its_column(of_table, change, message):
    _, scorer, table = of_table
    row = {**table.to_pylist()[0], **change}
    for rows in (row, [row]):
        with pytest.raises(DataValueError, match=message):
            scorer.score(rows)


def test_rows_of_another_shape_are_refused(of_table, tmp_path):
    _, scorer, table = of_table
    row = table.to_pylist()[0]
    with pytest.raises(DataValueError, match=r"row 2: column 'tags' is missing; use None \(null in JSON\) for"):
        scorer.score([row, {name: cell for name, cell in row.items() if name != "tags"}])
    with pytest.raises(DataValueError, match=r"row 1: expected 8 cells .* found 1"):
        scorer.score(("w1",))
    with pytest.raises(DataValueError, match="row 1: expected a dict or a tuple"):
        scorer.score("w1")
    with pytest.warns(UserWarning, match="ignoring columns .*: colour"):
        scorer.score({**row, "colour": "red"})
    assert scorer.score([]).shape == (0,)
    scorer.score({**row, "colour": "red"})  # said once
    estimator, _ = family("fm")
    estimator.save(tmp_path / "ids.rafm")
    ids = Scorer(tmp_path / "ids.rafm")
    bad = [{-1: 1.0}, {"x": 1.0}, {True: 1.0}, {1: "1"}, {1: None}, {1: 1.0, "1": 1.0}, (1.0, 2.0), 7]
    for wrong in bad:
        with pytest.raises(DataValueError, match="row 1"):
            ids.score(wrong)
    assert ids.score({10**15: 1.0}) == ids.score({}) == ids.score({3: 0.0, 4: 1e-60})


def test_a_scorer_needs_neither_scikit_learn_nor_pandas(of_table, tmp_path):
    estimator, scorer, table = of_table
    estimator.save(tmp_path / "m.rafm")
    row = table.to_pylist()[0]
    program = f"""
import sys, datetime
class Absent:
    def find_spec(self, name, *_):
        if name in ("sklearn", "pandas", "polars", "typer"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import rafm
print(rafm.Scorer(sys.argv[1]).score({row!r}))"""
    ran = subprocess.run([sys.executable, "-c", program, tmp_path / "m.rafm"], capture_output=True, text=True)
    assert ran.stderr == ""
    assert float(ran.stdout) == scorer.score(row)


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_a_model_of_few_bits_scores_rows_as_it_scores_the_table(of_table, bits, tmp_path):
    estimator, _, table = of_table
    estimator.compress(bits=bits).save(tmp_path / "small.rafm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = load(tmp_path / "small.rafm").decision_function(table)
    scorer, rows = Scorer(tmp_path / "small.rafm"), table.to_pylist()
    np.testing.assert_array_equal([scorer.score(row) for row in rows], expected)
