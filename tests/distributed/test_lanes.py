"""The plan of slots: every row once, in an order that only data, seed and steps decide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.distributed.lanes import SlotPlan, Unit, hold_out, visit_order
from rafm.plan.steps import step_size


def units_of(groups, unit_rows):
    units, row = [], 0
    for group, rows in enumerate(groups):
        for start in range(0, rows, unit_rows):
            stop = min(start + unit_rows, rows)
            units.append(Unit(0, group, start, stop, row))
            row += stop - start
    return units


@given(
    groups=st.lists(st.integers(1, 200), min_size=1, max_size=12),
    unit_rows=st.integers(1, 60),
    slots=st.integers(1, 6),
    slot_rows=st.integers(1, 40),
    done=st.integers(0, 400),
)
def test_an_epoch_visits_every_row_once(groups, unit_rows, slots, slot_rows, done):
    units = units_of(groups, unit_rows)
    visited = []
    for number, step in enumerate(SlotPlan(slot_rows, slots).steps(units, range(len(units)), 3, done)):
        assert 0 < sum(slot.rows for slot in step) <= step_size(done + number, slot_rows * slots)
        assert len({slot.lane for slot in step}) == len(step) <= slots
        for slot in step:
            assert slot.rows <= slot_rows
            for unit, start, stop in slot.pieces:
                order = visit_order(0, 3, unit, units[unit].rows)
                visited += (units[unit].first_row + order[start:stop]).tolist()
    assert sorted(visited) == list(range(sum(groups)))


def test_steps_are_whole_until_the_rows_run_out():
    units = units_of([100] * 10, 50)
    sizes = [sum(slot.rows for slot in step) for step in SlotPlan(8, 4).steps(units, range(20), 1, done=10**6)]
    assert sizes == [32] * 31 + [8]


def test_epochs_and_seeds_differ_and_repeat():
    units = units_of([40] * 8, 20)
    cases = [(0, 1), (0, 1), (0, 2), (1, 1)]
    plans = [[*SlotPlan(8, 4, seed).steps(units, range(16), epoch, 100)] for seed, epoch in cases]
    assert plans[0] == plans[1]
    assert len({str(plan) for plan in plans}) == 3


def test_a_resumed_epoch_takes_the_same_steps():
    units = units_of([1500, 200], 64)
    whole = [*SlotPlan(16, 4).steps(units, range(len(units)), 1, done=0)]
    assert len({len(step) for step in whole}) > 1  # short steps first
    assert [*SlotPlan(16, 4).steps(units, range(len(units)), 1, done=0)][7:] == whole[7:]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_units_are_held_out_by_seed(share):
    train, held = hold_out(20, share, seed=4)
    assert sorted(train + held) == list(range(20))
    assert len(held) == 20 * share
    assert hold_out(20, share, seed=4) == (train, held)
    assert np.all(np.diff(held) > 0)
