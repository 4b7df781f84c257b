"""Import, train, save, predict and commands without what only POSIX has, as on Windows (case 139).

The functions, constants and modules are taken away from the standard library. What another system does differently,
such as not renaming open files, this does not show.
"""

import os
import subprocess
import sys

import pytest
from commands import NOTE, rows_of_pairs

WITHOUT = """
import multiprocessing, os, shutil, signal, subprocess, sys, tempfile  # some choose by the system when imported
import joblib, numba, numpy, pandas, pyarrow, scipy.sparse, sklearn.base, typer
import numba.core.codegen, pyarrow.csv, pyarrow.parquet

MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "posix", "syslog")
SIGNALS = ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGQUIT", "pthread_kill")
SIGNALS += ("pthread_sigmask", "setitimer", "sigwait", "siginterrupt", "alarm", "pause", "SIG_BLOCK", "SIG_UNBLOCK")
OF_OS = ("fork", "getuid", "geteuid", "getgid", "getegid", "sched_getaffinity", "sched_setaffinity", "sysconf")
OF_OS += ("posix_fadvise", "pread", "mkfifo", "statvfs", "killpg", "setsid", "getpgid", "register_at_fork", "uname")
OF_OS += ("fchmod", "chown", "fchown", "nice", "getloadavg", "wait", "set_blocking", "O_NOFOLLOW", "O_DIRECTORY")

for name in MODULES:
    sys.modules[name] = None
for module, names in ((signal, SIGNALS), (os, OF_OS)):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "another system"
"""

IN_PYTHON = """
import warnings
warnings.simplefilter("error")
from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor, Scorer, load

folder = sys.argv[1]
table = pyarrow.table({"user": [f"u{i % 50}" for i in range(400)], "film": [f"f{i * i % 31}" for i in range(400)]})
classes, numbers = [i // 3 % 2 for i in range(400)], [i * i // 7 % 5 + 0.5 for i in range(400)]
for model, labels in (
    (RaFMClassifier(model="fm", ranks=4, n_epochs=2, n_jobs=2), classes),
    (RaFMClassifier(model="ffm", ranks=2, n_epochs=2), classes),
    (RaFMRegressor(n_epochs=2), numbers),
    (RaFMRegressor(optimizer="gibbs", n_epochs=2), numbers),
):
    model.fit(table, labels).save(f"{folder}/model.rafm")
    expected = model.predict(table)
    assert (load(f"{folder}/model.rafm").predict(table) == expected).all()
    if model.optimizer != "gibbs":
        model.partial_fit(table, labels)
RaFMRanker(item_fields="film", n_epochs=1, ranks=4).fit(table)
print("done")
"""

COMMAND = """
from rafm.cli import main
main()
"""


def elsewhere(script, *arguments, cwd):
    """Run a script in a process of its own that lacks what only POSIX has."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", WITHOUT + script, *map(str, arguments)]
    ran = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=600)
    said = [line for line in ran.stderr.splitlines() if not line.startswith(NOTE)]
    return ran.returncode, ran.stdout, said


@pytest.mark.slow
def test_models_are_trained_saved_loaded_and_continued(tmp_path):  # case 139
    assert elsewhere(IN_PYTHON, tmp_path, cwd=tmp_path)[:2] == (0, "done\n")


@pytest.mark.slow
def test_commands_work(tmp_path):  # case 139
    (tmp_path / "rows.svm").write_text(rows_of_pairs())
    train = ("train", "rows.svm", "--out", "m.rafm", "--epochs", "2", "--model", "fm", "--ranks", "4")
    for command in (
        (*train, "--checkpoint", "state", "--threads", "2", "--events", "events.jsonl"),
        ("convert", "rows.svm", "rows.arrow"),
        ("train", "rows.arrow", "--out", "n.rafm", "--epochs", "1", "--memory", "0"),
        ("evaluate", "m.rafm", "rows.arrow"),
        ("predict", "m.rafm", "rows.svm", "--out", "predictions.txt"),
    ):
        code, _, said = elsewhere(COMMAND, *command, cwd=tmp_path)
        assert code == 0, (command, said)
    assert len((tmp_path / "predictions.txt").read_text().splitlines()) == 600


def test_serve_says_in_one_line_that_it_needs_another_system(tmp_path):  # case 139
    code, out, [line] = elsewhere(COMMAND, "serve", "m.rafm", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert line.startswith("error: rafm serve runs on Linux and macOS only")
