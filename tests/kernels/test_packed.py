"""Packed vectors score as the definition does with the same vectors in floats."""

import copy
import json
from pathlib import Path

import naive
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from worlds import make_world, pack_rows, run_python, worlds_with_rows

from rafm.compress.quantise import quantised
from rafm.model.scores import score_packed
from rafm.plan.packed_layout import PackedLayout

FAMILIES = ("rafm", "difacto", "fm")


def packed_world(world, bits):
    """Return the world's blocks with few bits, and the equations with the same numbers."""
    weights, factors = world.arrays(np.float32)
    blocks, model = [quantised(block, bits) for block in factors], copy.deepcopy(world.model)
    for known, block in zip(model["v"], blocks):
        for i, vector in enumerate(np.asarray(block, float)):
            known[i] = vector
    return (weights, blocks), model


def scores_of(world, parts, rows, bits, level=None):
    layout = PackedLayout(world.plan, False, bits=bits)
    records, weights = layout.pack(*parts), None
    if "t" in world.model:
        layout.put_fields(records, world.model["fields"])
        weights = world.model["t"].astype(np.float32)
    stored, bias = (records, layout.codes(records)), np.float32(world.model["bias"])
    return score_packed(pack_rows(rows, dtype=np.float32), layout.tables(), stored, bias, level, weights)


def check(world, rows, bits):
    parts, model = packed_world(world, bits)
    for found, row in zip(scores_of(world, parts, rows, bits), rows):
        assert abs(found - naive.score(model, row)) <= 2e-6 * (1 + naive.score_size(model, row))


@pytest.mark.parametrize("bits", [16, 8, 6, 4])
@examples(0.4)
@given(drawn=worlds_with_rows(families=(*FAMILIES, "lr")))
def test_scores_match_the_definition(bits, drawn):
    check(*drawn, bits)


@pytest.mark.parametrize("bits", [8, 4])
@examples(0.4)
@given(drawn=worlds_with_rows(families=FAMILIES, max_fields=4))
def test_scores_with_field_weights_match_the_definition(bits, drawn):
    check(*drawn, bits)


@examples(0.2)
@given(drawn=worlds_with_rows(families=("rafm",)), bits=st.sampled_from([8, 4]))
def test_a_level_of_a_packed_rafm_is_that_of_the_paper(drawn, bits):
    world, rows = drawn
    parts, model = packed_world(world, bits)
    for level in range(1, world.plan.n_levels + 1):
        for found, row in zip(scores_of(world, parts, rows, bits, level), rows):
            expected = naive.rafm_score(model, row, 1, level)
            assert abs(found - expected) <= 2e-6 * (1 + naive.score_size(model, row))


def test_records_of_few_bits_are_small():
    """Rank 64 with 4 bits: 8 elements of codes, weight, scale and norm in one cache line instead of five."""
    plan = make_world("fm", (64,), [1] * 5).plan
    strides = [PackedLayout(plan, False, bits=bits).strides[1] for bits in (16, 8, 6, 4)]
    assert strides == [48, 32, 32, 16]


PLAIN = """
import json
import numpy as np
import test_packed as here
from worlds import make_world, random_rows

errors = []
for bits in (16, 8, 4):
    for n_fields in (0, 3):
        world = make_world("rafm", (3, 9, 17), [3, 3, 3, 2, 2, 1, 1, 0], seed=bits, n_fields=n_fields)
        here.check(world, random_rows(np.random.default_rng(0), 8, 5, 8), bits)
        errors.append(bits)
print(json.dumps(errors))
"""


def test_the_plain_twins_score_alike():
    """Uncompiled, as with bounds checks: the same checks on other code."""
    found = run_python("-c", PLAIN, path=Path(__file__).parent, NUMBA_DISABLE_JIT="1")
    assert json.loads(found) == [16, 16, 8, 8, 4, 4]
