"""Times of another kind than in training: converted by one rule or refused, in every container."""

import datetime
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from commands import run
from pyarrow import parquet
from tables import features_of, spec_of

from rafm import RaFMClassifier, Scorer
from rafm.encode.encoder import TableEncoder
from rafm.encode.serialize import encoder_parts, read_encoder
from rafm.errors import DataValueError
from rafm.export.export import export
from rafm.model.file import load

OSLO = datetime.timezone(datetime.timedelta(hours=2))
EIGHT, TEN = datetime.datetime(2014, 10, 21, 8), datetime.datetime(2014, 10, 21, 10, tzinfo=OSLO)
DAY = datetime.date(2014, 10, 21)
CELLS = {
    "timestamps": (pa.array([EIGHT]), "naive"),
    "nanoseconds": (pa.array([EIGHT], pa.timestamp("ns")), "naive"),
    "text": (pa.array(["2014-10-21T08:00"]), "naive"),
    "Oslo": (pa.array([TEN], pa.timestamp("us", "Europe/Oslo")), "aware"),
    "Tokyo": (pa.array([TEN], pa.timestamp("s", "Asia/Tokyo")), "aware"),
    "UTC": (pa.array([TEN], pa.timestamp("ms", "UTC")), "aware"),
    "offset": (pa.array(["2014-10-21T10:00:00+02:00"]), "aware"),
    "Z": (pa.array(["2014-10-21 08:00:00.000000001Z"]), "aware"),
    "date32": (pa.array([DAY]), "date"),
    "date64": (pa.array([DAY], pa.date64()), "date"),
    "text of dates": (pa.array(["2014-10-21"]), "date"),
    "midnights": (pa.array([DAY]).cast(pa.timestamp("us")), "date"),
}
WAYS_OUT = {
    ("naive", "aware"): r"learned times without a time zone, found one with a time zone.*tz_localize\(None\)",
    ("naive", "date"): "learned times without a time zone, found a date.*give the times of day too",
    ("aware", "naive"): r"learned times with a time zone, found one without.*tz_localize\(zone\)",
    ("aware", "date"): r"learned times with a time zone, found (a date|one without).*tz_localize\(zone\)",
    ("date", "naive"): "learned dates, found one with a time of day.*normalize",
    ("date", "aware"): r"learned dates, found one with a time zone.*tz_localize\(None\)",
}
HOURS = {"naive": "hour 8", "aware": "hour 8", "date": "hour 0"}


@pytest.mark.parametrize("given", CELLS)
@pytest.mark.parametrize("learned", CELLS)
def test_times_of_the_kind_of_training_are_taken_by_one_rule_and_others_are_refused(learned, given):  # case 127
    (cells, kind), (others, other_kind) = CELLS[learned], CELLS[given]
    encoder = TableEncoder.learn(pa.table({"at": cells}), spec_of(at="datetime"))
    table = pa.table({"at": pa.concat_arrays([others[:0], pa.nulls(1, others.type), others])})
    if other_kind == kind or (kind, given) == ("naive", "midnights"):
        assert features_of(encoder, table)[1] == {f"at={HOURS[other_kind]}": 1, "at=Tuesday": 1}
        return
    with pytest.raises(DataValueError, match="column 'at', row 2: the model " + WAYS_OUT[kind, other_kind]):
        encoder.encode(table)
    back = read_encoder(*encoder_parts(encoder))
    with pytest.raises(DataValueError, match=WAYS_OUT[kind, other_kind]):
        back.grow_then_encode(table)[1].__next__()


def test_what_is_learned_does_not_depend_on_the_order_of_blocks():  # case 127
    midnights, hours = pa.table({"at": ["2014-10-21"] * 2}), pa.table({"at": ["2014-10-21T08:00"]})
    for blocks in ([midnights, hours], [hours, midnights]):
        encoder = TableEncoder.learn([batch for table in blocks for batch in table.to_batches()])
        for table in blocks:
            encoder.encode(table)
        with pytest.raises(DataValueError, match="found one with a time zone"):
            encoder.encode(pa.table({"at": ["2014-10-21T08:00Z"]}))


@pytest.mark.parametrize("first", [0, 1])
def test_some_times_with_a_zone_are_refused_in_training_by_their_row(first):  # case 127
    texts = ["2014-10-21T08:00", "2014-10-21T08:00Z"]
    with pytest.raises(
        DataValueError,
        match=r"column 'at', row [12]: some times have a time zone and others, such as '2014-10-21T08:00', do not",
    ):
        TableEncoder.learn(pa.table({"at": texts[:: 1 - 2 * first]}), spec_of(at="datetime"))
    blocks = [pa.table({"at": [text]}).to_batches()[0] for text in texts[:: 1 - 2 * first]]
    with pytest.raises(DataValueError, match="column 'at', row 2: some times have a time zone and others do not"):
        TableEncoder.learn(blocks)


