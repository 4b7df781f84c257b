"""A model comes back from its file as it was; a file whose parts do not fit is refused, whatever is wrong with it."""

import contextlib
import copy
import json
import os
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import worlds
from drawing import examples
from fitted import KINDS, RANKS, long_tail, make, mixed_table, scores_of, two_fields
from hypothesis import given
from hypothesis import strategies as st

import rafm
from rafm.cli.inspect import model_report
from rafm.encode.encoder import TableEncoder
from rafm.errors import ModelFileError, ModelFormatError, ModelIntegrityError, ModelVersionError
from rafm.files.container import read_container, write_container
from rafm.losses import loss_named
from rafm.model.file import Saved, load, save
from rafm.model.model import Model
from rafm.model.parameters import Parameters
from rafm.options import resolve
from rafm.plan.ranks import RankPlan
from rafm.predictor import Predictor
from rafm.read.frames import as_table
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import Numbering
from rafm.train.dispatch import train_model

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import make as golden  # noqa: E402

LOG_LOSS = loss_named("log")


@pytest.fixture(autouse=True, scope="module")
def _without_waiting_for_the_disk():
    """Let nothing here wait for the disk, thousands of times; that files reach it is tested with rafm.files.atomic."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.rafm"


def two_columns():
    """Return a table of two text columns: exactly two features per row."""
    rng = np.random.default_rng(1)
    words = np.array(["ham", "spam", "eggs", "\u00e9clair"], object)
    return pd.DataFrame({"a": words[rng.integers(0, 4, 400)], "b": words[rng.integers(0, 4, 400)]})


# Round trips


@pytest.mark.parametrize("encoder", [False, True], ids=["matrix", "table"])
@pytest.mark.parametrize("model", RANKS)
@pytest.mark.parametrize("task", KINDS)
def test_scores_are_the_same_bit_for_bit_after_save_and_load(task, model, encoder, path):
    X, y = long_tail(task)
    if encoder:
        X = two_columns() if model == "mrma" else mixed_table()
    elif model == "mrma":
        X, y = two_fields(task)[0]
    fitted = make(task, model).fit(X, y)
    fitted.save(path)
    loaded = rafm.load(path)
    assert loaded.encoder_ == fitted.encoder_
    assert (loaded.encoder_ is not None) == encoder
    np.testing.assert_array_equal(scores_of(loaded, X), scores_of(fitted, X))
    before = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == before


def test_a_loaded_model_scores_every_level_as_before(path):
    X, y = long_tail()
    fitted = make().fit(X, y)
    fitted.save(path)
    for level in (1, 2, 3):
        np.testing.assert_array_equal(rafm.load(path).decision_function(X, level), fitted.decision_function(X, level))


def test_a_loaded_table_model_keeps_the_names_of_columns_and_checks_them(path):
    _, y = long_tail()
    make().fit(mixed_table(), y).save(path)
    loaded = rafm.load(path)
    assert loaded.feature_names_in_.tolist() == ["word", "size"]
    assert loaded.n_features_in_ == 2
    reordered = mixed_table()[["size", "word"]]
    np.testing.assert_array_equal(loaded.predict(reordered), loaded.predict(mixed_table()))
    with pytest.raises(ValueError, match="'word' is missing"):
        loaded.predict(mixed_table()[["size"]])


def test_a_model_without_any_feature_is_its_bias(path):
    empty = check_batch(Batch(np.zeros(5, np.int64), np.zeros(0, np.int64), np.zeros(0), 0, np.array([1, 1, 1, 0])))
    model = train_model(empty, resolve(task="binary", n_epochs=2))
    save(path, Saved(model))
    found = load(path).model
    assert found.n_parameters == 1
    np.testing.assert_array_equal(found.scores(empty), np.repeat(model.parameters.bias, 4))


def test_factors_that_are_not_contiguous_come_back_equal(path):
    X, y = long_tail()
    model = make().fit(X, y).model_
    found = model.parameters
    odd = [
        np.asfortranarray(found.factors[0]),
        found.factors[1][::-1].copy()[::-1],
        np.repeat(found.factors[2], 2, 1)[:, ::2],
    ]
    assert not any(block.flags.c_contiguous for block in odd)
    parameters = Parameters(np.array([found.bias[0], 9], np.float32)[::2], found.weights[::-1].copy()[::-1], odd)
    save(path, Saved(Model(model.plan, model.numbering, model.counts, model.loss, parameters, model.n_rows)))
    loaded = load(path).model
    rows = check_batch(Batch(X.indptr, X.indices, X.data, 60))
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))


def test_nothing_that_is_not_finite_is_ever_saved(path):
    model = make().fit(*long_tail()).model_
    model.parameters.weights[3] = np.nan
    with pytest.raises(ModelIntegrityError, match="weights is nan"):
        save(path, Saved(model))
    assert not path.exists()


def test_ids_and_counts_beyond_32_bits_come_back(path):
    plan = RankPlan("fm", (1,), (2, 2, 0))
    numbers = Parameters(np.zeros(1, np.float32), np.float32([1, 2]), [np.ones((2, 1), np.float32)])
    ids, counts = np.array([2**40, 7]), np.array([2**33, 1])
    save(path, Saved(Model(plan, Numbering(ids, 2**40 + 1), counts, LOG_LOSS, numbers, 2**33)))
    found = load(path).model
    assert found.numbering.ids.tolist() == ids.tolist()
    assert found.counts.tolist() == counts.tolist()
    rows = check_batch(Batch(np.array([0, 1, 2]), np.array([2**40, 2**39]), np.ones(2), 2**41))
    assert found.scores(rows).tolist() == [1, 0]


@examples(0.25)
@given(worlds.worlds_with_rows())
def test_any_model_comes_back_as_it_was(tmp_path_factory, drawn):
    world, rows = drawn
    path = tmp_path_factory.getbasetemp() / "any.rafm"
    n = world.plan.n_features
    weights, factors = world.arrays(np.float32)
    parameters = Parameters(np.float32([world.model["bias"]]), weights, factors)
    numbering = Numbering(np.random.default_rng(n).permutation(2 * n)[:n], 2 * n)
    model = Model(world.plan, numbering, np.arange(n, 0, -1), LOG_LOSS, parameters, 10)
    save(path, Saved(model))
    found = load(path).model
    assert found.plan == model.plan
    ids = [numbering.ids[row_ids] for row_ids, _ in rows]
    indptr = np.concatenate([[0], np.cumsum([part.size for part in ids])])
    batch = check_batch(Batch(indptr, np.concatenate(ids), np.concatenate([values for _, values in rows]), 2 * n))
    np.testing.assert_array_equal(found.scores(batch), model.scores(batch))


TEXTS = st.text(max_size=8).filter(lambda text: text.isprintable() or not text)


@examples(0.5)
@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8), st.lists(st.none() | st.booleans(), min_size=1, max_size=8))
def test_any_encoder_comes_back_as_it_was(tmp_path_factory, words, flags):
    path, n = tmp_path_factory.getbasetemp() / "encoder.rafm", min(len(words), len(flags))
    table = as_table(pd.DataFrame({"w\u00f6rd": words[:n], "flag": flags[:n], "number": np.arange(n) / 3}))
    encoder = TableEncoder.learn(table)
    rows = encoder.encode(table)
    labels = (np.arange(n) % 2).astype(np.float32)
    batch = check_batch(Batch(rows.indptr, rows.indices, rows.values, rows.n_features, labels))
    save(path, Saved(train_model(batch, resolve(task="binary", model="lr", n_epochs=1)), encoder))
    assert load(path).encoder == encoder


# Golden files


def array_of(described):
    kind, shape, digits = described
    return np.frombuffer(bytes.fromhex(digits), kind).reshape(shape)


@pytest.mark.parametrize("expected", sorted(GOLDEN.glob("v*.json")), ids=lambda found: found.stem)
def test_golden_files_load_with_every_number_as_it_was(expected):
    saved = load(expected.with_suffix(".rafm"))
    assert golden.contents(saved) == json.loads(expected.read_text())["contents"]


@pytest.mark.parametrize("expected", sorted(GOLDEN.glob("v*.json")), ids=lambda found: found.stem)
def test_golden_files_score_as_the_definition_says(expected):
    told = json.loads(expected.read_text())
    rows = [dict(row) for row in told["rows"]]
    ids = np.array([i for row in rows for i in row], np.int64)
    values = np.array([x for row in rows for x in row.values()], np.float32)
    batch = Batch(np.concatenate([[0], np.cumsum([len(row) for row in rows])]), ids, values, int(ids.max()) + 1)
    found = load(expected.with_suffix(".rafm")).model.scores(check_batch(batch))
    scores = [float(np.frombuffer(bytes.fromhex(digits), np.float32)[0]) for digits in told["scores"]]
    # Not bit for bit: which instructions add up a row, and so the last bits, depends on the processor.
    assert (np.abs(found - scores) <= 1e-6 * np.array(told["sizes"])).all()


def test_golden_files_are_there_for_every_family_and_version_and_are_small():
    families = {json.loads(path.read_text())["contents"]["family"] for path in GOLDEN.glob("v1-*.json")}
    assert families == {"rafm", "fm", "lr", "difacto", "mrma", "ffm"}
    headers = [parts(path.stem.removeprefix("v1-"))[0] for path in GOLDEN.glob("v1-*.rafm")]
    assert {header["encoder"]["version"] for header in headers if header["encoder"]} == {1, 2}
    assert {header.get("states_version") for header in headers} == {None, 1}
    assert {header.get("bits") for header in headers} == {None, 6}
    assert max(path.stat().st_size for path in GOLDEN.glob("v*")) < 20_000


def test_the_files_of_this_version_are_written_byte_for_byte_as_before(tmp_path):
    golden.main(tmp_path)
    for path in tmp_path.glob("*.rafm"):
        assert path.read_bytes() == (GOLDEN / path.name).read_bytes(), path.name


# Files that are no models


def parts(name):
    """Return header and tensors of a golden file, to be changed."""
    return read_container(golden.golden_path(GOLDEN, name))


def assert_refused(path, header, tensors, match=""):
    """Write a container that is sound in itself; it must not load as a model, and the error names the file."""
    write_container(path, tensors, header)
    with pytest.raises(ModelFormatError, match=rf"^m\.rafm: .*{match}"):
        load(path)


TENSOR_NAMES = sorted({(name, tensor) for name in golden.PLANS for tensor in parts(name)[1]})


@pytest.mark.parametrize(("name", "tensor"), TENSOR_NAMES)
def test_a_missing_tensor_is_refused_by_name(path, name, tensor):
    header, tensors = parts(name)
    del tensors[tensor]
    assert_refused(path, header, tensors, f"{tensor}' is missing")


@pytest.mark.parametrize(("name", "tensor"), TENSOR_NAMES)
def test_a_tensor_of_another_type_is_refused_by_name(path, name, tensor):
    header, tensors = parts(name)
    other = np.float64 if tensors[tensor].dtype == np.float32 else np.float32
    assert_refused(path, header, tensors | {tensor: tensors[tensor].astype(other)}, tensor)


@pytest.mark.parametrize(("name", "tensor"), TENSOR_NAMES)
@pytest.mark.parametrize(
    "change",
    [lambda a: a[:-1], lambda a: np.concatenate([a, a[:1]]), lambda a: a[None], lambda a: a[..., None]],
    ids=["shorter", "longer", "one more axis", "one more axis at the end"],
)
def test_a_tensor_of_another_shape_is_refused(path, name, tensor, change):
    header, tensors = parts(name)
    assert_refused(path, header, tensors | {tensor: change(tensors[tensor])})


@pytest.mark.parametrize("tensor", ["factors.4", "factors.0", "mixture", "encoder.text", "encoder.more", "x"])
def test_a_tensor_that_does_not_belong_is_refused_by_name(path, tensor):
    header, tensors = parts("rafm")
    assert_refused(path, header, tensors | {tensor: np.zeros(3, np.float32)}, tensor)


@pytest.mark.parametrize("ids", [[-1, 1], [0, 0], [0, 30]], ids=["negative", "twice", "beyond n_inputs"])
def test_ids_out_of_range_or_twice_are_refused(path, ids):
    header, tensors = parts("rafm")
    tensors["ids"][:2] = ids
    assert_refused(path, header, tensors, "ids must be distinct and below n_inputs")


def test_negative_counts_are_refused(path):
    header, tensors = parts("rafm")
    tensors["counts"][3] = -1
    assert_refused(path, header, tensors, "counts")


HEADERS = {
    "unknown family": ("rafm", "family", "gbdt"),
    "family of a wrong type": ("rafm", "family", ["rafm"]),
    "another family": ("rafm", "family", "difacto"),
    "fm of three ranks": ("rafm", "family", "fm"),
    "mrma without all ranks": ("rafm", "family", "mrma"),
    "lr with ranks": ("fm", "family", "lr"),
    "unknown task": ("rafm", "task", "ranking"),
    "task of a wrong type": ("rafm", "task", {"binary": 1}),
    "ranks that fall": ("rafm", "ranks", [3, 2, 7]),
    "equal ranks": ("rafm", "ranks", [2, 2, 7]),
    "a rank of 0": ("rafm", "ranks", [0, 3, 7]),
    "a rank that is no whole number": ("rafm", "ranks", [2.0, 3, 7]),
    "a rank that is true": ("rafm", "ranks", [True, 3, 7]),
    "an absurd rank": ("rafm", "ranks", [2, 3, 10**9]),
    "ranks as text": ("rafm", "ranks", "237"),
    "too few ranks": ("rafm", "ranks", [2, 3]),
    "no ranks": ("rafm", "ranks", []),
    "sizes that rise": ("rafm", "sizes", [12, 6, 11, 2]),
    "negative size": ("rafm", "sizes", [12, 11, 6, -2]),
    "too many sizes": ("rafm", "sizes", [12, 11, 6, 2, 0]),
    "sizes as an object": ("rafm", "sizes", {"0": 12}),
    "n_inputs too small": ("rafm", "n_inputs", 5),
    "n_inputs negative": ("rafm", "n_inputs", -30),
    "n_inputs beyond 64 bits": ("rafm", "n_inputs", 2**64),
    "n_inputs as text": ("rafm", "n_inputs", "30"),
    "n_rows as a float": ("rafm", "n_rows", 1.5),
    "index base 2": ("rafm", "index_base", 2),
    "index base true": ("rafm", "index_base", True),
    "one class of no type": ("rafm", "classes", [None]),
    "three classes": ("rafm", "classes", [0, 1, 2]),
    "no classes": ("rafm", "classes", []),
    "equal classes": ("rafm", "classes", ["a", "a"]),
    "classes of two types": ("rafm", "classes", ["a", 1]),
    "classes as text": ("rafm", "classes", "01"),
    "best epoch as text": ("rafm", "best_epoch", "1"),
    "history as an object": ("rafm", "history", {}),
    "history of numbers": ("rafm", "history", [1]),
    "history without epochs": ("rafm", "history", [{"train_loss": 1}]),
    "history of texts": ("rafm", "history", [{"epoch": 1, "train_loss": "low"}]),
    "options as a list": ("rafm", "options", []),
    "options in options": ("rafm", "options", {"l2": {}}),
    "an encoder as text": ("table", "encoder", "city"),
    "an encoder as a list": ("table", "encoder", []),
    "an encoder of nothing": ("table", "encoder", {}),
    "an encoder of no version": ("table", "encoder", {"columns": [], "table": {}}),
    "an encoder of no columns": ("table", "encoder", {"columns": [], "table": {}, "version": 1}),
    "an encoder of numbers": ("table", "encoder", [1, 2, 3]),
    "no encoder": ("table", "encoder", None),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_cannot_be_is_refused(path, case):
    name, key, value = HEADERS[case]
    header, tensors = parts(name)
    assert_refused(path, header | {key: value}, tensors)


@pytest.mark.parametrize("name", ["mrma"])
def test_a_model_whose_features_must_have_all_ranks_is_refused_if_some_have_not(path, name):
    header, tensors = parts(name)
    top = f"factors.{len(header['ranks'])}"
    header["sizes"][-1] -= 1  # kernels would read beyond the records of the others
    assert_refused(path, header, tensors | {top: tensors[top][:-1]}, "must be equal")


def test_zero_vectors_take_no_space_and_come_back(path):
    header, tensors = parts("rafm")
    model = load(GOLDEN / "v1-rafm.rafm").model
    sizes = []
    for zeros in (0, 1, 2):
        model.parameters.factors[0][:zeros] = 0
        sizes.append(save(path, Saved(model)))
        np.testing.assert_array_equal(load(path).model.parameters.factors[0], model.parameters.factors[0])
    assert sizes[2] <= sizes[1] - 4 * header["ranks"][0]
    assert "rows.1" in read_container(path)[1]
    assert "rows.1" not in tensors


ROWS = {"twice": [0, 0], "falling": [1, 0], "beyond": [0, 10**6], "negative": [-1, 0]}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows_of_vectors_that_cannot_be_are_refused(path, rows):
    header, tensors = parts("rafm")
    two = {"rows.1": np.array(rows, np.int32), "factors.1": tensors["factors.1"][:2]}
    assert_refused(path, header, tensors | two, "must be strictly ascending")


@pytest.mark.parametrize("key", sorted(parts("rafm")[0]))
def test_a_header_without_one_of_its_keys_is_refused(path, key):
    header, tensors = parts("rafm")
    del header[key]
    assert_refused(path, header, tensors, f"missing header field '{key}'")


COLUMNS = {
    "unknown kind": ("city", {"kind": "date"}),
    "another kind": ("city", {"kind": "number"}),
    "kind of a wrong type": ("city", {"kind": ["category"]}),
    "name of a wrong type": ("city", {"name": 1}),
    "the same name twice": ("city", {"name": "ok"}),
    "a name out of order": ("city", {"name": "zzz"}),
    "too few values": ("city", {"n_values": 3}),
    "too many values": ("ok", {"n_values": 5}),
    "negative values": ("city", {"n_values": -4}),
    "values as text": ("city", {"n_values": "4"}),
    "values as a float": ("city", {"n_values": 4.0}),
    "rare as a number": ("city", {"rare": 1}),
    "missing as text": ("city", {"missing": "yes"}),
    "unknown family": ("city", {"family": "other"}),
    "number with values": ("age", {"n_values": 1}),
    "spread of 0": ("age", {"spread": 0.0}),
    "negative spread": ("age", {"spread": -1.0}),
    "spread as text": ("age", {"spread": "1"}),
    "mean true": ("age", {"mean": True}),
    "mean beyond floats": ("age", {"mean": 10**400}),
    "more than known": ("age", {"bins": [1.0]}),
    "a setting of another kind": ("age", {"n_bins": 4}),
    "an unknown setting": ("age", {"color": "red"}),
    "edges that fall": ("price", {"edges": [2.0, 1.0]}),
    "equal edges": ("price", {"edges": [2.0, 2.0]}),
    "edges as text": ("price", {"edges": "12"}),
    "bins of text": ("visits", {"bins": ["a"]}),
    "negative buckets": ("query", {"n_buckets": -8}),
    "buckets as text": ("query", {"n_buckets": "8"}),
    "state of a column that is ignored": ("zip", {"mean": 1.0}),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_that_cannot_be_is_refused(path, case):
    header, tensors = parts("table")
    name, change = COLUMNS[case]
    column = next(column for column in header["encoder"]["columns"] if column["name"] == name)
    column |= change
    assert_refused(path, header, tensors)


@pytest.mark.parametrize("key", ["name", "kind", "family", "rare", "missing", "mean", "spread"])
def test_a_column_without_one_of_its_keys_is_refused(path, key):
    header, tensors = parts("table")
    del header["encoder"]["columns"][0][key]
    assert_refused(path, header, tensors, "encoder")


def test_an_encoder_of_a_newer_version_says_so(path):
    header, tensors = parts("table")
    header["encoder"]["version"] = 4
    write_container(path, tensors, header)
    with pytest.raises(ModelVersionError, match=r"^m\.rafm: its encoder has version 4"):
        load(path)


VALUES = {
    "places that fall": lambda text, ends: ends.__setitem__(1, 0) or ends.__setitem__(0, 3),
    "a negative place": lambda text, ends: ends.__setitem__(0, -1),
    "a place beyond the text": lambda text, ends: ends.__setitem__(-1, 999),
    "a text that goes on": lambda text, ends: ends.__setitem__(-1, int(ends[-1]) - 1),
    "places that wrap around": lambda text, ends: ends.__setitem__(slice(3), [2**63 - 1, -(2**63), -1]),
    "bytes that are no text": lambda text, ends: text.__setitem__(0, 0xFF),
    "a value cut inside a letter": lambda text, ends: ends.__setitem__(2, int(ends[2]) + 1),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_of_columns_that_cannot_be_are_refused(path, case):
    header, tensors = parts("table")
    VALUES[case](tensors["encoder.text"], tensors["encoder.ends"])
    assert_refused(path, header, tensors, "encoder")


def test_a_value_twice_in_a_column_is_refused(path):
    header, tensors = parts("table")
    tensors["encoder.ends"][0] = tensors["encoder.ends"][1]  # "Oslo" and ""
    tensors["encoder.ends"][2] = tensors["encoder.ends"][1]  # and "" again
    assert_refused(path, header, tensors, "duplicate value")


def test_a_value_that_is_not_finite_is_refused(path):
    raw = (GOLDEN / "v1-fm.rafm").read_bytes()
    _, tensors = parts("fm")
    weight = tensors["weights"][:1].tobytes()
    assert raw.count(weight) == 1
    path.write_bytes(raw.replace(weight, np.float32([np.nan]).tobytes()))
    with pytest.raises(ModelIntegrityError):
        load(path)


# Anything else

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@st.composite
def changed_headers(draw):
    """Draw a golden file's header with one value anywhere in it replaced, removed or added."""
    header, tensors = parts(draw(st.sampled_from(sorted(golden.PLANS))))
    at = header
    while True:
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys)) if keys else None
        if key is None or not isinstance(at[key], dict | list) or draw(st.booleans()):
            break
        at = at[key]
    what = draw(st.sampled_from(["replace", "remove", "add"]))
    if what == "add" or key is None:
        at.update({draw(st.text(max_size=5)): draw(JSON)}) if isinstance(at, dict) else at.append(draw(JSON))
    elif what == "remove":
        del at[key]
    else:
        at[key] = draw(JSON)
    return header, tensors


