"""Charts as SVG text: written by hand, so that a page needs no other file and no other package.

Colours are CSS classes (`line1`, `mark1`, ...) that a page may restyle for light, dark and print; shapes and dashes
tell series apart without colour. All text is escaped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH, HEIGHT = 480, 300  # of the drawing; a page scales it
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 16, 44  # margins
LEGEND_HEIGHT = 18
N_TICKS = 5  # per axis, approximately
COLOURS = ("#0b66c3", "#b4490a", "#0d7a4f", "#8a3ffc", "#6b6b6b")
STYLE = "".join(
    f".line{k}{{stroke:{colour};fill:none;stroke-width:2}}.mark{k}{{fill:{colour};stroke:{colour}}}"
    for k, colour in enumerate(COLOURS, 1)
)
STYLE += (
    ".axis{stroke:#888;stroke-width:1;fill:none}.grid{stroke:#8884;stroke-width:1}text{font:12px sans-serif;fill:#333}"
)
# one per series, so that a print without colours can be read
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4")
Kind = Literal["line", "marks", "bars", "steps"]


@dataclass(frozen=True)
class Series:
    """One series of points; `bars` are drawn from 0, `steps` hold each y until the next x."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Kind = "line"
    style: int = 1
    labels: Sequence[str] = ()  # one per mark, shown on hovering


@dataclass(frozen=True)
class Axis:
    """One axis: its title, whether it is logarithmic, and limits if they are not those of the data."""

    title: str
    is_log: bool = False
    low: float | None = None
    high: float | None = None


class Scale:
    """Maps values to a range of pixels."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float):
        self.axis, self.start, self.end = axis, start, end
        shown = [value for value in values if math.isfinite(value) and (value > 0 or not axis.is_log)]
        low = axis.low if axis.low is not None else min(shown, default=1.0 if axis.is_log else 0.0)
        high = axis.high if axis.high is not None else max(shown, default=10.0 if axis.is_log else 1.0)
        if low == high:  # a single value: some room on both sides
            low, high = (low / 2, high * 2) if axis.is_log else (low - 0.5, high + 0.5)
        self.low, self.high = low, high

    def __call__(self, value: float) -> float:
        if self.axis.is_log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        # what lies beyond given limits is drawn at the edge
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values inside the limits."""
        return log_ticks(self.low, self.high) if self.axis.is_log else ticks(self.low, self.high)


