"""The reader of libsvm text against a slow one, scikit-learn's and float(); files that change while read."""

from __future__ import annotations

import os
import re
import struct
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from reading import read_libsvm
from sklearn.datasets import load_svmlight_file

from rafm.errors import DataFormatError, RafmError
from rafm.read.libsvm.reader import TextRows, iterate_rows
from rafm.read.libsvm.scan import take_word

TAKE_WORD = njit(take_word)
NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
LINE = re.compile(rb"[ \t]*(?:(%b)((?:[ \t]+[0-9]+:%b)*)[ \t]*)?(?:#[^\0\r\n]*)?\r?" % (NUMBER, NUMBER))
CHUNKS = st.sampled_from([1, 7, 64, 8 * 2**20])


def parse(text: bytes, **options) -> TextRows:
    """Read bytes through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.svm")
        path.write_bytes(text)
        return read_libsvm(path, **options)


def naive_rows(text: bytes) -> tuple[list, int | None]:
    """Return the rows before the first bad line, and that line, by regular expressions and float()."""
    rows = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        match = LINE.fullmatch(line)
        if not match:
            return rows, number
        if match[1] is not None:
            pairs = [pair.split(b":") for pair in match[2].split()]
            ids = [int(i) for i, _ in pairs]
            with np.errstate(over="ignore"):
                numbers = np.array([match[1], *(v for _, v in pairs)], float).astype(np.float32).tolist()
            if len(set(ids)) < len(ids) or not np.isfinite(numbers).all() or max(ids, default=0) >= 2**32:
                return rows, number
            rows.append((number, numbers[0], sorted(zip(ids, numbers[1:]))))
    return rows, None


def as_lists(rows: TextRows) -> list:
    """Return rows as the naive reader does."""
    pairs = list(zip(rows.indices.tolist(), rows.values.tolist()))
    spans = zip(rows.lines.tolist(), rows.labels.tolist(), rows.indptr[:-1], rows.indptr[1:])
    return [(line, label, pairs[a:b]) for line, label, a, b in spans]


def read_all(text: bytes, chunk_bytes: int) -> tuple[list, int | None]:
    """Return the rows before the first bad line, and that line, from the reader under test."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.svm")
        path.write_bytes(text)
        try:
            for chunk in iterate_rows(path, chunk_bytes=chunk_bytes):
                assert chunk.labels.size > 0
                rows += as_lists(chunk)
        except RafmError as error:
            return rows, int(re.search(r"train\.svm:(\d+):\d+: ", str(error))[1])
    return rows, None


blanks = st.text(" \t", min_size=1, max_size=3)
numbers = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-(2.0**99), 2.0**99, width=32).map(repr),
    st.floats(-100, 100).map(lambda x: f"{x:.4f}"),
    st.sampled_from(["1", "0", "+1", "-0", ".5", "5.", "1e-400", "1E+5"]),
)
entries = st.dictionaries(st.integers(0, 2**32 - 1) | st.integers(0, 99), numbers, max_size=8).map(
    lambda pairs: list(pairs.items())
)


@st.composite
def good_texts(draw) -> str:
    """Draw well-formed text with all the freedom the grammar leaves."""
    lines = []
    for label, pairs in draw(st.lists(st.tuples(numbers, entries.flatmap(st.permutations)), max_size=6)):
        row = label + "".join(f"{draw(blanks)}{i}:{value}" for i, value in pairs)
        before, after = (
            draw(st.text(" \t", max_size=2)),
            draw(st.sampled_from(["", " ", "\t", "#", " # 1:2 x "])),
        )
        lines += [before + row + after, *draw(st.lists(st.sampled_from(["", "  ", "# note"]), max_size=1))]
    ends = [draw(st.sampled_from(["\n", "\r\n"])) for _ in lines]
    text = "".join(line + end for line, end in zip(lines, ends))
    return text if draw(st.booleans()) else text.removesuffix("\n")


@examples(0.8)
@given(good_texts(), CHUNKS)
def test_well_formed_text_reads_as_the_slow_reader_reads_it(text, chunk_bytes):  # cases 1, 9, 11, 12, 26
    expected, bad_line = naive_rows(text.encode())
    assert read_all(text.encode(), chunk_bytes) == (expected, bad_line)