def use(path):
    """Do with a file what commands and programs do with a model."""
    saved = load(path)
    n = min(saved.model.numbering.n_inputs, 40)
    rows = check_batch(Batch(np.array([0, n]), np.arange(n), np.ones(n), max(n, 1)))
    assert np.isfinite(saved.model.scores(rows)).all()
    json.dumps(model_report(str(path))[0], allow_nan=False)
    if saved.encoder is not None:
        saved.encoder.feature_names()
    if not saved.index_base:
        rafm.load(path)


@contextlib.contextmanager
def refused_or_not():
    """Allow errors of model files, whose messages begin with the name of the file, and no others."""
    refusal = ""
    try:
        yield
    except ModelFileError as error:
        refusal = str(error)
    assert refusal == "" or refusal.startswith("m.rafm: ")


@examples(2.5)
@given(changed_headers())
def test_a_file_with_any_change_of_its_header_works_or_is_refused_as_a_model_file(tmp_path_factory, changed):
    header, tensors = changed
    path = tmp_path_factory.getbasetemp() / "m.rafm"
    write_container(path, tensors, header)
    with refused_or_not():
        use(path)


@st.composite
def changed_tensors(draw):
    """Draw a golden file with one tensor renamed, cut, reshaped, of another type or with other numbers."""
    header, tensors = parts(draw(st.sampled_from(sorted(golden.PLANS))))
    name = draw(st.sampled_from(sorted(tensors)))
    array = tensors[name]
    change = draw(st.sampled_from(["rename", "swap", "cut", "type", "axes", "number"]))
    if change == "rename":
        tensors[draw(st.sampled_from(["factors.1", "factors.9", "mixture", "y", "encoder.ends"]))] = tensors.pop(name)
    elif change == "swap":
        other = draw(st.sampled_from(sorted(tensors)))
        tensors[name], tensors[other] = tensors[other], array
    elif change == "cut":
        tensors[name] = array[: draw(st.integers(0, len(array)))]
    elif change == "type":
        kinds = [np.float32, np.float64, np.int32, np.int64, np.uint8]
        tensors[name] = array.astype(draw(st.sampled_from(kinds)))
    elif change == "axes":
        tensors[name] = array.T if array.ndim > 1 else array[:, None]
    elif array.size:
        info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        extreme = draw(st.sampled_from([info.min, -1, 0, 1, info.max]))
        array.reshape(-1)[draw(st.integers(0, array.size - 1))] = max(extreme, info.min)
    return header, tensors


