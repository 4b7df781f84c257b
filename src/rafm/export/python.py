"""Write a model as one Python file that needs the standard library alone: program.py, with the model in it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np

from ..encode.coders import Bins, Buckets, Clock, Coder, Lists, LogBins, Number, Words
from ..encode.column import Column
from ..errors import ConfigError
from ..kernels.head import LIMIT
from ..model.file import Saved
from ..model.head import MOST_PAIRED_FIELDS
from ..model.model import Model
from ..model.packed import PackedVectors

PLACE = "MODEL: dict[str, Any] = {}"
TYPES = {"int64": "q", "int32": "i", "int16": "h", "int8": "b", "float32": "f"}
LINE = 100  # characters of a line of data


def python_source(saved: Saved) -> Iterator[str]:
    """Yield the text of the file in parts."""
    before, after = resources.files(__package__).joinpath("program.py").read_text().split(PLACE)
    text = json.dumps(_content(saved))
    yield before + "MODEL: dict[str, Any] = json.loads(\n"
    for start in range(0, len(text), LINE):
        yield f"    {text[start : start + LINE]!r}\n"
    yield ")" + after


def _content(saved: Saved) -> dict[str, Any]:
    """Return the model as the program reads it."""
    model, plan = saved.model, saved.model.plan
    return {
        "family": plan.family,
        "link": model.loss.link_name,
        "bias": float(model.parameters.bias[0]),
        "nested": plan.nested,
        "ranks": list(plan.block_ranks),
        "sizes": list(plan.sizes[1:-1]),
        "index_base": saved.index_base,
        "classes": saved.classes,
        "columns": None if saved.encoder is None else _columns(saved.encoder.columns),
        "missing": "feature" if saved.encoder is None else saved.encoder.spec.missing,
        "head_fields": 0 if model.head is None else model.head.n_fields,
        "head_paired": model.head is not None and model.head.n_fields <= MOST_PAIRED_FIELDS,
        "head_limit": float(LIMIT),
        "arrays": {name: _packed(array) for name, array in _arrays(model).items()},
    }


def _arrays(model: Model) -> dict[str, np.ndarray]:
    """Return the parameters; vectors of few bits as integers and scales."""
    found = {"ids": model.numbering.ids.astype(np.int64), "weights": model.parameters.weights}
    for number, block in enumerate(model.parameters.factors):
        if isinstance(block, PackedVectors):
            integers = block.integers()
            found[f"vectors.{number}"] = integers if block.bits == 16 else integers.astype(np.int8)
            found[f"scales.{number}"] = block.scales()
        else:
            found[f"vectors.{number}"] = block
    if model.parameters.mixture is not None:
        found["mixture"] = model.parameters.mixture
    if model.fields is not None and (model.parameters.fields is not None or model.head is not None):
        found["fields"] = model.fields.numbers
    if model.parameters.fields is not None:
        found["field_weights"] = model.parameters.fields
    if model.head is not None:
        found |= {"log_counts": np.log1p(model.counts).astype(np.float32), **model.head.arrays()}
    return found


def _packed(array: np.ndarray) -> tuple[str, str]:
    """Return an array as the letter of its type and text."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return TYPES[array.dtype.name], base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()


def _columns(columns: tuple[Column, ...]) -> list[dict[str, Any]]:
    """Return the columns, each with the id of its first feature."""
    found, first = [], 0
    for column in columns:
        if column.cell_type == "time" and column.kind == "category":
            raise ConfigError(
                f"column {column.name!r} has times as categories, which the program cannot name; train with the kind "
                "datetime, or with text",
                key="columns",
            )
        found.append(
            {
                "name": column.name,
                "kind": column.kind,
                "family": column.cell_type,
                "times": column.times,
                "first": first,
                "n_values": column.coder.n_values,
                "rare": column.has_rare,
                "missing": column.has_missing,
                **_fitted(column.coder),
            }
        )
        first += column.n_features
    return found


def _fitted(coder: Coder) -> dict[str, Any]:
    """Return what a coder has learned."""
    if isinstance(coder, Lists):
        return {**_fitted(coder.words), "separator": coder.spec.separator, "scale": coder.spec.scale}
    if isinstance(coder, Words):
        return {"words": [coder.table[code].decode("utf-8", "surrogatepass") for code in range(coder.n_values)]}
    if isinstance(coder, Number):
        return {"mean": coder.mean, "spread": coder.spread}
    if isinstance(coder, Bins):
        return {"edges": list(coder.edges)}
    if isinstance(coder, LogBins):
        return {"bins": list(coder.bins)}
    if isinstance(coder, Clock):
        return {"format": coder.format}
    assert isinstance(coder, Buckets)
    return {}
