"""`rafm serve`."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Annotated

import typer

from ..errors import ConfigError
from .arguments import ModelPath


def serve(
    model: ModelPath,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 1,
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with the bearer token that requests must send.")
    ] = None,
    items: Annotated[str | None, typer.Option(metavar="FILE", help="Items that /recommend chooses from.")] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Maximum number of rows in a request.")] = 10_000,
    max_body_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a request.")] = 8 << 20,
    max_connections: Annotated[int, typer.Option(min=1, help="Maximum number of connections to a worker.")] = 1000,
    timeout_seconds: Annotated[float, typer.Option(min=0.1, help="Time for a request, from its first byte.")] = 10.0,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="On SIGTERM, keep answering for this long while the readiness probe fails.")
    ] = 2.0,
    reload_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds between checks for a replaced model file; 0: only on SIGHUP.")
    ] = 1.0,
    allow_change: Annotated[
        bool, typer.Option("--allow-change", help="Also load a replaced file of other columns, task or classes.")
    ] = False,
) -> None:
    """Serve a model over HTTP.

    Answers requests for scores, explanations and recommendations, and has a page to try them.

    POST /score takes raw rows, /v2 the Open Inference Protocol; /openapi.json describes both. A replaced model file is
    loaded while the old one serves, and refused if it is damaged or takes other requests.
    """
    if not hasattr(signal, "SIGHUP"):
        raise ConfigError(
            "rafm serve runs on Linux and macOS only, as it needs their signals and shared sockets; on Windows, run "
            "it in WSL or a container, or call rafm.Scorer in a server of your own"
        )
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "httptools")):
        raise ConfigError("rafm serve needs extra packages: pip install '.[serve]' in a checkout of rafm")
    from ..serve.settings import Settings
    from ..serve.supervisor import Supervisor

    settings = Settings(
        model=model,
        host=host,
        port=port,
        workers=workers,
        token_file=token_file,
        items=items,
        max_body_bytes=max_body_bytes,
        max_rows=max_rows,
        max_connections=max_connections,
        timeout_seconds=timeout_seconds,
        drain_seconds=drain_seconds,
        reload_seconds=reload_seconds,
        allow_change=allow_change,
    )
    if token_file is None and not _is_loopback(host):
        print(f"warning: anyone who can reach {host} can use the model; set --token-file", file=sys.stderr)
    code = Supervisor(settings, lambda text: print(text, flush=True)).run()
    if code:
        raise typer.Exit(code)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
