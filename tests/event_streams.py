"""What tests of the consumers of events share: a short run, and a reader that has left."""

import io

import numpy as np

from rafm.plan.ranks import RankPlan
from rafm.train.events import EpochFinished, Finished, Planned

COUNTS = np.arange(100, 0, -1)
EVENTS = [
    Planned(RankPlan("fm", (4,), (100, 100, 0)), COUNTS, 1000),
    EpochFinished(1, 0.5, {}, 0.1, best=False),
    EpochFinished(2, 0.4, {}, 0.1, best=False),
    Finished(None),
]


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")
