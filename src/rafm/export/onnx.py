"""Write a model as an ONNX graph.

The inputs are `ids` and `values` of shape (rows, entries), padded with the id -1; or, for a model of a table whose
columns ONNX can encode, one input of shape (rows, 1) per column. The outputs are `score` and `prediction`, one per row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import ConfigError, ResourceLimitError
from ..model.file import Saved
from ..model.model import Model
from ..model.packed import PackedVectors
from .graph import Graph
from .onnx_columns import column_inputs, unsupported
from .onnx_head import network_output

MAX_BYTES = 2**31 - 2**24  # of a protocol buffer, less some room
LINKS = {"sigmoid": "Sigmoid", "exp": "Exp", "identity": "Identity"}
NO_PACKAGE = "the onnx package is missing; pip install '.[export]' in a checkout of rafm"


def onnx_model(saved: Saved) -> Iterator[bytes]:
    """Yield the file."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ConfigError(NO_PACKAGE, key="to") from None
    model = saved.model
    if 4 * model.n_parameters + 16 * model.plan.n_features + 8 * table_size(model) > MAX_BYTES:
        raise ResourceLimitError(
            f"the model has {model.n_parameters} parameters, which do not fit into the 2 GiB of an ONNX file. Make it "
            "smaller first, with compress and max_parameters."
        )
    graph = Graph()
    if saved.encoder is not None and not unsupported(saved.encoder):
        ids, values = column_inputs(graph, saved.encoder)
    else:
        ids, values = (graph.input(name, kind, "entries") for name, kind in (("ids", np.int64), ("values", np.float32)))
    scoring = Scoring(graph, model, ids, values)
    score = scoring.score()
    if model.head is not None:
        score = graph.add(score, network_output(scoring, model.head, score))
    graph.output("Identity", [score], "score")
    graph.output(LINKS[model.loss.link_name], [score], "prediction")
    about = {"family": model.plan.family, "task": model.loss.task, "index_base": str(saved.index_base)}
    yield graph.finish("rafm", about | ({} if saved.classes is None else {"classes": repr(saved.classes)}))


def table_size(model: Model) -> int:
    """Return the size of a table of all ids, or 0 if they are so scattered that a map of the known ones is better."""
    n_inputs, n = model.numbering.n_inputs, model.plan.n_features
    return 0 if n and n_inputs > 8 * n + (1 << 16) else n_inputs + 1


