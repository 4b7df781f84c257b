"""Parquet: files, folders and patterns; schemas that differ; files that are cut or damaged."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import STORES_VIEWS
from warm import run_script

from rafm.errors import ConfigError, DataFormatError, DataValueError, ResourceLimitError
from rafm.read.parquet import read_parquet

TABLE = pa.table({"y": [1, 0, 1], "city": ["Rome", None, "Oslo"], "age": [30.5, None, 50.0]})


def read(path: Path, **options) -> pa.Table:
    """Return all batches as one table, after comparing their schemas."""
    return pa.Table.from_batches(list(read_parquet(path, **options)))


cells = {
    "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    "number": st.none() | st.floats(allow_nan=False),
    "text": st.none() | st.text(max_size=5),
}


@examples(0.4)
@given(st.lists(st.fixed_dictionaries(cells), max_size=20), st.integers(1, 7), st.sampled_from([1, 100, 10**6]))
def test_what_arrow_writes_is_read_back(tmp_path_factory, rows, row_group_size, batch_bytes):
    path = tmp_path_factory.mktemp("rows") / "train.parquet"
    schema = pa.schema({"whole": pa.int64(), "number": pa.float64(), "text": pa.string()}.items())
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, path, row_group_size=row_group_size)
    found = list(read_parquet(path, batch_bytes=batch_bytes))
    assert all(batch.schema == schema for batch in found)
    assert pa.Table.from_batches(found, schema) == table


def test_what_pandas_writes_is_read_back_with_categories(tmp_path):
    frame = pd.DataFrame({"city": pd.Categorical(["Rome", "Oslo", "Rome"]), "n": [1, 2, 3]})
    frame.to_parquet(tmp_path / "train.parquet")
    found = read(tmp_path / "train.parquet")
    assert found.column("city").to_pylist() == ["Rome", "Oslo", "Rome"]
    assert pa.types.is_dictionary(found.schema.field("city").type)


@pytest.mark.parametrize("columns", [["list"], ["struct"], ["list", "struct"]], ids=" and ".join)
@pytest.mark.parametrize("text", [pa.string(), pa.binary()], ids=str)
def test_lists_of_text_are_read_from_several_row_groups(tmp_path, text, columns):
    """Every row group has a dictionary of its own, and Arrow cannot join those within lists and structs."""
    genres = pa.array([["a", "b"], None, [], ["c"], ["b", None]], pa.list_(text))
    rows = {"list": genres, "struct": [{"of": "a"}, None, {"of": "b"}, {"of": None}, {"of": "a"}]}
    table = pa.table({name: rows[name] for name in columns})
    pq.write_table(table, tmp_path / "train.parquet", row_group_size=2)
    assert read(tmp_path / "train.parquet").to_pylist() == table.to_pylist()


def test_reading_again_gives_the_rows_again(tmp_path):
    pq.write_table(TABLE, tmp_path / "train.parquet")
    assert read(tmp_path / "train.parquet") == read(tmp_path / "train.parquet") == TABLE


def write_parts(folder: Path) -> None:
    """Write three files with data and some that are none."""
    for number, name in ((1, "a.parquet"), (2, "b/part.pq"), (3, "c.parquet")):
        (folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), folder / name)
    for name in ("_SUCCESS", "_metadata.parquet", ".hidden.parquet", "notes.txt"):
        (folder / name).write_bytes(b"none")


def test_a_folder_is_read_with_its_subfolders_in_the_order_of_names(tmp_path):
    write_parts(tmp_path)
    assert read(tmp_path)["n"].to_pylist() == [1, 2, 3]


def test_a_pattern_is_read_in_the_order_of_names(tmp_path):
    write_parts(tmp_path)
    assert read(f"{tmp_path}/[ac].parquet")["n"].to_pylist() == [1, 3]
    assert read(f"{tmp_path}/**/*.pq")["n"].to_pylist() == [2]


@pytest.mark.parametrize("path", ["", "/*.parquet"])
def test_a_folder_or_pattern_without_files_is_refused(tmp_path, path):
    with pytest.raises(DataFormatError, match="no Parquet files found"):
        list(read_parquet(f"{tmp_path}{path}"))


def test_columns_may_come_in_another_order_and_some_be_left_out(tmp_path):  # case 45
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(TABLE.select(["age", "y", "city"]), tmp_path / "b.parquet")
    assert read(tmp_path) == pa.concat_tables([TABLE, TABLE])
    assert read(tmp_path, columns={"y": "ignore", "city": "category"}).column_names == ["city", "age"]


DIFFERENT = {
    "missing": (TABLE.drop_columns("city"), r"b\.parquet: column 'city' of .*a\.parquet is missing"),
    "extra": (TABLE.append_column("z", [[1, 2, 3]]), r"b\.parquet: column 'z' is not in .*a\.parquet"),
    "case 46 type": (
        TABLE.set_column(0, "y", [["1", "0", "1"]]),
        r"b\.parquet: column 'y' has type string, but int64 in .*a\.parquet",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_files_with_different_columns_are_refused_before_a_row_is_read(tmp_path, name):
    table, message = DIFFERENT[name]
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(DataFormatError, match=message):
        next(read_parquet(tmp_path))


def test_wrong_columns_and_options_are_refused(tmp_path):
    path = tmp_path / "train.parquet"
    pq.write_table(TABLE, path)
    with pytest.raises(DataValueError, match="column 'z' is missing; the columns are y, city, age"):
        list(read_parquet(path, columns={"z": "number"}))
    with pytest.raises(DataValueError, match="all columns are ignored"):
        list(read_parquet(path, columns=dict.fromkeys(TABLE.column_names, "ignore")))
    for options, key in (({"batch_bytes": 0}, "batch_bytes"), ({"columns": {"y": "texts"}}, "columns")):
        with pytest.raises(ConfigError) as caught:
            read_parquet(path, **options)
        assert caught.value.key == key
    with pytest.raises(ConfigError, match="standard input"):
        read_parquet("-")


def test_names_that_occur_twice_are_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "train.parquet")
    with pytest.raises(DataFormatError, match=r"train\.parquet: two columns have the same name 'a'"):
        list(read_parquet(tmp_path / "train.parquet"))


def test_a_missing_path_is_an_error_of_the_system(tmp_path):  # case 41
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        list(read_parquet(tmp_path / "missing.parquet"))


@pytest.mark.parametrize("text", [b"", b"a,b\n1,2\n", b"PAR1", b"PAR1" * 3, b"\0" * 100], ids=len)
def test_what_is_not_parquet_is_refused(tmp_path, text):
    path = tmp_path / "train.parquet"
    path.write_bytes(text)
    with pytest.raises(DataFormatError, match=r"train\.parquet: (broken Parquet file \(|the file is empty)"):
        list(read_parquet(path))


def test_every_cut_is_an_error(tmp_path):  # case 44
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"n": list(range(300)), "s": [f"v{i}" for i in range(300)]}), path, row_group_size=100)
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 61), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(DataFormatError) as caught:
            list(read_parquet(path))
        assert "\n" not in str(caught.value)


FLIP = """
import random, sys
from pathlib import Path
from rafm.read.parquet import read_parquet
from rafm.errors import DataFormatError
whole, path, random = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), random.Random(int(sys.argv[3]))
refused = 0
for _ in range(400):
    damaged = bytearray(whole)
    for _ in range(random.choice([1, 1, 2, 5])):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    path.write_bytes(damaged)
    try:
        list(read_parquet(path))
    except DataFormatError:
        refused += 1
