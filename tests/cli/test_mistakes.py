"""docs/mistakes.md is true: each mistake gives the message and the exit code of its row, and its way out works."""

import gzip
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from commands import Ran, rows_of_pairs, run
from pyarrow import parquet

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
ROW = re.compile(r"^\| `(?P<typed>rafm .*?)` \| (?P<said>.*?) \| (?P<code>\d+) \| (?P<way_out>.*?) \|$", re.MULTILINE)
MISTAKES = [found.groupdict() for found in ROW.finditer(PAGE.read_text())]
HEADER = "click,user,item,price\n"


def clicks(labels=("no", "yes"), n_rows=60):
    return HEADER + "".join(f"{labels[i % len(labels)]},u{i % 7},i{i % 5},{i % 9}.5\n" for i in range(n_rows))


def text_files():
    """Return the content of every text file that a command of the page names."""
    table = clicks()
    return {
        "rows.svm": rows_of_pairs(80),
        "ones.svm": rows_of_pairs(40, labels=("1", "1")),
        "ratings.svm": "".join(f"{1 + i % 5} {i % 9}:1 {9 + i % 4}:1\n" for i in range(80)),
        "mixed.svm": "1 3:1\n0 4:1\n-1 5:1\n",
        "typo.svm": "1 3:1\n0 17;1\n",
        "nan.svm": "1 3:1\n0 4:nan\n",
        "twice.svm": "1 3:1\n0 4:1 4:1\n",
        "fields.ffm": "1 0:3:1 1:7:1\n0 0:4:1 1:8:1\n",
        "clicks.csv": table,
        "plays.csv": "user,film\n" + "".join(f"u{i % 7},f{i % 7 % 5}\n" for i in range(60)),
        "more.csv": table + "maybe,u1,i1,2.5\n",
        "test.csv": re.sub(r"(?m)^\w+,", "", table),
        "renamed.csv": table.replace("user", "visitor", 1),
        "gaps.csv": table + ",u1,i1,2.5\n",
        "words.csv": table + "yes,u1,i1,cheap\n",
        "ragged.csv": table + "yes,u1,i1\n",
        "colours.csv": clicks(("red", "green", "blue")),
        "headless.csv": table.removeprefix(HEADER).replace("u0,i0,0.5", "u0,u0,0.5", 1),
        "index.csv": "".join(f"{'' if k == 0 else k - 1},{line}\n" for k, line in enumerate(table.splitlines())),
        "commas.csv": re.sub(r"(\d)\.5", r'"\1,5"', table),
        "dates.csv": "click,day\n" + "".join(f"{i % 2},{31 - i % 9}/12/2014\n" for i in range(60)),
        "empty.csv": "",
        "header.csv": HEADER,
    }


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the files that the page names."""
    folder = tmp_path_factory.mktemp("mistakes")
    before = os.getcwd()
    os.chdir(folder)
    try:
        for name, text in text_files().items():
            Path(name).write_text(text)
        Path("utf16.csv").write_bytes(clicks().encode("utf-16"))
        Path("photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
        Path("cut.csv.gz").write_bytes(gzip.compress(clicks(n_rows=5000).encode())[:-20])
        Path("folder").mkdir()
        Path("parts").mkdir()
        columns = {"click": ["no", "yes"] * 20, "user": [f"u{i % 7}" for i in range(40)]}
        parquet.write_table(pa.table(columns), "parts/part-0.parquet")
        for command in (
            "train rows.svm --out ids.rafm --ranks 2,4",
            "train clicks.csv --label click --out table.rafm --ranks 2,4",
            "train rows.svm --out other.rafm --ranks 2,4 --checkpoint states",
            "convert clicks.csv clicks.arrow --label click",
            "convert clicks.csv other.arrow --label click --min-count 20",
            "convert rows.svm rows.arrow",
        ):
            quick(shlex.split(command))
        raw = Path("ids.rafm").read_bytes()
        Path("damaged.rafm").write_bytes(raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:])
        Path("cut.rafm").write_bytes(raw[:-9])
        yield folder
    finally:
        os.chdir(before)


def quick(arguments):
    """Run a command in this process; train for one epoch on all rows unless told otherwise."""
    more = ()
    if arguments[0] == "train" and not {"--epochs", "--num-epochs"}.intersection(arguments):
        more += ("--epochs", "1")
    if arguments[0] == "train" and not any(word.startswith(("--valid", "--checkpoint")) for word in arguments):
        more += ("--valid-share", "0")
    return run(*arguments, *more)


def typed(command):
    """Run a command as a user types it; one with a pipe or a redirection in a shell."""
    if not re.search(r"[|<>]", command):
        return quick(shlex.split(command)[1:])
    program = f'rafm() {{ "{sys.executable}" -m rafm "$@"; }}; set -o pipefail; {command}'
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=environment, timeout=600)
    return Ran(done.returncode, done.stdout, done.stderr)


def spans(cell):
    """Return the code in a cell of the table."""
    found = re.findall(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", cell)
    return [code.replace("\\|", "|").strip() for _, code in found]


@pytest.mark.parametrize("row", MISTAKES, ids=[row["typed"] for row in MISTAKES])
def test_a_mistake_is_answered_as_the_page_says_and_its_way_out_works(row, prepared):  # case 136, among others
    ran = typed(row["typed"].replace("\\|", "|"))
    assert ran.code == int(row["code"]), ran
    if said := spans(row["said"]):
        pattern = ".*".join(re.escape(part) for part in said[0].split("..."))
        assert re.fullmatch(f"(?s)(?:.*\n)?error: {pattern}\n", ran.err), ran.err
        assert ran.err.count("error: ") == 1
    else:
        assert ran.err == ""
    for way_out in spans(row["way_out"]):
        if way_out.startswith("rafm "):
            again = typed(way_out)
            assert again.code == 0, again


def test_the_page_has_many_mistakes_of_every_kind():
    assert len(MISTAKES) >= 60
    assert len({row["typed"] for row in MISTAKES}) == len(MISTAKES)
    assert {row["code"] for row in MISTAKES} >= {"0", "2", "3", "4", "5", "6"}
    assert PAGE.read_text().count("\n| `rafm ") == len(MISTAKES)
    assert all(spans(row["way_out"]) or len(row["way_out"]) > 10 for row in MISTAKES)
