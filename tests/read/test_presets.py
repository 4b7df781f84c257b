"""Well-known formats: found by their first lines, read by their presets; one door for all tables."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from warm import run_script

from rafm.errors import ConfigError, DataFormatError
from rafm.read.csv.cell_types import READ_AS
from rafm.read.detect import detect_format
from rafm.read.presets import AVAZU as AVAZU_PRESET
from rafm.read.presets import CRITEO as CRITEO_PRESET
from rafm.read.tables import read_table

DRAW = random.Random(0)


def criteo_row(draw: random.Random) -> list[str]:
    """Return a row of the shape of Criteo's: any value but the label may be missing."""
    numbers = [draw.choice(["", "-1", "0", str(draw.randrange(100_000))]) for _ in range(13)]
    return [str(draw.randrange(2)), *numbers, *(draw.choice(["", f"{draw.randrange(2**32):08x}"]) for _ in range(26))]


def avazu_row(draw: random.Random) -> list[str]:
    """Return a row of the shape of Avazu's."""
    hashes = [f"{draw.randrange(2**32):08x}" for _ in range(9)]
    start = [str(draw.randrange(2**64)), str(draw.randrange(2)), f"141021{draw.randrange(24):02}", "1005", "0"]
    return [*start, *hashes, "1", "0", "15704", "320", "50", "1722", "0", "35", draw.choice(["-1", "100084"]), "79"]


CRITEO = [criteo_row(DRAW) for _ in range(500)]
AVAZU = [avazu_row(DRAW) for _ in range(500)]


def lines(rows: list[list[str]], delimiter: str) -> bytes:
    return "".join(delimiter.join(row) + "\n" for row in rows).encode()


@pytest.fixture
def write(tmp_path):
    """Return a function that writes bytes to a file and returns its path."""

    def run(data: bytes, name: str = "train.txt") -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return run


def read(path: Path, **options) -> dict[str, list]:
    return pa.Table.from_batches(list(read_table(path, **options))).to_pydict()


@pytest.mark.parametrize("format", ["auto", "criteo"])
def test_criteo_is_read_completely_with_missing_values(write, format):
    found = read(write(gzip.compress(lines(CRITEO, "\t")), "train.tsv.gz"), format=format, batch_bytes=1000)
    assert list(found) == list(CRITEO_PRESET.names)
    assert found["label"] == [float(row[0]) for row in CRITEO]
    assert found["I3"] == [float(row[3]) if row[3] else None for row in CRITEO]
    assert found["C26"] == [row[39] or None for row in CRITEO]


@pytest.mark.parametrize("header", [True, False])
def test_avazu_is_read_with_and_without_its_header(write, header):
    rows = [list(AVAZU_PRESET.names)] * header + AVAZU
    found = read(write(lines(rows, ",")), batch_bytes=1000)
    assert list(found) == list(AVAZU_PRESET.names[1:])
    assert found["click"] == [float(row[1]) for row in AVAZU]
    assert found["hour"] == [row[2] for row in AVAZU]
    assert found["C21"] == [row[23] for row in AVAZU]


def test_files_to_predict_lack_the_label(write):
    found = read(write(lines([row[1:] for row in CRITEO], "\t")))
    assert "label" not in found
    assert found["C1"] == [row[14] or None for row in CRITEO]
    names = [name for name in AVAZU_PRESET.names if name != "click"]
    found = read(write(lines([names, *([row[0], *row[2:]] for row in AVAZU)], ",")))
    assert "click" not in found
    assert found["hour"] == [row[2] for row in AVAZU]


@pytest.mark.parametrize("preset", [CRITEO_PRESET, AVAZU_PRESET], ids=["criteo", "avazu"])
def test_presets_name_every_column_but_the_label_and_know_how_to_read_it(preset):
    assert {*preset.kinds, preset.label} == set(preset.names)
    assert set(preset.kinds.values()) <= {"category", "log_bins", "datetime", "ignore"}
    assert set(preset.kinds.values()) <= set(READ_AS)
    assert set(preset.datetime_format) == {name for name, kind in preset.kinds.items() if kind == "datetime"}


def test_a_quote_in_criteo_is_a_character(write):
    row = ["1", *[""] * 13, '"x', *[""] * 25]
    assert read(write(lines([row], "\t")), format="criteo")["C1"] == ['"x']


