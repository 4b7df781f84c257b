"""The arguments of the kernels: rows, lookup tables, settings and scratch memory.

Features are numbered by descending level, so in a row sorted by number those of level k or higher are a prefix.
Letters, here and in all kernels:

    i       feature, 0 <= i < sizes[0]
    k       level of a feature: how many vectors it has, 0 <= k <= m
    p       a factor block: the vectors of rank D_{p+1}, 0 <= p < m; feature i has block p if i < sizes[p + 1]
    r, t    a data row; its position in the mini-batch
    e, a, b position of a nonzero; first and one past the last of a row
    x       value of a nonzero
    o       start of a feature's record in `records`
    h       start of a head's gradient sums in `heads`
    q       position among a group's nonzeros of a row
    u       a row and group of the mini-batch: t * GROUPS + group
    S, T    per row and block: sum of v x over all features that have the block, and over those that have more;
            after the forward pass T holds the gradient direction of the dependent factors
    g       slope of the loss in the score; of the dependent loss in B_{1,p+1}
    f, y    the field of a feature; the value of a nonzero times the weight of its field, see field_weights.py

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. With field weights the
number of the feature's field precedes the states of the blocks, or the vectors of a scoring record. With FTRL and Adam
the weight has a second state, right after the first, and each vector is followed by one or two slots of its size.
Vectors are padded with zeros to multiples of 4 elements, and the padding stays zero.

Frequent features ("heads") sum their gradient over a mini-batch and step once; infrequent ones ("tails") step at each
occurrence. The features are divided among the threads: only the thread of its group changes a record, in the order of
the rows, so models are bit-identical for any number of threads. Threads exchange nothing but the groups' partial sums.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

GROUPS = 2  # groups of features: a row is summed group by group, so that threads can share it
LINE_FLOATS = 16  # float32 values in a cache line
CACHED_FLOATS = 1 << 19  # records of up to this many values stay in the cache without prefetching
PREFETCH_FLOATS = 64  # values to prefetch of each record: four cache lines
CHUNK_ROWS, SHARES = 64, 64  # rows, and parts of a step's features, that a thread takes at a time in a wide step
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


class Rows(NamedTuple):
    """Data rows in CSR form: features of the first group, then of the second, numbers ascending within each.

    Rows to be scored have one group.
    """

    indptr: np.ndarray
    middles: np.ndarray  # per row: start of the features of the second group
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class PairedRows(NamedTuple):
    """Rows of which 2 r should score higher than 2 r + 1; labels are 1 and 0. See forward.py."""

    indptr: np.ndarray
    middles: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class IndexedRows(NamedTuple):
    """Data rows in CSR form, in one group, and the nonzeros of each wide step by feature; see plan/steps.py."""

    indptr: np.ndarray
    middles: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    firsts: np.ndarray  # per step: its first row; then one past the last row
    features: np.ndarray  # the features of each step, ascending
    starts: np.ndarray  # per feature of a step: its first entry; then the number of all
    entry_rows: np.ndarray  # per entry: its row, from the first of its step; ascending for each feature
    entry_values: np.ndarray
    shares: np.ndarray  # per step: bounds of its shares among the features


class Tables(NamedTuple):
    """Positions of everything, by arithmetic instead of per-feature tables. See plan/layout.py."""

    sizes: np.ndarray  # number of features of level >= k, for k = 0 .. m; then 0
    origins: np.ndarray  # per level: o = origins[k] + i * strides[k]
    strides: np.ndarray
    offsets: np.ndarray  # per block: position of its vector within the record
    widths: np.ndarray  # per block: padded rank
    part: int  # size of a group's partial sums of a row: S, T, with field weights S' and T', then scalars
    scalars: int  # position of the scalars among them
    starts: np.ndarray  # per block: its position in S and T; then their length
    shares: np.ndarray  # per block: 1 / rank
    bounds: np.ndarray  # per level: bounds of the groups among its heads, then its tails; see plan/grouping.py
    head_origins: np.ndarray  # per level and group: origin of the heads' gradient sums
    states: int  # position of the block states within a record
    nested: bool  # RaFM: lower blocks of a feature depend on its top one
    row: int  # size of a row's joined sums: S and T, with field weights S', T' and S' - T'
    field: int  # position of the field within a record
    weighted: int  # distance from S to S', among a group's partial sums as among a row's joined sums


class StepFeature(NamedTuple):
    """A feature of a wide step: its record, its level, and its nonzeros, entries [a, a + count)."""

    o: int
    k: int
    a: int
    count: int


class GroupOfRow(NamedTuple):
    """A group of a row: where its nonzeros and its partial sums begin."""

    start: int
    u: int
    part: int
    top: int  # the highest level of the row's features


class FactorBlock(NamedTuple):
    """One factor block, read from the tables once: after a store the compiler would have to reload them."""

    shift: int  # position of its vector within a record
    n: int  # padded rank
    state: int  # position of its state within a record
    share: float  # 1 / rank


class LevelEntries(NamedTuple):
    """A group's nonzeros of one row and level: heads in [first, middle), tails in [middle, stop)."""

    places: np.ndarray  # positions of the group's records
    values: np.ndarray  # values of all rows
    start: int  # position of the group's first value
    first: int
    middle: int
    stop: int
    group: int
    shift: int  # distance from the record of a head to its gradient sums


