"""Combinations of values of columns become features, as a dictionary of them in plain Python says; some are chosen."""

import itertools
import json
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import worlds
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import assert_same_rows

from rafm import RaFMClassifier, Scorer, load
from rafm.encode import screening
from rafm.encode.crosses import LEAST_COUNT, Cross, KeyCounts
from rafm.encode.encoder import TableEncoder
from rafm.encode.raw_rows import TableRows
from rafm.encode.screening import ERRORS, LEAST_ROWS, MOST_CROSSES, choose_pairs
from rafm.encode.serialize import encoder_parts, read_encoder
from rafm.encode.spec import TableSpec, parse_cross
from rafm.errors import ConfigError, DataValueError, ModelFormatError
from rafm.recommend.partial import PartialEncoder

CELLS = st.sampled_from(["x", "y", "z", "a=b", " * ", None])
ROWS = st.lists(st.tuples(CELLS, CELLS, st.sampled_from([0.5, 1.5, 7.25, None])), min_size=1, max_size=30)
CROSSES = [("a", "b"), ("a", "c"), ("a", "b", "c")]
BINS = {"c": {"kind": "bins", "n_bins": 3}}


def table_of(rows):
    """Return rows as a table of two categories and a number."""
    kinds = {"a": pa.string(), "b": pa.string(), "c": pa.float64()}
    return pa.table({name: pa.array([row[k] for row in rows], kind) for k, (name, kind) in enumerate(kinds.items())})


def spec_with(cross, **settings):
    """Return a specification of the table with conjunctions."""
    columns = {"a": "category", "b": "category"} | BINS
    return TableSpec.from_dict({"columns": columns, "cross": cross} | settings)


def named_rows(encoder, table):
    """Return the names of the features of each row."""
    rows = encoder.encode(table)
    return [
        [encoder.feature_name(id) for id in rows.indices[slice(*rows.indptr[k : k + 2])]] for k in range(rows.n_rows)
    ]


def naive_combinations(encoder, table, names):
    """Return the combination of the names of each row's features in some columns, None without one."""
    alone = TableEncoder(encoder.spec, encoder.columns)
    found = [{name.partition("=")[0]: name for name in row} for row in named_rows(alone, table)]
    return [" * ".join(row[name] for name in names) if {*names} <= {*row} else None for row in found]


# Encoding


@examples(0.3)
@given(ROWS, ROWS, st.sampled_from([1, 2, 3]))
def test_a_combination_seen_often_enough_is_a_feature_and_others_add_nothing(rows, later, min_count):
    spec = spec_with(CROSSES, rare="drop", min_count=min_count)
    encoder = TableEncoder.learn(table_of(rows), spec)
    for table in (table_of(rows), table_of(later)):
        expected = named_rows(TableEncoder(encoder.spec, encoder.columns), table)
        for names in CROSSES:
            counts = Counter(naive_combinations(encoder, table_of(rows), names))
            for row, found in zip(expected, naive_combinations(encoder, table, names)):
                if found is not None and counts[found] >= max(min_count, LEAST_COUNT):
                    row.append(found)
        assert [sorted(row) for row in named_rows(encoder, table)] == [sorted(row) for row in expected]


@examples(0.2)
@given(ROWS, st.randoms(use_true_random=False))
def test_conjunctions_do_not_depend_on_the_order_of_rows(rows, random):
    shuffled = random.sample(rows, len(rows))
    for name, tensor in encoder_parts(TableEncoder.learn(table_of(rows), spec_with(CROSSES)))[1].items():
        other = encoder_parts(TableEncoder.learn(table_of(shuffled), spec_with(CROSSES)))[1][name]
        np.testing.assert_array_equal(tensor, other)


@examples(0.2)
@given(ROWS, st.integers(1, 7))
def test_batches_are_learned_like_the_whole_table(rows, size):
    table = table_of(rows)
    whole, encoded = TableEncoder.learn_encode(table, spec_with(CROSSES))
    parts, streamed = TableEncoder.learn_encode(iter(table.to_batches(size)), spec_with(CROSSES))
    assert whole.feature_names() == parts.feature_names()
    assert_same_rows(encoded, streamed)
    assert_same_rows(encoded, whole.encode(table))


@examples(0.2)
@given(ROWS, ROWS)
def test_rows_of_python_values_have_the_features_of_the_table(rows, later):
    encoder = TableEncoder.learn(table_of(rows), spec_with(CROSSES))
    encoded, single = encoder.encode(table_of(later)), TableRows(encoder)
    for k, row in enumerate(table_of(later).to_pylist()):
        ids, values = [], []
        single.add(row, 0, ids, values)
        assert ids == encoded.indices[slice(*encoded.indptr[k : k + 2])].tolist()
        assert values == [1.0] * len(ids)


