"""Training by mini-batches of two phases, by one thread or several that meet at a barrier once per batch."""

# mypy: ignore-errors
import numpy as np

from ..jit.barrier import APART, arrive, wait_for_all
from ..jit.compile import compiled, entry
from ..jit.vectors import copy, prefetch, prefetch_shared
from .forward import join_row, part_of, prepare_exp, slopes_of_row, span_of, sum_group
from .optimizers import batch_rate, step_number
from .tables import CACHED_FLOATS, GROUPS, LINE_FLOATS, ONE, PREFETCH_FLOATS, ZERO, Pair
from .update import update_group, update_heads

PREFETCH_ROWS = 2  # ask for records this many rows ahead
LONG_WAIT_MICROSECONDS = 20_000  # a thread that has waited this long asks all to stop
HANDOVER_FLOATS = 512  # ask for this many numbers of the other thread before they are needed


@compiled
def fetch_rows(rows, batch):
    """Ask for the rows of a batch, so that their cache misses overlap."""
    for r in batch:
        a, b = rows.indptr[r], rows.indptr[r + 1]
        prefetch_shared(rows.labels, r)
        prefetch_shared(rows.weights, r)
        for e in range(a, b, 16):
            prefetch_shared(rows.indices, e)
            prefetch_shared(rows.values, e)
        prefetch_shared(rows.indices, b)
        prefetch_shared(rows.values, b)


@compiled
def fetch_records(rows, r, group, tables, records):
    """Ask for the first lines of the records of a group's features of a row."""
    e, b = span_of(rows, r, group)
    for k in range(tables.widths.size, -1, -1):
        middle, size, fetched = tables.bounds[k, 0, GROUPS], tables.sizes[k], min(tables.strides[k], PREFETCH_FLOATS)
        while e < b and rows.indices[e] < size:
            i = rows.indices[e]
            if i >= middle:  # heads stay in the cache by themselves
                o = tables.origins[k] + i * tables.strides[k]
                for line in range(o, o + fetched, LINE_FLOATS):
                    prefetch(records, line)
            e += 1


@compiled
def take_part(place, tables, work):
    """Ask for what the other thread has summed up of a row, and for the right to write there."""
    for line in range(place, place + tables.part, LINE_FLOATS):
        prefetch(work.passed, line)


@compiled
def sum_rows(rows, batch, training):
    """Add up this thread's groups of all rows of a batch."""
    tables, records, _, team, work = training
    far, size = records.size > CACHED_FLOATS, batch.size
    for t in range(size):
        for group in range(team.first, team.stop):
            if far and t + PREFETCH_ROWS < size:
                fetch_records(rows, batch[t + PREFETCH_ROWS], group, tables, records)
            sum_group(rows, batch[t], group, tables, records, work, t)


@compiled
def side_of(turn, work):
    """Return where sums are passed on that change sides at each turn."""
    return turn % GROUPS * (work.passed.size // GROUPS)


@compiled
def pass_on(size, turn, tables, team, work):
    """Copy this thread's sums for the other one.

    They go where those of the other were read in the turn before: these lines are in the cache of this core alone, and
    lines that others have too are slow to write to.
    """
    own = part_of(team.first, 0, tables, work)
    copy(work.passed, side_of(team.thread + turn, work), work.parts, own, size * tables.part)
    arrive(team.gate, team.thread, turn + 1)


@compiled
def ask_to_stop(turn, team):
    """Ask all threads to stop after this turn, before arriving at its barrier."""
    team.gate[team.thread * APART + 1] = turn + 1


@compiled
def asked_to_stop(turn, team):
    """Return whether a thread has asked for that, after the barrier; the others may have come to the next one."""
    asked = False
    for thread in range(team.threads if team.threads > 1 else 0):
        request = team.gate[thread * APART + 1]
        asked |= 0 < request <= turn + 1
    return asked


@compiled
def take_over(turn, tables, team, work):
    """Wait for the other thread's sums; return where those of both lie, where the other's do, and how long it took."""
    waited = wait_for_all(team.gate, team.threads, turn + 1)
    own, other = part_of(team.first, 0, tables, work), side_of(team.thread + turn + 1, work)
    if team.thread == 0:
        return Pair(work.parts, work.passed, own, other), other, waited
    return Pair(work.passed, work.parts, other, own), other, waited


@compiled
def forward_rows(rows, batch, following, turn, training):
    """Compute losses and slopes of a batch: each thread adds up its groups, and joins all groups after a barrier.

    Return the microseconds of a long wait. To share out the joining too would need one more barrier. The next batch is
    asked for in the time of waiting.
    """
    tables, _, settings, team, work = training
    size, taken, other, waited = batch.size, batch.size, 0, 0
    sum_rows(rows, batch, training)
    pair = Pair(work.parts, work.parts, part_of(0, 0, tables, work), part_of(1, 0, tables, work))
    if team.threads > 1:
        pass_on(size, turn, tables, team, work)
    fetch_rows(rows, following)
    if team.threads > 1:
        pair, other, waited = take_over(turn, tables, team, work)
        taken = 0
    for t in range(size):
        while taken < min(size, t + 1 + HANDOVER_FLOATS // tables.part):
            take_part(other + taken * tables.part, tables, work)
            taken += 1
        join_row(rows, batch[t], tables, work.bias[0], work, t, pair)
    prepare_exp(tables, settings, work)
    for t in range(size):
        slopes_of_row(rows, batch[t], tables, settings, work, t)
    return waited


@compiled
def update_rows(rows, batch, rate, training):
    """Update all features of a batch that belong to this thread."""
    for t in range(batch.size):
        for group in range(training.team.first, training.team.stop):
            update_group(rows, batch[t], group, rate, training, t)
    update_heads(rate, training)


@compiled
def total_of(numbers, n):
    """Return the sum of the first n numbers."""
    total = ZERO
    for k in range(n):
        total += numbers[k]
    return total


@entry
def train_rows(rows, order, bias, total, training):
    """Train on rows in the given order, all of them unless threads keep waiting for one another.

    Return the total with their loss, where it stopped being finite (or -1), and how many rows were trained.

    bias is [bias, its state, its second state, mini-batches so far]. One mini-batch after the other: all rows forward,
    then all updates. Every thread of a team calls this at the same time; all return the same, and the first sets bias.
    """
    settings, team, work = training.settings, training.team, training.work
    size, stopped, trained, waited = work.losses.size, -1, 0, 0
    work.bias[:] = bias
    fetch_rows(rows, order[:size])
    for turn in range(-(-order.size // size)):
        batch, following = order[turn * size : (turn + 1) * size], order[(turn + 1) * size : (turn + 2) * size]
        rate = batch_rate(settings.optimizer, settings.learning_rate, work.bias[3] + ONE)
        if waited > LONG_WAIT_MICROSECONDS:
            ask_to_stop(turn, team)
        waited += forward_rows(rows, batch, following, turn, training)
        asked = asked_to_stop(turn, team)
        loss, slope = total_of(work.losses, batch.size), total_of(work.slopes[:, -1], batch.size)
        if not np.isfinite(loss):
            stopped = turn * size
            break
        total += loss
        update_rows(rows, batch, rate, training)
        step_number(settings.optimizer, work.bias, 0, slope, rate, ZERO)
        work.bias[3] += ONE
        trained += batch.size
        if asked:
            break
    if team.thread == 0:
        bias[:] = work.bias
    return total, stopped, trained
