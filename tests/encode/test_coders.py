"""Each kind of column: its cells become the features that names and numbers from elsewhere say."""

import datetime
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import assert_same_rows, encoded, features_of, spec_of

from rafm.encode.column import RARE
from rafm.encode.coverage import ColumnCounts, Coverage
from rafm.encode.encoder import TableEncoder
from rafm.encode.raw_rows import TableRows
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.errors import DataValueError

# Categories


def test_whole_numbers_are_the_same_category_in_any_type():
    spec, expected = spec_of(x="category"), [{"x=-7": 1.0}, {"x=3": 1.0}, {"x=<missing>": 1.0}]
    for kind in (pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(19, 0)):
        table = pa.table({"x": pa.array([-7, 3, None]).cast(kind)})
        assert features_of(TableEncoder.learn(table, spec), table) == expected
        assert features_of(TableEncoder.learn(pa.table({"x": pa.array([-7, 3, None])}), spec), table) == expected


def test_fractions_and_large_numbers_can_be_categories():
    assert encoded([0.5, 3.0, float("nan")]) == [{"x=0.5": 1}, {"x=3": 1}, {"x=<missing>": 1}]
    assert encoded(pa.array([2**64 - 1, 0], pa.uint64())) == [{"x=18446744073709551615": 1}, {"x=0": 1}]
    assert encoded([2.0**60, 1.0]) == [{"x=1152921504606846976": 1}, {"x=1": 1}]


def test_categories_that_never_occur_are_no_features():
    cells = pd.Series(["a", "b"], dtype=pd.CategoricalDtype(["z", "b", "a"]))
    assert encoded(pa.array(cells)) == [{"x=a": 1}, {"x=b": 1}]


def test_categories_that_never_occur_are_not_rare_either():
    cells = pd.Series(["a", "a"], dtype=pd.CategoricalDtype(["z", "a"]))
    assert TableEncoder.learn(pa.table({"x": pa.array(cells)}), TableSpec(min_count=2)).feature_names() == ["x=a"]


def test_every_chunk_is_read_with_its_own_dictionary():
    chunks = [pa.array(cells).dictionary_encode() for cells in (["a", "b", None], ["b", "c"], ["c", "a"])]
    table = pa.table({"x": pa.chunked_array(chunks)})
    words = pa.table({"x": ["a", "b", None, "b", "c", "c", "a"]})
    encoder, rows = TableEncoder.learn_encode(table)
    assert encoder == TableEncoder.learn(words)
    assert_same_rows(rows, encoder.encode(words))
    pieces = [encoder.encode(piece) for piece in table.to_batches()]
    np.testing.assert_array_equal(np.concatenate([piece.indices for piece in pieces]), rows.indices)


def test_rare_values_share_a_feature_with_unseen_ones():
    table = pa.table({"x": ["a", "a", "b", "b", "c", "d", None]})
    encoder = TableEncoder.learn(table, TableSpec(min_count=2))
    assert encoder.feature_names() == ["x=a", "x=b", "x=<rare>", "x=<missing>"]
    coverage = Coverage()
    found = features_of(encoder, pa.table({"x": ["a", "c", "new", None]}), coverage=coverage)
    assert [list(row) for row in found] == [["x=a"], [f"x={RARE}"], [f"x={RARE}"], ["x=<missing>"]]
    assert coverage["x"] == ColumnCounts(seen=4, known=1, rare=2, missing=1)


def test_rare_values_are_left_out_if_they_are_to_be_dropped():
    table = pa.table({"x": ["a", "a", "b", "b", "c", None]})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(min_count=2, rare="drop"))
    assert encoder.feature_names() == ["x=a", "x=b", "x=<missing>"]
    assert np.diff(rows.indptr).tolist() == [1, 1, 1, 1, 0, 1]
    assert_same_rows(encoder.encode(table), rows)


def test_no_rare_feature_is_made_if_nothing_is_rare():
    assert TableEncoder.learn(pa.table({"x": ["a", "a"]}), TableSpec(min_count=2)).feature_names() == ["x=a"]


def test_a_column_may_have_a_count_of_its_own():
    table = pa.table({"x": ["a", "b"], "z": ["a", "b"]})
    spec = TableSpec((ColumnSpec("x", min_count=1),), min_count=2)
    assert TableEncoder.learn(table, spec).feature_names() == ["x=a", "x=b", "z=<rare>"]


