"""Score rows from packed vectors, without unpacking them to memory.

With codes c, scale s and squared norm |v|^2 of v = s c, the sum of v x over a row is the sum of c (s x), and the sum of
|v x|^2 is that of x^2 |v|^2. All else is as in scoring.py.
"""

# mypy: ignore-errors
from ..jit import vectors
from ..jit.compile import compiled, entry
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import combined_norm
from .field_weights import weigh_row
from .scoring import fetch_scored, first_free, half_pairs, locate_row, norms
from .tables import CACHED_FLOATS, HALF, ONE, ZERO, FieldScoring, NoFieldWeights, PackedCodes, PackedHalves


def on_held(operation):
    """Return the operation on records and codes as one on what holds both."""

    @compiled
    def call(held, *arguments):
        return operation(held.records, held.codes, *arguments)

    return call


def for_both(of_codes, of_halves):
    """Return the operation for codes of any number of bits."""
    return chosen_by_type({PackedCodes: on_held(of_codes), PackedHalves: on_held(of_halves)})


sum_vectors = for_both(vectors.sum_codes, vectors.sum_halves)
add_vectors = for_both(vectors.add_codes, vectors.add_halves)
sum_vectors_twice = for_both(vectors.sum_codes_twice, vectors.sum_halves_twice)
add_vectors_twice = for_both(vectors.add_codes_twice, vectors.add_halves_twice)


@compiled
def score_plain_codes(_, values, a, free, p, tables, held, scratch):
    """Return what block p adds to the score, as score_plain_block does."""
    n, shift, dependent, sums, places = tables.widths[p], tables.offsets[p], ZERO, scratch.sums, scratch.places
    stop = scratch.ends[p + 1]
    if free > a:
        sum_vectors(held, places, 0, values, a, free - a, shift, sums, 0, n)
        dependent = combined_norm(sums, 0, sums, 0, n, ONE, ZERO)
        norm = add_vectors(held, places, free - a, values, free, stop - free, shift, sums, 0, n)
    else:
        norm = sum_vectors(held, places, 0, values, a, stop - a, shift, sums, 0, n)
    return half_pairs(sums, 0, n, dependent + norm)


@compiled
def score_weighted_codes(fields, values, a, free, p, tables, held, scratch):
    """Do the same with field weights, as score_weighted_block does."""
    n, shift, dependent, sums, places = tables.widths[p], tables.offsets[p], ZERO, scratch.sums, scratch.places
    y, stop, j = fields.values, scratch.ends[p + 1], sums.size // 2
    if free > a:
        sum_vectors_twice(held, places, 0, values, a, y, free - a, shift, sums, 0, j, n)
        dependent = norms(sums, j, n)
        norm = add_vectors_twice(held, places, free - a, values, free, y, stop - free, shift, sums, 0, j, n)
    else:
        norm = sum_vectors_twice(held, places, 0, values, a, y, stop - a, shift, sums, 0, j, n)
    return HALF * (norms(sums, j, n) - dependent - norm)


score_codes = chosen_by_type({NoFieldWeights: score_plain_codes, FieldScoring: score_weighted_codes})


@entry
def score_packed_rows(rows, tables, held, bias, level, scratch, scores, fields):
    """Write B_{1,level} of every row into scores."""
    records, far = held.records, held.records.size > CACHED_FLOATS
    for r in range(scores.size):
        if far and r + 1 < scores.size:
            fetch_scored(rows, r + 1, tables, records)
        a = rows.indptr[r]
        score = locate_row(rows, r, tables, records, scratch.places, scratch.ends)
        weigh_row(fields, rows.values, a, tables, records, scratch)
        for p in range(level):
            free, stop = first_free(a, p, level, tables, scratch.ends), scratch.ends[p + 1]
            if free < stop and a + 1 < stop:
                score += score_codes(fields, rows.values, a, free, p, tables, held, scratch)
        scores[r] = bias + score
