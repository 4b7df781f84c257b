"""The .rafm file: a model, and the encoder of its table if it has one. See docs/file-format.md."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError, ModelFileError, ModelFormatError, ModelVersionError
from ..families import FAMILIES
from ..files.atomic import PathLike
from ..files.container import container_chunks, is_container, read_container, write_container
from ..losses import TASKS, loss_for
from ..optimizers import OPTIMIZERS, optimizer_class
from ..options import from_summary, resolve
from ..plan.fields import FeatureFields
from ..plan.ranks import RankPlan, Thresholds, check_ranks
from ..rows.classes import are_classes
from ..rows.numbering import Numbering
from .head import Head, head_shapes, is_head
from .model import Model, naming_rows
from .names import are_names, feature_name, put_names, take_names
from .packed import BITS, read_packed, stored_shapes
from .parameters import Parameters
from .samples import Samples
from .states_file import Wanted, check_states, wanted_states
from .zero_vectors import with_zero_vectors, without_zero_vectors

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder
    from ..losses.loss import Loss

MANIFEST = "model.json"  # of a folder of parts; see folder.py
STATES_VERSION = 1
MAX_FIELDS = 2**24  # with weights: records hold the field as a float32
LARGEST = 2**62  # integers below this fit into int64 even after additions
FREE_BYTES = 256 * 2**20  # bytes of zero vectors that any file may omit
TENSOR_BYTES = 256  # to describe a tensor in a file, at most
MAX_EXPANSION = 1024  # above that, bytes of vectors that a file may declare per byte of its own


@dataclass(frozen=True)
class Saved:
    """Content of a model file.

    classes: the two labels of a classifier, as given in training. columns: names of the
    columns that it was fitted to, in order; with an encoder, those of its table.
    """

    model: Model
    encoder: TableEncoder | None = None
    index_base: int = 0
    classes: list[Any] | None = None
    columns: list[str] | None = None

    def naming_rows(self, first_row: int = 0) -> AbstractContextManager[None]:
        """Let errors about scores name the feature, and count rows from the first of all batches."""
        return naming_rows(lambda id: feature_name(id, self.encoder, self.columns, self.index_base), first_row)


def save(path: PathLike, saved: Saved) -> int:
    """Write a model file atomically; return its size in bytes."""
    return write_container(path, *_content(saved), check=_read_back(path))


def file_bytes(saved: Saved) -> int:
    """Return the size that the file of a model would have."""
    return sum(len(memoryview(chunk).cast("B")) for chunk in container_chunks(*_content(saved)))


def extra_bytes(encoder: TableEncoder | None, *others: Any) -> int:
    """Return an upper bound of what an encoder and other parts of the header add to the size of a file."""
    header, tensors = (None, {}) if encoder is None else _encoder_parts(encoder)  # type: Any, dict[str, np.ndarray]
    text = json.dumps(json.dumps([header, *others]))  # the header is text within JSON
    return len(text.encode()) + sum(array.nbytes + TENSOR_BYTES for array in tensors.values()) + TENSOR_BYTES


def _content(saved: Saved) -> tuple[dict[str, np.ndarray], dict[str, Any], int]:
    """Return the tensors, the header and the format version of a model file."""
    model = saved.model
    tensors = without_zero_vectors(model.parameters.arrays()) | {
        "ids": _short(model.numbering.ids),
        "counts": _short(model.counts),
    }
    header = {
        "family": model.plan.family,
        "ranks": list(model.plan.ranks),
        "sizes": list(model.plan.sizes[:-1]),  # the last one is always 0
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
    if model.loss != loss_for(model.loss.task):  # a missing field means the task's default
        header["loss"] = {"name": model.loss.name, **vars(model.loss)}
    if model.parameters.states is not None:
        header["states_version"] = STATES_VERSION
    if model.parameters.bits is not None:
        header["bits"] = model.parameters.bits
    if model.n_dropped:  # optional fields are absent if unused
        header["dropped"] = model.n_dropped
    if saved.encoder is not None:
        header["encoder"], more = _encoder_parts(saved.encoder)
        tensors.update(more)
    if saved.columns is not None:
        tensors |= put_names("columns", saved.columns, header, tensors)
    if model.samples is not None:
        tensors |= model.samples.arrays()
    if model.head is not None:
        tensors |= model.head.arrays()
        header["head"] = {"n_fields": model.head.n_fields}
    if model.fields is not None:
        tensors["fields"] = model.fields.numbers
        tensors |= put_names("fields", list(model.fields.names), header, tensors)
    return tensors, header, 1 if model.head is None else 2


def _short(numbers: np.ndarray) -> np.ndarray:
    """Return integers as int32 if they fit, else as int64."""
    return numbers.astype(np.int32 if numbers.max(initial=0) < 2**31 else np.int64)


def _read_back(path: PathLike) -> Callable[[str], Any]:
    """Return a check that a new file loads, which names the file that it is to become."""

    def check(temporary: str) -> None:
        try:
            load_file(temporary)
        except ModelFileError as error:
            reason = str(error).removeprefix(f"{Path(temporary).name}: ")
            raise type(error)(f"{Path(path).name}: not saved, because it would not load: {reason}") from None

    return check


def load(path: PathLike) -> Saved:
    """Read a model file, or a folder of parts, and check that all is consistent; nothing in it is ever executed."""
    if os.path.isdir(path):
        from .folder import load_folder  # it imports this module

        return load_folder(path)
    return load_file(path)


def is_model(path: PathLike) -> bool:
    """Return whether a file starts like a model, or a folder has the manifest of one; nothing else is checked."""
    return (Path(path) / MANIFEST).is_file() or is_container(path)


def load_file(path: PathLike) -> Saved:
    """Read a model file."""
    header, tensors = read_container(path)
    try:
        take_names("columns", header, tensors)
        take_names("fields", header, tensors)
        _check_header(header)
        plan = _read_plan(header, "field_weights" in tensors)
        _check_options(header)
        _check_tensors(plan, header, tensors)
        encoder = _read_encoder(header["encoder"], header["n_inputs"], tensors)
        if encoder is not None and "columns" in header and not _has_columns(header["columns"], encoder):
            raise _invalid(header, "columns")
        parameters = _read_parameters(plan, header, tensors)
    except (ModelFormatError, ModelVersionError) as error:
        raise type(error)(f"{Path(path).name}: {error}") from None
    model = Model(
        plan=plan,
        numbering=Numbering(tensors["ids"].astype(np.int64), header["n_inputs"]),
        counts=tensors["counts"].astype(np.int64),
        loss=_read_loss(header),
        parameters=parameters,
        n_rows=header["n_rows"],
        history=header["history"],
        best_epoch=header["best_epoch"],
        options=header["options"],
        n_dropped=header.get("dropped", 0),
        fields=FeatureFields(tuple(header["fields"]), tensors["fields"]) if "fields" in header else None,
        samples=Samples.from_arrays(tensors),
        head=Head.from_arrays(tensors, header["head"]["n_fields"]) if "head" in header else None,
    )
    return Saved(model, encoder, header["index_base"], header["classes"], header.get("columns"))


def _read_parameters(plan: RankPlan, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Parameters:
    if "bits" not in header:
        return Parameters.from_arrays(with_zero_vectors(plan, tensors))
    weights, factors = read_packed(plan, header["bits"], tensors)
    return Parameters(tensors["bias"], weights, factors, fields=tensors.get("field_weights"), bits=header["bits"])


def _read_loss(header: dict[str, Any]) -> Loss:
    """Return the loss of a checked header: the default of its task, or the named one with its settings."""
    if "loss" not in header:
        return loss_for(header["task"])
    settings = dict(header["loss"]) if isinstance(header["loss"], dict) else {}
    try:
        usual = loss_for(header["task"], settings.pop("name", ""))
        return replace(usual, **settings)  # type: ignore[type-var]
    except (ConfigError, TypeError) as error:
        raise ModelFormatError(f"invalid header field 'loss': {error}") from None


def _is_whole(found: Any) -> bool:
    return type(found) is int and 0 <= found < LARGEST  # not isinstance: True is an int


def _is_number(found: Any) -> bool:
    """Return whether this is a number; JSON numbers are finite, but integers may have any length."""
    return type(found) is float or (type(found) is int and abs(found) < LARGEST)


def _are_whole(found: Any) -> bool:
    return isinstance(found, list) and all(map(_is_whole, found))


def _are_columns(found: Any, encoder: Any, n_inputs: int) -> bool:
    """Return whether these are distinct names: n_inputs of them, or any number if there is an encoder."""
    return are_names(found) and (encoder is not None or len(found) == n_inputs)


def _has_columns(names: list[str], encoder: TableEncoder) -> bool:
    return {column.name for column in encoder.columns} <= set(names)


def _is_epoch(found: Any) -> bool:
    """Return whether this is an entry of a training history."""
    if not isinstance(found, dict) or not _is_whole(found.get("epoch")):
        return False
    return all(value is None or _is_number(value) for value in found.values())


def _is_options(found: Any) -> bool:
    plain = (bool, int, float, str, type(None))

    def is_plain(value: Any) -> bool:
        is_list = isinstance(value, list) and all(_is_number(one) or isinstance(one, str) for one in value)
        return type(value) in plain or is_list

    return isinstance(found, dict) and all(map(is_plain, found.values()))


_HEADER: dict[str, Callable[[Any], bool]] = {
    "family": lambda found: isinstance(found, str) and found in FAMILIES,
    "ranks": _are_whole,
    "sizes": _are_whole,
    "task": lambda found: isinstance(found, str) and found in TASKS,
    "n_inputs": _is_whole,
    "n_rows": _is_whole,
    "index_base": lambda found: _is_whole(found) and found < 2,
    "classes": lambda found: found is None or are_classes(found),
    "best_epoch": _is_whole,
    "history": lambda found: isinstance(found, list) and all(map(_is_epoch, found)),
    "options": _is_options,
    "encoder": lambda found: found is None or isinstance(found, dict),
}


def _check_header(header: dict[str, Any]) -> None:
    if header.get("kind") == "checkpoint":
        raise ModelFormatError("is a checkpoint, not a model. Run the command that wrote it again to finish training.")
    for name, is_valid in _HEADER.items():
        if name not in header:
            raise ModelFormatError(f"missing header field {name!r}")
        if not is_valid(header[name]):
            raise _invalid(header, name)
    _check_states_version(header)
    if "bits" in header and (header["bits"] not in BITS or not _can_be_packed(header)):
        raise _invalid(header, "bits")
    if not _is_whole(header.get("dropped", 0)):
        raise _invalid(header, "dropped")
    if "columns" in header and not _are_columns(header["columns"], header["encoder"], header["n_inputs"]):
        raise _invalid(header, "columns")
    can_have_head = FAMILIES[header["family"]].can_have_head
    if "head" in header and not (can_have_head and is_head(header["head"], len(header.get("fields", ())))):
        raise _invalid(header, "head")
    if "fields" in header and not (are_names(header["fields"]) and len(header["fields"]) < 2**31):
        raise _invalid(header, "fields")


def _can_be_packed(header: dict[str, Any]) -> bool:
    return "states_version" not in header and FAMILIES[header["family"]].has_common_vectors


def _invalid(header: dict[str, Any], name: str) -> ModelFormatError:
    return ModelFormatError(f"invalid header field {name!r}: {header[name]!r:.80}")


def _check_states_version(header: dict[str, Any]) -> None:
    """Check that this version of rafm can resume from the optimiser state, if there is any."""
    if "states_version" not in header:
        return
    version, optimizer = header["states_version"], header["options"].get("optimizer")
    if _is_whole(version) and version > STATES_VERSION:
        raise ModelVersionError(
            f"optimiser state has version {version}, but this rafm reads up to {STATES_VERSION}. Upgrade rafm."
        )
    is_known = isinstance(optimizer, str) and optimizer in OPTIMIZERS
    if version != STATES_VERSION or type(version) is not int or not is_known:
        raise ModelFormatError(
            f"invalid header field 'states_version': {version!r:.20} with optimizer {optimizer!r:.40}"
        )


def _read_plan(header: dict[str, Any], has_field_weights: bool) -> RankPlan:
    family, ranks, sizes = header["family"], tuple(header["ranks"]), tuple(header["sizes"])
    try:
        known = check_ranks(family, ranks) == ranks
    except ConfigError as error:
        raise ModelFormatError(f"invalid header field 'ranks': {error}") from None
    if not known or len(sizes) != len(ranks) + 1 or list(sizes) != sorted(sizes, reverse=True):
        raise ModelFormatError(
            f"invalid header field 'sizes': {sizes!r:.80} must be one more than the ranks {ranks!r:.80}, descending"
        )
    if FAMILIES[family].has_mixture and sizes[-1] != sizes[0]:
        raise ModelFormatError(
            f"invalid header field 'sizes': {sizes!r:.80} must be equal, as features of {family!r} have all ranks"
        )
    n_fields, of_fields = len(header.get("fields", ())), FAMILIES[family].has_field_vectors
    if of_fields and not 0 < n_fields < MAX_FIELDS:
        raise ModelFormatError(f"a model {family!r} must have fields, found {n_fields}")
    if has_field_weights and not (FAMILIES[family].uses_fields and 0 < n_fields < MAX_FIELDS):
        raise ModelFormatError(f"unexpected tensor 'field_weights' in a model {family!r} of {n_fields} fields")
    counts = (n_fields if has_field_weights else 0, n_fields if of_fields else 0)
    return RankPlan(family, ranks, (*sizes, 0), *counts)


def _check_options(header: dict[str, Any]) -> None:
    """Validate the options as training does; options that this version does not know are ignored."""
    task, family, ranks = header["task"], header["family"], tuple(header["ranks"])
    try:
        known = {"task": task, "loss": _read_loss(header), "model": family, "ranks": ranks or None}
        options = resolve(**{**from_summary(header["options"]), **known})
        if isinstance(options.rule, Thresholds) and FAMILIES[family].levels_by_count:  # checked when applied
            options.rule(np.zeros(0, np.int64), ranks)
    except ModelFormatError:
        raise
    except (ConfigError, TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ModelFormatError(f"invalid header field 'options': {error!s:.200}") from None


def _check_expansion(plan: RankPlan, tensors: dict[str, np.ndarray]) -> None:
    """Reject implausible numbers of omitted zero vectors before they are allocated: a small file could fill memory."""
    # Files omit vectors that L1 set to 0, so a sparse model may legitimately expand many times.
    declared = 4 * sum(size * rank for size, rank in zip(plan.sizes[1:], plan.block_ranks))
    held = sum(array.nbytes for array in tensors.values())
    if declared > max(FREE_BYTES, MAX_EXPANSION * held):
        raise ModelFormatError(
            f"it declares vectors of {declared} bytes, but holds {held}; allowed are {FREE_BYTES}, or {MAX_EXPANSION} "
            "for each byte that it holds"
        )


def _wanted(plan: RankPlan, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Wanted:
    """Return the expected shape and types of each tensor; those of an encoder may have any length."""
    n, reals, wholes = plan.n_features, ("float32",), ("int32", "int64")
    wanted: Wanted = {"bias": ((1,), reals), "weights": ((n,), reals), "ids": ((n,), wholes), "counts": ((n,), wholes)}
    if "bits" in header:
        wanted |= stored_shapes(plan, header["bits"])
    blocks = () if "bits" in header else zip(plan.sizes[1:], plan.block_ranks)
    for level, (size, rank) in enumerate(blocks, start=1):
        if f"rows.{level}" in tensors:
            size = tensors[f"rows.{level}"].size
            wanted[f"rows.{level}"] = ((size,), ("int32",))
        wanted[f"factors.{level}"] = ((size, rank), reals)
    if plan.traits.has_mixture:
        wanted["mixture"] = ((n, plan.n_levels), reals)
    if "fields" in header:
        wanted["fields"] = ((n,), ("int32",))
    if "head" in header:
        shapes = head_shapes(header["head"]["n_fields"], tensors.get("head.output", np.zeros(0)).size)
        wanted |= {name: (shape, reals) for name, shape in shapes.items()}
    if plan.n_field_weights:
        wanted["field_weights"] = ((plan.n_field_weights,), reals)
    if (kept := tensors.get("samples.bias")) is not None and kept.ndim == 1 and kept.size:
        shapes = {"bias": (), "weights": (n,)}
        shapes |= {f"factors.{k}": pair for k, pair in enumerate(zip(plan.sizes[1:], plan.block_ranks), start=1)}
        wanted |= {f"samples.{name}": ((kept.size, *shape), reals) for name, shape in shapes.items()}
    if header["encoder"] is not None:
        for name, kind in (("encoder.ends", "int64"), ("encoder.text", "uint8")):
            wanted[name] = ((tensors.get(name, np.zeros(0)).size,), (kind,))
    return wanted


def _check_tensors(plan: RankPlan, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Check names, types and shapes of all tensors, and that ids are distinct and in range."""
    wanted = _wanted(plan, header, tensors)
    if "states_version" in header:
        wanted |= wanted_states(plan, optimizer_class(header["options"]["optimizer"]))
    extra = [name for name in tensors if name not in wanted]
    if extra:
        raise ModelFormatError(f"unexpected tensor {extra[0]!r}")
    for name, (shape, allowed) in wanted.items():
        if name not in tensors:
            raise ModelFormatError(f"tensor {name!r} is missing")
        found = tensors[name]
        if found.shape != shape or found.dtype.name not in allowed:
            raise ModelFormatError(
                f"tensor {name!r} must have shape {shape} and type {' or '.join(allowed)}, "
                f"found {found.shape} and {found.dtype}"
            )
    for level, size in enumerate(plan.sizes[1:-1], start=1):
        rows = tensors.get(f"rows.{level}", np.zeros(0, np.int32))
        # They index an array without bounds checks of their own: negative ones would wrap around.
        if rows.size and (rows[0] < 0 or rows[-1] >= size or (np.diff(rows) <= 0).any()):
            raise ModelFormatError(f"tensor 'rows.{level}' must be strictly ascending and below {size}")
    _check_expansion(plan, tensors)
    n, ids = plan.n_features, tensors["ids"]
    if n and (ids.min() < 0 or ids.max() >= header["n_inputs"] or np.unique(ids).size != n):
        raise ModelFormatError("tensor 'ids': feature ids must be distinct and below n_inputs")
    if n and tensors["counts"].min() < 0:
        raise ModelFormatError("tensor 'counts': counts must be at least 0")
    n_fields = len(header.get("fields", ()))
    if n and n_fields and not 0 <= tensors["fields"].min() <= tensors["fields"].max() < n_fields:
        raise ModelFormatError(f"tensor 'fields': fields must be between 0 and {n_fields - 1}")
    weights = tensors.get("field_weights", np.zeros(0))
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ModelFormatError("tensor 'field_weights': weights must be between 0 and 1")
    if "states_version" in header:
        check_states(plan, tensors, optimizer_class(header["options"]["optimizer"]))


def _encoder_parts(encoder: TableEncoder) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the encoder's header and tensors."""
    # Imported here: models without an encoder need no pyarrow.
    from ..encode.serialize import encoder_parts

    return encoder_parts(encoder)


def _read_encoder(header: dict[str, Any] | None, n_inputs: int, tensors: dict[str, np.ndarray]) -> TableEncoder | None:
    if header is None:
        return None
    from ..encode.serialize import read_encoder

    encoder = read_encoder(header, tensors)
    if encoder.n_features != n_inputs:
        raise ModelFormatError(f"the encoder produces {encoder.n_features} features, but the model takes {n_inputs}")
    return encoder
