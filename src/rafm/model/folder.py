"""A model in a folder: parts with some of its features each, and a manifest that is written last.

    FOLDER/model.json                      names the other files, with size and digest of each
    FOLDER/common-1f0c42d7.rafm            all that does not belong to single features: a model file without features
    FOLDER/part-1f0c42d7-0000-0000.rafm    some of the features: a model file of its own

Nobody needs memory for the whole model to write it: a cluster's processes write the features that they hold. Until the
manifest is written, a folder holds no model, or the one before. Files that it does not name are left from a run that
was killed; the next one that writes there removes them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, ModelFileError, ModelFormatError, ModelIntegrityError, ModelVersionError
from ..files.atomic import PathLike, write_atomically
from ..files.container import peek_container
from ..plan.fields import FeatureFields
from ..rows.numbering import Numbering
from .file import MANIFEST, Saved, load_file, save
from .model import Model

KIND, VERSION = "rafm model", 1
MAX_MANIFEST_BYTES = 2**26
_NAME = r"(common-[0-9a-f]{8}|part-[0-9a-f]{8}-[0-9]{4,}-[0-9]{4,})\.rafm"
_PART, _OURS = re.compile(_NAME), re.compile(rf"{_NAME}|\.({_NAME}|{re.escape(MANIFEST)})\.[0-9a-f]{{16}}\.tmp")
COPY_AGAIN = "Copy the folder again, or write it again."


@dataclass(frozen=True)
class Part:
    """A file of a folder.

    sha256: as the file records it. sizes: features of level k or higher, as in a model file. buckets: the first and
    last + 1 of the buckets of its features, by which a cluster divides them.
    """

    file: str
    bytes: int
    sha256: str
    sizes: tuple[int, ...]
    buckets: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Manifest:
    """The files of a model."""

    common: Part
    parts: tuple[Part, ...]

    @property
    def n_bytes(self) -> int:
        return sum(part.bytes for part in (self.common, *self.parts))

    def sizes(self) -> tuple[int, ...]:
        """Return the number of features of level k or higher, of all parts together."""
        return tuple(sum(part.sizes[k] for part in self.parts) for k in range(len(self.common.sizes)))


# ---- Writing


def begin_folder(path: PathLike) -> str:
    """Make the folder, or check that it may be written to; return the token that the files of a new model share."""
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    foreign = [one.name for one in folder.iterdir() if one.name != MANIFEST and not _OURS.fullmatch(one.name)]
    if foreign and not (folder / MANIFEST).exists():
        raise ConfigError(f"{path}: holds {min(foreign)} but no model; choose an empty or a new folder", key="out")
    return secrets.token_hex(4)


def save_part(folder: PathLike, token: str, writer: int, number: int, model: Model, buckets: tuple[int, int]) -> Part:
    """Write a model of some of the features; writer, number: make the file's name unique."""
    return _saved(folder, f"part-{token}-{writer:04d}-{number:04d}.rafm", Saved(model), buckets)


def finish_folder(folder: PathLike, token: str, common: Saved, parts: list[Part]) -> Manifest:
    """Write what does not belong to single features, and the manifest; remove files of the model before."""
    found = Manifest(_saved(folder, f"common-{token}.rafm", common, (0, 0)), tuple(parts))
    listed = {"common": asdict(found.common), "parts": [asdict(part) for part in found.parts]}
    text = json.dumps({"kind": KIND, "version": VERSION, **listed}, indent=1)
    write_atomically(Path(folder) / MANIFEST, [text.encode()])
    kept = {part.file for part in (found.common, *found.parts)}
    for other in Path(folder).iterdir():
        if _OURS.fullmatch(other.name) and other.name not in kept:
            with suppress(OSError):
                other.unlink()
    return found


def _saved(folder: PathLike, name: str, saved: Saved, buckets: tuple[int, int]) -> Part:
    path = Path(folder) / name
    n_bytes = save(path, saved)
    return Part(name, n_bytes, peek_container(path, ())[0], saved.model.plan.sizes[:-1], buckets)


# ---- Reading


def read_manifest(path: PathLike) -> Manifest:
    """Return the files of a folder, which exist and have the right sizes."""
    name, file = Path(path).name or os.fspath(path), Path(path) / MANIFEST
    if not file.is_file():
        raise ModelFormatError(
            f"{name}: is a folder without {MANIFEST}, so it holds no model, or writing it was not finished. "
            "`rafm train --ray ... --out FOLDER/` writes such folders."
        )
    try:
        found = _parsed(file)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFormatError(f"{name}/{MANIFEST}: is not the manifest of a model. {COPY_AGAIN}") from None
    for part in (found.common, *found.parts):
        place = Path(path) / part.file
        if not place.is_file():
            raise ModelIntegrityError(f"{name}: {part.file} is missing. {COPY_AGAIN}")
        if place.stat().st_size != part.bytes:
            raise ModelIntegrityError(
                f"{name}: {part.file} has {place.stat().st_size} bytes, but {part.bytes} were written. {COPY_AGAIN}"
            )
    return found


