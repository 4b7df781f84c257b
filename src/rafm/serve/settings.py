"""Settings of a server, as the supervisor hands them to its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Settings of a server; see `rafm serve --help`."""

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token_file: str | None = None
    items: str | None = None
    max_body_bytes: int = 8 * MEGABYTE
    max_rows: int = 10_000
    max_connections: int = 1000  # of a worker
    timeout_seconds: float = 10.0
    drain_seconds: float = 2.0
    reload_seconds: float = 1.0
    allow_change: bool = False  # to a model of other columns, task or classes

    @property
    def name(self) -> str:
        """Name of the model in addresses: that of its file."""
        return Path(self.model).stem.encode("utf-8", "replace").decode()
