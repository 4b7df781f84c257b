"""Pieces of HTML. All text that is not written here passes through `escape`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ..files.terminal import printable


def text_of(value: Any) -> str:
    r"""Return a value as harmless text: markup is escaped, and so are characters that would reorder it.

    >>> text_of("<script>alert(1)</script>")
    '&lt;script&gt;alert(1)&lt;/script&gt;'
    """
    return escape(printable(str(value)))


def table(caption: str, heading: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "numbers") -> str:
    """Return a table that scrolls on a narrow screen; the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{text_of(name)}</th>' for name in heading)
    body = "".join(
        f'<tr><th scope="row">{text_of(first)}</th>{"".join(f"<td>{text_of(cell)}</td>" for cell in others)}</tr>'
        for first, *others in rows
    )
    return _framed(caption, kind, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>")


def _framed(caption: str, kind: str, inner: str) -> str:
    """Return a table in a region that can be scrolled, also by keyboard."""
    name = text_of(caption)
    region = f'<div class="wide" tabindex="0" role="region" aria-label="{name}">'
    return f'{region}<table class="{kind}"><caption>{name}</caption>{inner}</table></div>'


def figure(picture: str, caption: str) -> str:
    """Return a chart with its caption."""
    return f"<figure>{picture}<figcaption>{text_of(caption)}</figcaption></figure>"


def section(title: str, *parts: str) -> str:
    """Return a section; nothing if it has no parts."""
    inner = "".join(parts)
    return f"<section><h2>{text_of(title)}</h2>{inner}</section>" if inner else ""


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{text_of(text)}</p>"


def figures(*pictures: str) -> str:
    """Return charts side by side where there is room."""
    return f'<div class="figures">{"".join(pictures)}</div>' if any(pictures) else ""


def bars(caption: str, heading: tuple[str, str], rows: Sequence[tuple[str, float, str]]) -> str:
    """Return a table with a bar for each number: (name, size, text)."""
    # the longest bar fills its cell
    largest = max((abs(size) for _, size, _ in rows), default=0.0) or 1.0
    body = "".join(
        f'<tr><th scope="row">{text_of(name)}</th><td class="bar"><span class="{"minus" if size < 0 else "plus"}" '
        f'style="width:{100 * abs(size) / largest:.1f}%"></span></td><td>{text_of(shown)}</td></tr>'
        for name, size, shown in rows
    )
    first, last = map(text_of, heading)
    head = (
        f'<th scope="col">{first}</th><th scope="col"><span class="hidden">bar</span></th><th scope="col">{last}</th>'
    )
    return _framed(caption, "bars", f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>")
