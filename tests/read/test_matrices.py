"""Sparse matrices of any format are the same rows, and malformed ones never get to SciPy's own code."""

import numpy as np
import pytest
from scipy import sparse

from rafm import RaFMClassifier
from rafm.errors import DataValueError
from rafm.read.matrices import check_matrix, rows_of_matrix

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
TABLE = np.array([[1, 0, 0, 2], [0, 0, 3, 0], [0, 4, 0, 0], [5, 0, 6, 0]], np.float64)
FAR = 10**8


@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("format", FORMATS)
def test_any_format_gives_the_same_rows(format, kind):
    X = getattr(sparse, f"{format}_{kind}")(TABLE)
    rows = rows_of_matrix(X)
    assert rows.n_features == 4
    assert rows.indptr.tolist() == [0, 2, 3, 4, 6]
    assert rows.indices.tolist() == [0, 3, 2, 1, 0, 2]
    assert rows.values.tolist() == [1, 2, 3, 4, 5, 6]


def test_entries_of_the_same_place_are_added_up():
    X = sparse.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert rows_of_matrix(X).values.tolist() == [2, 1]
    assert X.data.tolist() == [1, 1, 1]  # what was given stays as it was


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3)])
def test_empty_matrices_pass(format, shape):
    check_matrix(sparse.csr_array(shape).asformat(format))


def changed(format, **parts):
    X = getattr(sparse, f"{format}_array")(TABLE)
    for name, change in parts.items():
        setattr(X, name, change(getattr(X, name)))
    return X


def at(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


def dok_with(place):
    X = sparse.dok_array(TABLE)
    X._dict[place] = 1.0
    return X


MALFORMED = {
    f"{format}: {name}": changed(format, **parts)
    for format in ("csr", "csc", "bsr")
    for name, parts in {
        "an index far out": {"indices": at(0, FAR)},
        "a negative index": {"indices": at(1, -FAR)},
        "indptr far out": {"indptr": at(1, FAR)},
        "indptr that falls": {"indptr": at(1, -3)},
        "indptr that starts late": {"indptr": at(0, 1)},
        "indptr that ends late": {"indptr": at(-1, FAR)},
        "indptr that ends early": {"indptr": at(-1, 3)},
        "too short an indptr": {"indptr": lambda array: array[:2]},
        "too few indices": {"indices": lambda array: array[:1]},
        "too few data": {"data": lambda array: array[:1]},
        "indices of fractions": {"indices": lambda array: array.astype(float)},
        "indptr of fractions": {"indptr": lambda array: array.astype(float)},
        "indptr of one number more": {"indptr": lambda array: np.append(array, array[-1])},
        "objects as data": {"data": lambda array: array.astype(object)},
    }.items()
} | {
    "coo: a column far out": changed("coo", coords=lambda found: (found[0], at(0, FAR)(found[1]))),
    "coo: a row far out": changed("coo", coords=lambda found: (at(0, FAR)(found[0]), found[1])),
    "coo: a negative row": changed("coo", coords=lambda found: (at(0, -1)(found[0]), found[1])),
    "coo: too few rows": changed("coo", coords=lambda found: (found[0][:2], found[1])),
    "coo: rows of fractions": changed("coo", coords=lambda found: (found[0] + 0.5, found[1])),
    "bsr: blocks that do not fit": changed("bsr", data=lambda array: np.ones((array.shape[0], 3, 1))),
    "dia: too few offsets": changed("dia", offsets=lambda array: array[:1]),
    "dia: an offset far out": changed("dia", offsets=at(0, FAR)),
    "dia: an offset twice": changed("dia", offsets=lambda array: np.zeros_like(array)),
    "dia: offsets of fractions": changed("dia", offsets=lambda array: array.astype(float)),
    "dia: flat data": changed("dia", data=np.ravel),
    "lil: a place far out": changed("lil", rows=at(0, [0, FAR])),
    "lil: a negative place": changed("lil", rows=at(0, [-FAR, 0])),
    "lil: more places than values": changed("lil", rows=at(0, [0, 1, 2, 3])),
    "lil: a fraction as a place": changed("lil", rows=at(0, [0, 1.5])),
    "lil: too few rows": changed("lil", rows=lambda array: array[:2]),
    "dok: a place far out": dok_with((0, FAR)),
    "dok: a negative place": dok_with((-1, 0)),
    "dok: a fraction as a place": dok_with((0.5, 0)),
}


@pytest.fixture(scope="module")
def fitted():
    X = sparse.csr_array(np.tile(TABLE, (5, 1)))
    return RaFMClassifier(ranks=2, model="fm", n_epochs=1).fit(X, [0, 1] * 10)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_matrices_are_refused_before_scipy_converts_them(case, fitted):  # case 103
    X = MALFORMED[case]
    for use in (rows_of_matrix, fitted.predict, lambda X: RaFMClassifier(n_epochs=1).fit(X, [0, 1, 0, 1])):
        with pytest.raises(DataValueError, match=f"malformed {case[:3]} matrix: "):
            use(X)


def test_matrices_need_two_dimensions():
    with pytest.raises(DataValueError, match="two dimensions"):
        check_matrix(sparse.coo_array(np.array([1.0, 0, 2])))
