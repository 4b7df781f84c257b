"""A team of threads that train together, or let one of them work alone where that is faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Barrier

import numpy as np

from ..jit.barrier import APART
from ..kernels.tables import GROUPS, Team
from ..plan.scratch import on_pages
from .affinity import current_core, kept_on, other_cores
from .probe import TRIAL_ROWS, Probe

RELEASED = 1 << 62  # a turn that lets every thread pass
Trained = tuple[float, int, int]  # loss so far, where it stopped being finite or -1, rows
Call = Callable[[Team], Trained]


class ThreadTeam:
    """Threads that call a kernel at the same time, and wait for one another inside it.

    Where other programs want the cores, waiting costs more than help brings; since the number of threads changes no
    result, a team that is slower than its first member alone lets that one work, and tries again later.
    """

    def __init__(self, threads: int):
        self.gate = on_pages({"gate": ((threads * APART,), np.int64)})["gate"]
        self.alone = Team(0, 1, 0, GROUPS, self.gate)
        ends = [-(-thread * GROUPS // threads) for thread in range(threads + 1)]
        parts = enumerate(pairwise(ends))
        self.teams = [Team(thread, threads, first, stop, self.gate) for thread, (first, stop) in parts]
        self.pool = ThreadPoolExecutor(max(1, threads - 1), "rafm")
        self.probe = Probe()
        started = Barrier(threads)
        waiting = [self.pool.submit(started.wait) for _ in self.teams[1:]]
        started.wait()  # all threads live before one waits for them in a kernel
        for done in waiting:
            done.result()

    def share(self, rows: int, batch_size: int) -> int:
        """Return how many rows to train by the next call: few if it is to find out which way is faster."""
        if len(self.teams) == 1 or not self.probe.probing:
            return rows
        return max(TRIAL_ROWS // batch_size, 1) * batch_size

    @property
    def settled(self) -> bool:
        """Whether it is known by now which way is faster."""
        return len(self.teams) == 1 or bool(np.isfinite(self.probe.seconds[True]) and not self.probe.probing)

    def run(self, call: Call) -> Trained:
        """Call once per thread; return what all of them return."""
        if len(self.teams) == 1:
            return call(self.alone)
        if not self.probe.alone:
            return self._run_together(call)
        start = time.perf_counter()
        result = call(self.alone)
        self.probe.note(result[-1], time.perf_counter() - start)
        return result

    def _run_together(self, call: Call) -> Trained:
        """Run on different cores. A look begins when the others wait: an idle core can take milliseconds to wake."""
        self.gate[:] = 0
        start = time.perf_counter()
        core, others = current_core(), dict[int, Future[Trained]]()

        def help_out(team: Team) -> Trained:
            with kept_on(other_cores(core)):
                return call(team)

        try:
            with kept_on(core):
                for team in self.teams[1:]:
                    others[team.thread] = self.pool.submit(help_out, team)
                while not all(self.gate[thread * APART] or other.done() for thread, other in others.items()):
                    time.sleep(0)
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
