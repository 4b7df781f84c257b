"""How many bytes Arrow data need is told without expanding them, for every type whose cells can share bytes."""

import numpy as np
import pyarrow as pa
import pytest

from rafm.errors import ResourceLimitError
from rafm.rows.expansion import FREE_BYTES, MAX_EXPANSION, allowed_bytes, expanded_bytes, in_pieces

TEXTS = pa.array(["abc", None, "x" * 30, "", "üu"])
LISTS = pa.array([["a", "bb"], None, [], ["c", None]])
RUNS = pa.RunEndEncodedArray.from_arrays([2, 5, 6], ["a", "bbb", None])
CODES = pa.array([0, 1, 0, None], pa.int8())
ZEROS = pa.array(np.zeros(3, np.int32))
TWO = [pa.array(["a", "bb"]), pa.array([1.5, 2])]
CELLS = {
    "text": TEXTS,
    "large text": TEXTS.cast(pa.large_string()),
    "bytes": TEXTS.cast(pa.binary()),
    "views": TEXTS.cast(pa.string_view()),
    "dictionary": TEXTS.dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(CODES, TEXTS[1:].cast(pa.string_view())),
    "dictionary of lists": pa.DictionaryArray.from_arrays(CODES, LISTS),
    "empty dictionary": pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string())),
    "lists": LISTS,
    "lists of lists": pa.array([[["a", "bb"], None], None, [], [["c", None]]]),
    "lists of views": LISTS.cast(pa.list_(pa.string_view())),
    "lists of dictionaries": pa.ListArray.from_arrays([0, 2, 4], pa.DictionaryArray.from_arrays(CODES, TEXTS)),
    "lists of runs": pa.ListArray.from_arrays([0, 1, 5], RUNS),
    "lists of numbers": pa.array([[1, 2], None, [3]], pa.large_list(pa.int8())),
    "fixed lists": pa.FixedSizeListArray.from_arrays(pa.array(["a", "bb", "ccc", "d"]), 2),
    "fixed lists of nulls": pa.FixedSizeListArray.from_arrays(pa.nulls(6), 2),
    "overlapping lists": pa.ListViewArray.from_arrays(ZEROS, pa.array([2, 1, 2], pa.int32()), TWO[0]),
    "large overlapping lists": pa.LargeListViewArray.from_arrays([0, 0, 1], [2, 2, 1], TWO[0]),
    "runs": RUNS,
    "structs": pa.array([{"a": "x", "b": 1}, {"a": "yy", "b": 2}]),
    "maps": pa.array([[("k", 1)], [("l", 2), ("mm", 3)]], pa.map_(pa.string(), pa.int64())),
    "dense union": pa.UnionArray.from_dense(pa.array([0, 1, 0, 0], pa.int8()), pa.array([1, 0, 1, 0], pa.int32()), TWO),
    "numbers": pa.array([1, None, 3], pa.int8()),
    "wide numbers": pa.array([1, None], pa.decimal128(5)),
    "booleans": pa.array([True, None]),
    "nulls": pa.nulls(4),
}


def bytes_of(cell, type):
    """Return what a cell needs: 8 bytes, and all that is in it; by Python's values, which share nothing."""
    if pa.types.is_decimal(type):
        return 16
    if isinstance(cell, str | bytes):
        return 8 + len(cell.encode() if isinstance(cell, str) else cell)
    inside = cell.values() if isinstance(cell, dict) else cell if isinstance(cell, list | tuple) else ()
    return 8 + sum(bytes_of(one, pa.null()) for one in inside)


def as_dicts(cells):
    """Return Python values in which the pairs of a map are structs."""
    if pa.types.is_map(cells.type):
        return [[{"key": key, "value": value} for key, value in one] for one in cells.to_pylist()]
    return cells.to_pylist()


@pytest.mark.parametrize("name", CELLS)
def test_the_size_is_that_of_cells_that_share_nothing(name):  # case 119
    whole = CELLS[name]
    for cells in (whole, whole[1:], whole[1:2], whole[:0]):
        batch = pa.record_batch({"c": cells})
        needed = [bytes_of(cell, cells.type) for cell in as_dicts(cells)]
        pieces = [*in_pieces(batch, 1)]  # single rows
        assert [piece.num_rows for piece in pieces] == [1] * len(needed)
        assert pa.concat_arrays([whole[:0], *(piece["c"] for piece in pieces)]).to_pylist() == cells.to_pylist()
        for limit in {sum(needed[: n + 1]) for n in range(len(needed))}:
            first = next(in_pieces(batch, limit)).num_rows
            assert sum(needed[:first]) <= limit or first == 1
            assert first == len(needed) or sum(needed[: first + 1]) > limit
        assert expanded_bytes(batch) >= sum(needed)
    assert expanded_bytes(pa.record_batch({"c": whole, "d": whole})) == 2 * expanded_bytes(
        pa.record_batch({"c": whole})
    )


def shared(value, n, type=None):
    """Return n cells that share the bytes of one value."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array([value], type))


def nested(depth, n=1000):
    """Return lists of lists: at each depth, all of them overlap."""
    cells = pa.array(["t"] * n)
    for _ in range(depth):
        cells = pa.ListViewArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(np.full(n, n, np.int32)), cells)
    return cells


BOMBS = {
    "text": (shared("x" * 10**6, 9000), 9e9),
    "lists": (shared(["t"] * 10**5, 9000), 8e9),
    "overlapping lists": (nested(1, 10**5), 9e10),
    "lists in lists, whose size overflows": (nested(12), 1e9),
    "values that no cell refers to": (
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), shared("x" * 10**6, 90)),
        9e7,
    ),
    "elements that no list has": (pa.ListArray.from_arrays([0, 0], shared("x" * 10**6, 90)), 9e7),
    "runs of nothing": (pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.nulls(1)), 7e9),
    "nulls": (pa.FixedSizeListArray.from_arrays(pa.nulls(10**9), 10**8), 7e9),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_few_bytes_that_stand_for_many_are_recognised(name):  # case 119
    cells, at_least = BOMBS[name]
    found = expanded_bytes(pa.record_batch({"c": cells}))
    assert at_least <= found < 2**63
    assert found > allowed_bytes(cells.get_total_buffer_size())


def test_more_cells_than_can_be_counted_are_refused():  # case 119
    with pytest.raises(ResourceLimitError, match="2147483647 values"):
        expanded_bytes(pa.record_batch({"c": pa.FixedSizeListArray.from_arrays(pa.nulls(2**31 - 1), 2**31 - 1)}))


def test_a_multiple_of_what_was_received_is_allowed():  # case 119
    assert [allowed_bytes(n) for n in (0, 1, 2**30)] == [FREE_BYTES, FREE_BYTES, MAX_EXPANSION * 2**30]


def test_a_row_that_is_too_large_is_refused_with_its_number_and_column():  # case 119
    large = pa.array(["tea", "x" * FREE_BYTES, "jam"]).dictionary_encode()
    batch = pa.record_batch({"n": pa.array([1, 2, 3]), "food": large})
    pieces = in_pieces(batch, 100, first_row=40)
    assert next(pieces).num_rows == 1
    with pytest.raises(ResourceLimitError, match=r"^column 'food', row 42: the row needs 67108880 bytes, at most"):
        next(pieces)