class GroupSums(NamedTuple):
    """The partial sums of the two groups. All threads add them in this order, because rounding depends on it."""

    first: np.ndarray
    second: np.ndarray
    i: int  # position within the first
    j: int  # position within the second


class Gradient(NamedTuple):
    """The gradient of a vector: c * sums[j:] + d * vector."""

    sums: np.ndarray
    j: int
    c: float
    d: float


class FieldVectors(NamedTuple):
    """Vectors of one record, for the fields of a row."""

    shifts: np.ndarray  # positions within a record
    states: np.ndarray  # positions of their states
    first: int  # only those from first on, and before stop
    stop: int
    n: int  # padded rank
    share: float  # 1 / rank


class FieldGradients(NamedTuple):
    """Their gradients: that of vector k is c * sums[j + k * stride:] + d * vector."""

    sums: np.ndarray
    j: int
    stride: int
    c: float
    d: float


class DefaultOptimizer(NamedTuple):
    """The first optimiser, AdaGrad; kernels are compiled without the others."""

    code: int = 0


class AnyOptimizer(NamedTuple):
    """An optimiser by its code; kernels are compiled with all of them."""

    code: int


def optimizer_with(code: int) -> DefaultOptimizer | AnyOptimizer:
    """Return an optimiser for the settings."""
    return AnyOptimizer(code) if code else DefaultOptimizer()


class Settings(NamedTuple):
    """Settings of the update rules; scalars have the type of the records."""

    loss: int  # its code
    loss_shape: float  # see losses/loss.py
    uses_exp: bool
    joint: bool
    dependent_weight: float
    optimizer: DefaultOptimizer | AnyOptimizer
    learning_rate: float
    l2: np.ndarray  # per block
    l2_weights: float
    l1: float  # of FTRL; a vector's penalty is l1 * sqrt(rank)
    l1_weights: float
    damping: float = np.float32(16)  # of wide steps


class TrainingScratch(NamedTuple):
    """Scratch memory of one mini-batch. `passed` and `heads` are shared; each thread has its own of all others."""

    parts: np.ndarray  # per group and row: S and T, the linear part, and per block the squared norms in S and T
    passed: np.ndarray  # each thread's parts, copied for the other thread
    heads: np.ndarray  # gradient sums, laid out like records
    sums: np.ndarray  # per row: S, then T, block after block
    scores: np.ndarray  # B_{1,p+1} of each row, per block; the last line has the rows' scores
    exp_neg_abs: np.ndarray  # exp(-|score|) of these
    log_1p: np.ndarray  # log(1 + exp(-|score|)) of each row
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    places: np.ndarray  # per row and group: positions of the records of its nonzeros
    ends: np.ndarray  # per row and group: end of the nonzeros of level >= k
    head_ends: np.ndarray  # per row and group: end of the heads of level k, which precede its tails
    bias: np.ndarray


