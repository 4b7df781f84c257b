"""The string table is a dict of bytes, for any array that Arrow can make; its hash is XXH64 as published."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from rafm.encode import strings as module
from rafm.encode.interning import NULL, UNKNOWN, hash_bytes
from rafm.encode.strings import StringTable, as_strings, decimal_text, hash_buckets, sorted_order
from rafm.errors import ResourceLimitError

HASH = njit(hash_bytes)
KINDS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
}
texts = st.lists(st.none() | st.text(max_size=40), max_size=40)


def as_kind(values, kind):
    array = pa.array(values, pa.string())
    if kind == "dictionary":
        return array.dictionary_encode()
    return array.cast(pa.binary()).cast(KINDS[kind]) if "binary" in kind else array.cast(KINDS[kind])


def naive_intern(values, table):
    """Number distinct values by first appearance, in a dict."""
    return [NULL if value is None else table.setdefault(value, len(table)) for value in values]


# Interning and looking up


@given(texts, texts, st.sampled_from(sorted(KINDS)))
def test_ids_are_those_of_a_dict_for_every_type_of_array(first, second, kind):
    table, naive = StringTable(), {}
    for values in (first, second, first):
        assert table.intern(as_kind(values, kind)).tolist() == naive_intern(values, naive)
    assert [table[i].decode() for i in range(len(table))] == list(naive)
    assert table.as_array().to_pylist() == [value.encode() for value in naive]


@given(texts, texts, st.sampled_from(sorted(KINDS)))
def test_looking_up_finds_what_was_interned_and_adds_nothing(known, asked, kind):
    table, naive = StringTable(), {}
    naive_intern(known, naive)
    table.intern(as_kind(known, kind))
    expected = [NULL if value is None else naive.get(value, UNKNOWN) for value in asked]
    assert table.lookup(as_kind(asked, kind)).tolist() == expected
    assert len(table) == len(naive)


@given(texts, st.integers(0, 40), st.integers(0, 40))
def test_slices_and_chunks_are_read_where_they_begin(values, begin, size):
    array = pa.array(values, pa.string())
    assert StringTable().intern(array.slice(begin, size)).tolist() == naive_intern(values[begin:][:size], {})
    cut = min(begin, len(values))
    chunked = pa.chunked_array([array[:cut], array[:0], array[cut:]])
    assert StringTable().intern(chunked).tolist() == naive_intern(values, {})


def test_an_array_of_nothing_but_nulls_has_no_strings():
    table = StringTable()
    assert table.intern(pa.nulls(3)).tolist() == [NULL] * 3
    assert table.intern(pa.chunked_array([], pa.string())).tolist() == []
    assert len(table) == 0


def test_the_table_grows_in_strings_and_in_bytes():
    values = [f"{i * 7919 % 100_003:x}" for i in range(50_000)] + ["x" * 100_000, "", "y" * 3]
    table = StringTable()
    assert table.intern(pa.array(values)).tolist() == list(range(len(values)))
    assert table.lookup(pa.array(values)).tolist() == list(range(len(values)))
    assert table[50_000] == b"x" * 100_000


@pytest.mark.parametrize("place", [0, 7, 8, 18])
def test_strings_of_one_hash_are_told_apart_by_their_bytes(place):
    word = "what is in the slot"
    table = StringTable.of_distinct(pa.array([word]))
    assert table.lookup(pa.array([word])).tolist() == [0]
    table.text[place] ^= 1  # now another string has this one's slot and hash
    assert table.lookup(pa.array([word])).tolist() == [UNKNOWN]
    assert table.intern(pa.array([word])).tolist() == [1]


def test_short_strings_differ_by_their_zeros_and_long_ones_by_their_ends():
    values = [text * n for text in ("\0", "a", "a\0", "\u00ff", "12345678") for n in range(1, 12)] + [""]
    distinct = list(dict.fromkeys(values))
    table = StringTable.of_distinct(pa.array(distinct))
    for shuffled in (values, values[::-1]):  # the last bytes of an array belong to a short string, or to a long one
        assert table.lookup(pa.array(shuffled)).tolist() == [distinct.index(value) for value in shuffled]
    assert StringTable().intern(pa.array(values)).tolist() == naive_intern(values, {})


@given(texts, texts)
def test_a_table_of_distinct_strings_takes_in_more(known, more):
    naive = {value: i for i, value in enumerate(dict.fromkeys(value for value in known if value is not None))}
    table = StringTable.of_distinct(pa.array(list(naive), pa.string()))
    assert table.intern(pa.array(more, pa.string())).tolist() == naive_intern(more, naive)
    assert len(table) == len(naive)


def test_more_strings_than_an_id_can_count_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_STRINGS", 20)
    with pytest.raises(ResourceLimitError, match="over 20 distinct values; hash them"):
        StringTable().intern(pa.array([str(i) for i in range(100)]))


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="expected text or bytes, found int64"):
        as_strings(pa.array([1]))


def test_tables_are_equal_if_their_strings_are():
    one, other = StringTable(), StringTable.of_distinct(pa.array(["a", "b"]))
    one.intern(pa.array(["a", "b", "a"]))
    assert one == other
    one.intern(pa.array(["c"]))
    assert one != other
    assert one != ["a", "b"]
    with pytest.raises(IndexError):
        other[2]


@given(st.lists(st.text(max_size=20), unique=True))
def test_distinct_strings_are_sorted_as_python_sorts_them(values):
    found = sorted_order(pa.array(values, pa.string()))
    assert [values[i] for i in found] == sorted(values)


def test_strings_that_begin_alike_are_sorted_by_what_follows():
    values = ["prefix of some length, b", "prefix of some length, a", "prefix o", "a\0", "a", "prefix of"]
    assert [values[i] for i in sorted_order(pa.array(values))] == sorted(values)


# Hashing


def _hash(data):
    array = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    with np.errstate(over="ignore"):
        return int(HASH(array, np.uint64(0), np.uint64(len(data))))


# Published values of XXH64 with seed 0.
GOLDEN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


@pytest.mark.parametrize("data", GOLDEN, ids=len)
def test_the_hash_is_xxh64_as_published(data):
    assert _hash(data) == GOLDEN[data]


def naive_xxh64(data):
    """XXH64 with seed 0, from its specification, in whole numbers of any size."""
    p1, p2, p3, p4, p5 = (
        *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
    )
    full = 2**64

    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) % full

    def mix(lane, word):
        return rotate((lane + word * p2) % full, 31) * p1 % full

    rest, total = data, p5
    if len(data) >= 32:
        lanes = [(p1 + p2) % full, p2, 0, -p1 % full]
        while len(rest) >= 32:
            lanes = [mix(lane, int.from_bytes(rest[8 * i : 8 * i + 8], "little")) for i, lane in enumerate(lanes)]
            rest = rest[32:]
        total = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) % full
        for lane in lanes:
            total = ((total ^ mix(0, lane)) * p1 + p4) % full
    total = (total + len(data)) % full
    while len(rest) >= 8:
        total = (rotate(total ^ mix(0, int.from_bytes(rest[:8], "little")), 27) * p1 + p4) % full
        rest = rest[8:]
    if len(rest) >= 4:
        total = (rotate(total ^ int.from_bytes(rest[:4], "little") * p1 % full, 23) * p2 + p3) % full
        rest = rest[4:]
    for byte in rest:
        total = rotate(total ^ byte * p5 % full, 11) * p1 % full
    total = (total ^ total >> 33) * p2 % full
    total = (total ^ total >> 29) * p3 % full
    return total ^ total >> 32


@given(st.binary(max_size=100))
def test_the_hash_is_xxh64_as_specified_for_any_bytes(data):
    assert _hash(data) == naive_xxh64(data)


@given(texts, st.integers(1, 2**31 - 2))
def test_buckets_are_the_hash_modulo_their_number(values, n_buckets):
    expected = [NULL if value is None else naive_xxh64(value.encode()) % n_buckets for value in values]
    assert hash_buckets(pa.array(values, pa.string()), n_buckets).tolist() == expected


# Numbers as text


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_are_written_as_python_writes_them(numbers):
    assert decimal_text(np.array(numbers, np.int64)).to_pylist() == [str(number) for number in numbers]
