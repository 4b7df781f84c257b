"""Run the command line: in this process, which is quick, or in a fresh one, for what only a process can show."""

import contextlib
import functools
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from unittest import mock

import numpy as np
from warm import start_python

from rafm.cli import main
from rafm.cli.compiling import NOTE
from rafm.read.libsvm import reader


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self):
        """Return the last line of the output, which must be JSON without NaN."""
        return json.loads(self.out.splitlines()[-1], parse_constant=lambda name: AssertionError(name))

    def error(self):
        """Return the message of a failure, which must be one line and nothing else."""
        assert self.code not in (0, 1), self
        assert self.out == "", self
        assert self.err.startswith("error: "), self
        assert self.err.count("\n") == 1, self
        assert self.err.endswith("\n"), self
        return self.err.removeprefix("error: ").rstrip("\n")


def without_note(err):
    """Return what a command said on stderr but for the note that it compiles, which depends on what is cached."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith(NOTE))


def run(*arguments, stdin=b"", main=main):
    """Run `rafm`, or another program, with these arguments in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin)) if stdin is not None else None
    changes = {"argv": ["rafm", *map(str, arguments)], "stdin": given}
    with mock.patch.multiple(sys, **changes), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
    out.flush()
    return Ran(code or 0, out.buffer.getvalue().decode(), without_note(err.getvalue()))


WITHIN_LIMITS = """
import resource, runpy, sys
_, name, size, *arguments = sys.argv
resource.setrlimit(getattr(resource, name), (int(size), int(size)))
sys.argv = ["rafm", *arguments]
runpy.run_module("rafm", run_name="__main__", alter_sys=True)
"""


def start(*arguments, options=(), limit=None, environment=None, **settings):
    """Start `python -m rafm` in a process of its own that finds the same packages.

    options: of the interpreter. limit: a resource of setrlimit and its size.
    """
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    program = ["-m", "rafm"] if limit is None else ["-c", WITHIN_LIMITS, limit[0], limit[1]]
    return start_python(*options, *program, *arguments, environment=environment, **settings)


def finish(process, stdin=None):
    """Wait for a process; return what it left behind."""
    out, err = process.communicate(stdin, timeout=600)
    return Ran(process.returncode, out.decode(), without_note(err.decode()))


def run_alone(*arguments, **settings):
    """Run `rafm` with these arguments in a fresh process, to its end."""
    return finish(start(*arguments, stdin=subprocess.DEVNULL, **settings))


def read_in_pieces(monkeypatch, n_bytes):
    """Let libsvm text be read in pieces of about n_bytes."""
    monkeypatch.setattr(reader, "iterate_rows", functools.partial(reader.iterate_rows, chunk_bytes=n_bytes))


def rows_of_pairs(n_rows=600, seed=0, labels=("0", "1"), base=0):
    """Return libsvm text of two fields; the label is whether their ids are both even or both odd, with some noise."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 12, n_rows), 12 + rng.integers(0, 10, n_rows)
    truth = ((users + items) % 2 == 0) ^ (rng.random(n_rows) < 0.05)
    return "".join(f"{labels[int(y)]} {u + base}:1 {i + base}:1\n" for y, u, i in zip(truth, users, items))
