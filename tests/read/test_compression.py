"""Opening of text: gzip whole and broken, pipes, paths that do not work."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from reading import read_libsvm
from warm import run_script

from rafm.errors import DataFormatError
from rafm.read.compression import BLOCK_BYTES, open_bytes, unpack_text
from rafm.read.libsvm.reader import iterate_rows

TEXT = b"".join(b"1 %d:1 %d:0.%d\n" % (i, i + 7, i) for i in range(2000))
PACKS = {"plain": bytes, "gzip": gzip.compress, "zstd": lambda text: pa.compress(text, "zstd", asbytes=True)}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes bytes to a file and returns its path."""

    def run(data: bytes, name: str = "train.svm") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return run


def read_all(path: Path | str, n_bytes: int = 1000) -> bytes:
    """Read a source to its end, in pieces."""
    with open_bytes(path) as source:
        pieces = list(iter(lambda: source.read(n_bytes), b""))
    assert all(len(piece) == n_bytes for piece in pieces[:-1])
    return b"".join(pieces)


@pytest.mark.parametrize("n_bytes", [1, 4095, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES])
@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_pieces_of_any_size_make_up_the_text(write, pack, n_bytes):
    text = TEXT if n_bytes == 1 else TEXT * 60
    assert read_all(write(pack(text)), n_bytes) == text


def test_a_view_is_filled_as_far_as_the_text_goes(write):
    buffer = bytearray(b"....")
    with open_bytes(write(b"abcdef")) as source:
        assert source.read(1) == b"a"
        assert (source.readinto(memoryview(buffer)[1:]), bytes(buffer)) == (3, b".bcd")
        assert (source.readinto(memoryview(buffer)), bytes(buffer)) == (2, b"efcd")
        assert source.readinto(memoryview(buffer)) == 0


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_a_mark_at_the_start_is_skipped_also_in_compressed_text(write, pack, bom):  # case 3
    for text in (b"", b"1", b"1 5:1\n", TEXT):
        assert read_all(write(pack(bom + text))) == text


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_utf16_is_recognised_also_in_compressed_text(write, pack, codec):  # case 4
    with pytest.raises(DataFormatError, match="looks like UTF-16"):
        open_bytes(write(pack("1 5:1\n".encode(codec))))


@pytest.mark.parametrize("padding", [b"", b"\0" * 5, b"\0" * (2 * BLOCK_BYTES)], ids=len)
def test_gzip_members_follow_each_other_with_zeros_between_and_after(write, padding):  # cases 36 and 38
    packed = gzip.compress(TEXT) + padding + gzip.compress(b"0 5:1\n") + padding
    assert read_all(write(packed)) == TEXT + b"0 5:1\n"


def test_a_member_may_start_anywhere_in_the_blocks_that_are_read(write, monkeypatch):
    packed = gzip.compress(b"1 5:1\n") + b"\0\0" + gzip.compress(b"0 5:1\n") + b"\0"
    for size in range(1, len(packed) + 1):
        monkeypatch.setattr("rafm.read.compression.BLOCK_BYTES", size)
        expected = b"1 5:1\n0 5:1\n" if size > 1 else packed  # one byte is not enough to know gzip by
        assert read_all(write(packed)) == expected


