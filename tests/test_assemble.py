"""Kernels that make entries of cells do what NumPy does in many steps, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.data.assemble import standardise, take_codes
from rafm.data.interning import NULL

numbers = st.floats(width=64, allow_infinity=False)


def standardise_slowly(cells, mean, spread):
    missing = np.isnan(cells)
    with np.errstate(over="ignore"):
        values = ((cells - mean) / spread).astype(np.float32)
    return np.where(missing, NULL, 0), np.where(missing, np.float32(1), values)


def standardised(cells, mean, spread):
    cells = np.array(cells, np.float64)
    cells.flags.writeable = False
    codes, values = np.empty(cells.size, np.int32), np.empty(cells.size, np.float32)
    return standardise(cells, mean, spread, codes, values), codes, values


@given(st.lists(numbers), st.floats(-1e100, 1e100), st.floats(1e-100, 1e100))
def test_standardised_numbers_are_those_of_numpy_to_the_bit(cells, mean, spread):
    bad, codes, values = standardised(cells, mean, spread)
    slow_codes, slow_values = standardise_slowly(np.array(cells), mean, spread)
    assert bad == -1
    np.testing.assert_array_equal(codes, slow_codes)
    np.testing.assert_array_equal(values.view(np.int32), slow_values.view(np.int32))


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_the_first_infinite_number_is_told(infinite):
    assert standardised([0.5, np.nan, infinite, 1.0, -infinite], 0.0, 1.0)[0] == 2


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_codes_are_taken_from_a_table_and_negative_ones_from_its_end(kind):
    table, out = np.array([5, 6, 7, -1, -9], np.int32), np.empty(4, np.int32)
    codes = np.array([2, 0, -2, -1], kind)
    codes.flags.writeable = False
    take_codes(table, codes, out)
    assert out.tolist() == table[codes].tolist() == [7, 5, -1, -9]