@examples(1.5)
@given(good_texts(), st.data(), CHUNKS)
def test_damaged_text_is_refused_exactly_where_the_slow_reader_refuses_it(text, data, chunk_bytes):
    damaged = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"\n", b"\r", b" ", b":", b"#", b"-", b".", b"e", b"5", b"\0", b"\xff", b",", b"_"])
        )
    damaged = bytes(damaged).lstrip(b"\xff\0")  # those at the start are about encodings
    assert read_all(damaged, chunk_bytes) == naive_rows(damaged)


def test_every_prefix_of_a_good_file_is_an_error_or_rows_of_that_prefix():  # case 7
    text = b"1 5:12.5e1 17:1\r\n# note 1:2\n\n-1 3:1 2:.25 # tail\n0\n+1 4294967295:1 6:340e-2\n"
    whole, bad_line = naive_rows(text)
    assert bad_line is None
    for end in range(len(text) + 1):
        for chunk_bytes in (1, 10, 10**6):
            rows, bad_line = read_all(text[:end], chunk_bytes)
            assert (rows, bad_line) == naive_rows(text[:end])
            complete = [row for row in whole if row[0] <= text[:end].count(b"\n")]
            assert rows[: len(complete)] == complete
            assert len(rows) <= len(complete) + 1


@examples(1.5)
@given(
    st.lists(
        st.one_of(
            st.floats(-3.4e38, 3.4e38).map(repr),
            st.floats(-1e3, 1e3, width=32).map(repr),
            st.from_regex(NUMBER.decode(), fullmatch=True).filter(lambda text: text.isascii()),
            st.tuples(st.integers(0, 10**25), st.integers(-70, 20)).map("{0[0]}e{0[1]}".format),
        ),
        max_size=20,
    )
)
def test_numbers_are_those_of_float_rounded_to_float32(texts):
    with np.errstate(over="ignore"):
        expected = np.array(texts, float).astype(np.float32)
    texts = [text for text, number in zip(texts, expected) if np.isfinite(number)]
    expected = expected[np.isfinite(expected)]
    rows = parse("".join(f"{text} 0:{text}\n" for text in texts).encode(), chunk_bytes=10**6)
    assert rows.labels.tobytes() == expected.tobytes()  # bytes, so that -0 differs from 0
    assert rows.values.tobytes() == expected.tobytes()


@examples(3)
@given(st.integers(0, 0x7F7FFFFE), st.integers(-2, 2))
def test_numbers_at_the_middle_between_two_float32_round_as_float_does(bits, nudge):
    low, high = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits, bits + 1))
    middle = (low + high) / 2  # exact in float64
    for _ in range(abs(nudge)):
        middle = float(np.nextafter(middle, np.inf * nudge))
    text = f"{middle:.{60}e}"
    assert parse(f"1 0:{text}\n".encode()).values[0] == np.float32(float(text))


def test_short_decimals_are_exact():
    draw = np.random.default_rng(0)
    whole, parts = draw.integers(0, 12, 4000), draw.integers(0, 10**9, 4000)
    texts = [f"{'-' * (k % 2)}{a}.{part:09d}"[: 2 + k % 2 + k % 11] for k, (a, part) in enumerate(zip(whole, parts))]
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    for tail in ("", "e2", "E-1"):
        rows = parse("".join(f"1 0:{text}{tail}\n" for text in texts).encode())
        numbers = np.array([float(text + tail) for text in texts]).astype(np.float32) if tail else expected
        np.testing.assert_array_equal(rows.values, numbers)
    assert np.signbit(parse(b"1 0:-0.0\n").values[0])


def test_very_long_numbers_are_exact():
    for text in (
        "0." + "0" * 5000 + "1e5001",
        "1" + "0" * 5000 + "e-5000",
        "1." + "0" * 5000 + "1",
        "1e-" + "9" * 99,
    ):
        assert parse(f"{text} 0:{text}".encode()).values[0] == np.float32(float(text))


def test_one_long_number_does_not_multiply_the_memory_of_its_row():
    middle = b"1.00000005960464477539062500" + b"0" * 10**6  # between two float32, so float() has to decide
    rows = parse(b"1 0:" + middle + b"".join(b" %d:1" % i for i in range(1, 10**5)))
    assert rows.values[:2].tolist() == [np.float32(float(middle)), 1]


