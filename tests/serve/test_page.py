"""The page in a real browser without the internet: type or draw a row, see its score and why."""

import os

import numpy as np
import pyarrow as pa
import pytest
from browser import CHROMIUM, DRIVER, browsing
from fitted import make
from serving import serving, until

from rafm import Scorer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its WebDriver"),
]
HOSTILE = "<script>document.title='hacked'</script>"
TOKEN, MINUS = "open sesame", "\N{MINUS SIGN}"
TEXT = "return document.getElementById(arguments[0]).textContent"
FILL = """
for (const field of document.querySelectorAll("[data-name]")) field.value = arguments[0][field.dataset.name] ?? "";
document.querySelector("button[type=submit]").click();"""
BARS = """
return [...document.querySelectorAll("#terms .name")].map((name) => [
  name.firstChild.textContent, name.nextSibling.firstChild.className, name.nextSibling.firstChild.offsetWidth,
  name.nextSibling.nextSibling.textContent]);"""
COLOURS = "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the file of a model whose names are hostile."""
    draw, path = np.random.default_rng(0), tmp_path_factory.mktemp("page") / "films.rafm"
    users, films = draw.integers(0, 5, 400), draw.integers(0, 4, 400)
    table = pa.table(
        {
            "user": [f"user {number}" for number in users],
            HOSTILE: [["Alien", "Brazil", "Casablanca", "<img src=x onerror=alert(1)>"][number] for number in films],
            "age": draw.normal(40, 10, 400),
        }
    )
    make(columns={"age": "number"}, n_epochs=8).fit(table, (users + films) % 2).save(path)
    return path


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with serving(model, folder, token=TOKEN) as server, browsing() as browser:
        browser.open(f"http://127.0.0.1:{server.port}/")
        until(lambda: "needs the header" in browser.run(TEXT, "error"))
        browser.run("document.getElementById('token').value = arguments[0]", TOKEN)
        browser.run("document.getElementById('draw').click()")
        until(lambda: browser.run("return document.querySelectorAll('[data-name]').length") == 3)
        yield browser


def test_a_row_is_scored_and_explained_with_bars(page, model):
    row = {"user": "user 3", HOSTILE: "<img src=x onerror=alert(1)>", "age": 30}
    expected = Scorer(model).predict(row)
    page.run(FILL, row)
    until(lambda: page.run(TEXT, "answer").startswith(f"{expected:.4g}"[:6]))
    bars = page.run(BARS)
    assert bars[0][0] == "bias"
    assert any("<script>" in name and "<img src=x" in name for name, *_ in bars)
    for _, kind, width, number in bars:
        assert kind == ("bar down" if number.startswith(MINUS) else "bar up")
        assert width >= 1
    terms = {float(number.replace(MINUS, "-")): width for _, _, width, number in bars}
    assert terms[max(terms, key=abs)] == max(terms.values())  # the widest bar is the largest term
    total = sum(terms)
    assert total == pytest.approx(Scorer(model).score(row), abs=0.01)


def test_rows_are_drawn_and_mistakes_told(page):
    page.run("document.getElementById('draw').click()")
    until(lambda: page.run("return [...document.querySelectorAll('[data-name]')].every((field) => field.value)"))
    page.run(FILL, {"user": "nobody", "age": "old"})
    until(lambda: page.run(TEXT, "error") == "age: expected a number, found old")
    page.run(FILL, {"user": "nobody", "age": 1})
    until(lambda: page.run(TEXT, "notes") == f"Never seen in training: {HOSTILE}, user.")  # also: without a value


def test_the_page_is_readable_in_the_dark_and_runs_nothing_of_strangers(page):
    page.run(FILL, {"user": "user 3", HOSTILE: "Alien", "age": 30})
    until(lambda: page.run("return document.querySelectorAll('.bar').length") > 3)
    for is_dark in (False, True):
        page.dark(is_dark)
        ground, ink = ([int(x) for x in colour[4:-1].split(",")] for colour in page.run(COLOURS))
        assert (sum(ground) < sum(ink)) == is_dark
        assert abs(sum(ground) - sum(ink)) > 500
        if folder := os.environ.get("RAFM_SCREENSHOTS"):
            page.screenshot(f"{folder}/page-{'dark' if is_dark else 'light'}.png")
    assert page.run("return document.title") == "films · rafm"
    assert page.run("return document.querySelectorAll('img, main script').length") == 0
    refused = [line for line in page.log() if "401" not in line and "favicon" not in line]
    assert refused == []
