"""What is written comes back; whatever else a file may hold is refused, with its name and the reason."""

import ast
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

import rafm
from rafm.errors import ModelFileError, ModelFormatError, ModelIntegrityError, ModelVersionError
from rafm.files.container import MAX_HEADER_BYTES, MAX_TENSORS, read_container, write_container

steady = settings(database=None, deadline=None, derandomize=True, max_examples=200)

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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.rafm"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of a small file that holds a bit of everything."""
    path = tmp_path_factory.mktemp("good") / "m.rafm"
    write_container(path, TENSORS, HEADER)
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A path for tests that write many files in turn."""
    return tmp_path_factory.mktemp("scratch") / "m.rafm"


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


# What is written comes back


def test_header_and_tensors_come_back_as_they_were(path):
    n_bytes = write_container(path, TENSORS, HEADER)
    header, tensors = read_container(path)
    assert header == HEADER
    assert_same(tensors, TENSORS)
    assert n_bytes == path.stat().st_size


def test_a_file_without_tensors_holds_its_header(path):
    write_container(path, {}, HEADER)
    assert read_container(path) == (HEADER, {})


def test_the_file_is_byte_for_byte_what_the_specification_says(path):
    entries = (
        ',"b":{"dtype":"F64","shape":[],"data_offsets":[0,8]}'
        ',"a":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}'
        ',"c":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}'
    )
    data = np.float64(2.5).tobytes() + np.float32([1, -1]).tobytes() + b"xyz"
    tensors = {"a": np.float32([[1], [-1]]), "b": np.array(2.5), "c": np.frombuffer(b"xyz", np.uint8)}
    write_container(path, tensors, {"z": 1, "a": "é"})
    assert path.read_bytes() == crafted(entries, data, '{"a":"\\u00e9","z":1}')


def test_the_safetensors_library_reads_the_same_tensors(path):
    write_container(path, TENSORS, HEADER)
    assert_same(load_file(path), TENSORS)


MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)
LAYOUTS = {
    "fortran": np.asfortranarray(MATRIX),
    "transposed": MATRIX.T,
    "columns": MATRIX[:, 1:4],
    "every_other_row": MATRIX[::2],
    "reversed": MATRIX[::-1, ::-1],
    "broadcast": np.broadcast_to(np.float32([1, 2, 3]), (2, 3)),
    "big_endian": MATRIX.astype(">f4"),
    "big_endian_integers": np.arange(5, dtype=">i8")[::-1],
    "field": np.array([(1, 2.5), (3, 4.5)], [("id", np.int32), ("value", np.float64)])["value"],
    "unaligned": np.frombuffer(b"?" + MATRIX.tobytes(), np.float32, offset=1),
    "read_only": np.frombuffer(MATRIX.tobytes(), np.float32),
    "zero_dimensions": np.array(7, np.int32),
    "empty": MATRIX[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_comes_back_however_it_lies_in_memory(path, layout):
    expected = {layout: LAYOUTS[layout]}
    write_container(path, expected, {})
    assert_same(read_container(path)[1], expected)
    assert_same(load_file(path), expected)


dtypes = st.sampled_from(["<f4", ">f8", "<i4", ">i8", "u1"])
finite = {"allow_nan": False, "allow_infinity": False}
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0), elements=finite if "f" in dtype else None)
)
names = st.from_regex(r"[A-Za-z0-9_]{1,9}(\.[a-z]{1,3})?", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(**finite) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)


@steady
@given(st.dictionaries(names, arrays, max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_any_header_and_tensors_come_back(scratch, tensors, header):
    write_container(scratch, tensors, header)
    found_header, found = read_container(scratch)
    assert found_header == header
    assert_same(found, tensors)


def test_the_same_content_gives_the_same_bytes_wherever_and_whenever(tmp_path, good):
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "other name.rafm"
    write_container(other, dict(reversed(TENSORS.items())), dict(reversed(HEADER.items())))
    assert other.read_bytes() == good


def test_every_tensor_is_aligned_in_the_file_and_in_memory(path):
    tensors = {
        "a": np.zeros(3, np.uint8),
        "b": np.zeros(3, np.float32),
        "c": np.zeros(1),
        "d": np.zeros(1, np.int32),
    }
    write_container(path, tensors, {})
    head_size = int.from_bytes(path.read_bytes()[:8], "little")
    assert head_size % 8 == 0
    assert all(array.flags.aligned for array in read_container(path)[1].values())


def test_tensors_read_are_writable_and_independent_of_the_file(path, good):
    path.write_bytes(good)
    read_container(path)[1]["weights"][:] = 7
    assert path.read_bytes() == good
    assert_same(read_container(path)[1], TENSORS)


def test_reading_allocates_the_data_only_once(path):
    n_bytes = write_container(path, {"factors": np.ones(2_000_000, np.float32)}, {})
    tracemalloc.start()
    read_container(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * n_bytes


# What cannot be written, and leaves an old file alone

UNWRITABLE_TENSORS = {
    "float16": ({"w": np.zeros(2, np.float16)}, "w has dtype 'float16', allowed are F64, I64, F32, I32, U8"),
    "bool": ({"w": np.zeros(2, bool)}, "w has dtype 'bool'"),
    "complex": ({"w": np.zeros(2, complex)}, "w has dtype 'complex128'"),
    "objects": ({"w": np.array([{}, None])}, "w has dtype 'object'"),
    "text": ({"w": np.array(["a", "b"])}, "w has dtype '<U1'"),
    "records": ({"w": np.zeros(2, [("a", "f4"), ("b", "f4")])}, "w has dtype "),
    "nine dimensions": ({"w": np.zeros((1,) * 9)}, "up to 8 whole numbers"),
    "path as name": ({"../w": np.zeros(2)}, r"has a tensor '\.\./w'"),
    "reserved name": ({"__metadata__": np.zeros(2)}, "has a tensor '__metadata__'"),
    "too many": (
        {f"t{i}": np.zeros(0) for i in range(MAX_TENSORS + 1)},
        "lists 4097 tensors, allowed are 4096",
    ),
    "nan": ({"w": np.float32([[0, 1], [np.nan, np.inf]])}, r"w is nan at \(1, 0\)"),
    "infinity": ({"w": np.float32([1, np.inf])}, r"w is inf at \(1,\)"),
    "minus infinity": ({"w": np.float64([-np.inf, 1])}, r"w is -inf at \(0,\)"),
    "infinite scalar": ({"w": np.array(np.inf)}, r"w is inf at \(\)"),
}
UNWRITABLE_HEADERS = {
    "nan": ({"l2": float("nan")}, "cannot be written as JSON"),
    "infinity": ({"l2": float("inf")}, "cannot be written as JSON"),
    "numpy number": ({"l2": np.float32(1)}, "cannot be written as JSON"),
    "tuple": ({"ranks": (8, 32)}, "Use lists, not tuples"),
    "number as key": ({1: "a"}, "text as keys"),
    "keys that become one": ({"a": {"1": 0, 1: 0}}, "the header"),
    "too large": ({"names": "x" * MAX_HEADER_BYTES}, "allowed are 16777216"),
}


@pytest.mark.parametrize("case", UNWRITABLE_TENSORS)
def test_tensors_that_could_not_be_read_are_not_written(path, good, case):
    path.write_bytes(good)
    tensors, message = UNWRITABLE_TENSORS[case]
    with pytest.raises(ModelFileError, match=r"^m\.rafm: .*" + message):
        write_container(path, tensors, {})
    assert path.read_bytes() == good


@pytest.mark.parametrize("case", UNWRITABLE_HEADERS)
def test_a_header_that_would_not_come_back_is_not_written(path, good, case):
    path.write_bytes(good)
    header, message = UNWRITABLE_HEADERS[case]
    with pytest.raises(ModelFormatError, match=r"^m\.rafm: .*" + message):
        write_container(path, {}, header)
    assert path.read_bytes() == good


def test_the_largest_header_and_the_most_tensors_come_back(path):
    tensors = {f"tensor_{i}": np.array([i], np.int32) for i in range(MAX_TENSORS)}
    header = {"names": '"\\' * 1_000_000}
    write_container(path, tensors, header)
    found_header, found = read_container(path)
    assert found_header == header
    assert_same(found, tensors)


# Damage


def test_every_file_that_ends_early_is_refused(scratch, good):
    for n in range(len(good)):
        assert type(refusal(scratch, good[:n])) is ModelFormatError, n


def flipped(raw, bit):
    damaged = bytearray(raw)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def values_of_metadata(raw):
    """Return the positions of the bytes inside of the texts of `header` and `sha256`."""
    header, digest = raw.index(b'"header":"') + 10, raw.index(b'"sha256":"') + 10
    return {*range(header, raw.index(b'","sha256"')), *range(digest, digest + 64)}


def test_every_flipped_bit_before_the_data_is_noticed(scratch, good):
    values = values_of_metadata(good)
    for bit in range(8 * (8 + int.from_bytes(good[:8], "little"))):
        error = refusal(scratch, flipped(good, bit))
        assert bit // 8 not in values or type(error) is ModelIntegrityError, bit


@steady
@given(st.data())
def test_any_flipped_bit_of_the_data_is_an_integrity_error(scratch, good, data):
    begin = 8 + int.from_bytes(good[:8], "little")
    bit = data.draw(st.integers(8 * begin, 8 * len(good) - 1))
    error = refusal(scratch, flipped(good, bit))
    assert type(error) is ModelIntegrityError
    assert "changed after it was written" in str(error)


@steady
@given(st.data())
def test_whatever_bytes_are_replaced_the_answer_is_a_refusal(scratch, good, data):
    begin = data.draw(st.integers(0, len(good) - 1))
    end = data.draw(st.integers(begin, min(len(good), begin + 40)))
    raw = good[:begin] + data.draw(st.binary(max_size=40)) + good[end:]
    if raw != good:
        refusal(scratch, raw)


NAN_F32, SIGNALLING_NAN_F32, INF_F64 = b"\x00\x00\xc0\x7f", b"\x01\x00\x80\x7f", b"\x00" * 6 + b"\xf0\x7f"


@pytest.mark.parametrize("item", [NAN_F32, SIGNALLING_NAN_F32], ids=["quiet", "signalling"])
def test_nan_in_a_file_with_a_correct_digest_is_an_integrity_error(path, item):
    entries = ',"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}'
    error = refusal(path, crafted(entries, bytes(8) + item + bytes(4)))
    assert type(error) is ModelIntegrityError
    assert "tensor w is nan at (1, 0)" in str(error)


def test_infinity_in_a_file_with_a_correct_digest_is_an_integrity_error(path):
    error = refusal(path, crafted(',"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}', INF_F64))
    assert type(error) is ModelIntegrityError
    assert "tensor w is inf at (0,)" in str(error)


# Files made to deceive: their digests are right, their structure is not


def entry(dtype='"F32"', shape="[1]", offsets="[0,4]", name="w"):
    return f',"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'


STRUCTURES = {
    "dtype too narrow": (entry('"F16"', offsets="[0,2]"), 2, "dtype 'F16', allowed are"),
    "dtype not text": (entry("[]"), 4, "dtype"),
    "shape larger than the data": (entry(shape="[2]"), 4, "data_offsets"),
    "shape smaller than the data": (entry(offsets="[0,8]"), 8, "data_offsets"),
    "shape negative": (entry(shape="[-1,-1]"), 4, "whole numbers"),
    "shape not whole": (entry(shape="[1.0]"), 4, "whole numbers"),
    "shape not a number": (entry(shape="[true]"), 4, "whole numbers"),
    "shape not a list": (entry(shape="1"), 4, "whole numbers"),
    "shape of nine dimensions": (entry(shape="[1,1,1,1,1,1,1,1,1]"), 4, "whole numbers"),
    "shape beyond any memory": (entry(shape=f"[0,{10**30}]", offsets="[0,0]"), 0, "allowed are"),
    "shape wrapping around to 4 bytes": (entry(shape=f"[{2**64 + 1}]"), 4, "allowed are"),
    "overlap": (entry() + entry(name="x"), 4, "tensor x has data_offsets"),
    "hole at the beginning": (entry(offsets="[4,8]"), 8, "data_offsets"),
    "hole between": (entry() + entry(offsets="[8,12]", name="x"), 12, "tensor x has data_offsets"),
    "offsets beyond the end": (entry(offsets="[400,404]"), 4, "data_offsets"),
    "offsets reversed": (entry(offsets="[4,0]"), 4, "data_offsets"),
    "offsets of three numbers": (entry(offsets="[0,4,4]"), 4, "data_offsets"),
    "offsets of one number": (entry(offsets="[0]"), 4, "data_offsets"),
    "offsets negative": (entry(offsets="[-4,0]"), 4, "whole numbers"),
    "unaligned": (entry('"U8"', offsets="[0,1]") + entry(offsets="[1,5]", name="x"), 5, "multiple of 4"),
    "bytes after the last tensor": (entry(), 5, "1 bytes after the last tensor"),
    "bytes missing": (entry(), 3, "ends early"),
    "entry missing": (',"w":{"dtype":"F32","shape":[1]}', 4, "must have dtype, shape and data_offsets"),
    "entry with more": (entry()[:-1] + ',"more":1}', 4, "must have dtype, shape and data_offsets"),
    "entry not an object": (',"w":7', 4, "must have dtype, shape and data_offsets"),
    "duplicate tensor": (entry() + entry(), 4, "duplicate keys"),
    "duplicate metadata": (entry() + ',"__metadata__":{}', 4, "its metadata must be"),
    "metadata replaced by a list": (entry() + ',"__metadata__":[]', 4, "its metadata must be"),
    "duplicate key in an entry": (entry()[:-1] + ',"shape":[1]}', 4, "duplicate keys"),
    "spaces": (entry(shape="[ 1 ]"), 4, "duplicate keys"),
    "name with an escape": (entry(name="\\u0077"), 4, "duplicate keys"),
    "name empty": (entry(name=""), 4, "has a tensor ''"),
    "name as path": (entry(name="../../etc/passwd"), 4, "has a tensor '../../etc/passwd'"),
    "name as absolute path": (entry(name="/tmp/w"), 4, "has a tensor '/tmp/w'"),
    "name as parent": (entry(name=".."), 4, "has a tensor '..'"),
    "name with two dots": (entry(name="w..x"), 4, "has a tensor 'w..x'"),
    "name ending in a dot": (entry(name="w."), 4, "has a tensor 'w.'"),
    "name hidden": (entry(name=".w"), 4, "has a tensor '.w'"),
    "name with a line end": (entry(name="w\\n"), 4, "has a tensor 'w\\n'"),
    "name with a terminal code": (entry(name="\\u001b[2J"), 4, "has a tensor '\\x1b[2J'"),
}  # fmt: skip


@pytest.mark.parametrize("case", STRUCTURES)
def test_a_structure_that_does_not_fit_is_refused(path, case):
    entries, n_bytes, message = STRUCTURES[case]
    error = refusal(path, crafted(entries, bytes(n_bytes)))
    assert type(error) is ModelFormatError
    assert message in str(error)


def test_the_structure_that_those_cases_vary_is_accepted(path):
    path.write_bytes(crafted(entry(), bytes(4)))
    assert_same(read_container(path)[1], {"w": np.zeros(1, np.float32)})


HEADERS = {
    "not JSON": "{",
    "a list": "[]",
    "unsorted": '{"b":1,"a":1}',
    "spaces": '{"a": 1}',
    "duplicate key": '{"a":1,"a":1}',
    "nan": '{"a":NaN}',
    "infinity": '{"a":Infinity}',
    "overflow": '{"a":1e400}',
    "number of 5000 digits": '{"a":%s}' % ("1" * 5000),
    "too deep": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "not text": 7,
    "null": None,
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_is_not_canonical_is_refused(path, case):
    assert type(refusal(path, crafted(header=HEADERS[case]))) is ModelFormatError


def test_a_header_nested_too_deeply_outside_of_its_text_is_refused(path):
    refusal(path, crafted(',"w":' + "[" * 100_000 + "]" * 100_000))


METADATA = {
    "without sha256": '"header":"{}"',
    "with more": '"header":"{}","sha256":"%s","more":""',
    "with a number as digest": '"header":"{}","sha256":7',
    "in another order": '"sha256":"%s","header":"{}"',
    "with a duplicate": '"header":"","header":"{}","sha256":"%s"',
}


@pytest.mark.parametrize("case", METADATA)
def test_other_metadata_are_refused(path, case):
    metadata = METADATA[case].replace("%s", NO_DIGEST)
    raw = sealed(framed(f'{{"__metadata__":{{"format":"rafm","format_version":"1",{metadata}}}}}'))
    assert type(refusal(path, raw)) is ModelFormatError


@pytest.mark.parametrize("digest", [NO_DIGEST, "", "{}", "\\ud800", "\\u001b[2J"])
def test_a_file_without_a_correct_digest_is_an_integrity_error(path, digest):
    error = refusal(path, framed(HEAD % ("1", '"{}"', digest, "")))
    assert type(error) is ModelIntegrityError
    assert str(error).isprintable()


def test_a_header_over_the_limit_is_refused_even_if_all_else_fits(path):
    error = refusal(path, crafted(header='{"a":"' + "x" * MAX_HEADER_BYTES + '"}'))
    assert type(error) is ModelFormatError
    assert "allowed are 16777216" in str(error)


BOMBS = {
    "300,000 tensors in 19 MB": lambda i: f',"tensor{i:06}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
    "tensors in 16 MB": lambda i: f',"{i:06x}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
    "empty entries": lambda i: f',"{i:x}":{{}}',
    "names with backslashes": lambda i: f',"{i:x}\\\\":0',
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_header_bomb_is_refused_at_once_and_without_memory(path, case):
    limit = None if "19 MB" in case else MAX_HEADER_BYTES - 1000
    entries = "".join(map(BOMBS[case], range(300_000)))[:limit]
    raw = framed(HEAD % ("1", '"{}"', NO_DIGEST, entries))
    assert min(seconds_to_refuse(path, raw) for _ in range(3)) < min(seconds_to_walk(raw) for _ in range(3))
    tracemalloc.start()
    assert type(refusal(path, raw)) is ModelFormatError
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(raw) + 2**20


def seconds_to_walk(raw):
    """Return how long it takes to look at every tenth byte, one by one: less than to parse them."""
    start = time.perf_counter()
    assert sum(1 for byte in raw[::10] if byte) > 0
    return time.perf_counter() - start


def seconds_to_refuse(path, raw):
    path.write_bytes(raw)
    begin = time.perf_counter()
    with pytest.raises(ModelFormatError):
        read_container(path)
    return time.perf_counter() - begin


def test_a_length_beyond_the_file_allocates_nothing(path, good):
    for length in (len(good), MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1, 2**63, 2**64 - 1):
        error = refusal(path, length.to_bytes(8, "little") + good[8:])
        assert type(error) is ModelFormatError


# Versions


@pytest.mark.parametrize("version", [2, 3, 17, 999_999_999])
def test_a_newer_format_version_names_the_rafm_that_it_needs(path, version):
    error = refusal(path, crafted(version=str(version)))
    assert type(error) is ModelVersionError
    assert f"has format version {version}" in str(error)
    assert f"needs rafm >= {version}.0" in str(error)


def test_a_newer_format_version_may_change_everything_after_its_number(path):
    raw = framed('{"__metadata__":{"format":"rafm","format_version":"2","else":') + b"?"
    assert type(refusal(path, raw)) is ModelVersionError


@pytest.mark.parametrize("version", ["", "0", "01", "-1", "1.0", "one", " 1", "²", "9" * 5000])
def test_a_format_version_that_is_no_number_is_refused(path, version):
    assert type(refusal(path, crafted(version=version))) is ModelFormatError


# Files of other kinds


class Bomb:
    """Create a file when unpickled."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return open, (self.victim, "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_not_run(path, protocol):
    victim = path.parent / "victim"
    raw = pickle.dumps(Bomb(str(victim)), protocol)
    error = refusal(path, raw)
    assert type(error) is ModelFormatError
    assert protocol < 2 or "looks like a pickle" in str(error)
    assert not victim.exists()
    pickle.loads(raw).close()
    assert victim.exists(), "the pickle would have done nothing anyway"