@examples(0.2)
@given(ROWS, ROWS)
def test_an_encoder_that_grows_keeps_its_features_by_name_and_adds_new_combinations(rows, later):
    old = TableEncoder.learn(table_of(rows), spec_with(CROSSES, rare="drop"))
    new, encoded = old.grow_then_encode(table_of(later))
    names, known = new.feature_names(), old.feature_names()
    assert [names[id] for id in old.ids_in(new)] == known
    counts = Counter(found for cross in CROSSES for found in naive_combinations(new, table_of(later), cross))
    twice = {name for name, count in counts.items() if name is not None and count >= LEAST_COUNT}
    crossed = {
        name for name in names if " * " in name and name not in TableEncoder(new.spec, new.columns).feature_names()
    }
    assert crossed == twice | {known[id] for id in range(old.first_ids[3], old.n_features)}
    [rows_again] = encoded
    assert_same_rows(rows_again, new.encode(table_of(later)))


def test_the_name_of_a_combination_has_those_of_its_values():
    table = pa.table({"manager": ["85475", "85475", "7"], "resource": ["39353", "39353", "39353"]})
    encoder = TableEncoder.learn(table, TableSpec(cross="resource*manager"))
    assert encoder.feature_names()[-1] == "manager=85475 * resource=39353"
    assert encoder.fields().names[-1] == "manager*resource"
    assert encoder.n_features == 4


def test_keys_count_exactly_across_merges(monkeypatch):
    monkeypatch.setattr("rafm.encode.crosses.BUFFERED", 4)
    draw, counts, naive = np.random.default_rng(0), KeyCounts(), Counter()
    for _ in range(20):
        keys = draw.integers(-1, 30, 5)
        counts.add(keys)
        naive.update(keys[keys >= 0].tolist())
    assert counts.frequent(3).tolist() == sorted(key for key, count in naive.items() if count >= 3)


def test_a_saved_encoder_is_the_same_again():
    encoder = TableEncoder.learn(table_of([("x", "y", 0.5), ("x", "y", 7.25)] * 2), spec_with(CROSSES))
    header, tensors = encoder_parts(encoder)
    assert header["version"] == 3
    again = read_encoder(json.loads(json.dumps(header)), tensors)
    assert again.feature_names() == encoder.feature_names()
    assert "encoder.keys" not in encoder_parts(TableEncoder.learn(table_of([("x", "y", 0.5)]), spec_with("off")))[1]


@pytest.mark.parametrize(
    "change", [lambda keys: keys[:-1], lambda keys: keys[::-1], lambda keys: keys + 10**6, lambda keys: keys - 10**6]
)
def test_damaged_keys_are_refused(change):
    rows = [("x", "y", 0.5), ("y", "y", 7.25)] * 2
    header, tensors = encoder_parts(TableEncoder.learn(table_of(rows), spec_with([("a", "b")])))
    tensors["encoder.keys"] = change(tensors["encoder.keys"])
    with pytest.raises(ModelFormatError, match="keys of conjunction"):
        read_encoder(header, tensors)


# What can be crossed


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("off", "off"),
        ("auto", "auto"),
        ("b*a", (("a", "b"),)),
        ("c * b, b*a", (("a", "b"), ("b", "c"))),
        ([("a*b", "c,d")], (("a*b", "c,d"),)),
        (["a*b", "b*a"], (("a", "b"),)),
        ([], "off"),
    ],
)
def test_conjunctions_are_given_as_text_or_names(given, found):
    assert parse_cross(given) == found


@pytest.mark.parametrize("given", ["a", "a*a", "a*b*c*d", "a**b", [1], 7, "a*b,"])
def test_other_conjunctions_are_refused(given):
    with pytest.raises(ConfigError, match="cross"):
        parse_cross(given)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"b": "number"}, "'b' is a number"),
        ({"b": "ignore"}, "'b' is ignored"),
        ({"b": {"kind": "category", "hash_size": 9}}, "'b' is hashed"),
        ({"a": {"kind": "list", "separator": "|"}}, "'a' has several values"),
        ({"a": {"kind": "datetime", "format": "%H"}}, "'a' has two features"),
    ],
)
def test_a_column_whose_values_do_not_occur_again_is_refused_by_name(columns, reason):
    table = pa.table({"a": ["1", "2"], "b": [0.5, 1.5]})
    with pytest.raises(ConfigError, match=reason):
        TableEncoder.learn(table, TableSpec.from_dict({"columns": columns, "cross": "a*b"}))


