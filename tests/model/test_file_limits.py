"""What is saved loads again, whatever its size; what a file only claims is refused before it costs anything."""

import resource

import numpy as np
import pandas as pd
import pytest
from commands import run
from fitted import long_tail, make, scores_of
from scipy import sparse

import rafm
from rafm.errors import ModelFormatError
from rafm.files.container import MAX_HEADER_BYTES, read_container, write_container
from rafm.model.file import FREE_BYTES, load


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.rafm"


# Case 99: large labels and losses


@pytest.mark.parametrize("size", [1e18, 1e20, 1e30])
def test_a_model_of_huge_labels_loads_again(size, path):
    X, y = long_tail("regression")
    valid = (X[:100], y[:100] * size)
    fitted = make("regression", l2=0).fit(X[100:], y[100:] * size, eval_set=valid)
    assert fitted.history_[0]["valid_rmse"] > size / 1000
    fitted.save(path)
    loaded = rafm.load(path)
    assert loaded.history_ == fitted.history_
    np.testing.assert_array_equal(scores_of(loaded, X), scores_of(fitted, X))


# Case 100: many named columns


def test_more_names_than_a_header_holds_are_saved_and_come_back(path):
    names = [f"a column with quite a long name, \u00e9\u00e8 {'x' * 60} number {k}" for k in range(150_000)]
    assert sum(len(name) for name in names) > MAX_HEADER_BYTES * 0.9
    X = sparse.csr_matrix((np.ones(8), (range(8), range(0, 80, 10))), shape=(8, len(names)))
    fitted = make("binary", "lr").fit(X, [0, 1] * 4)
    fitted.feature_names_in_ = np.array(names, object)
    fitted.n_features_in_ = len(names)
    fitted.save(path)
    assert {"columns.text", "columns.ends"} <= set(read_container(path)[1])
    loaded = rafm.load(path)
    assert loaded.feature_names_in_.tolist() == names
    before = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == before


def test_few_names_stay_in_the_header_where_they_always_were(path):
    X, y = long_tail()
    make("binary", "lr").fit(pd.DataFrame(X.toarray()).add_prefix("c"), y).save(path)
    header, tensors = read_container(path)
    assert header["columns"] == [f"c{k}" for k in range(60)]
    assert "columns.text" not in tensors


BAD_NAMES = {
    "one tensor alone": {"columns.ends": np.array([1, 2])},
    "ends beyond the text": {"columns.text": np.zeros(2, np.uint8), "columns.ends": np.array([1, 3])},
    "falling ends": {"columns.text": np.zeros(2, np.uint8), "columns.ends": np.array([2, 1, 2])},
    "not UTF-8": {"columns.text": np.full(2, 255, np.uint8), "columns.ends": np.array([1, 2])},
    "too few": {"columns.text": np.arange(65, 67, dtype=np.uint8), "columns.ends": np.array([1, 2])},
    "twice": {"columns.text": np.full(60, 65, np.uint8), "columns.ends": np.arange(1, 61)},
    "another type": {"columns.text": np.zeros(2), "columns.ends": np.array([1, 2])},
    "another shape": {"columns.text": np.zeros((1, 2), np.uint8), "columns.ends": np.array([1, 2])},
}


