"""The C program compiles without a warning, scores as `predict` does, and refuses what it cannot score."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from models import WORLDS, as_batch, ids_of, rows_of_ids, saved_world

from rafm.errors import ConfigError
from rafm.export import c
from rafm.export.export import export

COMPILER = shutil.which("gcc")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-O1"]
CHECKED = ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs gcc")


def compiled(saved, folder, *flags):
    """Export and compile a model; return the path of the program."""
    export(saved, "c", folder / "model.c")
    command = [COMPILER, *STRICT, *CHECKED, *flags, folder / "model.c", "-o", folder / "model", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "model"


def run(program, text):
    data = text.encode() if isinstance(text, str) else text
    return subprocess.run([program], input=data, capture_output=True)


def lines_of(rows, base):
    return "".join("1 " + " ".join(f"{id + base}:{value!r}" for id, value in row.items()) + "\n" for row in rows)


@pytest.fixture(scope="module", params=WORLDS)
def program(request, tmp_path_factory):
    saved = saved_world(request.param)
    return saved, compiled(saved, tmp_path_factory.mktemp("c"))


@examples(0.08)
@given(data=st.data())
def test_the_program_predicts_as_the_model_does(program, data):
    saved, path = program
    rows = data.draw(st.lists(rows_of_ids(saved.model), min_size=1, max_size=20))
    done = run(path, lines_of(rows, saved.index_base))
    assert (done.returncode, done.stderr) == (0, b"")
    expected = saved.model.predict(as_batch(rows))
    np.testing.assert_allclose(np.array(done.stdout.split(), float), expected, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return a program that takes five features, whose ids start from 1."""
    return compiled(saved_world("rafm"), tmp_path_factory.mktemp("small"), "-DRAFM_MAX_NONZEROS=5")


READ = {
    "comments and blank lines": "# rows\n\n1 2:1 # the first\n   \n0 3:1\n",
    "no label": "2:1\n3:1\n",
    "windows": "1 2:1\r\n0 3:1\r\n",
    "tabs and no end": "1\t2:1.0\n0  3:1e0",
    "an unknown id of many digits": "1 2:1 9223372036854775807:1\n0 3:1\n",
}


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_lines_are_read_as_libsvm(small, text):
    assert run(small, text).stdout == run(small, "1 2:1\n0 3:1\n").stdout != b""


def test_a_row_of_nothing_is_predicted_by_the_bias(small):
    bias = saved_world("rafm").model.parameters.bias[0]
    assert float(run(small, "1\n").stdout) == pytest.approx(1 / (1 + np.exp(-float(bias))), abs=1e-7)


KNOWN = [id + 1 for id in ids_of("rafm")]
WRONG = {
    "no value": ("1 2:1\n1 3:\n", "-:2:3: expected id:value"),
    "no id": ("1 :1\n", "-:1:3: expected id:value"),
    "a word": ("1 2:1 spam\n", "-:1:7: expected id:value"),
    "nan": ("1 2:nan\n", "-:1:3: expected id:value"),
    "infinite": ("1 2:inf\n", "-:1:3: expected id:value"),
    "hexadecimal": ("1 2:0x1\n", "-:1:3: expected id:value"),
    "libffm": ("1 0:2:1\n", "-:1:3: expected id:value"),
    "too large a value": ("1 2:1e400\n", "-:1: a value or the score is not finite"),
    "too large an id": ("1 99999999999999999999:1\n", "-:1:3: expected id:value"),
    "a negative id": ("1 -2:1\n", "-:1:3: expected id:value"),
    "an id below the base": ("1 0:1\n", "-:1: a feature id is below the first one"),
    "an id twice": (f"1 {KNOWN[0]}:1 {KNOWN[0]}:1\n", "-:1: a feature id occurs twice"),
    "too many": ("1 " + " ".join(f"{id}:1" for id in KNOWN[:6]), "-:1: too many features; compile with a larger"),
    "bytes": (b"1 \xff:1\n", "-:1:3: expected id:value"),
}


NO_ROWS = {
    "CSV": "junk,row,here",
    "CSV of numbers": "1,2,3",
    "a word": "junk",
    "a word before entries": "junk 2:1",
    "JSON": '{"user": "ann"}',
    "a label that is not finite": "nan 2:1",
    "an infinite label": "inf 2:1",
    "too large a label": "1e400 2:1",
    "a hexadecimal label": "0x1 2:1",
    "a label of digits and more": "1_0 2:1",
    "signs": "+-1 2:1",
    "a query": "qid:1 2:1",
    "a byte of zero": "\0junk",
    "UTF-16": "1 2:1".encode("utf-16-le"),
}


@pytest.mark.parametrize("line", NO_ROWS.values(), ids=NO_ROWS)
def test_text_that_is_not_rows_is_refused_with_its_line(small, line):  # case 140
    line = line.encode() if isinstance(line, str) else line
    done = run(small, b"1 2:1\n" + line + b"\n")
    assert (done.returncode, done.stdout) == (3, run(small, "1 2:1\n").stdout)
    assert re.fullmatch(rb"error: -:2:[12]: expected [^\n]*id:value\n", done.stderr), done.stderr


def test_what_a_byte_of_zero_hides_is_no_row(small):  # case 140
    assert run(small, "1 2:1\0 junk\n").returncode == run(small, "1 2:1 3:1\0\n").returncode == 3


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_scored_is_refused_with_its_line(small, text, message):
    done = run(small, text)
    assert done.returncode == 3
    assert done.stderr.decode().startswith(f"error: {message}")


@examples(0.3)
@given(text=st.one_of(st.binary(max_size=60), st.text("0123456789:.-+eE# \t\n", max_size=60)))
def test_any_input_ends_in_predictions_or_one_line_of_error(small, text):
    """The sanitizers would end it otherwise."""
    done = run(small, text)
    assert done.returncode in (0, 3)
    assert done.stderr.count(b"\n") == (done.returncode == 3)


CALLER = """
#define RAFM_NO_MAIN
#include "model.c"
int main(void)
{
    int64_t ids[] = {%s};
    float values[] = {%s};
    double prediction = 0;
    if (rafm_predict(ids, values, 3, &prediction) != RAFM_OK) return 1;
    if (rafm_predict(ids, values, 0, &prediction) != RAFM_OK) return 1;
    ids[0] = -1;
    return rafm_predict(ids, values, 3, &prediction) == RAFM_NEGATIVE ? 0 : 2;
}
"""


def test_it_can_be_called_from_another_program(tmp_path):
    export(saved_world("fm"), "c", tmp_path / "model.c")
    (tmp_path / "caller.c").write_text(CALLER % ("1, 2, 3", "1, 1, 0.5f"))
    command = [COMPILER, *STRICT, *CHECKED, tmp_path / "caller.c", "-o", tmp_path / "caller", "-lm"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
    assert subprocess.run([tmp_path / "caller"]).returncode == 0


def test_a_model_too_large_for_a_compiler_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(c, "MAX_NUMBERS", 10)
    with pytest.raises(ConfigError, match=r"but a C file may hold 10\. Make it smaller"):
        export(saved_world("fm"), "c", tmp_path / "model.c")
