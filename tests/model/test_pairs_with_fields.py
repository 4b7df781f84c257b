"""Field weights reach all that takes a model apart: pairs, sides of a score, and cuts."""

import numpy as np
import pytest
from fitted import long_tail, make
from scipy import sparse

from rafm.compress.cut import Cutter
from rafm.recommend.sides import own_scores, side_vectors
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import number_rows

FIELDS = ["a", "b", "c"] * 20


def fitted(model):
    X, y = long_tail()
    found = make(model=model, fields=FIELDS, n_epochs=10).fit(X, y)
    assert np.ptp(found.model_.parameters.fields) > 0.1
    return found, X


def rows_of(X):
    return check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1]))


@pytest.mark.parametrize("model", ["rafm", "fm", "difacto"])
def test_pairs_add_up_to_the_score(model):
    found, X = fitted(model)
    parameters, rows = found.model_.parameters, number_rows(rows_of(X[:40]), found.model_.numbering)
    for r, score in enumerate(found.decision_function(X[:40])):
        ids, x = (part[rows.indptr[r] : rows.indptr[r + 1]] for part in (rows.indices, rows.values))
        products = found.model_.pair_products(ids, ids) * np.outer(x, x)
        linear = parameters.bias[0] + parameters.weights[ids] @ x
        assert score == pytest.approx(linear + np.triu(products, 1).sum(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("model", ["rafm", "fm", "difacto"])
def test_vectors_of_both_sides_give_the_score(model):
    found, X = fitted(model)
    left, right = X[:20].toarray(), X[20:40].toarray()
    left[:, 30:], right[:, :30] = 0, 0  # no feature in common
    left, right = sparse.csr_matrix(left), sparse.csr_matrix(right)
    both, model = found.decision_function(left + right), found.model_
    context, item = side_vectors(model, rows_of(left), "context"), side_vectors(model, rows_of(right), "item")
    expected = (context * item).sum(axis=1) + own_scores(model, rows_of(left)) + model.parameters.bias[0]
    np.testing.assert_allclose(both, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["fm", "difacto"])
def test_a_cut_that_leaves_all_scores_the_same_and_a_smaller_one_keeps_the_weights(model):
    found, X = fitted(model)
    cutter, rows = Cutter(found.model_), rows_of(X[:60])
    whole = cutter.cut(cutter.choose(cutter.n_factors))
    np.testing.assert_allclose(whole.scores(rows), found.model_.scores(rows), rtol=1e-3, atol=1e-3)
    small = cutter.cut(cutter.choose(cutter.n_factors // 2))
    np.testing.assert_array_equal(small.parameters.fields, found.model_.parameters.fields)
    assert small.plan.n_field_weights == 3
    assert np.isfinite(small.scores(rows)).all()