def test_hashed_values_have_the_buckets_of_their_published_hash():
    # XXH64 with seed 0 of "", "a" and "abc" is ef46db3751d8e999, d24ec4f1a98c6e5b and 44bc2cf5ad770999
    buckets = [0xEF46DB3751D8E999 % 1000, 0xD24EC4F1A98C6E5B % 1000, 0x44BC2CF5AD770999 % 1000]
    table = pa.table({"x": ["", "a", "abc", None], "z": ["a", "a", "a", "a"]})
    encoder = TableEncoder.learn(table, TableSpec(hash_size=1000))
    found = [list(row) for row in features_of(encoder, table)]
    assert found == [[f"x=#{bucket}", "z=#955"] for bucket in buckets] + [["x=<missing>", "z=#955"]]
    assert encoder.n_features == 2001
    unseen = features_of(encoder, pa.table({"x": ["never seen"], "z": ["a"]}))
    assert len(unseen[0]) == 2


# Numbers


def test_a_constant_number_is_zero_for_that_number():
    encoder = TableEncoder.learn(pa.table({"x": [0.1] * 3}), spec_of(x="number"))
    assert encoder.encode(pa.table({"x": [0.1, 1.1]})).values.tolist() == [0, 1]


def test_mean_and_spread_do_not_suffer_from_a_large_mean():
    numbers = 1e12 + np.random.default_rng(0).normal(size=5000)
    table = pa.table({"x": numbers})
    pieces = [table.slice(at, 7).to_batches()[0] for at in range(0, 5000, 7)]
    coder = TableEncoder.learn(iter(pieces), spec_of(x="number")).columns[0].coder
    assert coder.mean == pytest.approx(numbers.mean(), abs=1e-3)
    assert coder.spread == pytest.approx(numbers.std(), rel=1e-3)


@given(st.lists(st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, -0.0]), min_size=1, max_size=200), st.integers(2, 30))
def test_bins_have_the_quantiles_of_numpy_as_edges(numbers, n_bins):
    table = pa.table({"x": numbers})
    encoder, rows = TableEncoder.learn_encode(table, spec_of(x={"kind": "bins", "n_bins": n_bins}))
    quantiles = np.unique(np.quantile(np.array(numbers) + 0.0, np.arange(n_bins) / n_bins, method="higher"))
    assert encoder.columns[0].coder.edges == tuple(quantiles[1:])
    np.testing.assert_array_equal(rows.indices, np.digitize(numbers, quantiles[1:]))
    assert set(rows.indices) == set(range(encoder.n_features))  # none is empty


def test_bins_are_named_as_intervals_and_take_numbers_never_seen():
    encoder = TableEncoder.learn(pa.table({"x": [1.0, 2.0, 3.5, None]}), spec_of(x={"kind": "bins", "n_bins": 3}))
    assert encoder.feature_names() == ["x=[-inf,2.0)", "x=[2.0,3.5)", "x=[3.5,inf)", "x=<missing>"]
    found = features_of(encoder, pa.table({"x": [-9.0, 2.0, 99.0, None]}))
    assert [next(iter(row)) for row in found] == encoder.feature_names()


TENTHS = [k / 10 for k in range(1, 30)] * 3
IN_WIDTHS = {
    "float64": pa.array(TENTHS),
    "float32": pa.array(TENTHS, pa.float32()),
    "dictionary of float32": pa.array(TENTHS, pa.float32()).dictionary_encode(),
}


@pytest.mark.parametrize("kind", ["bins", "category"])
@pytest.mark.parametrize("learned", IN_WIDTHS)
def test_decimals_are_the_same_in_every_width(learned, kind):
    """As float32, 0.7 is below and 0.3 above the float64, but both are the decimals that a file has."""
    encoder, rows = TableEncoder.learn_encode(pa.table({"x": IN_WIDTHS[learned]}), spec_of(x=kind))
    assert encoder.feature_names() == TableEncoder.learn(pa.table({"x": TENTHS}), spec_of(x=kind)).feature_names()
    for cells in IN_WIDTHS.values():
        assert_same_rows(encoder.encode(pa.table({"x": cells})), rows)
    found, scored = [], TableRows(encoder)
    for tenth in TENTHS:
        scored.add({"x": np.float32(tenth)}, 0, found, [])
    assert found == rows.indices.tolist()


def naive_log_bin(x):
    return x if x <= 2 else math.floor(math.log(x) ** 2)


