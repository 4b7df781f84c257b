"""Which test RMSE of ratings does sampling reach after how many CPU seconds, beside myFM?

    RAFM_DATA=folder python -m experiments.gibbs_race [NAME] [--rank 8] [--sweeps 25,50,100,200] [--seed 0]

The folder is that of gibbs.py. Both get the training and validation rows to train on, fields, rank and number of
sweeps, on one thread. Ours holds out a tenth of them to measure the noise (at most 100 sweeps), samples all, and
predicts by one distilled model; myFM predicts by the mean of all sweeps but the first sixth. CPU seconds are those of
training, without compiling.
"""

from __future__ import annotations

import argparse
import io
import time
from contextlib import redirect_stderr

import numpy as np
from scipy.sparse import csr_matrix

from experiments.gibbs import load, loss_of
from rafm.model.model import Model
from rafm.options import resolve
from rafm.rows.blocks import join_rows
from rafm.rows.checked import CheckedRows
from rafm.rows.source import InMemory
from rafm.train import train
from rafm.train.events import Finished


def matrix(rows: CheckedRows, n_features: int) -> csr_matrix:
    """Return the rows as a matrix; features beyond the last one that training knows are dropped."""
    known = csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.n_rows, max(n_features, rows.n_features)))
    return known[:, :n_features]


def own(data: InMemory, rank: int, n_sweeps: int, seed: int) -> tuple[float, Model]:
    """Return CPU seconds and the distilled model."""
    begun, chosen = time.process_time(), {"model": "fm", "ranks": rank, "optimizer": "gibbs", "seed": seed}
    *_, last = train(data, resolve(task="regression", n_epochs=n_sweeps, patience=None, **chosen))
    assert isinstance(last, Finished)
    return time.process_time() - begun, last.model


def peer(train: CheckedRows, test: CheckedRows, groups: np.ndarray, rank: int, n_sweeps: int, seed: int) -> list[float]:
    """Return CPU seconds and test RMSE of myFM."""
    from myfm import MyFMRegressor

    order = np.argsort(groups, kind="stable")  # it wants the features of a group side by side
    X, X_test = (matrix(rows, groups.size)[:, order] for rows in (train, test))
    shapes, begun = np.bincount(groups).tolist(), time.process_time()
    with redirect_stderr(io.StringIO()):  # without its progress bar
        fitted = MyFMRegressor(rank, random_seed=seed)
        fitted.fit(
            X, train.labels.astype(float), n_iter=n_sweeps, n_kept_samples=n_sweeps * 5 // 6, group_shapes=shapes
        )
    spent, found = time.process_time() - begun, fitted.predict(X_test)
    return [spent, float(np.sqrt(np.mean((found - test.labels) ** 2)))]


def main() -> None:
    """Print a line per number of sweeps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="ml-100k")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--sweeps", default="25,50,100,200")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    data, valid, test = load(given.name)
    assert data.fields is not None
    whole = InMemory(join_rows([data.rows, valid]), data.fields)
    own(whole, given.rank, 4, given.seed)  # compiles
    _, groups = np.unique(data.fields.of(np.arange(whole.n_features)), return_inverse=True)
    print("| sweeps | CPU s | test RMSE | myFM CPU s | test RMSE |\n|--:|--:|--:|--:|--:|")
    for n_sweeps in map(int, given.sweeps.split(",")):
        seconds, model = own(whole, given.rank, n_sweeps, given.seed)
        other = peer(whole.rows, test, groups, given.rank, n_sweeps, given.seed)
        print(
            f"| {n_sweeps} | {seconds:.1f} | {loss_of(model, test):.4f} | {other[0]:.1f} | {other[1]:.4f} |", flush=True
        )


if __name__ == "__main__":
    main()
