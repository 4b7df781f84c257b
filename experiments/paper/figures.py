"""Draw the figures, with a palette for colour-blind readers (Okabe and Ito) and a marker per series."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rafm.errors import ConfigError

if TYPE_CHECKING:
    from .equal_sizes import SizeTable

STYLES = {
    "FM": {"color": "#0072B2", "marker": "o"},
    "DiFacto": {"color": "#E69F00", "marker": "s"},
    "MRMA": {"color": "#CC79A7", "marker": "^"},
    "RaFM": {"color": "#D55E00", "marker": "D"},
    "RaFM (Algorithm 1)": {"color": "#009E73", "marker": "v"},
    "LR": {"color": "#000000", "marker": "P"},
    "FM+t": {"color": "#0072B2", "marker": "o"},
    "FFM": {"color": "#009E73", "marker": "v"},
    "RaFM+t": {"color": "#D55E00", "marker": "D"},
    "pruned FM": {"color": "#56B4E9", "marker": "X"},
    "pruned FM+t": {"color": "#56B4E9", "marker": "X"},
    "measured": {"color": "#000000", "marker": "*"},
}
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")


def canvas(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """Create a figure and its axes."""
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("figures need matplotlib: pip install matplotlib", key="paper") from None
    matplotlib.use("Agg")  # works without a display
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)


def save(figure: Any, path: Path) -> None:
    """Write the figure; the same content gives the same bytes."""
    from matplotlib import pyplot

    figure.savefig(path, dpi=120, metadata={"Software": None})  # without matplotlib's version
    pyplot.close(figure)


def draw_occurrences(path: Path, found: dict[str, dict[str, Any]]) -> None:
    """Draw histograms of feature counts, one panel per data set."""
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, axes = canvas(rows, columns, (4.2 * columns, 3.4 * rows))
    for ax, (name, each) in zip(axes.flat, found.items()):
        names, sizes = zip(*((label, size) for label, size, _ in each["bins"]))
        bars = ax.bar(range(len(names)), sizes, color="#0072B2")
        ax.bar_label(bars, [f"{size:,}" for size in sizes], fontsize=7)
        ax.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        ax.set(title=name, xlabel="occurrences in training rows", ylabel="features")
        ax.margins(y=0.12)
    for ax in list(axes.flat)[len(found) :]:
        ax.set_visible(False)
    save(figure, path)


def draw_curves(path: Path, curves: dict[str, list[float]], data: str) -> None:
    """Draw validation loss by epoch."""
    figure, axes = canvas(1, 1, (7.2, 4.6))
    ax = axes[0, 0]
    fms = [name for name in curves if name.startswith("FM")]
    for name, color, marker in zip(fms, SERIES, "osv^<"):
        ax.plot(range(1, len(curves[name]) + 1), curves[name], color=color, marker=marker, markersize=5, label=name)
    for name, style in zip((name for name in curves if name not in fms), ("-", "--")):
        own = curves[name]
        ax.plot(
            range(1, len(own) + 1), own, style, color="#D55E00", marker="D", linewidth=2.2, markersize=5, label=name
        )
    # Scale to the first epochs: an FM that overfits may end far above.
    least, most = min(map(min, curves.values())), max(own[0] for own in curves.values())
    ax.set_ylim(least - 0.06 * (most - least), most + 0.1 * (most - least))
    ax.set(xlabel="epoch", ylabel="validation log loss", title=f"FM and RaFM over training on {data}")
    ax.legend(fontsize=8)
    save(figure, path)


def draw_frontier(path: Path, found: Sequence[SizeTable]) -> None:
    """Draw test loss against parameters of every family, one panel per data set; bars are standard deviations."""
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    figure, axes = canvas(rows, columns, (6.0 * columns, 4.2 * rows))
    for ax, each in zip(axes.flat, found):
        _frontier_panel(ax, each)
    for ax in list(axes.flat)[len(found) :]:
        ax.set_visible(False)
    save(figure, path)


def _frontier_panel(ax: Any, found: SizeTable) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for family, own in found.families.items():
        sizes, means = [one.parameters for one in own], [float(np.mean(one.losses)) for one in own]
        spread = [float(np.std(one.losses, ddof=1)) if len(one.losses) > 1 else 0.0 for one in own]
        line = "--" if family.endswith("+t") else "-"
        ax.errorbar(sizes, means, spread, linestyle=line, capsize=2, markersize=5, label=family, **STYLES[family])
    metric = "log loss" if found.study.task == "binary" else "RMSE"
    ax.set(xscale="log", xlabel="parameters (millions)", ylabel=f"test {metric}", title=found.study.data)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(lambda size, place: f"{size / 1e6:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8)


def draw_sizes(path: Path, points: list[dict[str, Any]]) -> None:
    """Draw the gain in AUC over LR against the size relative to LR."""
    figure, axes = canvas(1, 1, (7.2, 4.6))
    ax = axes[0, 0]
    for family in dict.fromkeys(point["family"] for point in points):
        own = [point for point in points if point["family"] == family]
        sizes, aucs = [p["size"] for p in own], [float(np.mean(p["auc"])) for p in own]
        spread = [float(np.std(p["gain"], ddof=1)) if len(p["gain"]) > 1 else 0.0 for p in own]
        ax.errorbar(sizes, aucs, spread, capsize=2, markersize=7, label=family, **STYLES[family])
    ax.set(xscale="log", xlabel="size relative to LR (nonzero numbers)", ylabel="AUC on the eighth day")
    ax.set_title("AUC against size on the generated stream")
    ticks = [t for t in (1, 1.5, 2, 3, 5, 7, 9) if t <= 1.1 * max(p["size"] for p in points)]
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.25)
    ax.legend(fontsize=9, loc="lower right")
    save(figure, path)
