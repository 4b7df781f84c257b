"""Whatever happens while a file is written, the old content or the new one is there, and nothing else."""

import errno
import io
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from rafm.files import atomic as files
from rafm.files.atomic import check_writable, write_atomically

OLD, NEW = b"old content", [b"new ", memoryview(b"content"), b"", b"!" * 100_000]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m.rafm"
    path.write_bytes(OLD)
    return path


def assert_untouched(path):
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == [path.name]


def run_python(script, *args, prefix=()):
    """Run a script in a fresh interpreter that finds the same packages; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*prefix, sys.executable, "-c", script, *map(str, args)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


# What is written


def test_all_chunks_are_written_in_order_and_counted(path):
    assert write_atomically(path, iter(NEW)) == sum(map(len, NEW))
    assert path.read_bytes() == b"".join(NEW)
    assert os.listdir(path.parent) == ["m.rafm"]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be asked to")
@pytest.mark.parametrize("answer", [None, OSError(errno.EINVAL, "no advice here")])
def test_bytes_go_to_the_disk_while_more_are_made(path, monkeypatch, answer):
    begun = []

    def advise(descriptor, begin, size, advice):
        begun.append((begin, size))
        if answer:
            raise answer

    monkeypatch.setattr(files, "BEGUN_BYTES", 4)
    monkeypatch.setattr(os, "posix_fadvise", advise)
    assert write_atomically(path, [b"ab", b"cd", b"efghi", b"j"]) == 10
    assert path.read_bytes() == b"abcdefghij"
    assert begun == [(0, 4), (4, 5)]


def test_a_file_that_did_not_exist_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_the_permissions_of_an_old_file_are_kept(path):
    path.chmod(0o604)
    write_atomically(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_path_without_a_folder_means_the_current_one(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    write_atomically("m.rafm", [b"new"])
    assert path.read_bytes() == b"new"


def test_the_longest_name_that_a_file_can_have_works(tmp_path):
    path = tmp_path / ("ü" * 127)
    write_atomically(path, [b"new"])
    assert path.read_bytes() == b"new"


def test_a_symbolic_link_stays_and_its_target_in_another_folder_is_replaced(path, tmp_path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "latest.rafm"
    link.symlink_to("../m.rafm")
    write_atomically(link, [b"new"])
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert os.listdir(link.parent) == ["latest.rafm"]


def test_a_dangling_link_creates_its_target(tmp_path):
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_link_to_itself_is_refused_and_kept(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        write_atomically(tmp_path / "loop", NEW)
    assert os.listdir(tmp_path) == ["loop"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, NEW)
    reader.join(timeout=10)
    assert received == [b"".join(NEW)]
    assert pipe.is_fifo()


def test_a_folder_is_refused_and_kept(tmp_path):
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, NEW)
    assert os.listdir(tmp_path) == []


# What happens when it fails


class FailingDisk(io.FileIO):
    """A file whose n-th write fails, after half of the bytes of the one before."""

    def __init__(self, path, mode, n, code):
        super().__init__(path, mode)
        self.n, self.code = n, code

    def write(self, chunk):
        self.n -= 1
        if self.n == 0:
            raise OSError(self.code, os.strerror(self.code))
        return super().write(chunk[: max(1, len(chunk) // 2)] if self.n == 1 else chunk)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
def test_an_error_at_any_write_leaves_the_old_file_alone(path, monkeypatch, n, code):
    def open_failing(temp, mode):
        return io.BufferedWriter(FailingDisk(temp, mode, n, code), buffer_size=64)

    monkeypatch.setattr(files, "open", open_failing, raising=False)
    with pytest.raises(OSError, match=r"m\.rafm") as caught:
        write_atomically(path, [b"x" * 100] * 10)
    assert caught.value.errno == code
    assert caught.value.filename == str(path)
    assert_untouched(path)


@pytest.mark.parametrize("function", ["chmod", "fsync", "replace"])
def test_an_error_of_any_step_before_the_rename_leaves_the_old_file_alone(path, monkeypatch, function):
    def fail(*args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match=r"m\.rafm"):
        write_atomically(path, NEW)
    assert_untouched(path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_an_interruption_between_chunks_leaves_the_old_file_alone(path, error):
    def chunks():
        yield b"x" * 100_000
        raise error

    with pytest.raises(error):
        write_atomically(path, chunks())
    assert_untouched(path)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_an_interruption_right_after_a_step_leaves_no_hidden_file(path, monkeypatch, function):
    step = getattr(os, function)

    def interrupted(*args):
        step(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, function, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, NEW)
    assert os.listdir(path.parent) == ["m.rafm"]
    assert path.read_bytes() in (OLD, b"".join(NEW))


def test_a_missing_folder_is_reported_with_the_name_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "missing" / "m.rafm", NEW)
    assert caught.value.filename == str(tmp_path / "missing" / "m.rafm")


def test_an_error_of_the_source_keeps_the_name_of_the_source(path, tmp_path):
    def chunks():
        yield (tmp_path / "source").read_bytes()

    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(path, chunks())
    assert caught.value.filename == str(tmp_path / "source")
    assert_untouched(path)


WRITE_TOO_MUCH = """
import errno, resource, sys
from rafm.files.atomic import write_atomically
if sys.argv[2] != "-":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_atomically(sys.argv[1], [bytes(100_000)] * 10)
except OSError as error:
    print(errno.errorcode[error.errno], error.filename)
