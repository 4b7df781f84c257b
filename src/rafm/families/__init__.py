"""Model families, one file each. To add one, add its file to this folder, and its name and help here.

A file is imported when its family is first used. That is why it may use all stages, which know families by name alone.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from .family import Family

FAMILIES = {
    "rafm": "rank-aware factorization machine",
    "fm": "factorization machine of one rank",
    "lr": "linear model",
    "difacto": "one vector per feature, longer if it is frequent",
    "mrma": "mixture of ranks, two features per row",
    "ffm": "field-aware factorization machine",
}


@cache
def family_of(name: str) -> Family:
    """Return a family by name; only names in the registry are imported.

    >>> family_of("difacto").block_ranks((8, 32, 128))
    (8, 24, 96)
    """
    if name not in FAMILIES:
        raise ConfigError(f"model must be one of {', '.join(FAMILIES)}, found {name!r}", key="model")
    return import_module(f".{name}", __name__).FAMILY
