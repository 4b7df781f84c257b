"""Files in, predictions out: in input order, whatever the size of the pieces they are read in."""

import numpy as np
import pytest
from commands import read_in_pieces, rows_of_pairs
from fitted import make
from scipy import sparse
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score

from rafm.errors import ConfigError, DataFormatError, DataValueError
from rafm.model.file import Saved, save
from rafm.predictor import Predictor
from rafm.read.open import read_rows

PAIRS = rows_of_pairs(300)


def matrix_of(text):
    """Return the rows of libsvm text as a matrix and labels, read by hand."""
    lines = [line.split() for line in text.splitlines()]
    X = np.zeros((len(lines), 22), np.float32)
    for row, (_, *entries) in zip(X, lines):
        for entry in entries:
            i, x = entry.split(":")
            row[int(i)] = float(x)
    return sparse.csr_matrix(X), np.array([float(line[0]) for line in lines])


pytestmark = pytest.mark.filterwarnings("ignore:all labels are 0 or 1")  # both tasks have the same rows


@pytest.fixture(params=["binary", "regression"])
def task(request):
    return request.param


@pytest.fixture
def fitted(task):
    X, y = matrix_of(PAIRS)
    return make(task, n_epochs=5).fit(X, y if task == "regression" else y.astype(int))


@pytest.fixture
def predictor(fitted, tmp_path):
    fitted.save(tmp_path / "m.rafm")
    return Predictor.load(tmp_path / "m.rafm")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(PAIRS)
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    """Let files be read in pieces of about a line."""
    read_in_pieces(monkeypatch, 16)


def expected_of(fitted, text):
    X, _ = matrix_of(text)
    return fitted.predict_proba(X)[:, 1] if hasattr(fitted, "predict_proba") else fitted.predict(X)


def test_predictions_are_those_of_the_estimator_in_input_order(fitted, predictor, rows):
    found = np.concatenate(list(predictor.predict(rows)))
    np.testing.assert_array_equal(found, expected_of(fitted, PAIRS))


def test_the_size_of_the_pieces_does_not_matter(fitted, predictor, rows, small_pieces):
    parts = list(predictor.predict(rows))
    assert len(parts) > 100
    np.testing.assert_array_equal(np.concatenate(parts), expected_of(fitted, PAIRS))


def test_evaluation_agrees_with_scikit_learn(task, fitted, predictor, rows, small_pieces):
    found = predictor.evaluate(rows)
    _, y = matrix_of(PAIRS)
    predicted = expected_of(fitted, PAIRS)
    assert found.pop("rows") == 300
    means = {"mean_label": np.mean(y), "mean_prediction": np.mean(predicted)}
    if task == "binary":
        assert sum(line["weight"] for line in found.pop("reliability")) == 300
        assert 0 <= found.pop("calibration_error") < 1
        loss = log_loss(y, predicted)
        entropy = loss / log_loss(y, np.full(300, np.mean(y)))
        metrics = {"log_loss": loss, "auc": roc_auc_score(y, predicted), "normalized_entropy": entropy}
        assert found == pytest.approx({**metrics, **means}, rel=1e-6)
    else:
        rmse = mean_squared_error(y, predicted) ** 0.5
        assert found == pytest.approx({"rmse": rmse, "mae": mean_absolute_error(y, predicted), **means}, rel=1e-6)


def test_a_file_without_rows_gives_no_predictions(predictor, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert list(predictor.predict(tmp_path / "empty")) == []
    assert predictor.evaluate(tmp_path / "empty") == {"rows": 0}


def test_a_row_of_a_label_alone_scores_the_bias_and_ids_never_seen_score_zero(predictor, tmp_path):
    (tmp_path / "rows").write_text("1\n0 3:1 4000000000:5\n0 3:1\n0 21:0\n")
    (found,) = predictor.predict(tmp_path / "rows")
    model = predictor.saved.model
    bias = model.loss.predict(model.parameters.bias.astype(float))[0]
    assert found[0] == found[3] == bias
    assert found[1] == found[2] != bias


def test_ids_count_from_where_they_did_in_training(fitted, rows, tmp_path):
    save(tmp_path / "m.rafm", Saved(fitted.model_, index_base=1))
    predictor = Predictor.load(tmp_path / "m.rafm")
    (tmp_path / "from one.svm").write_text(rows_of_pairs(300, base=1))
    expected = expected_of(fitted, PAIRS)
    np.testing.assert_array_equal(np.concatenate(list(predictor.predict(tmp_path / "from one.svm"))), expected)
    with pytest.raises(DataValueError, match="id 0 in a file with ids from 1"):
        list(predictor.predict(rows))
    with pytest.raises(ConfigError, match="trained with index_base=1, not 0") as caught:
        list(predictor.predict(rows, index_base=0))
    assert caught.value.key == "index_base"
    assert list(predictor.predict(tmp_path / "from one.svm", index_base=1))


def test_predictions_before_a_bad_line_are_given_and_then_it_is_named(fitted, predictor, tmp_path, small_pieces):
    (tmp_path / "rows").write_text("".join(PAIRS.splitlines(keepends=True)[:5]) + "1 3;1\n")
    found = []
    with pytest.raises(DataFormatError) as caught:
        found.extend(predictor.predict(tmp_path / "rows"))
    assert (caught.value.line, caught.value.column) == (6, 3)
    np.testing.assert_array_equal(np.concatenate(found), expected_of(fitted, PAIRS)[:5])


def test_files_read_whole_and_in_pieces_are_the_same_rows(rows, monkeypatch):
    whole = read_rows(rows, task="binary")
    read_in_pieces(monkeypatch, 16)
    pieces = read_rows(rows, task="binary")
    for name in ("indptr", "indices", "values", "labels"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))
    assert pieces.n_features == whole.n_features == 22


@pytest.mark.parametrize("size", [1 << 20, 16], ids=["one piece", "pieces"])
@pytest.mark.parametrize(("first", "second"), [("0", "-1"), ("-1", "0")])
def test_labels_of_both_conventions_in_one_file_are_refused_at_the_second_one(
    tmp_path, monkeypatch, size, first, second
):
    read_in_pieces(monkeypatch, size)
    lines = ["1 1:1"] * 3 + [f"{first} 1:1"] + ["1 1:1"] * 20 + [f"{second} 1:1"] + ["1 1:1"] * 3
    (tmp_path / "rows").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataValueError, match=f"mixed.*found {second}") as caught:
        read_rows(tmp_path / "rows", task="binary")
    assert (caught.value.line, caught.value.column) == (25, 1)


@pytest.mark.parametrize("negative", ["0", "-1"])
def test_both_conventions_of_labels_mean_the_same(tmp_path, negative, small_pieces):
    (tmp_path / "rows").write_text(rows_of_pairs(50, labels=(negative, "1")))
    labels = read_rows(tmp_path / "rows", task="binary").labels
    np.testing.assert_array_equal(labels, matrix_of(rows_of_pairs(50))[1])


def test_an_unknown_format_is_refused_with_those_there_are(rows):
    with pytest.raises(ConfigError, match="format must be one of auto") as caught:
        read_rows(rows, task="binary", format="svmlight")
    assert caught.value.key == "format"
