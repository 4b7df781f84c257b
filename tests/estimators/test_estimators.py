"""The estimators as scikit-learn and its users handle them: any layout of the same data, any label, any process."""

import copy
import io
import pickle
from unittest import mock

import naive
import numpy as np
import pandas as pd
import pytest
import worlds
from fitted import KINDS, RANKS, long_tail, make, mixed_table, scores_of, two_fields
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import rafm
from rafm import RaFMClassifier, Thresholds
from rafm.errors import ConfigError, DivergenceError
from rafm.model.file import Saved, save
from rafm.train.steps import mixture_engine, record_engine


def saved_bytes(estimator, folder):
    estimator.save(folder / "m.rafm")
    return (folder / "m.rafm").read_bytes()


# Conventions


def test_the_constructor_stores_what_it_is_given_and_does_nothing_else():
    nonsense = {name: object() for name in RaFMClassifier().get_params()}
    estimator = RaFMClassifier(**nonsense)
    assert vars(estimator) == nonsense


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "gbdt"},
        {"ranks": (8, 4)},
        {"ranks": 0},
        {"rank_scale": -1},
        {"levels": [9] * 60},
        {"levels": Thresholds((1,))},
        {"update": "both"},
        {"optimizer": "adamw"},
        {"learning_rate": 0},
        {"l2": float("nan")},
        {"l2_weights": -1},
        {"n_epochs": 0},
        {"patience": -1},
        {"random_state": -1},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_wrong_choice_is_refused_in_fit_and_its_error_names_the_parameter(wrong):
    with pytest.raises(ConfigError) as caught:
        make(**wrong).fit(*long_tail())
    name = "seed" if "random_state" in wrong else next(iter(wrong))
    assert caught.value.key == name
    assert not hasattr(caught.value, "model_")


def test_a_clone_has_the_same_parameters_and_is_not_fitted():
    fitted = make(levels=Thresholds((3, 9)), optimizer=rafm.Sgd(batch_size=4)).fit(*long_tail())
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(long_tail()[0])


@pytest.mark.parametrize("use", ["predict", "decision_function", "predict_proba", "save", "levels_", "feature_counts_"])
def test_nothing_works_before_fit(use, tmp_path):
    argument = tmp_path / "m.rafm" if use == "save" else long_tail()[0]
    with pytest.raises(NotFittedError):
        getattr(make(), use)(argument)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fitted: pickle.loads(pickle.dumps(fitted))])
def test_copies_of_a_fitted_estimator_score_alike(copied):
    X, y = long_tail()
    fitted = make().fit(X, y)
    fitted.predict(X)  # fills what a model keeps for scoring, which must survive too
    np.testing.assert_array_equal(copied(fitted).decision_function(X), fitted.decision_function(X))


def test_a_grid_search_finds_the_only_model_that_can_see_pairs():
    (X, y), _ = two_fields(n_rows=3000)
    grid = [{"model": ["lr"]}, {"model": ["fm"], "l2": [0.0, 10.0]}]  # l2 has no effect with lr
    search = GridSearchCV(RaFMClassifier(4, n_epochs=8), grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert search.best_params_ == {"model": "fm", "l2": 0.0}


def test_an_estimator_works_at_the_end_of_a_pipeline_and_in_cross_validation():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, (600, 2))
    y = np.array(["odd", "even"])[(cells.sum(axis=1) % 2 == 0).astype(int)]
    whole = make_pipeline(OneHotEncoder(), RaFMClassifier(4, model="fm", n_epochs=10, l2=0))
    assert cross_val_score(whole, cells, y, cv=3).min() == 1.0
    linear = make_pipeline(OneHotEncoder(), RaFMClassifier(model="lr"))
    assert cross_val_score(linear, cells, y, cv=3).max() < 0.7


def test_verbose_prints_the_plan_and_one_line_per_epoch(capsys):
    make(verbose=True, n_epochs=2).fit(*long_tail())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["level", "rank", "features"]
    assert [line.split()[0] for line in lines[-3:]] == ["epoch", "1", "2"]


def test_fit_prints_nothing_unless_asked(capsys):
    make().fit(*long_tail())
    assert capsys.readouterr() == ("", "")


