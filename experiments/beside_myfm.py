"""How do RaFM's ways to train on ratings compare with myFM, a Gibbs sampler for FMs?

    RAFM_DATA=folder python -m experiments.beside_myfm [SET ...] [--seeds N]      writes beside_myfm.json and .md

The folder is that of quality.py. Every model gets the training rows and their fields; measured ranks and the sampler of
a given rank also get the validation rows, which choose lengths and the end; the others do without. myFM: rank 10, 200
iterations, the fields as groups. Prints and writes the test RMSE, mean and deviation over seeds, and CPU seconds of
fitting in one process, compiled before. Finished runs are kept in the JSON file and not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import rafm
from experiments.defaults import matrix_of
from rafm.read.fields import read_fields

HERE, SETS = Path(__file__).parent, ("ml-100k", "ciao")
RANK, ITERATIONS = 10, 200


class Data(NamedTuple):
    """Matrix and ratings of each part, and the number of the field of each id."""

    parts: list[tuple[sparse.csr_matrix, np.ndarray]]
    fields: np.ndarray


def read(folder: Path, name: str) -> Data:
    """Read training, validation and test rows."""
    fields = read_fields(folder / name / "features.tsv.gz")
    n_features = int(fields.starts[-1])  # the end of the last field
    paths = [folder / name / f"{name}.{part}.libfm.gz" for part in ("train", "validation", "test")]
    return Data([matrix_of(path, n_features) for path in paths], fields.of(np.arange(n_features)))


def rafm_model(is_judged: bool, **given: Any) -> Callable[[Data, int], np.ndarray]:
    """Return a function that fits a regressor, with or without validation rows, and predicts the test rows."""

    def predictions(data: Data, seed: int) -> np.ndarray:
        (X, y), valid, (X_test, _) = data.parts
        model = rafm.RaFMRegressor(random_state=seed, fields=data.fields.tolist(), **given)
        return model.fit(X, y, **({"eval_set": valid} if is_judged else {})).predict(X_test)

    return predictions


def myfm(data: Data, seed: int) -> np.ndarray:
    """Sample with myFM; return the mean prediction of its samples."""
    from myfm import MyFMGibbsRegressor

    (X, y), _, (X_test, _) = data.parts
    model = MyFMGibbsRegressor(rank=RANK, random_seed=seed)
    model.fit(X, y, group_shapes=np.bincount(data.fields).tolist(), n_iter=ITERATIONS, n_kept_samples=ITERATIONS - 30)
    return model.predict(X_test)


MODELS = {
    "rafm, no option (sampled)": rafm_model(False),
    "rafm, optimizer adagrad": rafm_model(False, optimizer="adagrad"),
    "rafm, ranks auto": rafm_model(True, ranks="auto"),
    f"rafm, optimizer gibbs, rank {RANK}": rafm_model(True, model="fm", ranks=RANK, optimizer="gibbs"),
    f"myFM, rank {RANK}, {ITERATIONS} iterations": myfm,
}


def measure(data: Data, model: Callable[[Data, int], np.ndarray], seed: int) -> dict[str, float]:
    """Return test RMSE and CPU seconds."""
    begun = time.process_time()
    predicted = model(data, seed)
    seconds, labels = time.process_time() - begun, data.parts[2][1]
    return {"rmse": float(np.sqrt(np.mean((predicted - labels) ** 2))), "seconds": seconds}


def first_rows(data: Data, n: int) -> Data:
    """Return the first rows of every part."""
    return Data([(X[:n], y[:n]) for X, y in data.parts], data.fields)


def markdown(runs: dict[str, dict[str, float]]) -> str:
    """Return the table of all finished runs."""
    text = ["# Ratings beside myFM", "", __doc__.split("\n\n")[2].replace("\n", " ").strip(), ""]
    text += ["| data | model | seeds | RMSE | CPU seconds |", "|---|---|--:|--:|--:|"]
    for name, title in dict.fromkeys(tuple(key.split("|")[:2]) for key in runs):
        own = [run for key, run in runs.items() if key.startswith(f"{name}|{title}|")]
        losses, seconds = ([run[what] for run in own] for what in ("rmse", "seconds"))
        spread = f" ± {np.std(losses, ddof=1):.4f}" if len(losses) > 1 else ""
        text.append(f"| {name} | {title} | {len(own)} | {np.mean(losses):.4f}{spread} | {np.mean(seconds):.1f} |")
    return "\n".join(text) + "\n"


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*SETS])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = HERE / "beside_myfm.json"
    runs = json.loads(kept.read_text()) if kept.exists() else {}
    for name in given.sets:
        data = read(Path(os.environ["RAFM_DATA"]), name)
        for title, model in MODELS.items():
            keys = [(f"{name}|{title}|{seed}", seed) for seed in range(given.seeds)]
            missing = [pair for pair in keys if pair[0] not in runs]
            if missing:
                measure(first_rows(data, 6000), model, 0)  # compile; fewer rows are never sampled by default
            for key, seed in missing:
                runs[key] = measure(data, model, seed)
                print(key, runs[key], flush=True)
                kept.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")
    (HERE / "beside_myfm.md").write_text(markdown(json.loads(kept.read_text())))


if __name__ == "__main__":
    main()