def test_a_bad_time_among_times_with_a_zone_is_named_itself():
    with pytest.raises(DataValueError, match=r"column 'at', row 2: expected a time like .*found 'soon'"):
        TableEncoder.learn(pa.table({"at": ["2014-10-21T08:00Z", "soon"]}), spec_of(at="datetime"))


def test_seconds_since_1970_are_times_with_a_zone():  # case 127
    seconds = pa.table({"at": [1413878400]})
    encoder = TableEncoder.learn(seconds, spec_of(at={"kind": "datetime", "format": "unix"}))
    assert features_of(encoder, pa.table({"at": CELLS["Tokyo"][0]})) == features_of(encoder, seconds)
    with pytest.raises(DataValueError, match="found one without"):
        encoder.encode(pa.table({"at": CELLS["timestamps"][0]}))


def test_times_as_categories_follow_the_same_rule():  # case 127
    encoder = TableEncoder.learn(
        pa.table({"at": pa.array([TEN], pa.timestamp("us", "Europe/Oslo"))}), spec_of(at="category")
    )
    tokyo = pa.table({"at": pa.array([TEN], pa.timestamp("us", "Asia/Tokyo"))})
    assert encoder.encode(tokyo).indices.tolist() == [0]
    coded = pa.table({"at": tokyo["at"].dictionary_encode()})  # a categorical of pandas
    assert encoder.encode(coded).indices.tolist() == [0]
    assert TableEncoder.learn(coded).feature_names() == encoder.feature_names() == ["at=2014-10-21 08:00:00Z"]
    with pytest.raises(DataValueError, match="found one without"):
        encoder.encode(pa.table({"at": [EIGHT]}))
    with pytest.raises(DataValueError, match="found one without"):
        encoder.grow_then_encode(pa.table({"at": [EIGHT]}))


def test_a_model_that_did_not_record_the_kind_takes_times_as_before():  # case 127
    encoder = TableEncoder.learn(pa.table({"at": [EIGHT]}))
    old = replace(encoder, columns=tuple(replace(column, times=None) for column in encoder.columns))
    header, tensors = encoder_parts(old)
    assert header["version"] == 1
    assert "times" not in header["columns"][0]
    cells = pa.array([TEN], pa.timestamp("us", "Europe/Oslo"))
    found = features_of(read_encoder(header, tensors), pa.table({"at": cells}))
    assert found == [{f"at=hour {pc.hour(cells)[0]}": 1, "at=Tuesday": 1}]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("times")
    hours = pd.date_range("2014-10-20", periods=96, freq="h")
    table = pd.DataFrame({"at": hours, "y": (hours.hour < 12).astype(int)})
    model = RaFMClassifier(model="lr", n_epochs=2, validation_fraction=0).fit(table[["at"]], table["y"])
    model.save(folder / "m.rafm")
    return folder, table, model


def test_frames_files_scorers_and_programs_refuse_the_same_times(trained):  # case 127
    folder, table, model = trained
    zoned = table.assign(at=table["at"].dt.tz_localize("Asia/Tokyo"))
    zoned.to_csv(folder / "zoned.csv", index=False)
    parquet.write_table(pa.Table.from_pandas(zoned), folder / "zoned.parquet")
    message = "learned times without a time zone, found one with a time zone"
    with pytest.raises(DataValueError, match=message):
        model.predict(zoned[["at"]])
    for name in ("zoned.csv", "zoned.parquet"):
        ran = run("predict", folder / "m.rafm", folder / name)
        assert ran.code == 3
        assert message in ran.err
    scorer = Scorer(folder / "m.rafm")
    for cell in (TEN, "2014-10-21T10:00+02:00", zoned["at"][0]):
        for rows in ({"at": cell}, [{"at": cell}] * 200):
            with pytest.raises(DataValueError, match=message):
                scorer.predict(rows)
    export(load(folder / "m.rafm"), "python", folder / "m.py")
    names = {"__name__": "m"}
    exec(compile((folder / "m.py").read_text(), "m.py", "exec"), names)
    for cell in (TEN, "2014-10-21T10:00+02:00"):
        with pytest.raises(ValueError, match="column 'at': times had no time zone in training"):
            names["predict_record"]({"at": cell})
    with pytest.raises(ValueError, match="times were no dates in training"):
        names["predict_record"]({"at": DAY})
    assert names["predict_record"]({"at": EIGHT}) == pytest.approx(scorer.predict({"at": EIGHT}))
    assert scorer.predict({"at": "2014-10-21 08:00"}) == scorer.predict({"at": EIGHT})
