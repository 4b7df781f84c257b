"""Kernels are made for the processor that Numba is told to compile for; `.ci/run` tells it two old ones."""

import os

import pytest
from worlds import run_python

REGISTERS = {"x86-64-v2": ["xmm"], "haswell": ["xmm", "ymm"]}  # vectors of 128 and 256 bits; those of 512 are zmm
TRAIN = """
import re
import numpy as np
from rafm import RaFMClassifier
from rafm.kernels.training import train_rows
RaFMClassifier(model="fm", ranks=16, n_epochs=1, validation_fraction=0).fit(np.eye(40), np.arange(40) % 2)
print(*sorted(set(re.findall(r"%([xyz]mm)\\d", "".join(train_rows.dispatcher.inspect_asm().values())))))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_CPU_NAME") not in REGISTERS, reason="Numba compiles for this processor")
def test_training_uses_the_registers_of_the_processor_that_is_named(tmp_path):
    found = run_python("-c", TRAIN, NUMBA_CACHE_DIR=str(tmp_path))  # an empty one: cached code has no assembly
    assert found.split() == REGISTERS[os.environ["NUMBA_CPU_NAME"]]