@examples(2.5)
@given(changed_tensors())
def test_a_file_with_any_change_of_its_tensors_is_refused_as_a_model_file_or_loads(tmp_path_factory, changed):
    header, tensors = changed
    path = tmp_path_factory.getbasetemp() / "m.rafm"
    write_container(path, tensors, header)
    with refused_or_not():
        load(path)


def test_a_file_cut_at_any_byte_is_refused(path):
    raw = (GOLDEN / "v1-table.rafm").read_bytes()
    for end in range(0, len(raw), 7):
        path.write_bytes(raw[:end])
        with pytest.raises(ModelFileError):
            load(path)


def test_a_file_with_any_flipped_bit_is_refused(path):
    raw = bytearray((GOLDEN / "v1-difacto.rafm").read_bytes())
    for place in range(0, len(raw), 5):
        raw[place] ^= 1 << place % 8
        path.write_bytes(raw)
        with pytest.raises(ModelFileError):
            load(path)
        raw[place] ^= 1 << place % 8


def test_a_newer_version_says_what_it_needs(path):
    raw = (GOLDEN / "v1-fm.rafm").read_bytes()
    path.write_bytes(raw.replace(b'"format_version":"1"', b'"format_version":"7"', 1))
    with pytest.raises(ModelVersionError, match=r"m\.rafm: .*needs rafm >= 0\.7"):
        rafm.load(path)