def zipped():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return buffer.getvalue()


def saved_by_numpy():
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    return buffer.getvalue()


OTHER_FILES = {
    "is empty": b"",
    "looks like text": b"1 3:1 17:0.5\n0 4:1\n",
    "looks like a zip archive": zipped(),
    "looks like a NumPy array": saved_by_numpy(),
    "looks like a gzip file": b"\x1f\x8b\x08\x00" + bytes(100),
    "looks like a Parquet file": b"PAR1" + bytes(100),
    "looks like an Arrow file": b"ARROW1\x00\x00" + bytes(100),
    "looks like a safetensors file of another program": framed('{"w":{}}'),
    "begins with the bytes 7f 45 4c 46": b"\x7fELF" + bytes(100),
}


@pytest.mark.parametrize("look", OTHER_FILES)
def test_a_file_of_another_kind_is_refused_with_what_it_looks_like(path, look):
    error = refusal(path, OTHER_FILES[look])
    assert type(error) is ModelFormatError
    assert f"is not a rafm model: it {look}" in str(error)


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "m.rafm").mkdir()
    with pytest.raises(ModelFormatError, match=r"^m\.rafm: is a folder"):
        read_container(tmp_path / "m.rafm")


def test_a_pipe_is_refused_instead_of_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "m.rafm")
    with pytest.raises(ModelFormatError, match=r"^m\.rafm: is a pipe"):
        read_container(tmp_path / "m.rafm")


