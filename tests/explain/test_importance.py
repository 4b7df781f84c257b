"""Importance: the rise of the loss when a column's values are dealt out anew."""

import numpy as np
import pandas as pd
import pytest
from fitted import make

from rafm.errors import ConfigError


def world(n_rows=1500, seed=0):
    """Return a table in which one column decides, one helps and one is noise, and the labels."""
    rng = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d"])
    strong, weak, noise = (words[rng.integers(0, 4, n_rows)] for _ in range(3))
    score = 4.0 * (strong > "b") - 2 + 1.0 * (weak > "b") - 0.5
    table = pd.DataFrame({"noise": noise, "strong": strong, "weak": weak})
    return table, (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int)


@pytest.fixture(scope="module")
def fitted():
    table, labels = world()
    return make(model="fm", ranks=4, n_epochs=5).fit(table, labels)


def log_losses(fitted, table, labels):
    p = fitted.predict_proba(table)[:, 1]
    return -np.log(np.where(labels == 1, p, 1 - p))


def test_columns_are_ranked_by_what_they_decide(fitted):
    table, labels = world(seed=1)
    found = fitted.importance(table, labels)
    assert [one.column for one in found][:2] == ["strong", "weak"]
    by_name = {one.column: one for one in found}
    assert abs(by_name["noise"].importance) < 4 * by_name["noise"].standard_error + 1e-3
    assert by_name["strong"].importance > 20 * by_name["strong"].standard_error


def test_importance_agrees_with_permuting_the_table_itself(fitted):
    """With every row once in each place, the mean over permutations is known without drawing any."""
    table, labels = (part[:60] for part in world(seed=2))
    before, rises = log_losses(fitted, table, labels), []
    for shift in range(60):
        moved = table.assign(strong=np.roll(table["strong"], shift))
        rises.append(log_losses(fitted, moved, labels) - before)
    found = fitted.importance(table, labels, columns=["strong"], repeats=300)[0]
    assert found.importance == pytest.approx(np.mean(rises), rel=0.05)
    assert found.standard_error == pytest.approx(np.std(np.mean(rises, axis=0)) / np.sqrt(60), rel=0.1)


def test_threads_do_not_change_the_figures(fitted):
    table, labels = world(300, seed=3)
    alone = fitted.importance(table, labels)
    fitted.n_jobs = 2
    assert fitted.importance(table, labels) == alone
    fitted.n_jobs = None


def test_an_unknown_column_is_refused(fitted):
    table, labels = world(50)
    with pytest.raises(ConfigError, match="no column 'price'; the columns are"):
        fitted.importance(table, labels, columns=["price"])


def test_an_overview_finds_the_column_that_decides(fitted):
    found = fitted.overview(world(200, seed=4)[0])
    assert next(iter(found.columns)) == "strong"
    assert set(found.levels) == {0, 1}
    assert all(" x " in entry["name"] for entry in found.top(3)["column_pairs"])
