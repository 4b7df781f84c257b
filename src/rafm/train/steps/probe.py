"""Find out during training whether one thread or the whole team is faster."""

from __future__ import annotations

import numpy as np

TRIAL_ROWS = 1 << 13  # approximate number of rows per trial
TRIALS, MAX_TRIALS = 2, 7  # trials per mode: if all of the team's are faster than all of one thread, and otherwise
ALONE_SECONDS, WARM_UP_SECONDS = 0.25, 0.2  # single-threaded time at the start, and team time before a probe
SLOW_SECONDS = 0.1  # probe again after the team has been slower than one thread for this long
FIRST_SPAN_SECONDS = 2.0  # time between two probes; it doubles while their result is the same
LONGEST_SPANS = (64.0, 16.0)  # for the team, and for one thread: a team that was disturbed should not be lost for long


class Probe:
    """Decides from measured times whether one thread or the whole team trains the next rows.

    Training starts on one thread, because a team does not pay off for short runs. Then both modes are timed on some
    rows, and again when the team has become slower than one thread was, otherwise at ever longer intervals. The team
    runs for a while before a probe: an idle core of a virtual machine may take many milliseconds to become available.
    The first call is ignored, because it may compile.

    Trials last milliseconds, so other programs can disturb several in a row, a team's above all, which needs all its
    cores at once. So both modes take turns, and unless the first trials agree on the team, the medians of more decide:
    a busy moment does not count, and busy neighbours do.

    >>> probe = Probe()
    >>> [probe.note(TRIAL_ROWS, seconds) or probe.alone for seconds in (9.0, ALONE_SECONDS, WARM_UP_SECONDS)]
    [True, False, False]
    >>> def one_trial():
    ...     probe.note(TRIAL_ROWS, 2.0 if probe.alone else 1.0)
    ...     return probe.alone, probe.probing
    >>> [one_trial() for _ in range(2 * TRIALS + 1)]
    [(False, True), (True, True), (False, True), (True, True), (False, False)]
    """

    def __init__(self) -> None:
        self.alone, self.probing = True, False
        self.decided: bool | None = None  # by the last probe, whether one thread trains
        self.left, self.span = np.inf, FIRST_SPAN_SECONDS  # seconds until the next probe, and between probes
        self.seconds = [np.inf, np.inf]  # median seconds per row in the last probe: as a team, and alone
        self.trials: tuple[list[float], list[float]] = ([], [])  # seconds per row, in the same order
        self.slow = 0.0  # seconds for which the team has been slower than one thread was

    def note(self, rows: int, seconds: float) -> None:
        """Record that the last call trained this many rows in this many seconds."""
        if self.left == np.inf:  # the first call
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
            self.probing, self.is_warm, self.trials = True, False, ([], [])

    def _note_trial(self, seconds: float) -> None:
        if not self.is_warm:  # the first trial
            self.is_warm = True
            return
        self.trials[self.alone].append(seconds)
        self.alone = not self.alone
        team, one = self.trials
        if len(one) == MAX_TRIALS or (len(one) == len(team) == TRIALS and max(team) < min(one)):
            self._decide()

    def _decide(self) -> None:
        self.seconds = [float(np.median(each)) for each in self.trials]
        before, self.decided = self.decided, self.seconds[True] < self.seconds[False]
        self.alone, self.probing, self.slow = self.decided, False, 0.0
        self.span = min(2 * self.span, LONGEST_SPANS[self.alone]) if self.alone == before else FIRST_SPAN_SECONDS
        self.left = self.span
