"""Settings of a server: the flags of `rafm serve`, which the supervisor hands to its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Settings of a server."""

    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file (.rafm), or folder of parts.")]
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8000
    workers: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 1
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with the bearer token that requests must send.")
    ] = None
    items: Annotated[str | None, typer.Option(metavar="FILE", help="Items that /recommend chooses from.")] = None
    max_rows: Annotated[int, typer.Option(min=1, help="Maximum number of rows in a request.")] = 10_000
    max_body_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a request.")] = 8 * MEGABYTE
    max_connections: Annotated[int, typer.Option(min=1, help="Maximum number of connections to a worker.")] = 1000
    timeout_seconds: Annotated[float, typer.Option(min=0.1, help="Time for a request, from its first byte.")] = 10.0
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="On SIGTERM, keep answering for this long while the readiness probe fails.")
    ] = 2.0
    reload_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds between checks for a replaced model file; 0: only on SIGHUP.")
    ] = 1.0
    allow_change: Annotated[
        bool, typer.Option("--allow-change", help="Also load a replaced file of other columns, task or classes.")
    ] = False

    @property
    def name(self) -> str:
        """Name of the model in addresses: that of its file."""
        return Path(self.model).stem.encode("utf-8", "replace").decode()
