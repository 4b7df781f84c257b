"""Run each library from text file to probabilities, end to end: import, read, train, read, score.

Every function takes the folder of the files, epochs, threads and settings, and returns the probabilities of the
validation rows. Field-aware models (FFM) of a library are contestants of their own. SETTINGS holds the two settings to
try for each. Those of rafm (38 points, FFM 24), xLearn (21, FFM 30), scikit-learn (7) and Vowpal Wabbit (4) were chosen
by grid search on another log (seed 0); the others are near their defaults. Heavy imports are inside the functions, so
that they count. An epoch of myFM is 8 sweeps, one of LightGBM 25 trees.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

RAFM = {"model": "rafm", "ranks": [2, 8, 32], "rank_scale": 0.25, "learning_rate": 0.1, "l2": 0.01}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "rafm": [RAFM, {"model": "fm", "ranks": [8], "l2": 0.01}],
    "rafm-ffm": [
        {"ranks": [4], "learning_rate": 0.2, "l2": 0.003},
        {"ranks": [4], "learning_rate": 0.1, "l2": 0.003},
    ],
    "xlearn": [{"k": 8, "lr": 0.1, "lambda": 0.01}, {"k": 8, "lr": 0.2, "lambda": 0.01}],
    "xlearn-ffm": [{"k": 4, "lr": 0.2, "lambda": 0.003}, {"k": 4, "lr": 0.2, "lambda": 0.01}],
    "vw": [{"interactions": "aa", "b": 22}, {"lrq": "aa8", "l2": 1e-5, "learning_rate": 0.1, "b": 22}],
    "myfm": [{"rank": 4}, {"rank": 8}],
    "lightgbm": [{"num_leaves": 63, "learning_rate": 0.1}, {"num_leaves": 255, "learning_rate": 0.1}],
    "sklearn": [{"alpha": 1e-3}, {"alpha": 1e-4}],
    "river": [{"n_factors": 8, "rate": 0.02}, {"n_factors": 8, "rate": 0.05}],
    "libfm": [{"rank": 8, "rate": 0.05, "l2": 0.01}, {"rank": 8, "rate": 0.02, "l2": 0.02}],
    "libffm": [{"k": 4, "l": 2e-5}, {"k": 4, "l": 1e-3}],
    "torch": [{"rank": 8, "rate": 0.05}, {"rank": 8, "rate": 0.2}],
}
SWEEPS, TREES = 8, 25  # per epoch
THREADED = (
    "rafm",
    "rafm-ffm",
    "xlearn",
    "xlearn-ffm",
    "lightgbm",
    "libffm",
    "torch",
)  # libraries that train with several threads
PROGRAMS = {"libfm": "libFM", "libffm": "ffm-train"}  # peers that are programs, not Python modules
MODULES = {"vw": "vowpalwabbit"}  # modules whose name differs from the peer's


def library_of(contestant: str) -> str:
    """Return the library of a contestant.

    >>> library_of("xlearn-ffm"), library_of("libffm")
    ('xlearn', 'libffm')
    """
    return contestant.removesuffix("-ffm")


def is_installed(peer: str) -> bool:
    """Return whether a peer's program is on the path, or its module can be imported.

    >>> is_installed("numpy"), is_installed("no_such_peer")
    (True, False)
    """
    if peer in PROGRAMS:
        return shutil.which(PROGRAMS[peer]) is not None
    return importlib.util.find_spec(MODULES.get(peer, peer)) is not None


def run_rafm(folder: Path, epochs: int, threads: int, kind: str = "libsvm", **settings: Any) -> np.ndarray:
    """Train rafm on the text file."""
    import numpy as np

    from rafm.options import resolve
    from rafm.read.open import ReadOptions, batches_of, training_rows
    from rafm.train.dispatch import train_model

    files = ReadOptions("binary", kind)
    rows, _ = training_rows(folder / f"train.{kind}", files)
    model = train_model(rows, resolve(task="binary", n_epochs=epochs, threads=threads, **settings))
    # Scored in batches, as `rafm predict` does.
    return np.concatenate([model.predict(batch) for batch in batches_of(folder / f"valid.{kind}", files, None)])


def run_rafm_ffm(folder: Path, epochs: int, threads: int, **settings: Any) -> np.ndarray:
    """Train rafm's field-aware model on the text file with fields."""
    return run_rafm(folder, epochs, threads, "libffm", model="ffm", **settings)


def run_xlearn(folder: Path, epochs: int, threads: int, kind: str = "libsvm", **settings: Any) -> np.ndarray:
    """Train xLearn's FM, which writes its scores to a text file."""
    import numpy as np
    import xlearn

    for name in ("train", "valid"):  # it writes binary caches next to its input, so link that to this directory
        Path(name).symlink_to(folder / f"{name}.{kind}")
    fm = xlearn.create_ffm() if kind == "libffm" else xlearn.create_fm()
    fm.setTrain("train")
    fm.disableNorm()
    fm.setQuiet()
    fm.fit({"task": "binary", "epoch": epochs, "nthread": threads, **settings}, "model")
    fm.setTest("valid")
    fm.setSigmoid()
    fm.predict("model", "out")
    return np.fromfile("out", sep="\n")


def run_xlearn_ffm(folder: Path, epochs: int, threads: int, **settings: Any) -> np.ndarray:
    """Train xLearn's field-aware model."""
    return run_xlearn(folder, epochs, threads, "libffm", **settings)


