"""Names in a model file: in its header, or in tensors if the header would become too large."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelFormatError
from ..files.container import fits_header

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder


def feature_name(id: int, encoder: TableEncoder | None, columns: list[str] | None, index_base: int) -> str:
    """Return the name of a feature id: column=value of a table, the column of a matrix, or the id in a file."""
    if encoder is not None:
        return encoder.feature_name(int(id))
    if columns is not None and id < len(columns):
        return columns[id]
    return str(int(id) + index_base)


def put_names(
    key: str, names: list[str], header: dict[str, Any], tensors: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Store names in the header, or return them as tensors if the header would become too large."""
    header[key] = names
    if fits_header(tensors, header):
        return {}
    del header[key]
    texts = [name.encode("utf-8", "surrogatepass") for name in names]  # Python strings may hold lone surrogates
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {f"{key}.text": np.frombuffer(b"".join(texts), np.uint8), f"{key}.ends": ends}


def take_names(key: str, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Move names from tensors to the header, where they are checked; the inverse of `put_names`."""
    text, ends = tensors.pop(f"{key}.text", None), tensors.pop(f"{key}.ends", None)
    if text is None and ends is None:
        return
    what = {"columns": "column names", "fields": "field names"}[key]
    if text is None or ends is None or key in header:
        raise ModelFormatError(f"{what} must be either in the header, or in {key}.text and {key}.ends")
    if (text.dtype.name, ends.dtype.name, text.ndim, ends.ndim) != ("uint8", "int64", 1, 1):
        raise ModelFormatError(f"tensors '{key}.text' and '{key}.ends' must be 1-d, of type uint8 and int64")
    places = np.concatenate([np.zeros(1, np.int64), ends])
    if (places[1:] < places[:-1]).any() or places[-1] != text.size:
        raise ModelFormatError(f"tensor '{key}.ends' must ascend and end at the size of '{key}.text'")
    whole, bounds = text.tobytes(), places.tolist()
    try:
        header[key] = [whole[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
    except UnicodeDecodeError:
        raise ModelFormatError(f"{what} must be UTF-8") from None


def are_names(found: Any) -> bool:
    """Return whether these are distinct names."""
    return isinstance(found, list) and all(isinstance(name, str) for name in found) and len(set(found)) == len(found)
