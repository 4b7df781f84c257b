"""The page to try a model: enter or draw a row, see its score and an explanation. It loads nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files

PAGE = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
