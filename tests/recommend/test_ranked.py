"""Metrics of rankings are those of a brute-force twin that scores every pair and sorts."""

import math

import numpy as np
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st

from rafm.metrics.top_items import values_at
from rafm.predictor import Predictor
from rafm.recommend.ranked import evaluate_ranking
from rafm.rows.checked import Batch, check_batch

USERS, ITEMS = 15, 12


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(0, 6), st.integers(1, 10))
def test_metrics_of_a_list_follow_their_definitions(hits, further, k):
    hits, n_relevant = hits[:k], sum(hits[:k]) + further
    if not n_relevant:
        return
    found = {name: value[0] for name, value in values_at(np.array([hits]), np.array([n_relevant]), k).items()}
    assert found == pytest.approx(naive_values(hits, n_relevant, k))


def naive_values(hits, n_relevant, k):
    """Compute the metrics of one list by loops."""
    gained = sum(1 / math.log2(1 + place) for place, hit in enumerate(hits, 1) if hit)
    best = sum(1 / math.log2(1 + place) for place in range(1, min(k, n_relevant) + 1))
    precisions = [sum(hits[:place]) / place for place, hit in enumerate(hits, 1) if hit]
    return {
        "precision": sum(hits) / k,
        "recall": sum(hits) / n_relevant,
        "ndcg": gained / best,
        "map": sum(precisions) / min(k, n_relevant),
        "mrr": next((1 / place for place, hit in enumerate(hits, 1) if hit), 0),
        "hit_rate": float(any(hits)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a model of users and items, training, test and item rows; ids from 15 on are items."""
    folder, rng = tmp_path_factory.mktemp("ranked"), np.random.default_rng(0)

    def text(n_rows):
        users, items = rng.integers(0, USERS, n_rows), USERS + rng.integers(0, ITEMS, n_rows)
        return "".join(f"{int((u + i) % 3 == 0)} {u}:1 {i}:1\n" for u, i in zip(users, items))

    (folder / "train.svm").write_text(text(300))
    (folder / "test.svm").write_text(text(60))
    (folder / "items.svm").write_text("".join(f"0 {i}:1\n" for i in range(USERS, USERS + ITEMS)))
    (folder / "seen.svm").write_text(text(40))
    ran = run(
        "train", folder / "train.svm", "--out", folder / "m.rafm", "--epochs", 3, "--ranks", 2, "--valid-share", 0
    )
    assert ran.code == 0, ran.err
    return folder


def pairs_of(path):
    """Return (label, user, item) of each line."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(int(label), int(u.split(":")[0]), int(i.split(":")[0]) - USERS) for label, u, i in lines]


def naive_ranking(folder, k, exclude, last_only):
    """Score every pair, sort, and average the metrics over users."""
    model = Predictor.load(folder / "m.rafm").saved.model
    relevant, hidden = {}, {}
    for label, user, item in pairs_of(folder / "test.svm"):
        if label and item not in relevant.setdefault(user, []):
            relevant[user].append(item)
    for _, user, item in pairs_of(folder / "seen.svm") if exclude else ():
        hidden.setdefault(user, set()).add(item)
    values, shown = [], set()
    for user, own in relevant.items():
        gone = set(hidden.get(user, ()))
        if last_only:
            gone, own = gone | set(own[:-1]), own[-1:]
        wanted = set(own) - gone
        if not wanted:
            continue
        ids = np.array([[user, USERS + item] for item in range(ITEMS)])
        rows = Batch(
            np.arange(0, 2 * ITEMS + 1, 2), ids.ravel(), np.ones(2 * ITEMS, np.float32), USERS + ITEMS, None, None
        )
        scores = model.scores(check_batch(rows))
        best = sorted((item for item in range(ITEMS) if item not in gone), key=lambda item: (-scores[item], item))[:k]
        shown |= set(best)
        values.append(naive_values([item in wanted for item in best], len(wanted), k))
    means = {f"{name}@{k}": np.mean([value[name] for value in values]) for name in values[0]}
    return {"contexts": len(values), **means, f"coverage@{k}": len(shown) / ITEMS}


@pytest.mark.parametrize("exclude", [False, True], ids=["all items", "unseen items"])
@pytest.mark.parametrize("last_only", [False, True], ids=["by user", "leave one out"])
def test_the_command_agrees_with_brute_force(folder, exclude, last_only):
    flags = [*(["--exclude", folder / "seen.svm"] if exclude else []), *(["--leave-one-out"] if last_only else [])]
    ran = run("evaluate", folder / "m.rafm", folder / "test.svm", "--ranking", "--items", folder / "items.svm",
              "--at", "3,5", "--json", *flags)  # fmt: skip
    found = ran.json()
    for k in (3, 5):
        wanted = naive_ranking(folder, k, exclude, last_only)
        assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert found["items"] == ITEMS


def test_labels_from_a_limit_on_are_relevant(folder):
    test = next(iter(Predictor.load(folder / "m.rafm").batches(folder / "test.svm")))
    predictor = Predictor.load(folder / "m.rafm")
    items = next(iter(predictor.batches(folder / "items.svm")))
    graded = check_batch(
        Batch(test.indptr, test.indices, test.values, test.n_features, np.asarray(test.labels) * 2 + 2, None)
    )
    usual = evaluate_ranking(predictor.saved.model, test, items, [4])
    assert evaluate_ranking(predictor.saved.model, graded, items, [4], least=3.0) == usual
    assert evaluate_ranking(predictor.saved.model, graded, items, [4])["recall@4"] != usual["recall@4"]


def test_flags_of_rankings_go_together(folder):
    given = ("evaluate", folder / "m.rafm", folder / "test.svm")
    assert run(*given, "--at", 5).error() == "--at is for rankings: add --ranking"
    assert run(*given, "--ranking").error() == "--ranking needs a catalogue: add --items FILE"
    wrong = run(*given, "--ranking", "--items", folder / "items.svm", "--at", 0)
    assert "at least 1" in wrong.error()