class WideScratch(NamedTuple):
    """Scratch memory of one wide step, see wide.py. Threads share all arrays up to `field_sums`."""

    sums: np.ndarray  # per row: S, T, with field weights S', T' and S' - T', then scalars
    parts: np.ndarray  # the same array
    scores: np.ndarray
    exp_neg_abs: np.ndarray
    log_1p: np.ndarray
    slopes: np.ndarray
    losses: np.ndarray
    totals: np.ndarray  # per chunk of rows: loss, slopes and squared slopes
    field_sums: np.ndarray  # per share of features: gradient of the field weights
    places: np.ndarray  # of one row
    ends: np.ndarray
    head_ends: np.ndarray
    bias: np.ndarray
    listed: np.ndarray  # per nonzero of one feature: position of its row's sums
    slope_x: np.ndarray  # g x
    slope_xx: np.ndarray  # g x^2
    decays: np.ndarray  # weight of its row
    cs: np.ndarray  # the gradient of a vector is c S + d v
    ds: np.ndarray
    gradient: np.ndarray  # of one vector


class FieldScratch(NamedTuple):
    """Scratch memory of one mini-batch of a field-aware model, see field_aware.py.

    Threads share all but the last three arrays.
    """

    heads: np.ndarray  # gradient sums, laid out like records
    sums: np.ndarray  # per row: S, a vector per pair of its fields
    scores: np.ndarray  # per row: its score, and three elements of padding, as in the next two
    exp_neg_abs: np.ndarray
    log_1p: np.ndarray
    slopes: np.ndarray
    losses: np.ndarray
    places: np.ndarray  # per row: positions of the records of its nonzeros
    own: np.ndarray  # per row: the field of each nonzero, as its position in `fields`; -1 without vectors
    fields: np.ndarray  # per row: its fields
    shifts: np.ndarray  # per row: positions of their vectors within a record
    states: np.ndarray  # per row: positions of the states of these
    members: np.ndarray  # per row: number of nonzeros of each of its fields
    firsts: np.ndarray  # per row: the first nonzero of each of its fields
    counts: np.ndarray  # per row: number of its fields
    lookup: np.ndarray  # per field: its position in `fields`, -1 if the row does not have it
    all_states: np.ndarray  # per field: position of the state of its vector within a record
    bias: np.ndarray


class NoFieldWeights(NamedTuple):
    """Stands for field weights in a model without them; kernels are compiled without theirs."""

    none: int = 0


class FieldWeights(NamedTuple):
    """Field weights in training. Each thread has its own of all but `shared`."""

    shared: np.ndarray  # weights, their states, and per group the gradient sums of the last mini-batch
    weights: np.ndarray  # per field
    states: np.ndarray
    sums: np.ndarray  # per group: gradient sums of the last mini-batch
    total: np.ndarray  # gradient of the mini-batch before
    values: np.ndarray  # per row and group: y of its nonzeros
    numbers: np.ndarray  # per row and group: the fields of its nonzeros
    direction: np.ndarray  # of one vector


class FieldScoring(NamedTuple):
    """Field weights in scoring."""

    weights: np.ndarray  # per field
    values: np.ndarray  # y = (1 - t) x of a row's nonzeros


class PackedCodes(NamedTuple):
    """Records of packed vectors with codes of 8 or 16 bits."""

    records: np.ndarray  # per vector: its scale, its codes
    codes: np.ndarray  # the same memory as int8 or int16


class PackedHalves(NamedTuple):
    """Records with codes of 4 bits: the second half of a vector is in the upper halves of its bytes."""

    records: np.ndarray
    codes: np.ndarray  # the same memory as uint8


class ScoringScratch(NamedTuple):
    """Scratch memory for scoring one row."""

    sums: np.ndarray  # of one block
    places: np.ndarray  # see scoring.locate_row
    ends: np.ndarray


class Team(NamedTuple):
    """A thread's place in the thread team."""

    thread: int
    threads: int
    first: int  # the thread owns groups [first, stop)
    stop: int
    gate: np.ndarray  # counters of the barrier, see jit/barrier.py


class Training(NamedTuple):
    """Everything a thread needs for training."""

    tables: Tables
    records: np.ndarray
    settings: Settings
    team: Team
    work: TrainingScratch | WideScratch | FieldScratch
    fields: NoFieldWeights | FieldWeights
