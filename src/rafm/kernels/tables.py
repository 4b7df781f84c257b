"""What compiled code is given: rows, tables to find its way by, settings and scratch.

Features are numbered by falling level, so in a row sorted by id those of level k or more are a prefix. Letters, here
and in all kernels:

    i       feature, 0 <= i < sizes[0]
    k       level of a feature: how many vectors it has, 0 <= k <= m
    p       a block: the vectors of rank D_{p+1}, 0 <= p < m; feature i has block p if i < sizes[p + 1]
    r, t    a data row; its place in the mini-batch
    e, a, b position of a nonzero; first and one past the last of a row
    x       value of a nonzero
    o       where a feature's record starts in `records`
    q       position among a group's nonzeros of a row
    u       a row and group of the mini-batch: t * GROUPS + group
    S, T    per row and block: sum of v x over all features that have the block, and over those that have more;
            after the forward pass T holds the direction that pulls on dependent factors
    g       slope of the loss in the score; of the dependent loss in B_{1,p+1}

A record is [weight, its state, one state per block, vectors]; a scoring record has no states. FTRL and Adam have one
more state of the weight before those of the blocks, and one or two slots of equal size after each vector. Vectors are
padded with zeros to multiples of 4 elements, which stay zero.

Frequent features ("heads") sum their gradient over a mini-batch and step once; all others ("tails") step at each
occurrence. Threads share the features: whatever is done to a record is done by the thread of its group, in the order of
the rows, so the model does not depend on how many threads there are. Only the groups' sums over a row pass between
threads.
"""

# mypy: ignore-errors
from typing import NamedTuple

import numpy as np

GROUPS = 2  # sums over a row are taken by groups of features, so that threads can share them
LINE_FLOATS = 16  # float32 numbers in a cache line
CACHED_FLOATS = 1 << 19  # records of up to this many numbers stay in the cache by themselves
PREFETCH_FLOATS = 64  # of each record, four cache lines
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


class Rows(NamedTuple):
    """Data rows in CSR form: features of the first group, then of the second, ids ascending within each.

    Rows that are to be scored are of one group.
    """

    indptr: np.ndarray
    middles: np.ndarray  # per row: where features of the second group begin
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Tables(NamedTuple):
    """Where everything lies; arithmetic replaces per-feature tables. See plan/layout.py."""

    sizes: np.ndarray  # features of level >= k, for k = 0 .. m; then 0
    origins: np.ndarray  # per level: o = origins[k] + i * strides[k]
    strides: np.ndarray
    offsets: np.ndarray  # per block: its vector within the record
    widths: np.ndarray  # per block: padded rank
    part: int  # size of a group's part of S and T, with scalars after them
    scalars: int  # where these begin
    starts: np.ndarray  # per block: its place in the sums S and T; then their length
    shares: np.ndarray  # per block: 1 / rank
    bounds: np.ndarray  # per level: where the groups of its heads begin; then those of the others; see plan/grouping.py
    head_origins: np.ndarray  # per level and group: where heads sum their gradients
    states: int  # where the states of blocks begin within a record
    nested: bool  # RaFM: lower blocks of a feature depend on its top one


class Block(NamedTuple):
    """What is known of one block, in one place: stores into arrays make the compiler read tables anew."""

    shift: int  # its vector within a record
    n: int  # padded rank
    state: int  # its state within a record
    share: float  # 1 / rank


class Listed(NamedTuple):
    """A group's nonzeros of one row and level: heads first."""

    places: np.ndarray  # of the group's records
    values: np.ndarray  # of all rows
    start: int  # where the group's values begin
    first: int  # these nonzeros of the group are heads, up to `middle`, and then tails
    middle: int
    stop: int
    shift: int  # from the record of a head to where it sums its gradients


class Pair(NamedTuple):
    """Where the two groups' parts of a batch lie. All threads add them up in this order, as roundings depend on it."""

    first: np.ndarray
    second: np.ndarray
    i: int  # within the first
    j: int  # within the second


class Gradient(NamedTuple):
    """The gradient of a vector: c * sums[j:] + d * vector."""

    sums: np.ndarray
    j: int
    c: float
    d: float


class Settings(NamedTuple):
    """What the update rules need; scalars are of the records' type."""

    loss: int  # its code
    loss_shape: float  # see losses/loss.py
    uses_exp: bool
    joint: bool
    dependent_weight: float
    optimizer: int  # its code
    learning_rate: float
    l2: np.ndarray  # per block
    l2_weights: float
    l1: float  # of FTRL, per root of a vector's rank
    l1_weights: float


class Work(NamedTuple):
    """Scratch of one mini-batch. What is passed, and heads, are shared; all else is each thread's own."""

    parts: np.ndarray  # per group and row: S and T; its linear part, per block squared norms in S and T
    passed: np.ndarray  # a copy of the parts of each thread, for the other one
    heads: np.ndarray  # gradient sums, laid out like records
    sums: np.ndarray  # per row: S, then T, block after block
    scores: np.ndarray  # per block, B_{1,p+1} of each row; then their scores
    exp_neg_abs: np.ndarray  # exp(-|score|) of these
    log_1p: np.ndarray  # log(1 + exp(-|score|)) of each row
    slopes: np.ndarray  # per row: dependent slope of each block, then the slope in the score
    losses: np.ndarray
    places: np.ndarray  # per row and group: the records of its nonzeros
    ends: np.ndarray  # per row and group: where nonzeros of level >= k stop
    head_ends: np.ndarray  # and where the heads of level k stop, which come first
    bias: np.ndarray


class Scratch(NamedTuple):
    """Scratch of scoring."""

    sums: np.ndarray  # of one block of one row
    places: np.ndarray  # of one row's nonzeros, see scoring.locate_row
    ends: np.ndarray


class Team(NamedTuple):
    """Which thread this is and of how many."""

    thread: int
    threads: int
    first: int  # its groups are these to `stop`
    stop: int
    gate: np.ndarray  # where threads wait for one another


class Training(NamedTuple):
    """All that a thread trains with."""

    tables: Tables
    records: np.ndarray
    settings: Settings
    team: Team
    work: Work