def test_divergence_is_an_error_and_no_model_is_kept():
    X, y = long_tail("regression")
    estimator = make("regression", optimizer="sgd", learning_rate=1e6)
    with pytest.raises(DivergenceError, match="learning_rate"):
        estimator.fit(X, y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


# The same data in any layout


def unsorted(X):
    """Return the matrix with the entries of every row in falling order of their columns."""
    X = X.tocoo()
    order = np.lexsort((-X.col, X.row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(X.row, minlength=X.shape[0]))])
    return sparse.csr_matrix((X.data[order], X.col[order], indptr), shape=X.shape)


def with_duplicates(X):
    """Return the matrix with every value as the sum of two entries."""
    X = X.tocsr()
    halves = (np.repeat(X.data, 2) * np.float32(0.5), np.repeat(X.indices, 2), 2 * X.indptr)
    return sparse.csr_matrix(halves, shape=X.shape)


def with_stored_zeros(X):
    dense = X.toarray()
    columns = np.indices(dense.shape)[1]
    indptr = np.arange(dense.shape[0] + 1) * dense.shape[1]
    return sparse.csr_matrix((dense.ravel(), columns.ravel(), indptr), shape=dense.shape)


def read_only(X):
    for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        array.flags.writeable = False
    return X


def with_index_type(X, kind):
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    assert X.indices.dtype == kind
    return X


