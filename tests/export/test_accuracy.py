"""The accuracy that docs/file-format.md promises, for every way to a score: the definition in float64 is the oracle.

Rows are odd: one value of each is up to 1e8 times as large as the others, which are ordinary.
"""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from models import model_of
from worlds import make_world

from rafm import Scorer
from rafm.compress.quantise import quantise
from rafm.explain.names import FeatureNames
from rafm.explain.terms import explain_rows
from rafm.export.export import export
from rafm.model.file import Saved, load, save
from rafm.recommend.top import Catalogue
from rafm.rows.checked import Batch, check_batch

DOCS = Path(__file__).parents[2] / "docs" / "file-format.md"
PROMISED = 1e-5  # in units of the sum of the absolute values of all terms
N_ROWS, LARGEST = 2000, 8  # powers of ten
LEVELS = [3] * 10 + [2] * 12 + [1] * 12 + [0] * 4
KINDS = {  # name: family, ranks, levels, fields, bits
    "lr": ("lr", (), [0] * 9, 0, None),
    "fm": ("fm", (24,), [1] * 38, 0, None),
    "fm with field weights": ("fm", (8,), [1] * 38, 5, None),
    "rafm": ("rafm", (4, 16, 70), LEVELS, 0, None),
    "rafm with field weights": ("rafm", (4, 16, 70), LEVELS, 5, None),
    "difacto": ("difacto", (4, 16, 70), LEVELS, 0, None),
    "difacto with field weights": ("difacto", (4, 16, 70), LEVELS, 5, None),
    "ffm": ("ffm", (4,), [1] * 20, 3, None),
    "mrma": ("mrma", (4, 16), [2] * 12, 0, None),
    "16 bits": ("rafm", (4, 16, 70), LEVELS, 0, 16),
    "8 bits with field weights": ("rafm", (4, 16, 70), LEVELS, 5, 8),
    "6 bits": ("difacto", (4, 16, 70), LEVELS, 0, 6),
    "4 bits": ("rafm", (4, 16, 70), LEVELS, 0, 4),
    "4 bits with field weights": ("fm", (24,), [1] * 38, 5, 4),
}


def saved_model(name):
    """Return a model with numbers of the size that training gives, and loss squared: predictions are scores."""
    family, ranks, levels, n_fields, bits = KINDS[name]
    model = model_of(make_world(family, ranks, levels, seed=5, n_fields=n_fields))
    factors = [block * np.float32(0.4) for block in model.parameters.factors]
    model = replace(model, parameters=replace(model.parameters, factors=factors))
    return Saved(model if bits is None else quantise(model, bits))


@pytest.fixture(scope="module", params=KINDS)
def model(request, tmp_path_factory):
    """Return the path of a saved model, rows as {id: value}, their scores by the definition, and the size of those."""
    saved, path = saved_model(request.param), tmp_path_factory.mktemp("model") / "m.rafm"
    save(path, saved)
    rng, ids = np.random.default_rng(11), saved.model.numbering.ids
    longest = 2 if saved.model.plan.traits.features_per_row else ids.size
    X = np.zeros((N_ROWS, ids.size), np.float32)
    for row in X:
        chosen = rng.choice(ids.size, rng.integers(2, longest + 1), replace=False)
        row[chosen] = rng.choice([np.ones(chosen.size), rng.normal(size=chosen.size)])
        row[rng.choice(chosen)] *= 10 ** rng.uniform(0, LARGEST)
    rows = [{int(ids[n]): float(row[n]) for n in np.flatnonzero(row)} for row in X]
    return path, rows, *oracle(path, X.astype(float))


def oracle(path, X):
    """Return the scores of rows of numbered features and the sums of |terms|, by the program in the document."""
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)[1], names)
    header, tensors = names["read"](path)
    weights, bias, n = tensors["weights"].astype(float), float(tensors["bias"][0]), X.shape[1]
    scores, sizes = bias + X @ weights, abs(bias) + abs(X) @ abs(weights)
    for j in range(n):
        for i in range(j):
            pairs = names["pair_weight"](tensors, i, j) * names["pair"](header, tensors, i, j) * X[:, i] * X[:, j]
            scores, sizes = scores + pairs, sizes + abs(pairs)
    return scores, sizes


