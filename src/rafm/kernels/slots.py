"""Wide steps in parts: sum the gradients of a slot of rows, join the sums of several slots, and step.

A slot is a part of a step's rows. Whoever computes it has copies of the records of its features, without states, and
sends back what they were summed to; the owner of a feature joins these sums in the order of the slots and steps once,
by the rule of wide.py. So a model depends on the slots, not on who computes them. On the way, a feature of level k is

    parameters      weight, vectors
    sums            gradient and squares of the weight, squares of each vector, gradients of the vectors

all vectors padded as in records. Features may have another number at their owner than at the slot.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import as_written, compiled, entry
from ..jit.vectors import prefetch
from .field_weights import step_weights
from .losses import is_finite
from .optimizers import batch_rate, wide_number, wide_vector
from .philox import LANES, normals_of, philox
from .tables import CHUNK_ROWS, LINE_FLOATS, ONE, SHARES, ZERO, StepFeature
from .training import take_copies
from .update import block_of
from .wide import forward_chunk, sum_block, sum_fields, sum_weight

AHEAD = 12  # features whose records are prefetched: at their owner they are far apart


@compiled
def level_of(i, tables):
    """Return the level of a feature."""
    k = tables.widths.size
    while i >= tables.sizes[k]:
        k -= 1
    return k


@compiled
def copy_values(out, j, numbers, i, n):
    """Set out[j : j + n] to numbers[i : i + n]."""
    for f in range(n):
        out[j + f] = numbers[i + f]


@compiled
def fetch_record(numbers, n, tables, records):
    """Prefetch the start of the record of a feature that comes later."""
    if n + AHEAD < numbers.size:
        i = np.int64(numbers[n + AHEAD])
        k = level_of(i, tables)
        o = tables.origins[k] + i * tables.strides[k]
        prefetch(records, o)
        if tables.strides[k] > LINE_FLOATS:
            prefetch(records, o + LINE_FLOATS)


# ---- At a slot


@compiled
def sum_share(rows, s, share, places, out, training):
    """Sum the gradients of one share of the features of slot s; the sums of feature q begin at out[places[q]]."""
    tables, _, _, _, work, fields = training
    k, start = tables.widths.size, rows.firsts[s]
    for f in range(work.field_sums.shape[1]):
        work.field_sums[share, f] = ZERO
    for q in range(rows.shares[s, share], rows.shares[s, share + 1]):
        i, a, j = np.int64(rows.features[q]), rows.starts[q], places[q]
        while i >= tables.sizes[k]:
            k -= 1
        feature = StepFeature(tables.origins[k] + i * tables.strides[k], k, a, rows.starts[q + 1] - a)
        out[j], out[j + 1] = sum_weight(rows, start, feature, training)
        at = j + 2 + k
        for p in range(k):
            out[j + 2 + p] = sum_block(fields, rows, feature, p, share, training)
            copy_values(out, at, work.gradient, 0, tables.widths[p])
            at += tables.widths[p]


@entry
def sum_slot(rows, s, places, out, bias, training):
    """Sum the gradients of slot s; return its number of chunks of rows, whose totals are in the scratch memory."""
    take_copies(bias, training)
    start, size = rows.firsts[s], rows.firsts[s + 1] - rows.firsts[s]
    chunks = -(-size // CHUNK_ROWS)
    for chunk in range(chunks):
        forward_chunk(rows, start, chunk, size, training)
    for share in range(SHARES):
        sum_share(rows, s, share, places, out, training)
    sum_fields(training.fields, training.work)
    return chunks


@entry
def put_parameters(numbers, given, tables, records):
    """Write parameters of features, one after another, into their records."""
    j = 0
    for n in range(numbers.size):
        i = np.int64(numbers[n])
        k = level_of(i, tables)
        o = tables.origins[k] + i * tables.strides[k]
        records[o] = given[j]
        j += 1
        for p in range(k):
            copy_values(records, o + tables.offsets[p], given, j, tables.widths[p])
            j += tables.widths[p]


# ---- At the owner of features


@entry
def get_parameters(numbers, tables, records, out):
    """Write the parameters of features to out, one after another."""
    j = 0
    for n in range(numbers.size):
        fetch_record(numbers, n, tables, records)
        i = np.int64(numbers[n])
        k = level_of(i, tables)
        o = tables.origins[k] + i * tables.strides[k]
        out[j] = records[o]
        j += 1
        for p in range(k):
            copy_values(out, j, records, o + tables.offsets[p], tables.widths[p])
            j += tables.widths[p]


@entry
def join_sums(numbers, sums, tables, where, touched, joined, ends):
    """Add the sums of a slot to those of the slots before.

    where: per feature, its place in `joined`, or -1 before its first slot. ends: number of features touched, and the
    end of what is joined.
    """
    j = 0
    for n in range(numbers.size):
        if n + AHEAD < numbers.size:
            prefetch(where, np.int64(numbers[n + AHEAD]))
        i = np.int64(numbers[n])
        k = level_of(i, tables)
        size, place = 2 + k + tables.starts[k], where[i]
        if place < 0:
            where[i], touched[ends[0]] = ends[1], i
            copy_values(joined, ends[1], sums, j, size)
            ends[0], ends[1] = ends[0] + 1, ends[1] + size
        else:
            for f in range(size):
                joined[place + f] += sums[j + f]
        j += size


@entry
def step_features(touched, where, joined, age, gradient, tables, records, settings):
    """Step all touched features by their joined sums, as step number `age` of the training."""
    rate = batch_rate(settings.optimizer, settings.learning_rate, age)
    for n in range(touched.size):
        fetch_record(touched, n, tables, records)
        i = touched[n]
        k, place = level_of(i, tables), where[i]
        o, at, where[i] = tables.origins[k] + i * tables.strides[k], place + 2 + k, -1
        first, second = joined[place], joined[place + 1]
        wide_number(settings.optimizer, records, o, first, second, settings.damping, rate, settings.l1_weights)
        for p in range(k):
            block = block_of(p, tables)
            copy_values(gradient, 0, joined, at, block.n)
            square = joined[place + 2 + p] * block.share
            wide_vector(settings.optimizer, records, o, block, gradient, square, settings.damping, rate, settings.l1)
            at += block.n


# ---- At the driver


@entry
def step_bias(bias, totals, settings):
    """Step the bias by the totals of all chunks of rows; return their loss, and do nothing if it is not finite."""
    loss, slope, square = 0.0, 0.0, 0.0
    for chunk in range(totals.shape[0]):
        loss, slope, square = loss + totals[chunk, 0], slope + totals[chunk, 1], square + totals[chunk, 2]
    if is_finite(loss):
        rate = batch_rate(settings.optimizer, settings.learning_rate, bias[3] + ONE)
        gradient, square = np.float32(slope), np.float32(square)
        wide_number(settings.optimizer, bias, 0, gradient, square, settings.damping, rate, ZERO)
        bias[3] += ONE
    return loss


@entry
def step_field_weights(fields):
    """Step the weights of all fields by `fields.total`."""
    step_weights(fields)


# ---- Initial vectors


@as_written
def draw_four(id, block, group, seed):
    """Return four normal numbers that depend on the id of a feature, not on where it is."""
    low, high = np.uint64(id) & np.uint64(0xFFFFFFFF), np.uint64(id) >> np.uint64(32)
    key, more = np.uint64(seed) & np.uint64(0xFFFFFFFF), np.uint64(seed) >> np.uint64(32)
    w0, w1, w2, w3 = philox(np.uint64(group), low, high, np.uint64(block), key, more)
    x0, x1 = normals_of(w0, w1)
    x2, x3 = normals_of(w2, w3)
    return x0, x1, x2, x3


@entry
def draw_vectors(ids, block, seed, spread, out):
    """Set out to the initial vectors of features: normal numbers with standard deviation `spread`."""
    for n in range(ids.size):
        for f in range(0, out.shape[1], LANES):
            drawn = draw_four(ids[n], block, f // LANES, seed)
            for k in range(min(LANES, out.shape[1] - f)):
                out[n, f + k] = np.float32(spread * drawn[k])