def run_vw(folder: Path, epochs: int, threads: int, **settings: Any) -> np.ndarray:
    """Train Vowpal Wabbit on its own text format; it writes its scores to a text file."""
    import numpy as np
    from vowpalwabbit import Workspace

    # Several passes need a cache; by default it would hold out every tenth row.
    passes = {"passes": epochs, "cache_file": "cache", "holdout_off": True} if epochs > 1 else {}
    shared = {"loss_function": "logistic", "quiet": True}
    Workspace(d=str(folder / "train.vw"), final_regressor="model", **passes, **shared, **settings).finish()
    tested = {"testonly": True, "predictions": "out", "link": "logistic", "quiet": True}
    Workspace(d=str(folder / "valid.vw"), initial_regressor="model", **tested).finish()
    return np.fromfile("out", sep="\n")


def _matrices(folder: Path) -> Any:
    """Read training and validation rows with scikit-learn, with the 32-bit indices that its models require."""
    import numpy as np
    from sklearn.datasets import load_svmlight_files

    found = load_svmlight_files([folder / "train.libsvm", folder / "valid.libsvm"], zero_based=True)
    for matrix in found[::2]:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return found


def run_myfm(folder: Path, epochs: int, threads: int, rank: int) -> np.ndarray:
    """Sample with myFM; scores are means over the second half of the sweeps."""
    from myfm import MyFMClassifier

    train, labels, valid, _ = _matrices(folder)
    sweeps = SWEEPS * epochs
    quiet = {"callback": lambda *_: (False, None), "n_kept_samples": sweeps // 2}
    return MyFMClassifier(rank, random_seed=0).fit(train, labels > 0, n_iter=sweeps, **quiet).predict_proba(valid)


def run_lightgbm(folder: Path, epochs: int, threads: int, **settings: Any) -> np.ndarray:
    """Train gradient-boosted trees with LightGBM, which reads the text file itself."""
    import lightgbm

    parameters = {"objective": "binary", "verbosity": -1, "num_threads": threads, **settings}
    data = lightgbm.Dataset(str(folder / "train.libsvm"), params=parameters)
    model = lightgbm.train(parameters, data, TREES * epochs)
    return model.predict(str(folder / "valid.libsvm"), predict_disable_shape_check=True)  # the largest id may be absent


def run_sklearn(folder: Path, epochs: int, threads: int, alpha: float) -> np.ndarray:
    """Train scikit-learn's logistic regression by SGD, without interactions."""
    from sklearn.linear_model import SGDClassifier

    train, labels, valid, _ = _matrices(folder)
    model = SGDClassifier(loss="log_loss", alpha=alpha, max_iter=epochs, tol=None, random_state=0)
    return model.fit(train, labels).predict_proba(valid)[:, 1]


def run_river(folder: Path, epochs: int, threads: int, n_factors: int, rate: float) -> np.ndarray:
    """Train river's FM row by row, from dictionaries."""
    import numpy as np
    from river import facto, optim

    def rows(name: str) -> Any:
        for line in (folder / name).read_text().splitlines():
            label, *tokens = line.split(" ")
            yield {token[:-2]: 1.0 for token in tokens}, label == "1"

    steps = {"weight_optimizer": optim.SGD(rate), "latent_optimizer": optim.SGD(rate)}
    model = facto.FMClassifier(n_factors=n_factors, seed=0, **steps)
    for _ in range(epochs):
        for x, y in rows("train.libsvm"):
            model.learn_one(x, y)
    return np.array([model.predict_proba_one(x)[True] for x, _ in rows("valid.libsvm")])


def run_libfm(folder: Path, epochs: int, threads: int, rank: int, rate: float, l2: float) -> np.ndarray:
    """Train with the libFM program by SGD."""
    import numpy as np

    command = ["libFM", "-task", "c", "-method", "sgd", "-learn_rate", rate, "-regular", f"0,0,{l2}", "-iter", epochs]
    command += ["-dim", f"1,1,{rank}", "-init_stdev", 0.01, "-out", "out"]
    command += ["-train", folder / "train.libsvm", "-test", folder / "valid.libsvm"]
    subprocess.run([*map(str, command)], check=True)
    return np.fromfile("out", sep="\n")


def run_libffm(folder: Path, epochs: int, threads: int, k: int, l: float) -> np.ndarray:
    """Train a field-aware FM with the libffm programs."""
    import numpy as np

    command = ["ffm-train", "-l", l, "-k", k, "-t", epochs, "-s", threads, folder / "train.libffm", "model"]
    subprocess.run([*map(str, command)], check=True)
    subprocess.run(["ffm-predict", str(folder / "valid.libffm"), "model", "out"], check=True)
    return np.fromfile("out", sep="\n")


def run_torch(folder: Path, epochs: int, threads: int, rank: int, rate: float) -> np.ndarray:
    """Train an FM in PyTorch."""
    import numpy as np

    from .torchfm import TorchFM

    train, labels, valid, _ = _matrices(folder)
    model = TorchFM(train.shape[1], rank, threads, rate)
    table, others = (matrix.indices.astype(np.int64).reshape(matrix.shape[0], -1) for matrix in (train, valid))
    for epoch in range(epochs):
        model.epoch(table, labels.astype(np.float32), epoch)
    return model.probabilities(others)


CONTESTANTS: dict[str, Callable[..., np.ndarray]] = {
    "rafm": run_rafm,
    "rafm-ffm": run_rafm_ffm,
    "xlearn": run_xlearn,
    "xlearn-ffm": run_xlearn_ffm,
    "vw": run_vw,
    "myfm": run_myfm,
    "lightgbm": run_lightgbm,
    "sklearn": run_sklearn,
    "river": run_river,
    "libfm": run_libfm,
    "libffm": run_libffm,
    "torch": run_torch,
}
