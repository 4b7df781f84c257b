"""The report says what is true, asks for nothing, and shows hostile names as text; a real browser agrees."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser

import fitted
import numpy as np
import pyarrow as pa
import pytest
from commands import rows_of_pairs, run
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

import rafm
from rafm.encode.coverage import Coverage
from rafm.errors import ConfigError
from rafm.explain.names import FeatureNames
from rafm.read.matrices import rows_of_matrix
from rafm.report.results import evaluate_rows
from rafm.rows.checked import Batch, check_batch

SCRIPT = "<script>document.title='hacked'</script>"
IMAGE = "\"'><img src=x onerror=\"document.title='hacked'\">"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Elements(HTMLParser):
    """Collects the elements of a page, their attributes and the text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def hostile():
    """Return a model of a table whose names attack the page, its test rows and its report."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, (2, 500))
    table = pa.table({f"col{SCRIPT}": [f"v{n}{IMAGE}" for n in a], IMAGE: [f"{SCRIPT}{n}" for n in b]})
    y = np.where((a + b) % 2, f"yes{SCRIPT}", "no")
    model = rafm.RaFMClassifier(ranks=(2, 4), n_epochs=3, field_weights="on", validation_fraction=0).fit(table, y)
    return model, table, y, model.report(table, y, title=f"m{SCRIPT}").html


def test_hostile_names_are_text(hostile):  # case 92
    found = Elements(hostile[3])
    assert {"script", "img", "iframe", "link", "object"}.isdisjoint(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert any(SCRIPT in text for text in found.text)
    assert any(IMAGE in text for text in found.text)


def test_nothing_is_loaded(hostile):
    found = Elements(hostile[3])
    names = {name for name, _ in found.attributes}
    assert names.isdisjoint({"src", "href", "srcset", "action", "data", "background"})
    style = re.search(r"<style>(.*?)</style>", hostile[3], re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in hostile[3]


def browse(page, folder, *options):
    """Return the document that Chromium makes of a page."""
    (folder / "page.html").write_text(page)
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += ["--allow-file-access-from-files", "--virtual-time-budget=5000", *options, "--dump-dom"]
    return subprocess.run([*command, str(folder / "page.html")], capture_output=True, text=True, timeout=120).stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_runs_nothing_and_asks_for_nothing(hostile, tmp_path):  # case 92
    found = browse(hostile[3], tmp_path, f"--log-net-log={tmp_path / 'net.json'}")
    asked = set(re.findall(r'"url":"([a-z-]+):[^"]*page', (tmp_path / "net.json").read_text()))
    assert asked <= {"file"}
    title = re.search(r"<title>(.*?)</title>", found, re.DOTALL)[1]
    assert html.unescape(title) == f"m{SCRIPT}: report"
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", hostile[3])
    assert "<title>hacked" not in browse(without_policy, tmp_path)  # escaping alone suffices
    assert "<title>hacked" in browse(without_policy.replace(html.escape(SCRIPT), SCRIPT), tmp_path)  # and is needed


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_the_page_fits_a_phone(hostile, tmp_path):
    (tmp_path / "report.html").write_text(hostile[3])
    frame = """<title>waiting</title><iframe src="report.html" style="width:360px;height:700px" onload="
        const page = this.contentDocument.documentElement; document.title = page.scrollWidth + ' ' + page.clientWidth">
        </iframe>"""
    found = re.search(r"<title>(\d+) (\d+)</title>", browse(frame, tmp_path))
    assert 340 <= int(found[2]) <= 360
    assert int(found[1]) <= int(found[2])


def cells(page, caption):
    """Return the rows of a table as a dict from the first cell to the others."""
    body = re.search(rf"<caption>{re.escape(html.escape(caption))}</caption>(.*?)</table>", page, re.DOTALL)[1]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    texts = [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row)] for row in rows]
    return {first: others for first, *others in texts}


def test_the_quality_is_that_of_scikit_learn(hostile):
    model, table, y, page = hostile
    found, positive = cells(page, "Quality on the test rows"), model.predict_proba(table)[:, 1]
    truth = y == model.classes_[1]
    assert float(found["log loss"][0]) == pytest.approx(log_loss(truth, positive), abs=1e-5)
    assert float(found["auc"][0]) == pytest.approx(roc_auc_score(truth, positive), abs=1e-5)
    assert found["rows"] == ["500"]


def test_the_curve_is_that_of_scikit_learn():
    X, y = fitted.long_tail(n_rows=800)
    model = fitted.make("binary", "fm").fit(X, y)
    batch = rows_of_matrix(X)
    parts = batch.indptr, batch.indices, batch.values, batch.n_features, y.astype(np.float32), None
    found = evaluate_rows(
        model.model_, [check_batch(Batch(*parts))], FeatureNames(model.model_.numbering), "rows", Coverage()
    )
    scores = model.decision_function(X)
    false, true, _ = roc_curve(y, scores, drop_intermediate=False)
    steps = set(zip(false.round(9).tolist(), true.round(9).tolist()))
    x, up = (values.round(9).tolist() for values in found.roc)
    assert set(zip(x, up)) <= steps
    assert (x[0], up[0], x[-1], up[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(up, x) == pytest.approx(roc_auc_score(y, scores), abs=0.01)  # of 200 points


@pytest.mark.parametrize(("task", "family"), [("binary", "rafm"), ("regression", "difacto"), ("regression", "lr")])
def test_every_family_has_a_report_with_and_without_rows(task, family, tmp_path):
    X, y = fitted.long_tail(task)
    model = fitted.make(task, family, n_epochs=2).fit(X, y)
    for report in (model.report(), model.report(X, y)):
        assert f"{family}: " in report.html
        assert f"{model.n_parameters_:,}" in report.html
        assert "NaN" not in report.html
        assert "nan" not in re.sub(r"<style>.*?</style>", "", report.html)
    assert "sandbox" in report._repr_html_()
    assert repr(report) == f"<Report of {len(report.html):,} characters; save(path) writes it>"
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == report.html
    with pytest.raises(ConfigError, match="labels"):
        model.report(X)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "rows.svm").write_text(rows_of_pairs(500))
    (folder / "new.svm").write_text("1 0:1 99:1\n0 1:1 13:1\n0 2:1 14:1\n1 3:1 15:1\n")
    options = ("--ranks", "2,8", "--epochs", 3, "--l2", "0.001", "--seed", 4, "--averaging")
    assert (
        run("train", folder / "rows.svm", "--valid", folder / "rows.svm", "--out", folder / "m.rafm", *options).code
        == 0
    )
    return folder


def command_of(folder, name):
    """Return the command on the page of a model, with its words."""
    assert run("report", folder / f"{name}.rafm", "--out", folder / f"{name}.html").code == 0
    return html.unescape(re.search(r"<code>(.*?)</code>", (folder / f"{name}.html").read_text())[1])


def assert_trains_the_same(folder, name):
    names = {"TRAIN": "rows.svm", "VALID": "rows.svm", "FIELDS": "fields.tsv", "MODEL": "again.rafm"}
    _, *words = command_of(folder, name).split()
    assert run(*(folder / names[word] if word in names else word for word in words)).code == 0
    assert (folder / "again.rafm").read_bytes() == (folder / f"{name}.rafm").read_bytes()


def test_the_command_of_the_page_trains_the_same_model(folder):
    assert " --valid VALID " in command_of(folder, "m")
    assert_trains_the_same(folder, "m")
    text = (folder / "m.html").read_text()
    assert "TRAIN stands for the training rows, VALID for the validation rows." in text
    assert "--resume-from" in text


def test_the_command_of_a_measured_model_trains_the_same_model(folder):
    given = ("--valid", folder / "rows.svm", "--ranks", "auto", "--epochs", 2, "--seed", 4)
    assert run("train", folder / "rows.svm", "--out", folder / "auto.rafm", *given).code == 0
    options = "--task binary --valid VALID --ranks auto --epochs 2 --init-scale 0.01 --seed 4"
    assert command_of(folder, "auto") == f"rafm train TRAIN --out MODEL {options}"
    assert_trains_the_same(folder, "auto")
    assert "of measured length" in (folder / "auto.html").read_text()


@pytest.mark.parametrize("limit", ["--max-parameters 90", "--max-bytes 9000"])
def test_the_command_of_a_model_of_limited_size_has_the_limit(folder, limit):
    given = (*limit.split(), "--valid", folder / "rows.svm", "--epochs", 2)
    assert run("train", folder / "rows.svm", "--out", folder / "small.rafm", *given).code == 0
    assert limit in command_of(folder, "small")
    assert_trains_the_same(folder, "small")


def test_the_command_has_the_fields_all_digits_and_what_is_held_out(folder):
    (folder / "fields.tsv").write_text("".join(f"{i}\t{'user' if i < 12 else 'item'}\n" for i in range(22)))
    given = ("--model", "fm", "--ranks", 2, "--epochs", 1, "--learning-rate", "0.123456789", "--valid-share", 0)
    rows = folder / "rows.svm"
    assert run("train", rows, "--out", folder / "f.rafm", "--fields", folder / "fields.tsv", *given).code == 0
    command = command_of(folder, "f")
    assert "--valid-share 0 --fields FIELDS --model fm" in command
    assert "--learning-rate 0.123456789 " in command
    assert_trains_the_same(folder, "f")


def test_unseen_values_are_counted(folder):
    assert run("report", folder / "m.rafm", "--data", folder / "new.svm", "--out", folder / "n.html").code == 0
    page = (folder / "n.html").read_text()
    assert "12.50% of the nonzeros" in page  # one of eight
    assert "Quality on new.svm" in page


def test_a_table_is_trained_again_with_its_label_and_its_unseen_values_are_not_called_none(folder):
    table = folder / "clicks.csv"
    table.write_text("user,did click\n" + "".join(f"u{i % 5},{i % 2}\n" for i in range(40)))
    given = ("--model", "lr", "--epochs", 2, "--valid-share", 0)
    assert run("train", table, "--label", "did click", "--out", folder / "t.rafm", *given).code == 0
    table.write_text("user,did click\nu1,1\nnew,0\n")
    assert run("report", folder / "t.rafm", "--data", table, "--out", folder / "t.html").code == 0
    page = html.unescape((folder / "t.html").read_text())
    assert "rafm train TRAIN --out MODEL --task binary --valid-share 0 --model lr --label 'did click'" in page
    assert "of the nonzeros have" not in page
    assert cells(page, "Values by column")["user"][3:] == ["1", "50.0%"]


def test_levels_are_those_of_the_plan(folder):
    run("report", folder / "m.rafm", "--out", folder / "m.html")
    found, model = cells((folder / "m.html").read_text(), "Parameters by level"), rafm.load(folder / "m.rafm")
    levels = model.levels_
    for level, rank in ((1, 2), (2, 8)):
        size = int((levels >= level).sum())
        assert found[str(level)][:2] == [str(rank), str(size)]
        assert found[str(level)][3] == f"{rank * size:,}"
    assert found["model"][3] == f"{model.n_parameters_:,}"
    assert found["plain FM"][3] == f"{1 + 22 * 9:,}"


def test_a_model_is_not_overwritten_by_its_report(folder):
    assert "would be overwritten" in run("report", folder / "m.rafm", "--out", folder / "m.rafm").error()
