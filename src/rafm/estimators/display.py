"""Show a fitted estimator in a notebook: its plan and columns beside scikit-learn's diagram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..files.terminal import counted
from ..plan.ranks import describe_plan

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder
    from ..model.model import Model

MOST_COLUMNS = 30  # of a table that are listed


class Display:
    """Adds the plan of a fitted model to the HTML representation of scikit-learn."""

    encoder_: Any
    model_: Any

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._plan_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        shown = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        return shown | ({"text/html": shown["text/html"] + self._plan_html()} if "text/html" in shown else {})

    def _plan_html(self) -> str:
        """Return tables of levels and columns; nothing before the estimator is fitted."""
        if not hasattr(self, "model_"):
            return ""
        columns = "" if self.encoder_ is None else columns_html(self.encoder_)
        return f'<div class="rafm-plan">{model_html(self.model_)}{columns}</div>'


def model_html(model: Model) -> str:
    """Return a table of the levels, and one line about the model."""
    *levels, _ = describe_plan(model.plan, model.counts, model.n_rows) or [{}]
    rows = [
        (level, f"{row['rank']}", f"{row['features']:,}", f"{row['share_of_nonzeros']:.3f}", f"{row['parameters']:,}")
        for level, row in enumerate(levels, start=1)
    ]
    plan, loss = model.plan, model.loss
    sizes = f"{counted(plan.n_features, 'feature', ',')}, {counted(model.n_parameters, 'parameter', ',')}"
    about = f"{plan.family}, {loss.name} loss: {sizes}"
    return f"<p>{escape(about)}</p>" + _table(("level", "rank", "features", "share of nonzeros", "parameters"), rows)


def columns_html(encoder: TableEncoder) -> str:
    """Return a table of the columns, their kinds and the numbers of their features."""
    listed, more = encoder.parts[:MOST_COLUMNS], len(encoder.parts) - MOST_COLUMNS
    rows = [(part.name, getattr(part, "kind", "cross"), f"{part.n_features:,}") for part in listed]
    note = f"<p>and {counted(more, 'more column')}</p>" if more > 0 else ""
    return _table(("column", "kind", "features"), rows) + note


def _table(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [("th", heading), *(("td", row) for row in rows)]
    body = "".join(f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in row)}</tr>" for tag, row in lines)
    return f"<table>{body}</table>"
