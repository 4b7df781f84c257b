"""Nothing malformed gets past the border, and rows are numbered as the kernels want them."""

import tracemalloc

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.errors import DataValueError, FeatureRangeError
from rafm.rows.checked import DENSE_IDS, Batch, Numbering, check_batch, number_rows
from rafm.rows.stats import survey

HUGE = 3_000_000_000


def batch(indptr, indices, values=None, n_features=5, **columns):
    values = np.ones(len(indices)) if values is None else np.array(values)
    return Batch(np.array(indptr), np.array(indices), values, n_features, **columns)


# ---- Checks

MALFORMED = {
    "indptr falls": (batch([0, 2, 1, 3], [0, 1, 2]), "never fall"),
    "indptr starts late": (batch([1, 2], [0, 1]), "start at 0"),
    "indptr is empty": (batch([], []), "start at 0"),
    "indptr is a table": (batch([[0, 1]], [0]), "start at 0"),
    "indptr ends early": (batch([0, 1, 2], [0, 1, 2]), "indptr ends at 2, but there are 3 ids and 3 values"),
    "indptr ends late": (batch([0, 1, 9], [0, 1, 2]), "indptr ends at 9"),
    "too few values": (batch([0, 1, 2], [0, 1], [1.0]), "2 ids and 1 values"),
    "ids are not whole": (batch([0, 1], [0.5]), "whole numbers, found type float64"),
    "ids are not numbers": (batch([0, 1], [np.nan]), "whole numbers, found type float64"),
    "id too large": (batch([0, 1, 3], [0, 1, 5]), "row 1 has feature id 5, but ids must lie between 0 and 4"),
    "id far too large": (batch([0, 1], [2**40]), "feature id 1099511627776"),
    "id negative": (batch([0, 0, 2], [4, -1]), "row 1 has feature id -1"),
    "value is NaN": (batch([0, 1, 2], [0, 1], [1.0, np.nan]), "row 1 has a value that is NaN, infinite"),
    "value is infinite": (batch([0, 1, 2], [0, 1], [-np.inf, 1.0]), "row 0"),
    "value beyond float32": (batch([0, 1], [0], [1e39]), "beyond float32"),
    "too few labels": (batch([0, 1, 2], [0, 1], labels=np.array([1.0])), "one label for each of 2 rows"),
    "labels are a table": (batch([0, 1], [0], labels=np.array([[1.0]])), r"found shape \(1, 1\)"),
    "label is NaN": (batch([0, 1, 2], [0, 1], labels=np.array([1.0, np.nan])), "label of row 1 is not finite"),
    "label beyond float32": (batch([0, 1], [0], labels=np.array([-1e300])), "label of row 0 is not finite"),
    "too many weights": (batch([0, 1], [0], weights=np.ones(2)), "one sample weight for each of 1 rows"),
    "weight is negative": (batch([0, 1, 2], [0, 1], weights=np.array([1, -2])), "sample weight of row 1 is -2"),
    "weight is NaN": (batch([0, 1], [0], weights=np.array([np.nan])), "sample weight of row 0 is not finite"),
}


@pytest.mark.parametrize(("rows", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_rows_are_refused(rows, message):  # cases 50 and 53
    with pytest.raises((DataValueError, FeatureRangeError), match=message) as caught:
        check_batch(rows)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, FeatureRangeError) == ("feature id" in message)


LAYOUTS = {
    "float16": lambda array: array.astype(np.float16) if array.dtype == np.float32 else array.astype(np.int16),
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "every second element": lambda array: np.repeat(array, 2)[::2],
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_the_input_does_not_matter(layout):  # case 52
    """Numbered rows are always of the same types, so that nothing is compiled twice."""
    values, labels, weights = (np.array(column, np.float32) for column in ([1, 2, -0.5], [0, 1], [1, 2]))
    plain = batch([0, 2, 3], [4, 0, 2], values, labels=labels, weights=weights)
    other = Batch(
        layout(plain.indptr),
        layout(plain.indices),
        layout(plain.values),
        5,
        layout(plain.labels),
        layout(plain.weights),
    )
    expected, found = (number_rows(check_batch(rows), Numbering(np.arange(5), 5)) for rows in (plain, other))
    for name, left, right in zip(expected._fields, expected, found):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype, name
        assert right.flags.writeable, name
        assert right.flags.c_contiguous, name


def test_rows_without_features_pass():
    checked = check_batch(Batch(np.array([0, 0]), np.array([]), np.array([]), 0))
    assert checked.n_rows == 1
    assert np.issubdtype(checked.indices.dtype, np.integer)


# ---- Counts


@st.composite
def ragged(draw, largest=20):
    """Draw rows of distinct ids in any order, zeros among their values; and a weight for each, maybe 0."""
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        ids = draw(st.lists(st.integers(0, largest), unique=True, max_size=8))
        values = draw(st.lists(st.sampled_from([0.0, 1.0, -2.5, 0.125]), min_size=len(ids), max_size=len(ids)))
        rows.append((ids, values))
    weights = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(rows), max_size=len(rows)))
    indptr = np.cumsum([0, *(len(ids) for ids, _ in rows)])
    columns = [np.array([number for row in rows for number in row[part]]) for part in range(2)]
    return rows, check_batch(Batch(indptr, *columns, largest + 1, weights=np.array(weights)))


