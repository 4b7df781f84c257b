"""The numbers in training and what steps them: one engine for LR, FM, DiFacto and RaFM, and one for MRMA.

Both offer the same methods, so that the trainer needs to know of neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from threading import Barrier
from typing import NamedTuple, Protocol

import numpy as np

from ..kernels import mixture
from ..kernels import records as kernels
from ..kernels.barrier import APART
from ..kernels.vectors import PLAIN
from ..model.scores import score, score_mixture
from ..options import TrainingOptions
from ..plan.grouping import Grouping, deal
from ..plan.layout import Parameters, RecordLayout, Shadow, States
from ..plan.ranks import RankPlan
from ..plan.scratch import make_works, on_pages
from .affinity import current_core, kept_on, other_cores

MIXTURE_PULL = np.float32(0.01)  # L1 penalty of MRMA's mixture weights, towards their prior mean
PIECE = 1 << 16  # about how many rows are trained between two looks at the clock and for Ctrl-C
RELEASED = 1 << 62  # a turn that lets every thread pass
LOOK = 1 << 13  # about how many rows are trained to find out whether one thread alone or all are faster
LOOKS = 2  # how often each way: a single look may meet a moment when others want the cores
AT_FIRST, WARM_UP = 0.25, 0.2  # seconds in which one works, and in which all do before a look
PATIENCE = 0.1  # seconds in which all may be slower than one was
FIRST_SPAN, LONGEST_SPAN = 2.0, 64.0  # seconds between two looks
LONG_BATCH = 1 << 20  # nonzeros that a mini-batch of the longest row may have


class RowShape(NamedTuple):
    """How many training rows there are, and how many features the longest has."""

    rows: int
    longest: int


Step = Callable[[kernels.Rows, np.ndarray], tuple[float, int]]
Trained = tuple[float, int, int]  # loss so far, where it stopped being finite or -1, rows
Call = Callable[[kernels.Team], Trained]


class Engine(Protocol):
    """Holds parameters with their optimiser states, and trains and scores numbered rows."""

    def sweeps(self) -> tuple[Step, ...]:
        """Return the steps that a block of rows goes through, one after the other.

        A step trains on the rows in the given order, whole or piece by piece; it returns the summed loss, and where it
        stopped being finite or -1.
        """

    def piece_rows(self) -> int:
        """Return how many rows to train at a time; pieces of this size change nothing."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all numbers that training changes, by name: the arrays themselves, to be saved or written into."""

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        """Return the score of every row."""

    def parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the trained numbers, in the order before the grouping; the last use of them ends them."""

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        """Return a copy of the optimiser's states in that order, with the scales of labels and values of theirs."""


def settings_of(options: TrainingOptions, dtype: type = np.float32) -> kernels.Settings:
    """Return what the kernels need to know of the options."""
    return kernels.Settings(
        loss=options.loss.code,
        joint=options.joint,
        dependent_weight=dtype(options.dependent_weight),
        optimizer=options.optimizer.code,
        learning_rate=dtype(options.learning_rate),
        l2=np.array(options.l2, dtype),
        l2_weights=dtype(options.l2_weights),
        l1=dtype(options.l1),
        l1_weights=dtype(options.l1_weights),
    )


