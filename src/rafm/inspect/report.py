"""Present an examination as JSON and as text."""

from __future__ import annotations

from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

import numpy as np

from ..files.terminal import counted, one_line
from ..plan.ranks import NearestRank, RankPlan, assign_levels, check_ranks, describe_levels
from .examine import Examination
from .findings import findings, percent, share_of_positive
from .sketch import Frequencies

BINS = (1, 3, 9, 33, 129, 513, 2049, 8193)  # lower ends of counts, as in Figure 1 of the paper
SHOWN_SHARE = 0.0005  # if the most frequent value is rarer than this, it is not shown


class Planning(NamedTuple):
    """A plan of ranks, and the size of its levels."""

    plan: RankPlan
    described: list[dict[str, float]]


def plan_for(found: Frequencies, ranks: tuple[int, ...], scale: float, n_rows: int) -> Planning:
    """Return the plan that training would make for these ranks."""
    levels = assign_levels(found.counts, check_ranks("rafm", ranks), NearestRank(scale))
    reach = [levels >= k for k in range(len(ranks) + 1)]
    plan = RankPlan("rafm", tuple(ranks), (*(int(found.features[at].sum()) for at in reach), 0))
    seen = [float((found.counts * found.features)[at].sum()) for at in reach]
    return Planning(plan, describe_levels(plan, seen, n_rows))


def histogram(found: Frequencies) -> list[tuple[str, int, float]]:
    """Return (name, number of features, share of nonzeros) for each range of counts."""
    lines, nonzeros = [], found.counts * found.features
    for low, high in zip(BINS, (*BINS[1:], None)):
        inside = (found.counts >= low) & (found.counts < (high or np.inf))
        name = f"{low}-{high - 1}" if high else f"{low}-"
        lines.append((name, int(found.features[inside].sum()), float(nonzeros[inside].sum() / max(nonzeros.sum(), 1))))
    return lines


def as_json(found: Examination) -> dict[str, Any]:
    """Return the examination for JSON."""
    frequencies, labels = found.frequencies(), found.labels
    return {
        "kind": "data",
        "format": found.format,
        "rows": found.rows,
        "nonzeros": found.nonzeros,
        "per_row": round(found.nonzeros / max(found.rows, 1), 2),
        "features": int(frequencies.features.sum()),
        "exact": _is_exact(found),
        **({} if found.largest_id is None else {"largest_id": found.largest_id}),
        "task": None if not found.is_labelled else "binary" if labels.is_binary else "regression",
        "label_mean": round(labels.mean, 6) if labels.weight else None,
        "label_range": [labels.low, labels.high] if labels.weight else None,
        "labels": labels.report() if found.is_labelled else None,
        "columns": [column.report(labels) for column in found.columns],
        "ignored": found.ignored,
        "duplicates": {"rows": found.repeated, "exact": found.distinct.is_exact},
        "bad_lines": {
            "count": found.bad.count,
            "complete": not found.gave_up,
            "first": [{"line": error.line, "message": str(error)} for error in found.bad.first()],
        },
        "faults": found.all_faults(),
        "findings": findings(found),
        "frequencies": [
            {"seen": name, "features": size, "share_of_nonzeros": share} for name, size, share in histogram(frequencies)
        ],
    }


def _is_exact(found: Examination) -> bool:
    return found.features.is_exact and all(column.values.is_exact for column in found.columns)


def as_lines(found: Examination) -> list[str]:
    """Return the examination as lines of text: facts, columns, bad lines, findings, frequencies."""
    frequencies = found.frequencies()
    lines = [f"{name:14} {text}" for name, text in _facts(found, int(frequencies.features.sum()))]
    if found.columns:
        lines += ["", *_column_lines(found)]
    if found.bad.count:
        lines += ["", *(str(error) for error in found.bad.first())]
        more = found.bad.count - len(found.bad.first())
        lines += [f"and {more:,} more"] if more else []
    lines += ["", *(f"* {line}" for line in findings(found) or ["nothing suspicious"])]
    lines += ["", "seen       features  share of nonzeros"]
    return lines + [f"{name:9} {size:9d} {share:18.3f}" for name, size, share in histogram(frequencies)]


def _facts(found: Examination, n_features: int) -> list[tuple[str, str]]:
    about = "" if _is_exact(found) else "about "
    per_row = found.nonzeros / found.rows
    facts = [
        ("format", f"{found.format}: {found.reason}"),
        ("rows", f"{found.rows}"),
        ("labels", _label_text(found)),
        ("features", f"{about}{n_features}, {per_row:.1f} per row"),
        ("duplicates", f"{'' if found.distinct.is_exact else 'about '}{counted(found.repeated, 'row', ',')}"),
        ("bad lines", f"{found.bad.count}"),
    ]
    if found.ignored:
        facts.append(("ignored", ", ".join(found.ignored)))
    return facts


def _label_text(found: Examination) -> str:
    labels = found.labels
    if not found.is_labelled:
        return "none"
    if not labels.is_binary:
        return labels.text()
    share, named = percent(share_of_positive(found)), labels.named.describe()
    return f"two classes, {share} positive" + (f" ({named.removeprefix('labels: ')})" if named else "")


def _column_lines(found: Examination) -> list[str]:
    """Return a table with one line per column."""
    last = "auc" if found.labels.is_binary else "r2"
    heading = ("column", "kind", "values", "once", "twice", "missing", last, "top value", "share")
    rows = [heading]
    for column in found.columns:
        profile = column.report(found.labels)
        about = "" if profile["exact"] else "~"
        power = "-" if profile[last] is None else f"{profile[last]:.3f}"
        counts = (f"{about}{profile[name]}" for name in ("values", "once", "twice"))
        top = (profile["top"] if profile["top_share"] >= SHOWN_SHARE else "-", f"{profile['top_share']:.3f}")
        rows.append((one_line(profile["name"]), profile["kind"], *counts, f"{profile['missing']:.3f}", power, *top))
    widths = [max(map(width, cells)) for cells in zip(*rows)]
    left = (0, 1, 7)  # columns of text

    def padded(place: int, cell: str) -> str:
        blanks = " " * (widths[place] - width(cell))
        return cell + blanks if place in left else blanks + cell

    return ["   ".join(padded(place, cell) for place, cell in enumerate(row)).rstrip() for row in rows]


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for wide characters, none for combining ones.

    >>> width("abc"), width("日本"), width("e\u0301")
    (3, 4, 1)
    """
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
