"""Mistakes with labels, ranks and paths in Python: each is named with the way out."""

import numpy as np
import pandas as pd
import pytest
from fitted import make

from rafm import RaFMClassifier, RaFMRegressor
from rafm.options import resolve

TABLE = pd.DataFrame({"city": ["Rome", "Oslo", "Bonn", "Rome"] * 20, "n": np.arange(80.0)})
MATRIX = np.eye(4, dtype=np.float32)[np.arange(80) % 4]
WORDS = np.array(["no", "yes"] * 40, object)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_label_among_words_is_named_by_row(missing):
    labels = WORDS.copy()
    labels[7] = missing
    with pytest.raises(ValueError, match=r"row 8 .*the label is missing.*drop the rows"):
        RaFMClassifier(model="lr").fit(TABLE, labels)


@pytest.mark.parametrize("estimator", [RaFMClassifier, RaFMRegressor])
def test_a_missing_label_among_numbers_is_named_by_row(estimator):
    labels = np.arange(80) % 2 * 1.0
    labels[7] = np.nan
    with pytest.raises(ValueError, match=r"row 8 .*the label is missing, found nan; drop the rows"):
        estimator(model="lr").fit(TABLE, labels)


@pytest.mark.parametrize("X", [TABLE, MATRIX], ids=["table", "matrix"])
def test_words_to_the_regressor_lead_to_the_classifier(X):
    with pytest.raises(ValueError, match="labels must be numbers, found 'no'; for classes, use RaFMClassifier"):
        RaFMRegressor(model="lr").fit(X, WORDS)


@pytest.mark.parametrize("X", [TABLE, MATRIX], ids=["table", "matrix"])
def test_numbers_to_the_classifier_lead_to_the_regressor(X):
    with pytest.raises(ValueError, match=r"Unknown label type: .*use RaFMRegressor"):
        RaFMClassifier(model="lr").fit(X, np.linspace(0.1, 4.9, 80))


def test_ranks_may_be_written_as_the_flag_is():
    assert resolve(task="binary", ranks="8,32").ranks == (8, 32)
    with pytest.raises(ValueError, match="such as 8,32,128, or auto; found 'many'"):
        resolve(task="binary", ranks="many")


def test_a_folder_that_does_not_exist_is_named_as_the_user_gave_it(tmp_path):
    model = make("binary", "lr").fit(TABLE, WORDS)
    with pytest.raises(FileNotFoundError) as caught:
        model.save(tmp_path / "none" / "m.rafm")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{tmp_path}/none/m.rafm'"


def test_a_column_of_another_type_is_told_what_to_convert_it_to():
    model = make("binary", "lr").fit(TABLE.assign(user=np.arange(80) % 5 + 1000), WORDS)
    with pytest.raises(
        ValueError, match=r"'user' was number in training, now its type is .*; convert its values to numb"
    ):
        model.predict(TABLE.assign(user=[f"u{i % 5}" for i in range(80)]))
