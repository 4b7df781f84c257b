"""Format the results of the benchmarks as text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Lines = Iterator[str]


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Lines:
    """Align cells: the first column and that of settings to the left, all others to the right.

    >>> print(*table(["who", "s"], [["rafm", "0.5"], ["a", "12.0"]]), sep="\\n")
    who      s
    rafm   0.5
    a     12.0
    """
    widths = [max(map(len, column)) for column in zip(header, *lines)]
    for line in (header, *lines):
        cells = zip(header, line, widths)
        yield "  ".join(c.ljust(w) if name in (header[0], "settings") else c.rjust(w) for name, c, w in cells).rstrip()


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with this many significant digits, None as "-".

    >>> number(0.012345), number(1234.5), number(None)
    ('0.0123', '1,234', '-')
    """
    if value is None:
        return "-"
    is_large = abs(value) >= 10 ** (digits - 1)  # `g` would switch to an exponent
    return f"{value:,.0f}" if is_large else f"{value:.{digits}g}"


def settings_text(settings: dict[str, Any]) -> str:
    """Format settings as key=value.

    >>> settings_text({"model": "fm", "ranks": [2, 8]})
    'model=fm ranks=2,8'
    """
    parts = ((key, ",".join(map(str, v)) if isinstance(v, list) else v) for key, v in settings.items())
    return " ".join(f"{key}={value}" for key, value in parts)


def race_lines(found: dict[str, Any]) -> Lines:
    """Report when each contestant reached the target, and how long rafm took to each peer's best loss."""
    log = found["log"]
    yield (
        f"From text to loss: a generated click log of {log['training_rows']:,} + {log['validation_rows']:,} rows, "
        f"{log['features']:,} features, {log['megabytes']:.1f} MB of text."
    )
    yield (
        f"Target: validation log loss {found['target']:.5f}, the best of the weakest contestant (a constant: "
        f"{log['constant_loss']:.5f}, best possible: {log['best_possible_loss']:.5f}). "
        "One process per run: import, read, train, score."
    )
    header = ["who", "threads", "seconds", "CPU s", "loss", "epochs", "peak MB", "settings"]
    lines = []
    for line in found["lines"]:
        known = [line["contestant"], str(line["threads"])]
        if "failed" in line:
            lines.append([*known, "-", "-", "-", str(line["epochs"]), "-", line["failed"]])
            continue
        taken = [f"{line['elapsed']:.2f}", f"{line['cpu']:.2f}", f"{line['loss']:.5f}", str(line["epochs"])]
        lines.append([*known, *taken, f"{line['peak']:.0f}", settings_text(line["settings"])])
    yield from table(header, lines)
    yield ""
    yield "Each peer's best loss, and how long rafm took to it (one thread):"
    own = [
        [line["peer"], f"{line['loss']:.5f}", f"{line['elapsed']:.2f}", _seconds(line["rafm_elapsed"]), _ratio(line)]
        for line in found["own_best"]
    ]
    yield from table(["who", "its best loss", "its seconds", "rafm seconds", "times"], own)
    runs = found["runs"]
    best = min((point["loss"] for name in ("rafm", "rafm-ffm") for point in runs[name]), default=None)
    yield f"rafm's own best: {'none' if best is None else f'{best:.5f}'}"
    for name, why in found["failed"].items():  # its earlier runs still count
        yield f"{name}: its last run was {why}" if why.startswith("stopped") else f"{name}: {why}"


def _seconds(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.2f}"


def _ratio(line: dict[str, Any]) -> str:
    return "-" if line["rafm_elapsed"] is None else f"{line['elapsed'] / line['rafm_elapsed']:.2f}"


def speed_lines(found: dict[str, Any]) -> Lines:
    """Report factor updates and rows scored per second."""
    yield "Training a plain FM: million factor updates (nonzeros x rank) per second, of the CPU on one thread,"
    yield "elapsed on two; in brackets how many times as fast rafm is."
    yield "Scoring: thousand rows per CPU second, one thread."
    for shape, size in found["shapes"].items():
        own = [line for line in found["lines"] if line["shape"] == shape]
        names = list(dict.fromkeys((line["who"], line["threads"]) for line in own))
        ranks = list(dict.fromkeys(line["rank"] for line in own))
        cells = {(line["who"], line["threads"], line["rank"]): line for line in own}
        yield ""
        yield f"{shape}-shaped: {size['rows']:,} rows, {size['nonzeros']:,} nonzeros, {size['features']:,} features"
        trained = [[who, str(t), *(_rate(cells, who, t, rank) for rank in ranks)] for who, t in names]
        scored = [[who, "score", *(_scored(cells, who, rank) for rank in ranks)] for who, t in names if t == 1]
        yield from table(["who", "threads", *(f"rank {rank}" for rank in ranks)], trained + scored)
        for line in own:
            if "failed" in line:
                yield f"{line['who']}, rank {line['rank']}: {line['failed']}"