def test_an_unknown_column_of_a_conjunction_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'b'"):
        TableEncoder.learn(table_of([("x", "y", 0.5)]), TableSpec(cross=[("a", "bb")]))


def test_keys_that_need_more_than_64_bits_are_refused():
    column = TableEncoder.learn(pa.table({"a": ["x", "y"]})).columns[0]

    class Wide:
        name, n_features = "wide", 2**62 // 2

    assert Cross((column, Wide())).n_features == 0
    with pytest.raises(DataValueError, match=r"a\*wide\*wide"):
        Cross((column, Wide(), Wide()))


def test_contexts_and_items_apart_have_no_conjunctions_of_both():
    rows = [("x", "y", 0.5), ("x", "y", 7.25)] * 2
    whole = TableEncoder.learn(table_of(rows), spec_with("a*b"))
    with pytest.raises(ConfigError, match=r"'a\*b' of the model needs columns of contexts and"):
        PartialEncoder.of(whole, ["a", "c"])
    found = [PartialEncoder.of(whole, own).encode(table_of(rows).select(own)) for own in (["a", "b"], ["c"])]
    both = [sorted([*a, *b]) for a, b in zip(*(np.split(own.indices, own.indptr[1:-1]) for own in found))]
    expected = whole.encode(table_of(rows))
    assert both == [sorted(own) for own in np.split(expected.indices, expected.indptr[1:-1])]


# Models


@pytest.fixture(scope="module")
def habits():
    """Return a table whose labels depend on the day at an hour, and the labels."""
    draw, n = np.random.default_rng(0), 6000
    day, hour, user = draw.integers(0, 7, n), draw.integers(0, 24, n), draw.integers(0, 50, n)
    y = draw.logistic(size=n) < draw.normal(0, 2, (7, 24))[day, hour]
    return pd.DataFrame({"day": day.astype(str), "hour": hour.astype(str), "user": user.astype(str)}), y.astype(int)


@pytest.fixture(scope="module")
def trained(habits):
    """Return a model with a conjunction."""
    return RaFMClassifier(ranks=(4,), n_epochs=2, cross="day*hour,day*hour*user").fit(*habits)


def test_a_model_keeps_its_conjunctions_in_its_file_and_the_scorer_knows_them(trained, habits, tmp_path):
    trained.save(tmp_path / "m.rafm")
    again, scorer, X = load(tmp_path / "m.rafm"), Scorer(tmp_path / "m.rafm"), habits[0][:40]
    expected = trained.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(again.predict_proba(X)[:, 1], expected)
    np.testing.assert_allclose([scorer.predict([row])[0] for row in X.to_dict("records")], expected, rtol=1e-6)
    without = RaFMClassifier(ranks=(4,), n_epochs=2).fit(*habits)
    assert again.encoder_.n_features > without.encoder_.n_features


def test_the_python_program_knows_conjunctions(trained, habits, tmp_path):
    trained.export(tmp_path / "model.py")
    names = {"__name__": "model"}
    exec(compile((tmp_path / "model.py").read_text(), "model.py", "exec"), names)
    rows = [*habits[0][:40].to_dict("records"), {"day": "new", "hour": "3", "user": None}]
    found = [names["predict_record"](row) for row in rows]
    np.testing.assert_allclose(found, trained.predict_proba(pd.DataFrame(rows))[:, 1], rtol=1e-6)


def test_explanations_name_conjunctions_and_give_them_a_share(trained, habits):
    X, y = habits
    assert trained.shapley_values(X[:5]).columns == ["day", "hour", "user", "day*hour", "day*hour*user"]
    strongest = max(trained.importance(X, y, repeats=2), key=lambda one: one.importance)
    assert strongest.column == "day*hour"
    [explanation] = trained.explain(pd.DataFrame({"day": ["5"], "hour": ["21"], "user": ["new"]}))
    assert any("day=5 * hour=21" in term.features for term in explanation.terms)
    assert explanation.unseen == ("user",)  # not the combination of three


def test_training_goes_on_with_new_combinations(trained, habits):
    X, y = habits
    model = RaFMClassifier(ranks=(4,), n_epochs=1, cross="day*hour").fit(X[:100], y[:100])
    before = model.encoder_.n_features
    model.partial_fit(X[100:3000], y[100:3000])
    assert model.encoder_.n_features > before
    assert model.encoder_.feature_names()[-1].startswith("day=6 * hour=")


def test_a_matrix_has_no_columns_to_cross(habits):
    with pytest.raises(ConfigError, match="cross names columns of a table"):
        RaFMClassifier(cross="a*b").fit(np.eye(4), [0, 1, 0, 1])


# Choosing


