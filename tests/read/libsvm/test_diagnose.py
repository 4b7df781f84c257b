"""Bad libsvm text, one named case each; the numbers are those of the fault catalogue.

The file is run a second time, by test_libsvm.py, with the kernels interpreted instead of compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from reading import read_libsvm

from rafm.errors import ConfigError, DataFormatError, DataValueError, RafmError, ResourceLimitError
from rafm.read.labels import LabelCheck
from rafm.read.libsvm.reader import Limits, TextRows, iterate_rows

F, V, R = DataFormatError, DataValueError, ResourceLimitError


@pytest.fixture
def parse(tmp_path):
    """Return a function that reads bytes through a file called train.svm."""

    def run(text: bytes, **options) -> TextRows:
        path = tmp_path / "train.svm"
        path.write_bytes(text)
        return read_libsvm(path, **options)

    return run


def lists(rows: TextRows) -> list:
    """Return rows as [label, {id: value}, line]."""
    spans = zip(rows.labels.tolist(), rows.indptr[:-1], rows.indptr[1:], rows.lines.tolist())
    return [
        [label, dict(zip(rows.indices[a:b].tolist(), rows.values[a:b].tolist())), line] for label, a, b, line in spans
    ]


ACCEPTED = {
    "case 1 CRLF": (b"1 5:2\r\n0 6:3\r\n", [[1, {5: 2}, 1], [0, {6: 3}, 2]]),
    "case 1 CRLF and LF mixed": (b"1 5:2\r\n0 6:3\n", [[1, {5: 2}, 1], [0, {6: 3}, 2]]),
    "case 3 BOM at the start": (b"\xef\xbb\xbf1 5:2\n", [[1, {5: 2}, 1]]),
    "case 3 nothing but a BOM": (b"\xef\xbb\xbf", []),
    "case 6 no final newline": (b"1 5:2\n0 6:3", [[1, {5: 2}, 1], [0, {6: 3}, 2]]),
    "case 6 CR at the very end": (b"1 5:2\r", [[1, {5: 2}, 1]]),
    "case 8 empty file": (b"", []),
    "case 9 blank lines": (b"\n \t\n1 5:2\n\r\n\n0\n", [[1, {5: 2}, 3], [0, {}, 6]]),
    "case 10 label only": (b"1\n0 \n-1\t\n", [[1, {}, 1], [0, {}, 2], [-1, {}, 3]]),
    "case 11 comments": (
        b"# a:b\n1 5:2 # 6:x\n  #\n0 6:3#7:1\n1#\n",
        [[1, {5: 2}, 2], [0, {6: 3}, 4], [1, {}, 5]],
    ),
    "case 11 UTF-8 in a comment": ("1 5:2 # straße\n".encode(), [[1, {5: 2}, 1]]),
    "case 12 tabs and blanks": (b" \t1\t \t5:2   6:3\t\n", [[1, {5: 2, 6: 3}, 1]]),
    "case 22 id above 2^31": (b"1 2147483648:1 4294967295:2\n", [[1, {2**31: 1, 2**32 - 1: 2}, 1]]),
    "case 26 unsorted": (b"1 9:1 5:2 7:3\n", [[1, {5: 2, 7: 3, 9: 1}, 1]]),
    "case 29 too small for float32": (b"1 5:1e-400 6:-1e-46\n", [[1, {5: 0, 6: 0}, 1]]),
    "case 29 denormal": (b"1 5:1e-45\n", [[1, {5: float(np.float32(1e-45))}, 1]]),
    "case 30 explicit zero is stored": (b"1 5:0 6:0.0\n", [[1, {5: 0, 6: 0}, 1]]),
    "signs": (b"+1 5:+2 6:-3\n", [[1, {5: 2, 6: -3}, 1]]),
    "forms of numbers": (
        b"1. 1:.5 2:5. 3:1e2 4:1E+2 5:25e-2\n",
        [[1, {1: 0.5, 2: 5, 3: 100, 4: 100, 5: 0.25}, 1]],
    ),
    "leading zeros": (b"01 0005:02 " + b"0" * 30 + b"6:1\n", [[1, {5: 2, 6: 1}, 1]]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_text_gives_the_expected_rows(parse, name):
    text, expected = ACCEPTED[name]
    assert lists(parse(text)) == expected


REFUSED = {
    "case 2 lone CR between rows": (b"1 5:2\r0 6:3\n", F, 1, 6, "carriage return (CR)"),
    "case 2 lone CR in a comment": (b"1\n1 # a\r0 6:3\n", F, 2, 6, "carriage return (CR)"),
    "case 2 CR CR LF": (b"1 5:2\r\r\n", F, 1, 6, "carriage return (CR)"),
    "case 3 BOM elsewhere": (b"1 5:2\n\xef\xbb\xbf0 6:3\n", F, 2, 1, "byte order mark"),
    "case 4 UTF-16": ("1 5:2\n".encode("utf-16"), F, 1, 1, "looks like UTF-16"),
    "case 4 UTF-16 big": ("\ufeff1 5:2\n".encode("utf-16-be"), F, 1, 1, "looks like UTF-16"),
    "case 4 UTF-16 without a mark": ("1 5:2\n".encode("utf-16-le"), F, 1, 1, "looks like UTF-16"),
    "case 5 NUL in a label": (b"1\n0\0 5:2\n", F, 2, 2, "NUL byte"),
    "case 5 NUL in a value": (b"1 5:2\0\n", F, 1, 6, "NUL byte"),
    "case 5 NUL in a comment": (b"1 5:2 # \0\n", F, 1, 9, "NUL byte"),
    "case 7 cut inside id:": (b"1 5:2\n0 6:3 7:", F, 2, 7, 'expected "id:value", found "7:"'),
    "case 7 cut inside an id": (b"1 5:2\n0 6:3 7", F, 2, 7, 'expected "id:value", found "7"'),
    "case 9 line numbers after blank lines": (b"\n\r\n# c\n1 x\n", F, 4, 3, 'found "x"'),
    "case 13 missing colon": (b"1 5\n", F, 1, 3, 'expected "id:value", found "5"'),
    "case 13 semicolon": (b"1 5:1 17;1\n", F, 1, 7, 'train.svm:1:7: expected "id:value", found "17;1"'),
    "case 14 missing value": (b"1 5: 6:1\n", F, 1, 3, 'expected "id:value", found "5:"'),
    "case 15 libffm": (b"1 0:5:2\n", F, 1, 3, "--format libffm"),
    "case 16 CSV": (b"1,5,2\n", F, 1, 1, "--format csv"),
    "case 16 CSV header": (b"label,a,b\n", F, 1, 1, "--format csv"),
    "case 16 CSV entries": (b"1 5:2,6:3\n", F, 1, 3, "--format csv"),
    "case 17 underscore in an id": (b"1 1_0:2\n", F, 1, 3, "decimal digits"),
    "case 17 underscore in a value": (b"1 5:1_0\n", F, 1, 3, "decimal number"),
    "case 17 underscore in a label": (b"1_0 5:1\n", F, 1, 1, "decimal number"),
    "case 17 hexadecimal id": (b"1 0x5:1\n", F, 1, 3, "decimal digits"),
    "case 17 hexadecimal value": (b"1 5:0x1p3\n", F, 1, 3, "decimal number"),
    "case 17 unicode digits": ("1 ٣:1\n".encode(), F, 1, 3, 'found "٣:1"'),
    "case 17 unicode value": ("1 3:\u0661\n".encode(), F, 1, 3, "decimal number"),
    "case 17 unicode blank": ("1\u00a03:1\n".encode(), F, 1, 1, "expected a label"),
    "case 18 decimal id": (b"1 1.5:1\n", F, 1, 3, "whole number"),
    "case 18 plus before an id": (b"1 +5:1\n", F, 1, 3, "whole number"),
    "case 19 negative id": (b"1 -5:1\n", V, 1, 3, "must not be negative"),
    "case 23 id 2^63": (b"1 9223372036854775808:1\n", V, 1, 3, "64 bits"),
    "case 23 id 2^64 + 5": (b"1 18446744073709551621:1\n", V, 1, 3, "64 bits"),
    "case 23 id of 100 digits": (b"1 " + b"9" * 100 + b":1\n", V, 1, 3, "64 bits"),
    "case 25 duplicate": (b"1 5:1\n1 5:1 6:1 5:2\n", V, 2, 11, "id 5 occurs twice"),
    "case 25 duplicate zero": (b"1 10:1 0:1 0:2\n", V, 1, 12, "id 0 occurs twice"),
    "case 25 duplicate with many zeros": (b"1 5:1 " + b"0" * 5000 + b"5:1\n", V, 1, 7, "id 5 occurs twice"),
    "case 27 value nan": (b"1 5:nan\n", V, 1, 3, "must be finite"),
    "case 27 value -NaN": (b"1 5:-NaN\n", V, 1, 3, "must be finite"),
    "case 28 value inf": (b"1 5:1 6:+Infinity\n", V, 1, 7, "must be finite"),
    "case 28 value 1e400": (b"1 5:1e400\n", V, 1, 3, "at most 3.4e38"),
    "case 28 value 1e39": (b"1 5:-1e39\n", V, 1, 3, "at most 3.4e38"),
    "case 28 just too large": (
        b"1 6:1 5:340282356779733661637539395458142568448\n",
        V,
        1,
        7,
        "at most 3.4e38",
    ),
    "case 32 label nan": (b"1\nnan 5:1\n", V, 2, 1, "a label must be finite"),
    "case 32 label inf": (b"-inf 5:1\n", V, 1, 1, "a label must be finite"),
    "case 32 label 1e39": (b"1e39 5:1\n", V, 1, 1, "a label must be at most"),
    "case 32 text label": (b" cat 5:1\n", F, 1, 2, "expected a decimal number as the label"),
    "case 34 qid": (b"1 qid:3 5:1\n", V, 1, 3, "not supported"),
    "label missing": (b"5:1 6:1\n", F, 1, 1, "expected a label before"),
    "id missing": (b"1 :1\n", F, 1, 3, "whole number"),
    "blank before the colon": (b"1 5 :1\n", F, 1, 3, 'found "5"'),
    "sign without digits": (b"1 5:-\n", F, 1, 3, "decimal number"),
    "point without digits": (b"1 5:.\n", F, 1, 3, "decimal number"),
    "exponent without digits": (b"1 5:1e\n", F, 1, 3, "decimal number"),
    "exponent with a sign only": (b"1 5:1e+\n", F, 1, 3, "decimal number"),
    "exponent alone": (b"1 5:e5\n", F, 1, 3, "decimal number"),
    "two points": (b"1 5:1.2.3\n", F, 1, 3, "decimal number"),
    "control characters are shown escaped": (b"1 \x1b[31m:1\n", F, 1, 3, r'found "\x1b[31m:1"'),
    "bytes that are no UTF-8 are shown escaped": (b"1 \xff\n", F, 1, 3, r'found "\xff"'),
    "a long token is shortened": (b"1 " + b"x" * 1000 + b"\n", F, 1, 3, 'found "' + "x" * 40 + '..."'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_text_raises_and_names_line_and_column(parse, tmp_path, name):
    text, kind, line, column, fragment = REFUSED[name]
    with pytest.raises(kind) as caught:
        parse(text)
    error, path = caught.value, str(tmp_path / "train.svm")
    assert type(error) is kind
    assert (error.path, error.line, error.column) == (path, line, column)
    assert fragment in str(error)
    assert str(error).startswith(f"{path}:{line}:{column}: ")
    assert "\n" not in str(error)


@pytest.mark.parametrize("chunk_bytes", [1, 17, 10**6])
@pytest.mark.parametrize("name", [name for name, (text, *_) in REFUSED.items() if text.isascii()])
def test_good_rows_before_an_error_are_yielded_whatever_the_chunk_size(tmp_path, name, chunk_bytes):
    path, good = tmp_path / "train.svm", b"1 5:2\n0 7:3 6:4\n"
    text, kind, line, _, _ = REFUSED[name]
    path.write_bytes(good + text)
    n_rows = 0
    with pytest.raises(kind) as caught:  # noqa: PT012
        for chunk in iterate_rows(path, chunk_bytes=chunk_bytes):
            n_rows += chunk.labels.size
    assert caught.value.line == line + 2
    path.write_bytes(good + b"\n".join(text.split(b"\n")[: line - 1]))
    assert n_rows == read_libsvm(path).labels.size


def test_id_zero_is_refused_when_ids_start_from_one(parse):  # case 20
    with pytest.raises(DataValueError, match=r"train.svm:2:3: id 0 in a file with ids from 1; check --index-base"):
        parse(b"1 1:1\n1 0:1\n", index_base=1)


def test_ids_from_one_are_returned_from_zero(parse):  # cases 20 and 21
    assert lists(parse(b"1 1:1 3:2\n", index_base=1)) == [[1, {0: 1, 2: 2}, 1]]


def test_a_huge_id_is_refused_with_the_size_of_its_table(parse):  # case 24
    with pytest.raises(ResourceLimitError) as caught:
        parse(b"1 5:1\n1 6:1 1000000000000:1\n")
    assert "train.svm:2:7: id 1000000000000 needs a table of 3,725.3 GiB" in str(caught.value)
    assert "max_features = 4294967296" in str(caught.value)


@pytest.mark.parametrize("index_base", [0, 1])
def test_max_features_bounds_the_ids_exactly(parse, index_base):
    limits = Limits(max_features=10)
    last = 9 + index_base
    assert parse(b"1 %d:1\n" % last, limits=limits, index_base=index_base).indices.tolist() == [9]
    with pytest.raises(ResourceLimitError, match="max_features = 10"):
        parse(b"1 %d:1\n" % (last + 1), limits=limits, index_base=index_base)


def test_the_largest_int64_id_is_a_matter_of_limits_not_of_overflow(parse):
    with pytest.raises(ResourceLimitError, match="id 9223372036854775807"):
        parse(b"1 9223372036854775807:1\n", limits=Limits(max_features=2**62))


def test_duplicates_are_summed_on_request(parse):  # case 25
    rows = parse(b"1 5:1 6:1 5:2\n0 7:1\n1 9:1 8:1 9:-1\n0\n1 3:1 3:1", duplicates="sum")
    assert lists(rows) == [
        [1, {5: 3, 6: 1}, 1],
        [0, {7: 1}, 2],
        [1, {8: 1, 9: 0}, 3],
        [0, {}, 4],
        [1, {3: 2}, 5],
    ]


def test_a_sum_beyond_float32_is_refused(parse):
    with pytest.raises(DataValueError, match=r"train.svm:2:10: id 5 has values whose sum exceeds float32"):
        parse(b"1 5:1 5:1\n1 5:3e38 5:3e38\n", duplicates="sum")


def test_a_duplicate_in_an_earlier_row_is_reported_before_a_later_format_error(parse):
    with pytest.raises(DataValueError, match=r"train.svm:1:7: id 5 occurs twice"):
        parse(b"1 5:1 5:1\n1 x\n")


@pytest.mark.parametrize("length", [20, 21])
def test_the_longest_line_has_exactly_max_line_bytes(parse, length):  # case 35, in small
    line = b"1 5:1 # " + b"x" * (length - 8)
    for end in (b"\n", b"", b"\n1 6:1\n"):
        if length == 20:
            assert parse(b"0\n" + line + end, limits=Limits(max_line_bytes=20)).labels[:2].tolist() == [0, 1]
        else:
            with pytest.raises(ResourceLimitError, match=r"train.svm:2:1: line longer than max_line_bytes = 20"):
                parse(b"0\n" + line + end, limits=Limits(max_line_bytes=20))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"index_base": 2}, "index_base"),
        ({"duplicates": "last"}, "duplicates"),
        ({"chunk_bytes": 0}, "chunk_bytes"),
    ],
)
def test_a_wrong_option_is_refused_before_the_file_is_opened(options, key):
    with pytest.raises(ConfigError, match=key) as caught:
        iterate_rows("no such file", **options)
    assert caught.value.key == key


@pytest.mark.parametrize("wrong", [{"max_features": 0}, {"max_features": 2**63}, {"max_line_bytes": 0}])
def test_wrong_limits_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        Limits(**wrong)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 1], [0, 1, 1]),
        ([-1, 1], [0, 1]),
        ([2, 1], [1, 0]),
        ([0.5, 1], [0, 1]),
        ([1, 1], [1, 1]),
        ([0], [0]),
        ([-1], [0]),
        ([], []),
    ],
)
def test_binary_labels_become_zeros_and_ones(labels, expected):  # case 31
    checked = LabelCheck("train.svm", "binary").check(np.array(labels, np.float32), np.arange(len(labels)))
    assert checked.dtype == np.float32
    assert checked.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "line", "fragment"),
    [
        ([0, 1, -1, 0], 12, "0 and -1 are mixed; use 0 and 1, or -1 and 1, found -1"),
        ([-1, 1, 1, 0], 13, "found 0"),
        ([0, 1, 2, -1], 12, "OneVsRestClassifier(RaFMClassifier())"),
        ([1, np.nan, 2, 1], 11, "found nan"),
        ([1, np.inf, 2, 1], 11, "found inf"),
    ],
    ids=["mixed", "mixed the other way", "three", "nan", "inf"],
)
def test_other_binary_labels_are_refused_with_their_line(labels, line, fragment):  # cases 31 and 32
    with pytest.raises(DataValueError) as caught:
        LabelCheck("train.svm", "binary").check(np.array(labels, np.float32), np.arange(10, 14))
    assert str(caught.value).startswith(f"train.svm:{line}:1: ")
    assert str(caught.value).endswith(fragment)


def test_every_error_of_the_reader_is_a_rafm_error():
    assert all(issubclass(kind, RafmError) for _, kind, *_ in REFUSED.values())
