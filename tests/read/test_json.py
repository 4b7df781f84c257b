"""JSON is told from tables, whatever its name."""

import json

import pytest

from rafm.errors import DataFormatError
from rafm.read.detect import detect_format

ROWS = [{"user": "ann", "item": "tea", "click": 1}, {"user": "bob", "item": "jam", "click": 0}]
TEXTS = {
    "a list": json.dumps(ROWS),
    "an indented list": json.dumps(ROWS, indent=2),
    "lines": "\n".join(map(json.dumps, ROWS)),
    "an object": json.dumps({"rows": ROWS}, indent=1),
}


@pytest.mark.parametrize("name", ["rows.json", "rows.csv", "rows.txt"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_json_is_named_with_the_way_out(text, name, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataFormatError, match=f"{name}: looks like JSON, .*convert it to CSV or Parquet"):
        detect_format(tmp_path / name)


def test_a_table_with_braces_is_a_table(tmp_path):
    (tmp_path / "t.csv").write_text('user,"{""click"""\nann,1\n')
    assert detect_format(tmp_path / "t.csv").format == "csv"


def test_a_pickle_is_told_in_plain_words(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04\x95" + bytes(40))
    with pytest.raises(DataFormatError, match="is not data: it looks like a pickle, which rafm never opens because"):
        detect_format(tmp_path / "m.pkl")
