"""A head: a small network on what a trained model knows of a row, whose output is added to the score.

The inputs are the row's account, see kernels/head.py: they do not depend on the basis of the vectors, so a head stays
valid when the model below it is trained again on more rows. Features that the model does not know count as absent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.head import (
    FIELD_AWARE,
    LIMIT,
    NESTED,
    PREFIX,
    HeadFields,
    HeadSource,
    Network,
    add_network,
    describe_rows,
)
from ..kernels.tables import Rows

if TYPE_CHECKING:
    from .model import Model

MOST_PAIRED_FIELDS = 20  # more fields have one sum each, instead of one for every two
CHUNK_ROWS = 1 << 10  # rows whose accounts are in memory at a time


def head_shapes(n_fields: int, n_units: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a head."""
    n = n_inputs(n_fields)
    shapes = {"output": (n_units,), "means": (n,), "scales": (n,), "hidden": (n, n_units), "hidden_bias": (n_units,)}
    return {f"head.{name}": shape for name, shape in (shapes | {"output_bias": (1,)}).items()}


def is_head(found: Any, n_fields: int) -> bool:
    """Return whether this describes a head of a model with n_fields fields in the header of a file."""
    return isinstance(found, dict) and type(found.get("n_fields")) is int and 1 < found["n_fields"] <= n_fields


def n_inputs(n_fields: int) -> int:
    """Return the length of an account.

    >>> n_inputs(3), n_inputs(21)
    (10, 64)
    """
    pairs = n_fields * (n_fields - 1) // 2 if n_fields <= MOST_PAIRED_FIELDS else n_fields
    return 1 + pairs + 2 * n_fields


def input_names(names: tuple[str, ...]) -> list[str]:
    """Return the name of each input, given those of the fields.

    >>> input_names(("user", "film"))
    ['score', 'user x film', 'user', 'film', 'count of user', 'count of film']
    """
    n = len(names)
    if n <= MOST_PAIRED_FIELDS:
        pairs = [f"{names[a]} x {names[b]}" for a in range(n) for b in range(a + 1, n)]
    else:
        pairs = [f"{name} x others" for name in names]
    return ["score", *pairs, *names, *(f"count of {name}" for name in names)]


def pair_places(n_fields: int) -> np.ndarray:
    """Return the two places in an account to which a pair of features of two fields is added; see HeadFields.

    >>> pair_places(3)[:, :, 0]
    array([[-1,  1,  2],
           [ 1, -1,  3],
           [ 2,  3, -1]])
    """
    places = np.full((n_fields, n_fields, 2), -1, np.int64)
    if n_fields <= MOST_PAIRED_FIELDS:
        a, b = np.triu_indices(n_fields, 1)
        places[a, b] = places[b, a] = 1 + np.arange(a.size)[:, None]
    else:
        a, b = np.nonzero(~np.eye(n_fields, dtype=bool))
        places[a, b, 0], places[a, b, 1] = 1 + a, 1 + b
    return places


@dataclass(frozen=True, eq=False)
class Head:
    """The network, in float32, and the number of fields that it knows: later ones add nothing to its inputs."""

    network: Network
    n_fields: int

    @property
    def n_units(self) -> int:
        return self.network.output.size

    @property
    def n_parameters(self) -> int:
        """Number of trained values; means and scales are statistics of the rows."""
        hidden = self.network.hidden
        return hidden.size + 2 * hidden.shape[1] + 1

    def split(self, account: np.ndarray) -> tuple[np.ndarray, float]:
        """Return what each input adds to the output, and a constant; together they are the output.

        The network is linear around an account: an input adds its standardised value times its slope there.
        """
        means, scales, hidden, hidden_bias, output, output_bias = (part.astype(float) for part in self.network)
        inputs = np.clip((account - means) * scales, -LIMIT, LIMIT)
        active = output * (inputs @ hidden + hidden_bias > 0)
        return inputs * (hidden @ active), float(active @ hidden_bias + output_bias[0])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, as they are stored; the inverse of `from_arrays`."""
        return {f"head.{name}": array for name, array in self.network._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_fields: int) -> Head:
        """Return the head that is stored among these arrays."""
        return cls(Network(**{name: arrays[f"head.{name}"] for name in Network._fields}), n_fields)


class Accountant:
    """Computes the accounts of rows of feature numbers, of the first n_fields fields."""

    def __init__(self, model: Model, n_fields: int):
        assert model.fields is not None
        n, plan = n_fields, model.plan
        kind = FIELD_AWARE if plan.n_field_vectors else NESTED if plan.nested else PREFIX
        self.length, self._model = n_inputs(n), model
        linear = self.length - 2 * n
        self.n_fields = n
        logs = np.log1p(model.counts).astype(np.float32)
        self._fields = HeadFields(model.fields.numbers, logs, pair_places(n), linear, linear + n, kind)

    def accounts(self, rows: Rows, scores: np.ndarray, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Return the accounts of rows first to stop, of which these are the scores."""
        stop = scores.size if stop is None else stop
        found = np.empty((stop - first, self.length), np.float32)
        found[:, 0] = scores[first:stop]
        longest = int(np.diff(rows.indptr[first : stop + 1]).max(initial=0))
        source, rows = self._source(rows, first, stop)
        describe_rows(rows, source, np.empty(longest, np.int64), first, found)
        return found

    def _source(self, rows: Rows, first: int, stop: int) -> tuple[HeadSource, Rows]:
        """Return what the kernel reads: that of the model or, if its vectors are packed, of the features that occur."""
        model = self._model
        if model.parameters.bits is None:
            return HeadSource(model.tables, model.records, self._fields), rows
        used, places = np.unique(rows.indices[rows.indptr[first] : rows.indptr[stop]], return_inverse=True)
        part = _of_features(model, used)
        indices = rows.indices.copy()
        indices[rows.indptr[first] : rows.indptr[stop]] = places
        fields = self._fields._replace(numbers=self._fields.numbers[used], log_counts=self._fields.log_counts[used])
        return HeadSource(part.tables, part.records, fields), rows._replace(indices=indices)

    def add(self, head: Head, rows: Rows, scores: np.ndarray) -> np.ndarray:
        """Return the scores with those of the head added."""
        found, units = scores.copy(), np.empty(head.n_units, np.float32)
        for first in range(0, scores.size, CHUNK_ROWS):
            stop = min(first + CHUNK_ROWS, scores.size)
            add_network(head.network, self.accounts(rows, scores, first, stop), units, found[first:stop])
        return found


def _of_features(model: Model, used: np.ndarray) -> Model:
    """Return the model of these features alone, ascending, with vectors of floats."""
    sizes = tuple(int(np.searchsorted(used, size)) for size in model.plan.sizes)
    parameters = model.parameters
    factors = [np.asarray(block[used[:size]]) for block, size in zip(parameters.factors, sizes[1:])]
    parameters = replace(parameters, weights=parameters.weights[used], factors=factors, bits=None)
    return replace(
        model,
        plan=replace(model.plan, sizes=sizes),
        parameters=parameters,
        fields=None if model.fields is None else model.fields.ordered(used),
        head=None,
        samples=None,
    )
