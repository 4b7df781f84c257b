"""Draw the picture of the README: test log loss on Frappe against size, beside the deep models of a public leaderboard.

    python -m experiments.front_picture

Ours are the rows of docs/results.md, which `python -m experiments.paper` writes; the others are those of BARS Frappe_x1
(Zhu et al., SIGIR 2022), embeddings of size 10, with the same validation and test rows, one seed each.
"""

from __future__ import annotations

import re
from pathlib import Path

from rafm.charts import BOTTOM, HEIGHT, LEFT, LEGEND_HEIGHT, RIGHT, STYLE, TOP, WIDTH, Axis, Scale, Series, chart

HERE = Path(__file__).parent
RESULTS, PICTURE = HERE.parent / "docs" / "results.md", HERE.parent / "docs" / "images" / "frappe.svg"
OURS = (("rafm, ranks measured", "measured", 1), ("plain FM, tuned", "FM", 2))  # label, row of the table, style
BARS = {  # parameters, test log loss
    "FM": (59_280, 0.2065),
    "FFM": (490_400, 0.1860),
    "DCN-V2": (458_391, 0.1491),
    "FinalMLP": (253_392, 0.1484),
    "DeepFM": (423_280, 0.1482),
    "FinalNet": (338_502, 0.1311),
}


def row_of(model: str) -> tuple[list[float], list[float]]:
    """Return sizes and losses of a model in the table of Frappe's frontier."""
    text = RESULTS.read_text()
    table = text[text.index("## The frontier") :].partition("### frappe")[2]
    sizes = [float(size) * 1e6 for size in re.findall(r"([\d.]+) M", table.partition("\n|---")[0])]
    (cells,) = re.findall(rf"^\| {re.escape(model)} \|(.*)\|$", table.partition("###")[0], re.MULTILINE)
    return sizes, [float(re.search(r"[\d.]+", cell)[0]) for cell in cells.split("|")]  # type: ignore[index]


def main() -> None:
    """Write the picture."""
    series = [Series(label, *row_of(model), "line", style) for label, model, style in OURS]
    series += [Series("", *row_of(model), "marks", style) for _, model, style in OURS]
    sizes, losses = zip(*BARS.values())
    series.append(Series("models of the BARS leaderboard", sizes, losses, "marks", 3, [*BARS]))
    axes = Axis("parameters (smaller is to the left)", is_log=True), Axis("test log loss (lower is better)")
    PICTURE.write_text(
        chart("Frappe: loss against size", *axes, series, labels(series), STYLE + "svg{background:#fff}") + "\n"
    )


def labels(series: list[Series]) -> str:
    """Return the names beside the marks of others."""
    legend = len([one for one in series if one.name])
    across = Scale(Axis("", is_log=True), [x for one in series for x in one.x], LEFT, WIDTH - RIGHT)
    up = Scale(Axis(""), [y for one in series for y in one.y], HEIGHT - BOTTOM, TOP + LEGEND_HEIGHT * -(-legend // 2))
    below = {"FinalMLP": (-8, 14, "end"), "DeepFM": (4, 18, "start"), "FinalNet": (8, 4, "start")}
    parts = []
    for name, (size, loss) in BARS.items():
        x, y, anchor = below.get(name, (8, -4, "start"))
        place = f'x="{across(size) + x:.1f}" y="{up(loss) + y:.1f}" text-anchor="{anchor}"'
        parts.append(f"<text {place}>{name}</text>")
    return "".join(parts)


if __name__ == "__main__":
    main()