print("refused", refused)
"""


@pytest.mark.parametrize(("compression", "checksum"), [("none", False), ("snappy", False), ("zstd", True)])
def test_flipped_bits_are_an_error_or_other_values_but_never_a_crash(tmp_path, compression, checksum):  # case 44
    draw = random.Random(0)
    table = pa.table(
        {"n": range(500), "s": [f"v{i % 7}" for i in range(500)], "x": [draw.random() for _ in range(500)]}
    )
    pq.write_table(table, tmp_path / "a", compression=compression, write_page_checksum=checksum, row_group_size=200)
    process = run_script(FLIP, tmp_path / "a", tmp_path / "b", "1")
    assert process.returncode == 0, process.stderr
    refused = int(re.search(r"refused (\d+)", process.stdout)[1])
    assert refused > (360 if checksum else 40)  # with checksums of pages, only bits that mean nothing pass


def test_batches_have_about_the_wanted_size(tmp_path):
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"s": [f"{i:020}" for i in range(20_000)]}), path, use_dictionary=False)
    sizes = [batch.nbytes for batch in read_parquet(path, batch_bytes=50_000)]
    assert len(sizes) > 8
    assert max(sizes) < 100_000


MEASURE = """
import sys
import pyarrow as pa
from rafm.read.parquet import read_parquet
print("rows", sum(batch.num_rows for batch in read_parquet(sys.argv[1])))
print("megabytes", pa.default_memory_pool().max_memory() / 1e6)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "train.parquet"
    group = pa.table({"n": range(100_000), "s": [f"{i * 7919 % 10**9:020}" for i in range(100_000)]})
    with pq.ParquetWriter(path, group.schema, use_dictionary=False, compression="none") as writer:
        for _ in range(60):
            writer.write_table(group)
    assert path.stat().st_size > 190_000_000
    process = run_script(MEASURE, path)
    assert "rows 6000000" in process.stdout, process.stderr
    assert float(process.stdout.split()[-1]) < 60  # Arrow's own account; what the allocator keeps varies


