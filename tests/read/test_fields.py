"""Files of fields: what is read, and what is refused with its place; fields of libffm and converted rows."""

import gzip
import warnings
import zlib

import numpy as np
import pytest
from commands import run

from rafm.errors import DataError
from rafm.read.convert import convert
from rafm.read.converted.reader import ArrowRows
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, training_rows
from rafm.rows.fields import NO_FIELD


def named(fields, ids):
    """Return the names of the fields of ids; None without a field."""
    return [None if number == NO_FIELD else fields.names[number] for number in fields.of(np.asarray(ids)).tolist()]


@pytest.fixture
def write(tmp_path):
    def write(text, name="fields.tsv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


GOOD = {
    "plain": ("3\tuser\n1\titem\n", 0, [None, "item", None, "user"]),
    "further columns": ("0\tuser\tAnn\t5\n1\titem\tcup\n", 0, ["user", "item"]),
    "heading, comments, blank lines": ("id\tfield\n# all\n\n0\tuser\n  \n1\titem\n", 0, ["user", "item"]),
    "carriage returns and no last newline": ("0\tuser\r\n1\titem", 0, ["user", "item"]),
    "ids from 1": ("1\tuser\n2\titem\n", 1, ["user", "item", None]),
    "the same twice": ("0\tuser\n0\tuser\n", 0, ["user"]),
    "byte order mark": ("\ufeff0\tuser\n", 0, ["user"]),
    "names of any kind": ("0\tWochentag é\n1\t17\n", 0, ["Wochentag é", "17"]),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_of_fields_is_read(write, case, pack):
    text, base, expected = case
    assert named(read_fields(write(pack(text.encode())), base), range(len(expected))) == expected


BAD = {
    "no tab": ("0\tuser\n1 item\n", ":2:1: expected an id, a tab and a field, found '1 item'"),
    "no number": ("0\tuser\nx1\titem\n", ":2:1: expected an id, a whole number, found 'x1'"),
    "heading further down": ("0\tuser\nid\tfield\n", ":2:1: expected an id, a whole number, found 'id'"),
    "negative": ("-1\tuser\n", ":1:1: expected an id, a whole number, found '-1'"),
    "too large": ("100\tuser\n", ":1:1: id 100 is out of range; ids must be between 0 and 99"),
    "far too large": ("1" * 30 + "\tuser\n", ":1:1: id 111111111111111111111111111111 is out of range"),
    "no name": ("0\tuser\n12\t \tx\n", ":2:4: expected the name of a field after the tab, found nothing"),
    "two fields": ("5\tuser\n# so\n5\titem\n", ":3:1: id 5 is in field 'item', but in another one in line 1"),
    "nothing": ("# nothing\n", ": no fields: expected lines of an id, a tab and a field"),
    "no UTF-8": (b"0\t\xff\xfe\n", ": names of fields must be UTF-8"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_bad_file_of_fields_is_refused_with_its_place(write, case):
    text, message = case
    path = write(text)
    with pytest.raises(DataError) as caught:
        read_fields(path, max_features=100)
    assert str(caught.value).startswith(f"{path}{message}")


def test_ids_below_the_base_are_out_of_range(write):
    with pytest.raises(DataError, match="id 0 is out of range; ids must be between 1 and 100"):
        read_fields(write("0\tuser\n"), index_base=1, max_features=100)


# ---- Rows

LIBFFM = "1 0:7:1 3:2:1\n0 3:4:1 0:5:0.5\n"


def fields_of(path, **options):
    return training_rows(path, ReadOptions("binary", **options))[0].fields


def test_rows_of_libffm_bring_their_fields(write):
    fields = fields_of(write(LIBFFM, "a.ffm"))
    assert named(fields, range(9)) == [None, None, "3", None, "3", "0", None, "0", None]


def test_an_id_in_two_fields_belongs_to_the_first_and_that_is_said_once(write):
    path = write("1 1:6:1 2:9:1\n0 1:9:1\n1 3:9:1 2:6:1\n", "a.ffm")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fields = fields_of(path, index_base=1)
    assert named(fields, [5, 8]) == ["1", "2"]
    rule = "a feature has one field, and the first one counts"
    assert [str(one.message) for one in said] == [
        f"{path}:2: id 9 is in field 1, but was in another one before; {rule}"
    ]


def test_rows_of_libsvm_have_no_fields_unless_they_are_given(write):
    path, fields = write("1 7:1 2:1\n0 4:1\n", "a.svm"), read_fields(write("7\tuser\n2\titem\n"))
    assert fields_of(path) is None
    assert fields_of(path, fields=fields) is fields


def test_the_fields_of_a_table_are_its_columns(write):
    path = write("click,city,age\n1,Rome,30.5\n0,Oslo,40.5\n", "a.csv")
    source, encoder = training_rows(path, ReadOptions("binary", spec=spec_with_label("click")))
    assert named(source.fields, range(5)) == ["age", "age", "city", "city", None]  # two bins, two values
    assert [name.partition("=")[0] for name in encoder.feature_names()] == named(source.fields, range(4))


def spec_with_label(name):
    from rafm.encode.spec import TableSpec

    return TableSpec(label=name)


def test_converted_rows_keep_their_fields(write, tmp_path):
    ffm, svm, out = write(LIBFFM, "a.ffm"), write("1 7:1 2:1\n0 4:1\n", "a.svm"), tmp_path / "a.arrow"
    given = read_fields(write("7\tuser\n2\titem\n"))
    table = write("click,city,age\n1,Rome,30.5\n0,Oslo,40.5\n", "a.csv")
    cases = {
        ffm: (ReadOptions("binary"), ["3", None, "3", "0"]),
        svm: (ReadOptions("binary", fields=given), ["item", None, None, None]),
        table: (ReadOptions("binary", spec=spec_with_label("click")), ["city", "city", None, None]),
    }
    for path, (options, expected) in cases.items():
        convert(path, out, options)
        assert named(ArrowRows(out).fields, [2, 3, 4, 5]) == expected
    convert(svm, out, ReadOptions("binary"))
    assert ArrowRows(out).fields is None
    assert named(ArrowRows(out, given_fields=given).fields, [2, 7]) == ["item", "user"]


def test_other_fields_convert_again(write, tmp_path):
    svm, out = write("1 7:1 2:1\n0 4:1\n", "a.svm"), tmp_path / "a.arrow"
    first, second = write("7\tuser\n2\titem\n"), write("7\tuser\n2\tshop\n", "other.tsv")
    assert run("convert", svm, out, "--fields", first).out.startswith("saved")
    assert run("convert", svm, out, "--fields", first).out.startswith("kept")
    assert run("convert", svm, out, "--fields", second).out.startswith("saved")
    assert named(ArrowRows(out).fields, [2]) == ["shop"]


def test_fields_for_data_that_have_their_own_are_refused(write, tmp_path):
    given, out = write("7\tuser\n2\titem\n"), tmp_path / "m.rafm"
    table, ffm = write("click,city\n1,Rome\n0,Oslo\n", "a.csv"), write(LIBFFM, "a.ffm")
    arrow = tmp_path / "a.arrow"
    assert run("convert", ffm, arrow).code == 0
    own = "--fields is for rows without fields, but {} has its own: drop --fields"
    cases = {
        table: f"--fields is for rows of ids, but {table} is csv: its columns are its fields",
        ffm: own.format(ffm),
        arrow: own.format(arrow),
    }
    for path, message in cases.items():
        more = ("--label", "click") if path == table else ()
        assert run("train", path, "--out", out, "--fields", given, *more).error() == message
    assert run("convert", ffm, arrow, "--fields", given).error() == own.format(ffm)


def test_a_compressed_file_of_fields_that_was_cut_at_the_end_of_a_line_is_refused(write):
    whole = zlib.compressobj(wbits=31)
    head = whole.compress(b"7\tuser\n2\titem\n") + whole.flush(zlib.Z_FULL_FLUSH)  # a copy that ended here
    path = write(head, "fields.tsv.gz")
    with pytest.raises(DataError, match="compressed data ends early after 2 complete lines"):
        read_fields(path)
    write(head + whole.flush(), "fields.tsv.gz")
    assert named(read_fields(path), [7, 2]) == ["user", "item"]


def test_fields_of_other_data_are_refused_and_fields_of_few_ids_are_warned_of(write, tmp_path):
    svm, others, few = write("1 7:1 2:1\n0 4:1\n", "a.svm"), write("70\tuser\n"), write("7\tuser\n", "few.tsv")
    most = write("7\tuser\n2\titem\n", "most.tsv")
    train = ("train", svm, "--out", tmp_path / "m.rafm", "--model", "lr", "--epochs", 1, "--fields")
    said = f"none of the ids of {svm} has a field here, such as id 2; is this the file of fields for these data?"
    assert run(*train, others).error() == f"{others}: {said}"
    convert = ("convert", svm, tmp_path / "a.arrow", "--fields")
    assert run(*convert, others).error() == f"{others}: {said}"
    assert not (tmp_path / "a.arrow").exists()
    said = f"{few}: 2 of 3 ids of {svm} have no field, such as id 2; is this the file of fields for these data?"
    assert run(*train, few).err == run(*convert, few).err == f"warning: {said}\n"
    assert run(*train, most).err == run(*convert, most).err == ""
