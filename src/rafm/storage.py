"""The .rafm file: a model, and the encoder of its table if it has one. See docs/file-format.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .batch import Numbering
from .container import read_container, write_container
from .errors import ModelFormatError
from .files import PathLike
from .losses import LOSSES
from .model import Model
from .parameters import Parameters
from .ranks import FAMILIES, RankPlan

if TYPE_CHECKING:
    from .data.encoder import TableEncoder


@dataclass(frozen=True)
class Saved:
    """What a model file holds. Labels are the two classes of a classifier, as they were in training."""

    model: Model
    encoder: TableEncoder | None = None
    index_base: int = 0
    classes: list[Any] | None = None


def save(path: PathLike, saved: Saved) -> int:
    """Write a model file in one atomic step; return its size in bytes."""
    model = saved.model
    tensors = {
        "bias": model.parameters.bias,
        "weights": model.parameters.weights,
        "ids": _short(model.numbering.ids),
        "counts": _short(model.counts),
        **{f"factors.{level}": block for level, block in enumerate(model.parameters.factors, start=1)},
    }
    if model.parameters.mixture is not None:
        tensors["mixture"] = model.parameters.mixture
    header = {
        "family": model.plan.family,
        "ranks": list(model.plan.ranks),
        "sizes": list(model.plan.sizes[:-1]),
        "task": model.loss.task,
        "n_inputs": model.numbering.n_inputs,
        "n_rows": model.n_rows,
        "index_base": saved.index_base,
        "classes": saved.classes,
        "best_epoch": model.best_epoch,
        "history": model.history,
        "options": model.options,
        "encoder": None,
    }
    if saved.encoder is not None:
        header["encoder"], more = _encoder_parts(saved.encoder)
        tensors.update(more)
    return write_container(path, tensors, header)


def _short(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers in 4 bytes each if they fit, else in 8."""
    return numbers.astype(np.int32 if numbers.max(initial=0) < 2**31 else np.int64)


def load(path: PathLike) -> Saved:
    """Read a model file, checking that its parts fit together; nothing in it is ever executed."""
    header, tensors = read_container(path)
    try:
        plan = _read_plan(header)
        _check_tensors(plan, header, tensors)
        encoder = _read_encoder(header["encoder"], tensors)
        model = Model(
            plan=plan,
            numbering=Numbering(tensors["ids"].astype(np.int64), header["n_inputs"]),
            counts=tensors["counts"].astype(np.int64),
            loss=LOSSES[header["task"]],
            parameters=_read_parameters(plan, tensors),
            n_rows=header["n_rows"],
            history=header["history"],
            best_epoch=header["best_epoch"],
            options=header["options"],
        )
        return Saved(model, encoder, header["index_base"], header["classes"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, ModelFormatError):
            raise ModelFormatError(f"{Path(path).name}: {error}") from None
        raise ModelFormatError(f"{Path(path).name}: not a complete model ({error!r})") from error


def _read_plan(header: dict[str, Any]) -> RankPlan:
    family, ranks, sizes = header["family"], tuple(header["ranks"]), tuple(header["sizes"])
    whole = all(type(number) is int and number >= 0 for number in (*ranks, *sizes, header["n_inputs"]))
    if family not in FAMILIES or not whole or len(sizes) != len(ranks) + 1:
        raise ModelFormatError("its plan is not one of this version")
    if list(ranks) != sorted(set(ranks)) or 0 in ranks or list(sizes) != sorted(sizes, reverse=True):
        raise ModelFormatError("its ranks must rise and its sizes fall")
    return RankPlan(family, ranks, (*sizes, 0))


def _check_tensors(plan: RankPlan, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Check names, types and shapes of all tensors, and that ids are distinct and in range."""
    n = plan.n_features
    wanted: dict[str, tuple[tuple[int, ...], str]] = {
        "bias": ((1,), "f"),
        "weights": ((n,), "f"),
        "ids": ((n,), "i"),
        "counts": ((n,), "i"),
    }
    for level, (size, rank) in enumerate(zip(plan.sizes[1:], plan.block_ranks), start=1):
        wanted[f"factors.{level}"] = ((size, rank), "f")
    if plan.family == "mrma":
        wanted["mixture"] = ((n, plan.n_levels), "f")
    extra = [name for name in tensors if name not in wanted and not name.startswith("encoder.")]
    if extra:
        raise ModelFormatError(f"tensor {extra[0]!r} does not belong in a model")
    for name, (shape, kind) in wanted.items():
        if name not in tensors:
            raise ModelFormatError(f"tensor {name!r} is missing")
        allowed = ("float32",) if kind == "f" else ("int32", "int64")
        if tensors[name].shape != shape or tensors[name].dtype.name not in allowed:
            raise ModelFormatError(
                f"tensor {name!r} must have shape {shape} and type {' or '.join(allowed)}, "
                f"found {tensors[name].shape} and {tensors[name].dtype}"
            )
    ids = tensors["ids"]
    if n and (ids.min() < 0 or ids.max() >= header["n_inputs"] or np.unique(ids).size != n):
        raise ModelFormatError("its feature ids must be distinct and below n_inputs")


def _read_parameters(plan: RankPlan, tensors: dict[str, np.ndarray]) -> Parameters:
    factors = [tensors[f"factors.{level}"] for level in range(1, plan.n_levels + 1)]
    return Parameters(tensors["bias"], tensors["weights"], factors, tensors.get("mixture"))


def _encoder_parts(encoder: TableEncoder) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return the encoder's header and tensors: all category values as one UTF-8 text, and where each ends."""
    columns, texts = [], []
    for column in encoder.columns:
        columns.append(
            {
                "name": column.name,
                "kind": column.kind,
                "n_values": len(column.values),
                "mean": column.mean,
                "spread": column.spread,
            }
        )
        texts += [value.encode() for value in column.values]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    text = np.frombuffer(b"".join(texts), np.uint8)
    return columns, {"encoder.text": text, "encoder.ends": ends}


def _read_encoder(columns: list[dict[str, Any]] | None, tensors: dict[str, np.ndarray]) -> TableEncoder | None:
    if columns is None:
        return None
    from .data.encoder import Column, TableEncoder

    text, ends = tensors["encoder.text"].tobytes(), tensors["encoder.ends"].tolist()
    values = [text[a:b].decode() for a, b in zip([0, *ends[:-1]], ends)]
    read: list[Column] = []
    used = 0
    for column in columns:
        first = read[-1].first + read[-1].n_features if read else 0
        own = tuple(values[used : used + column["n_values"]])
        read.append(Column(column["name"], column["kind"], first, own, column["mean"], column["spread"]))
        used += column["n_values"]
    return TableEncoder(tuple(read))
