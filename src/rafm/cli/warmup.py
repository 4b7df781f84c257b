"""`rafm warmup`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from ..files.terminal import counted
from .arguments import Json, print_json

N_ROWS = 400  # enough for tables of strings to grow
SMALL = ("--epochs", "1", "--ranks", "2")


def warmup(json: Json = False) -> None:
    """Compile ahead of time, for example in a container image.

    Runs train, evaluate, predict, inspect, convert and serve on a few generated rows in a temporary directory. The
    compiled code is cached on disk, so that later runs on the same type of processor start at once.
    """
    from ..jit.compiling import can_keep_code, compile_seconds, compiled_kernels

    place = _cache_folder()  # a warning of it is for everybody
    quiet = io.StringIO()  # the note that it compiles goes to the stderr of before
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        run_commands(Path(folder))
    kernels, seconds = compiled_kernels(), compile_seconds()
    if json:
        return print_json({"kernels": kernels, "compile_seconds": round(seconds, 3), "cache": place})
    if not kernels:
        print(f"everything is already compiled; the code is in {place}")
    elif can_keep_code():
        print(f"compiled {counted(len(kernels), 'kernel')} in {seconds:.1f} s; the code is in {place}")
    else:
        print(
            f"compiled {counted(len(kernels), 'kernel')} in {seconds:.1f} s, but found no place to cache them: "
            "set NUMBA_CACHE_DIR"
        )


def run_commands(folder: Path) -> None:
    """Run each command once for each kind of input that is compiled apart."""
    from .app import app

    write_rows(folder)
    for command in commands():
        app(args=[str(folder / word) if "." in word else word for word in command], standalone_mode=False)


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the commands; words with a point are files."""
    for name in ("rows.svm", "rows.ffm", "rows.csv", "rows.parquet"):
        label = ("--label", "y") if name in ("rows.csv", "rows.parquet") else ()
        kinds = ("--column", "price=number", "--column", "size=category") if label else ()
        yield ("train", name, "--valid", name, "--out", "model.rafm", *SMALL, *label, *kinds)
        yield ("train", name, "--valid", name, "--out", "other.rafm", *SMALL, *label, *kinds, "--optimizer", "sgd")
        yield ("train", name, "--resume-from", "model.rafm", "--out", "more.rafm")
        yield ("evaluate", "model.rafm", name)
        yield ("predict", "model.rafm", name, "--out", "predictions.txt")
        yield ("inspect", name, *label)
        yield ("convert", name, "converted.arrow", *label)
    yield ("train", "converted.arrow", "--out", "model.rafm", *SMALL)
    for name, model in (("rows.svm", "mrma"), ("rows.ffm", "ffm")):
        yield ("train", name, "--valid", name, "--model", model, "--out", "model.rafm", *SMALL)
    sampled = ("--task", "regression", "--model", "fm", "--optimizer", "gibbs")  # the default for ratings
    yield ("train", "rows.parquet", "--label", "y", *sampled, "--out", "model.rafm", *SMALL)


def write_rows(folder: Path) -> None:
    """Write the same few rows in each format; some have ids that do not ascend, quotes or missing values."""
    import pyarrow as pa
    from pyarrow import parquet

    names = ("y", "user", "item", "price", "age", "size")
    pairs = [(row % 2, row % 101, 101 + row % 103) for row in range(N_ROWS)]
    (folder / "rows.svm").write_text("".join(f"{y} {b}:0.5 {a}:1\n" for y, a, b in pairs))
    (folder / "rows.ffm").write_text("".join(f"{y} 1:{b}:0.5 0:{a}:1\n" for y, a, b in pairs))
    cells = [(y, f"user {a}" if a else None, f"item {b}", a / 8, b / 4, a) for y, a, b in pairs]
    lines = [f'{y},{user or ""},"{item}",{price},{age},{size}\n' for y, user, item, price, age, size in cells]
    (folder / "rows.csv").write_text(",".join(names) + "\n" + "".join(lines))
    columns = dict(zip(names, zip(*cells)))
    parquet.write_table(pa.table(columns), folder / "rows.parquet")


def _cache_folder() -> str:
    """Return the directory that holds the code of the training kernel."""
    from ..kernels.training import train_rows

    return str(train_rows.stats.cache_path)