class Scoring:
    """Emits the score of rows of ids and values."""

    def __init__(self, graph: Graph, model: Model, ids: str, values: str):
        self.graph, self.model, self.n = graph, model, model.plan.n_features
        self.numbers, self.values = self._numbers(ids), values
        self.vectors = [self._vectors(block) for block in range(model.plan.n_levels)]

    def score(self) -> str:
        """Return the name of the scores."""
        g, found = self.graph, self.model.parameters
        weights = self.look_up(np.append(found.weights, np.float32(0)), self.numbers)
        score = g.add(g.sum(g.mul(weights, self.values), 1), np.float32(found.bias[0]))
        if self.model.plan.traits.has_mixture:
            return g.add(score, self._mixture())
        weighted = None
        if found.fields is not None and self.model.fields is not None:
            rest = np.append(1 - found.fields[self.model.fields.numbers], np.float32(0))
            weighted = g.mul(self.values, self.look_up(rest, self.numbers))
        for block in range(self.model.plan.n_levels):
            score = g.add(score, self._pairs(block, weighted))
        return score

    def _numbers(self, ids: str) -> str:
        """Return feature numbers, n for ids that the model does not know."""
        g, numbering = self.graph, self.model.numbering
        if numbering.n_inputs > 8 * self.n + (1 << 16):
            keys = {
                "keys_int64s": numbering.ids.tolist(),
                "values_int64s": list(range(self.n)),
                "default_int64": self.n,
            }
            if self.n:
                return g.node("LabelEncoder", [ids], domain="ai.onnx.ml", **keys)
        table = np.full(table_size(self.model), self.n, np.int64)
        table[numbering.ids] = np.arange(self.n)
        last = np.int64(numbering.n_inputs)
        outside = g.node("Or", [g.node("Less", [ids, np.int64(0)]), g.node("GreaterOrEqual", [ids, last])])
        return self.look_up(table, g.node("Where", [outside, last, ids]))

    def look_up(self, table: np.ndarray, places: str) -> str:
        """Return the lines of a table at these places."""
        return self.graph.node("Gather", [table, places], axis=0)

    def _vectors(self, block: int) -> str:
        """Return the vectors of a block, zeros for features without one: shape (rows, entries, rank)."""
        g, stored, size = self.graph, self.model.parameters.factors[block], self.model.plan.sizes[block + 1]
        places = g.node("Min", [self.numbers, np.int64(size)])
        if not isinstance(stored, PackedVectors):
            return self.look_up(np.pad(stored, ((0, 1), (0, 0))), places)
        codes = stored.integers() if stored.bits == 16 else stored.integers().astype(np.int8)
        floats = g.cast(self.look_up(np.pad(codes, ((0, 1), (0, 0))), places), np.float32)
        scales = self.look_up(np.append(stored.scales(), np.float32(0)), places)
        return g.mul(floats, g.expand(scales, 2))

    def _pairs(self, block: int, weighted: str | None = None) -> str:
        """Return the pairs of a block that have a free feature, as kernels/scoring.py says; weighted: y = (1 - t) x."""
        g, vectors, x = self.graph, self.vectors[block], self.graph.expand(self.values, 2)
        whole = self._before(block, g.mul(vectors, x))
        if weighted is None:
            partners = g.mul(whole, x)
        else:
            y = g.expand(weighted, 2)
            rest = self._before(block, g.mul(vectors, y))
            partners = g.add(g.mul(whole, y), g.mul(rest, g.sub(x, y)))
        return g.sum(g.sum(g.mul(partners, vectors), 2), 1)

    def _before(self, block: int, terms: str) -> str:
        """Return for each entry the sum of those before it that it makes pairs with.

        A free feature makes pairs with all features, a dependent one with free ones alone.
        """
        g, plan = self.graph, self.model.plan
        if not plan.nested or block + 1 == plan.n_levels:
            return g.sums_before(terms, 1)
        is_free = g.node("GreaterOrEqual", [self.numbers, np.int64(plan.sizes[block + 2])])
        free = g.mul(terms, g.expand(g.cast(is_free, np.float32), 2))
        return g.node("Where", [g.expand(is_free, 2), g.sums_before(terms, 1), g.sums_before(free, 1)])

    def _mixture(self) -> str:
        """Return the pair of rows that have exactly two known features, a mean over ranks; 0 for all others."""
        g, mixture = self.graph, np.asarray(self.model.parameters.mixture)
        is_zero = g.node("Equal", [self.values, np.float32(0)])
        places = g.node("Where", [is_zero, np.int64(self.n), self.numbers])
        count = g.sum(g.cast(g.node("Less", [places, np.int64(self.n)]), np.float32), 1)
        shares = self.look_up(np.vstack([mixture, np.ones_like(mixture[:1])]), places)
        shares = g.node("ReduceProd", [shares, np.array([1])], keepdims=0)
        products = [g.expand(self._pairs(block), 1) for block in range(self.model.plan.n_levels)]
        joined = g.node("Concat", products, axis=1)
        mean = g.node("Div", [g.sum(g.mul(shares, joined), 1), g.sum(shares, 1)])
        return g.node("Where", [g.node("Equal", [count, np.float32(2)]), mean, np.float32(0)])


def note_of(saved: Saved) -> str | None:
    """Return why a graph takes ids although the model was trained on a table, or None."""
    if saved.encoder is None or not (found := unsupported(saved.encoder)):
        return None
    name, reason = next(iter(found.items()))
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"the graph takes feature ids, not columns: ONNX cannot encode column {name!r} ({reason}){others}"
