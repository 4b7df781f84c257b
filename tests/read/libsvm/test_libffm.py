"""The reader of libffm text: libsvm's reader on the same text without fields, and bad text case by case."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reading import iterate_libffm, read_libffm, read_libsvm

from rafm.errors import DataFormatError, DataValueError, ResourceLimitError
from rafm.read.libsvm.reader import TextRows
from rafm.read.open import ReadOptions, rows_of_ids

F, V, R = DataFormatError, DataValueError, ResourceLimitError


def parse(text: bytes, read=read_libffm, **options) -> TextRows:
    """Read bytes through a file called train.ffm."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.ffm")
        path.write_bytes(text)
        return read(path, **options)


def triples(rows: TextRows) -> list:
    """Return rows as [label, {id: (field, value)}, line]."""
    entries = zip(rows.indices.tolist(), rows.fields.tolist(), rows.values.tolist())
    entries = [(number, (field, value)) for number, field, value in entries]
    spans = zip(rows.labels.tolist(), rows.indptr[:-1], rows.indptr[1:], rows.lines.tolist())
    return [[label, dict(entries[a:b]), line] for label, a, b, line in spans]


numbers = st.sampled_from(["1", "0", "-2.5", ".5", "1e-3", "12345678.25"])
rows_of_entries = st.lists(
    st.dictionaries(
        st.integers(0, 2**32 - 1) | st.integers(0, 99),
        st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 30), numbers),
        max_size=8,
    ),
    max_size=6,
)


