"""Generate constructors and docstrings of estimators from the declared training options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from ..options import Option, declared_options, nearest_option

Kind = TypeVar("Kind", bound=type)
COLUMNS = (
    "columns",
    None,
    "dict or TableSpec",
    "Kinds of table columns by name, such as {'age': 'bins', 'price': {'kind': 'bins', 'n_bins': 20}}. The kinds of "
    "others are chosen by their names, types and cells.",
)
FIELDS = (
    "fields",
    None,
    "array of str or int",
    "Field of each column of a matrix, by name or number. The fields of a table are its columns.",
)
VERBOSE = ("verbose", False, "bool", "Print the kinds of table columns, the plan of ranks and one line per epoch.")
CALLBACKS = (
    "callbacks",
    None,
    "callable or list of callable",
    "Called by `fit` with each training event, such as `rafm.train.events.EpochFinished`. Training ends with the best "
    "epoch so far if one returns True; exceptions pass through and leave the estimator unfitted.",
)
UNDECLARED: tuple[tuple[str, Any, str, str], ...] = (
    COLUMNS,
    FIELDS,
    CALLBACKS,
    VERBOSE,
)  # parameters that are not training options
ATTRIBUTES = """
n_parameters_ : int
    Number of model parameters.
history_ : list of dict
    Losses and metrics of each epoch.
best_epoch_ : int
    Epoch whose parameters were kept, or number of epochs that was chosen; 0 if none was better than a constant.
n_validation_rows_ : int
    Number of rows that chose that epoch: those of `eval_set`, or those held out; set by `fit`.
competition_ : dict
    Validation metric of each model that `fit` compared because no parameter defined the model, by its name, the default
    first; None for models that were given up. Empty if none competed.
levels_ : ndarray of shape (n_features,)
    Level of each feature: the number of its factor vectors, 0 if it was never seen in training.
feature_counts_ : ndarray of shape (n_features,)
    Number of training rows in which each feature was nonzero.
n_features_in_ : int
    Number of input columns.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the input columns, if X was a table, in its order.
encoder_ : TableEncoder or None
    Encoder of the table; `encoder_.feature_names()` names the features. None if X was a matrix.
coverage_ : Coverage
    Counts of known, missing and unseen values per column in the latest prediction for a table.
""".strip()
BY_WEIGHTS = (
    "; weigh the rows instead: fit(X, y, sample_weight=compute_sample_weight({}, y)), a function of "
    "sklearn.utils.class_weight"
)
ELSEWHERE = {  # parameters of other libraries that have no counterpart here, and the way out
    "class_weight": BY_WEIGHTS.format("'balanced'"),
    "scale_pos_weight": BY_WEIGHTS.format("{0: 1, 1: w}"),
    "is_unbalance": BY_WEIGHTS.format("'balanced'"),
}
NOT_OF_ALL = ("loss", "item_fields")  # the classifier always trains on log loss; only a ranker has items


def option_parameters(kind: type) -> list[tuple[str, str]]:
    """Return (option name, parameter name) for each option of an estimator."""
    has = inspect.signature(kind).parameters
    pairs = ((name, declared.parameter or name) for name, declared in declared_options())
    return [(name, parameter) for name, parameter in pairs if parameter in has]


def with_options(**defaults: Any) -> Callable[[Kind], Kind]:
    """Return a class decorator that adds the constructor and its documentation.

    defaults: overrides of the declared defaults for this estimator.
    """
    declared = [(name, one) for name, one in declared_options() if name not in NOT_OF_ALL or name in defaults]
    declared.sort(key=lambda pair: pair[0] != "ranks")  # first, as the only positional parameter

    def decorate(kind: Kind) -> Kind:
        given = [(one.parameter or name, defaults.get(name, _default(one)), one) for name, one in declared]
        kind.__init__ = _constructor(kind, [(name, default) for name, default, _ in given])  # type: ignore[misc]
        lines = [_described(name, default, one.type, one.parameter_help or one.help) for name, default, one in given]
        text = "\n".join([*lines, *(_described(*one) for one in UNDECLARED)])
        for name, section in (("{parameters}", text), ("{attributes}", ATTRIBUTES)):
            kind.__doc__ = (kind.__doc__ or "").replace(name, textwrap.indent(section, "    ").lstrip())
        return kind

    return decorate


def _default(declared: Option) -> Any:
    return declared.parameter_default if declared.parameter else declared.default


def _described(name: str, default: Any, kind: str, text: str) -> str:
    """Return one entry of a numpydoc section."""
    wrapped = textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")
    return f"{name} : {kind}, default={default!r}\n{wrapped}"


def _constructor(kind: type, given: list[tuple[str, Any]]) -> Callable[..., None]:
    """Return an `__init__` of a class that stores its arguments and does nothing else."""
    (first, default), *others = [*given, *((name, value) for name, value, _, _ in UNDECLARED)]
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", positional), inspect.Parameter(first, positional, default=default)]
    parameters += [inspect.Parameter(name, keyword, default=value) for name, value in others]
    signature = inspect.Signature(parameters)

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        unknown = next((name for name in named if name not in signature.parameters), None)
        if unknown is not None:
            near = nearest_option(unknown, [*signature.parameters][1:])
            hint = ELSEWHERE.get(unknown) or (f"; did you mean {near!r}?" if near else "")
            raise TypeError(f"{kind.__name__} has no parameter {unknown!r}{hint}")
        bound = signature.bind(self, *arguments, **named)
        bound.apply_defaults()
        for name, value in [*bound.arguments.items()][1:]:  # without self
            setattr(self, name, value)

    __init__.__module__, __init__.__qualname__ = kind.__module__, f"{kind.__qualname__}.__init__"
    # scikit-learn's get_params and clone read the parameters from the signature.
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