def test_a_missing_file_is_an_ordinary_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_container(tmp_path / "m.rafm")


# Nothing is ever executed

FORBIDDEN_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "copyreg"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {"np.load", "numpy.load", "torch.load", "pd.read_pickle", "pandas.read_pickle"}


def ways_to_run_code(source):
    """Yield the imports and calls of a source file through which data could become code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from FORBIDDEN_MODULES & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from FORBIDDEN_ATTRIBUTES & paths
            yield from FORBIDDEN_MODULES & {
                str(node.module).split(".")[0],
                *(p.split(".")[-1] for p in paths),
            }
        elif isinstance(node, ast.Name):
            yield from FORBIDDEN_CALLS & {node.id}
        elif isinstance(node, ast.Attribute):
            yield from FORBIDDEN_ATTRIBUTES & {ast.unparse(node)}
        elif isinstance(node, ast.keyword):
            yield from {"allow_pickle"} & {node.arg}


def test_no_file_of_the_package_can_turn_data_into_code():
    found = {
        path.name: ways
        for path in Path(rafm.__file__).parent.rglob("*.py")
        if (ways := list(ways_to_run_code(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal as m",
        "from joblib import load",
        "from sklearn.externals import joblib",
        "def f():\n    from dill import loads",
        "eval('1')",
        "run = exec",
        "import numpy as np\nnp.load('x')",
        "from numpy import load",
        "f(x, allow_pickle=True)",
    ],
)
def test_the_search_for_ways_to_run_code_finds_them(source):
    assert list(ways_to_run_code(source))


# Kills

KILL_WHILE_SAVING = """
import itertools, os, random, signal, sys, time
import numpy as np
from rafm.files.container import read_container, write_container

path, n_kills = sys.argv[1], int(sys.argv[2])
folder, name = os.path.split(path)
models = [({"model": k}, {"factors": np.full(50_000, k, np.float32)}) for k in (1, 2)]
random.seed(0)

def save_for_ever():
    try:
        for header, tensors in itertools.cycle(random.choice([models, models[::-1]])):
            write_container(path, tensors, header)
    finally:
        os._exit(1)

seen, n_cut = set(), 0
write_container(path, models[0][1], models[0][0])
for _ in range(n_kills):
    child = os.fork()
    if child == 0:
        save_for_ever()
    time.sleep(random.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    header, tensors = read_container(path)
    assert np.unique(tensors["factors"]) == [header["model"]]
    seen.add(header["model"])
    for rest in set(os.listdir(folder)) - {name}:
        n_cut += 1
        os.unlink(os.path.join(folder, rest))
print(len(seen), n_cut)
"""


@pytest.mark.slow
def test_kills_while_saving_leave_one_whole_model(path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILL_WHILE_SAVING, str(path), "200"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    n_seen, n_cut = map(int, run.stdout.split())
    assert n_seen == 2
    assert n_cut >= 20, "too few kills came in the middle of a save to prove anything"
