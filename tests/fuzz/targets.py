"""What the readers must do with any bytes at all. Run one target, or `all`, with atheris, guided by coverage:

    NUMBA_DISABLE_JIT=1 python tests/fuzz/targets.py libsvm [folder of examples] [-runs=10000]

Each target reads the same bytes in several ways that must agree, and lets no error pass but ours.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

PATH = os.path.join(tempfile.gettempdir(), f"rafm-fuzz-{os.getpid()}")


def write(data: bytes) -> str:
    """Write the bytes to a file and return its path."""
    with open(PATH, "wb") as file:
        file.write(data)
    return PATH


def collect(read: Callable[..., Any], rows_of: Callable[[Any], list], data: bytes, **options: Any) -> tuple[list, str]:
    """Return the rows that a reader yields and what it raises in the end."""
    from rafm.errors import RafmError

    rows, message = [], ""
    try:
        for part in read(write(data), **options):
            rows += rows_of(part)
    except RafmError as error:
        message = str(error)
    assert "\n" not in message, "an error is one line"
    return rows, message


def text_rows(part: Any) -> list:
    """Return rows of ids as lists, after checking what TextRows promises."""
    import numpy as np

    assert np.isfinite(part.values).all()
    assert np.isfinite(part.labels).all()
    pairs = list(zip(part.indices.tolist(), part.values.tolist()))
    fields = [0] * len(pairs) if part.fields is None else part.fields.tolist()
    entries = list(zip(pairs, fields))
    spans = zip(part.lines.tolist(), part.labels.tolist(), part.indptr[:-1].tolist(), part.indptr[1:].tolist())
    rows = [(line, label, entries[a:b]) for line, label, a, b in spans]
    for _, _, row in rows:
        ids = [number for (number, _), _ in row]
        assert ids == sorted(set(ids))
    return rows


def around(read: Callable[..., Any], rows_of: Callable[[Any], list], data: bytes, **options: Any) -> tuple[list, list]:
    """Return the rows that a reader yields around bad lines, and those lines, in order."""
    bad: list = []
    rows, message = collect(read, rows_of, data, on_bad=bad.append, **options)
    assert not message or not rows, "nothing is raised behind the first row"
    return rows, sorted((error.line or 0, str(error)) for error in bad)


def check_around(whole: tuple[list, str], found: tuple[list, list]) -> None:
    """Compare a reading that stops at the first bad line with one that goes on."""
    (rows, message), (more, bad) = whole, found
    assert more[: len(rows)] == rows
    assert bool(bad) == bool(message) or not more
    assert bad or more == rows


def fuzz_libsvm(data: bytes) -> None:
    from rafm.read.libsvm.reader import iterate_rows

    whole = collect(iterate_rows, text_rows, data, threads=1)
    assert whole == collect(iterate_rows, text_rows, data, chunk_bytes=5, threads=1)
    found = around(iterate_rows, text_rows, data, threads=1)
    assert found == around(iterate_rows, text_rows, data, chunk_bytes=5, threads=1)
    check_around(whole, found)


def fuzz_libffm(data: bytes) -> None:
    from rafm.read.libsvm.reader import iterate_rows

    iterate_libffm = functools.partial(iterate_rows, has_fields=True)
    whole = collect(iterate_libffm, text_rows, data, threads=1, duplicates="sum", index_base=1)
    assert whole == collect(iterate_libffm, text_rows, data, threads=1, duplicates="sum", index_base=1, chunk_bytes=5)
    check_around(whole, around(iterate_libffm, text_rows, data, threads=1, duplicates="sum", index_base=1))


def fuzz_delimited(data: bytes) -> None:
    from rafm.read.csv.reader import read_delimited

    def table_rows(batch: Any) -> list:
        batch.validate(full=True)
        return [tuple(row.values()) for row in batch.to_pylist()]

    for quoting in (True, False):
        options = {"delimiter": ",", "header": False, "quoting": quoting, "columns": {"c1": "text"}}
        rows, error = collect(read_delimited, table_rows, data, **options)
        parts, same = collect(read_delimited, table_rows, data, batch_bytes=7, **options)
        assert (rows, error) == (parts, same)
        if quoting:
            more, bad = around(read_delimited, table_rows, data, **options)  # types are learnt from more rows
            check_around(([None] * len(rows), error), ([None] * len(more), bad))
    collect(read_delimited, table_rows, data)


def fuzz_source(data: bytes) -> None:
    from rafm.read.compression import open_bytes
    from rafm.read.detect import detect_format

    def pieces(path: str, size: int) -> Any:
        with open_bytes(path) as source:
            yield from iter(lambda: source.read(size), b"")

    whole = collect(pieces, list, data, size=10**6)
    assert whole == collect(pieces, list, data, size=3)
    collect(lambda path: [detect_format(path)], list, data)


TARGETS = {name.removeprefix("fuzz_"): target for name, target in globals().items() if name.startswith("fuzz_")}


def fuzz_all(data: bytes) -> None:
    """Give the same bytes to every reader."""
    for target in TARGETS.values():
        target(data)


def main() -> None:
    """Let atheris feed a target; the modules of readers are instrumented, compiled ones only where interpreted."""
    import atheris

    target = {**TARGETS, "all": fuzz_all}[sys.argv.pop(1)]
    with atheris.instrument_imports(include=["rafm.read"]):
        import rafm.read.csv.reader
        import rafm.read.detect
        import rafm.read.libsvm.reader  # noqa: F401
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
