"""Losses, one file each. To add one, add its file to this folder and its name here.

A task may have several losses; the first one listed is its default.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from .. import aliases
from ..aliases import did_you_mean, nearest
from ..errors import ConfigError

if TYPE_CHECKING:
    from .loss import Loss

# The file of each loss, and its task.
LOSSES = {"log": "binary", "squared": "regression", "poisson": "count", "huber": "regression", "bpr": "ranking"}
LOSSES |= {"whole-data": "ranking"}  # of all pairs, trained by an engine of its own
SAME_CODE = {"bpr": "log", "whole-data": "squared"}  # losses whose code in kernels is that of another
KERNELS = [name for name in LOSSES if name not in SAME_CODE]  # in the order of their codes
TASKS = tuple(dict.fromkeys(LOSSES.values()))


@cache
def loss_named(name: str) -> Loss:
    """Return the default instance of a loss by name; only names in the registry are imported."""
    if name not in LOSSES:
        raise ConfigError(f"loss must be {one_of([*LOSSES])}, found {name!r}", key="loss")
    return import_module(f".{name.replace('-', '_')}", __name__).LOSS


def losses_of(task: str) -> list[str]:
    """Return the names of a task's losses, the default first.

    >>> losses_of("binary")
    ['log']
    """
    return [name for name, own in LOSSES.items() if own == task]


def loss_for(task: str, loss: str | Loss | None = None) -> Loss:
    """Return the loss for a task: the default, or the one given by name or as a Loss.

    >>> loss_for("clicks")
    Traceback (most recent call last):
    rafm.errors.ConfigError: task must be binary, regression, count or ranking, found 'clicks'; did you mean binary?
    >>> loss_for("regression", "huber")
    Huber(delta=1.0)
    """
    if task not in TASKS:
        hint = did_you_mean(nearest(str(task), TASKS, aliases.TASKS))
        raise ConfigError(f"task must be {one_of(TASKS)}, found {task!r}{hint}", key="task")
    names = losses_of(task)
    if loss is not None and not isinstance(loss, str):
        name = getattr(loss, "name", None)
    else:
        name = names[0] if loss is None else loss
    if name in LOSSES and name not in names:
        raise ConfigError(f"loss {name!r} needs task={LOSSES[name]!r}, found {task!r}", key="loss")
    if name not in names:
        raise ConfigError(f"loss must be {one_of(names)} for task {task!r}, found {loss!r}", key="loss")
    return loss_named(name) if loss is None or isinstance(loss, str) else loss


def one_of(names: tuple[str, ...] | list[str]) -> str:
    """Join names with commas and "or".

    >>> one_of(["a", "b", "c"]), one_of(["a"])
    ('a, b or c', 'a')
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
