"""Train by mini-batches in two phases, on one thread or on a thread team with one barrier per batch."""

# mypy: ignore-errors

from ..jit.barrier import GATE_STRIDE, arrive, wait_for_all
from ..jit.compile import called, compiled, entry
from ..jit.vectors import copy, prefetch, prefetch_shared
from .field_weights import begin_weights, end_weights, pass_sums, step_weights, take_sums
from .forward import couple_scores, join_row, part_of, prepare_exp, slopes_of_row, span_of, sum_group
from .losses import is_finite
from .optimizers import batch_rate, step_number
from .tables import CACHED_FLOATS, GROUPS, LINE_FLOATS, ONE, PREFETCH_FLOATS, ZERO, GroupSums
from .update import update_group, update_heads

PREFETCH_ROWS = 2  # prefetch records this many rows ahead
LONG_WAIT_MICROSECONDS = 20_000  # a thread that has waited this long asks the team to stop
HANDOVER_FLOATS = 512  # prefetch this many values of the other thread's sums ahead of their use


@compiled
def fetch_rows(rows, batch):
    """Prefetch the rows of a batch, so that their cache misses overlap."""
    for r in batch:
        a, b = rows.indptr[r], rows.indptr[r + 1]
        prefetch_shared(rows.labels, r)
        prefetch_shared(rows.weights, r)
        for e in range(a, b, 16):  # 16 entries of 4 bytes fill a cache line
            prefetch_shared(rows.indices, e)
            prefetch_shared(rows.values, e)
        prefetch_shared(rows.indices, b)
        prefetch_shared(rows.values, b)


@compiled
def fetch_records(rows, r, group, tables, records):
    """Prefetch the first cache lines of the records of a group's features of a row."""
    e, b = span_of(rows, r, group)
    for k in range(tables.widths.size, -1, -1):
        middle, size, fetched = tables.bounds[k, 0, GROUPS], tables.sizes[k], min(tables.strides[k], PREFETCH_FLOATS)
        while e < b and rows.indices[e] < size:
            i = rows.indices[e]
            if i >= middle:  # heads are frequent enough to stay in the cache
                o = tables.origins[k] + i * tables.strides[k]
                for line in range(o, o + fetched, LINE_FLOATS):
                    prefetch(records, line)
            e += 1


@compiled
def take_part(place, tables, work):
    """Prefetch the other thread's sums of a row for writing: this thread writes to the same lines in the next turn."""
    for line in range(place, place + tables.part, LINE_FLOATS):
        prefetch(work.passed, line)


@called
def sum_rows(rows, batch, training):
    """Sum this thread's groups of all rows of a batch; a single thread also joins them, while they are in the cache."""
    tables, records, _, team, work, fields = training
    far, size = records.size > CACHED_FLOATS, batch.size
    groups = GroupSums(work.parts, work.parts, part_of(0, 0, tables, work), part_of(1, 0, tables, work))
    for t in range(size):
        for group in range(team.first, team.stop):
            if far and t + PREFETCH_ROWS < size:
                fetch_records(rows, batch[t + PREFETCH_ROWS], group, tables, records)
            sum_group(rows, batch[t], group, tables, records, work, t, fields)
        if team.threads == 1:
            join_row(rows, batch[t], tables, work.bias[0], work, t, groups, fields)