def test_logarithmic_bins_of_small_numbers_are_those_of_a_plain_loop():
    numbers = range(-10, 3000)
    assert encoded(list(numbers), "log_bins") == [{f"x={naive_log_bin(x)}": 1} for x in numbers]


@given(st.lists(st.none() | st.integers(-(2**40), 2**40) | st.integers(-3, 100), min_size=1))
def test_logarithmic_bins_are_those_of_a_plain_loop(numbers):
    table = pa.table({"x": pa.array(numbers, pa.int64())})
    encoder, rows = TableEncoder.learn_encode(table, spec_of(x="log_bins"))
    expected = [{"x=<missing>": 1} if x is None else {f"x={naive_log_bin(x)}": 1} for x in numbers]
    assert features_of(encoder, table) == expected
    assert_same_rows(encoder.encode(table), rows)


@pytest.mark.parametrize("low", [-5, -(10**9)])
def test_logarithmic_bins_never_seen_are_left_out(low):
    encoder = TableEncoder.learn(pa.table({"x": [low, 0, 1, 1000]}), spec_of(x="log_bins"))
    found = features_of(encoder, pa.table({"x": [low - 1, low, low + 1, 2, 5, 1001, 10**9]}))
    assert [list(row) for row in found] == [[], [f"x={low}"], [], [], [], ["x=47"], []]
    rare = TableEncoder.learn(pa.table({"x": [0, 0, 1]}), TableSpec((ColumnSpec("x", "log_bins"),), min_count=2))
    assert rare.feature_names() == ["x=0", "x=<rare>"]


@pytest.mark.parametrize("low", [-5, -(10**9)])
def test_logarithmic_bins_stay_as_they_are_when_an_encoder_grows(low):
    encoder = TableEncoder.learn(pa.table({"x": [low, 0, 1, 1000]}), spec_of(x="log_bins"))
    more = pa.table({"x": [10**9, 1000, low, low - 1, 0]})
    grown, rows = encoder.grow_then_encode(more)
    assert grown == encoder
    assert_same_rows(encoder.encode(more), next(rows))


def test_codes_of_more_values_than_two_bytes_hold_are_kept():
    table = pa.table({"x": np.arange(40_000)})
    encoder, rows = TableEncoder.learn_encode(table, spec_of(x="category"))
    assert_same_rows(encoder.encode(table), rows)


@pytest.mark.parametrize("kind", ["number", "bins", "log_bins"])
def test_an_infinite_number_is_refused_with_column_and_row(kind):
    spec = spec_of(x=kind)
    with pytest.raises(DataValueError, match="column 'x', row 2: inf is not finite"):
        TableEncoder.learn(pa.table({"x": [1.0, np.inf]}), spec)
    with pytest.raises(DataValueError, match="column 'x', row 1: -inf is not finite"):
        TableEncoder.learn(pa.table({"x": [1.0]}), spec).encode(pa.table({"x": [-np.inf]}))


def test_numbers_too_large_to_standardise_are_refused():
    with pytest.raises(DataValueError, match="'x' has numbers beyond 1e"):
        TableEncoder.learn(pa.table({"x": [1e200, 1.5]}), spec_of(x="number"))


# Times


TUESDAY = [{"x=hour 8": 1, "x=Tuesday": 1}]
TIMES = {
    "timestamp": (pa.array([datetime.datetime(2014, 10, 21, 8, 59)]), None),
    "timestamp in nanoseconds": (pa.array([datetime.datetime(2014, 10, 21, 8)], pa.timestamp("ns")), None),
    "timestamp of a zone": (pa.array([1413878400], pa.timestamp("s", "Europe/Oslo")), None),
    "text": (pa.array(["2014-10-21T08:00"]), None),
    "text with a blank and seconds": (pa.array(["2014-10-21 08:00:01.5"]), None),
    "text in UTC": (pa.array(["2014-10-21T08:00:00Z"]), None),
    "text with a zone": (pa.array(["2014-10-21T10:00:00+02:00"]), None),
    "text in a dictionary": (pa.array(["2014-10-21T08:00"]).dictionary_encode(), None),
    "text with a format": (pa.array(["21.10.2014 08h"]), "%d.%m.%Y %Hh"),
    "Avazu's whole numbers": (pa.array([14102108]), "%y%m%d%H"),
    "seconds": (pa.array([1413878400]), "unix"),
    "milliseconds": (pa.array([1413878400_999.0]), "unix_ms"),
}


