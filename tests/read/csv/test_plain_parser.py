"""The splitter of plain rows: whatever it does not decline is what Arrow's parser and the rules for cells give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from rafm.jit.vectors import count_ones, match_bytes
from rafm.read.csv import plain_parser as plain
from rafm.read.csv.arrow_parser import BadRow, Layout, parse_block
from rafm.read.csv.byte_masks import CHUNK, count_feeds
from rafm.read.csv.cell_types import NUMBER, TEXT, UNKNOWN, WHOLE, cast_text, learn_type
from rafm.read.csv.row_blocks import Dialect, TextBlock

bits = st.integers(0, 2**64 - 1).map(np.uint64)
ODD_NUMBERS = [
    "",
    "-0",
    "0",
    "-0.0",
    "007",
    "-007",
    "+5",
    " 7",
    "7 ",
    "1e3",
    "NA",
    "0x1F",
    "1.",
    ".5",
    "-",
    "-.5",
    "1.5x",
]
ODD_NUMBERS += ["1-2", "1.2.3", "12345678", "123456789", "123456789012345", "1" * 16, "9" * 17, "1234567890.123456"]
numbers = st.one_of(
    st.from_regex(r"-?[0-9]{0,17}(\.[0-9]{0,9})?", fullmatch=True),
    st.integers(-(10**16), 10**16).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(ODD_NUMBERS),
)


@njit
def _match(text, byte):
    return match_bytes(text, 0, byte)


@njit
def _ones(word):
    return count_ones(word)


def layout(n_columns: int, kind: pa.DataType = TEXT, delimiter: str = ",", quoting: bool = True) -> Layout:
    names = [f"c{k}" for k in range(n_columns)]
    return Layout("train.csv", Dialect(delimiter, quoting), names, dict.fromkeys(names, kind), {})


def block(text: str | bytes, one_line: bool = False) -> TextBlock:
    return TextBlock(text if isinstance(text, bytes) else text.encode(), 1, True, one_line)


def as_lists(columns: dict[str, pa.Array]) -> list[list]:
    return [column.to_pylist() for column in columns.values()]


@given(
    text=st.text(st.sampled_from('ab1é,;"\n\r '), max_size=200),
    n_columns=st.integers(1, 4),
    delimiter=st.sampled_from(",;1"),
    quoting=st.booleans(),
)
def test_any_text_is_split_as_arrow_does_or_declined(text, n_columns, delimiter, quoting):
    where = layout(n_columns, TEXT, delimiter, quoting)
    rows = block(text.replace("\r", "\r\n") + "\n")
    found = plain.split_block(rows, where)
    if found is not None:
        assert as_lists(found) == as_lists(parse_block(rows, where))


@given(
    rows=st.lists(st.lists(st.text("abé\t 1-", max_size=80), min_size=3, max_size=3).filter(any), min_size=1),
    quoted=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    piece_bytes=st.sampled_from([1, 100, 2**20]),
)
def test_plain_rows_are_never_declined_whatever_the_pieces(rows, quoted, end, piece_bytes):
    mark = '"' if quoted else ""
    text = "".join(",".join(f"{mark}{cell}{mark}" for cell in row) + end for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "PIECE_BYTES", piece_bytes)
        found = plain.split_block(block(text, one_line=True), layout(3))
    assert as_lists(found) == [[cell or None for cell in column] for column in zip(*rows)]


@given(
    cells=st.lists(numbers, min_size=1),
    kind=st.sampled_from([WHOLE, NUMBER]),
    quoted=st.booleans(),
    piece_bytes=st.sampled_from([1, 50, 2**20]),
)
def test_numbers_are_those_of_the_rules_for_cells_to_the_last_bit(cells, kind, quoted, piece_bytes):
    mark = '"' if quoted else ""
    rows = block("".join(f"{mark}{cell}{mark},x\n" for cell in cells), one_line=True)
    expected = pa.array([cell or None for cell in cells], TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "PIECE_BYTES", piece_bytes)
        found = plain.split_block(rows, layout(2, kind))["c0"]
        learned = plain.split_block(rows, layout(2, UNKNOWN))["c0"]
    if found.type != TEXT:
        expected = cast_text(expected, kind)
    assert found.equals(expected)
    assert str(found.to_pylist()) == str(expected.to_pylist())  # which tells -0.0 from 0.0
    texts = pa.array([cell or None for cell in cells], TEXT)
    assert learn_type(learned)[0] == learn_type(texts)[0]
    assert learned.type == TEXT or learned.equals(cast_text(texts, learned.type))


@pytest.mark.parametrize("cell", ODD_NUMBERS)
@pytest.mark.parametrize("kind", [WHOLE, NUMBER, UNKNOWN])
@pytest.mark.parametrize("behind", [",x\n", "\n"])
def test_a_single_number_is_that_of_the_rules_for_cells(cell, kind, behind):
    found = plain.split_block(block(f"y,{cell}{behind}"), layout(behind.count(",") + 2, kind))["c1"]
    texts = pa.array([cell or None], TEXT)
    assert learn_type(found)[0] == learn_type(texts)[0] or kind != UNKNOWN
    assert found.equals(texts if found.type == TEXT else cast_text(texts, found.type))


@given(
    rows=st.lists(st.lists(st.text("ab,\n1", max_size=70), min_size=2, max_size=2), min_size=1, max_size=30),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_delimiters_and_line_feeds_in_quotes_are_text(rows, end):
    text = "".join(",".join(f'"{cell}"' for cell in row) + end for row in rows)
    found = plain.split_block(block(text), layout(2))
    assert as_lists(found) == [[cell or None for cell in column] for column in zip(*rows)]


@pytest.mark.parametrize("cell", ["0", "-12.5", "999999999999999", "1234567.12345678", "0.000001", "10"])
def test_plain_numbers_are_not_declined(cell):
    assert plain.split_block(block(f"{cell},7\n"), layout(2, NUMBER))["c0"].to_pylist() == [float(cell)]


@pytest.mark.parametrize(
    "text",
    [
        b'"a""b",c\n',
        b'a"b,c\n',
        b'"a"b,c\n',
        b"a\n",
        b"a,b,c\n",
        b'"a,b\n',
        b'"\n",b\n"',
        b"a,\xff\n",
        b'a,"\n',
        b"a,b\nc,d",
    ],
)
def test_what_is_not_plain_is_declined(text):
    assert plain.split_block(block(text), layout(2)) is None


def test_a_column_is_as_wide_as_its_pieces_want(monkeypatch):
    monkeypatch.setattr(plain, "PIECE_BYTES", 1)
    rows = block("1,1,,1\n2.5,x,,\n3,3,,3\n", one_line=True)
    found = plain.split_block(rows, layout(4, UNKNOWN))
    assert as_lists(found) == [[1.0, 2.5, 3.0], ["1", "x", "3"], [None] * 3, [1, None, 3]]
    assert [column.type for column in found.values()] == [NUMBER, TEXT, TEXT, WHOLE]


def test_columns_that_are_left_out_are_not_there():
    where = layout(3)._replace(types={"c2": WHOLE, "c0": TEXT})
    assert {k: v.to_pylist() for k, v in plain.split_block(block("a,b,1\n"), where).items()} == {"c2": [1], "c0": ["a"]}


def test_bad_rows_are_left_to_arrow_which_names_them():
    with pytest.raises(BadRow, match="expected 2 columns, found 3"):
        parse_block(block("a,b\na,b,c\n"), layout(2))


@given(text=st.binary(max_size=300), begin=st.integers(0, 300))
def test_line_feeds_are_counted(text, begin):
    begin = min(begin, len(text))
    assert count_feeds(np.frombuffer(text, np.uint8), begin, len(text)) == text.count(b"\n", begin)


@given(text=st.binary(min_size=CHUNK, max_size=CHUNK), word=bits)
def test_bits_tell_which_bytes_match(text, word):
    found = _match(np.frombuffer(text, np.uint8), text[0])
    assert int(found) == sum((byte == text[0]) << place for place, byte in enumerate(text))
    assert _ones(word) == int(word).bit_count()


def test_a_zero_below_zero_stays_one_among_decimals(monkeypatch):
    monkeypatch.setattr(plain, "PIECE_BYTES", 1)
    rows = block("-0,x\n1.5,x\n", one_line=True)
    assert plain.split_block(rows, layout(2, UNKNOWN))["c0"].to_pylist() == ["-0", "1.5"]


def test_a_digit_may_be_the_delimiter():
    found = plain.split_block(block("21314\n"), layout(3, NUMBER, delimiter="1"))
    assert as_lists(found) == [[2.0], [3.0], [4.0]]
