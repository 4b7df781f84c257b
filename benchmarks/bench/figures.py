"""The plots of the benchmarks; importing this module requires matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

# Mostly the palette of Okabe and Ito for colour-blind readers, with a marker each.
STYLES = {
    "rafm": ("#D55E00", "D"),
    "rafm-ffm": ("#D55E00", "d"),
    "xlearn": ("#0072B2", "o"),
    "xlearn-ffm": ("#0072B2", "."),
    "vw": ("#009E73", "s"),
    "myfm": ("#CC79A7", "^"),
    "lightgbm": ("#E69F00", "v"),
    "sklearn": ("#56B4E9", "P"),
    "river": ("#000000", "X"),
    "libfm": ("#999999", "<"),
    "libffm": ("#7F3C8D", ">"),
    "torch": ("#8C6D1F", "h"),
}
TICKS = [m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5)]


def draw_all(result: dict[str, Any], folder: Path) -> list[Path]:
    """Draw all parts that were measured; return the files."""
    drawings = {"race": draw_race, "speed": draw_speed, "growth": draw_growth}
    written = []
    for part, draw in drawings.items():
        found = result["parts"].get(part, {"failed": ""})
        if "failed" not in found or (part == "race" and found.get("lines")):
            written.append(folder / f"bench-{part}.png")
            figure = draw(found)
            figure.savefig(written[-1], dpi=120, metadata={"Software": None})  # no version: same plot, same bytes
            pyplot.close(figure)
    return written


def draw_race(found: dict[str, Any]) -> Any:
    """Draw validation loss against elapsed seconds: a marker per run, and a line for the best so far."""
    figure, ax = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, points in found["runs"].items():
        if not points:
            continue
        color, marker = STYLES[name]
        ordered = sorted(points, key=lambda point: float(point["elapsed"]))
        seconds, losses = [p["elapsed"] for p in ordered], [p["loss"] for p in ordered]
        ax.plot(seconds, losses, marker, color=color, markersize=7)
        best = np.minimum.accumulate(losses)
        ax.plot(seconds, best, "-", drawstyle="steps-post", color=color)
        ax.plot([], [], marker=marker, color=color, label=name)
    ax.axhline(found["target"], color="#444444", linestyle=":", linewidth=1.2)
    ax.annotate(
        f"target {found['target']:.4f}: all reach it",
        (1, found["target"]),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        xytext=(-4, 4),
        ha="right",
        fontsize=8,
    )
    ax.set(xscale="log", xlabel="seconds from the text file to scored validation rows", ylabel="validation log loss")
    ax.set_title("Validation loss against time, one thread (lines: best so far)")
    every = [point["elapsed"] for points in found["runs"].values() for point in points]
    ticks = [t for t in TICKS if min(every) / 1.5 <= t <= max(every) * 1.5]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8)
    return figure


def draw_speed(found: dict[str, Any]) -> Any:
    """Draw factor updates per second against the rank, a panel per shape; two threads are dashed."""
    shapes = list(found["shapes"])
    figure, axes = pyplot.subplots(
        1, len(shapes), figsize=(5.6 * len(shapes), 4.6), layout="constrained", squeeze=False
    )
    for ax, shape in zip(axes[0], shapes):
        own = [line for line in found["lines"] if line["shape"] == shape and "updates_per_second" in line]
        for who, threads in dict.fromkeys((line["who"], line["threads"]) for line in own):
            points = [
                (p["rank"], p["updates_per_second"] / 1e6) for p in own if (p["who"], p["threads"]) == (who, threads)
            ]
            color, marker = STYLES[who]
            style = {"color": color, "marker": marker, "linestyle": "-" if threads == 1 else "--"}
            label = who if threads == 1 else f"{who}, two threads"
            ax.plot(*zip(*points), label=label, markerfacecolor=color if threads == 1 else "white", **style)
        ranks = sorted({line["rank"] for line in own})
        ax.set(xscale="log", yscale="log", xlabel="rank", ylabel="million factor updates per second")
        ax.set_title(f"{shape}-shaped rows, {found['shapes'][shape]['features']:,} features")
        ax.set_xticks(ranks, [*map(str, ranks)])
        ax.xaxis.set_minor_formatter(NullFormatter())
        _plain_ticks(ax.yaxis)
        ax.grid(alpha=0.25)
        ax.legend(fontsize=8)
    return figure


def draw_growth(found: dict[str, Any]) -> Any:
    """Draw time against size on log-log axes with fitted slopes, and time against active factors."""
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 8), layout="constrained")
    for ax, (axis, own) in zip(axes.flat, found["axes"].items()):
        sizes, seconds = zip(*own["points"])
        ax.plot(sizes, 1e3 * np.array(seconds), "o-", color="#0072B2", label="measured")
        theory = seconds[-1] * (np.array(sizes) / sizes[-1]) ** own["theory"]
        ax.plot(sizes, 1e3 * theory, ":", color="#444444", label=f"theory: slope {own['theory']:.0f}")
        ax.set(xscale="log", yscale="log", xlabel=axis, ylabel="milliseconds of an epoch (CPU)")
        where = " from 64 on" if axis == "rank" else ""
        ax.set_title(f"{axis}: slope {own['slope']:.2f}{where}", fontsize=11)
        if axis == "features":  # without margins, noise would look like a trend
            middle = 1e3 * float(np.median(seconds))
            ax.set_ylim(middle / 4, middle * 4)
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        ax.xaxis.set_minor_formatter(NullFormatter())
        _plain_ticks(ax.yaxis)
        ax.grid(alpha=0.25, which="both")
        ax.legend(fontsize=8)
    _draw_sets(axes[1, 1], found["sets"])
    axes[1, 2].set_visible(False)
    return figure


def _draw_sets(ax: Any, sets: list[dict[str, Any]]) -> None:
    """Draw the time of rank sets against their active factors, both relative to FM 512."""
    least = min(line["of_top"] for line in sets)
    most = max(line["of_top"] for line in sets)
    ax.plot([least, most], [least, most], ":", color="#444444", label="in proportion")
    for line, marker in zip(sets, "osD^vPX"):
        color = "#0072B2" if line["ranks"].startswith("FM") else "#D55E00"
        place = (line["of_top"], line["time_of_top"])
        ax.plot(*place, marker, color=color, markersize=7, label=line["ranks"], linestyle="")
    ax.set(xscale="log", yscale="log", xlabel="active factors, relative to FM 512", ylabel="time, relative to FM 512")
    _plain_ticks(ax.xaxis)
    _plain_ticks(ax.yaxis)
    ax.set_title("rank sets of the paper", fontsize=11)
    ax.grid(alpha=0.25)
    ax.legend(fontsize=7)


def _plain_ticks(axis: Any) -> None:
    """Format the ticks of a log axis as plain numbers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
