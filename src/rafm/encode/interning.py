"""Compiled code of the string table: hashing, interning, lookup. See strings.py.

text, ends    the distinct strings concatenated, and where each ends
slots         open addressing, two numbers per slot: 0 if empty, else size << 32 | id + 1; and the word
used          two numbers: how many strings there are, how many bytes they take
word          a string of up to eight bytes itself, so that only longer ones are compared with the text; else its hash
hash          XXH64 with seed 0, which reads little-endian words on every machine
at, end       unsigned positions of the bytes of a string; unsigned indices avoid the check for negative ones
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compile import compiled, entry
from ..jit.vectors import prefetch

UNKNOWN, NULL = -1, -2
BLOCK = 32  # strings whose slots are prefetched together
FULL = 0.75  # maximum share of used slots

P1, P2, P3, P4, P5 = (  # the primes of XXH64
    np.uint64(prime)
    for prime in (
        11400714785074694791,
        14029467366897019727,
        1609587929392839161,
        9650029242287828579,
        2870177450012600261,
    )
)
U0, U1, U4, U8, U32 = (np.uint64(number) for number in (0, 1, 4, 8, 32))
LOW_HALF, ALL_BITS = np.uint64(2**32 - 1), np.uint64(2**64 - 1)


class Strings(NamedTuple):
    """An Arrow array as its buffers: string i is data[offsets[i] : offsets[i + 1]].

    validity: one bit per string, that of the first at `shift`; empty if none is null.
    """

    data: np.ndarray
    offsets: np.ndarray
    validity: np.ndarray
    shift: int


class Slots(NamedTuple):
    """The arrays of a table; see the top of this file."""

    text: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    used: np.ndarray


@compiled
def load_word(data, at, size):
    """Return `size` bytes as a little-endian number."""
    word = U0
    for byte in range(size):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@compiled
def rotate(word, bits):
    """Return the word rotated to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@compiled
def mix_lane(lane, word):
    """Mix one word into a lane of XXH64."""
    return rotate(lane + word * P2, 31) * P1


@compiled
def hash_stripes(data, at, end):
    """Hash the whole stripes of 32 bytes; return where they end and the merged lanes."""
    a, b, c, d = P1 + P2, P2, U0, U0 - P1
    while at + U32 <= end:
        a = mix_lane(a, load_word(data, at, 8))
        b = mix_lane(b, load_word(data, at + U8, 8))
        c = mix_lane(c, load_word(data, at + U8 + U8, 8))
        d = mix_lane(d, load_word(data, at + U8 + U8 + U8, 8))
        at += U32
    total = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)
    for lane in (a, b, c, d):
        total = (total ^ mix_lane(U0, lane)) * P1 + P4
    return at, total


@compiled
def hash_bytes(data, at, end):
    """Return XXH64 of data[at:end] with seed 0."""
    size, total = end - at, P5
    if size >= U32:
        at, total = hash_stripes(data, at, end)
    total += size
    while at + U8 <= end:
        total = rotate(total ^ mix_lane(U0, load_word(data, at, 8)), 27) * P1 + P4
        at += U8
    if at + U4 <= end:
        total = rotate(total ^ (load_word(data, at, 4) * P1), 23) * P2 + P3
        at += U4
    while at < end:
        total = rotate(total ^ (np.uint64(data[at]) * P5), 11) * P1
        at += U1
    total = (total ^ (total >> np.uint64(33))) * P2
    total = (total ^ (total >> np.uint64(29))) * P3
    return total ^ (total >> U32)


@compiled
def is_null(strings, i):
    """Tell whether string i is null."""
    bit = strings.shift + i
    return strings.validity.size > 0 and not (strings.validity[bit >> 3] >> (bit & 7)) & 1


@compiled
def same_bytes(left, i, right, j, size):
    """Tell whether left[i : i + size] equals right[j : j + size]."""
    done = U0
    while done + U8 <= size:
        if load_word(left, i + done, 8) != load_word(right, j + done, 8):
            return False
        done += U8
    while done < size:
        if left[i + done] != right[j + done]:
            return False
        done += U1
    return True