LAYOUTS = {
    "csr_array": sparse.csr_array,
    "int32 indices": lambda X: with_index_type(sparse.csr_matrix(X), np.int32),
    "int64 indices": lambda X: with_index_type(sparse.csr_matrix(X), np.int64),
    "int64 indices, array": lambda X: with_index_type(sparse.csr_array(X), np.int64),
    "unsorted": unsorted,
    "duplicates": with_duplicates,
    "stored zeros": with_stored_zeros,
    "read-only sparse": lambda X: read_only(X.copy()),
    "float64 sparse": lambda X: X.astype(np.float64),
    "int sparse": lambda X: X.astype(np.int8),
    "csc": sparse.csc_matrix,
    "csc_array": sparse.csc_array,
    "coo": sparse.coo_matrix,
    "coo_array": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "dense": lambda X: X.toarray(),
    "float64": lambda X: X.toarray().astype(np.float64),
    "float16": lambda X: X.toarray().astype(np.float16),
    "int64": lambda X: X.toarray().astype(np.int64),
    "uint8": lambda X: X.toarray().astype(np.uint8),
    "fortran": lambda X: np.asfortranarray(X.toarray()),
    "big-endian": lambda X: X.toarray().astype(">f4"),
    "read-only": lambda X: read_only(X.toarray()),
    "strided": lambda X: np.repeat(X.toarray(), 2, axis=1)[:, ::2],
    "reversed twice": lambda X: X.toarray()[::-1, ::-1].copy()[::-1, ::-1],
    "lists": lambda X: X.toarray().tolist(),
    "pandas without names": lambda X: pd.DataFrame(X.toarray()),
    "pandas ints without names": lambda X: pd.DataFrame(X.toarray()).astype(int),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", KINDS)
def test_the_same_data_give_the_same_model_and_scores_in_any_layout(layout, task, tmp_path):  # cases 26, 30, 49 and 52
    X, y = long_tail(task)
    expected = make(task).fit(X, y)
    given = LAYOUTS[layout](X)
    found = make(task).fit(given, y, eval_set=None)
    np.testing.assert_array_equal(scores_of(found, given), scores_of(expected, X))
    assert saved_bytes(found, tmp_path) == saved_bytes(expected, tmp_path)


@pytest.mark.parametrize("layout", ["unsorted", "duplicates", "stored zeros", "fortran", "pandas without names"])
def test_fit_and_predict_leave_the_data_as_they_were(layout):
    X, y = long_tail()
    given = LAYOUTS[layout](X)
    before = pickle.dumps(given)
    make().fit(given, y).predict(given)
    assert pickle.dumps(given) == before


def test_entries_that_add_up_to_zero_do_not_count_as_seen():
    X = sparse.csr_matrix((np.float32([1, -1, 1, 1]), [0, 0, 1, 1], [0, 3, 4]), shape=(2, 2))
    model = make(ranks=2, model="fm").fit(X, [0, 1])
    assert model.feature_counts_.tolist() == [0, 2]


@pytest.mark.parametrize("n_columns", [59, 61], ids=["fewer", "more"])
@pytest.mark.parametrize("convert", [sparse.csr_matrix, np.asarray], ids=["sparse", "dense"])
def test_another_number_of_columns_than_in_training_is_refused(n_columns, convert):  # case 51
    model = make().fit(*long_tail())
    with pytest.raises(ValueError, match=f"has {n_columns} features.*expecting 60"):
        model.predict(convert(np.ones((2, n_columns))))


def broken(change):
    """Return a CSR matrix whose arrays were changed after scipy checked them."""
    X = sparse.csr_matrix(np.eye(4, dtype=np.float32))
    change(X)
    return X


BROKEN = {
    "column too large": lambda X: X.indices.__setitem__(2, 4),
    "column negative": lambda X: X.indices.__setitem__(2, -1),
    "indptr falls": lambda X: X.indptr.__setitem__(2, 0),
    "indptr ends too late": lambda X: X.indptr.__setitem__(-1, 9),
    "indptr starts late": lambda X: X.indptr.__setitem__(0, 1),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_malformed_matrix_is_refused_before_any_kernel_sees_it(fault):  # case 50
    model = make(ranks=2, model="fm").fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError):
        model.predict(broken(BROKEN[fault]))
    with pytest.raises(ValueError):
        make(ranks=2, model="fm").fit(broken(BROKEN[fault]), [0, 1, 0, 1])


def test_a_value_beyond_float32_is_refused():
    with pytest.raises(ValueError, match="float32"):
        make().fit(np.array([[1e300], [1.0]]), [0, 1])


# Weights


def test_weights_of_one_change_nothing(tmp_path):
    X, y = long_tail()
    without = saved_bytes(make().fit(X, y), tmp_path)
    assert saved_bytes(make().fit(X, y, sample_weight=np.ones(X.shape[0])), tmp_path) == without
    assert saved_bytes(make().fit(X, y, 1.0), tmp_path) == without


def test_a_row_of_weight_zero_teaches_nothing_and_its_features_are_not_counted():
    X, y = long_tail()
    alone = sparse.csr_matrix(([1.0], [59], [0, 1]), shape=(1, 60))  # the only row with the last column
    weights = np.append(np.ones(X.shape[0]), 0)
    model = make().fit(sparse.vstack([X, alone]), np.append(y, 1), sample_weight=weights)
    np.testing.assert_array_equal(model.feature_counts_, (X.toarray() != 0).sum(axis=0))
    assert model.levels_[59] == 0
    assert model.decision_function(alone)[0] == model.model_.parameters.bias[0]


def test_heavier_positives_raise_the_prediction_to_their_share():
    y = np.repeat([0, 1], 50)
    model = make(model="lr", n_epochs=50).fit(np.ones((100, 1)), y, sample_weight=np.where(y, 3.0, 1.0))
    assert model.predict_proba(np.ones((1, 1)))[0, 1] == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize(
    "weights",
    [[-1.0, *[1.0] * 399], [np.nan] * 400, [np.inf] * 400, [1.0] * 399],
    ids=["negative", "nan", "inf", "short"],
)
@pytest.mark.parametrize("kind", ["matrix", "table"])
def test_wrong_weights_are_refused(weights, kind):  # case 53
    X, y = long_tail()
    X = X if kind == "matrix" else pd.DataFrame({"c": X.indices[X.indptr[:-1]].astype(str)})
    with pytest.raises(ValueError):
        make().fit(X, y, sample_weight=weights)


# Validation rows


def test_a_pair_and_a_list_of_one_pair_are_the_same_eval_set(tmp_path):
    training, valid = two_fields()
    models = [make().fit(*training, eval_set=given) for given in (valid, [valid])]
    assert saved_bytes(models[0], tmp_path) == saved_bytes(models[1], tmp_path)
    assert models[0].history_[0]["valid_log_loss"] > 0


@pytest.mark.parametrize("shape", ["X alone", "three", "two pairs", "list of two", "empty"])
def test_an_eval_set_of_another_shape_is_refused(shape):
    training, valid = two_fields()
    wrong = {
        "X alone": valid[0],
        "three": (*valid, None),
        "two pairs": [valid, valid],
        "list of two": list(valid),
        "empty": [],
    }[shape]
    with pytest.raises(ConfigError, match="eval_set must be one pair") as caught:
        make().fit(*training, eval_set=wrong)
    assert caught.value.key == "eval_set"


def test_an_eval_set_with_other_columns_or_unknown_labels_is_refused():
    (X, y), (X_valid, y_valid) = two_fields()
    with pytest.raises(ValueError, match="49 features"):
        make().fit(X, y, eval_set=(X_valid[:, :49], y_valid))
    with pytest.raises(ValueError, match=r"label 2 is not one of the classes \[0, 1\]"):
        make().fit(X, y, eval_set=(X_valid, y_valid + 1))


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("model", ["rafm", "mrma"])
def test_early_stopping_keeps_the_epoch_of_least_validation_loss(task, model, tmp_path):
    training, valid = two_fields(task, 1500)
    options = {"model": model, "learning_rate": 0.5, "l2": 0}
    stopped = make(task, n_epochs=300, patience=2, **options).fit(*training, eval_set=valid)
    metric = "valid_log_loss" if task == "binary" else "valid_rmse"
    losses = [entry[metric] for entry in stopped.history_]
    assert stopped.best_epoch_ == 1 + int(np.argmin(losses))
    assert len(losses) == stopped.best_epoch_ + 2 < 300
    exact = make(task, n_epochs=stopped.best_epoch_, patience=None, **options).fit(*training)
    X, y = valid
    np.testing.assert_array_equal(scores_of(stopped, X), scores_of(exact, X))
    if task == "binary":
        found = log_loss(y, stopped.predict_proba(X))
    else:
        found = mean_squared_error(y, stopped.predict(X)) ** 0.5
    assert found == pytest.approx(min(losses), rel=1e-6)  # float32 scores


def test_without_patience_all_epochs_run_and_the_best_is_still_kept():
    training, valid = two_fields(n_rows=1500)
    model = make(n_epochs=12, patience=None, learning_rate=0.5, l2=0).fit(*training, eval_set=valid)
    losses = [entry["valid_log_loss"] for entry in model.history_]
    assert len(losses) == 12
    assert model.best_epoch_ == 1 + int(np.argmin(losses)) < 12


def test_without_validation_rows_the_last_epoch_is_kept_and_the_history_holds_training_losses():
    model = make(n_epochs=7, patience=1).fit(*long_tail())
    assert [sorted(entry) for entry in model.history_] == [["epoch", "train_loss"]] * 7
    assert [entry["epoch"] for entry in model.history_] == [1, 2, 3, 4, 5, 6, 7]
    assert model.best_epoch_ == 7


def test_validation_rows_do_not_count_as_training_rows():
    (X, y), (X_valid, y_valid) = two_fields()
    model = make().fit(X, y, eval_set=(X_valid, y_valid))
    np.testing.assert_array_equal(model.feature_counts_, X.getnnz(axis=0))


# What was learnt


def as_naive(model):
    """Return the model's own parameters as `naive` wants them, in float64."""
    plan, found = model.plan, model.parameters
    vectors = [[*block.astype(float), *[None] * (plan.n_features - len(block))] for block in found.factors]
    return {
        "family": plan.family,
        "ranks": plan.block_ranks,
        "levels": plan.levels().tolist(),
        "bias": float(found.bias[0]),
        "w": found.weights.astype(float),
        "v": vectors,
        "mixture": found.mixture,
    }


def naive_rows(model, X):
    """Return the rows as `naive` wants them: numbers of known features, and values."""
    rows = []
    for r in range(X.shape[0]):
        row = (X.indices[X.indptr[r] : X.indptr[r + 1]], X.data[X.indptr[r] : X.indptr[r + 1]])
        known = naive.numbered(row, model.numbering.ids)
        rows.append(([i for i, _ in known], [float(x) for _, x in known]))
    return rows


def assert_close(found, expected, sizes):
    """Compare within a few roundings of float32, relative to the size of what was added up."""
    assert (np.abs(found - expected) <= 1e-6 * np.array(sizes)).all()


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("level", [1, 2, 3, None])
def test_scores_at_a_level_are_those_of_the_definition(task, level):
    X, y = long_tail(task)
    fitted = make(task, n_epochs=10, learning_rate=0.3).fit(X, y)
    twin, rows = as_naive(fitted.model_), naive_rows(fitted.model_, X[:60])
    assert set(twin["levels"]) == {1, 2, 3}
    expected = [naive.rafm_score(twin, row, 1, level or 3) for row in rows]
    found = fitted.decision_function(X[:60], level=level) if task == "binary" else fitted.predict(X[:60], level=level)
    assert_close(found, expected, [naive.score_size(twin, row) for row in rows])
    if level is not None and level < 3:
        assert not np.allclose(found, scores_of(fitted, X[:60]), rtol=1e-3)


@pytest.mark.parametrize("model", RANKS)
@pytest.mark.parametrize("task", KINDS)
def test_scores_of_every_family_are_those_of_its_definition(model, task):
    X, y = two_fields(task)[0] if model == "mrma" else long_tail(task)
    fitted = make(task, model, n_epochs=6, learning_rate=0.3).fit(X, y)
    twin, rows = as_naive(fitted.model_), naive_rows(fitted.model_, X[:60])
    sizes = [naive.score_size(twin, row) for row in rows]
    assert_close(scores_of(fitted, X[:60]), [naive.score(twin, row) for row in rows], sizes)
    assert fitted.n_parameters_ == 1 + twin["w"].size + sum(
        v.size for block in twin["v"] for v in block if v is not None
    ) + (twin["mixture"].size if model == "mrma" else 0)


@pytest.mark.parametrize(
    ("model", "level"), [("rafm", 0), ("rafm", 4), ("rafm", -1), ("fm", 1), ("difacto", 1), ("lr", 1)]
)
def test_a_level_that_the_model_does_not_have_is_refused(model, level):
    X, y = long_tail()
    fitted = make(model=model).fit(X, y)
    with pytest.raises(ConfigError, match="level") as caught:
        fitted.decision_function(X, level=level)
    assert caught.value.key == "level"


def test_levels_and_counts_are_given_by_column_and_follow_the_rule():
    X, y = long_tail()
    model = make(rank_scale=0.5).fit(X, y)
    counts = (X.toarray() != 0).sum(axis=0)
    np.testing.assert_array_equal(model.feature_counts_, counts)
    nearest = [1 + int(np.argmin(naive.nearest_levels(n, (2, 5, 12), 0.5))) if n else 0 for n in counts]
    np.testing.assert_array_equal(model.levels_, nearest)
    assert set(nearest) == {0, 1, 2, 3}


def test_levels_can_be_given_by_thresholds_or_one_by_one():
    X, y = long_tail()
    counts = (X.toarray() != 0).sum(axis=0)
    by_rule = make(levels=Thresholds((4, 30))).fit(X, y)
    wanted = np.where(counts == 0, 0, 1 + (counts >= 4) + (counts >= 30))
    np.testing.assert_array_equal(by_rule.levels_, wanted)
    one_by_one = make(levels=wanted).fit(X, y)
    np.testing.assert_array_equal(one_by_one.decision_function(X), by_rule.decision_function(X))


@pytest.mark.parametrize(("model", "level"), [("fm", 1), ("lr", 0)])
def test_levels_of_other_families_are_their_number_of_vectors(model, level):
    X, y = long_tail()
    fitted = make(model=model).fit(X, y)
    np.testing.assert_array_equal(fitted.levels_, np.where(fitted.feature_counts_ > 0, level, 0))


def test_a_feature_never_seen_in_training_scores_zero():
    X, y = long_tail()
    model = make().fit(X, y)
    extended = X.toarray()
    extended[:, 59] = 3
    np.testing.assert_array_equal(model.decision_function(extended), model.decision_function(X))


def test_probabilities_are_the_sigmoid_of_the_scores_and_add_up_to_one():
    X, y = long_tail()
    model = make().fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(found[:, 1], naive.sigmoid(model.decision_function(X)), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (found[:, 1] > 0.5).astype(int))


def test_mrma_names_the_row_that_does_not_have_two_features():
    X, y = two_fields()[0]
    X = sparse.csr_matrix(X, copy=True)
    X.data[6] = 0  # row 3
    with pytest.raises(ValueError, match="row 4 has 1"):
        make(model="mrma").fit(X, y)


# Labels

LABELS = {
    "text": ["no", "yes"],
    "text of other lengths": ["a", "a long name"],
    "bool": [False, True],
    "signs": [-1, 1],
    "floats": [0.0, 2.0],
    "unicode": ["nein", "j\u00e4"],
}


@pytest.mark.parametrize("given", [*LABELS, "objects"])
def test_class_labels_survive_save_and_load(given, tmp_path):
    X, y = long_tail()
    classes = np.array(LABELS.get(given, ["no", "yes"]), object if given == "objects" else None)
    model = make().fit(X, classes[y])
    model.save(tmp_path / "m.rafm")
    loaded = rafm.load(tmp_path / "m.rafm")
    assert sorted(classes) == model.classes_.tolist() == loaded.classes_.tolist()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert set(model.predict(X).tolist()) == set(classes.tolist())
    assert loaded.score(X, classes[y]) == model.score(X, classes[y]) > 0.6


def test_one_class_warns_and_gives_a_constant_that_survives_save_and_load(tmp_path):  # case 33
    X, _ = long_tail()
    with pytest.warns(UserWarning, match="all labels are 'yes'"):
        model = make().fit(X, ["yes"] * X.shape[0])
    model.save(tmp_path / "m.rafm")
    for fitted in (model, rafm.load(tmp_path / "m.rafm")):
        assert set(fitted.predict(X)) == {"yes"}
        np.testing.assert_array_equal(fitted.predict_proba(X), np.ones((X.shape[0], 1)))


def test_three_classes_are_refused():  # case 32
    X, y = long_tail()
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        make().fit(X, y + (np.arange(y.size) == 7))


def test_labels_that_are_not_finite_are_refused():  # case 32
    X, y = long_tail("regression")
    y[3] = np.nan
    for rows in (X, pd.DataFrame({"c": ["x"] * y.size})):
        with pytest.raises(ValueError):
            make("regression").fit(rows, y)


# The same bytes


def test_equal_seeds_give_equal_files_and_other_seeds_other_files(tmp_path):
    X, y = long_tail()
    files = [saved_bytes(make(random_state=seed).fit(X, y), tmp_path) for seed in (7, 7, np.int64(7), 8)]
    assert files[0] == files[1] == files[2] != files[3]


def test_jobs_and_verbosity_do_not_change_the_file(tmp_path, capsys):
    X, y = long_tail()
    assert saved_bytes(make().fit(X, y), tmp_path) == saved_bytes(make(n_jobs=4, verbose=True).fit(X, y), tmp_path)


@pytest.mark.parametrize("model", ["rafm", "mrma"])
def test_the_pieces_that_an_epoch_is_trained_in_do_not_change_the_model(model, monkeypatch):
    X, y = two_fields()[0]
    whole = make(model=model).fit(X, y)
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 33)  # no multiple of the mini-batch
    monkeypatch.setattr(mixture_engine, "PIECE_ROWS", 33)
    home, name = (record_engine, "train_rows") if model == "rafm" else (mixture_engine.mixture, "train_factors")
    with mock.patch.object(home, name, wraps=getattr(home, name)) as kernel:
        pieces = make(model=model).fit(X, y)
    assert kernel.call_count >= 3 * X.shape[0] // 48
    np.testing.assert_array_equal(pieces.decision_function(X), whole.decision_function(X))


