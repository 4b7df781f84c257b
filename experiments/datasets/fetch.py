"""Get the raw files of a data set: by verified download, or from files of the user."""

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

from rafm.errors import ConfigError, DataValueError
from rafm.files.atomic import write_atomically

from .catalog import Download, Entry
from .prepared import digest, record_sums

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60.0  # without a byte, not for the whole download


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https addresses only."""

    def redirect_request(self, *request: Any) -> Any:
        check_address(request[-1])  # the new address is the last argument
        return super().redirect_request(*request)


def check_address(url: str) -> None:
    """Reject any address that is not https.

    >>> check_address("http://example.org/set.zip")
    Traceback (most recent call last):
    rafm.errors.DataValueError: http://example.org/set.zip: only https downloads are allowed
    """
    if not url.startswith("https://"):
        raise DataValueError(f"{url}: only https downloads are allowed")


def download(source: Download, folder: Path, report: Callable[[str], None], unverified: bool = False) -> Path:
    """Download a file atomically and verify it.

    unverified: accept a file without a known SHA-256, and report the one found.
    """
    path = folder / source.file
    check_address(source.url)
    if source.sha256 is None and not unverified:
        raise ConfigError(
            f"{source.url}: no SHA-256 is known, so the download cannot be verified; download it yourself and pass it "
            "with --raw, or accept it with --unverified",
            key="unverified",
        )
    try:
        with urllib.request.build_opener(_HttpsOnly).open(source.url, timeout=TIMEOUT_SECONDS) as answer:
            write_atomically(path, _whole_answer(answer))
    except (urllib.error.URLError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise OSError(errno.EIO, f"download failed: {reason}", source.url) from None
    for kind, expected in (("sha256", source.sha256), ("md5", source.md5)):
        found = digest(path, kind)
        if expected not in (None, found):
            path.unlink()  # or the next call would take it for raw files that are there already
            raise DataValueError(f"{source.url}: {kind} is {found}, expected {expected}; try again later")
    if source.sha256 is None:
        report(f"{source.url}: unverified, {path.stat().st_size} bytes, sha256:{digest(path)}; note it for comparison")
    else:
        report(f"{path}: sha256 verified")
    return path


def _whole_answer(answer: Any) -> Iterator[bytes]:
    """Yield the body of a response; raise if it is shorter than announced."""
    left = int(answer.headers.get("Content-Length") or -1)  # not checked by urllib when reading in pieces
    for chunk in _chunks(answer.read):
        left -= len(chunk) if left >= 0 else 0
        yield chunk
    if left > 0:
        raise http.client.IncompleteRead(b"", left)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(CHUNK_BYTES):
        yield chunk


def unpack(path: Path, members: tuple[str, ...], folder: Path) -> list[Path]:
    """Extract or copy the named files from an archive, a directory or a single file; return their paths."""
    if path.is_dir():
        return [_copy(found, folder) for name in members for found in sorted(path.rglob(name))[:1]]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            # By base name: directories in archives differ, and "../" in them must not matter.
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


def raw_files(
    entry: Entry, folder: Path, given: Path | None, report: Callable[[str], None], unverified: bool = False
) -> Path:
    """Return the directory of raw files, after copying them from the given path or downloading what is missing."""
    raw = folder / entry.name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    if given is not None:
        if not given.exists():
            raise FileNotFoundError(2, "no such file or directory", str(given))
        unpack(given, entry.members, raw)
    elif not any((raw / member).exists() for member in entry.members):
        _download_all(entry, folder, raw, report, unverified)
    if not any((raw / member).exists() for member in entry.members):
        source = given or raw
        raise DataValueError(f"found none of {', '.join(entry.members)}", path=str(source))
    return raw


def _download_all(entry: Entry, folder: Path, raw: Path, report: Callable[[str], None], unverified: bool) -> None:
    if not entry.downloads:
        raise DataValueError(
            f"{entry.name} cannot be downloaded automatically: accept its terms at {entry.page}, "
            f"then run `python -m experiments.datasets get {entry.name} --raw FILE`"
        )
    for source in entry.downloads:
        path = download(source, raw, report, unverified)
        record_sums(folder, [path])
        unpack(path, entry.members, raw)