def test_rows_agree_with_those_of_scikit_learn(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "train.svm"
    with path.open("w") as file:
        for _ in range(3000):
            ids = np.sort(random.choice(10**6, random.integers(0, 100), replace=False))
            file.write(f"{random.choice([-1, 1])} " + " ".join(f"{i}:{random.normal():.6g}" for i in ids) + "\n")
    matrix, labels = load_svmlight_file(str(path), zero_based=True)
    rows = read_libsvm(path, chunk_bytes=100_000)
    np.testing.assert_array_equal(rows.labels, labels)
    np.testing.assert_array_equal(rows.indptr, matrix.indptr)
    np.testing.assert_array_equal(rows.indices, matrix.indices)
    np.testing.assert_array_equal(rows.values, matrix.data.astype(np.float32))


def test_long_unsorted_rows_are_sorted_stably():
    ids = np.random.default_rng(0).permutation(5000)
    rows = parse(("1 " + " ".join(f"{i}:{i + 0.5}" for i in ids) + " 0:1000\n").encode(), duplicates="sum")
    assert rows.indices.tolist() == list(range(5000))
    assert rows.values.tolist() == [1000.5] + [i + 0.5 for i in range(1, 5000)]


def test_arrays_have_the_promised_types_also_when_empty():
    for text in (b"", b"1 5:1\n", b"1\n"):
        rows = parse(text)
        types = [array.dtype for array in (rows.labels, rows.indptr, rows.indices, rows.values, rows.lines)]
        assert types == [np.float32, np.int64, np.int64, np.float32, np.int64]
        assert rows.indptr[0] == 0
        assert rows.first_line == 1


def test_chunks_know_their_first_line(tmp_path):
    path = tmp_path / "train.svm"
    path.write_bytes(b"# a\n1 5:1\n\n0 6:1\n1 7:1\n")
    chunks = list(iterate_rows(path, chunk_bytes=11))
    assert [(chunk.first_line, chunk.lines.tolist()) for chunk in chunks] == [(1, [2]), (4, [4]), (5, [5])]


def cut_while_reading(path: Path, size: int) -> list:
    """Read a file while a thread cuts it to `size` bytes; return the rows that came."""
    rows, started = [], threading.Event()

    def cut() -> None:
        started.wait()
        os.truncate(path, size)

    writer = threading.Thread(target=cut)
    writer.start()
    try:
        for chunk in iterate_rows(path, chunk_bytes=10_000):
            started.set()
            rows += as_lists(chunk)
    except DataFormatError:
        pass
    finally:
        started.set()
        writer.join()
    return rows


@pytest.mark.parametrize("size", [0, 10_001, 123_457, 400_003])
def test_a_file_cut_while_it_is_read_ends_early_without_a_crash(tmp_path, size):  # case 42
    path, line = tmp_path / "train.svm", b"1 5:1 77:2.5\n"
    path.write_bytes(line * 40_000)
    rows = cut_while_reading(path, size)
    assert [row[1:] for row in rows[:-1]] == [(1.0, [(5, 1.0), (77, 2.5)])] * (len(rows) - 1)


def test_a_file_that_grows_while_it_is_read_gives_whole_rows(tmp_path):  # case 42
    path, line = tmp_path / "train.svm", b"1 5:1 77:2.5\n"
    path.write_bytes(line * 1000)
    n_rows = 0
    for chunk in iterate_rows(path, chunk_bytes=1000):
        n_rows += chunk.labels.size
        if n_rows < 2000:
            with path.open("ab") as file:
                file.write(line * 10)
    assert n_rows >= 1000


@examples(0.4)
@given(good_texts(), st.sampled_from([b"", b"1 x\n", b"0 5:1 5:1\n", b"\0\n"]), st.sampled_from([1, 30]))
def test_rows_and_errors_do_not_depend_on_the_number_of_threads(text, tail, chunk_bytes):
    def outcome(threads: int) -> tuple[list, str]:
        with tempfile.TemporaryDirectory() as folder:
            path, rows = Path(folder, "train.svm"), []
            path.write_bytes(text.encode() + b"\n" + tail + text.encode())
            try:
                for chunk in iterate_rows(path, chunk_bytes=chunk_bytes, threads=threads):
                    rows += as_lists(chunk)
            except RafmError as error:
                return rows, str(error).removeprefix(folder)
            return rows, ""

    assert outcome(1) == outcome(2) == outcome(3)


@examples(3)
@given(st.binary(max_size=9) | st.text("0123456789:/ ", max_size=9).map(str.encode))
def test_eight_bytes_at_once_give_the_digits_before_the_first_other_byte(text):
    digits = re.match(rb"[0-9]{0,8}", text)[0]
    padded = np.frombuffer(text + b"\n" * 8, np.uint8)
    assert TAKE_WORD(padded, 0) == (len(digits), int(digits or b"0"))
