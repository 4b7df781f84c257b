"""Which heads are tried on how many validation rows, and when one is taken: every threshold, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_HEAD_ROWS, FULL_HEAD_ROWS = 1_000, 10_000  # that are held out: for any head, and for all shapes
STEPS_PER_EPOCH, LEAST_BATCH, MOST_BATCH = 40, 32, 512
ERRORS_OF_GAIN = 2.0  # a gain of fewer standard errors may be luck


@dataclass(frozen=True)
class HeadShape:
    """Units and epochs of a head."""

    units: int
    epochs: int


# Few epochs, as a head overfits soon.
FEW_HEAD_SHAPES = (HeadShape(16, 5), HeadShape(16, 20))
HEAD_SHAPES = (HeadShape(16, 5), HeadShape(32, 10), HeadShape(64, 30))


def head_shapes(n_rows: int) -> tuple[HeadShape, ...]:
    """Return the shapes to try on this many held-out rows.

    >>> [len(head_shapes(n_rows)) for n_rows in (999, 1_000, 9_999, 10_000)]
    [0, 2, 2, 3]
    """
    if n_rows < LEAST_HEAD_ROWS:
        return ()
    return HEAD_SHAPES if n_rows >= FULL_HEAD_ROWS else FEW_HEAD_SHAPES


def head_batch(n_rows: int) -> int:
    """Return the rows of a step, so that few rows make as many steps per epoch.

    >>> [head_batch(n_rows) for n_rows in (20, 2_000, 100_000)]
    [20, 50, 512]
    """
    return min(n_rows, max(LEAST_BATCH, min(n_rows // STEPS_PER_EPOCH, MOST_BATCH)))


def head_shape(units: int) -> HeadShape:
    """Return the shape with this many units, and the epochs of the next one.

    >>> head_shape(20)
    HeadShape(units=20, epochs=10)
    """
    epochs = next((shape.epochs for shape in HEAD_SHAPES if shape.units >= units), HEAD_SHAPES[-1].epochs)
    return HeadShape(units, epochs)


def is_clear_gain(gain: float, error: float) -> bool:
    """Return whether a gain is more than luck.

    >>> is_clear_gain(0.02, 0.009), is_clear_gain(0.02, 0.01)
    (True, False)
    """
    return gain > ERRORS_OF_GAIN * error
