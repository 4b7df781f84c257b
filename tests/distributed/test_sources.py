"""Files that many processes read: units, rows of ids and tables, on disks and by URI."""

import numpy as np
import pyarrow as pa
import pytest
from clusters import FIELDS, alone, bytes_of, rows_of_clicks, write_ids, write_table
from pyarrow import parquet

from rafm.distributed.hashing import BUCKETS, bucket_of, shard_of
from rafm.distributed.inputs import Input, choose_units, open_like, open_training
from rafm.distributed.planning import merge
from rafm.distributed.sources import Reader, Source, find_classes, find_files, find_units
from rafm.distributed.worker import count_features
from rafm.encode.spec import TableSpec
from rafm.errors import ConfigError, DataFormatError, DataValueError
from rafm.options import resolve
from rafm.read.open import ReadOptions
from rafm.rows.checked import Batch, check_batch
from rafm.rows.id_table import IdTable
from rafm.rows.stats import count_rows


def opened(path, unit_rows=50, **more):
    return Source(*find_units(str(path), unit_rows), unit_rows, "binary", **more)


def ids_of(source, lanes=1):
    reader = Reader(source)
    parts = [reader.rows(number, number % lanes) for number in range(len(source.units))]
    return np.concatenate([part.indices for part in parts]), np.concatenate([part.labels for part in parts])


@pytest.mark.parametrize("lanes", [1, 3])
def test_units_hold_all_rows_in_file_order(tmp_path, lanes):
    for number, n_rows in enumerate((130, 70)):
        write_ids(tmp_path / f"{number}.parquet", n_rows, seed=number, group=60)
    source = opened(tmp_path)
    assert [unit.rows for unit in source.units] == [50, 10, 50, 10, 10, 50, 10, 10]
    assert [unit.first_row for unit in source.units] == [0, 50, 60, 110, 120, 130, 180, 190]
    ids, labels = ids_of(source, lanes)
    wanted = [rows_of_clicks(n_rows, seed) for seed, n_rows in enumerate((130, 70))]
    assert ids.tolist() == np.concatenate([rows.ravel() for _, rows in wanted]).tolist()
    assert labels.tolist() == np.concatenate([labels for labels, _ in wanted]).tolist()


def test_units_can_be_read_in_any_order(tmp_path):
    source = opened(write_ids(tmp_path / "a.parquet", 200, group=120))
    reader = Reader(source)
    forwards = [reader.rows(number).indices.tolist() for number in range(len(source.units))]
    for number in (3, 1, 1, 0, 4, 2):
        assert reader.rows(number).indices.tolist() == forwards[number]


def test_a_directory_by_uri_gives_the_rows_of_its_files(tmp_path):
    (tmp_path / "two days").mkdir()
    for number in range(2):
        write_ids(tmp_path / "two days" / f"{number} May.parquet", 100, seed=number)
    by_uri = opened(f"file://{tmp_path}/two%20days/")
    assert all(file.startswith("file:///") for file in by_uri.files)
    assert ids_of(by_uri)[0].tolist() == ids_of(opened(tmp_path / "two days"))[0].tolist()


def test_addresses_that_cannot_be_read_are_named_in_one_line(tmp_path):
    for uri in (f"file://{tmp_path}/nothing.parquet", "nowhere://a/b.parquet"):
        with pytest.raises(DataFormatError, match=f"^{uri}: cannot (read|open) this address: ") as found:
            find_units(uri)
        assert "\n" not in str(found.value)


