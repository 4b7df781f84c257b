"""The program in docs/file-format.md, which knows nothing of rafm, scores model files as rafm does."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import worlds
from fitted import KINDS, RANKS, long_tail, make, mixed_table, two_fields

from rafm.model.file import load
from rafm.read.frames import as_table
from rafm.rows.checked import Batch, check_batch

DOCS = Path(__file__).parents[2] / "docs" / "file-format.md"
GOLDEN = Path(__file__).parents[1] / "golden"


def program():
    """Return the text of the first Python block of the document."""
    return re.search(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)[1]


@pytest.fixture(scope="module")
def rescore():
    names = {}
    exec(compile(program(), str(DOCS), "exec"), names)
    return names["score"]


def as_dicts(batch):
    """Return the rows as {id: value}."""
    bounds = zip(batch.indptr, batch.indptr[1:])
    return [dict(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist())) for a, b in bounds]


def assert_same_scores(rescore, path, batch):
    """Compare in float32: the program adds up pairs one by one, in another order."""
    expected = load(path).model.scores(batch)
    found = rescore(path, as_dicts(batch))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("model", RANKS)
@pytest.mark.parametrize("task", KINDS)
def test_the_program_scores_a_trained_model_of_every_family(rescore, task, model, tmp_path):
    X, y = two_fields(task)[0] if model == "mrma" else long_tail(task)
    fitted = make(task, model, n_epochs=10).fit(X, y)
    fitted.save(tmp_path / "m.rafm")
    X = X[:80]
    assert_same_scores(rescore, tmp_path / "m.rafm", check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1])))


@pytest.mark.parametrize("model", ["rafm", "fm", "difacto"])
def test_the_program_scores_a_model_with_field_weights(rescore, model, tmp_path):
    X, y = long_tail()
    fitted = make(model=model, n_epochs=10, fields=["a", "b", "c"] * 20).fit(X, y)
    assert np.ptp(fitted.model_.parameters.fields) > 0.1
    fitted.save(tmp_path / "m.rafm")
    X = X[:80]
    assert_same_scores(rescore, tmp_path / "m.rafm", check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1])))


@pytest.mark.parametrize("bits", [16, 8, 6, 4])
@pytest.mark.parametrize("model", ["rafm", "lr", "difacto"])
def test_the_program_scores_a_model_of_few_bits(rescore, model, bits, tmp_path):
    X, y = long_tail()
    make(model=model, n_epochs=10).fit(X, y).compress(bits=bits).save(tmp_path / "m.rafm")
    X = X[:80]
    assert_same_scores(rescore, tmp_path / "m.rafm", check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1])))


@pytest.mark.parametrize("model", ["rafm", "fm", "lr", "difacto"])
def test_the_program_scores_a_sparse_model(rescore, model, tmp_path):
    X, y = long_tail()
    fitted = make(model=model, n_epochs=10, optimizer="ftrl", learning_rate=1.0, l1=1.0, l1_weights=2.0).fit(X, y)
    fitted.save(tmp_path / "m.rafm")
    found = load(tmp_path / "m.rafm").model
    assert found.n_dropped or any((~block.any(axis=1)).any() for block in found.parameters.factors)
    X = X[:80]
    assert_same_scores(rescore, tmp_path / "m.rafm", check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1])))


def test_the_program_scores_the_encoded_rows_of_a_table(rescore, tmp_path):
    table, (_, y) = mixed_table(), long_tail()
    make(n_epochs=10).fit(table, y).save(tmp_path / "m.rafm")
    encoder = load(tmp_path / "m.rafm").encoder
    assert_same_scores(rescore, tmp_path / "m.rafm", check_batch(encoder.encode(as_table(table))))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.rafm")), ids=lambda path: path.stem)
def test_the_program_scores_golden_files_and_leaves_out_what_they_do_not_know(rescore, path):
    rng = np.random.default_rng(0)
    ids = load(path).model.numbering.ids
    known = [rng.choice(ids, 2, replace=False) for _ in range(20)]
    batch = worlds.one_hot(np.column_stack([known, np.full(20, 2**33)]), np.zeros(20))
    assert_same_scores(rescore, path, batch)


def test_the_program_needs_numpy_and_nothing_of_rafm(tmp_path):
    (tmp_path / "program.py").write_text(program())
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import program;"
        "print(program.score(sys.argv[2], [{}])); print([m for m in ('rafm', 'numba', 'scipy') if m in sys.modules])"
    )
    printed = worlds.run_python("-c", script, tmp_path, GOLDEN / "v1-fm.rafm")
    bias = float(load(GOLDEN / "v1-fm.rafm").model.parameters.bias[0])
    assert printed.split("\n")[:2] == [str([bias]), "[]"]
    assert "rafm" in sys.modules