def _rate(cells: dict[Any, dict[str, Any]], who: str, threads: int, rank: int) -> str:
    line, ours = cells.get((who, threads, rank), {}), cells.get(("rafm", threads, rank), {})
    if "updates_per_second" not in line:
        return "-"
    ratio = "" if who == "rafm" else f" ({line['seconds'] / ours['seconds']:.1f}x)" if "seconds" in ours else ""
    return number(line["updates_per_second"] / 1e6) + ratio


def _scored(cells: dict[Any, dict[str, Any]], who: str, rank: int) -> str:
    line, ours = cells.get((who, 1, rank), {}), cells.get(("rafm", 1, rank), {})
    if not line.get("scored"):
        return "-"
    ratio = f" ({ours['scored'] / line['scored']:.1f}x)" if who != "rafm" and ours.get("scored") else ""
    return number(line["scored"] / 1e3) + ratio


def parse_lines(found: dict[str, Any]) -> Lines:
    """Report MB/s of text."""
    yield "Parsing libsvm text, MB per elapsed second (per CPU second):"
    lines = []
    for line in found["lines"]:
        speeds = [f"{line[who]['elapsed']:,.0f} ({line[who]['cpu']:,.0f})" for who in ("rafm", "sklearn", "split")]
        lines.append([line["rows"], *speeds, f"{line['rafm']['elapsed'] / line['sklearn']['elapsed']:.1f}"])
    yield from table(["rows", "rafm", "scikit-learn", "only splitting", "times scikit-learn"], lines)


def roofline_lines(found: dict[str, Any]) -> Lines:
    """Report the machine's limits, and the share of them that training reaches."""
    limits = found["limits"]
    yield (
        f"Limits of one core, measured: {limits['flops'] / 1e9:.1f} GFLOP/s of multiply-adds, "
        f"{limits['cache_bytes'] / 1e9:.1f} GB/s from the second cache ({limits['cache_size'] >> 10:,} kB), "
        f"{limits['memory_bytes'] / 1e9:.1f} GB/s from memory."
    )
    yield "A factor update: its work, the least time that allows, the CPU time it took, and the share reached:"
    lines = []
    for line in found["lines"]:
        work = [f"{line['flops']:.1f}", f"{line['accessed']:.1f}", f"{line['moved']:.1f}"]
        taken = [f"{1e9 * line['least_seconds']:.3f}", f"{1e9 * line['seconds']:.3f}", f"{line['share']:.0%}"]
        lines.append([line["shape"], str(line["rank"]), *work, line["binds"], *taken])
    yield from table(["rows", "rank", "flops", "bytes", "moved", "binds", "least ns", "ns", "share"], lines)


def growth_lines(found: dict[str, Any]) -> Lines:
    """Report fitted and theoretical slopes, and time against active factors."""
    yield "Time of an epoch against size, each alone: slope on log-log axes (rank: from 64 on)"
    axes = [
        [axis, f"{own['points'][0][0]:,} to {own['points'][-1][0]:,}", f"{own['slope']:.2f}", f"{own['theory']:.0f}"]
        for axis, own in found["axes"].items()
    ]
    yield from table(["axis", "sizes", "slope", "theory"], axes)
    yield ""
    yield "Rank sets of the paper, frappe-shaped rows, relative to FM 512:"
    sets = [
        [line["ranks"], f"{line['active_factors']:,.0f}", f"{line['of_top']:.3f}", f"{line['time_of_top']:.3f}"]
        for line in found["sets"]
    ]
    yield from table(["ranks", "active factors per row", "of FM 512", "time of FM 512"], sets)


def memory_lines(found: dict[str, Any]) -> Lines:
    """Report the memory of training."""
    yield "Memory of training an FM from a mapped Arrow file, MB (peak of anonymous memory; constant: a tiny model's):"
    header = ["rows", "file", "parameters", "accumulators", "constant", "peak", "(peak - constant) / kept"]
    lines = [
        [f"{line['rows']:,}", *(f"{line[key]:.1f}" for key in header[1:6]), f"{line['times_kept']:.2f}"]
        for line in found["lines"]
        if "times_kept" in line
    ]
    yield from table(header, lines)
    yield from (f"failed: {line['failed']}" for line in found["lines"] if "failed" in line)


WRITERS = {
    "race": race_lines,
    "speed": speed_lines,
    "roofline": roofline_lines,
    "parse": parse_lines,
    "growth": growth_lines,
    "memory": memory_lines,
}


def report_lines(result: dict[str, Any]) -> Lines:
    """Report all parts that were measured."""
    machine = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"benchmarks ({result['budget']}): {machine['cores']} cores, {machine['processor']}; {versions}"
    for part, write in WRITERS.items():
        if part in result["parts"]:
            found = result["parts"][part]
            yield ""
            if "failed" in found and len(found) == 1:  # a race also reports which contestants failed
                yield f"{part}: {found['failed']}"
            else:
                yield from write(found)
    yield f"\nThe whole took {result['seconds']:.0f} s."
