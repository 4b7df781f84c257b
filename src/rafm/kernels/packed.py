"""Score rows from packed vectors, without unpacking them to memory.

With codes c and scale s of v = s c, the sum of v x over a row is the sum of c (s x). All else is as in scoring.py.
"""

# mypy: ignore-errors
from ..jit import vectors
from ..jit.compile import compiled, entry
from ..jit.dispatch import chosen_by_type
from .scoring import block_scorer, fetch_scored, row_scorer
from .tables import CACHED_FLOATS, PackedCodes, PackedHalves


def on_held(operation):
    """Return the operation on records and codes as one on what holds both."""

    @compiled
    def call(held, *arguments):
        return operation(held.records, held.codes, *arguments)

    return call


def for_both(of_codes, of_halves):
    """Return the operation for codes of any number of bits."""
    return chosen_by_type({PackedCodes: on_held(of_codes), PackedHalves: on_held(of_halves)})


score_row = row_scorer(
    block_scorer(
        for_both(vectors.pair_codes, vectors.pair_halves),
        for_both(vectors.pair_more_codes, vectors.pair_more_halves),
        for_both(vectors.pair_codes_twice, vectors.pair_halves_twice),
        for_both(vectors.pair_more_codes_twice, vectors.pair_more_halves_twice),
    )
)


@entry
def score_packed_rows(rows, tables, held, bias, level, scratch, scores, fields):
    """Write B_{1,level} of every row into scores."""
    far = held.records.size > CACHED_FLOATS
    for r in range(scores.size):
        if far and r + 1 < scores.size:
            fetch_scored(rows, r + 1, tables, held.records)
        scores[r] = bias + score_row(rows, r, tables, held.records, held, level, scratch, fields)
