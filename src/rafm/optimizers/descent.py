"""A gradient step of a given size."""

# mypy: ignore-errors
from ..jit.compile import as_written


@as_written
def step_number_by(records, o, gradient, step):
    """Step the scalar at o, with rounding that does not depend on the surrounding code."""
    records[o] -= step * gradient
