"""A gradient step of a given size, and how the summed gradient of a wide step is damped."""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import as_written

ONE = np.float32(1)


@as_written
def step_number_by(records, o, gradient, step):
    """Step the scalar at o, with rounding that does not depend on the surrounding code."""
    records[o] -= step * gradient


@as_written
def damped(curvature):
    """Return the share of a summed gradient to use, 1 / (1 + curvature).

    The curvature is damping * step * the sum of the rows' squared gradients, which estimates the second derivative of
    their loss (Fisher information). So a rare parameter takes its whole step, and a frequent one at most the step of
    Newton's method, divided by the damping.
    """
    return ONE / (ONE + curvature)