@pytest.mark.parametrize("sixteenths", range(1, 16))
def test_truncated_gzip_is_an_error_that_counts_the_complete_lines(write, sixteenths):  # case 37
    packed = gzip.compress(TEXT)
    path = write(packed[: len(packed) * sixteenths // 16])
    with pytest.raises(DataFormatError, match="compressed data ends early") as caught:
        read_libsvm(path)
    with open_bytes(path) as source:
        n_lines = source.read(len(TEXT)).count(b"\n")
    assert f"after {n_lines} complete lines" in str(caught.value)
    assert caught.value.line == n_lines + 1
    assert str(caught.value).startswith(f"{path}:{n_lines + 1}: ")


def test_every_cut_of_a_small_gzip_is_an_error_or_empty(write):  # case 37
    packed = gzip.compress(b"1 5:1\n")
    for end in range(1, len(packed)):
        with pytest.raises(DataFormatError):
            read_libsvm(write(packed[:end]))
    assert read_libsvm(write(packed)).labels.tolist() == [1]


@pytest.mark.parametrize("garbage", [b"x", b"\0\0x", b"\x1f", b"1 5:1\n", b"\x1f\x8bx"])
def test_garbage_after_gzip_is_an_error(write, garbage):  # case 38
    with pytest.raises(DataFormatError, match=r"broken gzip data .* after 2000 complete lines|ends early"):
        read_libsvm(write(gzip.compress(TEXT) + garbage))


def test_a_flipped_bit_in_gzip_never_gives_other_rows(write):
    packed, expected = gzip.compress(TEXT, mtime=0), read_libsvm(write(TEXT))
    for at in range(10, len(packed), 97):
        damaged = bytearray(packed)
        damaged[at] ^= 4
        with pytest.raises(DataFormatError):
            read_libsvm(write(bytes(damaged)))
    assert (read_libsvm(write(packed)).values == expected.values).all()


def test_zstd_frames_follow_each_other_and_some_are_skipped(write):  # case 36
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    packed = skipped + PACKS["zstd"](TEXT) + skipped + PACKS["zstd"](b"0 5:1\n") + skipped
    assert read_all(write(packed)) == TEXT + b"0 5:1\n"


@pytest.mark.parametrize("sixteenths", range(1, 16))
def test_truncated_zstd_is_an_error_that_counts_the_complete_lines(write, sixteenths):  # case 37
    ids = np.random.default_rng(0).integers(0, 10**9, 60_000)
    packed = PACKS["zstd"](b"".join(b"1 %d:1\n" % i for i in ids))
    n_rows, path = 0, write(packed[: len(packed) * sixteenths // 16])
    with pytest.raises(DataFormatError, match="compressed data ends early") as caught:  # noqa: PT012
        for rows in iterate_rows(path, chunk_bytes=1000):
            n_rows += rows.labels.size
    assert f"after {n_rows} complete lines" in str(caught.value)
    assert caught.value.line == n_rows + 1
    assert n_rows > 60_000 * sixteenths / 16 - 20_000  # a frame's blocks hold 128 KiB each


@pytest.mark.parametrize("garbage", [b"x", b"1 5:1\n", b"\x28\xb5\x2f\xfd", b"\0\0\0\0"])
def test_garbage_after_zstd_is_an_error(write, garbage):  # case 38; zeros too, other than for gzip
    with pytest.raises(DataFormatError, match=r"broken zstd data .* after [0-9]+ complete lines|ends early"):
        read_libsvm(write(PACKS["zstd"](TEXT) + garbage))


def test_a_flipped_bit_in_zstd_is_an_error_or_gives_text(write):
    packed = PACKS["zstd"](TEXT)
    for at in range(0, len(packed), 97):
        damaged = bytearray(packed)
        damaged[at] ^= 4
        try:
            read_all(write(bytes(damaged)))
        except DataFormatError:
            continue


@pytest.mark.parametrize("name", ["bzip2", "xz", "zip", "lz4"])
def test_other_ways_of_compressing_are_named(write, name):
    head = {"bzip2": b"BZh9", "xz": b"\xfd7zXZ\0", "zip": b"PK\3\4", "lz4": b"\4\x22\x4d\x18"}[name]
    with pytest.raises(
        DataFormatError, match=f"{name} is not supported; decompress the file, or compress it with gzip or zstd"
    ):
        open_bytes(write(head + b"....."))


@pytest.mark.parametrize(
    ("data", "name"),
    [(TEXT, "plain.gz"), (gzip.compress(TEXT), "packed.svm"), (PACKS["zstd"](TEXT), "packed.gz"), (TEXT, "plain.zst")],
    ids=["plain .gz", "gzip .svm", "zstd .gz", "plain .zst"],
)
def test_the_first_bytes_decide_what_is_compressed_not_the_name(write, data, name):  # case 40
    assert read_all(write(data, name)) == TEXT


def test_a_missing_path_and_a_directory_are_errors_of_the_system_in_one_line(tmp_path):  # case 41
    for path, kind in ((tmp_path / "missing", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind) as caught:
            open_bytes(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions")
def test_a_file_without_permission_is_an_error_of_the_system(write):  # case 41
    path, user = write(TEXT), os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match=r"train\.svm"):
            open_bytes(path)
    finally:
        os.seteuid(user)


class FailingStream(io.BytesIO):
    """A file on a disk that breaks after its first block."""

    def read1(self, n_bytes: int = -1) -> bytes:
        if self.tell() > 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(n_bytes)


def test_an_error_while_reading_names_the_file_and_comes_after_the_good_bytes():
    stream = FailingStream(TEXT)
    with unpack_text(stream, "train.svm") as source:
        assert source.read(10**6) == TEXT
        for _ in range(2):
            with pytest.raises(OSError, match=r"Input/output error: '.*train.svm'"):
                source.read(10**6)
    assert stream.closed


def test_an_error_of_the_system_inside_zstd_is_passed_on(monkeypatch):
    packed = PACKS["zstd"](np.random.default_rng(0).bytes(10**6))
    monkeypatch.setattr("rafm.read.compression.BLOCK_BYTES", 1000)
    with pytest.raises(OSError, match=r"Input/output error: '.*train.svm'"):
        unpack_text(FailingStream(packed), "train.svm").read(10**6)


def test_the_file_is_closed_when_its_start_is_refused():
    stream = io.BytesIO("1".encode("utf-16"))
    with pytest.raises(DataFormatError):
        unpack_text(stream, "train.svm")
    assert stream.closed


def read_pipe(data: bytes) -> subprocess.CompletedProcess:
    """Read "-" in a new process that is fed through a pipe; it prints the rows or the error."""
    script = "from reading import read_libsvm; print(read_libsvm('-').lines.tolist())"
    return run_script(script, stdin=data, text=False)


def test_the_standard_input_is_read_and_may_be_compressed():
    assert read_pipe(b"1 5:1\n\n0 6:1\n").stdout.split() == [b"[1,", b"3]"]
    assert read_pipe(gzip.compress(b"1 5:1\n")).stdout.split() == [b"[1]"]
    assert read_pipe(PACKS["zstd"](b"1 5:1\n")).stdout.split() == [b"[1]"]


def test_a_pipe_that_closes_inside_a_row_is_an_error_that_names_stdin():  # case 43
    process = read_pipe(b"1 5:1\n0 6:")
    assert process.returncode == 1
    assert process.stderr.strip().endswith(b'<stdin>:2:3: expected "id:value", found "6:"')


def test_the_standard_input_stays_open(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"1 5:1\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read_all("-") == b"1 5:1\n"
    assert not stdin.buffer.closed


def test_a_closed_standard_input_is_an_error_of_the_system(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(OSError, match="standard input is closed"):
        open_bytes("-")
