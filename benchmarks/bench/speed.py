"""Time training and scoring of rafm and every installed peer, by shape, rank and number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .budget import Budget
from .child import call
from .contestants import THREADED
from .peers import PEERS
from .shapes import SHAPES
from .trainee import CALM, Scorer, Trainee

TIMED = ("elapsed", "cpu", "seconds", "scored")


def time_rafm(shape: str, n_rows: int, rank: int, threads: int) -> dict[str, Any]:
    """Time an epoch of a plain FM and, on one thread, scoring."""
    rows = SHAPES[shape](n_rows)
    trainee = Trainee(rows, "fm", (rank,), threads, CALM)
    trainee.check()
    trainee.settle()
    trainee.time()
    found: dict[str, Any] = trainee.seconds._asdict()
    found |= {"head_share": trainee.head_share, "record_bytes": trainee.record_bytes, "scored": None}
    if threads == 1:
        scorer = Scorer(rows, "fm", (rank,))
        scorer.time()
        found["scored"] = rows.labels.size / scorer.model_best
    return found


def run_speed(peers: Sequence[str], budget: Budget, tell: Callable[[str], Any]) -> dict[str, Any]:
    """Measure rafm and all peers; failures are reported in place of results."""
    shapes: dict[str, Any] = {}
    lines: list[dict[str, Any]] = []
    for shape, n_rows in budget.shape_rows:
        rows = SHAPES[shape](n_rows)
        shapes[shape] = {"rows": n_rows, "nonzeros": int(rows.indices.size), "features": rows.n_features}
        for rank in budget.ranks:
            tell(f"speed: {shape}, rank {rank}")
            given = {"shape": shape, "n_rows": n_rows, "rank": rank}
            small = [peer for peer in peers if peer in PEERS and rows.n_features * rank <= budget.peer_factors]
            # Do not wait for peers that were already far too slow at a smaller rank.
            small = [peer for peer in small if not is_hopeless(peer, shape, lines, budget)]
            for threads in (1, 2):
                lines += _turns([peer for peer in small if threads == 1 or peer in THREADED], given, threads, budget)
    for line in lines:
        if "failed" not in line:
            line["updates_per_second"] = shapes[line["shape"]]["nonzeros"] * line["rank"] / line["seconds"]
    return {"shapes": shapes, "lines": lines}


def is_hopeless(peer: str, shape: str, lines: Sequence[dict[str, Any]], budget: Budget) -> bool:
    """Return whether a peer failed on this shape at a smaller rank, or was far slower than rafm."""
    own = [line for line in lines if (line["who"], line["shape"], line["threads"]) == (peer, shape, 1)]
    ours = {
        line["rank"]: line.get("seconds", 0.0) for line in lines if line["who"] == "rafm" and line["shape"] == shape
    }
    return any("failed" in line or line["seconds"] > budget.slowest * ours[line["rank"]] for line in own)


def _turns(peers: Sequence[str], given: dict[str, Any], threads: int, budget: Budget) -> list[dict[str, Any]]:
    """Time rafm, every peer, and rafm again; rafm's result is the mean of both, so that drift favours nobody."""
    lines = [describe_line("rafm", given, threads, call("speed", "time_rafm", 600, threads, **given))]
    for peer in peers:
        found = call("peers", "time_peer", budget.peer_seconds, threads, peer=peer, epochs=budget.epochs, **given)
        lines.append(describe_line(peer, given, threads, found))
    if peers and "failed" not in lines[0]:
        again = describe_line("rafm", given, threads, call("speed", "time_rafm", 600, threads, **given))
        timed = [key for key in TIMED if lines[0].get(key) and again.get(key)]
        lines[0] |= {key: (lines[0][key] + again[key]) / 2 for key in timed}
    return lines


def describe_line(who: str, given: dict[str, Any], threads: int, found: dict[str, Any]) -> dict[str, Any]:
    """Describe a measurement; `seconds` are CPU seconds on one thread, elapsed seconds on several."""
    known = {"who": who, "shape": given["shape"], "rank": given["rank"], "threads": threads}
    if "failed" in found:
        return {**known, **found}
    seconds = found["cpu"] if threads == 1 else found["elapsed"]
    return {**known, **found, "seconds": seconds} if seconds > 0 else {**known, "failed": "too noisy to time"}