def test_arrow_files_and_uris_give_the_same_rows(tmp_path):
    path = write_ids(tmp_path / "a.parquet", 100, values=np.arange(300.0) + 1)
    table = parquet.read_table(path)
    (tmp_path / "arrow").mkdir()
    with pa.ipc.new_file(tmp_path / "arrow" / "a.arrow", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=40):
            writer.write_batch(batch)
    found = [ids_of(opened(place))[0].tolist() for place in (path, tmp_path / "arrow", f"file://{path}")]
    assert found[0] == found[1] == found[2]
    assert Reader(opened(path)).rows(0).values[:4].tolist() == [1, 2, 3, 4]


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataFormatError, match="cannot open this address"):
        find_files("nowhere://bucket/folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFormatError, match="no Parquet"):
        find_files(f"file://{tmp_path}/empty")
    (tmp_path / "text.parquet").write_text("1 2:3\n" * 10)
    with pytest.raises(DataFormatError, match="broken file"):
        find_units(str(tmp_path / "text.parquet"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [1.0], "ids": [[1, 2]], "values": [[1.0]]}, "another number of values"),
        ({"label": [None, 1.0], "ids": [[1], [2]]}, "column 'label' has nulls"),
        ({"ids": [[1], [2]]}, "no labels"),
        ({"label": [3.0], "ids": [[2]]}, "never seen in training"),
        ({"label": [1.0], "ids": [[-2]]}, "row 1 has feature id -2"),
    ],
)
def test_rows_that_make_no_sense_are_refused(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises((DataValueError, ValueError), match=message):
        Reader(opened(tmp_path / "a.parquet", classes=(0, 1))).rows(0)


def test_labels_are_found_wherever_both_occur_first(tmp_path):
    labels = [2.0] * 60 + [1.0] * 20
    parquet.write_table(pa.table({"label": labels, "ids": [[k % 5] for k in range(80)]}), tmp_path / "a.parquet")
    source = opened(tmp_path / "a.parquet")
    assert find_classes(source, None) == (1, 2)
    assert find_classes(source, "1") == (2, 1)


def test_a_table_is_encoded_as_in_one_process(tmp_path):
    path = write_table(tmp_path / "a.parquet", 200)
    files = ReadOptions("binary", spec=TableSpec(label="click"))
    given = open_training(path, files)
    rows = Reader(given.source).rows(1)
    wanted = given.encoder.encode(parquet.read_table(path))
    unit = given.source.units[1]
    assert rows.indices.tolist() == wanted.indices[unit.first_row * FIELDS :][: rows.indices.size].tolist()
    with pytest.raises(DataValueError, match="expects rows of ids"):
        open_like(path, Input(given.source))
    with pytest.raises(ConfigError, match="--label and --column are for tables"):
        open_training(write_ids(tmp_path / "ids.parquet", 20), files)


def test_a_converted_file_trains_like_its_table(tmp_path):
    from commands import run

    write_table(tmp_path / "a.parquet", 300)
    assert run("convert", tmp_path / "a.parquet", tmp_path / "a.arrow", "--label", "click").code == 0
    given = open_training(str(tmp_path / "a.arrow"), ReadOptions("binary"))
    table = open_training(str(tmp_path / "a.parquet"), ReadOptions("binary", spec=TableSpec(label="click")))
    assert given.encoder.feature_names() == table.encoder.feature_names()
    assert ids_of(given.source)[0].tolist() == ids_of(table.source)[0].tolist()
    assert open_like(str(tmp_path / "a.arrow"), given).n_rows == 300
    assert given.n_inputs == table.n_inputs


def test_few_rows_cannot_be_held_out(tmp_path):
    source = open_training(write_ids(tmp_path / "a.parquet", 100), ReadOptions("binary")).source
    options = resolve(task="binary")
    with pytest.raises(ConfigError, match="too few to hold some out"):
        choose_units(source, options, has_valid=False)
    assert choose_units(source, options, has_valid=True) == ([0, 1, 2], [])


def test_statistics_of_parts_are_those_of_all_rows(tmp_path):
    source = opened(write_ids(tmp_path / "a.parquet", 300))
    reader = Reader(source)
    parts = [reader.rows(number) for number in range(len(source.units))]
    found, wanted = merge([count_rows([part]) for part in parts]), count_rows(parts)
    for name in ("rows", "nonzeros", "longest", "weight", "label_range", "n_weighted"):
        assert getattr(found, name) == getattr(wanted, name)
    assert found.label_mean == pytest.approx(wanted.label_mean, rel=1e-12)
    assert found.label_spread == pytest.approx(wanted.label_spread, rel=1e-12)
    assert found.counts.sum() == wanted.counts.sum()


def test_features_are_counted_as_in_one_process():
    rng = np.random.default_rng(2)
    values = rng.choice([0.0, 1.0, 2.5], 60).astype(np.float32)
    batch = Batch(
        np.arange(0, 61, 3), rng.integers(0, 9, 60) * 1000, values, 9000, np.ones(20), rng.choice([0.0, 2.0], 20)
    )
    rows = check_batch(batch)
    ids, counts, squares = count_features(rows)
    order, wanted = np.argsort(ids), count_rows([rows])
    assert ids[order].tolist() == wanted.ids.tolist()
    assert counts[order].tolist() == wanted.counts.tolist()
    assert squares[order].tolist() == wanted.squares.tolist()


def test_buckets_are_even_and_shards_divide_them():
    ids = np.concatenate([np.arange(40_000), np.random.default_rng(0).integers(0, 2**62, 40_000)])
    counts = np.bincount(bucket_of(ids), minlength=BUCKETS)
    assert counts.size == BUCKETS
    assert counts.max() < 2 * counts.mean()
    for n_shards in (1, 3, 7):
        owners = shard_of(ids, n_shards)
        assert set(owners.tolist()) == set(range(n_shards))
        assert (np.diff(owners[np.argsort(bucket_of(ids), kind="stable")]) >= 0).all()


def test_distinct_ids_are_numbered_in_the_order_of_their_first_occurrence():
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, 3000, 5000) * (1 << 40) for _ in range(3)]
    table, numbers = IdTable(), {}
    for part in keys:
        wanted = [numbers.setdefault(key, len(numbers)) for key in part.tolist()]
        assert table.add(part).tolist() == wanted
    assert table.ids.tolist() == [*numbers]
    assert table.find(np.array([keys[0][0], 7])).tolist() == [0, -1]


def test_a_model_does_not_depend_on_how_rows_are_packed_into_files(tmp_path):
    whole = write_ids(tmp_path / "a.parquet", 400, group=64)
    table = parquet.read_table(whole)
    (tmp_path / "parts").mkdir()
    for number, first in enumerate(range(0, 400, 128)):  # whole row groups, so that units stay the same
        parquet.write_table(table.slice(first, 128), tmp_path / "parts" / f"{number}.parquet", row_group_size=64)
    first, other = (alone(str(path), share=0, n_epochs=1) for path in (whole, tmp_path / "parts"))
    assert bytes_of(first) == bytes_of(other)
