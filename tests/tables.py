"""What tests of tables share: specifications in short, features by name, a table with a column of every kind."""

import numpy as np
import pyarrow as pa

from rafm.encode.column import MISSING
from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec

STORES_VIEWS = int(pa.__version__.split(".")[0]) >= 21  # Arrow before writes no text views to Parquet


class Capsule:
    """What DuckDB and others hand out: an object that exports Arrow data and is nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class OneBatch:
    """An object that exports one Arrow batch."""

    def __init__(self, table):
        self.batch = table.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def spec_of(**columns):
    """Return a specification of some columns: kinds, or dicts with their settings."""
    return TableSpec.from_dict({"columns": columns})


def unescaped(name):
    """Split the name of a feature at the first = that has no backslash in front."""
    column, at = "", 0
    while at < len(name) and name[at] != "=":
        at += name[at] == "\\"
        column += name[at]
        at += 1
    value = name[at + 1 :]
    return column, None if value == MISSING else value.removeprefix("\\")


def cells_of(encoder, batch):
    """Read the cells back from encoded rows: per row {column: value}, by the names of the features alone."""
    numbers = {column.name for column in encoder.columns if column.kind == "number"}
    names, rows = encoder.feature_names(), []
    for a, b in zip(batch.indptr, batch.indptr[1:]):
        row = {}
        for i, x in zip(batch.indices[a:b], batch.values[a:b]):
            column, value = unescaped(names[i])
            assert column not in row
            assert value is None or column in numbers or x == 1
            row[column] = x if column in numbers and value is not None else value
        rows.append(row)
    return rows


def features_of(encoder, table, **options):
    """Return per row {name of feature: value}; no feature may be there twice."""
    batch, names, rows = encoder.encode(table, **options), encoder.feature_names(), []
    for a, b in zip(batch.indptr, batch.indptr[1:]):
        rows.append({names[i]: float(x) for i, x in zip(batch.indices[a:b], batch.values[a:b])})
        assert len(rows[-1]) == b - a
    return rows


def encoded(values, kind="category", **settings):
    """Return the features of one column, learnt from itself."""
    table = pa.table({"x": values})
    return features_of(TableEncoder.learn(table, spec_of(x={"kind": kind, **settings})), table)


def assert_same_rows(found, expected):
    for name in ("indptr", "indices", "values", "labels", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def mixed(n_rows, seed=0):
    """Return a table with a column of every kind, and its specification."""
    draw = np.random.default_rng(seed)
    tags = [[f"t{j}" for j in draw.integers(0, 9, draw.integers(0, 4))] for _ in range(n_rows)]
    table = pa.table(
        {
            "word": [f"w{i}" for i in (draw.pareto(1, n_rows) * 5).astype(int)],
            "user": draw.integers(0, 50, n_rows),
            "price": draw.normal(5, 2, n_rows),
            "size": pa.array(draw.lognormal(0, 2, n_rows), mask=draw.random(n_rows) < 0.1),
            "visits": (draw.pareto(0.8, n_rows) * 3).astype(int),
            "when": draw.integers(0, 10**9, n_rows).astype("datetime64[s]"),
            "tags": tags,
            "agent": [f"agent {i}" for i in draw.integers(0, 99, n_rows)],
            "y": draw.integers(0, 2, n_rows),
            "w": draw.random(n_rows),
        }
    )
    columns = {
        "user": "category",
        "size": {"kind": "bins", "n_bins": 5},
        "visits": "log_bins",
        "agent": {"kind": "category", "hash_size": 16},
        "tags": {"kind": "list", "scale": "1/n"},
    }
    return table, TableSpec.from_dict({"label": "y", "weight": "w", "min_count": 3, "columns": columns})
