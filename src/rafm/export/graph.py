"""Build ONNX graphs: nodes named by counting, constants where an array or a number is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..version import __version__

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9  # of onnxruntime 1.16 and later


class Graph:
    """A graph under construction. An argument is the name of a result, an array or a NumPy scalar."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[Any, str] = {}  # equal nodes are emitted once
        self._arrays: list[np.ndarray] = []

    def input(self, name: str, kind: Any, columns: str | int) -> str:
        """Add an input of shape (rows, columns); kind: a NumPy type, or str."""
        from onnx import TensorProto, helper

        number = TensorProto.STRING if kind is str else helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.inputs.append(helper.make_tensor_value_info(name, number, ["rows", columns]))
        return name

    def constant(self, value: Any) -> str:
        """Return the name of a constant."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size < 64 else id(value)
        if key not in self._known:
            self._known[key] = f"constant_{len(self.constants)}"
            self._arrays.append(value)  # so that its id is not used again
            self.constants.append(numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def node(self, kind: str, arguments: list[Any], domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result; equal nodes are added once."""
        names = [one if isinstance(one, str) else self.constant(one) for one in arguments]
        key = (kind, *names, repr(attributes)) if domain == "" else None
        if key is not None and key in self._known:
            return self._known[key]
        name = self._add(kind, names, f"result_{len(self.nodes)}", domain, attributes)
        if key is not None:
            self._known[key] = name
        return name

    def _add(self, kind: str, names: list[str], name: str, domain: str, attributes: dict[str, Any]) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, names, [name], domain=domain, **attributes))
        return name

    def output(self, kind: str, arguments: list[str], name: str) -> None:
        """Add a node whose result is an output of one number per row."""
        from onnx import TensorProto, helper

        self._add(kind, arguments, name, "", {})
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows"]))

    def add(self, left: Any, right: Any) -> str:
        """Return the sum."""
        return self.node("Add", [left, right])

    def sub(self, left: Any, right: Any) -> str:
        """Return the difference."""
        return self.node("Sub", [left, right])

    def mul(self, left: Any, right: Any) -> str:
        """Return the product."""
        return self.node("Mul", [left, right])

    def sum(self, array: str, axis: int) -> str:
        """Return the sum over an axis, which disappears."""
        return self.node("ReduceSum", [array, np.array([axis])], keepdims=0)

    def sums_before(self, array: str, axis: int) -> str:
        """Return for each entry the sum of those before it along an axis."""
        return self.node("CumSum", [array, np.array(axis)], exclusive=1)

    def expand(self, array: str, axis: int) -> str:
        """Return the array with a new axis of length 1."""
        return self.node("Unsqueeze", [array, np.array([axis])])

    def cast(self, array: str, kind: Any) -> str:
        """Return the array as another type."""
        from onnx import helper

        return self.node("Cast", [array], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def finish(self, name: str, about: dict[str, str]) -> bytes:
        """Return the file; about: metadata."""
        from onnx import checker, helper

        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rafm", producer_version=__version__
        )
        helper.set_model_props(model, about)
        checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
