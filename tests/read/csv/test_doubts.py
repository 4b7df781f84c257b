"""Text that may not be what it seems is warned about, with its line: a text among numbers, data in place of names."""

import warnings

import pandas as pd
import pyarrow as pa
import pytest
from commands import run
from pyarrow import parquet

from rafm import DataWarning, RaFMClassifier
from rafm.read.open import read_table

KEPT = ("--label", "y", "--ranks", "2", "--epochs", "1")


def prices(bad, n=40):
    """Return lines of a table whose prices are numbers but for one."""
    cells = [f"{i % 7}.25" for i in range(n)]
    cells[30] = bad
    return ["y,city,price", *(f"{i % 2},{'Rome' if i % 3 else 'Oslo'},{cell}" for i, cell in enumerate(cells))]


def written(folder, lines, name="t.csv"):
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def warnings_of(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(read_table(path))
    return [str(one.message) for one in caught if isinstance(one.message, DataWarning)]


# A text among numbers


@pytest.mark.parametrize("bad", ["abc", "1,5", "12 EUR", "-"])
def test_the_line_and_cell_that_make_a_column_text_are_said(bad, tmp_path):
    path = written(tmp_path, prices(f'"{bad}"'))
    assert warnings_of(path) == [
        f"{path}:32: column 'price': {bad!r} is not a number, unlike 39 of 40 cells; the column is text now. Correct "
        "or empty such cells, or set its kind: columns={'price': 'category'}"
    ]


@pytest.mark.parametrize("cell", ["", "NA", "nan", "7"])
def test_numbers_and_words_for_missing_ones_are_no_doubt(cell, tmp_path):
    assert not warnings_of(written(tmp_path, prices(cell)))


def test_text_with_some_numbers_is_text(tmp_path):
    lines = ["house", *(f"{i}{'a' if i % 4 == 0 else ''}" for i in range(40))]
    assert not warnings_of(written(tmp_path, lines))


def test_lines_are_counted_over_cells_of_several_lines(tmp_path):
    lines = prices("abc")
    lines[5] = '0,"two\nlines",1.25'
    assert f"{tmp_path / 't.csv'}:33: column 'price': 'abc'" in warnings_of(written(tmp_path, lines))[0]


def test_a_command_warns_of_it_once_with_its_own_flag(tmp_path):
    path = written(tmp_path, prices("abc"))
    done = run("train", path, *KEPT, "--out", tmp_path / "m.rafm")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if line.startswith("warning:") and "price" in line]
    assert line.startswith(f"warning: {path}:32: column 'price': 'abc' is not a number")
    assert line.endswith("set its kind: --column price=category")
    assert "price" not in run("train", path, *KEPT, "--out", tmp_path / "m.rafm", "--column", "price=category").err
    refused = run("train", path, *KEPT, "--out", tmp_path / "m.rafm", "--column", "price=bins")
    assert (refused.code, f"{path}:32: column 'price' must be numbers, found \"abc\"" in refused.err) == (3, True)


def test_frames_and_parquet_files_name_the_row(tmp_path):
    frame = pd.DataFrame({"price": [line.split(",")[2] for line in prices("abc")[1:]]})
    with pytest.warns(DataWarning, match="column 'price', row 31: 'abc' is not a number, unlike 39 of 40 cells; the"):
        RaFMClassifier(ranks=2, n_epochs=1).fit(frame, [0, 1] * 20)
    parquet.write_table(pa.table({"y": [0, 1] * 20, "price": frame.price.tolist()}), tmp_path / "t.parquet")
    done = run("train", tmp_path / "t.parquet", *KEPT, "--out", tmp_path / "m.rafm")
    assert "warning: column 'price', row 31: 'abc' is not a number" in done.err


# No header


@pytest.mark.parametrize(
    "lines", [["1,Rome,3.5", "2,Oslo,4.5"], ["4,2,9", "5,5,5"], ["Rome,tea", "Oslo,jam", "Rome,tea"]], ids=str
)
def test_a_first_line_that_looks_like_data_is_said(lines, tmp_path):
    path = written(tmp_path, lines)
    (message,) = warnings_of(path)
    assert message.startswith(f"{path}:1: the first line has the names of the columns, but ")
    assert message.endswith("look like data; if they are, add a line with names above")


@pytest.mark.parametrize(
    "lines", [["id,2019,2020", "7,1,2"], ["0,1,2", "7,8,9"], ["city,drink", "Rome,tea"], ["a,1", "x,y"]]
)
def test_a_first_line_of_names_is_no_doubt(lines, tmp_path):
    assert not warnings_of(written(tmp_path, lines))


def test_a_label_that_a_file_without_names_lacks_is_an_error_that_says_so(tmp_path):
    done = run("train", written(tmp_path, ["1,Rome", "0,Oslo"]), *KEPT, "--out", tmp_path / "m.rafm")
    assert done.code == 3
    assert "column 'y' is missing; the columns are 1, Rome; is the first line data? It must have the names" in done.err


def test_a_command_warns_of_data_in_place_of_names(tmp_path):
    path = written(tmp_path, ["1,4.5,7", *(f"{i % 2},{i}.5,7" for i in range(40))])
    done = run("train", path, "--label", "1", *KEPT[2:], "--out", tmp_path / "m.rafm")
    assert f"warning: {path}:1: the first line has the names of the columns, but" in done.err


def test_cells_that_all_begin_with_a_space_are_warned_of_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("click, city, price\n1, Rome, 2.5\n0, Oslo, 3.5\n")
    with pytest.warns(DataWarning) as caught:
        list(read_table(path))
    (message,) = [str(one.message) for one in caught if "begin with a space" in str(one.message)]
    assert message.startswith(f"{path}: the cells of column 'city' and of 1 more begin with a space")
    assert message.endswith("remove the spaces after the delimiters")
    path.write_text("click,city\n1, Rome\n0,Oslo\n")
    assert next(read_table(path))["city"].to_pylist() == [" Rome", "Oslo"]  # without a warning


def test_the_line_of_a_bad_date_is_named_and_training_goes_on(tmp_path):
    days = [f"2014-10-{k % 28 + 1:02d}" for k in range(60)]
    days[7] = "2014-02-30"
    (tmp_path / "t.csv").write_text("day,y\n" + "".join(f"{day},{k % 2}\n" for k, day in enumerate(days)))
    ran = run("train", tmp_path / "t.csv", "--label", "y", "--epochs", 1, "--model", "lr", "--out", tmp_path / "m.rafm")
    assert ran.code == 0
    assert f"{tmp_path}/t.csv:9: column 'day': '2014-02-30' is not a date, unlike 59 of 60 cells" in ran.err
