"""The page: one HTML file without requests or scripts, for screens of any size, light, dark and print."""

from __future__ import annotations

from html import escape

from ..charts import STYLE
from ..files.terminal import printable
from ..model.file import Saved, file_bytes
from ..version import __version__
from . import sections
from .markup import text_of
from .results import Results

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is loaded and nothing runs, whatever a name says
# contrasts of at least 4.5 to 1 on both papers
LIGHT = "--paper:#fff;--ink:#1a1a1a;--soft:#595959;--line:#c9c9c9;--one:#0b5cad;--two:#a83f06;--bar:#9cc3ea"
DARK = "--paper:#14171a;--ink:#ececec;--soft:#b0b0b0;--line:#4a4f55;--one:#7db8f5;--two:#f5a86b;--bar:#2f5f8f"
CSS = f"""
:root{{{LIGHT};color-scheme:light dark}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
@media print{{:root{{{LIGHT}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:1rem;max-width:70rem;font:1rem/1.5 system-ui,sans-serif}}
body{{background:var(--paper);color:var(--ink)}}
h1{{font-size:1.6rem;line-height:1.2;overflow-wrap:anywhere}}
h2{{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}}
p{{max-width:45rem;overflow-wrap:anywhere}}
.figures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}}
figure{{margin:0;break-inside:avoid}}
figcaption{{color:var(--soft);font-size:.9rem}}
svg{{width:100%;max-width:40rem;height:auto}}
.wide{{overflow-x:auto;margin:1rem 0;break-inside:avoid}}
table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}}
caption{{text-align:left;font-weight:600;padding:.3rem 0}}
th,td{{padding:.25rem .7rem .25rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}}
th:first-child,td:first-child{{text-align:left;font-weight:400;overflow-wrap:anywhere;min-width:8rem;max-width:22rem}}
thead th,thead th:first-child{{font-weight:600}}
.words th,.words td{{text-align:left}}.words td{{overflow-wrap:anywhere}}
.bar{{width:14rem;min-width:6rem;text-align:left}}
.bar span{{display:block;height:1.1em;background:var(--bar);min-width:1px}}
.bar .minus{{background:none;border:1px dashed var(--two)}}
.hidden{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
pre{{overflow-x:auto;padding:.7rem;border:1px solid var(--line)}}
{STYLE}
svg text{{fill:var(--ink)}}
.axis{{stroke:var(--soft)}}.grid{{stroke:var(--line)}}
.line1{{stroke:var(--one)}}.line2{{stroke:var(--two)}}.line5{{stroke:var(--soft)}}
.mark1{{fill:var(--one);stroke:var(--one)}}.mark2{{fill:var(--two);stroke:var(--two)}}
@media print{{body{{max-width:none;padding:0;font-size:10pt}}.wide,pre{{overflow:visible}}pre{{white-space:pre-wrap}}
h2{{break-after:avoid}}*{{print-color-adjust:exact}}.figures{{grid-template-columns:1fr 1fr}}}}
@media (max-width:30rem){{body{{padding:.6rem}}th,td{{padding-right:.5rem}}}}
"""


def report_page(saved: Saved, results: Results | None = None, title: str = "model") -> str:
    """Return the report of a model as HTML.

    Parameters
    ----------
    saved : Saved
        The model and its encoder.
    results : Results, default=None
        Results on test rows, without which some sections are left out.
    title : str, default="model"
        What the model is called, such as its file name.
    """
    model = saved.model
    body = [
        sections.summary(saved, results, file_bytes(saved)),
        sections.learning(model),
        sections.quality(model, results),
        sections.frequencies(model),
        sections.interactions(model, results),
        sections.importance(results),
        sections.coverage(results),
        sections.reproduction(saved, __version__),
    ]
    name = text_of(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}: report</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{CSS}</style></head><body><main><h1>Report of {name}</h1>{''.join(body)}</main></body></html>\n"
    )


class Report:
    """A report, shown by notebooks; `save` writes it to a file.

    Attributes
    ----------
    html : str
        The page.
    """

    def __init__(self, html: str):
        self.html = html

    def save(self, path: str) -> None:
        """Write the page to a file."""
        from ..files.atomic import write_atomically

        write_atomically(path, [self.html.encode()])

    def _repr_html_(self) -> str:
        """Return a frame with the page, whose styles then do not mix with those of the notebook."""
        style = "width:100%;height:40rem;border:0"
        return f'<iframe title="report" sandbox style="{style}" srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return printable(f"<Report of {len(self.html):,} characters; save(path) writes it>")
