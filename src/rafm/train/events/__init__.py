"""Events that training yields. Each knows its lines for people and its record for `--events`.

Names of options stand in backticks in the lines, so that each consumer can spell them in its own way.
"""

from .choices import Chosen, Decided, HeldOut, NotHeldOut, NotRetrained, OneClass, Selected, Slowed, Trying
from .epochs import CheckpointWritten, EpochFinished, PieceFinished, StartEvaluated, table_header
from .event import Event
from .results import Calibrated, Distilled, Finished, HeadFitted, HeadTrial
from .starts import Begun, Continued, Cut, Measuring, Planned, Resumed, Searched, level_lines

__all__ = [
    "Begun",
    "Calibrated",
    "CheckpointWritten",
    "Chosen",
    "Continued",
    "Cut",
    "Decided",
    "Distilled",
    "EpochFinished",
    "Event",
    "Finished",
    "HeadFitted",
    "HeadTrial",
    "HeldOut",
    "Measuring",
    "NotHeldOut",
    "NotRetrained",
    "OneClass",
    "PieceFinished",
    "Planned",
    "Resumed",
    "Searched",
    "Selected",
    "Slowed",
    "StartEvaluated",
    "Trying",
    "level_lines",
    "table_header",
]