def test_a_fit_again_forgets_the_one_before(tmp_path):
    X, y = long_tail()
    table = pd.DataFrame({"c": list("xy") * 200})
    expected = saved_bytes(make().fit(X, y), tmp_path)
    assert saved_bytes(make().fit(table, y).fit(X, y), tmp_path) == expected


def test_a_random_state_object_draws_the_seed_and_none_draws_another_each_time(tmp_path):
    X, y = long_tail()
    files = [saved_bytes(make(random_state=np.random.RandomState(3)).fit(X, y), tmp_path) for _ in range(2)]
    assert files[0] == files[1]
    assert saved_bytes(make(random_state=None).fit(X, y), tmp_path) != saved_bytes(
        make(random_state=None).fit(X, y), tmp_path
    )


TRAIN_ELSEWHERE = """
import os, sys
os.chdir(sys.argv[1])
import fitted as t
X, y = t.long_tail()
t.make().fit(X, y).save("matrix.rafm")
t.make().fit(t.mixed_table(), y).save("table.rafm")
"""


def test_a_new_process_with_another_hash_seed_and_folder_writes_the_same_bytes(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    X, y = long_tail()
    make().fit(X, y).save(here / "matrix.rafm")
    make().fit(mixed_table(), y).save(here / "table.rafm")
    worlds.run_python("-c", TRAIN_ELSEWHERE, there, PYTHONHASHSEED="123")
    for name in ("matrix.rafm", "table.rafm"):
        assert (here / name).read_bytes() == (there / name).read_bytes()


# Loading


def test_a_loaded_estimator_has_the_parameters_and_attributes_of_the_one_saved(tmp_path):
    X, y = long_tail()
    chosen = {"optimizer": "sgd", "learning_rate": 0.05, "update": "algorithm1", "l2_weights": 0.01}
    model = make(n_epochs=4, patience=None, random_state=5, **chosen).fit(X, y)
    model.save(tmp_path / "m.rafm")
    loaded = rafm.load(tmp_path / "m.rafm")
    assert type(loaded) is RaFMClassifier
    for name in ("ranks", "model", "l2", "n_epochs", "patience", "random_state", *chosen):
        assert getattr(loaded, name) == getattr(model, name), name
    for name in ("n_parameters_", "history_", "best_epoch_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name), name
    np.testing.assert_array_equal(loaded.levels_, model.levels_)
    np.testing.assert_array_equal(loaded.feature_counts_, model.feature_counts_)


def test_a_loaded_estimator_can_be_fitted_again_to_the_same_bytes(tmp_path):
    X, y = long_tail()
    before = saved_bytes(make(n_epochs=2, random_state=5).fit(X, y), tmp_path)
    again = clone(rafm.load(tmp_path / "m.rafm")).fit(X, y)
    assert saved_bytes(again, tmp_path) == before


def test_columns_count_from_zero_even_if_ids_of_files_counted_from_one(tmp_path):
    X, y = long_tail()
    fitted = make().fit(X, y)
    save(tmp_path / "m.rafm", Saved(fitted.model_, index_base=1))
    np.testing.assert_array_equal(rafm.load(tmp_path / "m.rafm").predict(X), fitted.predict(X))


def test_a_loaded_model_knows_its_rule_of_ranks(tmp_path):
    X, y = long_tail()
    for chosen in ({"rank_scale": 4.0}, {"levels": rafm.Thresholds((70.0,))}):
        make(ranks=(2, 4), **chosen).fit(X, y).save(tmp_path / "m.rafm")
        again = rafm.load(tmp_path / "m.rafm")
        assert {name: getattr(again, name) for name in chosen} == chosen


def test_a_refit_that_fails_leaves_no_mixture_of_two_models():
    X, y = long_tail()
    model = make().fit(X, y)
    with pytest.raises(DivergenceError):
        model.set_params(learning_rate=1e6).fit(X[:, :-1], y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_frames_of_ids_are_encoded_and_frames_of_truth_values_are_matrices():
    draw = np.random.default_rng(0)
    ids = pd.DataFrame({"user_id": draw.integers(0, 9, 400), "item_id": draw.integers(0, 9, 400)})
    y = (ids.user_id * 7 + ids.item_id * 5) % 3 == 0
    assert make(n_epochs=60, l2=0).fit(ids, y).score(ids, y) > 0.95
    dummies = pd.get_dummies(ids.astype(str))
    assert make().fit(dummies, y).n_features_in_ == dummies.shape[1] == make().fit(dummies.to_numpy(), y).levels_.size


def test_small_values_learn_as_well_as_ones():
    X, y = long_tail()
    found = [make(n_epochs=10).fit(X * scale, y).score(X * scale, y) for scale in (1.0, 1 / 128)]
    assert found[1] > found[0] - 0.02


def test_an_estimator_is_saved_to_a_path_and_not_to_an_open_file():
    with pytest.raises(TypeError):
        make().fit(*long_tail()).save(io.BytesIO())