@pytest.mark.parametrize("bad", BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_in_tensors_that_cannot_be_are_refused(bad, path):
    X, y = long_tail()
    make("binary", "lr").fit(X, y).save(path)
    header, tensors = read_container(path)
    write_container(path, tensors | bad, header)
    with pytest.raises(ModelFormatError, match="column"):
        load(path)


def test_columns_that_no_file_could_describe_are_refused_before_training(path, tmp_path):
    rng = np.random.default_rng(0)
    n_columns = 100
    frame = pd.DataFrame(rng.normal(size=(12_000, n_columns))).add_prefix("c")
    frame.insert(0, "y", rng.integers(0, 2, len(frame)))
    frame.to_parquet(tmp_path / "wide.parquet")
    columns = [part for k in range(n_columns) for part in ("--column", f"c{k}=bins:9999")]
    found = run("train", tmp_path / "wide.parquet", "--label", "y", "--out", path, "--model", "lr", *columns)
    assert found.code == 3
    assert "columns take" in found.err
    assert "Ignore some" in found.err
    assert "epoch" not in found.out
    assert not path.exists()


# Case 102: more memory than the file holds


def declared(path, n_features, rank):
    """Write a model of n features, whose vectors of this rank are all zero and take no space."""
    X, y = long_tail()
    make("binary", "fm", ranks=2).fit(X, y).save(path)
    header, _ = read_container(path)
    header |= {"ranks": [rank], "sizes": [n_features, n_features], "n_inputs": n_features}
    numbers = np.arange(n_features, dtype=np.int32)
    tensors = {
        "bias": np.zeros(1, np.float32),
        "weights": np.zeros(n_features, np.float32),
        "ids": numbers,
        "counts": numbers,
        "factors.1": np.zeros((0, rank), np.float32),
        "rows.1": np.zeros(0, np.int32),
    }
    write_container(path, tensors, header)


def test_a_small_file_that_declares_gigabytes_is_refused_before_they_are_allocated(path, tmp_path):
    declared(path, 5000, 65_536)
    assert path.stat().st_size < 70_000
    (tmp_path / "rows.libsvm").write_text("1 3:1\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFormatError, match=r"declares vectors of 1310720000 bytes, but holds 60004"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    for command in (["evaluate", path, tmp_path / "rows.libsvm"], ["inspect", path]):
        assert "declares vectors" in run(*command).error()


def test_sparse_models_of_real_sizes_still_load(path):
    declared(path, 20_000, 1024)
    assert load(path).model.parameters.factors[0].shape == (20_000, 1024)
    declared(path, 1000, 65_536)  # large for its file, but harmless
    assert FREE_BYTES >= 4 * 1000 * 65_536
    load(path)


# Case 111: nonsense among the options

OPTIONS = {
    "negative l2": {"l2": -1},
    "l2 for other ranks": {"l2": [0.1, 0.2]},
    "l2 as text": {"l2": "much"},
    "unknown optimizer": {"optimizer": "magic"},
    "optimizer as list": {"optimizer": [1]},
    "optimizer as number": {"optimizer": 3},
    "batch size 0": {"batch_size": 0},
    "batch size as text": {"batch_size": "16"},
    "thresholds as text": {"thresholds": "ten,hundred"},
    "thresholds as number": {"thresholds": 10},
    "thresholds that fall": {"thresholds": "100,10"},
    "too few thresholds": {"thresholds": "10"},
    "unknown update": {"update": "never"},
    "unknown metric": {"metric": "beauty"},
    "metric as list": {"metric": [1]},
    "learning rate 0": {"learning_rate": 0},
    "learning rate as text": {"learning_rate": "fast"},
    "no epochs": {"n_epochs": 0},
    "part of an epoch": {"n_epochs": 1.5},
    "patience as text": {"patience": "long"},
    "negative seed": {"seed": -1},
    "rate of negatives above 1": {"negative_rate": 2},
    "rank scale as text": {"rank_scale": "wide"},
    "l1 without ftrl": {"l1": 1.0},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_model_with_options_that_training_refuses_is_no_model(case, path, tmp_path):
    make().fit(*long_tail()).save(path, keep_state=case == "optimizer as list")
    header, tensors = read_container(path)
    header["options"] |= OPTIONS[case]
    write_container(path, tensors, header)
    for read in (load, rafm.load):
        with pytest.raises(ModelFormatError, match=r"m\.rafm: invalid header field '(options|states_version|loss)'"):
            read(path)
    (tmp_path / "rows.libsvm").write_text("1 3:1\n0 4:1\n")
    again = ["train", tmp_path / "rows.libsvm", "--resume-from", path, "--out", tmp_path / "more.rafm"]
    for command in (["evaluate", path, tmp_path / "rows.libsvm"], again):
        ran = run(*command)
        assert ran.code == 4
        assert "m.rafm: invalid header field " in ran.error()


@pytest.mark.parametrize("options", [{}, {"levels": rafm.Thresholds((5, 50))}, {"optimizer": "ftrl", "l1": 0.1}])
def test_options_that_training_takes_are_taken_again(options, path):
    fitted = make(**options).fit(*long_tail())
    fitted.save(path)
    assert load(path).model.options == fitted.model_.options