def counted(*batches):
    """Return ids and counts of the features of some blocks."""
    found = survey(batches)
    return found.ids, found.counts


@given(drawn=ragged())
def test_counts_leave_out_stored_zeros_and_rows_of_weight_0(drawn):  # case 30
    rows, checked = drawn
    expected = {}
    for (ids, values), weight in zip(rows, checked.weights):
        for feature, value in zip(ids, values):
            if value != 0 and weight > 0:
                expected[feature] = expected.get(feature, 0) + 1
    ids, counts = counted(checked)
    assert dict(zip(ids.tolist(), counts.tolist())) == expected
    assert ids.tolist() == sorted(expected)


def test_counts_do_not_depend_on_the_range_of_the_ids():
    indices = np.array([7, 3, 7, 0])
    small, large = (
        counted(check_batch(Batch(np.array([0, 4]), indices + shift, np.ones(4), DENSE_IDS + 9)))
        for shift in (0, DENSE_IDS)
    )
    np.testing.assert_array_equal(large[0], small[0] + DENSE_IDS)
    np.testing.assert_array_equal(large[1], small[1])


# ---- Numbers


@given(drawn=ragged(), known=st.lists(st.integers(0, 20), unique=True), n_inputs=st.sampled_from([21, DENSE_IDS + 1]))
def test_rows_are_numbered_sorted_and_freed_of_unknown_ids_and_zeros(drawn, known, n_inputs):
    """By a table of all ids and, where that would be large, by a search; both against plain Python."""
    rows, checked = drawn
    found = number_rows(checked, Numbering(np.array(known, np.int64), n_inputs))
    assert_rows(found, [naive.numbered(row, known) for row in rows])


def assert_rows(found, expected):
    assert found.indptr.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert list(zip(found.indices.tolist(), found.values.tolist())) == [pair for row in expected for pair in row]
    assert (found.indptr.dtype, found.indices.dtype, found.values.dtype) == (np.int64, np.int32, np.float32)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("length", [8, 9, 16, 17, 64, 255, 256, 257, 1000])
def test_rows_of_any_length_are_sorted(length, repeated):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, length, length) if repeated else rng.permutation(2 * length)[:length]
    values = np.where(rng.random(length) < 0.2, 0.0, 7 * ids % 100 + 1)  # equal ids may be in any order
    known = rng.permutation(2 * length)[:length]
    checked = check_batch(
        Batch(np.array([0, length, length + 1]), np.append(ids, 0), np.append(values, 1.0), 2 * length)
    )
    found = number_rows(checked, Numbering(known, 2 * length))
    assert_rows(found, [naive.numbered(row, known.tolist()) for row in ((ids, values), ([0], [1.0]))])


def test_ids_beyond_those_of_training_are_unknown():  # case 51
    numbering = Numbering(np.array([2, 0]), n_inputs=3)
    assert numbering.lookup(np.array([0, 2, 3, HUGE])).tolist() == [1, 0, -1, -1]
    sparse = Numbering(np.array([HUGE, 5]), n_inputs=HUGE + 1)
    assert sparse.lookup(np.array([5, HUGE, HUGE + 7, 6])).tolist() == [1, 0, -1, -1]


def test_huge_ids_need_no_huge_table():  # case 22
    checked = check_batch(Batch(np.array([0, 2, 3]), np.array([HUGE, 5, HUGE]), np.ones(3), HUGE + 1))
    tracemalloc.start()
    try:
        ids, counts = counted(checked)
        found = number_rows(checked, Numbering(ids[::-1], HUGE + 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (ids.tolist(), counts.tolist()) == ([5, HUGE], [1, 2])
    assert_rows(found, [[(0, 1.0), (1, 1.0)], [(0, 1.0)]])
    assert peak < 20e6


@pytest.mark.parametrize("n_inputs", [10, HUGE])
def test_nothing_known_means_empty_rows(n_inputs):
    checked = check_batch(Batch(np.array([0, 2]), np.array([3, 9]), np.ones(2), n_inputs))
    found = number_rows(checked, Numbering(np.array([], np.int64), n_inputs))
    assert_rows(found, [[]])


def test_missing_labels_and_weights_are_zeros_and_ones():
    rows = number_rows(check_batch(batch([0, 1, 1], [3])), Numbering(np.array([3]), 5))
    assert (rows.labels.tolist(), rows.weights.tolist()) == ([0, 0], [1, 1])
