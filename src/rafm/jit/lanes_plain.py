"""Run formulas of vectors.py uncompiled, on arrays of all elements instead of lanes."""

# mypy: ignore-errors
import numpy as np


class Register:
    """A value that a loop changes."""

    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value

    def set(self, value):
        self.value = value


class Vector:
    """A vector in an array."""

    def __init__(self, array, place, size):
        if not 0 <= place <= array.size - size:
            raise IndexError("a vector is out of bounds")
        self.elements = array[place : place + size]

    def get(self):
        return Sum(self.elements.copy())

    def set(self, value):
        self.elements[:] = value


class Sum(np.ndarray):
    """Elements that can also be added as `plus` does."""

    def __new__(cls, elements):
        return elements.view(cls)

    def plus(self, other):
        return self + other


class Lanes:
    """All lanes of a formula at once."""

    def __init__(self, size, element, n_terms):
        self.size, self.element = size, element
        self.totals = [element(0)] * n_terms

    def zero(self):
        return np.zeros(self.size, self.element).view(Sum)

    def register(self, value):
        return Register(value)

    def at(self, array, *places):
        return Vector(array, sum(places), self.size)

    def item(self, array, *places):
        return array[sum(places)]

    def add(self, left, right, slot=0):
        self.totals[slot] += np.add.reduce(left * right, dtype=self.element)

    def set_item(self, array, place, number):
        array[place] = number

    def norm(self, vector):
        return np.add.reduce(vector * vector, dtype=self.element)

    def root(self, number):
        return np.sqrt(number)

    def absolute(self, value):
        return np.abs(value)

    def exp_neg(self, size):
        return np.exp(-size)

    def log_1p(self, small):
        return np.log1p(small)

    def turns(self, count):
        return range(count)


class Codes(Lanes):
    """Vectors that are stored as codes."""

    def codes(self, array, *places):
        return Vector(array, sum(places) * (4 // array.itemsize), self.size).get().astype(self.element)


class Halves(Lanes):
    """Vectors of two codes in each byte: code f in the lower half of byte f, f + n / 2 in the upper one."""

    def codes(self, array, *places):
        both = Vector(array, sum(places) * 4, self.size // 2).get().astype(np.int64)
        numbers = np.concatenate([both & 15, both >> 4])
        return ((numbers ^ 8) - 8).astype(self.element).view(Sum)  # 8 .. 15 are negative


def operation(parameters, n_terms, width, kind, formula):
    """Return the operation of a formula as a Python function."""
    at, first = parameters.index("#n"), parameters.index("sums" if "sums" in parameters else "left")

    def call(*arguments):
        given, size = [*arguments[:at], *arguments[at + 1 :]], arguments[at]
        lanes = kind(int(size), given[first].dtype.type, n_terms)
        formula(lanes, *given)
        if n_terms < 2:
            return lanes.totals[0] if n_terms else None
        return tuple(lanes.totals)

    return call


def prefetch(array, position):
    """Do nothing: prefetching is a hint."""


prefetch_shared = prefetch


def trailing_zeros(word):
    """Return the number of trailing zero bits, 64 for 0."""
    n = np.uint64(0)
    while n < np.uint64(64) and not (word >> n) & np.uint64(1):
        n += np.uint64(1)
    return n


def count_ones(word):
    """Return the number of 1 bits."""
    n = np.uint64(0)
    while word:
        word &= word - np.uint64(1)  # clears the lowest 1 bit
        n += np.uint64(1)
    return n


def match_bytes(text, position, byte):
    """Return a bit mask of where the 64 bytes of text from position on equal byte; the lowest bit is the first byte."""
    bits = np.uint64(0)
    for place in range(64):
        bits |= np.uint64(text[position + place] == byte) << np.uint64(place)
    return bits
