"""What is written comes back, and what would not is not written; kills leave a whole file."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from containers import HEADER, TENSORS, assert_same, crafted
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from rafm.errors import ModelFileError, ModelFormatError
from rafm.files.container import MAX_HEADER_BYTES, MAX_TENSORS, read_container, write_container

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


@examples(2)
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
    "float16": ({"w": np.zeros(2, np.float16)}, "w has dtype 'float16'; allowed are F64, I64, F32, I32, U8"),
    "bool": ({"w": np.zeros(2, bool)}, "w has dtype 'bool'"),
    "complex": ({"w": np.zeros(2, complex)}, "w has dtype 'complex128'"),
    "objects": ({"w": np.array([{}, None])}, "w has dtype 'object'"),
    "text": ({"w": np.array(["a", "b"])}, "w has dtype '<U1'"),
    "records": ({"w": np.zeros(2, [("a", "f4"), ("b", "f4")])}, "w has dtype "),
    "nine dimensions": ({"w": np.zeros((1,) * 9)}, "at most 8 integers"),
    "path as name": ({"../w": np.zeros(2)}, r"invalid tensor name '\.\./w'"),
    "reserved name": ({"__metadata__": np.zeros(2)}, "invalid tensor name '__metadata__'"),
    "too many": (
        {f"t{i}": np.zeros(0) for i in range(MAX_TENSORS + 1)},
        "lists 4097 tensors, but at most 4096 are allowed",
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
    "too large": ({"names": "x" * MAX_HEADER_BYTES}, "at most 16777216 are allowed"),
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
