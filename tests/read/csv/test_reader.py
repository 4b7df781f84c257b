"""Delimited text: what csv and pandas write comes back, bad text case by case, types, memory."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import subprocess
import tempfile
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from drawing import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from warm import run_script

from rafm.errors import ConfigError, DataFormatError, DataValueError, DataWarning, ResourceLimitError
from rafm.read.compression import open_bytes
from rafm.read.csv.cell_types import READ_AS, cast_text
from rafm.read.csv.reader import read_delimited
from rafm.read.csv.row_blocks import Dialect, cut_blocks, last_row_end, pair_quotes, row_places

F, V, R = DataFormatError, DataValueError, ResourceLimitError


def batches(text: bytes, **options) -> list[pa.RecordBatch]:
    """Read bytes through a file called train.csv."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.csv")
        path.write_bytes(text)
        return list(read_delimited(path, **options))


def columns_of(text: bytes, **options) -> dict[str, list]:
    """Return all batches as one dictionary, after comparing their schemas."""
    found = batches(text, **options)
    assert all(batch.schema == found[0].schema for batch in found)
    return pa.Table.from_batches(found).to_pydict() if found else {}


def refusal(text: bytes, kind: type[Exception], **options) -> str:
    """Return the message, from the name of the file on."""
    with pytest.raises(kind) as caught:
        batches(text, **options)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value).rpartition("/")[2]


words = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), min_size=1, max_size=6).filter(
    lambda word: not word.isspace() and "x" not in word
)
sizes = st.sampled_from([1, 5, 30, 10**6])


@st.composite
def tables(draw) -> list[list[str]]:
    """Draw rows of text; the x makes sure that no column is numbers."""
    n_columns = draw(st.integers(1, 4))
    row = st.lists(st.just("") | words.map(lambda word: word + "x"), min_size=n_columns, max_size=n_columns)
    return draw(st.lists(row.filter(any), min_size=1, max_size=6))