def batch_size_of(shape: RowShape, options: TrainingOptions) -> int:
    """Return how many rows a mini-batch has: fewer if they are very long."""
    return max(1, min(options.optimizer.batch_size, LONG_BATCH // max(shape.longest, 1)))


def arrange(plan: RankPlan, counts: np.ndarray, shape: RowShape, options: TrainingOptions) -> Grouping:
    """Return the order of features in training, and what is a head: expected more often than head_share in a batch."""
    return deal(plan, counts, options.optimizer.head_share * shape.rows / batch_size_of(shape, options))


class Crew:
    """Threads that call a kernel at the same time, and wait for one another inside it.

    Where other programs want the cores, waiting costs more than help brings; since the number of threads changes no
    result, a crew that is slower than its first member alone lets that one work, and tries again later.
    """

    def __init__(self, threads: int):
        self.gate = on_pages({"gate": ((threads * APART,), np.int64)})["gate"]
        self.alone = kernels.Team(0, 1, 0, kernels.GROUPS, self.gate)
        ends = [-(-thread * kernels.GROUPS // threads) for thread in range(threads + 1)]
        parts = enumerate(pairwise(ends))
        self.teams = [kernels.Team(thread, threads, first, stop, self.gate) for thread, (first, stop) in parts]
        self.pool = ThreadPoolExecutor(max(1, threads - 1), "rafm")
        self.pace = Pace()
        started = Barrier(threads)
        waiting = [self.pool.submit(started.wait) for _ in self.teams[1:]]
        started.wait()  # all threads live before one waits for them in a kernel
        for done in waiting:
            done.result()

    def share(self, rows: int, batch_size: int) -> int:
        """Return how many rows to train by the next call: few if it is to find out which way is faster."""
        if len(self.teams) == 1 or not self.pace.looking:
            return rows
        return max(LOOK // batch_size, 1) * batch_size

    @property
    def settled(self) -> bool:
        """Whether it is known by now which way is faster."""
        return len(self.teams) == 1 or bool(np.isfinite(self.pace.seconds[True]) and not self.pace.looking)

    def run(self, call: Call) -> Trained:
        """Call once per thread; return what all of them return."""
        if len(self.teams) == 1:
            return call(self.alone)
        if not self.pace.alone:
            return self._run_together(call)
        start = time.perf_counter()
        result = call(self.alone)
        self.pace.note(result[-1], time.perf_counter() - start)
        return result

    def _run_together(self, call: Call) -> Trained:
        """Run on different cores. A look begins when the others wait: an idle core can take milliseconds to wake."""
        self.gate[:] = 0
        start = time.perf_counter()
        core, others = current_core(), dict[int, Future[Trained]]()

        def help_out(team: kernels.Team) -> Trained:
            with kept_on(other_cores(core)):
                return call(team)

        try:
            with kept_on(core):
                for team in self.teams[1:]:
                    others[team.thread] = self.pool.submit(help_out, team)
                while not all(self.gate[thread * APART] or other.done() for thread, other in others.items()):
                    time.sleep(0)
                start = time.perf_counter() if self.pace.looking else start
                result = call(self.teams[0])
                self.pace.note(result[-1], time.perf_counter() - start)
        except BaseException:  # Ctrl-C before the first thread is in the kernel: the others must not wait for it
            self.gate[:] = RELEASED
            raise
        finally:
            wait(others.values())
        for other in others.values():
            other.result()
        return result


class Pace:
    """Decides from the time that rows took whether the next ones are trained by one thread or by all.

    At first one works: help for less than that does not pay. Then it looks at both ways for some rows; again when all
    have become slower than one was, and else ever more seldom. Before it looks, all work for a while: an idle core of a
    virtual machine may need many milliseconds to be one of its own. The first call, which may compile, tells nothing.

    >>> pace = Pace()
    >>> [pace.note(LOOK, seconds) or pace.alone for seconds in (9.0, AT_FIRST, WARM_UP)]
    [True, False, False]
    >>> [pace.note(LOOK, 2.0 if pace.alone else 1.0) or (pace.alone, pace.looking) for _ in range(2 * LOOKS + 1)]
    [(False, True), (False, True), (True, True), (True, True), (False, False)]
    """

    def __init__(self) -> None:
        self.alone, self.looking, self.decided = True, False, True
        self.left, self.span = np.inf, FIRST_SPAN  # seconds until it looks, and from then to the next time
        self.seconds = [np.inf, np.inf]  # of a row together, and alone, at best when it last looked
        self.slow = 0.0  # for so many seconds all have been slower than one was

    def note(self, rows: int, seconds: float) -> None:
        """Take in how long so many rows took just now."""
        if self.left == np.inf:
            self.left = AT_FIRST
        elif self.looking:
            self._note_look(seconds / max(rows, 1))
        else:
            slow = not self.alone and seconds > rows * self.seconds[True]
            self.slow, self.left = self.slow + seconds if slow else 0.0, self.left - seconds
            if self.left <= 0 or self.slow > PATIENCE:
                self._prepare_to_look()

    def _prepare_to_look(self) -> None:
        if self.alone:
            self.alone, self.left = False, WARM_UP
        else:
            self.looking, self.looks, self.seconds = True, 0, [np.inf, np.inf]

    def _note_look(self, seconds: float) -> None:
        if self.looks:
            self.seconds[self.alone] = min(seconds, self.seconds[self.alone])
        self.looks += 1
        self.alone = self.looks > LOOKS
        if self.looks > 2 * LOOKS:
            before, self.decided = self.decided, self.seconds[True] < self.seconds[False]
            self.alone, self.looking, self.slow = self.decided, False, 0.0
            self.span = min(2 * self.span, LONGEST_SPAN) if self.decided == before else FIRST_SPAN
            self.left = self.span


class RecordEngine:
    """Trains LR, FM, DiFacto and RaFM on records, by small mini-batches in two phases."""

    def __init__(
        self,
        plan: RankPlan,
        grouping: Grouping,
        shape: RowShape,
        options: TrainingOptions,
        bias: float,
        start: Parameters | None = None,
    ):
        optimizer = options.optimizer
        self.layout = RecordLayout(plan, True, optimizer.shadows)
        self.tables = self.layout.tables(grouping.bounds)
        shadow = partial(optimizer.first_shadow, rate=options.learning_rate, l1=options.l1)
        first = (optimizer.first_state, shadow if optimizer.shadows else None)
        self.records, self.grouping = first_records(self.layout, options.seed, start, *first), grouping
        self.bias = first_bias(bias, options)
        if start is not None:
            put_states(start, self.layout, self.records, self.bias)
        threads = 1 if PLAIN else min(options.threads, kernels.GROUPS)
        batch_size = batch_size_of(shape, options)
        self.works = make_works(self.layout, self.tables, shape.longest, batch_size, threads=threads)
        self.crew = Crew(threads)
        self.settings = settings_of(options)

    def sweeps(self) -> tuple[Step, ...]:
        return (self.train,)

    def piece_rows(self) -> int:
        size = self.works[0].losses.size
        return -(-PIECE // size) * size  # whole mini-batches

    def state(self) -> dict[str, np.ndarray]:
        return {"records": self.records, "bias": self.bias}

    def train(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Train on the rows in the given order; return the summed loss, and where it stopped being finite or -1.

        The loss is summed on from share to share, so that shares do not show in it.
        """
        total, done, stopped = 0.0, 0, -1
        while done < order.size and stopped < 0:
            share = order[done : done + self.crew.share(order.size, self.works[0].losses.size)]
            total, stopped, trained = self.crew.run(partial(self._step, rows, share, total))
            stopped, done = (done + stopped if stopped >= 0 else -1), done + trained
        return total, stopped

    def _step(self, rows: kernels.Rows, order: np.ndarray, total: float, team: kernels.Team) -> Trained:
        known = (self.tables, self.records, self.bias, self.settings)
        return kernels.train_rows(rows, order, *known, total, team, self.works[team.thread])

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        return score(rows, self.tables, self.records, self.bias[0])

    def parameters(self, last: bool = False) -> Parameters:
        weights, factors = self.layout.unpack(self.records, self.grouping.places, last)
        return Parameters(self.bias[:1].copy(), weights, factors)

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        found = States(self.bias.copy(), *self.layout.states(self.records), label_scale, value_scales)
        return found.each(self.grouping.undo)


class MixtureEngine:
    """Trains MRMA row by row: each pass over the data first steps the factors, then the mixture weights."""

    def __init__(
        self,
        plan: RankPlan,
        grouping: Grouping,
        options: TrainingOptions,
        bias: float,
        start: Parameters | None = None,
    ):
        self.layout = RecordLayout(plan, with_states=True)
        self.tables = self.layout.tables()
        self.records, self.grouping = first_records(self.layout, options.seed, start), grouping
        self.bias = first_bias(bias, options)
        self.mixture = np.ones((plan.n_features, plan.n_levels), np.float32)
        self.mixture_states = np.ones_like(self.mixture)
        if start is not None:
            states = put_states(start, self.layout, self.records, self.bias)
            self.mixture[:], self.mixture_states[:] = start.mixture, states.mixture
        self.settings = settings_of(options)

    def sweeps(self) -> tuple[Step, ...]:
        return self.train_factors, self.train_mixture

    def piece_rows(self) -> int:
        return PIECE

    def state(self) -> dict[str, np.ndarray]:
        return {
            "records": self.records,
            "bias": self.bias,
            "mixture": self.mixture,
            "mixture_states": self.mixture_states,
        }

    def train_factors(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Step the factors; return the summed loss, and where it stopped being finite or -1."""
        return mixture.train_factors(rows, order, *self._known(), self.settings)

    def train_mixture(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Step the mixture weights, which has no loss of its own."""
        return mixture.train_mixture(rows, order, *self._known(), self.mixture_states, MIXTURE_PULL, self.settings)

    def _known(self) -> tuple[kernels.Tables, np.ndarray, np.ndarray, np.ndarray]:
        return self.tables, self.records, self.bias, self.mixture

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        return score_mixture(rows, self.tables, self.records, self.bias[0], self.mixture)

    def parameters(self, last: bool = False) -> Parameters:
        weights, factors = self.layout.unpack(self.records, self.grouping.places, last)
        return Parameters(self.bias[:1].copy(), weights, factors, self.grouping.undo(self.mixture))

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        weights, factors = self.layout.states(self.records)
        found = States(self.bias.copy(), weights, factors, label_scale, value_scales, self.mixture_states)
        return found.each(self.grouping.undo)


def first_bias(bias: float, options: TrainingOptions) -> np.ndarray:
    """Return a bias followed by its states, as engines keep it."""
    return np.array([bias, *options.optimizer.states_of(bias, options.learning_rate), 0], np.float32)


def first_records(
    layout: RecordLayout, seed: int, start: Parameters | None, state: float = 1.0, shadow: Shadow | None = None
) -> np.ndarray:
    """Return the records of parameters to go on from, or fresh ones."""
    if start is None:
        return layout.fresh(seed, state, shadow)
    return layout.pack(start.weights, start.factors, state, shadow)


def put_states(start: Parameters, layout: RecordLayout, records: np.ndarray, bias: np.ndarray) -> States:
    """Write the states of parameters to go on from, which have them; return them."""
    assert start.states is not None
    layout.put_states(records, start.states.weights, start.states.factors)
    bias[:] = start.states.bias
    return start.states


def make_engine(
    plan: RankPlan,
    grouping: Grouping,
    shape: RowShape,
    options: TrainingOptions,
    bias: float,
    start: Parameters | None = None,
) -> Engine:
    """Return the engine of the plan's family, for features in the order of the grouping.

    Its parameters are fresh, or those of start, which must have states.
    """
    if plan.family == "mrma":
        return MixtureEngine(plan, grouping, options, bias, start)
    return RecordEngine(plan, grouping, shape, options, bias, start)
