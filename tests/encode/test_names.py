"""Ids are names: 196, 196.0 and "196" are one category, in every container; booleans are not."""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import run
from pyarrow import parquet
from tables import features_of, spec_of

from rafm import RaFMClassifier, Scorer, load
from rafm.encode.encoder import TableEncoder
from rafm.encode.raw_rows import TableRows
from rafm.errors import DataValueError
from rafm.export.export import export
from rafm.model import file as storage

LONG = 9_007_199_254_740_993  # the first integer that float64 does not have
IDS = {
    "integers": pa.array([196, 7, -3, None]),
    "floats": pa.array([196.0, 7.0, -3.0, None]),
    "text": pa.array(["196", "7", "-3", None]),
    "text with a point": pa.array(["196.0", "7.", "-3.00", None]),
    "text with signs and exponents": pa.array(["1.96e2", "+7", "-30E-1", None]),
    "padded text with words": pa.array([" 196", "7 ", "-3", "NA"]),
    "views": pa.array(["196", "7", "-3", None], pa.string_view()),
    "bytes": pa.array([b"196", b"7", b"-3", None]),
    "a dictionary of text": pa.array(["196", "7", "-3", None]).dictionary_encode(),
    "a dictionary of integers": pa.array([196, 7, -3, None]).dictionary_encode(),
}
AS_NUMBERS = (
    "text with a point",
    "text with signs and exponents",
    "padded text with words",
)  # which text equals only where numbers were learned


@pytest.mark.parametrize("hash_size", [0, 50])
@pytest.mark.parametrize("given", IDS)
@pytest.mark.parametrize("learned", ["integers", "floats", "text", "a dictionary of text"])
def test_ids_of_another_type_are_the_same_categories(learned, given, hash_size):  # case 135
    if "text" in learned and given in AS_NUMBERS:
        return
    kind = {"kind": "category", "hash_size": hash_size}
    encoder = TableEncoder.learn(pa.table({"id": IDS[learned]}), spec_of(id=kind))
    expected = features_of(encoder, pa.table({"id": IDS[learned]}))
    assert features_of(encoder, pa.table({"id": IDS[given]})) == expected
    grown, rows = encoder.grow_then_encode(pa.table({"id": IDS[given]}))
    assert grown.feature_names() == encoder.feature_names()
    assert next(iter(rows)).indices.tolist() == encoder.encode(pa.table({"id": IDS[given]})).indices.tolist()


@pytest.mark.parametrize("learned", ["integers", "text"])
def test_booleans_are_no_ids_and_other_text_is_unseen(learned):  # case 135
    encoder = TableEncoder.learn(pa.table({"id": IDS[learned]}), spec_of(id="category"))
    with pytest.raises(DataValueError, match=r"column 'id' was (number|text) in training, now its type is bool"):
        encoder.encode(pa.table({"id": [True]}))
    assert features_of(encoder, pa.table({"id": ["u7", "007", "true"]})) == [{}, {}, {}]


def test_booleans_and_times_may_be_text_as_in_a_csv_file(tmp_path):
    days = [date(2024, 3, 31), date(2024, 4, 1)] * 40
    frame = pd.DataFrame({"paid": [True, False] * 40, "day": pd.Categorical(pd.to_datetime(days))})
    model = RaFMClassifier(model="lr", n_epochs=2, validation_fraction=0).fit(frame, [1, 0] * 40)
    expected = model.predict_proba(frame)[:2, 1]
    model.save(tmp_path / "m.rafm")
    for name, cells in {"pandas": ("True", "False"), "arrow": ("true", "false"), "sql": ("TRUE", "FALSE")}.items():
        lines = [f"{paid},{day}\n" for paid, day in zip(cells, days)]
        (tmp_path / f"{name}.csv").write_text("paid,day\n" + "".join(lines) + ",\nNA,\n")
        ran = run("predict", tmp_path / "m.rafm", tmp_path / f"{name}.csv")
        np.testing.assert_allclose([float(line) for line in ran.out.split()[:2]], expected, rtol=1e-6)
    scorer, row = Scorer(tmp_path / "m.rafm"), {"paid": "True", "day": "2024-03-31"}
    assert scorer.predict(row) == pytest.approx(expected[0])
    assert scorer.predict([row] * 200)[7] == pytest.approx(expected[0])
    (tmp_path / "bad.csv").write_text("paid,day\nTrue,\nyes,\n")
    ran = run("predict", tmp_path / "m.rafm", tmp_path / "bad.csv")
    assert "bad.csv: column 'paid', row 2: expected true or false as in training, found 'yes'" in ran.error()
    grown = model.encoder_.grow_then_encode(pa.table({"paid": ["true", None], "day": ["2024-03-31", "2024-05-01"]}))[0]
    names = ["day=2024-03-31", "day=2024-04-01", "day=2024-05-01", "paid=false", "paid=true", "paid=<missing>"]
    assert grown.feature_names() == names