@pytest.mark.parametrize("case", TIMES)
def test_a_time_has_an_hour_and_a_weekday(case):
    cells, format = TIMES[case]
    assert encoded(cells, "datetime", **({"format": format} if format else {})) == TUESDAY


def test_a_date_has_the_hour_0_and_a_missing_time_is_missing_once():
    cells = pa.array([datetime.date(2014, 10, 26), None])
    assert encoded(cells, "datetime") == [{"x=hour 0": 1, "x=Sunday": 1}, {"x=<missing>": 1}]
    table, coverage = pa.table({"x": cells}), Coverage()
    TableEncoder.learn(table).encode(table, coverage=coverage)
    assert coverage["x"] == ColumnCounts(seen=2, known=1, missing=1)


@pytest.mark.parametrize(
    ("cells", "format", "message"),
    [
        (["2014-10-21T08:00", "soon"], None, "column 'x', row 2: expected a time like 2014.*found 'soon'"),
        ([14102108, 14109908], "%y%m%d%H", "column 'x', row 2: expected a time like %y%m%d%H, found 14109908"),
        ([14102108], None, "column 'x' has type int64; set how to read it as a time: format ="),
        ([True], None, "column 'x' has type bool, which cannot be encoded as datetime"),
    ],
)
def test_what_is_no_time_is_refused(cells, format, message):
    with pytest.raises(DataValueError, match=message):
        encoded(cells, "datetime", **({"format": format} if format else {}))


# Lists


LISTS = {
    "list": pa.array([["b", "a"], [], None, ["c", None]]),
    "large list": pa.array([["b", "a"], [], None, ["c", None]], pa.large_list(pa.string())),
    "list of categories": pa.array([["b", "a"], [], None, ["c", None]], pa.list_(pa.large_string())),
    "sliced list": pa.array([["q"], ["b", "a"], [], None, ["c", None], ["r"]]).slice(1, 4),
    "text": pa.array(["b| a ", "", None, "|c|"]),
    "text in a dictionary": pa.array(["b| a ", "", None, "|c|"]).dictionary_encode(),
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_has_a_feature_for_each_of_its_values(case):
    found = encoded(LISTS[case], "list", separator="|")
    assert found == [{"x=a": 1, "x=b": 1}, {}, {"x=<missing>": 1}, {"x=c": 1}]


def test_lists_of_numbers_and_of_one_length_are_lists():
    assert encoded(pa.array([[3, 1], [1, 2]]), "list") == [{"x=1": 1, "x=3": 1}, {"x=1": 1, "x=2": 1}]
    pairs = pa.array([[3, 1], None], pa.list_(pa.int8(), 2))
    assert encoded(pairs, "list") == [{"x=1": 1, "x=3": 1}, {"x=<missing>": 1}]


@pytest.mark.parametrize(("scale", "value"), [("1", 1), ("1/n", 1 / 4), ("1/sqrt(n)", 1 / 2)])
def test_values_of_a_list_are_scaled_and_those_that_repeat_add_up(scale, value):
    learnt = pa.table({"x": [["a", "b"]]})
    encoder = TableEncoder.learn(learnt, spec_of(x={"kind": "list", "scale": scale}))
    found = features_of(encoder, pa.table({"x": [["b", "a", "new", "b"]]}))
    assert found == [{"x=a": np.float32(value), "x=b": np.float32(2 * value)}]


def test_what_is_no_value_does_not_count_in_the_scale_of_a_list():
    found = encoded(pa.array([["a", None, "b", None]]), "list", scale="1/n")
    assert found == encoded(["a||b|"], "list", scale="1/n", separator="|") == [{"x=a": 0.5, "x=b": 0.5}]


def test_rare_and_hashed_values_of_a_list_share_features():
    table = pa.table({"x": [["a", "a", "b", "c"], ["a"]]})
    encoder, rows = TableEncoder.learn_encode(table, TableSpec(min_count=2))
    assert features_of(encoder, table) == [{"x=a": 2, "x=<rare>": 2}, {"x=a": 1}]
    assert_same_rows(encoder.encode(table), rows)
    hashed = TableEncoder.learn(table, TableSpec(hash_size=1))
    assert features_of(hashed, table) == [{"x=#0": 4}, {"x=#0": 1}]


def test_text_needs_a_separator_to_be_a_list():
    with pytest.raises(DataValueError, match="column 'x' is text; set the separator of its values"):
        encoded(["a b"], "list")
