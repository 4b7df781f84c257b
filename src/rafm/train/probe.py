"""Finding out, while training, whether one thread alone or all together are faster."""

from __future__ import annotations

import numpy as np

TRIAL_ROWS = 1 << 13  # about how many rows are trained to time one of the two ways
TRIALS = 2  # of each way: a single one may meet a moment when others want the cores
ALONE_SECONDS, WARM_UP_SECONDS = 0.25, 0.2  # in which one thread works at first, and in which all do before a probe
SLOW_SECONDS = 0.1  # for which all together may be slower than one was
FIRST_SPAN_SECONDS, LONGEST_SPAN_SECONDS = 2.0, 64.0  # between two probes


class Probe:
    """Decides from the time that rows took whether the next ones are trained by one thread or by all.

    At first one works: help for less than that does not pay. Then both ways are tried for some rows; again when
    all have become slower than one was, and else ever more seldom. Before a trial all work for a while: an idle core of
    a virtual machine may need many milliseconds to be one of its own. The first call, which may compile, tells nothing.

    >>> probe = Probe()
    >>> [probe.note(TRIAL_ROWS, seconds) or probe.alone for seconds in (9.0, ALONE_SECONDS, WARM_UP_SECONDS)]
    [True, False, False]
    >>> def one_trial():
    ...     probe.note(TRIAL_ROWS, 2.0 if probe.alone else 1.0)
    ...     return probe.alone, probe.probing
    >>> [one_trial() for _ in range(2 * TRIALS + 1)]
    [(False, True), (False, True), (True, True), (True, True), (False, False)]
    """

    def __init__(self) -> None:
        self.alone, self.probing, self.decided = True, False, True
        self.left, self.span = np.inf, FIRST_SPAN_SECONDS  # seconds until it trials, and from then to the next time
        self.seconds = [np.inf, np.inf]  # of a row together, and alone, at best when it last looked
        self.slow = 0.0  # for so many seconds all have been slower than one was

    def note(self, rows: int, seconds: float) -> None:
        """Take in how long so many rows took just now."""
        if self.left == np.inf:
            self.left = ALONE_SECONDS
        elif self.probing:
            self._note_trial(seconds / max(rows, 1))
        else:
            slow = not self.alone and seconds > rows * self.seconds[True]
            self.slow, self.left = self.slow + seconds if slow else 0.0, self.left - seconds
            if self.left <= 0 or self.slow > SLOW_SECONDS:
                self._prepare_to_probe()

    def _prepare_to_probe(self) -> None:
        if self.alone:
            self.alone, self.left = False, WARM_UP_SECONDS
        else:
            self.probing, self.trials, self.seconds = True, 0, [np.inf, np.inf]

    def _note_trial(self, seconds: float) -> None:
        if self.trials:
            self.seconds[self.alone] = min(seconds, self.seconds[self.alone])
        self.trials += 1
        self.alone = self.trials > TRIALS
        if self.trials > 2 * TRIALS:
            before, self.decided = self.decided, self.seconds[True] < self.seconds[False]
            self.alone, self.probing, self.slow = self.decided, False, 0.0
            self.span = min(2 * self.span, LONGEST_SPAN_SECONDS) if self.decided == before else FIRST_SPAN_SECONDS
            self.left = self.span