def test_a_quantity_still_takes_numbers_only():  # case 135
    encoder = TableEncoder.learn(pa.table({"price": [1.5, 2.5]}))
    with pytest.raises(DataValueError, match="column 'price' has type string, which cannot be encoded as bins"):
        encoder.encode(pa.table({"price": ["1.5"]}))


def fitted(ids):
    table = pd.DataFrame({"id": np.repeat(ids, 30)})
    labels = np.tile(np.repeat([0, 1], 30), len(ids) // 2)
    return RaFMClassifier(model="lr", n_epochs=3, validation_fraction=0).fit(table, labels)


@pytest.mark.parametrize("learned", [[196, 7, LONG, -3], ["196", "7", str(LONG), "-3"]], ids=["integers", "text"])
def test_frames_files_scorers_and_programs_agree_about_ids(tmp_path, learned):  # case 135
    model, path = fitted(learned), tmp_path / "m.rafm"
    model.save(path)
    whole, text = pd.DataFrame({"id": [196, 7, LONG, -3]}), pd.DataFrame({"id": ["196", "7", str(LONG), "-3"]})
    expected = model.predict_proba(pd.DataFrame({"id": learned}))[:, 1]
    assert np.unique(expected.round(6)).size > 1
    for table in (whole, text):
        np.testing.assert_array_equal(model.predict_proba(table)[:, 1], expected)
        np.testing.assert_array_equal(load(path).predict_proba(table)[:, 1], expected)
        parquet.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet")
        table.to_csv(tmp_path / "t.csv", index=False)
        for name in ("t.parquet", "t.csv"):
            found = np.array(run("predict", path, tmp_path / name).out.split(), float)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    scorer = Scorer(path)
    export(storage.load(path), "python", tmp_path / "m.py")
    names = {"__name__": "m"}
    exec(compile((tmp_path / "m.py").read_text(), "m.py", "exec"), names)
    for cells in (whole["id"].tolist(), text["id"].tolist(), [196.0, 7.0, LONG, -3.0]):
        np.testing.assert_allclose([scorer.predict({"id": cell}) for cell in cells], expected, rtol=1e-6)
        np.testing.assert_allclose(scorer.predict([{"id": cell} for cell in cells] * 50)[:4], expected, rtol=1e-6)
        np.testing.assert_allclose(scorer.link(scorer.score_table({"id": cells})), expected, rtol=1e-6)
        np.testing.assert_allclose([names["predict_record"]({"id": cell}) for cell in cells], expected, rtol=1e-6)
    with pytest.raises(DataValueError, match="column 'id'"):
        scorer.predict({"id": True})


@pytest.mark.parametrize("cells", [["1e3", "-0"], ["+4", "0e0"], ["1e22", "-0.0"], ["5", "6."]], ids=" ".join)
def test_numbers_of_a_file_are_known_however_it_writes_them(tmp_path, cells):
    """Training reads them as numbers, prediction as text, from which it takes the names of numbers."""
    (tmp_path / "t.csv").write_text("id,y\n" + "".join(f"{cell},{place}\n" for place, cell in enumerate(cells)) * 40)
    model = tmp_path / "m.rafm"
    options = ("--label", "y", "--model", "lr", "--epochs", 5, "--valid-share", 0)
    assert run("train", tmp_path / "t.csv", *options, "--out", model).code == 0
    predicted = run("predict", model, tmp_path / "t.csv")
    assert (predicted.code, predicted.err) == (0, "")
    first, second = map(float, predicted.out.split()[:2])
    assert first < 0.4 < 0.6 < second
    frame = pd.DataFrame({"id": [float(cell) for cell in cells]})
    np.testing.assert_allclose(load(model).predict_proba(frame)[:, 1], [first, second], rtol=1e-6)
    scorer = Scorer(model)
    export(storage.load(model), "python", tmp_path / "m.py")
    names = {"__name__": "m"}
    exec(compile((tmp_path / "m.py").read_text(), "m.py", "exec"), names)
    for cell, expected in zip(cells, (first, second)):
        assert scorer.predict({"id": cell}) == pytest.approx(expected)
        assert names["predict_record"]({"id": cell}) == pytest.approx(expected)


def test_long_ids_of_a_frame_are_those_of_a_file(tmp_path):
    """A text reader takes numbers of 16 digits for text; a frame has them as integers."""
    ids = [LONG + k for k in range(4)]
    pd.DataFrame({"id": ids * 30, "y": [0, 1, 1, 0] * 30}).to_csv(tmp_path / "t.csv", index=False)
    ran = run("train", tmp_path / "t.csv", "--label", "y", "--model", "lr", "--epochs", 3, "--out", tmp_path / "m.rafm")
    assert ran.code == 0, ran.err
    model = load(tmp_path / "m.rafm")
    expected = model.predict_proba(pd.DataFrame({"id": [str(id) for id in ids]}))
    np.testing.assert_array_equal(model.predict_proba(pd.DataFrame({"id": ids})), expected)
    assert model.coverage_["id"].unseen == 0


DAYS = [datetime(2024, 3, 31), datetime(2024, 3, 31, 8, 30), datetime(2024, 3, 31, 8, 30, 0, 500_000), None]
SAME = {
    "whole numbers": {
        "integers": pa.array([196, 7, LONG]),
        "decimals with a scale": pa.array([Decimal("196.00"), Decimal(7), Decimal(LONG)], pa.decimal128(20, 2)),
        "decimals without": pa.array([Decimal(196), Decimal(7), Decimal(LONG)], pa.decimal128(20, 0)),
        "wide decimals": pa.array([Decimal(196), Decimal(7), Decimal(LONG)], pa.decimal256(40, 3)),
    },
    "fractions": {
        "floats": pa.array([0.5, -2.25, 1e-7]),
        "decimals": pa.array([Decimal("0.5"), Decimal("-2.25"), Decimal("0.0000001")], pa.decimal128(20, 9)),
    },
    "times": {unit: pa.array(DAYS, pa.timestamp(unit)) for unit in ("ms", "us", "ns")},
    "times with a zone": {
        zone + unit: pa.array(DAYS, pa.timestamp(unit, zone)) for unit in ("ms", "ns") for zone in ("UTC", "Asia/Tokyo")
    },
    "days": {
        str(kind): pa.array([date(2024, 3, 31), date(1969, 12, 31), None], pa.date32()).cast(kind)
        for kind in (pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"))
    },
}


@pytest.mark.parametrize("hash_size", [0, 50])
@pytest.mark.parametrize("what", SAME)
def test_categories_do_not_depend_on_the_scale_of_decimals_and_the_unit_of_times(what, hash_size):
    spec = spec_of(x={"kind": "category", "hash_size": hash_size})
    first = next(iter(SAME[what].values()))
    names = TableEncoder.learn(pa.table({"x": first}), spec).feature_names()
    for learned in SAME[what].values():
        encoder = TableEncoder.learn(pa.table({"x": learned}), spec)
        assert encoder.feature_names() == names
        for given in SAME[what].values():
            assert features_of(encoder, pa.table({"x": given})) == features_of(encoder, pa.table({"x": first}))
            known = [len(row) for row in features_of(encoder, pa.table({"x": given}))]
            assert known == [1] * len(known)
        rows = TableRows(encoder)
        for cell, expected in zip(first.to_pylist(), encoder.encode(pa.table({"x": first})).indices):
            for same in (cell, cell.isoformat() if isinstance(cell, date) else cell):
                ids = []
                rows.add({"x": same}, 0, ids, [])
                assert ids == [expected]
