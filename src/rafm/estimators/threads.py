"""Let several threads share an estimator: one trains at a time, and others see it before or after, never between."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Locks:
    """training: held as long as a call of `fit` takes. exchange: held while a model and its encoder are replaced."""

    training: Any = field(default_factory=threading.RLock)
    exchange: Any = field(default_factory=threading.RLock)


# Not attributes of the estimators, which are copied, cloned and pickled, and have the state that scikit-learn expects.
_LOCKS: weakref.WeakKeyDictionary[Any, Locks] = weakref.WeakKeyDictionary()
_GUARD = threading.Lock()


def locks_of(estimator: Any) -> Locks:
    """Return the locks of an estimator."""
    with _GUARD:
        return _LOCKS.setdefault(estimator, Locks())


def one_at_a_time(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let calls of a method that trains wait for each other, in the order in which they come."""

    @functools.wraps(method)
    def waiting(*arguments: Given.args, **named: Given.kwargs) -> Result:
        with locks_of(arguments[0]).training:
            return method(*arguments, **named)

    return waiting