"""


@pytest.mark.parametrize("limit", [0, 1, 99_999, 999_999])
def test_a_limit_on_file_sizes_leaves_the_old_file_alone(path, limit):
    assert run_python(WRITE_TOO_MUCH, path, limit).split() == ["EFBIG", str(path)]
    assert_untouched(path)


WITH_A_SMALL_DISK = """
mount -t tmpfs -o size=256k none "$0" && printf old > "$0/m.rafm" && "$@" && ls -A "$0" && cat "$0"/*
"""


def test_a_full_disk_leaves_the_old_file_alone(tmp_path):
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", WITH_A_SMALL_DISK, str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small tmpfs")
    path = tmp_path / "m.rafm"
    printed = run_python(WRITE_TOO_MUCH, path, "-", prefix=prefix)
    assert printed.split() == ["ENOSPC", str(path), "m.rafm", "old"]


# What survives a power cut


def record_steps(monkeypatch, steps):
    """Let the functions that reach the disk note what they do, in order."""
    fsync, replace = os.fsync, os.replace

    def noting_fsync(descriptor):
        status = os.fstat(descriptor)
        what = "folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes"
        steps.append((f"fsync {what}", status.st_ino))
        fsync(descriptor)

    def noting_replace(source, target):
        steps.append((f"rename to {os.path.basename(target)}", os.stat(source).st_ino))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "replace", noting_replace)


def test_all_bytes_are_synced_before_the_rename_and_the_folder_after_it(path, monkeypatch):
    steps = []
    record_steps(monkeypatch, steps)
    write_atomically(path, [b"x" * 1000, b"y" * 11])
    new, folder = path.stat().st_ino, path.parent.stat().st_ino
    assert steps == [("fsync 1011 bytes", new), ("rename to m.rafm", new), ("fsync folder", folder)]


def test_the_folder_that_is_synced_is_that_of_the_target_of_a_link(path, tmp_path, monkeypatch):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "latest").symlink_to("../m.rafm")
    steps = []
    record_steps(monkeypatch, steps)
    write_atomically(tmp_path / "links" / "latest", NEW)
    assert steps[-1] == ("fsync folder", path.parent.stat().st_ino)


@pytest.mark.parametrize(("code", "is_fatal"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_only_a_file_system_that_cannot_sync_folders_is_excused(path, monkeypatch, code, is_fatal):
    fsync = os.fsync

    def fail_on_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    if is_fatal:
        with pytest.raises(OSError, match=r"m\.rafm"):
            write_atomically(path, NEW)
    else:
        write_atomically(path, NEW)
    assert path.read_bytes() == b"".join(NEW)


@pytest.mark.parametrize("step", ["fsync", "remove"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_a_check_that_is_stopped_leaves_nothing_behind(path, monkeypatch, step, stop):
    def interrupted(*_):
        raise stop

    monkeypatch.setattr(os, step, interrupted)
    with pytest.raises(stop):
        check_writable(path)
    assert [*path.parent.iterdir()] == [path]


# What killed processes leave behind


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
def test_hidden_files_of_killed_processes_are_removed_by_the_next_one(path):
    """But not those of living ones, new ones, and files of others."""
    names = {
        "dead": ".m.rafm.0123456789abcdef.tmp",
        "alive": ".m.rafm.0123456789abcde0.tmp",
        "new": ".m.rafm.0123456789abcde1.tmp",
        "another's": ".n.rafm.0123456789abcdef.tmp",
        "the user's": ".m.rafm.mine.tmp",
    }
    for name in names.values():
        (path.parent / name).write_bytes(b"torn")
        os.utime(path.parent / name, (0, 0))
    os.utime(path.parent / names["new"])
    with open(path.parent / names["alive"], "rb") as file:
        fcntl = pytest.importorskip("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(path, NEW)
    left = {kind for kind, name in names.items() if (path.parent / name).exists()}
    assert left == set(names) - {"dead"}


def test_a_file_that_is_being_written_is_locked(path):
    def chunks():
        [hidden] = path.parent.glob(".m.rafm.*.tmp")
        with open(hidden, "rb") as file:
            yield repr(files.take_lock(file.fileno())).encode()

    write_atomically(path, chunks())
    assert path.read_bytes() == (b"True" if sys.platform == "win32" else b"False")
