"""Clicks as ratings that nobody sees: a label is 1 if a latent z ~ N(score, 1) is above 0 (Albert and Chib, 1993).

Given z, everything is drawn as for ratings with labels z and noise precision 1; given the score, z is drawn from the
normal distribution, cut at 0. `design.labels` holds z. Names are those of gibbs_tables.py.
"""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import as_written, entry
from .gibbs import share
from .philox import log_of, normals_of, philox, uniform

OF_LATENT = np.uint64(5)  # last counter
TAIL = 0.4  # lower bound above which an exponential proposal is accepted more often than a normal one
ATTEMPTS = 1000


@as_written
def normal_above(low, c0, c2, c3, k0, k1):
    """Return a normal number above a bound, by rejection: normal proposals, or exponential ones in the tail."""
    rate = 0.5 * (low + np.sqrt(low * low + 4.0))
    for attempt in range(ATTEMPTS):
        w0, w1, w2, w3 = philox(c0, np.uint64(attempt), c2, c3, k0, k1)
        if low < TAIL:
            x, y = normals_of(w0, w1)
            if x > low:
                return x
            if y > low:
                return y
        else:
            x = low - log_of(uniform(w2)) / rate
            if log_of(uniform(w3)) < -0.5 * (x - rate) * (x - rate):
                return x
    return max(low, 0.0)


@entry
def draw_latent(design, signs, errors, sweep, key, more_key, team):
    """Draw z of all rows given their scores and labels, -1 or 1; each thread draws its parts."""
    first, stop = share(design.cuts.size - 1, team.thread, team.threads)
    counters, keys = (np.uint64(sweep), OF_LATENT), (np.uint64(key), np.uint64(more_key))
    for r in range(design.cuts[first], design.cuts[stop]):
        sign, score = np.float64(signs[r]), np.float64(design.labels[r]) - np.float64(errors[r])
        error = sign * normal_above(-sign * score, np.uint64(r), counters[0], counters[1], keys[0], keys[1])
        errors[r] = error
        design.labels[r] = score + error
    return 0.0, -1, design.labels.size
