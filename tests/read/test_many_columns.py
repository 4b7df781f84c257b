"""Case 101: the work of a table grows with the number of its columns, not with its square.

Each part of the way is done for n and for 8 n columns, and the bytecodes that it executes are counted: no clock, so the
answer is the same on any machine. What goes with the square executes eight times as many per column; a quarter more is
allowed. `benchmarks/bench_columns.py` has the seconds.
"""

import pyarrow as pa
import pytest
from pyarrow import parquet
from work import count_bytecodes

from rafm.encode.encoder import TableEncoder
from rafm.encode.serialize import encoder_parts, read_encoder
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.read.csv.reader import read_delimited
from rafm.read.parquet import read_parquet

FEW, TIMES = 60, 8


def names(n):
    return [f"column {k}" for k in range(n)]


def table(n):
    return pa.table({name: pa.array([1.5, 2.5]) for name in names(n)})


def check_spec(n, folder):
    spec = TableSpec(tuple(ColumnSpec(name) for name in names(n)))
    return lambda: TableSpec(spec.columns)


def learn(n, folder):
    rows, spec = table(n), TableSpec(tuple(ColumnSpec(name, "number") for name in names(n)))
    return lambda: TableEncoder.learn(rows, spec)


def choose_kinds(n, folder):
    rows = table(n)
    return lambda: TableEncoder.learn(rows)


def encode(n, folder):
    rows = table(n)
    encoder = TableEncoder.learn(rows)
    return lambda: encoder.encode(rows)


def grow(n, folder):
    rows = table(n)
    encoder = TableEncoder.learn(rows)
    return lambda: encoder.ids_in(encoder.grow_then_encode(rows)[0])


def keep_encoder(n, folder):
    encoder = TableEncoder.learn(table(n))
    return lambda: read_encoder(*encoder_parts(encoder))


def csv(n, folder):
    path = folder / f"{n}.csv"
    path.write_text("\n".join(",".join(cells) for cells in (names(n), ["1.5"] * n, ["2.5"] * n)) + "\n")
    wanted = dict.fromkeys(names(n), "number")
    return lambda: list(read_delimited(path, columns=wanted))


def parquet_file(n, folder):
    path = folder / f"{n}.parquet"
    parquet.write_table(table(n), path)
    wanted = dict.fromkeys(names(n), "number")
    return lambda: list(read_parquet(path, columns=wanted))


def parquet_folder(n, folder):
    (folder / str(n)).mkdir()
    for name in "ab":
        parquet.write_table(table(n), folder / str(n) / f"{name}.parquet")
    return lambda: list(read_parquet(folder / str(n)))


def work_of(run):
    """Return the bytecodes of a second run, after one that fills caches."""
    run()
    return count_bytecodes(run)


PARTS = (check_spec, choose_kinds, learn, encode, grow, keep_encoder, csv, parquet_file, parquet_folder)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_work_grows_with_the_columns_not_with_their_square(part, tmp_path):
    few, many = (work_of(part(n, tmp_path)) for n in (FEW, TIMES * FEW))
    assert many <= 1.25 * TIMES * few
