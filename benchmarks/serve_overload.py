"""What does a server do with twice the load that it can take? It refuses the excess at once, and the rest stays quick.

    python benchmarks/serve_overload.py [seconds]

Batches of 1000 rows, open loop, at half and at twice the rate that saturates the server. Refusals are 503 with
Retry-After. One-row requests run beside them at a low rate.
"""

from __future__ import annotations

import asyncio
import sys

from serving import Client, Server, folder_of_models, make_table, open_loop, post, saturation, serving


async def main(server: Server, seconds: float) -> None:
    """Print what became of the requests."""
    rows, client, other = make_table(1000, seed=2).to_pylist(), Client(server.port), Client(server.port)
    batch, one = post("/score", {"rows": rows}), post("/score", {"rows": rows[:1]})
    await saturation(client, batch, 1.0, 2)
    rate = await saturation(client, batch, 3.0, 2)
    for factor in (0.5, 2.0):
        many, few = await asyncio.gather(
            open_loop(client, batch, factor * rate, seconds), open_loop(other, one, 20, seconds)
        )
        print(f"batches at {factor:g} x {rate:.1f}/s: {many}")
        print(f"  one row at 20/s beside them: {few}")
    client.close(), other.close()


if __name__ == "__main__":
    with folder_of_models(0) as [path], serving(path) as running:
        asyncio.run(main(running, float(sys.argv[1]) if len(sys.argv) > 1 else 20.0))