def ticks(low: float, high: float) -> list[float]:
    """Return about five round values between two limits.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / N_TICKS  # rounded up to 1, 2 or 5 times a power of ten
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between two limits; round values if there are fewer than two.

    >>> log_ticks(3, 2000)
    [10.0, 100.0, 1000.0]
    """
    powers = [10.0**k for k in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    if len(powers) > 7:  # many decades: every second power, or fewer
        powers = powers[:: -(-len(powers) // 7)]
    return powers if len(powers) > 1 else ticks(low, high)


def short_number(value: float) -> str:
    """Return a number as short text.

    >>> [short_number(value) for value in (0, 0.25, 1500, 2e6, 1e-5, 30)]
    ['0', '0.25', '1.5k', '2M', '1e-05', '30']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series], extra: str = "", style: str = "") -> str:
    """Return a chart as an SVG element with a title that screen readers read; extra: elements to draw on top."""
    legend = [one for one in series if one.name] if len([one for one in series if one.name]) > 1 else []
    top = TOP + LEGEND_HEIGHT * -(-len(legend) // 2)
    across = Scale(x, [value for one in series for value in one.x], LEFT, WIDTH - RIGHT)
    # bars start from 0, which must be in the picture
    lowest = [0.0] if any(one.kind == "bars" for one in series) and not y.is_log else []
    up = Scale(y, [*lowest, *(value for one in series for value in one.y)], HEIGHT - BOTTOM, top)
    parts = [*_axes(x, y, across, up, top), *(_series(one, across, up) for one in series), extra]
    parts += [_legend_entry(one, place) for place, one in enumerate(legend)]
    css = f"<style>{escape(style)}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{css}{"".join(parts)}</svg>'
    )


def _axes(x: Axis, y: Axis, across: Scale, up: Scale, top: float) -> list[str]:
    bottom, parts = HEIGHT - BOTTOM, []
    for value in up.ticks():
        place = up(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        parts.append(_text(LEFT - 6, place + 4, short_number(value), "end"))
    for value in across.ticks():
        place = across(value)
        parts.append(f'<line class="axis" x1="{place:.1f}" x2="{place:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(_text(place, bottom + 18, short_number(value), "middle"))
    parts.append(f'<path class="axis" d="M{LEFT} {top}V{bottom}H{WIDTH - RIGHT}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.title, "middle"))
    parts.append(_text(0, 0, y.title, "middle", f"translate(14 {(top + bottom) / 2:.0f}) rotate(-90)"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, transform: str = "") -> str:
    moved = f' transform="{transform}"' if transform else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{moved}>{escape(text)}</text>'


def _series(one: Series, across: Scale, up: Scale) -> str:
    points = [(across(x), up(y)) for x, y in zip(one.x, one.y) if math.isfinite(x) and math.isfinite(y)]
    if one.kind == "marks":
        return "".join(_mark(place, one, number) for number, place in enumerate(points))
    if one.kind == "bars":
        return _bars(one, points, up(0.0 if not up.axis.is_log else up.low))
    if one.kind == "steps":
        points = [corner for before, after in itertools.pairwise(points) for corner in (before, (after[0], before[1]))]
    path = " ".join(f"{'ML'[place > 0]}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
    dash = f' stroke-dasharray="{DASHES[one.style - 1]}"' if DASHES[one.style - 1] else ""
    return f'<path class="line{one.style}" d="{path}"{dash}/>'


def _mark(place: tuple[float, float], one: Series, number: int) -> str:
    x, y = place
    title = f"<title>{escape(one.labels[number])}</title>" if number < len(one.labels) else ""
    return _shape(x, y, one.style, title)


def _shape(x: float, y: float, style: int, title: str = "") -> str:
    """Return a mark: a circle, a square, a triangle, a diamond or a hollow circle."""
    if style == 2:
        return f'<rect class="mark2" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8">{title}</rect>'
    if style in (3, 4):
        low = "l5 5-5 5-5-5z" if style == 4 else "l5 9h-10z"
        return f'<path class="mark{style}" d="M{x:.1f} {y - 5:.1f}{low}">{title}</path>'
    hollow = ' style="fill:none"' if style == 5 else ""
    return f'<circle class="mark{style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"{hollow}>{title}</circle>'


def _bars(one: Series, points: list[tuple[float, float]], floor: float) -> str:
    gaps = [after[0] - before[0] for before, after in itertools.pairwise(points)]
    width = max(min(gaps, default=20.0) * 0.84, 1.0)
    # bars of a second series lie over those of the first
    hollow = ";fill-opacity:.35" if one.style != 1 else ""
    return "".join(
        f'<rect class="mark{one.style}" style="stroke:none{hollow}" x="{x - width / 2:.1f}" y="{min(y, floor):.1f}" '
        f'width="{width:.1f}" height="{abs(floor - y):.1f}"/>'
        for x, y in points
    )


def _legend_entry(one: Series, place: int) -> str:
    x, y = LEFT + 8 + (place % 2) * (WIDTH - LEFT - RIGHT) / 2, TOP + LEGEND_HEIGHT * (place // 2)
    if one.kind in ("line", "steps"):
        dash = f' stroke-dasharray="{DASHES[one.style - 1]}"' if DASHES[one.style - 1] else ""
        sign = f'<path class="line{one.style}" d="M{x:.0f} {y - 4}h24"{dash}/>'
    else:
        sign = _shape(x + 12, y - 4, one.style)
    return sign + _text(x + 30, y, one.name, "start")
