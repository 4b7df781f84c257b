"""Does the server keep to its published schema? Schemathesis sends requests that follow it, and ones that break it.

    python -m benchmarks.serve_schema [examples per operation]

Needs `pip install schemathesis`. Runs against a model of a table with a column of every kind, and against one of ids.
Anything but 0 failures is a mismatch between the schema and the server; benchmarks/schemathesis.toml says what counts.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.arguments import numbers_asked_for
from benchmarks.serving import serving
from rafm import RaFMClassifier

ROWS = 400
SETTINGS = Path(__file__).with_name("schemathesis.toml")
KINDS = {
    "user": "category",
    "price": "number",
    "size": {"kind": "bins", "n_bins": 5},
    "visits": "log_bins",
    "agent": {"kind": "category", "hash_size": 16},
    "tags": {"kind": "list"},
    "when": "datetime",
}


def table_of_every_kind() -> pa.Table:
    """Return a table with a column of every kind."""
    draw = np.random.default_rng(0)
    begin = datetime.datetime(2024, 1, 1)
    return pa.table(
        {
            "word": [f"w{number}" for number in draw.integers(0, 9, ROWS)],
            "user": draw.integers(0, 50, ROWS),
            "price": draw.normal(5, 2, ROWS),
            "size": pa.array(draw.lognormal(0, 2, ROWS), mask=draw.random(ROWS) < 0.1),
            "visits": draw.integers(0, 100, ROWS),
            "agent": [f"agent {number}" for number in draw.integers(0, 99, ROWS)],
            "tags": [[f"t{tag}" for tag in draw.integers(0, 9, draw.integers(0, 4))] for _ in range(ROWS)],
            "when": [begin + datetime.timedelta(hours=int(hour)) for hour in draw.integers(0, 999, ROWS)],
            "is_new": draw.random(ROWS) < 0.5,
        }
    )


def check(model: Path, n_examples: str) -> int:
    """Run schemathesis against a server of the model; return its exit code."""
    program = Path(sysconfig.get_path("scripts"), "schemathesis")
    with serving(model, "--max-rows", 500) as server:
        address = f"http://127.0.0.1:{server.port}/openapi.json"
        given = ["--max-examples", n_examples, "--continue-on-failure", "--request-timeout", "60"]
        command = [str(program) if program.exists() else "schemathesis", "--config-file", str(SETTINGS), "run", address]
        return subprocess.run([*command, *given, "--phases", "examples,coverage,fuzzing"]).returncode


def main(n_examples: str) -> int:
    """Check both kinds of models; return the sum of the exit codes."""
    warnings.simplefilter("ignore")
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 2, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        by_table, by_id = Path(folder, "table.rafm"), Path(folder, "ids.rafm")
        RaFMClassifier(ranks=4, model="fm", n_epochs=1, columns=KINDS).fit(table_of_every_kind(), labels).save(by_table)
        RaFMClassifier(ranks=4, model="fm", n_epochs=1).fit(draw.random((ROWS, 20)), labels).save(by_id)
        return check(by_table, n_examples) + check(by_id, n_examples)


if __name__ == "__main__":
    sys.exit(main(*map(str, numbers_asked_for(__doc__, examples=100))))
