"""Text generated from results: means, deviations, and whether a difference is statistically significant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LUCK = 0.05  # significance level


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean and, with several seeds, their standard deviation.

    >>> mean_and_deviation([0.1, 0.3])
    '0.2000 ± 0.1414'
    """
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the p value of Welch's t test; 1 with fewer than two values on a side.

    >>> p_value([1.0, 1.1, 0.9], [2.0, 2.1, 1.9]) < 0.001
    True
    """
    from scipy.stats import ttest_ind

    if min(len(ours), len(theirs)) < 2:
        return 1.0
    if np.std(ours) == np.std(theirs) == 0:  # the t statistic would divide by 0
        return 1.0 if np.mean(ours) == np.mean(theirs) else 0.0
    return float(ttest_ind(ours, theirs, equal_var=False).pvalue)


def standing(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Compare losses: return "better", "worse" or "level" (not significantly different).

    >>> standing([0.1, 0.11, 0.1], [0.2, 0.21, 0.2]), standing([0.1, 0.3], [0.2, 0.21])
    ('better', 'level')
    """
    if p_value(ours, theirs) >= LUCK:
        return "level"
    return "better" if np.mean(ours) < np.mean(theirs) else "worse"


def luck(p: float) -> str:
    """Format a p value."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def verdict(holds: bool, claim: str, why: str) -> str:
    """Return one item of the list of claims."""
    return f"* **{'Holds' if holds else 'Does not hold'}**: {claim}. {why}"
