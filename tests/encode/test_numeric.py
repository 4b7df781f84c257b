"""One pass over the numbers of a column finds what NumPy finds in many."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.encode.coders import MAX_SPAN, log_bin
from rafm.encode.interning import NULL
from rafm.encode.learners import LogBinsLearner
from rafm.encode.numeric import standardise, sum_known, sum_squares
from rafm.errors import DataValueError

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
    assert not bad
    np.testing.assert_array_equal(codes, slow_codes)
    np.testing.assert_array_equal(values.view(np.int32), slow_values.view(np.int32))


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_an_infinite_number_is_told(infinite):
    assert standardised([0.5, np.nan, infinite, 1.0], 0.0, 1.0)[0]


@given(st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), max_size=200), st.floats(-1e9, 1e9))
def test_sums_leave_out_what_is_missing(cells, mean):
    cells, known = np.array(cells, np.float64), [cell for cell in cells if not math.isnan(cell)]
    assert sum_known(cells) == pytest.approx(math.fsum(known), rel=1e-12, abs=1e-13 * math.fsum(map(abs, known)))
    assert sum_squares(cells, mean) == pytest.approx(math.fsum((cell - mean) ** 2 for cell in known), rel=1e-12)


counts = st.integers(-3, MAX_SPAN + 3) | st.floats(-1e6, 1e300) | st.just(math.nan)


@given(st.lists(st.lists(counts, max_size=30), min_size=1, max_size=4), st.integers(1, 3))
def test_log_bins_are_those_of_each_number_alone(blocks, min_count):
    learner, kept = LogBinsLearner("x", min_count), []
    for block in blocks:
        missing = [place for place, count in enumerate(block) if math.isnan(count)]
        assert learner.update(pa.array(block, pa.float64()), 0) == (missing[0] if missing else -1)
        kept.append(learner.codes)
    coder, left_out = learner.finish()
    found = [[log_bin(np.array([count]))[0] for count in block if not math.isnan(count)] for block in blocks]
    seen = [bin for block in found for bin in block]
    often = sorted({bin for bin in seen if seen.count(bin) >= min_count})
    assert list(coder.bins) == often
    assert left_out == (len(often) < len(set(seen)))
    codes = [code for own in kept for code in learner.final_codes[own] if code != NULL]
    assert codes == [often.index(bin) if bin in often else -1 for bin in seen]


def test_an_infinite_count_is_refused_by_its_row():
    with pytest.raises(DataValueError, match="column 'x', row 13: -inf is not finite"):
        LogBinsLearner("x", 1).update(pa.array([3.0, None, -math.inf, math.inf]), 10)