def _parsed(file: Path) -> Manifest:
    if file.stat().st_size > MAX_MANIFEST_BYTES:
        raise ValueError
    found = json.loads(file.read_bytes())
    if found["kind"] != KIND or type(found["version"]) is not int:
        raise ValueError
    if found["version"] > VERSION:
        raise ModelVersionError(
            f"{file.parent.name}/{MANIFEST}: has version {found['version']}, but this rafm reads {VERSION}. "
            "Upgrade rafm."
        )
    common, *parts = map(_part, [found["common"], *found["parts"]])
    files, n = {part.file for part in (common, *parts)}, len(common.sizes)
    if any(common.sizes) or len(files) != 1 + len(parts) or any(len(part.sizes) != n for part in parts):
        raise ValueError
    return Manifest(common, tuple(parts))


def _part(found: Any) -> Part:
    part = Part(**{**found, "sizes": tuple(found["sizes"]), "buckets": tuple(found["buckets"])})
    wholes = (part.bytes, *part.sizes, *part.buckets)
    if not (_PART.fullmatch(part.file) and isinstance(part.sha256, str) and len(part.buckets) == 2):
        raise ValueError
    if any(type(one) is not int or not 0 <= one < 2**62 for one in wholes):
        raise ValueError
    return part


def load_part(folder: PathLike, part: Part) -> Saved:
    """Read a file of a folder and check that it is the one that the manifest names."""
    path = Path(folder) / part.file
    _check_digest(folder, part, peek_container(path, ())[0])
    found = load_file(path)  # checks the content against the digest
    if found.model.plan.sizes[:-1] != part.sizes:
        raise ModelFormatError(f"{Path(folder).name}: {part.file} does not have the sizes recorded in {MANIFEST}")
    return found


def _check_digest(folder: PathLike, part: Part, found: str) -> None:
    if found != part.sha256:
        raise ModelIntegrityError(
            f"{Path(folder).name}: {part.file} belongs to another model: its SHA-256 starts with {found[:8]!r:.12}, "
            f"but {MANIFEST} has {part.sha256[:8]!r:.12}. {COPY_AGAIN}"
        )


def load_common(path: PathLike) -> Saved:
    """Return what a folder says of its model, without its features; or all that a model file holds."""
    return load_part(path, read_manifest(path).common) if os.path.isdir(path) else load_file(path)


def load_folder(path: PathLike) -> Saved:
    """Read a model part by part, with memory for the model and one part."""
    manifest = read_manifest(path)
    common = load_part(path, manifest.common)
    model, name = common.model, Path(path).name
    plan = replace(model.plan, sizes=(*manifest.sizes(), 0))
    ids, counts, order = _listed(path, manifest)
    if np.unique(ids).size != plan.n_features:
        raise ModelFormatError(f"{name}: feature ids must be distinct, but some are in several parts")
    places = np.empty(order.size, np.int64)  # of each feature among all
    places[order] = np.arange(order.size)
    weights, fields = np.empty(order.size, np.float32), np.empty(order.size, np.int32)
    factors = [np.empty((size, rank), np.float32) for size, rank in zip(plan.sizes[1:], plan.block_ranks)]
    first, dropped = 0, model.n_dropped
    for part in manifest.parts:
        one = load_part(path, part).model
        own = slice(first, first + one.plan.n_features)
        _check_same(name, part, model, one, ids[own])
        weights[places[own]] = one.parameters.weights
        for block, mine in zip(factors, one.parameters.factors):
            block[places[own][: len(mine)]] = mine  # features of high levels come first, in a part and in all
        if one.fields is not None:
            fields[places[own]] = one.fields.numbers
        first, dropped = own.stop, dropped + one.n_dropped
    whole = replace(
        model,
        plan=plan,
        numbering=Numbering(ids[order], model.numbering.n_inputs),
        counts=counts[order],
        parameters=replace(model.parameters, weights=weights, factors=factors),
        n_dropped=dropped,
        fields=None if model.fields is None else FeatureFields(model.fields.names, fields),
    )
    return replace(common, model=whole)


def _listed(path: PathLike, manifest: Manifest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids and counts of all parts, and their order in the model: by level, count and id."""
    n = sum(part.sizes[0] for part in manifest.parts)
    ids, counts, levels = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int16)
    first = 0
    for part in manifest.parts:
        digest, found = peek_container(Path(path) / part.file, ("ids", "counts"))
        _check_digest(path, part, digest)
        if found["ids"].shape != (part.sizes[0],) or found["counts"].shape != (part.sizes[0],):
            raise ModelFormatError(f"{Path(path).name}: {part.file} does not have the sizes recorded in {MANIFEST}")
        own = slice(first, first + part.sizes[0])
        ids[own], counts[own] = found["ids"], found["counts"]
        for k, size in enumerate(part.sizes[1:], start=1):
            levels[first : first + size] = k
        first = own.stop
    return ids, counts, np.lexsort((ids, -counts, -levels))


def _check_same(name: str, part: Part, common: Model, one: Model, ids: np.ndarray) -> None:
    """Check that a part belongs to the model, and that it did not change since its ids were read."""
    facts = [
        (
            replace(each.plan, sizes=()),
            each.numbering.n_inputs,
            each.n_rows,
            each.loss,
            each.fields and each.fields.names,
        )
        for each in (common, one)
    ]
    plain = one.parameters.bits is None and one.parameters.states is None and one.samples is None
    if facts[0] != facts[1] or not plain or not np.array_equal(one.numbering.ids, ids):
        raise ModelFormatError(f"{name}: {part.file} belongs to another model. {COPY_AGAIN}")
