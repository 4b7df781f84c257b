"""Every training option, declared once: its name, default, check, help text and command-line form.

Estimator parameters and their documentation, the flags of `rafm train`, the summary in a model file and the identity
of a checkpoint derive from the fields of TrainingOptions. To add an option: one field here, and the line that uses it.
Nothing heavy is imported before an option is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from . import checks
from .checks import UPDATES, Check, choice, number, one_or_more, whole, whole_numbers
from .errors import ConfigError
from .families import FAMILIES, Family
from .losses import one_of
from .metrics import METRICS
from .optimizers import OPTIMIZERS, optimizer_class

if TYPE_CHECKING:
    import numpy as np

    from .losses.loss import Loss
    from .optimizers.optimizer import Optimizer
    from .plan.ranks import LevelRule

USUAL_ROW = 10.0  # nonzeros of a row up to which learning rates are as they are


@dataclass(frozen=True)
class Option:
    """What is declared about one option besides its name and default.

    Parameters
    ----------
    help : str
        One or two sentences, for `rafm train --help` and the docstrings of the estimators.
    check : callable
        Returns the value to use, or raises ConfigError.
    type : str
        How numpydoc names the type.
    flag_type : type
        Of the command-line flag, before `parse`.
    flag : str, optional
        Its command-line name if that differs from the name.
    parse : callable, optional
        Turns the text of the flag into a value.
    parameter : str, optional
        Its name as an estimator parameter if that differs from the name.
    parameter_default : object
        Its default there.
    parameter_help : str, optional
        Its help there.
    is_kept : bool
        Whether its value goes into the model file.
    has_effect : bool
        Whether it changes what a run computes, not only how far or how fast it gets.
    """

    help: str
    check: Check
    type: str
    flag_type: Any
    default: Any
    flag: str | None = None
    parse: Callable[[str, str], Any] | None = None
    parameter: str | None = None
    parameter_default: Any = None
    parameter_help: str | None = None
    is_kept: bool = True
    has_effect: bool = True


# ---- The options


def option(default: Any, help: str, check: Check, type: str, flag_type: Any, **more: Any) -> Any:
    """Return a field that declares an option."""
    return field(metadata={"option": Option(help, check, type, flag_type, default, **more)})


@dataclass(frozen=True)
class TrainingOptions:
    """All choices of one training run, as `resolve` checked them and filled them in, in the order it does so."""

    loss: Loss = option(
        None,
        "Loss to train on: log for clicks, squared, huber or huber:DELTA for ratings, poisson for counts "
        "(default: the first one of the task).",
        checks.loss,
        "str or settings",
        str,
        parse=checks.loss_setting,
        parameter_help='"squared", "huber" or "poisson" (counts), or settings such as `rafm.Huber(delta=2.0)`.',
        is_kept=False,
    )
    model: str = option(
        "rafm",
        f"Model family: {', '.join(f'{family.name} ({family.help})' for family in FAMILIES.values())}.",
        choice([*FAMILIES]),
        "str",
        str,
        is_kept=False,
    )
    ranks: tuple[int, ...] = option(
        None,
        "Increasing ranks (default: 8,32,128; 32 for fm).",
        checks.ranks,
        "int or sequence of int",
        str,
        parse=whole_numbers,
        is_kept=False,
    )
    rank_scale: float = option(
        1.0,
        "A feature seen n times gets the rank nearest to this number times n, in logarithms.",
        number(positive=True),
        "float",
        float,
    )
    levels: LevelRule | np.ndarray | None = option(
        None,
        "Minimum count for each higher rank; replaces `rank_scale`.",
        checks.anything,
        "rule or array of int",
        str,
        flag="thresholds",
        parse=checks.thresholds,
        parameter_help="Another rule, such as `rafm.Thresholds((10, 100))`, or one level per feature.",
        is_kept=False,
    )
    update: str = option(
        "joint",
        "Update rule of RaFM: joint, or algorithm1 for the paper's Algorithm 1 to the letter.",
        choice(UPDATES),
        "str",
        str,
    )
    dependent_weight: float = option(
        None,
        "Weight of the dependent factors' own loss (default: 0.5 for clicks and counts, 3 for ratings, "
        "1 with algorithm1).",
        checks.dependent_weight,
        "float",
        float,
    )
    optimizer: Optimizer = option(
        "adagrad",
        f"Optimiser: {one_of([*OPTIMIZERS])}.",
        checks.optimizer,
        "str or settings",
        str,
        is_kept=False,
    )
    learning_rate: float = option(
        None,
        "Learning rate (default: 0.2 for clicks, 0.1 for ratings and counts, lower for rows of more than 10 nonzeros; "
        "a quarter of that for sgd, a hundredth for adam).",
        checks.learning_rate,
        "float",
        float,
    )
    l2: tuple[float, ...] = option(
        None,
        "L2 penalty of factors at each occurrence, or one per rank (default: 0.005 for clicks and counts, "
        "0.1 for ratings).",
        checks.l2,
        "float or sequence of float",
        str,
        parse=one_or_more,
        is_kept=False,
    )
    l2_weights: float = option(0.0, "L2 penalty of linear weights at each occurrence.", number(), "float", float)
    l1: float = option(0.0, "With ftrl: the larger, the more whole vectors are exactly 0.", checks.l1, "float", float)
    l1_weights: float = option(
        0.0, "With ftrl: the larger, the more linear weights are exactly 0.", checks.l1, "float", float
    )
    n_epochs: int = option(30, "Maximum number of passes over the data.", whole(), "int", int, flag="epochs")
    patience: int | None = option(
        3,
        "Stop after this many epochs without improvement on the validation rows.",
        whole(optional=True),
        "int or None",
        int,
    )
    metric: str = option(
        None,
        f"Metric that the best epoch is chosen by: {one_of([*METRICS])}, as the loss allows (default: its own).",
        checks.metric,
        "str",
        str,
    )
    max_seconds: float | None = option(
        None,
        "Stop after this many seconds, total across resumes, and keep the best epoch.",
        number(positive=True, optional=True),
        "float",
        float,
        is_kept=False,
        has_effect=False,
    )
    negative_rate: float = option(
        1.0,
        "Share of the negatives that was kept in the training rows; probabilities are corrected for it.",
        checks.negative_rate,
        "float",
        float,
    )
    seed: int = option(
        0,
        "Random seed. Equal seeds give equal models.",
        whole(least=0),
        "int, RandomState or None",
        int,
        parameter="random_state",
        parameter_default=0,
    )
    threads: int = option(
        1,
        "Worker threads. Models are bit-identical for any value.",
        whole(),
        "int or None",
        int,
        parameter="n_jobs",
        parameter_default=None,
        is_kept=False,
        has_effect=False,
    )
    is_rate_given: bool = field(default=True)
    shuffle: bool = field(default=True)  # else rows are visited as they come
    keep_state: bool = field(default=False)  # of the optimiser, in the model
    replan: bool = field(default=False)  # ranks of the features of a model that training goes on from

    @property
    def family(self) -> Family:
        """What the model's family is."""
        return FAMILIES[self.model]

    @property
    def rule(self) -> LevelRule | np.ndarray:
        """How features get their levels."""
        from .plan.ranks import NearestRank

        return NearestRank(self.rank_scale) if self.levels is None else self.levels

    @property
    def joint(self) -> bool:
        """Whether dependent factors follow both gradients."""
        return self.update == UPDATES[0]

    @property
    def score_shift(self) -> float:
        """What to add to a score so that probabilities are those of rows of which no negatives were left out."""
        return math.log(self.negative_rate)

    def for_rows_of(self, nonzeros: float) -> TrainingOptions:
        """Return the options with a lower learning rate for rows of many nonzeros, unless it was given.

        A step moves all features of a row at once, and with them the row's score.

        >>> round(resolve(task="binary").for_rows_of(40).learning_rate, 3)
        0.025
        """
        share = min(1.0, (USUAL_ROW / max(nonzeros, 1.0)) ** 1.5)
        return self if self.is_rate_given else replace(self, learning_rate=self.learning_rate * share)

    def summary(self) -> dict[str, Any]:
        """Return the choices as plain values, for the model file; levels given one by one are in the plan."""
        from .plan.ranks import NearestRank, Thresholds

        rule = self.rule
        return {name: getattr(self, name) for name, declared in declared_options() if declared.is_kept} | {
            "rank_scale": rule.scale if isinstance(rule, NearestRank) else None,
            "thresholds": ",".join(f"{t:g}" for t in rule.minimum) if isinstance(rule, Thresholds) else None,
            "optimizer": self.optimizer.name,
            "batch_size": self.optimizer.batch_size,
            "l2": list(self.l2) if len(set(self.l2)) > 1 else next(iter(self.l2), None),
        }

    def identity(self) -> dict[str, Any]:
        """Return, by names that people know, all choices that decide what a run computes."""
        chosen = {
            declared.flag or name: getattr(self, name) for name, declared in declared_options() if declared.has_effect
        }
        switches = {name: getattr(self, name) for name in ("shuffle", "keep_state", "replan")}
        return {"task": self.loss.task, **chosen, **switches}