EXPAND = """
import re, sys
from rafm.read.parquet import read_parquet
def megabytes():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1000
before = megabytes()
for path in sys.argv[1:]:
    print(sum(batch.num_rows for batch in read_parquet(path)), "rows", megabytes() - before, "MB")
"""
LONG, MANY = "x" * 100_000, 3000  # 300 MB that a file holds once
ONCE = {
    "text": ([LONG], pa.string()),
    "bytes": ([LONG.encode()], pa.binary()),
    "lists": ([[LONG]], pa.list_(pa.string())),
}
if STORES_VIEWS:
    ONCE |= {
        "views": ([LONG], pa.string_view()),
        "views of bytes": ([LONG.encode()], pa.binary_view()),
        "large lists of views": ([[LONG]], pa.large_list(pa.string_view())),
        "fixed lists of views": ([[LONG]], pa.list_(pa.string_view(), 1)),
    }


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_values_that_are_stored_once_are_expanded_in_slices(tmp_path):  # case 119
    paths = [tmp_path / f"{name}.parquet" for name in ONCE]
    for path, (cell, kind) in zip(paths, ONCE.values()):
        with pq.ParquetWriter(path, pa.schema({"c": kind})) as writer:
            writer.write_table(pa.table({"c": pa.array(cell * MANY, kind)}))
        assert path.stat().st_size < 10**6
    process = run_script(EXPAND, *paths)
    assert process.stdout.count("3000 rows") == len(paths), process.stderr
    assert max(map(int, re.findall(r"(\d+) MB", process.stdout))) < 150, process.stdout


@pytest.mark.skipif(not STORES_VIEWS, reason="this version of Arrow does not write views to Parquet")
def test_types_of_columns_stay_as_they_are_but_for_views(tmp_path):
    kinds = [pa.large_string(), pa.binary(), pa.list_(pa.large_string()), pa.dictionary(pa.int32(), pa.string())]
    views = {pa.string_view(): pa.string(), pa.list_(pa.binary_view()): pa.list_(pa.binary())}
    expected = dict(zip([*kinds, *views], [*kinds, *views.values()]))
    cells = [["a", None], [b"a", None], [["a", None], None], ["a", None], ["a", None], [[b"a", None], None]]
    columns = {f"c{k}": pa.array(one, kind) for k, (one, kind) in enumerate(zip(cells, expected))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert found.schema.types == [*expected.values()]
    assert found.to_pydict() == {name: column.to_pylist() for name, column in columns.items()}


def test_a_cell_that_is_too_large_is_refused(tmp_path):  # case 119
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"y": [0, 1], "word": ["tea", "x" * (2**26 + 1)]}), path)
    with pytest.raises(ResourceLimitError, match=r"a.parquet: column 'word', row 2: the row needs 671088\d+ bytes"):
        read(path)


def test_equal_numbers_are_read_in_batches_of_bounded_size(tmp_path):  # case 119
    path, n = tmp_path / "a.parquet", 100_000
    pq.write_table(pa.table({f"c{k}": np.zeros(n) for k in range(20)}), path)
    batches = [*read_parquet(path, batch_bytes=10**6)]
    assert sum(batch.num_rows for batch in batches) == n
    assert max(batch.nbytes for batch in batches) < 1.1e6
