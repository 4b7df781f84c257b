"""Compiled passes over the numbers of a column, in which NaN is a missing value."""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from ..jit.compile import entry, kernel
from .interning import NULL

OTHER = -4  # code of a number that is not in the table, to be encoded in a second pass


@kernel()
def standardise(numbers, mean, spread, codes, values):
    """Set code 0 and the standardised number, or NULL and 1 if missing; return whether any is infinite."""
    infinite = False
    for i in range(numbers.size):
        missing = np.isnan(numbers[i])
        infinite |= np.isinf(numbers[i])
        codes[i] = NULL if missing else 0
        values[i] = 1 if missing else (numbers[i] - mean) / spread
    return infinite


@entry
def sum_known(numbers):
    """Return the sum of the numbers that are not missing."""
    total = 0.0
    for i in range(numbers.size):
        total += 0.0 if np.isnan(numbers[i]) else numbers[i]
    return total


@entry
def sum_squares(numbers, mean):
    """Return the sum of squared deviations from the mean."""
    total = 0.0
    for i in range(numbers.size):
        step = numbers[i] - mean
        total += 0.0 if np.isnan(step) else step * step
    return total


@kernel()
def code_wholes(numbers, table, codes, counts):
    """Set and count the codes of small integers, found in the table; NULL for NaN. Return whether any is OTHER."""
    others = False
    for i in range(numbers.size):
        x = numbers[i]
        if 0 <= x < table.size and x == np.floor(x):
            codes[i] = table[np.int64(x)]
            counts[codes[i]] += 1
        else:
            codes[i] = NULL if np.isnan(x) else OTHER
            others |= codes[i] == OTHER
    return others
