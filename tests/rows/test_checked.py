"""Nothing malformed gets past the border, and rows are numbered as the kernels want them."""

import dataclasses
import mmap
import tracemalloc

import naive
import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.errors import DataValueError, FeatureRangeError
from rafm.options import resolve
from rafm.rows.arrow import new_array
from rafm.rows.blocks import cut_blocks, join_rows, pick_rows, take_rows
from rafm.rows.checked import Batch, CheckedRows, check_batch
from rafm.rows.numbering import DENSE_IDS, Numbering, number_rows
from rafm.rows.spill import SpilledRows, SpillOptions
from rafm.rows.stats import count_rows
from rafm.train.dispatch import train_model

HUGE = 3_000_000_000


def batch(indptr, indices, values=None, n_features=5, **columns):
    values = np.ones(len(indices)) if values is None else np.array(values)
    return Batch(np.array(indptr), np.array(indices), values, n_features, **columns)


# ---- Checks

MALFORMED = {
    "indptr falls": (batch([0, 2, 1, 3], [0, 1, 2]), "never decrease"),
    "indptr starts late": (batch([1, 2], [0, 1]), "start at 0"),
    "indptr is empty": (batch([], []), "start at 0"),
    "indptr is a table": (batch([[0, 1]], [0]), "start at 0"),
    "indptr ends early": (batch([0, 1, 2], [0, 1, 2]), "indptr ends at 2, but there are 3 ids and 3 values"),
    "indptr ends late": (batch([0, 1, 9], [0, 1, 2]), "indptr ends at 9"),
    "too few values": (batch([0, 1, 2], [0, 1], [1.0]), "2 ids and 1 values"),
    "ids are not whole": (batch([0, 1], [0.5]), "must be integers, found type float64"),
    "ids are not numbers": (batch([0, 1], [np.nan]), "must be integers, found type float64"),
    "id too large": (batch([0, 1, 3], [0, 1, 5]), "row 2 has feature id 5, but ids must be between 0 and 4"),
    "id far too large": (batch([0, 1], [2**40]), "feature id 1099511627776"),
    "id negative": (batch([0, 0, 2], [4, -1]), "row 2 has feature id -1"),
    "value is NaN": (batch([0, 1, 2], [0, 1], [1.0, np.nan]), r"row 2 .*: a value is NaN, infinite"),
    "value is infinite": (batch([0, 1, 2], [0, 1], [-np.inf, 1.0]), "row 1"),
    "value beyond float32": (batch([0, 1], [0], [1e39]), "out of float32 range"),
    "too few labels": (batch([0, 1, 2], [0, 1], labels=np.array([1.0])), "one label for each of 2 rows"),
    "labels are a table": (batch([0, 1], [0], labels=np.array([[1.0]])), r"found shape \(1, 1\)"),
    "label is NaN": (batch([0, 1, 2], [0, 1], labels=np.array([1.0, np.nan])), "label of row 2 is not finite"),
    "label beyond float32": (batch([0, 1], [0], labels=np.array([-1e300])), "label of row 1 is not finite"),
    "too many weights": (batch([0, 1], [0], weights=np.ones(2)), "one sample weight for the only row"),
    "weight is negative": (batch([0, 1, 2], [0, 1], weights=np.array([1, -2])), "sample weight of row 2 is -2"),
    "weight is NaN": (batch([0, 1], [0], weights=np.array([np.nan])), "sample weight of row 1 is not finite"),
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


# ---- Checked rows are made by the check alone


def test_checked_rows_cannot_be_made_or_changed_without_a_check():
    checked = check_batch(batch([0, 1, 2], [3, 4]))
    with pytest.raises(TypeError, match="cannot be created directly"):
        CheckedRows(np.array([0, 1]), np.array([99]), np.ones(1), 5)
    with pytest.raises(TypeError, match="cannot be created directly"):
        dataclasses.replace(checked, n_features=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        checked.n_features = 1
    with pytest.raises(ValueError, match="read-only"):
        checked.indices[0] = 99
    with pytest.raises(FeatureRangeError, match="feature id 4, but ids must be below 4"):
        checked.with_n_features(4)
    assert checked.with_n_features(9).n_features == 9


KERNELS = {
    "numbering": lambda rows: number_rows(rows, Numbering(np.arange(5), 5)),
    "counting": lambda rows: count_rows([rows]),
    "training": lambda rows: train_model(rows, resolve(task="binary")),
}


@pytest.mark.parametrize("way", KERNELS.values(), ids=KERNELS)
def test_nothing_unchecked_gets_to_a_kernel(way):
    with pytest.raises(TypeError, match="expected CheckedRows, found Batch"):
        way(batch([0, 1], [10**9], labels=np.ones(1)))


def test_offsets_that_overflow_when_subtracted_are_refused():
    """Each step wraps to a positive number, and yet the rows would lie all over the memory."""
    with pytest.raises(DataValueError, match="never decrease"):
        check_batch(batch([0, 2**63 - 1, -(2**63), -1, 2], [0, 1]))


def test_parts_of_checked_rows_are_checked_rows():
    checked = check_batch(batch([0, 2, 3, 3], [4, 0, 2], [1, 2, -0.5], labels=np.arange(3), weights=np.ones(3)))
    parts = [take_rows(checked, 0, 1), take_rows(checked, 1, 3)]
    assert all(isinstance(part, CheckedRows) for part in [*parts, *cut_blocks(parts), join_rows(parts)])
    for name in ("indptr", "indices", "values", "labels", "weights"):
        np.testing.assert_array_equal(getattr(join_rows(parts), name), getattr(checked, name))
        np.testing.assert_array_equal(getattr(pick_rows(checked, np.arange(3)), name), getattr(checked, name))
    assert pick_rows(checked, np.array([1, 0])).indices.tolist() == [2, 4, 0]


def test_rows_joined_with_unchecked_ones_are_unchecked():
    checked, forged = check_batch(batch([0, 1], [3])), batch([0, 1], [10**9])
    assert not isinstance(join_rows([checked, forged]), CheckedRows)
    assert not isinstance(join_rows([forged, checked]), CheckedRows)


# ---- Memory


def mapped(path):
    np.arange(4).astype(np.int64).tofile(path)
    return np.memmap(path, np.int64, "r+")


def shared(path):
    memory = mmap.mmap(-1, 32)
    array = np.frombuffer(memory, np.int64)
    array[:] = np.arange(4)
    return array


def arrow_map(path):
    np.arange(4).astype(np.int64).tofile(path)
    return np.frombuffer(pyarrow.memory_map(str(path)).read_buffer(), np.int64)


@pytest.mark.parametrize("foreign", [mapped, shared, arrow_map])
def test_memory_that_others_can_change_is_copied(foreign, tmp_path):
    ids = foreign(tmp_path / "ids")
    for array in (ids, ids[1:], ids.view(np.uint64), ids.reshape(2, 2)[1]):
        rows = Batch(np.array([0, array.size]), array, np.ones(array.size), 5)
        assert not np.shares_memory(check_batch(rows).indices, ids)


def test_memory_of_the_process_is_taken_as_it_is():
    ids, made = np.arange(4), new_array((4,), np.int64)
    made[:] = ids
    for array in (ids, ids[1:], made, made[2:], np.frombuffer(ids.tobytes(), np.int64), np.frombuffer(bytearray(32))):
        array = array.view(np.int64)
        rows = Batch(np.array([0, array.size]), array, np.ones(array.size), 5)
        assert np.shares_memory(check_batch(rows).indices, array)


def test_rows_that_were_spilled_are_checked_again_in_memory_of_ours():
    rows = check_batch(batch([0, 2, 3], [4, 0, 2], [1, 2, -0.5], labels=np.array([0, 1])))
    spilled = SpilledRows([rows], SpillOptions(megabytes=0))
    assert not spilled.in_memory
    first, again = spilled.block(0), spilled.block(0)
    assert isinstance(first, CheckedRows)
    assert not np.shares_memory(first.indices, again.indices)
    for name in ("indptr", "indices", "values", "labels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(rows, name))


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
    found = count_rows(batches)
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
