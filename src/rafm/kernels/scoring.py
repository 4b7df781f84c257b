"""Score rows, from scoring or training records."""

# mypy: ignore-errors
from ..jit.compile import compiled, entry
from ..jit.dispatch import chosen_by_type
from ..jit.vectors import pair_listed, pair_listed_twice, pair_more, pair_more_twice, prefetch_shared
from .field_weights import weigh_row
from .tables import (
    CACHED_FLOATS,
    LINE_FLOATS,
    PREFETCH_FLOATS,
    ZERO,
    FieldScoring,
    NoFieldWeights,
)


@compiled
def first_free(a, p, level, tables, ends):
    """Return where the free features of block p begin; those before it have a higher block and are dependent in p."""
    return ends[p + 2] if tables.nested and p + 1 < level else a


@compiled
def locate_row(rows, r, tables, records, places, ends):
    """Return the linear part; set places to the row's records and ends[k] to the end of features of level >= k."""
    a, b = rows.indptr[r], rows.indptr[r + 1]
    linear, e = ZERO, a
    for k in range(tables.strides.size - 1, -1, -1):
        origin, stride, size = tables.origins[k], tables.strides[k], tables.sizes[k]
        while e < b and rows.indices[e] < size:
            o = origin + rows.indices[e] * stride
            places[e - a] = o
            linear += records[o] * rows.values[e]
            e += 1
        ends[k] = e
    return linear


def block_scorer(pair_vectors, pair_more_vectors, pair_vectors_twice, pair_more_vectors_twice):
    """Return a function for what a block adds to the score, by operations on vectors that are stored in some way."""

    @compiled
    def score_plain_block(_, values, a, free, p, tables, vectors, scratch):
        """Return what block p adds to the score: its pairs with at least one free feature.

        That is the sum of <S, v x> over the free features, with S the sum over all features before each.
        """
        n, shift, sums, places = tables.widths[p], tables.offsets[p], scratch.sums, scratch.places
        stop = scratch.ends[p + 1]
        if free == a:
            return pair_vectors(vectors, places, 0, values, a, stop - a, shift, sums, 0, n)
        pair_vectors(vectors, places, 0, values, a, free - a, shift, sums, 0, n)
        return pair_more_vectors(vectors, places, free - a, values, free, stop - free, shift, sums, 0, n)

    @compiled
    def score_weighted_block(fields, values, a, free, p, tables, vectors, scratch):
        """Do the same with field weights."""
        n, shift, sums, places = tables.widths[p], tables.offsets[p], scratch.sums, scratch.places
        y, stop, j = fields.values, scratch.ends[p + 1], sums.size // 2
        if free == a:
            return pair_vectors_twice(vectors, places, 0, values, a, y, stop - a, shift, sums, 0, j, n)
        pair_vectors_twice(vectors, places, 0, values, a, y, free - a, shift, sums, 0, j, n)
        return pair_more_vectors_twice(vectors, places, free - a, values, free, y, stop - free, shift, sums, 0, j, n)

    return chosen_by_type({NoFieldWeights: score_plain_block, FieldScoring: score_weighted_block})


def row_scorer(score_block):
    """Return a function for the score of a row; `vectors` is what score_block takes them from."""

    @compiled
    def score_row(rows, r, tables, records, vectors, level, scratch, fields):
        """Return B_{1,level} without the bias. Blocks without a free feature, or with a single feature, add 0."""
        a = rows.indptr[r]
        score = locate_row(rows, r, tables, records, scratch.places, scratch.ends)
        weigh_row(fields, rows.values, a, tables, records, scratch)
        for p in range(level):
            free, stop = first_free(a, p, level, tables, scratch.ends), scratch.ends[p + 1]
            if free < stop and a + 1 < stop:
                score += score_block(fields, rows.values, a, free, p, tables, vectors, scratch)
        return score

    return score_row


score_row = row_scorer(block_scorer(pair_listed, pair_more, pair_listed_twice, pair_more_twice))


@compiled
def fetch_scored(rows, r, tables, records):
    """Prefetch the first cache lines of a row's records for reading."""
    e, b = rows.indptr[r], rows.indptr[r + 1]
    for k in range(tables.widths.size, -1, -1):
        origin, stride, size = tables.origins[k], tables.strides[k], tables.sizes[k]
        while e < b and rows.indices[e] < size:
            o = origin + rows.indices[e] * stride
            for line in range(o, o + min(stride, PREFETCH_FLOATS), LINE_FLOATS):
                prefetch_shared(records, line)
            e += 1


@entry
def score_rows(rows, tables, records, bias, level, scratch, scores, fields):
    """Write B_{1,level} of every row into scores."""
    far = records.size > CACHED_FLOATS
    for r in range(scores.size):
        if far and r + 1 < scores.size:
            fetch_scored(rows, r + 1, tables, records)
        scores[r] = bias + score_row(rows, r, tables, records, records, level, scratch, fields)
