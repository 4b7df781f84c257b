"""The ONNX graph predicts in onnxruntime as rafm does, from padded ids or, where ONNX can encode them, from columns."""

import sys
from dataclasses import replace

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from models import WORLDS, as_batch, model_of, rows_of_ids, saved_world
from worlds import make_world

from rafm import RaFMClassifier
from rafm.errors import ConfigError, ResourceLimitError
from rafm.export import onnx
from rafm.export.export import export, note_of
from rafm.model.file import Saved
from rafm.rows.checked import check_batch
from rafm.rows.numbering import Numbering


def session(saved, folder):
    export(saved, "onnx", folder / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(folder / "m.onnx", options, providers=["CPUExecutionProvider"])


def padded(rows):
    """Return ids and values of equal length, padded with -1."""
    longest = max(map(len, rows))
    ids, values = np.full((len(rows), longest), -1, np.int64), np.zeros((len(rows), longest), np.float32)
    for at, row in enumerate(rows):
        ids[at, : len(row)], values[at, : len(row)] = [*row], [*row.values()]
    return {"ids": ids, "values": values}


@pytest.fixture(scope="module", params=WORLDS)
def world(request, tmp_path_factory):
    saved = saved_world(request.param)
    return saved, session(saved, tmp_path_factory.mktemp("onnx"))


@examples(0.25)
@given(data=st.data())
def test_padded_ids_are_predicted_as_by_the_model(world, data):
    saved, running = world
    rows = data.draw(st.lists(rows_of_ids(saved.model), min_size=1, max_size=10))
    score, prediction = running.run(["score", "prediction"], padded(rows))
    batch = as_batch(rows)
    np.testing.assert_allclose(score, saved.model.scores(batch), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(prediction, saved.model.predict(batch), rtol=1e-6, atol=1e-6)


def test_scattered_ids_are_looked_up_in_a_map(tmp_path):
    """A table of all ids would take 2**40 entries."""
    saved = saved_world("fm")
    far = replace(saved.model, numbering=Numbering(np.arange(saved.model.plan.n_features) * 2**36 + 2**35, 2**40))
    far_row, near_row = ({int(one.numbering.ids[i]): 1.0 for i in (0, 3, 5)} for one in (far, saved.model))
    found = session(Saved(far), tmp_path).run(["score"], padded([far_row | {17: 1.0}]))[0]
    np.testing.assert_allclose(found, saved.model.scores(as_batch([near_row])), rtol=1e-6)


KINDS = {"user": "category", "group": "category", "size": "number", "age": "bins", "visits": "log_bins"}
CELLS = {
    "user": st.sampled_from([None, "ann", "bob", "new", "\u00e9clair"]),
    "group": st.one_of(st.none(), st.integers(0, 9)),
    "size": st.one_of(st.none(), st.floats(-500, 500)),
    "age": st.one_of(st.none(), st.floats(-10, 200)),
    "visits": st.one_of(st.none(), st.integers(-5, 10**6).map(float)),
}
TYPES = {"user": pa.string(), "group": pa.int64(), "size": pa.float64(), "age": pa.float64(), "visits": pa.float64()}


def table_of(records):
    return pa.table({name: pa.array([record[name] for record in records], TYPES[name]) for name in KINDS})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    records = [
        {
            "user": ("ann", "bob", "\u00e9clair", None)[row % 4],
            "group": None if row == 7 else row % 5,
            "size": float(rng.normal(3, 100)),
            "age": None if row == 9 else float(rng.integers(0, 90)),
            "visits": float(rng.integers(-2, 500)),
        }
        for row in range(300)
    ]
    fitted = RaFMClassifier(ranks=(2, 5), columns=KINDS, n_epochs=2, validation_fraction=0)
    fitted.fit(table_of(records), np.arange(300) % 3 == 0)
    saved = Saved(fitted.model_, fitted.encoder_)
    return saved, session(saved, tmp_path_factory.mktemp("onnx"))


def fed(records):
    """Return records as the graph takes them: text for categories, NaN and empty text for nothing."""
    found = {}
    for name, kind in KINDS.items():
        cells = [record[name] for record in records]
        if kind == "category":
            found[name] = np.array([["" if cell is None else str(cell)] for cell in cells], object)
        else:
            found[name] = np.array([[np.nan if cell is None else cell] for cell in cells], np.float64)
    return found


@examples(0.6)
@given(records=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5))
def test_columns_are_encoded_in_the_graph(table, records):
    saved, running = table
    expected = saved.model.predict(check_batch(saved.encoder.encode(table_of(records), targets=False)))
    np.testing.assert_allclose(running.run(["prediction"], fed(records))[0], expected, atol=1e-6)


def test_columns_that_onnx_cannot_encode_leave_a_graph_of_ids_and_a_note(tmp_path):
    data = pa.table({"user": ["ann", "bob"] * 20, "tags": [["x"], ["y", "x"]] * 20})
    fitted = RaFMClassifier(ranks=4, model="fm", n_epochs=1, validation_fraction=0).fit(data, [0, 1] * 20)
    fitted.export(tmp_path / "m.onnx")
    running = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in running.get_inputs()] == ["ids", "values"]
    saved = Saved(fitted.model_, fitted.encoder_)
    assert note_of(saved, "onnx") == (
        "the graph takes feature ids, not columns: ONNX cannot encode column 'tags' (it has no lists of words)"
    )


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("a.onnx", "b.onnx"):
        export(saved_world("rafm"), "onnx", tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_vectors_are_in_the_file_once(tmp_path):
    """Field weights need them twice."""
    world = make_world("fm", (64,), [1] * 40, n_fields=2)
    assert export(Saved(model_of(world)), "onnx", tmp_path / "m.onnx") < 4 * 64 * 41 + 6000


def test_a_model_too_large_for_a_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(onnx, "MAX_BYTES", 100)
    with pytest.raises(ResourceLimitError, match="do not fit into the 2 GiB of an ONNX file"):
        export(saved_world("fm"), "onnx", tmp_path / "m.onnx")


def test_without_the_package_the_way_out_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"the onnx package is missing; pip install '\.\[export\]'"):
        export(saved_world("fm"), "onnx", tmp_path / "m.onnx")
