"""Write, read and check prepared data sets: a directory NAME of libfm text, plain or gzip.

    NAME.train.libfm.gz  NAME.validation.libfm.gz  NAME.test.libfm.gz     ids from 0
    features.tsv.gz      id, field, value
    stats.json           counts and fields

SHA256SUMS beside the directories records what was written or downloaded, in the format of sha256sum.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rafm.errors import ConfigError, DataValueError
from rafm.files.atomic import write_atomically
from rafm.files.terminal import counted
from rafm.read.libsvm.reader import iterate_rows
from rafm.read.open import read_rows
from rafm.rows.blocks import pick_rows
from rafm.rows.checked import Batch, CheckedRows, check_batch

from .catalog import CATALOG

PARTS = ("train", "validation", "test")
FRACTIONS = (0.8, 0.1, 0.1)  # the paper's random split
SUMS = "SHA256SUMS"
WRITE_ROWS = 1 << 16


@dataclass(frozen=True)
class Whole:
    """All rows of a data set, field and value of each feature, and the sizes of its parts if they are fixed."""

    batch: Batch
    names: list[tuple[str, str]]
    note: str = ""
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class DataSet:
    """Checked rows for training, validation and test, with the same number of features."""

    name: str
    task: str
    parts: tuple[CheckedRows, CheckedRows, CheckedRows]


# ---- Writing


def split_rows(n_rows: int, seed: int) -> list[np.ndarray]:
    """Split rows at random into 80 % training, 10 % validation and 10 % test.

    >>> [part.size for part in split_rows(50, seed=0)]
    [40, 5, 5]
    """
    ends = np.rint(np.cumsum(FRACTIONS)[:-1] * n_rows).astype(int)
    return np.split(np.random.default_rng(seed).permutation(n_rows), ends)


def libfm_lines(batch: Batch) -> Iterator[bytes]:
    """Yield the rows as libfm text, WRITE_ROWS at a time; values of 1 are written as 1."""
    assert batch.labels is not None
    for first in range(0, batch.n_rows, WRITE_ROWS):
        last = min(first + WRITE_ROWS, batch.n_rows)
        lines = []
        for row in range(first, last):
            a, b = batch.indptr[row], batch.indptr[row + 1]
            cells = " ".join(f"{i}:{x:.9g}" for i, x in zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist()))
            lines.append(f"{batch.labels[row]:.9g} {cells}\n")
        yield "".join(lines).encode()


def write_gzip(path: Path, chunks: Iterable[bytes]) -> None:
    """Write gzip atomically; equal content gives equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # unlike the gzip module, zlib writes no time; 31: gzip header
    write_atomically(path, (*(packer.compress(chunk) for chunk in chunks), packer.flush()))


