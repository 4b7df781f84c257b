"""What tests of containers share: a file that holds a bit of everything, files made by hand, and refusals."""

import hashlib
import json

import numpy as np
import pytest

from rafm.errors import ModelFileError
from rafm.files.container import read_container

TENSORS = {
    "weights": np.array([0.5, -1.25, 3.0], np.float32),
    "bias": np.array(0.125),
    "level.2.factors": np.arange(6, dtype=np.float32).reshape(3, 2),
    "sizes": np.array([3, 1], np.int64),
    "levels": np.array([2, 1, 1], np.int32),
    "names": np.frombuffer(b"site\nuser", np.uint8),
    "empty": np.empty((0, 4), np.float32),
}
HEADER = {"task": "binary", "ranks": [8, 32], "l2": 3e-3, "best": None, "columns": {"Größe": 'a "quoted\\'}}

HEAD = '{"__metadata__":{"format":"rafm","format_version":"%s","header":%s,"sha256":"%s"}%s}'
NO_DIGEST = "0" * 64
ONE_F32 = ',"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


def framed(head, data=b""):
    """Return a file with this JSON text, padded as the format asks."""
    head = head.encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def sealed(blank):
    """Return the file with its digest in the place of the first 64 zeros."""
    return blank.replace(NO_DIGEST.encode(), hashlib.sha256(blank).hexdigest().encode(), 1)


def crafted(entries="", data=b"", header="{}", version="1"):
    """Return a file that follows the specification by hand, with a correct digest over whatever it says."""
    return sealed(framed(HEAD % (version, json.dumps(header), NO_DIGEST, entries), data))


def overwrite(path, raw):
    """Write in place: emptying a file first makes some file systems wait for the disk, thousands of times."""
    path.touch()
    with open(path, "r+b") as file:
        file.write(raw)
        file.truncate()


def refusal(path, raw):
    """Return the error with which the file is refused; its message starts with the name of the file."""
    overwrite(path, raw)
    with pytest.raises(ModelFileError, match=r"^m\.rafm: ") as caught:
        read_container(path)
    return caught.value


def assert_same(tensors, expected):
    assert set(tensors) == set(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype.newbyteorder("=")
        assert tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name], array)
