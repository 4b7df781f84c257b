"""Compiled code that reads decimal digits, eight bytes at a time.

text, at   uint8 and a position in it; the caller guarantees that the bytes up to at + WORD_BYTES exist
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from ..jit.compile import helper
from ..jit.vectors import trailing_zeros

WORD_BYTES = 8
TENS = np.array([10**k for k in range(WORD_BYTES + 1)])
# The same byte eight times: "0", what carries a non-digit into the top bit, and the top bit.
ZEROS, SEVENS, TOPS = (np.uint64(byte * (2**64 // 255)) for byte in (0x30, 0x76, 0x80))
PAIRS, FOURS, EIGHT = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)

# Without reference counts on the arrays, which would cost more than reading the digits.
inlined, called = helper(forceinline=True), helper()


@inlined
def peek(text, at):
    """Return the byte at a position; an unsigned index avoids the check for negative ones."""
    return text[np.uint64(at)]


@inlined
def peek4(text, at):
    """Return four bytes as one number, the first one lowest."""
    a, b = np.uint64(peek(text, at)), np.uint64(peek(text, at + 1))
    c, d = np.uint64(peek(text, at + 2)), np.uint64(peek(text, at + 3))
    return a | b << np.uint64(8) | c << np.uint64(16) | d << np.uint64(24)


@inlined
def load_word(text, at):
    """Return eight bytes as one number, the first one lowest; compiles to a single load."""
    low = peek4(text, at)
    return low | peek4(text, at + 4) << np.uint64(32)


@inlined
def count_digits(word):
    """Return the number of leading digits in a word that was xored with ZEROS.

    A byte below ten plus 0x76 stays below 0x80 and carries nothing; a carry from another byte affects only later ones.
    """
    return trailing_zeros(((word + SEVENS) | word) & TOPS) >> np.uint64(3)


@inlined
def join_digits(word, n_digits):
    """Return the number formed by the first one to eight digits of a word.

    Neighbours are joined to numbers of two, four and eight digits.
    """
    word <<= np.uint64(64) - np.uint64(8) * n_digits  # the zeros shifted in act as leading zeros
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & PAIRS
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & FOURS
    word = (word * np.uint64(10000) + (word >> np.uint64(32))) & EIGHT
    return np.int64(word)


@inlined
def digits_of(word):
    """Return the number of leading digits among eight bytes, and their value."""
    word ^= ZEROS
    n_digits = count_digits(word)
    return np.int64(n_digits), join_digits(word, n_digits) if n_digits > 0 else 0


@inlined
def take_word(text, at):
    """Return the number of leading digits in the next eight bytes, and their value."""
    return digits_of(load_word(text, at))
