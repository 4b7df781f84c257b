"""Check option values.

A check takes the name of an option, its value and the options checked so far. It returns the value to use or raises
ConfigError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from .errors import ConfigError
from .families import FAMILIES
from .flag_values import AUTO, ranks_setting
from .losses import loss_for
from .metrics import check_metric
from .optimizers import SAMPLERS, optimizer_for

if TYPE_CHECKING:
    from .losses.loss import Loss
    from .optimizers.optimizer import Optimizer

LEAST_STEP, MOST_STEP = 16, 1 << 16  # rows of a wide step
UPDATES = ("joint", "algorithm1")
FIELD_WEIGHTS = ("auto", "on", "off")
CALIBRATE = ("auto", "on", "off")
CALIBRATE_HELP = (
    "Clicks: fit a scale and an offset of the scores to the validation rows and apply them to the parameters: on, off, "
    "or auto (if the gain is significant)."
)
OFF, MOST_UNITS = "off", 4096  # of a head
MEASURED = "rafm"  # the family that measured ranks need
USUAL_OPTIMIZER, SAMPLED_RANK = "adagrad", 8  # the rank of sampled models, if none is given
SIZES = ("max_parameters", "max_bytes")  # of measured ranks
Check = Callable[[str, Any, dict[str, Any]], Any]  # name, value, options checked so far -> value to use


def number(positive: bool = False, optional: bool = False) -> Check:
    """Return a check for a finite number of at least 0, or above 0."""
    rule = "a positive number" if positive else "a number of at least 0"

    def check(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
        if optional and value is None:
            return None
        is_good = isinstance(value, Real) and math.isfinite(value) and float(value) >= 0
        if not is_good or (positive and value == 0):
            raise ConfigError(f"{name} must be {rule}, found {value!r}", key=name)
        return float(value)

    return check


def whole(least: int = 1, optional: bool = False) -> Check:
    """Return a check for a whole number."""

    def check(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
        if optional and value is None:
            return None
        # Integral and not int: NumPy's integers are common in parameter grids
        if not isinstance(value, Integral) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, found {value!r}", key=name)
        return int(value)

    return check


def loss(name: str, value: Any, chosen: dict[str, Any]) -> Loss:
    """Check that the loss fits the task."""
    return loss_for(chosen["task"], value)


def averaging(name: str, value: Any, chosen: dict[str, Any]) -> bool:
    """Check whether to average, which is the default if there are epochs to average over (decision 0020)."""
    import numpy as np

    if value is None:  # zeros of ftrl would not stay zeros
        value = chosen["n_epochs"] > 1 and not (chosen["optimizer"].is_sampler or chosen["optimizer"].name == "ftrl")
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(f"{name} must be True or False, found {value!r}", key=name)
    _check_unused(name, value or None, chosen)
    return bool(value)


def init_scale(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check the spread of initial factors."""
    if chosen["optimizer"].is_sampler:
        _check_unused(name, value, chosen)
        return None
    usual = 0.03 if chosen["loss"].is_classification else 0.01
    return number(positive=True)(name, usual if value is None else value, chosen)


