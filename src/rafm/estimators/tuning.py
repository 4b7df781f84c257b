"""Tune an estimator."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar

from sklearn.base import clone

from ..files.atomic import PathLike
from ..model.file import file_bytes
from ..model.model import Model
from ..options import declared_options
from ..rows.source import InMemory
from ..train.resources import Resources
from ..tuning.display import show_trials
from ..tuning.tune import Limits, Subject, Tuned
from ..tuning.tune import tune as run_trials
from .arguments import single_pair
from .machine import FactorizationMachine
from .parameters import option_parameters

Machine = TypeVar("Machine", bound=FactorizationMachine)
# given or not, they are no reason to leave an option alone
NOT_TUNED = ("seed", "threads", "max_parameters", "max_bytes")


def tune(
    estimator: Machine,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    eval_set: Any = None,
    trials: int | None = None,
    budget_seconds: float | None = None,
    max_parameters: int | None = None,
    max_bytes: int | None = None,
    study: PathLike | None = None,
) -> Machine:
    """Find learning rate, L2, ranks and other options by trials on validation rows.

    The first trial has the defaults. Parameters of the estimator that differ from their defaults are not changed.
    Needs Optuna: `pip install '.[tune]'` in a checkout of rafm.

    Parameters
    ----------
    estimator : RaFMClassifier or RaFMRegressor
        What to tune; it is not changed. With `verbose=True`, one line per trial is printed.
    X : sparse matrix, array, DataFrame or Arrow table
        Rows.
    y : array of shape (n_rows,)
        Labels.
    sample_weight : array of shape (n_rows,), default=None
        Non-negative row weights.
    eval_set : (X, y), default=None
        Validation rows to compare trials on; by default, `validation_fraction` of the rows are held out.
    trials : int, default=None
        Number of trials.
    budget_seconds : float, default=None
        Time for all trials, total across resumes; by default as long as 30 trainings with the defaults, unless `trials`
        is given.
    max_parameters, max_bytes : int, default=None
        Maximum number of parameters of the model, and size of its file.
    study : path, default=None
        SQLite file of the trials; the same call resumes from it. In memory by default.

    Returns
    -------
    RaFMClassifier or RaFMRegressor
        A fitted estimator with the parameters of the best trial. Its attribute `trials_` is a list of dicts: `number`,
        `state`, `value`, `parameters`, `epochs`, `seconds` and `settings` of each trial.

    Examples
    --------
    >>> import rafm
    >>> X, y = [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50, [1, 0, 0, 1] * 50
    >>> model = rafm.tune(rafm.RaFMClassifier(model="fm"), X, y, trials=2)
    >>> len(model.trials_), model.trials_[0]["settings"], model.model
    (2, {}, 'fm')
    """
    found = clone(estimator)
    options = found._options()
    data = found._rows(X, y, sample_weight, fitting=True)
    valid = None if eval_set is None else InMemory(found._rows(*single_pair(eval_set), None, fitting=False))
    resources = Resources(reserved_bytes=found._extra_bytes())
    given = {name: value for name, value in found._given().items() if name not in ("max_parameters", "max_bytes")}
    limits, keeper = Limits(trials, budget_seconds, max_parameters, max_bytes), MemoryKeeper(found)
    subject = Subject(found._source(data), valid, options.loss.task, given, _fixed(found), resources, True)
    events = run_trials(subject, limits, keeper, study)
    for event in show_trials(events, options.metric) if found.verbose else events:
        if isinstance(event, Tuned):
            last = event
    parameters = dict(option_parameters(type(found)))
    found.set_params(**{parameters[name]: value for name, value in last.best.settings.items()})
    if last.best.settings.get("ranks") == "auto":
        found.set_params(max_parameters=max_parameters, max_bytes=max_bytes)
    assert keeper.model is not None
    found._keep(keeper.model)
    found.trials_ = [asdict(record) for record in last.records]
    return found


def _fixed(estimator: FactorizationMachine) -> frozenset[str]:
    """Return the names of the options that differ from their defaults."""
    defaults, declared = type(estimator)().get_params(), dict(declared_options())
    changed = {
        name
        for name, parameter in option_parameters(type(estimator))
        if name in declared
        and getattr(estimator, parameter) is not defaults[parameter]
        and repr(getattr(estimator, parameter)) != repr(defaults[parameter])
    }
    return frozenset(changed - {*NOT_TUNED})


class MemoryKeeper:
    """Keeps the best model in memory; a resumed study trains it again."""

    def __init__(self, estimator: FactorizationMachine):
        self.estimator, self.model = estimator, None  # type: FactorizationMachine, Model | None

    def keep(self, model: Model) -> str:
        self.model = model
        return f"in memory {id(self)}"

    def has(self, digest: str | None) -> bool:
        return self.model is not None and digest == f"in memory {id(self)}"

    def n_bytes(self, model: Model) -> int:
        return file_bytes(self.estimator._saved(model.for_scoring()))
