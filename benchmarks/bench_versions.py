"""Does this version train the same bytes as another checkout, and is it as fast?

    python -m benchmarks.bench_versions OTHER/src [--ranks 8,32,128,512] [--turns 5] [--skip bytes|speed]

Only the public estimators are used, so any two versions compare. Bytes: every family, optimiser and task, by one and
two threads, is trained by both; what the model files hold (parameters, states) and the histories are compared. Speed:
both live in processes of their own, which take turns on the same generated rows; the figures are CPU times of an epoch
and of a scoring pass, the least of several less what a first pass costs besides, and their ratio, this version / the
other. The first line of each process says which code it runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = str(Path(__file__).parents[1] / "src")
SHAPES = {"like Frappe: 10 nonzeros": (60_000, 10, 5_000), "like Criteo: 39 nonzeros": (40_000, 39, 500_000)}

CHILD = """
import hashlib, inspect, itertools, sys, tempfile, time
import numpy as np
from scipy import sparse
import rafm

# Versions that hold out rows, average epochs or calibrate by default must not do so here.
known = inspect.signature(rafm.RaFMClassifier).parameters
PLAIN = {"validation_fraction": 0, "averaging": False, "init_scale": 0.01, "calibrate": "off"}
PLAIN = {name: value for name, value in PLAIN.items() if name in known}

def rows(n, width, features, seed=0):
    draw = np.random.default_rng(seed)
    span = features // width
    ids = np.minimum(draw.zipf(1.3, (n, width)) - 1, span - 1) + span * np.arange(width)
    ones, ends = np.ones(n * width, np.float32), np.arange(0, n * width + 1, width)
    X = sparse.csr_matrix((ones, ids.ravel(), ends), (n, features))
    truth = draw.normal(size=features)[ids].sum(axis=1) + (ids[:, 0] * 7 + ids[:, 1] * 3) % 5 - 2
    return X, truth

def digest(task, X, truth, **options):
    kind = rafm.RaFMClassifier if task == "binary" else rafm.RaFMRegressor
    y = (truth > np.median(truth)).astype(int) if task == "binary" else truth
    half = len(y) * 3 // 4
    model = kind(n_epochs=3, **options, **PLAIN).fit(X[:half], y[:half], eval_set=(X[half:], y[half:]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder + "/m.rafm", keep_state=True)
        saved = open(folder + "/m.rafm", "rb").read()
    saved = saved[8 + int.from_bytes(saved[:8], "little"):] + repr(model.history_).encode()  # headers list new options
    return hashlib.sha256(saved + model.predict(X[half:]).tobytes()).hexdigest()[:16]

def print_digests():
    wide, pairs = rows(30_000, 8, 4_000), rows(30_000, 2, 2_000)
    families = {"rafm": (2, 8, 32), "fm": (16,), "difacto": (2, 8, 32), "lr": None}
    optimizers = {"adagrad": {}, "sgd": {"learning_rate": 0.02}, "adam": {}, "ftrl": {"l1": 1e-3, "l1_weights": 1e-3}}
    for task, threads in itertools.product(("binary", "regression"), (1, 2)):
        for (model, ranks), (optimizer, more) in itertools.product(families.items(), optimizers.items()):
            for update in ("joint", "algorithm1") if model == "rafm" else ("joint",):
                chosen = dict(model=model, ranks=ranks, optimizer=optimizer, update=update, n_jobs=threads, **more)
                if model == "lr":
                    chosen.pop("l1", None)  # it has no vectors
                print(task, threads, model, optimizer, update, digest(task, *wide, **chosen), flush=True)
        mixed = digest(task, *pairs, model="mrma", ranks=(2, 8), n_jobs=threads)
        print(task, threads, "mrma adagrad -", mixed, flush=True)

def take_turns():
    data = {}
    for line in sys.stdin:
        what, rank, *shape = map(int, line.split())
        X, truth = data.setdefault(tuple(shape), rows(*shape))
        y = truth > 0
        def fit(epochs):
            start = time.process_time()
            chosen = dict(ranks=rank, n_epochs=epochs, learning_rate=0.02, **PLAIN)
            model = rafm.RaFMClassifier(model="fm", **chosen).fit(X, y)
            return time.process_time() - start, model
        if what == 0:
            print(fit(1)[0], fit(5)[0], flush=True)
        else:
            _, model = fit(1)
            start = time.process_time()
            model.decision_function(X)
            middle = time.process_time()
            for _ in range(5):
                model.decision_function(X)
            print(middle - start, time.process_time() - start, flush=True)

print(rafm.__file__, flush=True)
take_turns() if sys.argv[1:] == ["speed"] else print_digests()
"""


def start(source: str, what: str) -> subprocess.Popen[str]:
    """Start a process of one version."""
    command = [sys.executable, "-c", CHILD, what]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source}, **pipes)  # type: ignore[call-overload]
    print(process.stdout.readline().strip())
    return process


def compare_bytes(other: str) -> bool:
    """Print which models differ; return whether none does."""
    found = [dict(line.rsplit(maxsplit=1) for line in start(source, "bytes").stdout) for source in (other, HERE)]
    differing = [name for name in found[0] if found[0][name] != found[1].get(name)]
    print(f"{len(found[0])} models trained by both; {len(differing)} differ")
    print(*differing, sep="\n", end="\n" if differing else "")
    return not differing and len(found[0]) == len(found[1]) > 0


def compare_speed(other: str, ranks: list[int], turns: int) -> None:
    """Print times and ratios."""
    both = [start(source, "speed") for source in (other, HERE)]
    print(f"{'rows':26} {'rank':>5} {'work':>8} {'other ms':>9} {'this ms':>9} {'ratio':>6}")
    for (name, shape), rank, what in ((s, r, w) for s in SHAPES.items() for r in ranks for w in (0, 1)):
        times = [[(float("inf"),) * 2] for _ in both]
        for turn in range(turns + 1):
            for found, process in zip(times, both):
                print(what, rank, *shape, file=process.stdin, flush=True)
                once, often = map(float, process.stdout.readline().split())
                if turn:  # the first one may compile
                    found.append((once, often))
        best = [(min(often for _, often in found) - min(once for once, _ in found)) / (4 + what) for found in times]
        times = f"{1e3 * best[0]:9.1f} {1e3 * best[1]:9.1f} {best[1] / best[0]:6.3f}"
        print(f"{name:26} {rank:5} {('training', 'scoring')[what]:>8} {times}", flush=True)
    for process in both:
        process.stdin.close()


def main() -> int:
    """Compare; fail if bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the src folder of another checkout")
    parser.add_argument("--ranks", default="8,32,128,512")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--skip", choices=["bytes", "speed"])
    asked = parser.parse_args()
    if not Path(asked.other, "rafm").is_dir():  # or this version would be compared with itself
        parser.error(f"{asked.other} has no folder rafm")
    same = asked.skip == "bytes" or compare_bytes(asked.other)
    if asked.skip != "speed":
        compare_speed(asked.other, [*map(int, asked.ranks.split(","))], asked.turns)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