@compiled
def word_of(data, at, end):
    """Return the word of data[at:end]; a short string is padded with zeros."""
    size = end - at
    if size > U8:
        return hash_bytes(data, at, end)
    if at + U8 <= np.uint64(data.size):  # one load, unless it would read past the end
        return load_word(data, at, 8) & (ALL_BITS >> ((U8 - size) * U8) if size > U0 else U0)
    word = U0
    for byte in range(size):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@compiled
def first_slot(word, size, slots):
    """Return the first slot to probe; the word of a short string is mixed, that of a long one is already a hash."""
    if size <= U8:
        word = (word ^ (size * P4)) * P1
        word = (word ^ (word >> U32)) * P2
        word ^= word >> U32
    return word & np.uint64(slots.size // 2 - 1)


@compiled
def next_slot(slot, slots):
    """Return the next slot to probe."""
    return (slot + U1) & np.uint64(slots.size // 2 - 1)


@compiled
def is_string(table, number, data, at, end):
    """Tell whether a string of the table is data[at:end]."""
    begin = np.uint64(table.ends[number - 1]) if number > 0 else U0
    size = np.uint64(table.ends[number]) - begin
    return size == end - at and same_bytes(table.text, begin, data, at, size)


@compiled
def find_slot(table, word, data, at, end):
    """Return the slot that holds data[at:end], or the empty one where it belongs."""
    slots, size = table.slots, end - at
    slot = first_slot(word, size, slots)
    while slots[slot + slot] != U0:
        entry = slots[slot + slot]
        # the size too: "a" and "a\0" have the same word
        alike = slots[slot + slot + U1] == word and entry >> U32 == min(size, LOW_HALF)
        if alike and (size <= U8 or is_string(table, np.int64(entry & LOW_HALF) - 1, data, at, end)):
            break
        slot = next_slot(slot, slots)
    return slot


def n_slots_for(n_strings):
    """Return the number of slots for n_strings, a power of two."""
    return 1 << max(4, int(n_strings / FULL).bit_length())


@compiled
def add_string(strings, table, i, slot, word):
    """Append string i to the table; return False if there is no room."""
    number, begin, at = table.used[0], table.used[1], strings.offsets[i]
    size = strings.offsets[i + 1] - at
    if number + 1 >= FULL * (table.slots.size // 2) or number == table.ends.size or begin + size > table.text.size:
        return False
    for byte in range(size):
        table.text[begin + byte] = strings.data[at + byte]
    table.ends[number] = begin + size
    table.slots[slot + slot] = min(np.uint64(size), LOW_HALF) << U32 | np.uint64(number + 1)
    table.slots[slot + slot + U1] = word
    table.used[0], table.used[1] = number + 1, begin + size
    return True


@compiled
def load_block(strings, table, first, words):
    """Set the words of strings from `first` on, and prefetch their first slots."""
    for i in range(min(words.size, strings.offsets.size - 1 - first)):
        at, end = np.uint64(strings.offsets[first + i]), np.uint64(strings.offsets[first + i + 1])
        words[i] = word_of(strings.data, at, end)
        slot = first_slot(words[i], end - at, table.slots)
        prefetch(table.slots, slot + slot)


@compiled
def find_string(strings, table, i, word):
    """Return the slot of string i and its id, UNKNOWN if the slot is empty."""
    slot = find_slot(table, word, strings.data, np.uint64(strings.offsets[i]), np.uint64(strings.offsets[i + 1]))
    return slot, np.int64(table.slots[slot + slot] & LOW_HALF) - 1


@entry
def intern_strings(strings, table, ids, first):
    """Set ids[first:], adding new strings; return the first one without room in the table, or the number of strings."""
    words = np.empty(BLOCK, np.uint64)
    for i in range(first, ids.size):
        place = (i - first) % BLOCK
        if place == 0:
            load_block(strings, table, i, words)
        if is_null(strings, i):
            ids[i] = NULL
            continue
        slot, id = find_string(strings, table, i, words[place])
        if id == UNKNOWN:
            if not add_string(strings, table, i, slot, words[place]):
                return i
            id = table.used[0] - 1
        ids[i] = id
    return ids.size


@entry
def find_strings(strings, table, ids):
    """Set the id of every string, UNKNOWN if it is not in the table."""
    words = np.empty(BLOCK, np.uint64)
    for i in range(ids.size):
        if i % BLOCK == 0:
            load_block(strings, table, i, words)
        if is_null(strings, i):
            ids[i] = NULL
        else:
            _, ids[i] = find_string(strings, table, i, words[i % BLOCK])


@compiled
def fill_slot(slots, entry, word):
    """Insert a string that is known to be new."""
    slot = first_slot(word, entry >> U32, slots)
    while slots[slot + slot] != U0:
        slot = next_slot(slot, slots)
    slots[slot + slot], slots[slot + slot + U1] = entry, word


@entry
def fill_slots(table):
    """Insert all strings of the text, known to be distinct, into empty slots."""
    begin = U0
    for number in range(table.used[0]):
        end = np.uint64(table.ends[number])
        entry = min(end - begin, LOW_HALF) << U32 | np.uint64(number + 1)
        fill_slot(table.slots, entry, word_of(table.text, begin, end))
        begin = end


@entry
def move_slots(old, slots):
    """Rehash the old slots into empty ones; neighbours stay neighbours, so access is nearly sequential."""
    for i in range(0, old.size, 2):
        if old[i] != U0:
            fill_slot(slots, old[i], old[i + 1])


@entry
def leading_bytes(strings, pairs):
    """Set pairs to the first eight bytes of each string as a number of the same order, and its position."""
    for i in range(len(pairs)):
        at, end = np.uint64(strings.offsets[i]), np.uint64(strings.offsets[i + 1])
        key = U0
        for byte in range(8):  # big-endian, so that numbers compare like bytes; short strings end in zeros
            key = key << U8
            if at + np.uint64(byte) < end:
                key |= np.uint64(strings.data[at + np.uint64(byte)])
        pairs[i, 0], pairs[i, 1] = key, np.uint64(i)


@entry
def sort_by_bits(pairs, shift, places, out):
    """Sort pairs stably by some bits of their keys (one pass of a radix sort); return False if all are equal.

    places: working space, one more entry than there are values of these bits.
    """
    for value in range(places.size):
        places[value] = 0
    shift, mask = np.uint64(shift), np.uint64(places.size - 2)
    for i in range(len(pairs)):
        places[(pairs[i, 0] >> shift & mask) + U1] += 1
    for value in range(places.size):
        if places[value] == len(pairs):
            return False
    for value in range(places.size - 1):
        places[value + 1] += places[value]
    for i in range(len(pairs)):
        value = pairs[i, 0] >> shift & mask
        out[places[value], 0], out[places[value], 1] = pairs[i, 0], pairs[i, 1]
        places[value] += 1
    return True


@entry
def hash_into(strings, n_buckets, ids):
    """Set ids to XXH64 of every string modulo n_buckets."""
    for i in range(ids.size):
        at, end = np.uint64(strings.offsets[i]), np.uint64(strings.offsets[i + 1])
        ids[i] = NULL if is_null(strings, i) else np.int64(hash_bytes(strings.data, at, end) % np.uint64(n_buckets))


@entry
def hash_all(strings, keys):
    """Set keys to XXH64 of each string."""
    for i in range(keys.size):
        keys[i] = hash_bytes(strings.data, np.uint64(strings.offsets[i]), np.uint64(strings.offsets[i + 1]))


@entry
def count_ids(ids, counts):
    """Count the non-negative ids; return the position of the first negative one, or -1."""
    first = -1
    for i in range(ids.size):
        if ids[i] >= 0:
            counts[ids[i]] += 1
        elif first < 0:
            first = i
    return first


@entry
def write_decimals(numbers, text, offsets):
    """Write integers as concatenated decimal text; text needs 20 bytes per number."""
    end = 0
    for i in range(numbers.size):
        negative = numbers[i] < 0
        rest = U0 - np.uint64(numbers[i]) if negative else np.uint64(numbers[i])  # unsigned: -2**63 has no negation
        size, left = 1, rest // np.uint64(10)
        while left > U0:
            left //= np.uint64(10)
            size += 1
        if negative:
            text[end] = 45  # "-"; 48 below is "0"
            end += 1
        for byte in range(size - 1, -1, -1):
            text[end + byte] = 48 + rest % np.uint64(10)
            rest //= np.uint64(10)
        end += size
        offsets[i + 1] = end
    return end
