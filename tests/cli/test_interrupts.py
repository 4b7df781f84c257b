"""Ctrl-C while a command starts: exit code 130 and one line, whatever was being imported (case 129)."""

import os
import signal
import subprocess
import sys

import pytest
from commands import rows_of_pairs

from rafm.cli.compiling import NOTE

LINE, TERMINATED = "error: interrupted", "error: terminated"

AT_AN_EVENT = """
import signal, sys
from rafm.cli import main

_, at, *arguments = sys.argv
seen, at = 0, int(at)

def interrupt(event, _):
    global seen
    if event in ("import", "open", "exec"):
        seen += 1
        if seen == at:
            signal.raise_signal(signal.SIGINT)

sys.argv = ["rafm", *arguments]
sys.addaudithook(interrupt)
try:
    main()
finally:
    print(seen, file=sys.stderr)
"""
"""Sends Ctrl-C at the given event of those that Python reports: imports, files opened, code executed."""

IN_A_CALLBACK = """
import signal, sys
from rafm.cli import main

_, module, *arguments = sys.argv

def interrupt(frame, event, _):
    if event == "call" and frame.f_code.co_name == "cb" and module in sys.modules:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

sys.argv = ["rafm", *arguments]
sys.setprofile(interrupt)
main()
"""
"""Sends Ctrl-C when a callback forgets the lock of a module, where Python drops exceptions."""

WHERE_IT_IS_CLEARED = """
import contextlib, signal, sys
from rafm.cli import main

_, number, *arguments = sys.argv

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numba" and "numba" not in sys.modules:
            with contextlib.suppress(BaseException):
                signal.raise_signal(int(number))

sys.argv = ["rafm", *arguments]
sys.meta_path.insert(0, Finder())
main()
"""
"""Sends a signal during an import that clears what is raised, as those of extension modules do."""


def python(*arguments, **settings):
    """Start Python in a process of its own, which imports everything itself."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, text=True, **settings)


def ended(process):
    """Return the exit code of a process and what it printed on stderr, but for the note that it compiles."""
    err = process.communicate(timeout=600)[1]
    return process.returncode, [line for line in err.splitlines() if not line.startswith(NOTE)]


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Return a command that imports about everything and then has little to do."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "rows.svm").write_text(rows_of_pairs(30))
    given = ("--epochs", "1", "--ranks", "2")
    command = "train", folder / "rows.svm", "--out", folder / "m.rafm", *given
    assert ended(python("-m", "rafm", *command))[0] == 0  # compiles, if nobody else did
    return command


@pytest.mark.slow
def test_ctrl_c_at_any_import_ends_a_command_with_one_line(command):  # case 129
    code, [*_, n_events] = ended(python("-c", AT_AN_EVENT, 0, *command))
    assert code == 0
    assert int(n_events) > 500
    for at in range(1, int(n_events), int(n_events) // 20):
        code, lines = ended(python("-c", AT_AN_EVENT, at, *command))
        assert (code, lines[0]) == (130, LINE), f"event {at} of {n_events}: {lines}"


@pytest.mark.parametrize("module", ["rafm.cli", "numba"])
def test_ctrl_c_is_not_lost_in_a_callback_of_an_import(command, module):  # case 129
    assert ended(python("-c", IN_A_CALLBACK, module, *command)) == (130, [LINE])


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, (130, [LINE])), (signal.SIGTERM, (143, [TERMINATED]))]
)
def test_a_signal_is_not_lost_in_an_import_that_clears_it(command, number, expected):  # case 129
    assert ended(python("-c", WHERE_IT_IS_CLEARED, int(number), *command)) == expected


HANGING_IMPORT = """
import signal, sys, time
from rafm.cli import interrupts, main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            signal.raise_signal(signal.SIGINT)
            time.sleep(600)

interrupts.IMPORT_SECONDS = 0.1
sys.argv[0] = "rafm"
sys.meta_path.insert(0, Finder())
main()
"""


def test_ctrl_c_ends_an_import_that_hangs(command):  # case 129
    assert ended(python("-c", HANGING_IMPORT, *command)) == (130, [LINE])