def check(found, scores, sizes):
    worst = np.max(abs(np.asarray(found, float) - scores) / sizes)
    print(f"largest error: {worst:.1e} of the sum of |terms|")
    assert worst <= PROMISED


def batch_of(rows):
    indptr = np.cumsum([0, *map(len, rows)])
    ids, values = ([entry for row in rows for entry in part(row)] for part in (dict.keys, dict.values))
    return check_batch(Batch(indptr, np.array(ids, int), np.array(values, float), 40))


def test_predict_keeps_its_promise_for_rows_with_one_large_value(model):  # case 118
    path, rows, scores, sizes = model
    check(load(path).model.predict(batch_of(rows)), scores, sizes)


def test_a_scorer_keeps_it_for_one_row_and_for_many(model):  # case 118
    path, rows, scores, sizes = model
    scorer = Scorer(path)
    check(scorer.predict(rows), scores, sizes)
    check([scorer.predict(row) for row in rows[:300]], scores[:300], sizes[:300])


def test_an_explanation_adds_up_to_the_score(model):  # case 118
    path, rows, scores, sizes = model
    found = load(path)
    explained = explain_rows(found.model, batch_of(rows[:100]), FeatureNames.of(found))
    sums = [(one.score, one.bias + sum(term.value for term in one.terms)) for one in explained]
    for found_scores in zip(*sums):
        check(found_scores, scores[:100], sizes[:100])


def test_recommendations_have_scores_that_keep_it(model):  # case 118
    path, rows, *_ = model
    found = load(path).model
    if found.plan.n_field_vectors:
        pytest.skip("field-aware models recommend nothing")
    ids = found.numbering.ids.tolist()
    items, contexts = ids[::3], [{id: x for id, x in row.items() if id not in ids[::3]} for row in rows[:100]]
    if found.plan.traits.features_per_row:  # scores rows of two features
        contexts = [row for row in contexts if len(row) == 1]
    best = Catalogue(found, batch_of([{id: 1.0} for id in items])).recommend(batch_of(contexts), top=3)
    joined = [context | {items[place]: 1.0} for context, row in zip(contexts, best.items) for place in row]
    X = np.array([[row.get(id, 0.0) for id in ids] for row in joined])
    check(best.scores.ravel(), *oracle(path, X))


def test_the_python_program_keeps_it(model, tmp_path):  # case 118
    path, rows, scores, sizes = model
    if load(path).model.plan.n_field_vectors:
        pytest.skip("field-aware models are not exported")
    export(load(path), "python", tmp_path / "program.py")
    names = {"__name__": "program"}
    exec((tmp_path / "program.py").read_text(), names)
    check([names["predict"](row) for row in rows[:300]], scores[:300], sizes[:300])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_c_program_keeps_it(model, tmp_path):  # case 118
    path, rows, scores, sizes = model
    if load(path).model.plan.n_field_vectors:
        pytest.skip("field-aware models are not exported")
    export(load(path), "c", tmp_path / "model.c")
    subprocess.run(["gcc", "-O1", tmp_path / "model.c", "-o", tmp_path / "model", "-lm"], check=True)
    text = "".join(" ".join(f"{id}:{value!r}" for id, value in row.items()) + "\n" for row in rows)
    done = subprocess.run([tmp_path / "model"], input=text, capture_output=True, text=True, check=True)
    check(done.stdout.split(), scores, sizes)


def test_the_onnx_graph_keeps_it(model, tmp_path):  # case 118
    runtime = pytest.importorskip("onnxruntime")
    path, rows, scores, sizes = model
    if load(path).model.plan.n_field_vectors:
        pytest.skip("field-aware models are not exported")
    export(load(path), "onnx", tmp_path / "model.onnx")
    longest = max(map(len, rows))
    ids = np.array([[*row, *[-1] * (longest - len(row))] for row in rows], np.int64)
    values = np.array([[*row.values(), *[0.0] * (longest - len(row))] for row in rows], np.float32)
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    check(session.run(["score"], {"ids": ids, "values": values})[0], scores, sizes)
