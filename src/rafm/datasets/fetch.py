"""Archives -> raw files: from an address, checked, or from where the user put them."""

from __future__ import annotations

import errno
import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import DataValueError
from ..files.atomic import write_atomically
from .catalog import Download, Entry
from .prepared import digest, record_sums

CHUNK = 1 << 20
TIMEOUT = 60.0


def download(source: Download, folder: Path, tell: Callable[[str], None]) -> Path:
    """Fetch a file into a folder, whole or not at all, and check it against what its publisher announces."""
    path = folder / source.file
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as answer:
            write_atomically(path, _whole_answer(answer))
    except (urllib.error.URLError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise OSError(errno.EIO, f"could not be fetched: {reason}", source.url) from None
    if source.checksum is None:
        tell(f"{path}: unverified, its publisher announces no checksum; seen sha256:{digest(path)}")
        return path
    kind, expected = source.checksum.split(":")
    found = digest(path, kind)
    if found != expected:
        path.unlink()
        raise DataValueError(f"{source.url}: {kind} is {found}, its publisher announces {expected}; try again later")
    tell(f"{path}: {kind} as announced")
    return path


def _whole_answer(answer: Any) -> Iterator[bytes]:
    """Yield the body of an answer; it must be as long as announced."""
    left = int(answer.headers.get("Content-Length") or -1)
    for chunk in _chunks(answer.read):
        left -= len(chunk) if left >= 0 else 0
        yield chunk
    if left > 0:
        raise http.client.IncompleteRead(b"", left)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(CHUNK):
        yield chunk


def unpack(path: Path, members: tuple[str, ...], folder: Path) -> list[Path]:
    """Take the named files out of an archive, or the file itself, into a folder; return where they are."""
    if path.is_dir():
        return [_copy(found, folder) for name in members for found in sorted(path.rglob(name))[:1]]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            wanted = {Path(info.filename).name: info for info in archive.infolist() if not info.is_dir()}
            return [_extract(archive.open(wanted[name]), folder / name) for name in members if name in wanted]
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            files = {Path(info.name).name: archive.extractfile(info) for info in archive if info.isfile()}
            return [_extract(files[name], folder / name) for name in members if name in files]
    return [_copy(path, folder)] if path.name in members else []


def _extract(file: Any, target: Path) -> Path:
    write_atomically(target, _chunks(file.read))
    return target


def _copy(path: Path, folder: Path) -> Path:
    target = folder / path.name
    if path.resolve() != target.resolve():
        shutil.copyfile(path, target)
    return target


def raw_files(entry: Entry, folder: Path, given: Path | None, tell: Callable[[str], None]) -> Path:
    """Return the folder of a data set's raw files, filled from the given path, by download, or already."""
    raw = folder / entry.name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    if given is not None:
        if not given.exists():
            raise FileNotFoundError(2, "no such file or folder", str(given))
        unpack(given, entry.members, raw)
    elif not any((raw / member).exists() for member in entry.members):
        _download_all(entry, folder, raw, tell)
    if not any((raw / member).exists() for member in entry.members):
        source = given or raw
        raise DataValueError(f"found none of {', '.join(entry.members)}", path=str(source))
    return raw


def _download_all(entry: Entry, folder: Path, raw: Path, tell: Callable[[str], None]) -> None:
    if not entry.downloads:
        raise DataValueError(
            f"{entry.name} cannot be fetched: accept its terms at {entry.page}, "
            f"then `rafm datasets get {entry.name} --raw FILE`"
        )
    for source in entry.downloads:
        path = download(source, raw, tell)
        record_sums(folder, [path])
        unpack(path, entry.members, raw)
