"""Codes of kept cells are looked up as NumPy does."""

import numpy as np
import pytest

from rafm.encode.assemble import take_codes


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_codes_are_taken_from_a_table_and_negative_ones_from_its_end(kind):
    table, out = np.array([5, 6, 7, -1, -9], np.int32), np.empty(4, np.int32)
    codes = np.array([2, 0, -2, -1], kind)
    codes.flags.writeable = False
    take_codes(table, codes, out)
    assert out.tolist() == table[codes].tolist() == [7, 5, -1, -9]
