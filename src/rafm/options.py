"""Every training option, declared once: its name, default, check, help text and command-line form.

Estimator parameters, flags of `rafm train`, the summary in a model file and the identity of a checkpoint derive from
Options. To add an option: one field here, and the line that uses it. Heavy modules are imported late. What one training
run does is a `Recipe` (train/recipe.py), which train/policy.py makes of options and rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from . import checks, flag_values
from .aliases import nearest_name
from .checks import UPDATES, Check, choice, number, whole
from .errors import ConfigError
from .families import FAMILIES, family_of
from .losses import one_of
from .metrics import METRICS
from .optimizers import OPTIMIZERS, SAMPLERS, optimizer_class

if TYPE_CHECKING:
    import numpy as np

    from .families.family import Family
    from .losses.loss import Loss
    from .optimizers.optimizer import Optimizer
    from .plan.ranks import LevelRule

ADAPTABLE = ("learning_rate", "l2", "init_scale")  # to the rows, unless they are given
KEPT_BY_SOME = ("l2", "validation_fraction", "item_fields", "effort")  # of model files


@dataclass(frozen=True)
class Option:
    """Declaration of one option."""

    help: str  # one or two sentences, for `rafm train --help` and the docstrings of the estimators
    check: Check  # returns the value to use, or raises ConfigError
    type: str  # as shown in docstrings
    flag_type: Any  # of the command-line flag, before `parse`
    default: Any  # of the command line and, unless `parameter` is set, of the estimators
    flag: str | None = None  # name of the flag, if different
    parse: Callable[[str, str], Any] | None = None  # converts the text of the flag to a value
    parameter: str | None = None  # name of the estimator parameter, if different
    parameter_default: Any = None
    parameter_help: str | None = None  # if different
    is_kept: bool = True  # whether the value is stored in the model file under its own name
    has_effect: bool = True  # whether it changes what a run computes, rather than how long or how fast it runs


# ---- The options


def option(default: Any, help: str, check: Check, type: str, flag_type: Any, **more: Any) -> Any:
    """Return a field that declares an option."""
    return field(metadata={"option": Option(help, check, type, flag_type, default, **more)})


@dataclass(frozen=True)
class Options:
    """What the user asks for, checked and completed by `resolve` in the order of the fields; never replaced."""

    loss: Loss = option(
        None,
        "Loss function: log for clicks; squared, huber or huber:DELTA for ratings; poisson for counts; for ranking "
        "whole-data or whole-data:WEIGHT, the squared loss over all pairs, those without a row together with WEIGHT "
        "times the weight of the rows (default: 20), or bpr or bpr:POWER, where negatives are drawn uniformly with "
        "POWER 0 and by popularity with 1 (default: 0.5). The default depends on the task: log, squared, poisson or "
        "whole-data (bpr with options of steps).",
        checks.loss,
        "str or settings",
        str,
        parse=flag_values.loss_setting,
        parameter_help='"squared", "huber", "poisson" (for counts), "whole-data" or "bpr" (of a ranker), or settings '
        "such as `rafm.Huber(delta=2.0)`, `rafm.WholeData(unseen=10)` and `rafm.Bpr(negative_power=1.0)`.",
        is_kept=False,
    )
    model: str = option(
        None,
        f"Model family: {', '.join(f'{name} ({help})' for name, help in FAMILIES.items())} (default: rafm).",
        checks.model,
        "str",
        str,
        is_kept=False,
    )
    ranks: tuple[int, ...] = option(
        None,
        "Increasing ranks, or auto: train a large model, measure which length each vector needs, and cut it (default: "
        "auto for large click data if no option defines the model; otherwise 8,32,128; 8,32 for ratings; 32 for fm).",
        checks.ranks,
        'int, sequence of int or "auto"',
        str,
        parse=flag_values.ranks_setting,
        is_kept=False,
    )
    item_fields: tuple[str, ...] | None = option(
        None,
        "With task ranking: fields that describe the item, comma-separated; all others are the context.",
        checks.item_fields,
        "str or sequence of str",
        str,
        parse=flag_values.names_setting,
        is_kept=False,  # only by models of pairs
    )
    max_parameters: int | None = option(
        None,
        "Maximum number of parameters, with ranks auto, which it implies (default: the smallest model within 0.5% of "
        "the best).",
        checks.budget,
        "int",
        int,
        is_kept=False,
    )
    max_bytes: int | None = option(
        None,
        "Maximum size of the model file, without optimiser state; implies ranks auto.",
        checks.budget,
        "int",
        int,
        is_kept=False,
    )
    rank_scale: float = option(
        None,
        "A feature seen n times gets the rank nearest to n times this number, on a log scale (default: 1, as in the "
        "paper; 4 if ranks are not set either).",
        checks.rank_scale,
        "float",
        float,
    )
    levels: LevelRule | np.ndarray | None = option(
        None,
        "Minimum count for each higher rank; replaces `rank_scale`.",
        checks.levels,
        "rule or array of int",
        str,
        flag="thresholds",
        parse=flag_values.thresholds,
        parameter_help="Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.",
        is_kept=False,
    )
    update: str = option(
        "joint",
        "Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).",
        choice(UPDATES),
        "str",
        str,
    )
    dependent_weight: float = option(
        None,
        "Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, "
        "1 with algorithm1).",
        checks.dependent_weight,
        "float",
        float,
    )
    optimizer: Optimizer = option(
        checks.AUTO,
        f"Optimiser: {one_of([*OPTIMIZERS])}; or {one_of([*SAMPLERS])}, which samples many models and distils them "
        "into one; auto: gibbs for ratings if no option defines another model, otherwise adagrad.",
        checks.optimizer,
        "str or settings",
        str,
        is_kept=False,
    )
    step_rows: int | str = option(
        "auto",
        "Rows per wide step, for many threads; 0: small mini-batches; auto: wide steps from 4 million rows.",
        checks.step_rows,
        'int or "auto"',
        str,
        parse=flag_values.number_or_auto,
        is_kept=False,
    )
    field_weights: str = option(
        "auto",
        "Learn one weight per field, so that some pairs count less: on, off, or auto (on with two or more fields).",
        checks.field_weights,
        "str",
        str,
        is_kept=False,
    )
    learning_rate: float = option(
        None,
        "Learning rate, or auto: chosen by short runs on validation rows (default: 0.2 for clicks, 0.1 for ratings "
        "and counts, lower for rows of more than 10 nonzeros; a quarter of that for sgd, a hundredth for adam; auto "
        "with ranks auto).",
        checks.learning_rate,
        'float or "auto"',
        str,
        parse=flag_values.number_or_auto,
    )
    l2: tuple[float, ...] = option(
        None,
        "L2 penalty of factors at each occurrence, or one per rank, or auto: chosen by short runs on validation rows "
        "if there are at most 400,000 training rows (default: 0.005 for clicks and counts, higher for clicks with "
        "more than 10 nonzeros per row or few rows per feature; 0.1 for ratings; auto with ranks auto).",
        checks.l2,
        'float, sequence of float or "auto"',
        str,
        parse=flag_values.numbers_or_auto,
        is_kept=False,
    )
    l2_weights: float = option(0.0, "L2 penalty of weights at each occurrence.", number(), "float", float)
    l1: float = option(0.0, "L1 penalty that sets whole factor vectors to 0 (ftrl only).", checks.l1, "float", float)
    l1_weights: float = option(0.0, "L1 penalty that sets linear weights to 0 (ftrl only).", checks.l1, "float", float)
    n_epochs: int = option(
        None,
        "Maximum number of passes over the data (default: 30; 100 with ranks auto, 200 with gibbs, "
        "16 with whole-data).",
        checks.n_epochs,
        "int",
        int,
        flag="epochs",
    )
    patience: int | None = option(
        3,
        "Stop after this many epochs without improvement on the validation rows; with gibbs, after ten times as many.",
        whole(optional=True),
        "int or None",
        int,
    )
    keep_samples: int = option(0, "Sampled models to keep (gibbs).", checks.keep_samples, "int", int, is_kept=False)
    averaging: bool = option(
        None,
        "Evaluate and keep a running average of the parameters, which moves half way to the current ones after each "
        "epoch (default: on, except with ftrl and gibbs).",
        checks.averaging,
        "bool",
        bool,
    )
    rate_drops: int = option(
        None,
        "When `patience` runs out, go back to the best epoch and continue with a fifth of the learning rate, up to "
        "this many times (default: 0; 1 with ranks auto).",
        checks.rate_drops,
        "int",
        int,
    )
    init_scale: float = option(
        None,
        "Standard deviation of the initial factors (default: 0.03 for 10,000 clicks and more, otherwise 0.01).",
        checks.init_scale,
        "float",
        float,
    )
    metric: str = option(
        None,
        f"Metric that selects the best epoch: {one_of([*METRICS])} (default: that of the loss).",
        checks.metric,
        "str",
        str,
    )
    validation_fraction: float = option(
        0.1,
        "Without validation rows: share of the rows to hold out. They choose the number of epochs; then a model is "
        "trained on all rows. 0 trains on all rows for `n_epochs` epochs.",
        checks.share,
        "float",
        float,
        flag="valid_share",
        is_kept=False,  # only by models for which rows were held out
    )
    effort: str = option(checks.EFFORTS[1], checks.EFFORT_HELP, choice(checks.EFFORTS), "str", str, is_kept=False)
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
        "Share of negatives kept if the training rows were downsampled; corrects the predicted probabilities.",
        checks.negative_rate,
        "float",
        float,
    )
    calibrate: str = option("auto", checks.CALIBRATE_HELP, checks.calibrate, "str", str, is_kept=False)
    head: int | str = option(
        "auto", checks.HEAD_HELP, checks.head, checks.HEAD_TYPE, str, parse=flag_values.number_or_word, is_kept=False
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
        "Worker threads; small mini-batches use at most two. Models are bit-identical for any value.",
        whole(),
        "int or None",
        int,
        parameter="n_jobs",
        parameter_default=None,
        is_kept=False,
        has_effect=False,
    )
    # Wishes without a flag of their own
    shuffle: bool = field(default=True)  # otherwise rows are visited in input order
    keep_state: bool = field(default=False)  # whether the model keeps its optimiser state, if it has one
    needs_state: bool = field(default=False)  # whether it must have one
    replan: bool = field(default=False)  # whether to raise the features of a resumed model to higher ranks
    # What the values above say together
    given: frozenset[str] = field(default=frozenset())  # names of options that are not at their defaults
    adaptable: frozenset[str] = field(default=frozenset())  # names of options to adapt to the rows: those not given
    searched: tuple[str, ...] = field(default=())  # settings to be found by short runs
    measured: bool = field(default=False)  # ranks="auto"; `ranks` are those to use where that is not possible

    @property
    def family(self) -> Family:
        """Properties of the model family."""
        return family_of(self.model)

    @property
    def rule(self) -> LevelRule | np.ndarray:
        """Rule that assigns levels to features, or the levels themselves."""
        from .plan.ranks import NearestRank

        return NearestRank(self.rank_scale) if self.levels is None else self.levels

    @property
    def joint(self) -> bool:
        """Whether dependent factors follow the gradients of both losses."""
        return self.update == UPDATES[0]

    @property
    def score_shift(self) -> float:
        """Correction added to scores, so that probabilities hold for rows with all negatives."""
        # Keeping a share r of the negatives multiplies the odds by 1/r; log(r) takes that back.
        return math.log(self.negative_rate)

    def summary(self) -> dict[str, Any]:
        """Return the options as plain values for the model file; explicit levels are stored in the plan."""
        from .plan.ranks import NearestRank, Thresholds

        rule = self.rule
        return {name: getattr(self, name) for name, declared in declared_options() if declared.is_kept} | {
            "rank_scale": rule.scale if isinstance(rule, NearestRank) else None,
            "thresholds": ",".join(f"{t:g}" for t in rule.minimum) if isinstance(rule, Thresholds) else None,
            "optimizer": self.optimizer.name,
            "batch_size": self.optimizer.batch_size,
            "l2": list(self.l2) if len(set(self.l2)) > 1 else next(iter(self.l2), None),
            **{name: limit for name in checks.SIZES if (limit := getattr(self, name)) is not None},
            **({"effort": self.effort} if self.effort != checks.EFFORTS[1] else {}),
            **({"item_fields": list(self.item_fields)} if self.item_fields else {}),
        }

    def identity(self) -> dict[str, Any]:
        """Return all options that decide what a run computes, by the names that users know."""
        chosen = {one.flag or name: getattr(self, name) for name, one in declared_options() if one.has_effect}
        measuring = ("searched",) * bool(self.searched) + ("measured",) * self.measured
        switches = ("shuffle", "keep_state", "replan", *measuring)
        return {"task": self.loss.task, **chosen, **{name: getattr(self, name) for name in switches}}


def declared_options() -> Iterator[tuple[str, Option]]:
    """Yield the name and the declaration of every option.

    >>> dict(declared_options())["update"].default
    'joint'
    """
    declared: tuple[Field[Any], ...] = fields(Options)
    return ((one.name, one.metadata["option"]) for one in declared if "option" in one.metadata)


def nearest_option(name: str, known: Iterable[str]) -> str | None:
    """Return the known option that matches a name of another library, or the one spelled most alike; else None.

    >>> nearest_option("lr", ["l1", "learning_rate"]), nearest_option("learnin_rate", ["l1", "learning_rate"])
    ('learning_rate', 'learning_rate')
    """
    return nearest_name(name, {own: {own, o.flag or own, o.parameter or own} for own, o in declared_options()}, known)


def resolve(
    *,
    task: str,
    shuffle: bool = True,
    keep_state: bool = False,
    needs_state: bool = False,
    replan: bool = False,
    **given: Any,
) -> Options:
    """Check all options and fill in defaults.

    >>> resolve(task="binary", l2=-1)
    Traceback (most recent call last):
    rafm.errors.ConfigError: l2 must be a number of at least 0, found -1
    """
    declared = dict(declared_options())
    unknown = [name for name in given if name not in declared]
    if unknown:
        near = nearest_option(unknown[0], declared)
        hint = f"did you mean {near!r}?" if near else f"the options are {', '.join(declared)}"
        raise ConfigError(f"unknown option {unknown[0]!r}; {hint}", key=unknown[0])
    asked = {name: value for name, value in given.items() if not _is_default(value, declared[name].default)}
    given = checks.completed(checks.with_loss_of_ranking(given, task, set(asked), shuffle and not needs_state))
    chosen: dict[str, Any] = {"task": task, "searched": []}
    # In the order of the fields: a check may use the values of earlier options.
    for name, one in declared.items():
        chosen[name] = one.check(name, given.get(name, one.default), chosen)
    checks.refuse_unused({name: given[name] for name in asked}, chosen)
    free = (name for name in ADAPTABLE if given.get(name) is None or name in chosen["searched"])
    return Options(
        **{name: chosen[name] for name in declared},
        shuffle=shuffle,
        keep_state=keep_state or needs_state,
        needs_state=needs_state,
        replan=replan,
        given=frozenset(asked),
        adaptable=frozenset(free if chosen["optimizer"].has_steps else ()),
        searched=tuple(chosen["searched"]),
        measured=chosen["is_measured"],
    )


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def from_summary(summary: dict[str, Any], family: str) -> dict[str, Any]:
    """Convert what `summary` wrote back to arguments of `resolve` for a model; unknown entries are ignored.

    >>> from_summary({"rank_scale": None, "thresholds": "10,100", "optimizer": "sgd", "l2": 0.1}, "rafm")
    {'model': 'rafm', 'l2': 0.1, 'levels': Thresholds(minimum=(10.0, 100.0)), 'optimizer': 'sgd'}
    """
    kept = [name for name, declared in declared_options() if declared.is_kept or name in KEPT_BY_SOME]
    chosen = {name: summary[name] for name in kept if name in summary}
    if chosen.get("rank_scale") is None:  # written as None if another rule assigned the levels
        chosen.pop("rank_scale", None)
    if summary.get("thresholds"):
        from .plan.ranks import Thresholds

        chosen["levels"] = Thresholds(tuple(float(part) for part in summary["thresholds"].split(",")))
    if name := summary.get("optimizer"):
        usual = optimizer_class(name)()  # a name alone stands for all defaults
        size = summary.get("batch_size", usual.batch_size)
        chosen["optimizer"] = name if size == usual.batch_size else optimizer_class(name)(batch_size=size)
    return checks.effective({"model": family, **chosen})