def write_prepared(folder: Path, name: str, whole: Whole, seed: int) -> None:
    """Write the directory of a data set and record its checksums; rows are split at random unless parts are fixed."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    if whole.sizes is None:
        split = split_rows(whole.batch.n_rows, seed)
    else:
        split = np.split(np.arange(whole.batch.n_rows), np.cumsum(whole.sizes)[:-1])
    parts = [pick_rows(whole.batch, rows) for rows in split]
    files = [target / f"{name}.{part}.libfm.gz" for part in PARTS]
    for path, batch in zip(files, parts):
        write_gzip(path, libfm_lines(batch))
    names = "".join(f"{i}\t{field}\t{value}\n" for i, (field, value) in enumerate(whole.names))
    write_gzip(target / "features.tsv.gz", [names.encode()])
    stats = json.dumps(statistics(name, whole, parts, seed), indent=1) + "\n"
    write_atomically(target / "stats.json", [stats.encode()])
    record_sums(folder, [*files, target / "features.tsv.gz"])


def statistics(name: str, whole: Whole, parts: list[Batch], seed: int) -> dict[str, Any]:
    """Return the content of stats.json."""
    fields, first = [], 0
    for field, members in groupby(field for field, _ in whole.names):  # the ids of a field are consecutive
        n = sum(1 for _ in members)
        fields.append({"field": field, "first": first, "last": first + n - 1, "n": n})
        first += n
    return {
        "name": name,
        "rows": {part: batch.n_rows for part, batch in zip(PARTS, parts)},
        "total": whole.batch.n_rows,
        "features": whole.batch.n_features,
        "features_in_train": int(np.unique(parts[0].indices).size),
        "fields": fields,
        "note": whole.note or ("" if whole.sizes else f"random split 8:1:1, seed {seed}"),
    }


# ---- Checksums


def digest(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def known_sums(folder: Path) -> dict[str, str]:
    """Return the recorded checksums by path relative to the directory."""
    path = folder / SUMS
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {name.lstrip("*").removeprefix("./"): value for value, name in pairs}  # sha256sum marks binary files by *


def record_sums(folder: Path, paths: Iterable[Path]) -> None:
    """Record the current checksums of files."""
    sums = known_sums(folder) | {path.relative_to(folder).as_posix(): digest(path) for path in paths}
    text = "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))
    write_atomically(folder / SUMS, [text.encode()])


# ---- Reading


def part_path(folder: Path, name: str, part: str) -> Path | None:
    """Return the file of a part, or None if it does not exist."""
    paths = (folder / name / f"{name}.{part}.libfm{ending}" for ending in (".gz", ""))
    return next((path for path in paths if path.exists()), None)


def is_ready(folder: Path, name: str) -> bool:
    """Tell whether all parts of a data set exist."""
    return all(part_path(folder, name, part) for part in PARTS)


def ready_names(folder: Path) -> list[str]:
    """Return the data sets in a directory, in the catalog or not."""
    return sorted(path.name for path in folder.glob("*") if path.is_dir() and is_ready(folder, path.name))


def part_paths(folder: Path, name: str) -> list[Path]:
    """Return the files of all parts; raise if one is missing."""
    paths = [part_path(folder, name, part) for part in PARTS]
    if None in paths:
        missing = PARTS[paths.index(None)]
        path = str(folder / name / f"{name}.{missing}.libfm.gz")
        raise FileNotFoundError(2, f"not found; run `python -m experiments.datasets get {name}`", path)
    return [path for path in paths if path is not None]


def load_prepared(folder: Path, name: str, n_columns: int | None = None) -> DataSet:
    """Read a data set; n_columns: keep only the first features of each row, those of the first fields."""
    task = task_of(folder, name)
    batches = [read_rows(path, task=task) for path in part_paths(folder, name)]
    if n_columns is not None:
        batches = [first_entries(batch, n_columns) for batch in batches]
    n_features = max(batch.n_features for batch in batches)  # a part may lack the largest ids
    train, valid, test = (batch.with_n_features(n_features) for batch in batches)
    return DataSet(name, task, (train, valid, test))


def first_entries(rows: CheckedRows, n_entries: int) -> CheckedRows:
    """Truncate each row to its first n_entries entries."""
    lengths = np.diff(rows.indptr)
    kept = np.arange(rows.indices.size) - np.repeat(rows.indptr[:-1], lengths) < n_entries
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, n_entries))])
    return check_batch(Batch(indptr, rows.indices[kept], rows.values[kept], rows.n_features, rows.labels, rows.weights))


def task_of(folder: Path, name: str) -> str:
    """Return the task of a data set: that of the catalog, or guessed from the first labels."""
    if name in CATALOG:
        return CATALOG[name].task
    labels = next(iterate_rows(part_paths(folder, name)[0])).labels
    return "binary" if np.isin(labels, (-1, 0, 1)).all() else "regression"


def check_prepared(folder: Path, name: str) -> dict[str, Any]:
    """Read all parts, verify recorded checksums and counts, and return a summary."""
    paths, sums = part_paths(folder, name), known_sums(folder)
    verified = [_check_sum(folder, path, sums) for path in paths]  # before parsing, which is slower
    found = load_prepared(folder, name)
    rows = {part: batch.n_rows for part, batch in zip(PARTS, found.parts)}
    recorded = folder / name / "stats.json"  # absent if the directory was filled by hand
    stats = json.loads(recorded.read_text()) if recorded.exists() else {}
    for part, size in rows.items():
        if size != stats.get("rows", rows).get(part, size):
            raise DataValueError(
                f"{part} has {counted(size, 'row')}, stats.json says {stats['rows'][part]}", str(folder / name)
            )
    if found.parts[0].n_features > stats.get("features", np.inf):
        raise DataValueError(f"an id exceeds the {stats['features']} features of stats.json", str(folder / name))
    return {"name": name, "task": found.task, "rows": rows, "verified": all(verified)}


def _check_sum(folder: Path, path: Path, sums: dict[str, str]) -> bool:
    expected = sums.get(path.relative_to(folder).as_posix())
    if expected is not None and digest(path) != expected:
        raise DataValueError(f"the checksum differs from that in {SUMS}; download the data set again", str(path))
    return expected is not None


def check_max_rows(max_rows: int | None) -> None:
    """Reject a number of rows that is too small to split."""
    if max_rows is not None and max_rows < 10:
        raise ConfigError(f"rows must be at least 10, found {max_rows}", key="rows")
