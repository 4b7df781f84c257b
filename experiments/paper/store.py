"""Store results of finished runs as JSON lines, so that no run is repeated."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def key_of(*facts: Any) -> str:
    """Return a hash of everything that a result depends on.

    >>> key_of({"l2": 0.1, "seed": 0}) == key_of({"seed": 0, "l2": 0.1})
    True
    """
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """An append-only file of results; a last line truncated by a kill is ignored."""

    def __init__(self, path: Path):
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            self.results[entry["key"]] = entry["result"]
        except (ValueError, KeyError, TypeError):
            return  # truncated; its run is repeated

    def __contains__(self, key: str) -> bool:
        return key in self.results

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self.results[key]

    def add(self, key: str, task: dict[str, Any], result: dict[str, Any]) -> None:
        """Append a result and sync it to the disk."""
        line = json.dumps({"key": key, "task": task, "result": result}).encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            if file.tell() and not self._ends_whole(file):
                line = b"\n" + line  # do not append to a truncated line
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.results[key] = json.loads(line)["result"]  # as a later run will read it: tuples become lists

    @staticmethod
    def _ends_whole(file: Any) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
