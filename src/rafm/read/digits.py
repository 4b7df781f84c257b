"""Compiled code that reads decimal digits, eight bytes at a time.

text, at   uint8 and a position in it; the caller sees to it that the bytes up to at + WORD_BYTES are there
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np

from ..jit.cache import kernel
from ..jit.vectors import trailing_zeros

WORD_BYTES = 8
TENS = np.array([10**k for k in range(WORD_BYTES + 1)])
ZEROS, SEVENS, TOPS = (np.uint64(byte * (2**64 // 255)) for byte in (0x30, 0x76, 0x80))
PAIRS, FOURS, EIGHT = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)

# Inner functions do not count references, which would cost more than the reading.
inlined, called = kernel(forceinline=True, _nrt=False), kernel(_nrt=False)


@inlined
def peek(text, at):
    """Return the byte at a position; an unsigned index spares the check for one from the end."""
    return text[np.uint64(at)]


@inlined
def peek4(text, at):
    """Return four bytes as one number, the first one lowest."""
    a, b = np.uint64(peek(text, at)), np.uint64(peek(text, at + 1))
    c, d = np.uint64(peek(text, at + 2)), np.uint64(peek(text, at + 3))
    return a | b << np.uint64(8) | c << np.uint64(16) | d << np.uint64(24)


@inlined
def load_word(text, at):
    """Return eight bytes as one number, the first one lowest; the compiler makes one load of it."""
    low = peek4(text, at)
    return low | peek4(text, at + 4) << np.uint64(32)


@inlined
def count_digits(word):
    """Return how many bytes of a word that was xored with ZEROS come before the first that is no digit.

    A byte below ten, plus 0x76, stays below 0x80 and carries nothing; what others carry comes behind the first of them.
    """
    return trailing_zeros(((word + SEVENS) | word) & TOPS) >> np.uint64(3)


@inlined
def join_digits(word, n_digits):
    """Return the number that the first digits of a word make, at most eight, at least one.

    They are pushed to the top, and neighbours are joined to numbers of two, four and eight digits.
    """
    word <<= np.uint64(64) - np.uint64(8) * n_digits
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & PAIRS
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & FOURS
    word = (word * np.uint64(10000) + (word >> np.uint64(32))) & EIGHT
    return np.int64(word)


@inlined
def digits_of(word):
    """Return how many of eight bytes are digits before the first that is none, and their number."""
    word ^= ZEROS
    n_digits = count_digits(word)
    return np.int64(n_digits), join_digits(word, n_digits) if n_digits > 0 else 0


@inlined
def take_word(text, at):
    """Return the same of the next eight bytes."""
    return digits_of(load_word(text, at))
