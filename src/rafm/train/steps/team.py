"""A thread team for training, which leaves the work to one thread where that is faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Barrier

import numpy as np

from ...jit.barrier import GATE_STRIDE
from ...kernels.tables import GROUPS, Team
from ...plan.scratch import on_pages
from .affinity import current_core, other_cores, pinned_to
from .probe import TRIAL_ROWS, Probe

RELEASED = 1 << 62  # a turn beyond any other, so that every thread passes the barrier
Trained = tuple[float, int, int]  # loss so far, first position whose loss is not finite or -1, rows trained
Call = Callable[[Team], Trained]


class ThreadTeam:
    """Threads that run a kernel together, synchronised by a barrier inside it.

    If other programs compete for the cores, waiting can cost more than the other threads contribute. The number of
    threads does not affect the result, so a team that is slower than one thread lets that one train alone, and probes
    again later.
    """

    def __init__(self, threads: int):
        self.gate = on_pages({"gate": (((threads + 1) * GATE_STRIDE,), np.int64)})["gate"]  # and tickets
        self.alone = Team(0, 1, 0, GROUPS, self.gate)
        ends = [-(-thread * GROUPS // threads) for thread in range(threads + 1)]
        parts = enumerate(pairwise(ends))
        self.teams = [Team(thread, threads, first, stop, self.gate) for thread, (first, stop) in parts]
        self.pool = ThreadPoolExecutor(max(1, threads - 1), "rafm")
        self.probe = Probe()
        started = Barrier(threads)
        waiting = [self.pool.submit(started.wait) for _ in self.teams[1:]]
        started.wait()  # all threads must exist before one of them waits for the others in a kernel
        for done in waiting:
            done.result()

    def share(self, rows: int, batch_size: int) -> int:
        """Return how many rows to train in the next call: few while probing which mode is faster."""
        if len(self.teams) == 1 or not self.probe.probing:
            return rows
        return max(TRIAL_ROWS // batch_size, 1) * batch_size

    @property
    def settled(self) -> bool:
        """Whether it is known which mode is faster."""
        return len(self.teams) == 1 or bool(np.isfinite(self.probe.seconds[True]) and not self.probe.probing)

    def run(self, call: Call) -> Trained:
        """Call once per thread; return the result, which is the same for all."""
        if len(self.teams) == 1:
            return call(self.alone)
        if not self.probe.alone:
            return self._run_together(call)
        start = time.perf_counter()
        result = call(self.alone)
        self.probe.note(result[-1], time.perf_counter() - start)
        return result

    def _run_together(self, call: Call) -> Trained:
        """Run all threads on different cores.

        A probe is timed from when the other threads are ready: an idle core can take milliseconds to wake up.
        """
        self.gate[:] = 0
        start = time.perf_counter()
        core, others = current_core(), dict[int, Future[Trained]]()

        def help_out(team: Team) -> Trained:
            with pinned_to(other_cores(core)):
                return call(team)

        try:
            with pinned_to(core):
                for team in self.teams[1:]:
                    others[team.thread] = self.pool.submit(help_out, team)
                while not all(self.gate[thread * GATE_STRIDE] or other.done() for thread, other in others.items()):
                    time.sleep(0)  # releases the GIL, which the other threads need to enter the kernel
                start = time.perf_counter() if self.probe.probing else start
                result = call(self.teams[0])
                self.probe.note(result[-1], time.perf_counter() - start)
        except BaseException:  # Ctrl-C before the first thread is in the kernel: the others must not wait for it
            self.gate[:] = RELEASED
            raise
        finally:
            wait(others.values())
        for other in others.values():
            other.result()
        return result