class Trap:
    """Leaves a trace when unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return (os.mkdir, (self.trace,))


@pytest.mark.parametrize("kind", ["pickle", "zip", "text", "empty", "folder", "numpy"])
def test_other_files_are_refused_and_nothing_in_them_is_run(path, tmp_path, kind):
    trap = pickle.dumps(Trap(tmp_path / "trace"))
    if kind == "folder":
        path.mkdir()
        (path / "model.pkl").write_bytes(trap)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.pkl", trap)
    elif kind == "numpy":
        with open(path, "wb") as file:
            np.save(file, np.array([Trap(tmp_path / "trace")], object), allow_pickle=True)
    else:
        path.write_bytes({"pickle": trap, "text": b"1 3:1 4:2\n", "empty": b""}[kind])
    for reader in (rafm.load, load, Predictor.load):
        with pytest.raises(ModelFormatError, match=r"^m\.rafm"):
            reader(path)
    assert not (tmp_path / "trace").exists()


def test_names_of_tensors_and_columns_are_never_paths(path, tmp_path):
    header, tensors = parts("table")
    header["encoder"]["columns"][0]["name"] = "../../outside"
    write_container(path, tensors, header)
    before = sorted(tmp_path.iterdir())
    assert load(path).encoder.columns[0].name == "../../outside"
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(ModelFormatError, match="names are letters"):
        write_container(path, copy.copy(tensors) | {"../x": np.zeros(1)}, header)


def test_a_missing_file_is_an_error_of_the_system(path):
    with pytest.raises(FileNotFoundError):
        rafm.load(path)


def test_a_link_to_a_model_is_read_and_a_link_to_nothing_is_not(path, tmp_path):
    path.symlink_to(GOLDEN / "v1-rafm.rafm")
    assert load(path).model.plan.family == "rafm"
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_model_that_would_not_load_is_not_saved(path):
    """What is read back is what stays: an older file is kept, and nothing else is left in the folder."""
    make().fit(*long_tail()).save(path)
    before, saved = path.read_bytes(), load(path)
    broken = replace(saved, model=replace(saved.model, options={**saved.model.options, "l2": -1.0}))
    with pytest.raises(ModelFormatError, match=r"^m\.rafm: not saved, because it would not load: .*l2"):
        save(path, broken)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
