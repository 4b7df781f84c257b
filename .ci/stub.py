"""Print src/rafm/estimators/signatures.pyi: the constructors that are generated at run time, for editors.

python .ci/stub.py > src/rafm/estimators/signatures.pyi
"""

from __future__ import annotations

import inspect
import textwrap

from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor

HEADER = '''"""Constructors of the estimators, for editors and type checkers. Written by `.ci/stub.py`; do not edit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..encode.spec import TableSpec
from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule
'''
TYPES = {  # of docstrings
    "bool": "bool",
    "int": "int",
    "int or None": "int | None",
    'int, sequence of int or "auto"': "int | str | Sequence[int]",
    "int, RandomState or None": "int | np.random.RandomState | None",
    "float": "float",
    'float or "auto"': "float | str",
    'float, sequence of float or "auto"': "float | str | Sequence[float]",
    "str": "str",
    "str or sequence of str": "str | Sequence[str]",
    "dict or TableSpec": "Mapping[str, Any] | TableSpec",
    "array of str or int": "Sequence[str] | Sequence[int] | np.ndarray",
    "rule or array of int": "LevelRule | np.ndarray | Sequence[int]",
}
SETTINGS = {"loss": "str | Loss", "optimizer": "str | Optimizer"}


def stub(kind: type, name: str) -> str:
    """Return the class that declares the constructor of an estimator, with its documentation."""
    documented = section(kind, "Parameters")
    parameters = [*inspect.signature(kind).parameters.values()]
    declared = [f"{one.name}: {annotation(one, documented)} = {one.default!r}," for one in parameters]
    lines = ["self,", declared[0], "*,", *declared[1:]]
    text = f'"""Keep the options of training.\n\nParameters\n----------\n{documented}\n"""'
    return (
        f"class {name}:\n    def __init__(\n{textwrap.indent(chr(10).join(lines), ' ' * 8)}\n    ) -> None:\n"
        f"{textwrap.indent(text, ' ' * 8)}\n".replace("'", '"')
    )


def section(kind: type, title: str) -> str:
    """Return a section of the docstring of a class."""
    return inspect.getdoc(kind).split(f"{title}\n{'-' * len(title)}\n")[1].split("\n\n")[0]


def annotation(parameter: inspect.Parameter, documented: str) -> str:
    """Return the type of a parameter, from its documentation."""
    (line,) = (line for line in documented.splitlines() if line.startswith(f"{parameter.name} : "))
    written = line.partition(" : ")[2].rpartition(", default=")[0]
    kind = SETTINGS.get(parameter.name) or TYPES.get(written, "object")  # accepts anything
    return kind if parameter.default is not None or kind.endswith(("None", "object")) else f"{kind} | None"


if __name__ == "__main__":
    kinds = {"ClassifierSignature": RaFMClassifier, "RegressorSignature": RaFMRegressor, "RankerSignature": RaFMRanker}
    print("\n".join([HEADER, *(stub(kind, name) for name, kind in kinds.items())]), end="")
