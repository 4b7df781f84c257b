"""Labels and weights come from the columns that the specification names."""

import numpy as np
import pyarrow as pa
import pytest
from tables import assert_same_rows

from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec
from rafm.errors import DataValueError


def test_labels_and_weights_come_with_the_rows_if_the_table_has_them():
    table = pa.table({"x": ["a", "b"], "y": [True, False], "w": [0.5, 2.0]})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(label="y", weight="w"))
    assert encoder.feature_names() == ["x=a", "x=b"]
    assert (rows.labels.tolist(), rows.weights.tolist()) == ([1, 0], [0.5, 2])
    assert encoder.encode(table.select(["x"])).labels is None
    assert encoder.encode(table, targets=False).labels is None
    assert TableEncoder.learn_encode(table, TableSpec(label="y", weight="w"), targets=False)[1].labels is None


@pytest.mark.parametrize(
    "words",
    [pa.array(["no", "yes"]), pa.array(["no", "yes"]).dictionary_encode(), pa.array(["no", "yes"]).cast("binary")],
)
@pytest.mark.parametrize("make", [pa.table, pa.RecordBatch.from_pydict], ids=["table", "batch"])
def test_words_come_as_they_are(words, make):
    _, rows = TableEncoder.learn_encode(make({"x": ["a", "b"], "y": words}), TableSpec(label="y"))
    assert rows.labels.tolist() == ["no", "yes"]


def test_clicks_and_impressions_become_up_to_two_weighted_rows():
    table = pa.table({"x": ["a", "b", "c", "d"], "clicks": [2, 0, 3, 0], "shown": [5, 4, 3, 0]})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(clicks="clicks", impressions="shown"))
    names = [encoder.feature_name(i) for i in rows.indices]
    assert list(zip(names, rows.labels, rows.weights)) == [
        ("x=a", 1, 2),
        ("x=a", 0, 3),
        ("x=b", 0, 4),
        ("x=c", 1, 3),
    ]
    assert_same_rows(encoder.encode(table), rows)
    assert encoder.encode(table, targets=False).n_rows == 4
    assert encoder.encode(table.select(["x", "clicks"])).n_rows == 4


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [[1], [0]]}, "column 'y' must hold numbers, but its type is list"),
        ({"w": ["1", "0"]}, "column 'w' must hold numbers, but its type is string"),
        ({"y": [1, None]}, r"row 2 \(counted from 1\): column 'y' must have a number in every row, found nan"),
        ({"y": ["a", None]}, r"row 2 \(counted from 1\): column 'y' must have a label in every row"),
        ({"y": [True, None]}, r"row 2 \(counted from 1\): column 'y' must have a label in every row"),
        ({"y": [1.0, np.inf]}, r"row 2 \(counted from 1\): column 'y' must be finite and at most 3.4e38"),
        ({"y": [1.0, 1e39]}, r"row 2 \(counted from 1\): column 'y' must be finite and at most 3.4e38"),
        ({"w": [1, -2]}, r"row 2 \(counted from 1\): weight 'w' must not be negative, found -2"),
        ({"c": [1, 3], "i": [1, 2]}, r"row 2 \(.*clicks 'c' must not exceed impressions 'i', found 3"),
        ({"c": [-1, 1], "i": [1, 2]}, r"row 1 \(counted from 1\): clicks 'c' must not be negative, found -1"),
    ],
)
def test_labels_and_weights_that_cannot_be_are_refused(columns, message):
    keys = {"y": "label", "w": "weight", "c": "clicks", "i": "impressions"}
    spec = TableSpec(**{keys[name]: name for name in columns})
    with pytest.raises(DataValueError, match=message):
        TableEncoder.learn_encode(pa.table({"x": ["a", "b"], **columns}), spec)
