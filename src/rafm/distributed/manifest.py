"""Checkpoints of a cluster: one file per shard, and a manifest that is written last.

    FOLDER/manifest-0000000120.json      the newest checkpoint, at step 120; complete if it exists
    FOLDER/step-0000000120/shard-0.rafm  the features of shard 0

The folder must be on storage that all machines share. A checkpoint whose manifest is missing was never finished, and is
not used. Any number of shards can load a checkpoint.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..files.atomic import write_atomically
from ..train.checkpoint import check_same_run

KEPT = 2  # newest checkpoints to keep
KIND, VERSION = "rafm cluster checkpoint", 1
_MANIFEST, _FOLDER = re.compile(r"manifest-([0-9]{10,})\.json"), re.compile(r"step-([0-9]{10,})(-[0-9]+)?")


class Checkpoints:
    """The checkpoints in a folder."""

    def __init__(self, folder: str, identity: dict[str, Any]):
        self.folder, self.name, self.identity = Path(folder), folder, identity

    def place(self, step: int, life: int) -> Path:
        """Return a new folder for the files of a checkpoint."""
        place = self.folder / f"step-{step:010d}-{life}"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def finish(self, place: Path, step: int, shards: list[dict[str, Any]], values: dict[str, Any]) -> str:
        """Write the manifest, which completes the checkpoint; delete older ones. Return its path."""
        path = self.folder / f"manifest-{step:010d}.json"
        found = {"kind": KIND, "version": VERSION, "step": step, "folder": place.name, "shards": shards}
        text = json.dumps({**found, "identity": self.identity, **values}, allow_nan=False)
        write_atomically(path, [text.encode()])
        for _, old in self._newest()[KEPT:]:
            with suppress(OSError):
                old.unlink()
        used = {json.loads(one.read_text())["folder"] for _, one in self._newest()}
        for other in self.folder.iterdir():
            if _FOLDER.fullmatch(other.name) and other.name not in used:
                shutil.rmtree(other, ignore_errors=True)
        return str(path)

    def _newest(self) -> list[tuple[int, Path]]:
        """Return (step, path) of all manifests, newest first."""
        if not self.folder.is_dir():
            return []
        found = ((_MANIFEST.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)

    def complete(self) -> Iterator[dict[str, Any]]:
        """Yield the manifests of this run, newest first; refuse those of another run."""
        for _, path in self._newest():
            try:
                found = json.loads(path.read_text())
                is_ours = found["kind"] == KIND and found["version"] == VERSION
            except (ValueError, KeyError, TypeError):
                is_ours = False
            if not is_ours:
                raise CheckpointError(f"{path}: is not a manifest of this version. Use another directory.")
            check_same_run(self.name, found["identity"], json.loads(json.dumps(self.identity)))
            if all(self._is_whole(found, shard) for shard in found["shards"]):
                yield found

    def _is_whole(self, found: dict[str, Any], shard: dict[str, Any]) -> bool:
        path = self.folder / found["folder"] / shard["file"]
        return path.is_file() and path.stat().st_size == shard["bytes"]

    def paths(self, found: dict[str, Any]) -> list[str]:
        """Return the files of a checkpoint."""
        return [str(self.folder / found["folder"] / shard["file"]) for shard in found["shards"]]
