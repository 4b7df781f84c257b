"""Whatever else a file may hold is refused, with its name and the reason: damage, deceit, other versions and kinds."""

import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from containers import HEAD, NO_DIGEST, assert_same, crafted, framed, refusal, sealed
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from work import count_bytecodes

from rafm.errors import ModelFormatError, ModelIntegrityError, ModelVersionError
from rafm.files.container import MAX_HEADER_BYTES, read_container

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


@examples(2)
@given(st.data())
def test_any_flipped_bit_of_the_data_is_an_integrity_error(scratch, good, data):
    begin = 8 + int.from_bytes(good[:8], "little")
    bit = data.draw(st.integers(8 * begin, 8 * len(good) - 1))
    error = refusal(scratch, flipped(good, bit))
    assert type(error) is ModelIntegrityError
    assert "changed after it was written" in str(error)


@examples(2)
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
    "dtype too narrow": (entry('"F16"', offsets="[0,2]"), 2, "dtype 'F16'; allowed are"),
    "dtype not text": (entry("[]"), 4, "dtype"),
    "shape larger than the data": (entry(shape="[2]"), 4, "data_offsets"),
    "shape smaller than the data": (entry(offsets="[0,8]"), 8, "data_offsets"),
    "shape negative": (entry(shape="[-1,-1]"), 4, "integers >= 0"),
    "shape not whole": (entry(shape="[1.0]"), 4, "integers >= 0"),
    "shape not a number": (entry(shape="[true]"), 4, "integers >= 0"),
    "shape not a list": (entry(shape="1"), 4, "integers >= 0"),
    "shape of nine dimensions": (entry(shape="[1,1,1,1,1,1,1,1,1]"), 4, "integers >= 0"),
    "shape beyond any memory": (entry(shape=f"[0,{10**30}]", offsets="[0,0]"), 0, "are allowed"),
    "shape wrapping around to 4 bytes": (entry(shape=f"[{2**64 + 1}]"), 4, "are allowed"),
    "overlap": (entry() + entry(name="x"), 4, "tensor x has data_offsets"),
    "hole at the beginning": (entry(offsets="[4,8]"), 8, "data_offsets"),
    "hole between": (entry() + entry(offsets="[8,12]", name="x"), 12, "tensor x has data_offsets"),
    "offsets beyond the end": (entry(offsets="[400,404]"), 4, "data_offsets"),
    "offsets reversed": (entry(offsets="[4,0]"), 4, "data_offsets"),
    "offsets of three numbers": (entry(offsets="[0,4,4]"), 4, "data_offsets"),
    "offsets of one number": (entry(offsets="[0]"), 4, "data_offsets"),
    "offsets negative": (entry(offsets="[-4,0]"), 4, "integers >= 0"),
    "unaligned": (entry('"U8"', offsets="[0,1]") + entry(offsets="[1,5]", name="x"), 5, "multiple of 4"),
    "bytes after the last tensor": (entry(), 5, "1 bytes after the last tensor"),
    "bytes missing": (entry(), 3, "is truncated"),
    "entry missing": (',"w":{"dtype":"F32","shape":[1]}', 4, "must have dtype, shape and data_offsets"),
    "entry with more": (entry()[:-1] + ',"more":1}', 4, "must have dtype, shape and data_offsets"),
    "entry not an object": (',"w":7', 4, "must have dtype, shape and data_offsets"),
    "duplicate tensor": (entry() + entry(), 4, "duplicate keys"),
    "duplicate metadata": (entry() + ',"__metadata__":{}', 4, "its metadata must have"),
    "metadata replaced by a list": (entry() + ',"__metadata__":[]', 4, "its metadata must have"),
    "duplicate key in an entry": (entry()[:-1] + ',"shape":[1]}', 4, "duplicate keys"),
    "spaces": (entry(shape="[ 1 ]"), 4, "duplicate keys"),
    "name with an escape": (entry(name="\\u0077"), 4, "duplicate keys"),
    "name empty": (entry(name=""), 4, "invalid tensor name ''"),
    "name as path": (entry(name="../../etc/passwd"), 4, "invalid tensor name '../../etc/passwd'"),
    "name as absolute path": (entry(name="/tmp/w"), 4, "invalid tensor name '/tmp/w'"),
    "name as parent": (entry(name=".."), 4, "invalid tensor name '..'"),
    "name with two dots": (entry(name="w..x"), 4, "invalid tensor name 'w..x'"),
    "name ending in a dot": (entry(name="w."), 4, "invalid tensor name 'w.'"),
    "name hidden": (entry(name=".w"), 4, "invalid tensor name '.w'"),
    "name with a line end": (entry(name="w\\n"), 4, "invalid tensor name 'w\\n'"),
    "name with a terminal code": (entry(name="\\u001b[2J"), 4, "invalid tensor name '\\x1b[2J'"),
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
    assert "at most 16777216 are allowed" in str(error)


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
    path.write_bytes(raw)
    assert count_bytecodes(lambda: refuse(path)) < len(raw) / 1000
    tracemalloc.start()
    assert type(refusal(path, raw)) is ModelFormatError
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(raw) + 2**20


def refuse(path):
    with pytest.raises(ModelFormatError):
        read_container(path)


def test_a_length_beyond_the_file_allocates_nothing(path, good):
    for length in (len(good), MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1, 2**63, 2**64 - 1):
        error = refusal(path, length.to_bytes(8, "little") + good[8:])
        assert type(error) is ModelFormatError


# Versions


@pytest.mark.parametrize("version", [3, 17, 999_999_999])
def test_a_newer_format_version_names_the_rafm_that_it_needs(path, version):
    error = refusal(path, crafted(version=str(version)))
    assert type(error) is ModelVersionError
    assert f"has format version {version}" in str(error)
    assert f"needs rafm >= 0.{version}" in str(error)


def test_a_newer_format_version_may_change_everything_after_its_number(path):
    raw = framed('{"__metadata__":{"format":"rafm","format_version":"3","else":') + b"?"
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
    "begins with the bytes 7f 45 4c 47": b"\x7fELG" + bytes(100),
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