@compiled
def side_of(turn, work):
    """Return the position of one side of the exchange buffer; threads swap sides every turn."""
    return turn % GROUPS * (work.passed.size // GROUPS)


@compiled
def pass_on(size, turn, tables, team, work, fields):
    """Copy this thread's sums to the exchange buffer and arrive at the barrier.

    They go to the side from which the other thread's sums were read in the turn before: those lines are in the cache of
    this core alone, and lines that are shared with another core are slow to write.
    """
    own = part_of(team.first, 0, tables, work)
    copy(work.passed, side_of(team.thread + turn, work), work.parts, own, size * tables.part)
    pass_sums(fields, side_of(team.thread + turn, work), team, tables, work)
    arrive(team.gate, team.thread, turn + 1)


@compiled
def ask_to_stop(turn, team):
    """Ask the team to stop after this turn; call before arriving at its barrier."""
    # Requests share the page of the thread's counter. They hold the turn, so a late reader can tell which one is meant.
    team.gate[team.thread * GATE_STRIDE + 1] = turn + 1


@compiled
def asked_to_stop(turn, team):
    """Return whether a thread asked to stop in this turn; call after the barrier.

    Other threads may be one turn ahead, so requests of the next turn are ignored: all threads must stop together.
    """
    asked = False
    for thread in range(team.threads if team.threads > 1 else 0):
        request = team.gate[thread * GATE_STRIDE + 1]
        asked |= 0 < request <= turn + 1
    return asked


@compiled
def take_over(turn, tables, team, work):
    """Wait for the other thread's sums; return both groups' sums, the position of the other's, and the time waited."""
    waited = wait_for_all(team.gate, team.threads, turn + 1)
    own, other = part_of(team.first, 0, tables, work), side_of(team.thread + turn + 1, work)
    if team.thread == 0:
        return GroupSums(work.parts, work.passed, own, other), other, waited
    return GroupSums(work.passed, work.parts, other, own), other, waited


@called
def join_rows(rows, batch, groups, other, training):
    """Join the groups of all rows of a batch; the other thread's sums are at `other`."""
    tables, work, size, taken = training.tables, training.work, batch.size, 0
    for t in range(size):
        while taken < min(size, t + 1 + HANDOVER_FLOATS // tables.part):
            take_part(other + taken * tables.part, tables, work)
            taken += 1
        join_row(rows, batch[t], tables, work.bias[0], work, t, groups, training.fields)


@compiled
def forward_rows(rows, batch, following, turn, training):
    """Compute losses and slopes of a batch: each thread sums its groups and, after a barrier, joins all groups.

    Return the time waited in microseconds, 0 if it was short. Dividing the joining among the threads as well would need
    a second barrier. The next batch is prefetched while waiting.
    """
    tables, _, _, team, work, fields = training
    size, other, waited = batch.size, 0, 0
    sum_rows(rows, batch, training)
    if team.threads > 1:
        pass_on(size, turn, tables, team, work, fields)
    fetch_rows(rows, following)
    if team.threads > 1:
        groups, other, waited = take_over(turn, tables, team, work)
        join_rows(rows, batch, groups, other, training)
    finish_rows(rows, batch, other, training)
    return waited


@called
def finish_rows(rows, batch, other, training):
    """Compute losses and slopes of a batch from the joined sums."""
    tables, _, settings, team, work, fields = training
    take_sums(fields, other, team, tables, work)
    couple_scores(rows, batch, tables, work)
    prepare_exp(tables, settings, work)
    for t in range(batch.size):
        slopes_of_row(rows, batch[t], tables, settings, work, t, fields)


@called
def update_rows(rows, batch, rate, training):
    """Update this thread's features of a batch."""
    for t in range(batch.size):
        for group in range(training.team.first, training.team.stop):
            update_group(rows, batch[t], group, rate, training, t)
    update_heads(rate, training)


@compiled
def copy_bias(target, source):
    """Copy the bias and its states; an assignment of slices would take seconds to compile."""
    target[0], target[1], target[2], target[3] = source[0], source[1], source[2], source[3]


@compiled
def take_copies(bias, training):
    """Copy bias and field weights: each thread steps its own, and the same operations give the same bits."""
    copy_bias(training.work.bias, bias)
    begin_weights(training.fields)


@compiled
def put_copies(bias, training):
    """Write bias and field weights back."""
    if training.team.thread == 0:
        copy_bias(bias, training.work.bias)
    end_weights(training.fields, training.team)


@compiled
def total_of(numbers, n):
    """Return the sum of numbers[:n]."""
    total = ZERO
    for k in range(n):
        total += numbers[k]
    return total


@entry
def train_rows(rows, order, bias, total, training):
    """Train on rows in the given order; stop early if threads keep waiting for each other.

    Return total plus the loss of these rows, the first position whose loss is not finite (or -1), and the number of
    rows trained.

    bias is [bias, its state, its second state, mini-batches so far]. Each mini-batch is a forward pass over all its
    rows, then all updates. Every thread of a team calls this function at the same time, and all return the same result;
    the first one writes bias.
    """
    settings, team, work = training.settings, training.team, training.work
    size, stopped, trained, waited = work.losses.size, -1, 0, 0
    take_copies(bias, training)
    fetch_rows(rows, order[:size])
    for turn in range(-(-order.size // size)):
        batch, following = order[turn * size : (turn + 1) * size], order[(turn + 1) * size : (turn + 2) * size]
        rate = batch_rate(settings.optimizer, settings.learning_rate, work.bias[3] + ONE)
        if waited > LONG_WAIT_MICROSECONDS:
            ask_to_stop(turn, team)
        waited += forward_rows(rows, batch, following, turn, training)
        asked = asked_to_stop(turn, team)
        loss, slope = total_of(work.losses, batch.size), total_of(work.slopes[:, -1], batch.size)
        if not is_finite(loss):
            stopped = turn * size
            break
        total += loss
        update_rows(rows, batch, rate, training)
        step_number(settings.optimizer, work.bias, 0, slope, rate, ZERO)
        work.bias[3] += ONE
        step_weights(training.fields)
        trained += batch.size
        if asked:
            break
    put_copies(bias, training)
    return total, stopped, trained