@examples(1.5)
@given(
    tables(),
    st.sampled_from(",\t;|"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    sizes,
)
def test_what_the_csv_module_writes_is_read_back(rows, delimiter, end, quoting, batch_bytes):
    # Before 3.13, Python writes a lone CR without quotes.
    assume(quoting == csv.QUOTE_ALL or not any("\r" in cell for row in rows for cell in row))
    text = io.StringIO()
    names = [f"n{k}" for k in range(len(rows[0]))]
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([names, *rows])
    found = columns_of(text.getvalue().encode(), delimiter=delimiter, batch_bytes=batch_bytes)
    assert found == {name: [row[k] or None for row in rows] for k, name in enumerate(names)}


plain_words = words.filter(lambda word: "\r" not in word)  # pandas writes a lone CR without quotes
numbers = st.none() | st.floats(-1e300, 1e300, allow_nan=False)


@examples(0.6)
@given(st.lists(st.tuples(st.integers(-(10**15) + 1, 10**15 - 1), numbers, plain_words), min_size=1, max_size=8), sizes)
def test_what_pandas_writes_is_read_back_with_its_types(rows, batch_bytes):
    frame = pd.DataFrame(rows, columns=["whole", "number", "text"])
    text = frame.assign(text=frame["text"] + "x").to_csv(index=False).encode()
    kinds = {} if batch_bytes > len(text) else {"whole": "integer", "number": "number", "text": "text"}
    found = columns_of(text, batch_bytes=batch_bytes, columns=kinds or {"number": "number"})
    assert found["whole"] == [row[0] for row in rows]
    assert found["number"] == [row[1] for row in rows]
    assert found["text"] == [row[2] + "x" for row in rows]


@examples(2)
@given(st.text('a",\n\r', max_size=30), st.booleans())
def test_rows_are_found_where_arrow_finds_them(text, quoting):
    text = re.sub(r"\r(?!\n)", "", text) + "\n"
    starts, lines, walk = row_places(text.encode(), Dialect(",", quoting), text.count("\n") + 1)
    ends = [*starts[1:], walk.end]
    rows = [text[a:b] for a, b in zip(starts, ends)]
    for row, line in zip(rows, lines):
        assert text.count("\n", 0, text.index(row, int(starts[rows.index(row)]))) <= line
    options = pa.csv.ParseOptions(quote_char='"' if quoting else False, newlines_in_values=True, delimiter=",")
    skipped: list[str] = []
    options.invalid_row_handler = lambda row: skipped.append(row.text) or "skip"
    read = pa.csv.ReadOptions(column_names=[f"n{k}" for k in range(99)], use_threads=False)
    complete = text[: walk.end]
    if complete.strip("\r\n"):
        pa.csv.read_csv(pa.BufferReader(complete.encode()), read, options)
    assert len(skipped) == len(rows)  # no row has 99 columns, so Arrow hands each of them to the handler


@examples(5)
@given(st.text('a",\n', max_size=30).flatmap(lambda text: st.sampled_from([text, "aa,\n" * 20 + text])))
def test_quotes_that_pair_up_tell_the_same_end_as_walking_the_rows(text):
    data = np.frombuffer(text.encode(), np.uint8)
    *_, walk = row_places(text.encode(), Dialect(","), text.count("\n") + 1)
    inside, paired, spans = pair_quotes(text.encode(), ",")
    if paired:
        assert spans == any(part.count('"') % 2 for part in accumulate(text.split("\n")[:-1]))
        assert (last_row_end(data, inside), inside) == (walk.end, walk.open_quote >= 0)


@pytest.mark.parametrize("text", ['"a"\n', '"a""b","\n"\n', '"","""",a\r\n"b"\n'])
def test_quotes_as_programs_write_them_pair_up(text):
    assert pair_quotes(text.encode(), ",") == (False, True, '"\n"' in text)


ACCEPTED = {
    "case 1 CRLF": (b"a,b\r\nx,1\r\n", {"a": ["x"], "b": [1]}),
    "case 3 BOM at the start": (b"\xef\xbb\xbfa,b\nx,1\n", {"a": ["x"], "b": [1]}),
    "case 6 no final newline": (b"a,b\nx,1", {"a": ["x"], "b": [1]}),
    "case 8 empty file": (b"", {}),
    "case 8 blank lines only": (b"\n\r\n", {}),
    "case 8 names only": (b"a,b\n", {"a": [], "b": []}),
    "case 9 blank lines": (b"\na,b\n\nx,1\n\n", {"a": ["x"], "b": [1]}),
    "case 36 gzip with two members": (
        gzip.compress(b"a,b\nx,1\n") + gzip.compress(b"y,2\n"),
        {"a": ["x", "y"], "b": [1, 2]},
    ),
    "zstd": (pa.compress(b"a,b\nx,1\n", "zstd", asbytes=True), {"a": ["x"], "b": [1]}),
    "quoted newline, comma and quote": (b'a,b\n"x\n, ""y""",1\n', {"a": ['x\n, "y"'], "b": [1]}),
    "quote inside a field": (b'a,b\n5" pipe,1\n', {"a": ['5" pipe'], "b": [1]}),
    "empty is missing, quoted or not": (b'a,b\n,1\n"",\n', {"a": [None, None], "b": [1, None]}),
    "NA is missing in numbers, text in text": (b"a,b\nNA,NA\nx,1\n", {"a": ["NA", "x"], "b": [None, 1]}),
    "semicolons": (b"a;b\n1,5;2\n", {"a": ["1,5"], "b": [2]}),
    "leading zeros are text": (b"a,b\n007,1\n", {"a": ["007"], "b": [1]}),
    "long ids are text": (b"a,b\n10000169349117863715,1\n", {"a": ["10000169349117863715"], "b": [1]}),
    "hex is text": (b"a,b\n0x1F,1\n", {"a": ["0x1F"], "b": [1]}),
    "underscores are text": (b"a,b\n1_0,1\n", {"a": ["1_0"], "b": [1]}),
    "decimals": (b"a,b\n1,1e3\n2,.5\n", {"a": [1, 2], "b": [1000.0, 0.5]}),
    "booleans and dates are text": (b"a,b\ntrue,2024-01-01\n", {"a": ["true"], "b": ["2024-01-01"]}),
    "a column without values is text": (b"a,b\n,1\n,2\n", {"a": [None, None], "b": [1, 2]}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_text_gives_the_expected_columns(name):
    text, expected = ACCEPTED[name]
    assert columns_of(text) == expected


def test_blanks_before_names_are_dropped_and_those_before_cells_are_warned_of():
    with pytest.warns(DataWarning, match="the cells of column 'b' begin with a space"):
        assert columns_of(b"a, b\nx, 1\ny, 2\n") == {"a": ["x", "y"], "b": [" 1", " 2"]}


REFUSED = {
    "case 2 lone CR": (b"a,b\nx,1\ry,2\n", F, "train.csv:2:4: found a carriage return (CR)"),
    "case 2 old Mac file": (b"a,b\rx,1\r", F, "train.csv:1:4: found a carriage return (CR)"),
    "case 3 BOM elsewhere": (b"a,b\nx,1\n\xef\xbb\xbfa,b\n", F, "train.csv:3:1: found a byte order mark"),
    "case 4 UTF-16": ("a,b\nx,1\n".encode("utf-16"), F, "train.csv:1:1: the text looks like UTF-16"),
    "case 5 NUL": (b"a,b\nx,\0\n", F, "train.csv:2:3: found a NUL byte"),
    "case 5 NUL in quotes": (b'a,b\n"x\n\0",1\n', F, "train.csv:3:1: found a NUL byte"),
    "case 7 cut in the last row": (b"a,b\nx,1\ny", F, "train.csv:3: expected 2 columns, found 1"),
    "case 38 gzip and garbage": (gzip.compress(b"a,b\nx,1\n") + b"x", F, "train.csv:3: broken gzip data"),
    "too few columns": (b"a,b\n\nx,1\ny\n", F, "train.csv:4: expected 2 columns, found 1"),
    "too many columns": (b"a,b\nx,1\ny,2,3\n", F, "train.csv:3: expected 2 columns, found 3"),
    "ragged after quoted newlines": (b'a,b\n"x\n\n",1\n\ny\n', F, "train.csv:6: expected 2 columns, found 1"),
    "open quote": (b'a,b\nx,1\ny,"2\nz,3\n', F, "train.csv:3:3: this quote is never closed"),
    "not UTF-8": (b"a,b\nx,1\ny,\xff\n", F, "train.csv:3: column 'b' is not UTF-8"),
    "name that is not UTF-8": (b"a,\xff\nx,1\n", F, "train.csv:1: the first row cannot be read"),
    "name twice": (
        b"a,b,a\n",
        F,
        'train.csv:1: columns 1 and 3 have the same name "a"; rename or drop one, or, if the first line is data',
    ),
    "no name, as of an index": (b",b\n0,1\n", F, "train.csv:1: column 1 has no name; pandas writes its index so: "),
    "no name": (b"a,,b\n0,1,2\n", F, "train.csv:1: column 2 has no name; give it one, or, if the first line is data"),
    "case 28 infinite": (b"a,b\nx,1\ny,inf\n", V, "train.csv:3: column 'b' must be finite, found \"inf\""),
    "case 28 too large": (b"a,b\nx,1\n\ny,1e400\n", V, "train.csv:4: column 'b' must be finite, found \"1e400\""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_text_names_the_line(name):  # case 136, among others
    text, kind, message = REFUSED[name]
    assert refusal(text, kind).startswith(message)


@pytest.mark.parametrize("batch_bytes", [1, 9])
@pytest.mark.parametrize("name", [name for name, (text, *_) in REFUSED.items() if "twice" not in name])
def test_the_line_does_not_depend_on_the_size_of_batches(name, batch_bytes):
    text, kind, message = REFUSED[name]
    kinds = {"b": "number"} if kind is V else {}
    found = refusal(text, kind, batch_bytes=batch_bytes, columns=kinds)
    assert found.split(": ")[0].split(":")[1] == message.split(": ")[0].split(":")[1]


@pytest.mark.parametrize("sixteenths", range(1, 16))
def test_truncated_gzip_gives_whole_rows_then_an_error(tmp_path, sixteenths):  # case 37
    text = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i * i) for i in range(3000))
    packed, path, n_rows = gzip.compress(text), tmp_path / "train.csv", 0
    path.write_bytes(packed[: len(packed) * sixteenths // 16])
    with pytest.raises(DataFormatError, match=r"compressed data ends early after [0-9]+ complete lines") as caught:  # noqa: PT012
        for batch in read_delimited(path, batch_bytes=100):
            n_rows += batch.num_rows
    assert n_rows <= caught.value.line - 1 <= n_rows + 102


def test_every_prefix_is_an_error_or_the_rows_of_that_prefix():  # case 7
    text = b'a,b\nx,"1\n2"\r\n\ny,""\nz,5\n'
    whole = columns_of(text)
    for end in range(len(text) + 1):
        try:
            found = columns_of(text[:end], columns={"b": "text"} if end > 3 else {})
        except DataFormatError:
            continue
        if end > 3:
            n_complete = max(len(found["a"]) - 1, 0)
            assert found["a"][:n_complete] == whole["a"][:n_complete]


def test_a_long_row_is_refused_and_an_open_quote_suspected():  # case 35, in small
    text = b'a,b\nx,"1\n' + b"y,2\n" * 100
    message = refusal(text, R, max_row_bytes=50, batch_bytes=10)
    assert message == "train.csv:2: row longer than max_row_bytes = 50; is the quote in line 2 never closed?"
    assert "check the line endings" in refusal(b"a,b\n" + b"x" * 100, R, max_row_bytes=50, batch_bytes=10)


@pytest.mark.parametrize(
    ("text", "expected"), [("a,b\n", True), ('a,"b"\n', True), ('a,"b\n"\n', False), ('a,b"\n', False)]
)
def test_blocks_know_whether_rows_are_lines(tmp_path, text, expected):
    (tmp_path / "rows.csv").write_text(text)
    with open_bytes(tmp_path / "rows.csv") as source:
        assert [block.one_line for block in cut_blocks(source, Dialect(","), 100, 100)] == [expected]


def test_rows_longer_than_the_pieces_of_arrow_are_read(monkeypatch):
    monkeypatch.setattr("rafm.read.csv.arrow_parser.PARSE_BYTES", 10)
    assert columns_of(b"a,b\n" + b"x" * 100 + b",1\n") == {"a": ["x" * 100], "b": [1]}


def test_a_column_that_turns_out_to_be_text_is_text_in_all_batches():
    text = b"a,b\n" + b"1,2\n" * 500 + b"x,2.5\n"
    found = columns_of(text, batch_bytes=100)
    assert set(found["a"]) == {"1", "x"}
    assert set(found["b"]) == {2.0, 2.5}


@pytest.mark.parametrize("cells", [["1", "NA", "2"], ["NA", "1"], ["1", "2898882888888888"], ["1", "007"], ["NA", "x"]])
def test_types_do_not_depend_on_the_size_of_batches(cells):
    text = "a,b\n" + "".join(f"{cell},x\n" for cell in cells)
    assert columns_of(text.encode(), batch_bytes=1) == columns_of(text.encode())


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize(
    "cell", ["0x1F", "-0X1f", " 7", "7\t", "\v7", "NA", "nan", "inf", "1e400", "+5", "007", "1_0", "9" * 20]
)
def test_numbers_that_arrow_parses_are_those_of_the_rules_for_cells(cell, kind):
    text, expected = f"a,b\n1,x\n{cell},x\n".encode(), cast_text(pa.array(["1", cell]), READ_AS[kind])
    if expected is None:
        assert refusal(text, V, columns={"a": kind, "b": "text"}).startswith("train.csv:3: column 'a' must be")
    else:
        assert columns_of(text, columns={"a": kind, "b": "text"})["a"] == expected.to_pylist()


def test_a_column_that_changes_behind_the_sample_is_refused_with_the_way_out(monkeypatch):  # case 46
    monkeypatch.setattr("rafm.read.csv.reader.SAMPLE_BYTES", 50)
    text = b"a,b\n" + b'"1",2\n\n' * 100
    message = refusal(text + b"x,2\n", V, batch_bytes=20)
    assert message == (
        "train.csv:202: column 'a' had only whole numbers in the sample, found \"x\"; "
        "read it as category: --column a=category"
    )
    assert refusal(text + b"1.5,2\n", V, batch_bytes=20).endswith("read it as number: --column a=number")
    assert columns_of(text + b"x,2\n", batch_bytes=20, columns={"a": "category"})["a"][-1] == "x"


def test_a_broken_row_in_the_sample_comes_after_the_batches_before_it():
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.csv")
        path.write_bytes(b"a,b\n" + b"1,2\n" * 50 + b"3\n")
        with pytest.raises(DataFormatError, match=r"train\.csv:52: expected 2 columns, found 1"):
            seen.extend(batch.num_rows for batch in read_delimited(path, batch_bytes=20))
    assert sum(seen) == 50


@pytest.mark.parametrize("batch_bytes", [1, 10**6])
@pytest.mark.parametrize("bad", [b"3\n", b"3,x\n", b"3,\xff\n", b"3,\0\n", b"3\r,\n", b"\xef\xbb\xbf3,4\n"], ids=repr)
def test_the_rows_before_the_first_error_are_yielded_whatever_comes_later(tmp_path, bad, batch_bytes):
    path, rows = tmp_path / "train.csv", []
    path.write_bytes(b"a,b\n1,2\n\n3,4\n" + bad + b"5,\0\n6\n7,\xff\n")
    with pytest.raises((DataFormatError, DataValueError), match=r"train\.csv:5:") as caught:  # noqa: PT012
        for batch in read_delimited(path, batch_bytes=batch_bytes, columns={"b": "number"}):
            rows += batch.to_pylist()
    assert caught.value.line == 5
    assert rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_given_kinds_are_stronger_than_what_the_values_look_like():
    found = batches(b"a,b,c,d\n1,2,3,4\n", columns={"a": "category", "b": "number", "c": "ignore", "d": "log_bins"})
    assert found[0].schema == pa.schema({"a": pa.string(), "b": pa.float64(), "d": pa.float64()}.items())
    assert refusal(b"a,b\n1,x\n", V, columns={"b": "number"}) == "train.csv:2: column 'b' must be numbers, found \"x\""
    assert refusal(b"a,b\n1,0x1\n", V, columns={"b": "integer"}).startswith("train.csv:2: column 'b' must be whole")


def test_a_missing_column_is_refused_by_its_name():  # case 45
    assert (
        refusal(b"a,b\n1,2\n", V, columns={"z": "number"}) == "train.csv: column 'z' is missing; the columns are a, b"
    )
    assert columns_of(b"a,b\n1,2\n", columns={"z": "ignore"}) == {"a": [1], "b": [2]}
    assert "all columns are ignored" in refusal(b"a\n1\n", V, columns={"a": "ignore"})


def test_names_come_from_the_file_the_caller_or_nowhere():
    text = b"a,b\n1,2\n"
    assert columns_of(text, header=False) == {"c1": ["a", "1"], "c2": ["b", "2"]}
    assert columns_of(text, header=["a", "b"]) == {"a": [1], "b": [2]}
    assert columns_of(b"1,2\n", header=["a", "b"]) == {"a": [1], "b": [2]}
    assert columns_of(b"2,3\n", header=["y", "a", "b"], label="y") == {"a": [2], "b": [3]}
    assert refusal(b"2\n", F, header=["a", "b"]) == "train.csv:1: expected 2 columns, found 1"


def test_quotes_are_text_where_there_is_no_quoting():
    assert columns_of(b'a\tb\n"x\t1\n', quoting=False) == {"a": ['"x'], "b": [1]}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"delimiter": ",,"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"columns": {"a": "catgory"}}, "columns"),
        ({"batch_bytes": 0}, "batch_bytes"),
        ({"max_row_bytes": 0}, "max_row_bytes"),
    ],
)
def test_a_wrong_option_is_refused_before_the_file_is_opened(options, key):
    with pytest.raises(ConfigError) as caught:
        read_delimited("no such file", **options)
    assert caught.value.key == key


def test_a_missing_path_and_a_directory_are_errors_of_the_system(tmp_path):  # case 41
    for path, kind in ((tmp_path / "missing.csv", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind):
            list(read_delimited(path))


def test_a_file_cut_while_it_is_read_ends_early_without_a_crash(tmp_path):  # case 42
    path = tmp_path / "train.csv"
    path.write_bytes(b"a,b\n" + b"1,text\n" * 600_000)
    n_rows, reader = 0, read_delimited(path, batch_bytes=10_000, columns={"a": "number", "b": "text"})
    n_rows += next(reader).num_rows
    os.truncate(path, 2_000_001)
    try:
        for batch in reader:
            n_rows += batch.num_rows
    except DataFormatError as error:
        assert "expected 2 columns, found 1" in str(error)  # noqa: PT017
    assert n_rows < 600_000


PIPE = """
import sys
from rafm.read.csv.reader import read_delimited
print([batch.to_pydict() for batch in read_delimited("-", batch_bytes=int(sys.argv[1]))])
"""


def read_pipe(text: bytes, batch_bytes: int) -> subprocess.CompletedProcess:
    """Read "-" in a new process that is fed through a pipe."""
    return run_script(PIPE, batch_bytes, stdin=text, text=False)


def test_the_standard_input_is_read_and_sampled_like_a_file():  # case 43
    found = read_pipe(b"a,b\n" + b"1,2\n" * 9 + b"x,2.5\n", 10).stdout
    assert b"{'a': ['1'" in found
    assert b"{'a': ['x'], 'b': [2.5]}" in found
    short = gzip.compress(b"a,b\nx,1\ny,2")  # less than the sample, packed, without a line end
    assert read_pipe(short, 100).stdout.strip() == b"[{'a': ['x', 'y'], 'b': [1, 2]}]"
    assert b"<stdin>:3: expected 2 columns, found 1" in read_pipe(b"a,b\nx,1\ny", 100).stderr


MEASURE = """
import re, sys
from rafm.read.csv.reader import read_delimited
def megabytes(key):
    return int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1000
open(sys.argv[2], "w").write('a,b\\n"1",x\\n')
list(read_delimited(sys.argv[2]))
before = megabytes("VmHWM")
print("rows", sum(batch.num_rows for batch in read_delimited(sys.argv[1])))
print("grown", megabytes("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("row", [b"1,2.5,some text,0a1b2c3d\n", b'1,2.5,"some\ntext",0a1b\n'], ids=["plain", "quoted"])
def test_400_megabytes_are_read_in_bounded_memory(tmp_path, row):  # case 39 too: packed, it is a bomb
    path, n_rows = tmp_path / "train.csv.gz", 400_000_000 // len(row)
    block = gzip.compress(row * (n_rows // 100), 1)
    path.write_bytes(gzip.compress(b"a,b,c,d\n") + block * 100)
    process = run_script(MEASURE, path, tmp_path / "small.csv")
    assert process.returncode == 0, process.stderr
    assert f"rows {n_rows // 100 * 100}" in process.stdout
    assert float(re.search(r"grown (\S+)", process.stdout)[1]) < 330