DETECTED = {
    "libsvm": (b"1 5:1 7:0.5\n-1 3:1\n", "train.txt", "libsvm"),
    "libsvm with comments, blank lines and broken rows": (b"# c\n\n1 5:1\n1 x\n0 5:1 # c\n", "train.csv", "libsvm"),
    "libsvm from 1 is not guessed": (b"1 1:1\n", "train.svm", "libsvm"),
    "labels only": (b"1\n0\n", "train.txt", "libsvm"),
    "empty": (b"", "train.txt", "libsvm"),
    "empty CSV": (b"", "train.csv", "csv"),
    "libffm": (b"1 0:5:1 1:7:0.5\n", "train.txt", "libffm"),
    "libffm in gzip": (gzip.compress(b"1 0:5:1\n"), "train.gz", "libffm"),
    "libffm in zstd": (pa.compress(b"1 0:5:1\n", "zstd", asbytes=True), "train.gz", "libffm"),
    "CSV": (b"a,b\n1,2\n", "train.txt", "csv"),
    "CSV with semicolons": (b"a;b\n1;2\n", "train.txt", "csv"),
    "CSV of times": (b"label,time\n1,12:30:15\n", "train.txt", "csv"),
    "CSV of one column": (b"a\n1\n", "train.csv", "csv"),
    "TSV": (b"a\tb\n1\t2\n", "train.txt", "tsv"),
    "TSV by name": (b"a\n1\n", "train.tsv.gz", "tsv"),
    "Criteo": (lines(CRITEO, "\t"), "day_0", "criteo"),
    "Criteo in gzip": (gzip.compress(lines(CRITEO, "\t")), "day_0.gz", "criteo"),
    "Avazu": (lines(AVAZU, ","), "train", "avazu"),
    "39 columns are not always Criteo": (b"\t".join([b"x"] * 40) + b"\n", "train", "tsv"),
}


@pytest.mark.parametrize("name", DETECTED)
def test_the_format_is_found_by_the_first_bytes_lines_or_the_name(write, name):
    data, path, format = DETECTED[name]
    found = detect_format(write(data, path))
    assert found.format == format
    assert found.reason
    assert "\n" not in found.reason


def test_binary_formats_are_known_by_their_first_bytes(tmp_path):
    table = pa.table({"a": [1]})
    pq.write_table(table, tmp_path / "train.csv")
    assert detect_format(tmp_path / "train.csv").format == "parquet"
    with pa.ipc.new_file(tmp_path / "train", table.schema) as writer:
        writer.write_table(table)
    assert detect_format(tmp_path / "train").format == "arrow"


def test_a_folder_and_a_pattern_stand_for_parquet(tmp_path):
    with pytest.raises(IsADirectoryError):
        detect_format(tmp_path)
    with pytest.raises(FileNotFoundError):
        detect_format(tmp_path / "*.parquet")
    for name in ("a", "b"):
        pq.write_table(pa.table({"n": [name]}), tmp_path / f"{name}.parquet")
    assert detect_format(tmp_path) == ("parquet", "it matches 2 Parquet files")
    assert read(tmp_path) == read(tmp_path / "*.parquet") == {"n": ["a", "b"]}


def test_utf16_is_refused_when_the_format_is_sought(write):  # case 4
    with pytest.raises(DataFormatError, match="looks like UTF-16"):
        detect_format(write("1 5:1\n".encode("utf-16")))


def test_the_standard_input_is_looked_at_without_taking_anything(monkeypatch):
    script = """
from rafm.read.detect import detect_format
from rafm.read.tables import read_table
print(detect_format("-").format, [batch.to_pydict() for batch in read_table("-")])
"""
    for pack in (bytes, gzip.compress):
        process = run_script(script, stdin=pack(b"a\tb\nx\t1\n"), text=False)
        assert process.stdout.strip() == b"tsv [{'a': ['x'], 'b': [1]}]"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))  # cannot be looked at
    assert detect_format("-").format == "libsvm"


def test_options_are_stronger_than_the_preset(write):
    path = write(lines(CRITEO, "\t"))
    assert read(path, columns={"I1": "category"})["I1"] == [row[1] or None for row in CRITEO]
    assert next(iter(read(path, header=False, format="tsv"))) == "c1"


def test_rows_of_ids_are_no_table(write):
    with pytest.raises(ConfigError, match="a table must be one of csv, tsv, criteo, avazu, parquet; found 'libsvm'"):
        read_table(write(b"1 5:1\n"))
    with pytest.raises(ConfigError, match="Parquet has neither delimiters nor a header"):
        read_table("train.parquet", format="parquet", header=False)
