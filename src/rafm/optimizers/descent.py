"""A step of a given length along a gradient."""

# mypy: ignore-errors
from ..jit.compile import as_written


@as_written
def step_number_by(records, o, gradient, step):
    """Step the number at o, rounded as written: not by what the compiler finds around it."""
    records[o] -= step * gradient
