"""Constructors of estimators: store the arguments, explain unknown ones, and document them from their declarations."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..aliases import did_you_mean
from ..options import declared_options, nearest_option

Kind = TypeVar("Kind", bound=type)
Parameters = ParamSpec("Parameters")
Callback = Callable[[Any], Any]  # of a training event
UNDECLARED = {  # parameters that are not training options: type and description
    "columns": (
        "dict or TableSpec",
        "Kinds of table columns by name, such as {'age': 'bins', 'price': {'kind': 'bins', 'n_bins': 20}}. The kinds "
        "of others are chosen by their names, types and cells.",
    ),
    "cross": (
        "str or sequence",
        'Conjunctions of columns of a table, whose combinations of values become features: "user*hour,item*hour" or '
        '[("user", "hour"), ("item", "hour")]; "auto" chooses pairs by held-out rows, None means off.',
    ),
    "fields": (
        "array of str or int",
        "Field of each column of a matrix, by name or number. The fields of a table are its columns.",
    ),
    "callbacks": (
        "callable or list of callable",
        "Called by `fit` with each training event, such as `rafm.train.events.EpochFinished`. Training ends with the "
        "best epoch so far if one returns True; exceptions pass through and leave the estimator unfitted.",
    ),
    "verbose": ("bool", "Print the kinds of table columns, the plan of ranks and one line per epoch."),
}
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


def option_parameters(kind: type) -> list[tuple[str, str]]:
    """Return (option name, parameter name) for each option of an estimator."""
    has = inspect.signature(kind).parameters
    pairs = ((name, declared.parameter or name) for name, declared in declared_options())
    return [(name, parameter) for name, parameter in pairs if parameter in has]


def stored(init: Callable[Concatenate[Any, Parameters], None]) -> Callable[Concatenate[Any, Parameters], None]:
    """Make a constructor store its arguments, which is all that scikit-learn allows it to do."""
    signature = inspect.signature(init)

    @functools.wraps(init)  # scikit-learn's get_params and clone read the parameters from the signature
    def construct(self: Any, *arguments: Parameters.args, **named: Parameters.kwargs) -> None:
        unknown = next((name for name in named if name not in signature.parameters), None)
        if unknown is not None:
            near = nearest_option(unknown, [*signature.parameters][1:])
            hint = ELSEWHERE.get(unknown) or did_you_mean(near and repr(near))
            raise TypeError(f"{type(self).__name__} has no parameter {unknown!r}{hint}")
        bound = signature.bind(self, *arguments, **named)
        bound.apply_defaults()
        for name, value in [*bound.arguments.items()][1:]:  # without self
            setattr(self, name, value)

    return construct


def documented(kind: Kind) -> Kind:
    """Add sections about parameters and attributes to the docstring of an estimator, before its examples."""
    declared = {one.parameter or name: one for name, one in declared_options()}
    entries = []
    for name, parameter in inspect.signature(kind).parameters.items():
        one = declared.get(name)
        written, text = (one.type, one.parameter_help or one.help) if one else UNDECLARED[name]
        wrapped = textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")
        entries.append(f"{name} : {written}, default={parameter.default!r}\n{wrapped}")
    before, title, examples = (kind.__doc__ or "").partition("    Examples\n")
    before, _, own = before.partition("    Attributes\n    ----------\n")
    attributes = f"{textwrap.dedent(own).strip()}\n{ATTRIBUTES}".strip()
    added = "\n".join(["Parameters", "----------", *entries, "", "Attributes", "----------", attributes])
    kind.__doc__ = f"{before}{textwrap.indent(added, '    ')}\n\n{title}{examples}"
    return kind