def declared_options() -> Iterator[tuple[str, Option]]:
    """Yield the name of every option and what is declared about it.

    >>> dict(declared_options())["rank_scale"].default
    1.0
    """
    declared: tuple[Field[Any], ...] = fields(TrainingOptions)
    return ((one.name, one.metadata["option"]) for one in declared if "option" in one.metadata)


def resolve(*, task: str, **given: Any) -> TrainingOptions:
    """Check every choice and fill in what was left open.

    >>> resolve(task="binary", l2=-1)
    Traceback (most recent call last):
    rafm.errors.ConfigError: l2 must be a number of at least 0, found -1
    """
    declared = dict(declared_options())
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]!r}; there are {', '.join(declared)}", key=unknown[0])
    chosen: dict[str, Any] = {"task": task}
    for name, one in declared.items():
        chosen[name] = one.check(name, given.get(name, one.default), chosen)
    chosen.pop("task")
    return TrainingOptions(**chosen, is_rate_given=given.get("learning_rate") is not None)


def from_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what `resolve` takes, from what `summary` wrote; what is unknown is left open.

    >>> from_summary({"rank_scale": None, "thresholds": "10,100", "optimizer": "sgd", "l2": 0.1})
    {'l2': 0.1, 'levels': Thresholds(minimum=(10.0, 100.0)), 'optimizer': 'sgd'}
    """
    kept = [name for name, declared in declared_options() if declared.is_kept or name == "l2"]
    chosen = {name: summary[name] for name in kept if name in summary}
    if chosen.get("rank_scale") is None:
        chosen.pop("rank_scale", None)
    if summary.get("thresholds"):
        from .plan.ranks import Thresholds

        chosen["levels"] = Thresholds(tuple(float(part) for part in summary["thresholds"].split(",")))
    if name := summary.get("optimizer"):
        usual = optimizer_class(name)()
        size = summary.get("batch_size", usual.batch_size)
        chosen["optimizer"] = name if size == usual.batch_size else optimizer_class(name)(batch_size=size)
    return chosen
