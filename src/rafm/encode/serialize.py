"""Convert an encoder to header and tensors of a model file, and back. See docs/file-format.md."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataValueError, ModelFormatError, ModelVersionError
from ..files.container import MAX_HEADER_BYTES
from .casts import CELL_TYPES
from .coders import Bins, Buckets, Clock, Coder, Lists, LogBins, Number, TextCoder, Words
from .column import Column
from .crosses import NO_KEYS, Cross, check_crosses, places_of
from .encoder import TableEncoder
from .spec import MAX_BUCKETS, ColumnSpec, TableSpec
from .strings import StringTable
from .times import TAKES

VERSION = 3  # which has conjunctions, and 2 kinds of times; an encoder is written in the first version that suffices
RESERVED_BYTES = 2**16  # of the header of a file, for its other entries
# What was fitted, as opposed to the settings of a ColumnSpec; names are those of the file format.
STATE = ("family", "times", "rare", "missing", "n_values", "n_buckets", "mean", "spread", "edges", "bins")
KEYS = "encoder.keys"  # of conjunctions, one after the other
Header = dict[str, Any]
Tensors = dict[str, np.ndarray]


def encoder_parts(encoder: TableEncoder) -> tuple[Header, Tensors]:
    """Return header and tensors: all texts concatenated, and where each ends."""
    table = encoder.spec.to_dict()
    specs = table.pop("columns", {})
    fitted = {column.name: _state(column) for column in encoder.columns}
    columns = [{"name": name, **specs[name], **fitted.get(name, {})} for name in sorted(specs)]
    tables = [words.table for column in encoder.columns if isinstance(words := _words_of(column.coder), Words)]
    starts = np.cumsum([0, *(words.text.size for words in tables)])
    ends = [words.ends + start for words, start in zip(tables, starts)]
    text = [np.zeros(0, np.uint8), *(words.text for words in tables)]
    tensors = {"encoder.text": np.concatenate(text), "encoder.ends": np.concatenate([np.zeros(0, np.int64), *ends])}
    version = 2 if any(column.times for column in encoder.columns) else 1
    header = {"version": version, "table": table, "columns": columns}
    if encoder.crosses:
        header |= {"version": VERSION, "crosses": [cross.n_features for cross in encoder.crosses]}
        tensors[KEYS] = np.concatenate([cross.keys for cross in encoder.crosses])
    return header, tensors


def check_size(encoder: TableEncoder) -> None:
    """Reject an encoder that would not fit into the header of a model file; call it before training."""
    n_bytes = len(json.dumps(json.dumps(encoder_parts(encoder)[0])))  # twice: it is stored as a JSON string in JSON
    if n_bytes > MAX_HEADER_BYTES - RESERVED_BYTES:
        raise DataValueError(
            f"the {len(encoder.columns)} columns take {n_bytes} bytes to describe, but a model file has room for "
            f"{MAX_HEADER_BYTES - RESERVED_BYTES}. Ignore some columns, merge related ones into a list column, or use "
            "fewer bins."
        )


def digest(encoder: TableEncoder) -> str:
    """Return eight hexadecimal digits that identify an encoder."""
    header, tensors = encoder_parts(encoder)
    sha = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        sha.update(np.ascontiguousarray(tensors[name]).data)
    return sha.hexdigest()[:8]


def _words_of(coder: Coder) -> Coder:
    return coder.words if isinstance(coder, Lists) else coder


def _state(column: Column) -> Header:
    """Return the fitted state of a column, except its texts."""
    coder = _words_of(column.coder)
    state: Header = {}
    if isinstance(coder, Words):
        state = {"n_values": coder.n_values}
    elif isinstance(coder, Buckets):
        state = {"n_buckets": coder.n_values}
    elif isinstance(coder, Number):
        state = {"mean": coder.mean, "spread": coder.spread}
    elif isinstance(coder, Bins):
        state = {"edges": list(coder.edges)}
    elif isinstance(coder, LogBins):
        state = {"bins": list(coder.bins)}
    times = {} if column.times is None else {"times": column.times}
    return {"family": column.cell_type, **times, "rare": column.has_rare, "missing": column.has_missing, **state}


def read_encoder(header: Any, tensors: Tensors) -> TableEncoder:
    """Return the encoder; reject anything that `encoder_parts` would not have written."""
    version = header.get("version") if isinstance(header, dict) else None
    if type(version) is int and version > VERSION:
        raise ModelVersionError(f"its encoder has version {version}, but rafm supports {VERSION}; update rafm")
    try:
        encoder = _read(header, tensors)
        # The strictest check is the simplest: written again, it must give the same header.
        given, written = (
            json.dumps(parts, sort_keys=True, allow_nan=False) for parts in (header, encoder_parts(encoder)[0])
        )
    except ModelFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise ModelFormatError(f"its encoder is invalid: {error!r:.200}") from None
    if given != written:
        raise ModelFormatError("its encoder is not as rafm writes it")
    return encoder


def _read(header: Header, tensors: Tensors) -> TableEncoder:
    texts = _read_texts(tensors["encoder.text"], tensors["encoder.ends"])
    specs, columns, used = [], [], 0
    for entry in header["columns"]:
        settings = {key: value for key, value in entry.items() if key not in STATE and key != "name"}
        specs.append(ColumnSpec.from_dict(entry["name"], settings))
        n_values = entry.get("n_values", 0)
        if specs[-1].kind != "ignore":
            coder = _read_coder(specs[-1], entry, texts[used : used + n_values])
            flags = (entry["rare"], entry["missing"])
            if entry["family"] not in CELL_TYPES or any(type(flag) is not bool for flag in flags):
                raise ValueError(f"{entry!r:.160}")
            times = entry.get("times")
            if times is not None and (times not in TAKES or specs[-1].kind not in ("datetime", "category")):
                raise ValueError(f"{entry!r:.160}")
            columns.append(Column(specs[-1], entry["family"], coder, entry["rare"], entry["missing"], times))
            used += n_values
    if used != len(texts):
        raise ModelFormatError(f"its encoder has {len(texts)} values, but its columns have {used}")
    spec = TableSpec.from_dict(header["table"]).with_columns(specs)
    return TableEncoder(spec, tuple(columns), _read_crosses(spec, header, columns, tensors))


def _read_crosses(spec: TableSpec, header: Header, columns: list[Column], tensors: Tensors) -> tuple[Cross, ...]:
    sizes = header.get("crosses", [])
    keys, ends = tensors.get(KEYS, NO_KEYS), np.cumsum([0, *sizes])
    if ends[-1] != keys.size or len(sizes) != len(spec.crosses):
        raise ModelFormatError(f"its encoder has {keys.size} keys of conjunctions, expected {ends[-1]}")
    check_crosses(spec)
    found = []
    for names, start, size in zip(spec.crosses, ends, sizes):
        own = keys[start : start + size]
        cross = Cross(tuple(columns[place] for place in places_of(names, columns)), own)
        if own.size and not (own[0] >= 0 and (np.diff(own) > 0).all() and own[-1] < math.prod(cross.sizes)):
            raise ModelFormatError(f"the keys of conjunction {cross.name!r:.80} of its encoder are not in order")
        found.append(cross)
    return tuple(found)


def _read_coder(spec: ColumnSpec, entry: Header, texts: pa.Array) -> Coder:
    name = spec.name
    if spec.kind in ("category", "list"):
        words = _read_buckets(entry) if "n_buckets" in entry else _read_words(name, entry["n_values"], texts)
        return words if spec.kind == "category" else Lists(words, spec)
    if spec.kind == "number":
        mean, spread = float(entry["mean"]), float(entry["spread"])
        if not (math.isfinite(mean) and 0 < spread < math.inf):
            raise ValueError(f"mean {mean}, spread {spread}")
        return Number(name, mean, spread)
    if spec.kind == "bins":
        return Bins(name, _read_increasing(entry["edges"]))
    return LogBins(name, _read_increasing(entry["bins"])) if spec.kind == "log_bins" else Clock(name, spec.format)


def _read_increasing(numbers: list[float]) -> tuple[float, ...]:
    found = tuple(float(number) for number in numbers)
    if list(found) != sorted(set(found)) or not all(map(math.isfinite, found)):
        raise ValueError("edges and bins must increase")
    return found


def _read_buckets(entry: Header) -> TextCoder:
    if type(entry["n_buckets"]) is not int or not 0 < entry["n_buckets"] <= MAX_BUCKETS:
        raise ValueError(f"n_buckets {entry['n_buckets']!r:.20}")
    return Buckets(entry["n_buckets"])


def _read_words(name: str, n_values: int, texts: pa.Array) -> TextCoder:
    table = StringTable()
    table.intern(texts)
    if len(table) != len(texts):
        raise ModelFormatError(f"column {name!r:.80} of its encoder has a duplicate value")
    if len(texts) != n_values:
        raise ModelFormatError(f"column {name!r:.80} of its encoder has {n_values} values, found {len(texts)}")
    return Words(table)


def _read_texts(text: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Return the texts that end at these positions."""
    places = np.concatenate([np.zeros(1, np.int64), ends])
    if (places[1:] < places[:-1]).any() or places[-1] != text.size:
        raise ModelFormatError("the offsets of its encoder's values do not match their text")
    found = pa.Array.from_buffers(pa.large_binary(), ends.size, [None, pa.py_buffer(places), pa.py_buffer(text)])
    try:
        return found.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise ModelFormatError("the values of its encoder are not UTF-8") from None
