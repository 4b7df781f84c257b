"""`rafm serve`."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from ipaddress import ip_address

import typer

from ..errors import ConfigError
from ..serve.settings import Settings
from .groups import with_groups


@with_groups
def serve(settings: Settings) -> None:
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
    from ..serve.supervisor import Supervisor

    if settings.token_file is None and not _is_loopback(settings.host):
        print(f"warning: anyone who can reach {settings.host} can use the model; set --token-file", file=sys.stderr)
    code = Supervisor(settings, lambda text: print(text, flush=True)).run()
    if code:
        raise typer.Exit(code)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
