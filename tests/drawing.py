"""How many examples property tests draw: enough for every change, or ten times as many before a release.

python -m pytest -n 2 --hypothesis-profile thorough
"""

from hypothesis import settings

LEAST, STEADY = 8, "steady"
settings.register_profile(STEADY, derandomize=True, deadline=None, database=None, max_examples=40)
settings.register_profile("thorough", settings.get_profile(STEADY), max_examples=400)


def examples(times):
    """Return settings with `times` the examples of other tests: fewer for slow ones, more for files."""
    return settings(max_examples=max(LEAST, round(times * settings.default.max_examples)))