def rate_drops(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
    """Check the number of drops; the state of FTRL depends on its learning rate, which cannot change."""
    usual = int(chosen["is_measured"] and not chosen["optimizer"].is_sampler)
    found = whole(least=0)(name, usual if value is None else value, chosen)
    _check_unused(name, found or None, chosen)
    if found and chosen["optimizer"].name == "ftrl":
        raise ConfigError(f"{name} must be 0 with optimizer='ftrl', whose learning rate cannot change", key=name)
    return found


def choice(names: Sequence[str]) -> Check:
    """Return a check for one of the names."""

    def check(name: str, value: Any, chosen: dict[str, Any]) -> str:
        if value not in names:
            raise ConfigError(f"{name} must be one of {', '.join(names)}, found {value!r}", key=name)
        return value

    return check


def model(name: str, value: Any, chosen: dict[str, Any]) -> str:
    """Check the model family; None stands for the default, which need not be the one that is trained."""
    return choice([*FAMILIES])(name, MEASURED if value is None else value, chosen)


def ranks(name: str, value: Any, chosen: dict[str, Any]) -> tuple[int, ...]:
    """Check that ranks increase and suit the model family; those to fall back on if they are to be measured."""
    from .plan.ranks import check_ranks

    value = ranks_setting(value, name) if isinstance(value, str) else value
    if isinstance(value, str) and chosen["model"] != MEASURED:
        raise ConfigError(f"{name}='auto' requires model={MEASURED!r}, found {chosen['model']!r}", key=name)
    chosen["is_measured"] = isinstance(value, str)
    chosen["are_ranks_given"] = (given := None if isinstance(value, str) else value) is not None
    if given is None and chosen["model"] == MEASURED:
        given = chosen["loss"].default_ranks
    return check_ranks(chosen["model"], given)


def item_fields(name: str, value: Any, chosen: dict[str, Any]) -> tuple[str, ...] | None:
    """Check the fields of the item, which losses of pairs need; reject what does not train by pairs."""
    loss = chosen["loss"]
    if not loss.is_pairwise:
        if value:
            raise ConfigError(f"{name} is for task='ranking', found task={loss.task!r}", key=name)
        return None
    names = (value,) if isinstance(value, str) else value
    if not names or isinstance(names, Mapping) or not all(isinstance(one, str) for one in names):
        raise ConfigError(f"task='ranking' needs {name}: the names of the fields that describe the item", key=name)
    for key, is_possible in (
        ("model", FAMILIES[chosen["model"]].has_common_vectors),
        ("ranks", not chosen["is_measured"]),
    ):
        if not is_possible:
            found = "auto" if key == "ranks" else chosen[key]
            raise ConfigError(f"task='ranking' cannot train {key}={found!r}; choose another", key=key)
    return tuple(names)


def rank_scale(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check the scale; ranks that are given mean the paper's rule unless it is given, too."""
    usual = 4.0 if FAMILIES[chosen["model"]].levels_by_count and not chosen["are_ranks_given"] else 1.0
    return number(positive=True)(name, usual if value is None else value, chosen)


def budget(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
    """Check the maximum size of a model, which only measured ranks can meet."""
    found = whole(optional=True)(name, value, chosen)
    if found is not None and not chosen["is_measured"] and chosen["model"] != MEASURED:
        rule = f"{name} needs measured ranks, which model={MEASURED!r} has"
        raise ConfigError(f"{rule}: drop model={chosen['model']!r}, or the limit", key=name)
    if found is not None and not chosen["is_measured"]:
        raise ConfigError(f"{name} requires ranks='auto': given ranks determine the size of the model", key=name)
    return found


def levels(name: str, value: Any, chosen: dict[str, Any]) -> Any:
    """Accept any rule; it is checked where it is used. Measured ranks need none."""
    if chosen["is_measured"] and value is not None:
        raise ConfigError(f"{name} cannot be given with ranks='auto', which measures them", key=name)
    return value


def dependent_weight(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check the weight; its default depends on the loss and the update rule."""
    default = chosen["loss"].dependent_weight if chosen["update"] == UPDATES[0] else 1.0
    return number()(name, default if value is None else value, chosen)


def field_weights(name: str, value: Any, chosen: dict[str, Any]) -> str:
    """Check the choice; only some model families have field weights."""
    found = choice(FIELD_WEIGHTS)(name, value, chosen)
    if found == "on" and not FAMILIES[chosen["model"]].uses_fields:
        families = ", ".join(family.name for family in FAMILIES.values() if family.uses_fields)
        raise ConfigError(f"{name} 'on' requires model {families}, found {chosen['model']!r}", key=name)
    if found == "on" and chosen["optimizer"].is_sampler and not chosen["loss"].is_classification:
        raise ConfigError(f"{name} 'on': optimizer={chosen['optimizer'].name!r} has them for clicks alone", key=name)
    return found


def step_rows(name: str, value: Any, chosen: dict[str, Any]) -> int | str:
    """Check the rows of a wide step; not all engines have them."""
    if value == AUTO:
        return AUTO
    is_whole = isinstance(value, Real) and float(value).is_integer()
    if not is_whole or not (value == 0 or LEAST_STEP <= value <= MOST_STEP):
        rule = f"'auto', 0 or a whole number from {LEAST_STEP} to {MOST_STEP}"
        raise ConfigError(f"{name} must be {rule}, found {value!r}", key=name)
    _check_unused(name, value or None, chosen)
    if value and chosen["loss"].is_pairwise:
        raise ConfigError(f"task='ranking' has no wide steps; use {name}=0", key=name)
    if value and not FAMILIES[chosen["model"]].has_common_vectors:
        raise ConfigError(f"model {chosen['model']!r} has no wide steps; use {name}=0", key=name)
    return int(value)


def optimizer(name: str, value: Any, chosen: dict[str, Any]) -> Optimizer:
    """Check that the optimiser can train the model family."""
    found, allowed = optimizer_for(USUAL_OPTIMIZER if value == AUTO else value), FAMILIES[chosen["model"]].optimizers
    is_chosen = found.is_sampler and chosen["is_measured"]  # then the sampler chooses the family
    if found.families is not None and chosen["model"] not in found.families and not is_chosen:
        families = ", ".join(map(repr, found.families))
        raise ConfigError(
            f"{name} {found.name!r} cannot train model {chosen['model']!r}, only {families}. Use model='difacto' for "
            "ranks by count, model='fm' for one rank, or another optimizer.",
            key=name,
        )
    if found.losses is not None and chosen["loss"].name not in found.losses:
        raise ConfigError(
            f"{name} {found.name!r} requires loss={found.losses[0]!r}, found {chosen['loss'].name!r}. "
            "Use another loss or optimizer.",
            key=name,
        )
    limit = next((size for size in SIZES if chosen.get(size) is not None), None)
    if is_chosen and chosen["loss"].is_classification and limit is not None:
        raise ConfigError(f"{limit} of a model of clicks needs training by steps: drop {name}={found.name!r}", key=name)
    if is_chosen and chosen["loss"].is_classification:
        raise ConfigError(f"ranks='auto' samples ratings only; give ranks, or drop {name}='gibbs'", key=name)
    if chosen["is_measured"] and found.name not in ("adagrad", "sgd", "gibbs"):
        raise ConfigError(
            f"ranks='auto' requires optimizer='adagrad', 'sgd' or 'gibbs', found {found.name!r}", key=name
        )
    if allowed is not None and found.name not in allowed:
        raise ConfigError(f"model {chosen['model']!r} can only be trained with optimizer={allowed[0]!r}", key=name)
    return found


def completed(given: dict[str, Any]) -> dict[str, Any]:
    """Fill in what other options imply: a limit of size measures ranks, and a sampler trains a family of its own.

    >>> completed({"max_parameters": 1000})
    {'max_parameters': 1000, 'ranks': 'auto'}
    """
    is_limited = any(given.get(name) is not None for name in SIZES)
    if is_limited and given.get("ranks") is None and given.get("model") in (None, MEASURED):
        given = {**given, "ranks": AUTO}
    return _with_family_of_sampler(given)


def _with_family_of_sampler(given: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a sampler trains if only it, or its samples, are asked for: an FM or, of several ranks, DiFacto."""
    optimizer, ranks = given.get("optimizer", AUTO), given.get("ranks")
    if given.get("keep_samples") and optimizer == AUTO:
        optimizer = next(iter(SAMPLERS))
    if given.get("model") is not None or getattr(optimizer, "name", optimizer) not in SAMPLERS:
        return given
    ranks = ranks_setting(ranks, "ranks") if isinstance(ranks, str) else ranks
    if ranks == AUTO:
        return given
    model = "difacto" if isinstance(ranks, Sequence) and len(ranks) > 1 else "fm"
    return {**given, "optimizer": optimizer, "model": model, "ranks": SAMPLED_RANK if ranks is None else ranks}


def is_searched(name: str, value: Any, chosen: dict[str, Any]) -> bool:
    """Return whether an option is to be found by short runs, the default with measured ranks, and record it."""
    if not (isinstance(value, str) and value == AUTO) and not (value is None and chosen["is_measured"]):
        return False
    if FAMILIES[chosen["model"]].features_per_row is not None:
        raise ConfigError(f"{name}='auto' is not available for model={chosen['model']!r}", key=name)
    chosen["searched"].append(name)
    return True


def learning_rate(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check the learning rate; its default depends on the loss and the optimiser."""
    if chosen["optimizer"].is_sampler:
        _check_unused(name, value, chosen)
        return None
    default = chosen["loss"].learning_rate * chosen["optimizer"].rate_share
    value = None if is_searched(name, value, chosen) else value
    return number(positive=True)(name, default if value is None else value, chosen)


def l2(name: str, value: Any, chosen: dict[str, Any]) -> tuple[float | None, ...]:
    """Return one penalty per rank, from one for all ranks or one for each."""
    n_ranks = len(chosen["ranks"])
    if chosen["optimizer"].is_sampler:
        _check_unused(name, value, chosen)
        return (None,) * n_ranks
    value = None if is_searched(name, value, chosen) else value
    value = chosen["loss"].l2 if value is None else value
    is_one = isinstance(value, str) or not hasattr(value, "__len__")  # a str has a length, but fails as a number
    values = [value] * n_ranks if is_one else list(value)
    if chosen["is_measured"] and not is_one:
        raise ConfigError(f"{name} must be one number with ranks='auto', found {value!r}", key=name)
    if len(values) != n_ranks:
        raise ConfigError(f"{name} must be one number, or {n_ranks}: one per rank, found {len(values)}", key=name)
    if is_one and not values:  # a linear model has no ranks, but a bad value is still an error
        number()(name, value, chosen)
    return tuple(number()(name, one, chosen) for one in values)


def l2_weights(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check the L2 penalty of the weights."""
    _check_unused(name, value or None, chosen)
    return number()(name, value, chosen)


def _check_unused(name: str, value: Any, chosen: dict[str, Any]) -> None:
    """Reject a value of an option that samplers do not have."""
    if value is not None and chosen["optimizer"].is_sampler:
        sampler = chosen["optimizer"].name
        raise ConfigError(f"{name} has no effect with optimizer={sampler!r}, which has no steps; drop it", key=name)


def n_epochs(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
    """Check the number of epochs; its default depends on the optimiser. A large model to be cut needs more."""
    sampler = chosen["optimizer"].is_sampler
    usual = 100 if chosen["is_measured"] and not sampler else chosen["optimizer"].n_epochs
    return whole()(name, usual if value is None else value, chosen)


def keep_samples(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
    """Check the number of samples to keep, which only samplers have."""
    found = whole(least=0)(name, value, chosen)
    if found and not chosen["optimizer"].is_sampler:
        raise ConfigError(f"{name} requires optimizer='gibbs': no other optimizer draws samples", key=name)
    if found and chosen["loss"].is_classification:
        raise ConfigError(f"{name} is for ratings: it is not available for task='binary'", key=name)
    if found and chosen["is_measured"]:
        raise ConfigError(f"{name} cannot be combined with ranks='auto': set ranks, or drop it", key=name)
    return found


def l1(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check an L1 penalty, which only some optimisers support."""
    if value and not chosen["optimizer"].has_l1:
        raise ConfigError(f"{name} requires optimizer='ftrl': no other optimizer yields exact zeros", key=name)
    return number()(name, value, chosen)


def metric(name: str, value: Any, chosen: dict[str, Any]) -> str:
    """Check that the metric suits the loss."""
    return check_metric(value, chosen["loss"])


def share(name: str, value: Any, chosen: dict[str, Any]) -> float:
    """Check a share of rows, which must leave some."""
    found = number()(name, value, chosen)
    if found >= 1:
        raise ConfigError(f"{name} must be below 1, found {value!r}", key=name)
    return found


def negative_rate(name: str, value: Any, chosen: dict[str, Any]) -> float:
    """Check the share of negatives that were kept."""
    rate = number(positive=True)(name, value, chosen)
    if rate > 1:
        raise ConfigError(f"{name} must be at most 1, found {value!r}", key=name)
    if rate < 1 and chosen["optimizer"].is_sampler:
        raise ConfigError(
            f"{name} has no effect with optimizer='gibbs', which is calibrated on validation rows", key=name
        )
    if rate < 1 and chosen["loss"].task != "binary":
        raise ConfigError(f"{name} requires task='binary': other tasks have no negatives", key=name)
    return rate


def calibrate(name: str, value: Any, chosen: dict[str, Any]) -> str:
    """Check the choice; only scores of clicks are calibrated, on validation rows with all of their negatives."""
    found = choice(CALIBRATE)(name, value, chosen)
    if found == "on" and not chosen["loss"].is_classification:
        raise ConfigError(f"{name} 'on' requires task='binary', found {chosen['task']!r}", key=name)
    if found == "on" and chosen["optimizer"].is_sampler:
        raise ConfigError(f"{name} has no effect with optimizer='gibbs', which calibrates by itself; drop it", key=name)
    if found == "on" and chosen["negative_rate"] < 1:
        raise ConfigError(f"{name} 'on' would undo negative_rate, if validation rows lack negatives too", key=name)
    return found


def head(name: str, value: Any, chosen: dict[str, Any]) -> int | str:
    """Check the units of a head, which needs pairs of fields."""
    if value in (AUTO, OFF):
        return value
    is_whole = isinstance(value, Real) and float(value).is_integer()
    if not is_whole or not 1 <= value <= MOST_UNITS:
        raise ConfigError(
            f"{name} must be 'auto', 'off' or a whole number from 1 to {MOST_UNITS}, found {value!r}", name
        )
    if not FAMILIES[chosen["model"]].can_have_head or chosen["loss"].is_pairwise:
        model = "task='ranking'" if chosen["loss"].is_pairwise else f"model {chosen['model']!r}"
        raise ConfigError(f"{model} has no {name}; use {name}='off'", key=name)
    return int(value)
