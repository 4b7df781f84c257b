"""Mistakes with labels, ranks and paths in Python: each is named with the way out."""

import numpy as np
import pandas as pd
import pytest
from fitted import make
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from rafm import DataWarning, RaFMClassifier, RaFMRegressor
from rafm.errors import ConfigError, DataValueError
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
@pytest.mark.parametrize("label", [np.inf, -np.inf])
@pytest.mark.parametrize("estimator", [RaFMClassifier, RaFMRegressor])
def test_an_infinite_label_is_named_by_row(estimator, label, X):
    labels = np.arange(80) % 2 + 0.5
    labels[7] = label
    with pytest.raises(ValueError, match=r"row 8 .*the label is infinite; drop the rows"):
        estimator(model="lr").fit(X, labels)


def test_dicts_to_a_model_of_a_table_lead_to_the_scorer():
    fitted = RaFMClassifier(model="lr", n_epochs=1, validation_fraction=0).fit(TABLE, WORDS)
    with pytest.raises(ValueError, match=r"trained on a table; pass a table .* rafm\.Scorer"):
        fitted.predict([{"city": "Rome", "n": 1.0}])


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
        model.predict(TABLE.assign(user=[True, False] * 40))


@pytest.mark.parametrize("estimator", [RaFMClassifier, RaFMRegressor])
def test_a_missing_label_of_a_row_of_a_matrix_is_named_by_row(estimator):
    labels = np.arange(80) % 2 * 1.5
    labels[7] = np.nan
    with pytest.raises(ValueError, match=r"row 8 .*the label is missing, found nan; drop the rows"):
        estimator(model="lr").fit(MATRIX, labels)


@pytest.mark.parametrize("name", ["class_weight", "scale_pos_weight", "is_unbalance"])
def test_parameters_of_others_that_weigh_classes_lead_to_weights_of_rows(name):  # case 136
    with pytest.raises(TypeError, match=rf"no parameter '{name}'; weigh the rows instead: .*compute_sample_weight"):
        RaFMClassifier(**{name: "balanced"})


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("X_valid", [TABLE, TABLE.to_numpy(), MATRIX[:, :2]], ids=["frame", "array", "fewer columns"])
def test_an_eval_set_that_a_pipeline_did_not_transform_is_named(X_valid):  # case 136
    steps = make_pipeline(OneHotEncoder(handle_unknown="ignore"), make("binary", "lr"))
    with pytest.raises(
        ConfigError, match=r"eval_set is not like X: .* Pipeline, eval_set did not: transform it before"
    ):
        steps.fit(TABLE, WORDS, rafmclassifier__eval_set=(X_valid, WORDS))
    transform = OneHotEncoder(handle_unknown="ignore").fit(TABLE[:40]).transform
    steps.fit(TABLE[:40], WORDS[:40], rafmclassifier__eval_set=(transform(TABLE[40:]), WORDS[40:]))


def test_two_columns_of_one_name_are_named():  # case 136
    twice = pd.DataFrame(np.ones((80, 2)), columns=["a", "a"])
    for table in (twice, twice.astype(str)):
        with pytest.raises(DataValueError, match="two columns are named 'a'; rename or drop one"):
            make("binary", "lr").fit(table, WORDS)


@pytest.mark.parametrize("X", [TABLE.to_numpy(), TABLE.to_numpy().astype(str), TABLE.to_numpy().tolist()])
def test_an_array_of_text_leads_to_a_table(X):
    with pytest.raises(DataValueError, match=r"X is an array with text, 'Rome', .*pd\.DataFrame\(X, columns="):
        make("binary", "lr").fit(X, WORDS)
    fitted = make("binary", "lr").fit(MATRIX, WORDS)
    with pytest.raises(DataValueError, match="X is an array with text"):
        fitted.predict(X)


def test_classes_for_the_regressor_lead_to_the_classifier():
    with pytest.warns(DataWarning, match="all labels are 0 or 1, like those of classes; if they are, RaFMClassifier"):
        make("regression", "lr").fit(MATRIX, np.arange(80) % 2)
    for labels in (np.arange(80) % 3, np.ones(80)):
        make("regression", "lr").fit(MATRIX, labels)