@examples(0.6)
@given(rows_of_entries, st.sampled_from([1, 7, 64, 10**6]), st.sampled_from([" ", "\t ", "  "]))
def test_entries_are_those_of_libsvm_and_each_keeps_its_field(rows, chunk_bytes, blank):
    lines = ["1" + "".join(f"{blank}{f}:{i}:{v}" for i, (f, v) in row.items()) + "\n" for row in rows]
    plain = ["1" + "".join(f" {i}:{v}" for i, (f, v) in row.items()) + "\n" for row in rows]
    found = parse("".join(lines).encode(), chunk_bytes=chunk_bytes)
    expected = parse("".join(plain).encode(), read_libsvm)
    for part in ("labels", "indptr", "indices", "values", "lines"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    assert found.fields.dtype == np.int32
    assert found.fields.tolist() == [row[i][0] for row in rows for i in sorted(row)]
    assert expected.fields is None


def test_long_rows_are_sorted_together_with_their_fields():
    ids = np.random.default_rng(0).permutation(5000)
    rows = parse(("1 " + " ".join(f"{i % 7}:{i}:1" for i in ids) + "\n").encode())
    assert rows.indices.tolist() == list(range(5000))
    assert rows.fields.tolist() == [i % 7 for i in range(5000)]


ACCEPTED = {
    "case 1 CRLF": (b"1 3:5:2\r\n0 4:6:3\r\n", [[1, {5: (3, 2)}, 1], [0, {6: (4, 3)}, 2]]),
    "case 3 BOM at the start": (b"\xef\xbb\xbf1 3:5:2\n", [[1, {5: (3, 2)}, 1]]),
    "case 6 no final newline": (b"1 3:5:2", [[1, {5: (3, 2)}, 1]]),
    "case 8 empty file": (b"", []),
    "case 9 blank lines": (b"\n\n1 3:5:2\n", [[1, {5: (3, 2)}, 3]]),
    "case 10 label only": (b"1\n", [[1, {}, 1]]),
    "case 11 comment": (b"1 3:5:2 # 1:2\n", [[1, {5: (3, 2)}, 1]]),
    "case 12 tabs and blanks": (b" 1\t3:5:2  0:6:1\t\n", [[1, {5: (3, 2), 6: (0, 1)}, 1]]),
    "case 26 unsorted": (b"1 1:9:1 2:5:2\n", [[1, {5: (2, 2), 9: (1, 1)}, 1]]),
    "case 22 id above 2^31": (b"1 3:2147483648:1\n", [[1, {2**31: (3, 1)}, 1]]),
    "case 29 too small for float32": (b"1 3:5:1e-400\n", [[1, {5: (3, 0)}, 1]]),
    "case 30 explicit zero is stored": (b"1 3:5:0\n", [[1, {5: (3, 0)}, 1]]),
    "case 36 gzip with two members": (
        gzip.compress(b"1 3:5:2\n") + gzip.compress(b"0 4:6:3\n"),
        [[1, {5: (3, 2)}, 1], [0, {6: (4, 3)}, 2]],
    ),
    "the largest field": (b"1 2147483647:5:1\n", [[1, {5: (2**31 - 1, 1)}, 1]]),
    "leading zeros": (b"1 000000000003:05:1\n", [[1, {5: (3, 1)}, 1]]),
    "gzip": (gzip.compress(b"1 3:5:2\n"), [[1, {5: (3, 2)}, 1]]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_text_gives_the_expected_rows(name):
    text, expected = ACCEPTED[name]
    assert triples(parse(text)) == expected


REFUSED = {
    "case 2 lone CR": (b"1 3:5:2\r0 3:6:3\n", F, 1, 8, "carriage return (CR)"),
    "case 4 UTF-16": ("1 3:5:2\n".encode("utf-16"), F, 1, 1, "looks like UTF-16"),
    "case 5 NUL": (b"1 3:5:\0\n", F, 1, 7, "NUL byte"),
    "case 7 cut inside id:": (b"1 3:5:2\n0 3:6:", F, 2, 3, 'expected "field:id:value", found "3:6:"'),
    "case 7 cut inside field:": (b"1 3:5:2\n0 3:", F, 2, 3, 'expected "field:id:value", found "3:"'),
    "case 7 cut inside a field": (b"1 3:5:2\n0 3", F, 2, 3, 'expected "field:id:value", found "3"'),
    "case 13 semicolon": (b"1 3:5;1\n", F, 1, 3, 'expected "field:id:value", found "3:5;1"'),
    "case 14 missing value": (b"1 3:5: 4:6:1\n", F, 1, 3, 'found "3:5:"'),
    "case 15 libsvm given as libffm": (b"1 5:2\n", F, 1, 3, 'read "id:value" with --format libsvm'),
    "case 16 CSV": (b"1,5,2\n", F, 1, 1, "--format csv"),
    "case 17 underscore in a field": (b"1 1_0:5:2\n", F, 1, 3, "a field is a whole number"),
    "case 17 hexadecimal id": (b"1 3:0x5:2\n", F, 1, 3, "an id is a whole number"),
    "case 18 decimal field": (b"1 1.5:5:2\n", F, 1, 3, "a field is a whole number"),
    "case 19 negative id": (b"1 3:-5:1\n", V, 1, 3, "ids must not be negative"),
    "case 19 negative field": (b"1 -3:5:1\n", V, 1, 3, "fields must not be negative"),
    "case 23 id 2^63": (b"1 3:9223372036854775808:1\n", V, 1, 3, "64 bits"),
    "case 23 field 2^31": (b"1 2147483648:5:1\n", V, 1, 3, "fields are below 2**31"),
    "case 23 field of 100 digits": (b"1 " + b"9" * 100 + b":5:1\n", V, 1, 3, "fields are below 2**31"),
    "case 25 duplicate": (b"1 3:5:1 3:6:1 3:5:2\n", V, 1, 15, "id 5 occurs twice"),
    "case 25 duplicate in another field": (b"1 5:7:1 3:05:1 4:5:2\n", V, 1, 16, "id 5 occurs twice"),
    "case 27 value nan": (b"1 3:5:nan\n", V, 1, 3, "must be finite"),
    "case 28 value 1e39": (b"1 3:5:1e39\n", V, 1, 3, "at most 3.4e38"),
    "case 28 value inf": (b"1 3:5:inf\n", V, 1, 3, "must be finite"),
    "case 32 label nan": (b"nan 3:5:1\n", V, 1, 1, "a label must be finite"),
    "case 32 text label": (b"cat 3:5:1\n", F, 1, 1, "expected a decimal number as the label"),
    "case 3 BOM elsewhere": (b"1 3:5:2\n\xef\xbb\xbf0 3:6:3\n", F, 2, 1, "byte order mark"),
    "case 34 qid": (b"1 qid:3 3:5:1\n", V, 1, 3, "not supported"),
    "four parts": (b"1 3:5:1:1\n", F, 1, 3, 'expected "field:id:value", found "3:5:1:1"'),
    "label missing": (b"3:5:1\n", F, 1, 1, 'expected a label before the first "field:id:value"'),
}


@pytest.mark.parametrize("chunk_bytes", [1, 10**6])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_text_raises_and_names_line_and_column(name, chunk_bytes):
    text, kind, line, column, fragment = REFUSED[name]
    with pytest.raises(kind) as caught:
        parse(text, chunk_bytes=chunk_bytes)
    assert type(caught.value) is kind
    assert (caught.value.line, caught.value.column) == (line, column)
    assert fragment in str(caught.value)
    assert f"train.ffm:{line}:{column}: " in str(caught.value)


def test_id_zero_is_refused_when_ids_start_from_one_and_fields_are_as_written():  # case 20
    assert triples(parse(b"1 0:1:2\n", index_base=1)) == [[1, {0: (0, 2)}, 1]]
    with pytest.raises(DataValueError, match="id 0 in a file with ids from 1; check --index-base"):
        parse(b"1 5:0:2\n", index_base=1)


def test_a_huge_id_is_refused_with_the_size_of_its_table():  # case 24
    with pytest.raises(ResourceLimitError, match=r"train.ffm:1:3: id 1000000000000 needs a table of 3,725.3 GiB"):
        parse(b"1 3:1000000000000:1\n")


def test_duplicates_are_summed_on_request_and_keep_the_first_field():  # case 25
    rows = parse(b"1 4:5:1 0:6:1 3:5:2\n0 1:7:1\n", duplicates="sum")
    assert triples(rows) == [[1, {5: (4, 3), 6: (0, 1)}, 1], [0, {7: (1, 1)}, 2]]


def test_every_prefix_of_a_good_file_is_an_error_or_rows_of_that_prefix():  # case 7
    text = b"1 3:5:12.5 0:17:1\r\n\n-1 12:3:1 4:2:.25 # tail\n0\n"
    whole = triples(parse(text))
    for end in range(len(text) + 1):
        try:
            rows = triples(parse(text[:end]))
        except (DataFormatError, DataValueError) as error:
            assert error.line == text[:end].count(b"\n") + 1  # noqa: PT017
        else:
            n_complete = sum(line <= text[:end].count(b"\n") for *_, line in whole)
            assert rows[:n_complete] == whole[:n_complete]
            assert len(rows) <= n_complete + 1


def test_rows_open_by_the_name_of_the_format(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(b"1 3:5:2\n-1 4:6:1\n")
    (batch,) = rows_of_ids(path, ReadOptions("binary", "libffm"), "binary")
    assert batch.labels.tolist() == [1, 0]
    assert batch.indices.tolist() == [5, 6]
    assert [chunk.fields.tolist() for chunk in iterate_libffm(path)] == [[3, 4]]
