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

from ..errors import ConfigError, DataValueError
from ..files.atomic import write_atomically
from .catalog import Download, Entry
from .prepared import digest, record_sums

CHUNK = 1 << 20
TIMEOUT = 60.0


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but to no address that anybody on the way could answer for."""

    def redirect_request(self, *request: Any) -> Any:
        check_address(request[-1])
        return super().redirect_request(*request)


def check_address(url: str) -> None:
    """Refuse whatever is not https.

    >>> check_address("http://example.org/set.zip")
    Traceback (most recent call last):
    rafm.errors.DataValueError: http://example.org/set.zip: only https addresses are fetched
    """
    if not url.startswith("https://"):
        raise DataValueError(f"{url}: only https addresses are fetched")


def download(source: Download, folder: Path, tell: Callable[[str], None], unverified: bool = False) -> Path:
    """Fetch a file into a folder, whole or not at all, and check it.

    A file whose SHA-256 is not known is taken only if unverified is True; tell is then told the one that was seen.
    """
    path = folder / source.file
    check_address(source.url)
    if source.sha256 is None and not unverified:
        raise ConfigError(
            f"{source.url}: its SHA-256 is not known here, so a changed file would go unnoticed; fetch it yourself and "
            "give it by --raw, or take it as it comes by --unverified",
            key="unverified",
        )
    try:
        with urllib.request.build_opener(_HttpsOnly).open(source.url, timeout=TIMEOUT) as answer:
            write_atomically(path, _whole_answer(answer))
    except (urllib.error.URLError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise OSError(errno.EIO, f"could not be fetched: {reason}", source.url) from None
    for kind, expected in (("sha256", source.sha256), ("md5", source.md5)):
        found = digest(path, kind)
        if expected not in (None, found):
            path.unlink()
            raise DataValueError(f"{source.url}: its {kind} is {found}, but must be {expected}; try again later")
    if source.sha256 is None:
        tell(f"{source.url}: unverified, {path.stat().st_size} bytes with sha256:{digest(path)}; note it to compare")
    else:
        tell(f"{path}: sha256 as expected")
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


def raw_files(
    entry: Entry, folder: Path, given: Path | None, tell: Callable[[str], None], unverified: bool = False
) -> Path:
    """Return the folder of a data set's raw files, filled from the given path, by download, or already."""
    raw = folder / entry.name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    if given is not None:
        if not given.exists():
            raise FileNotFoundError(2, "no such file or folder", str(given))
        unpack(given, entry.members, raw)
    elif not any((raw / member).exists() for member in entry.members):
        _download_all(entry, folder, raw, tell, unverified)
    if not any((raw / member).exists() for member in entry.members):
        source = given or raw
        raise DataValueError(f"found none of {', '.join(entry.members)}", path=str(source))
    return raw


def _download_all(entry: Entry, folder: Path, raw: Path, tell: Callable[[str], None], unverified: bool) -> None:
    if not entry.downloads:
        raise DataValueError(
            f"{entry.name} cannot be fetched: accept its terms at {entry.page}, "
            f"then `rafm datasets get {entry.name} --raw FILE`"
        )
    for source in entry.downloads:
        path = download(source, raw, tell, unverified)
        record_sums(folder, [path])
        unpack(path, entry.members, raw)
