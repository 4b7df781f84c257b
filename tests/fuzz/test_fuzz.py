"""Any bytes at all: examples, mutations of them with a fixed seed, and a short run of atheris where it is installed."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
PIECES = [b"", b"\n", b"\r", b" ", b":", b"#", b'"', b",", b"-", b".", b"e9", b"0", b"\0", b"\xff", b"\xef\xbb\xbf"]


@pytest.fixture(scope="module")
def targets():
    """Import the targets from the file beside this one."""
    spec = importlib.util.spec_from_file_location("fuzz_targets", HERE / "targets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.TARGETS
    Path(module.PATH).unlink(missing_ok=True)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Return the bytes with up to four short pieces replaced."""
    mutant = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randint(0, len(mutant))
        mutant[at : at + draw.randint(0, 3)] = draw.choice([*PIECES, draw.randbytes(2)])
    return bytes(mutant)


NAMES = sorted(folder.name for folder in (HERE / "corpus").iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rafm.errors.DataWarning")
@pytest.mark.parametrize("name", NAMES)
def test_examples_and_their_mutants_are_read_or_refused(targets, name):
    examples = sorted((HERE / "corpus" / name).iterdir())
    draw = random.Random(name)
    for example in examples:
        data = example.read_bytes()
        targets[name](data)
        for _ in range(15):
            targets[name](mutate(data, draw))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_what_coverage_leads_to_is_read_or_refused(tmp_path):
    """All readers get the same bytes: one process imports and instruments them."""
    (tmp_path / "corpus").mkdir()
    for name in NAMES:
        for example in (HERE / "corpus" / name).iterdir():
            shutil.copy(example, tmp_path / "corpus" / f"{name} {example.name}")
    options = ["-seed=1", "-runs=100", "-max_len=200", "-max_total_time=20", f"-artifact_prefix={tmp_path}/"]
    process = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "targets.py", "all", tmp_path / "corpus", *options],
        env=os.environ | {"PYTHONPATH": str(SRC), "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert "INFO: Instrumenting rafm.read." in process.stderr