def test_auto_takes_the_pair_that_labels_depend_on_and_no_other(habits):
    model = RaFMClassifier(ranks=(4,), n_epochs=1, cross="auto").fit(*habits)
    assert [cross.name for cross in model.encoder_.crosses] == ["day*hour"]
    assert model.encoder_.spec.crosses == (("day", "hour"),)


def test_auto_takes_nothing_where_labels_depend_on_nothing(habits):
    X, y = habits
    shuffled = np.random.default_rng(1).permutation(y)
    assert RaFMClassifier(ranks=(4,), n_epochs=1, cross="auto").fit(X, shuffled).encoder_.crosses == ()


def codes_of(frame):
    """Return the codes of the columns of a frame."""
    return [np.unique(frame[name], return_inverse=True)[1] for name in frame]


def test_measured_values_choose_pairs_too(habits):
    X, _ = habits
    codes, draw = codes_of(X), np.random.default_rng(2)
    labels = draw.normal(size=(7, 24))[codes[0], codes[1]] + draw.normal(size=len(X))
    assert choose_pairs(codes, labels) == [(0, 1)]


def test_rows_of_weight_zero_choose_nothing(habits):
    X, y = habits
    noise, codes = np.random.default_rng(3).integers(0, 2, len(y)), codes_of(X)
    labels, weights = np.concatenate([noise, y]), np.repeat([1.0, 0.0], len(y))
    assert choose_pairs([np.tile(own, 2) for own in codes], labels, weights) == []
    assert choose_pairs([np.tile(own, 2) for own in codes], labels, 1 - weights) == [(0, 1)]


@pytest.mark.parametrize(("n", "chosen"), [(LEAST_ROWS - 1, []), (LEAST_ROWS, [(0, 1)])])
def test_few_rows_choose_nothing(n, chosen):
    draw = np.random.default_rng(0)
    codes = [draw.integers(0, 8, n) for _ in range(3)]
    assert choose_pairs(codes, draw.normal(size=(8, 8))[codes[0], codes[1]]) == chosen


def test_no_more_than_the_most_pairs_are_taken(monkeypatch):
    draw = np.random.default_rng(0)
    codes = [draw.integers(0, 12, 20_000) for _ in range(6)]
    labels = sum(draw.normal(size=(12, 12))[a, b] for a, b in itertools.combinations(codes, 2))
    found = choose_pairs(codes, labels)
    assert len(found) == MOST_CROSSES == len(set(found))
    monkeypatch.setattr(screening, "MOST_CROSSES", 3)
    assert choose_pairs(codes, labels) == found[:3]


@pytest.mark.parametrize(("times", "chosen"), [(0.999, [(0, 1)]), (1.001, [])])
def test_a_gain_must_exceed_its_error(monkeypatch, habits, times, chosen):
    X, y = habits
    mean, error = screening.Screen(codes_of(X), y, None).gain((0, 1))
    monkeypatch.setattr(screening, "least_errors", lambda n_pairs: times * mean / error)
    assert choose_pairs(codes_of(X), y) == chosen


def test_a_pair_that_products_of_vectors_predict_better_is_left_to_them():
    draw, n = np.random.default_rng(0), 12000
    user, item = draw.integers(0, 200, n), draw.integers(0, 100, n)
    odds = 2.5 * draw.normal(size=200)[user] * draw.normal(size=100)[item]
    labels = draw.logistic(size=n) < odds
    screen = screening.Screen([user, item], labels * 1.0, None)
    mean, error = screen.gain((0, 1))
    assert ERRORS * error < mean < screen.product_gain((0, 1))
    assert choose_pairs([user, item], labels) == []


TRAIN = """
import sys
import numpy as np, pandas as pd
from rafm import RaFMClassifier
draw = np.random.default_rng(0)
day, hour = draw.integers(0, 7, 3000), draw.integers(0, 24, 3000)
y = draw.logistic(size=3000) < draw.normal(0, 2, (7, 24))[day, hour]
X = pd.DataFrame({"day": day.astype(str), "hour": hour.astype(str)})
model = RaFMClassifier(ranks=(4,), n_epochs=1, cross="auto", n_jobs=int(sys.argv[2])).fit(X, y.astype(int))
assert len(model.encoder_.crosses) == 1
model.save(sys.argv[1])
"""


def test_bytes_do_not_depend_on_threads_and_hash_seeds(tmp_path):
    for threads, seed in ((1, "1"), (2, "2")):
        worlds.run_python("-c", TRAIN, tmp_path / f"{threads}.rafm", str(threads), PYTHONHASHSEED=seed)
    assert (tmp_path / "1.rafm").read_bytes() == (tmp_path / "2.rafm").read_bytes()
