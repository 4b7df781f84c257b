"""Killed, stopped, damaged or full: training goes on from its folder to the same bytes, or says why it cannot."""

import os
import random
import re
import signal
import subprocess
import threading
import time
import warnings

import numpy as np
import pytest
from commands import finish, rows_of_pairs, run, run_alone, start
from worlds import changed_rows, planted

from rafm.checks import effective
from rafm.errors import CheckpointError, ConfigError, DivergenceError, ModelFormatError
from rafm.estimators import RaFMClassifier
from rafm.files.container import read_container
from rafm.model.file import load
from rafm.options import resolve
from rafm.read.converted.reader import ArrowRows
from rafm.read.converted.writer import write_arrow
from rafm.train.checkpoint import Checkpoint, RowsFingerprint, identity
from rafm.train.dispatch import run_recipe
from rafm.train.events import CheckpointWritten, EpochFinished, Finished, PieceFinished, Resumed
from rafm.train.resources import Resources
from rafm.train.steps import record_engine
from rafm.version import __version__

FAMILIES = {"lr": (), "fm": (8,), "difacto": (4, 8), "mrma": (4, 8), "rafm": (4, 8)}
MODEL, DIVERGED, SYSTEM, INTERRUPTED, TERMINATED = 4, 5, 6, 130, 143


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.fixture
def small_pieces(monkeypatch):
    """Train few rows at a time, so that little data have many places to stop at."""
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=900)


def options(**chosen):
    return resolve(
        **effective({"task": "binary", "ranks": (4, 8), "rank_scale": 0.2, "n_epochs": 4, "l2": 0, **chosen})
    )


def states_of(folder):
    return sorted(folder.glob("checkpoint-*.rafm"), key=lambda path: int(path.stem.split("-")[1]))


def bytes_of(model):
    arrays = model.parameters.arrays()
    return {name: array.tobytes() for name, array in arrays.items()} | {"history": model.history}


def train_in(folder, data, chosen, valid=None, stop_after=None, **settings):
    """Train with a checkpoint written after every piece; return all events, up to a kill after `stop_after` of them."""
    seen = []
    try:
        with Checkpoint(folder, **{"seconds": 0, **settings}) as checkpoint:
            for event in run_recipe(data, chosen, valid, Resources(checkpoint=checkpoint)):
                seen.append(event)
                if len(seen) == stop_after:
                    raise Killed
    except Killed:
        pass
    return seen


def model_of(events):
    assert isinstance(events[-1], Finished)
    return events[-1].model


# To the same bytes


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_killed_after_every_event_ends_with_the_same_model(family, clicks, small_pieces, tmp_path):
    """Each life gets a few events further than the one before."""
    data, valid = clicks
    chosen = options(model=family, ranks=FAMILIES[family], n_epochs=2)
    expected = bytes_of(model_of(list(run_recipe(data, chosen, valid))))
    for _ in range(200):
        events = train_in(tmp_path, data, chosen, valid, stop_after=9)
        if isinstance(events[-1], Finished):
            break
    assert isinstance(events[1], Resumed)
    assert bytes_of(model_of(events)) == expected


def test_rows_of_many_blocks_go_on_in_the_middle_of_any_of_them(clicks, small_pieces, tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 150)
    write_arrow(tmp_path / "rows.arrow", [clicks[0]])
    source, chosen = ArrowRows(tmp_path / "rows.arrow"), options(n_epochs=2)
    expected = bytes_of(model_of(list(run_recipe(source, chosen))))
    draw, places = random.Random(0), set()
    for _ in range(200):
        events = train_in(tmp_path / "states", source, chosen, stop_after=draw.randint(5, 12))
        places |= {(event.epoch, event.rows) for event in events if isinstance(event, Resumed)}
        if isinstance(events[-1], Finished):
            break
    assert {epoch for epoch, _ in places} >= {1, 2}
    assert any(rows % 150 for _, rows in places)
    assert bytes_of(model_of(events)) == expected


def test_another_number_of_threads_goes_on_to_the_same_bytes(clicks, small_pieces, tmp_path):
    expected = bytes_of(model_of(list(run_recipe(clicks[0], options()))))
    for threads in (2, 1, 3):
        train_in(tmp_path, clicks[0], options(threads=threads), stop_after=15)
    assert bytes_of(model_of(train_in(tmp_path, clicks[0], options(threads=2)))) == expected


def test_the_best_epoch_and_the_count_of_patience_survive(clicks, tmp_path):
    data, valid = clicks
    chosen = options(n_epochs=60, patience=2, learning_rate=0.5)
    whole = model_of(list(run_recipe(data, chosen, valid)))
    best = 1 + int(np.argmin([entry["valid_log_loss"] for entry in whole.history]))
    assert best + 2 == len(whole.history) < 60
    stop_after = 2 + 2 * (best + 1)  # one epoch into the wait
    train_in(tmp_path, data, chosen, valid, stop_after=stop_after, seconds=3600)
    events = train_in(tmp_path, data, chosen, valid)
    assert [event.epoch for event in events if isinstance(event, EpochFinished)] == [best + 2]
    assert model_of(events).best_epoch == whole.best_epoch
    assert bytes_of(model_of(events)) == bytes_of(whole)


def test_a_finished_run_gives_its_model_again_without_training(clicks, tmp_path):
    first = train_in(tmp_path, *clicks[:1], options())
    again = train_in(tmp_path, *clicks[:1], options())
    assert [type(event).__name__ for event in again] == ["Planned", "Resumed", "Finished"]
    assert again[1].finished
    assert read_container(states_of(tmp_path)[-1])[0]["finished"] is True
    assert bytes_of(model_of(again)) == bytes_of(model_of(first))


def test_states_are_written_when_it_is_time_and_at_the_end_of_epochs(clicks, small_pieces, tmp_path):
    often = train_in(tmp_path / "often", clicks[0], options(n_epochs=2))
    seldom = train_in(tmp_path / "seldom", clicks[0], options(n_epochs=2), seconds=3600)
    written = [[event for event in events if isinstance(event, CheckpointWritten)] for events in (often, seldom)]
    pieces = -(-clicks[0].n_rows // 64)
    assert [len(found) for found in written] == [2 * (pieces + 1), 2]
    assert [(event.epoch, event.rows) for event in written[1]] == [(2, 0), (3, 0)]
    assert [path.name for path in states_of(tmp_path / "seldom")] == ["checkpoint-1.rafm", "checkpoint-2.rafm"]
    assert len(states_of(tmp_path / "often")) == 2


def test_the_seconds_of_all_lives_are_added_up(clicks, small_pieces, tmp_path):
    train_in(tmp_path, clicks[0], options(), stop_after=6)
    before = read_container(states_of(tmp_path)[-1])[0]["seconds"]
    time.sleep(0.3)  # between two lives: does not count
    train_in(tmp_path, clicks[0], options(), stop_after=4)
    after = read_container(states_of(tmp_path)[-1])[0]["seconds"]
    assert before < after


# Another run


OTHER_OPTIONS = {
    "l2": ({"l2": 0.01}, "l2 was 0.0, now 0.01"),
    "seed": ({"seed": 1}, "seed was 0, now 1"),
    "model": ({"model": "difacto"}, "model was rafm, now difacto"),
    "ranks": ({"ranks": (4, 16)}, "ranks was 4,8, now 4,16"),
    "rank scale": ({"rank_scale": 1}, "rank_scale was 0.2, now 1.0"),
    "task": ({"task": "regression"}, "task was binary, now regression"),
    "epochs": ({"n_epochs": 5}, "epochs was 4, now 5"),
    "patience": ({"patience": None}, "patience was 3, now none"),
    "optimizer": ({"optimizer": "sgd"}, "optimizer was AdaGrad(batch_size=16, head_share=1.0), now Sgd("),
    "learning rate": ({"learning_rate": 0.1}, "learning_rate was 0.2, now 0.1"),
    "update": ({"update": "algorithm1"}, "update was joint, now algorithm1"),
}


@pytest.mark.parametrize("case", OTHER_OPTIONS)
def test_other_options_are_refused_by_name(case, clicks, tmp_path):  # case 60
    train_in(tmp_path, clicks[0], options(), stop_after=3)
    before = [path.read_bytes() for path in states_of(tmp_path)]
    change, message = OTHER_OPTIONS[case]
    with pytest.raises(CheckpointError) as caught:
        train_in(tmp_path, clicks[0], options(**change))
    assert message in str(caught.value)
    assert [path.read_bytes() for path in states_of(tmp_path)] == before


def other_data(clicks):
    data, valid = clicks
    labels = data.labels.copy()
    labels[[0, np.flatnonzero(labels != labels[0])[0]]] = labels[[np.flatnonzero(labels != labels[0])[0], 0]]
    fewer = changed_rows(
        data, indptr=data.indptr[:-1], indices=data.indices[:-2], values=data.values[:-2], labels=data.labels[:-1]
    )
    return {
        "two labels exchanged": (changed_rows(data, labels=labels), valid, "checksum of the training rows was"),
        "weights": (changed_rows(data, weights=np.ones(data.n_rows)), valid, "checksum of the training rows was"),
        "fewer rows": (fewer, valid, "training rows was 600, now 599"),
        "other validation rows": (data, fewer, "validation rows was 300, now 599"),
        "no validation rows": (data, None, "validation rows was 300, now 0"),
    }


@pytest.mark.parametrize("case", other_data(planted(n_rows=900)))
def test_other_data_are_refused_by_name(case, clicks, tmp_path):  # case 60
    train_in(tmp_path, clicks[0], options(), clicks[1], stop_after=3)
    data, valid, message = other_data(clicks)[case]
    with pytest.raises(CheckpointError) as caught:
        train_in(tmp_path, data, options(), valid)
    assert message in str(caught.value)


def test_another_version_is_refused_by_name(clicks, tmp_path, monkeypatch):  # case 60
    train_in(tmp_path, clicks[0], options(), stop_after=3)
    monkeypatch.setattr("rafm.train.checkpoint.__version__", "9.0")
    with pytest.raises(CheckpointError, match=rf"rafm was {re.escape(__version__)}, now 9\.0"):
        train_in(tmp_path, clicks[0], options())


def test_levels_given_one_by_one_are_told_apart_by_their_content():
    levels = np.array([1, 2, 2])
    first, same, other = (
        identity(options(levels=x), Resources(), RowsFingerprint(), None) for x in (levels, levels.copy(), levels[::-1])
    )
    assert first == same != other


def test_a_model_in_the_folder_is_not_taken_for_a_state(clicks, tmp_path):
    estimator = RaFMClassifier(ranks=(2,), model="fm", n_epochs=1).fit(np.eye(4), [0, 1, 0, 1])
    estimator.save(tmp_path / "checkpoint-7.rafm")
    with pytest.raises(CheckpointError, match=r"checkpoint-7\.rafm: is a model"):
        train_in(tmp_path, clicks[0], options())


def test_a_state_is_not_taken_for_a_model(clicks, tmp_path):
    train_in(tmp_path, clicks[0], options())
    with pytest.raises(ModelFormatError, match="is a checkpoint"):
        load(states_of(tmp_path)[-1])


# Damage


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_newest_state_falls_back_to_the_one_before(damage, clicks, small_pieces, tmp_path):
    expected = bytes_of(model_of(list(run_recipe(clicks[0], options()))))
    train_in(tmp_path, clicks[0], options(), stop_after=8)
    newest = states_of(tmp_path)[-1]
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 4
    newest.write_bytes({"cut": bytes(raw[:-50]), "flipped": bytes(raw), "empty": b""}[damage])
    told = []
    events = train_in(tmp_path, clicks[0], options(), tell=told.append)
    assert len(told) == 1
    assert newest.name in told[0]
    assert f"Resuming from the previous state, checkpoint-{int(newest.stem.split('-')[1]) - 1}.rafm" in told[0]
    assert bytes_of(model_of(events)) == expected


def test_two_damaged_states_are_an_error_and_stay(clicks, small_pieces, tmp_path):
    train_in(tmp_path, clicks[0], options(), stop_after=8)
    for path in states_of(tmp_path):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"is truncated.*Remove the directory to train from scratch"):
        train_in(tmp_path, clicks[0], options())
    assert len(states_of(tmp_path)) == 2


def test_what_a_kill_left_half_written_is_removed(clicks, tmp_path):  # case 76
    (tmp_path / ".checkpoint-3.rafm.0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    train_in(tmp_path, clicks[0], options(n_epochs=1))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-1.rafm", "checkpoint-2.rafm", "lock", "notes.txt"]


def test_a_state_is_on_the_disk_before_the_oldest_one_goes(clicks, tmp_path, monkeypatch):  # case 77
    steps = []
    for name in ("fsync", "replace", "unlink"):
        original = getattr(os, name)

        def noting(*arguments, name=name, original=original, **more):
            steps.append(name)
            return original(*arguments, **more)

        monkeypatch.setattr(os, name, noting)
    train_in(tmp_path, clicks[0], options(n_epochs=3), seconds=3600)
    assert steps == [*["fsync", "replace", "fsync"] * 3, "unlink"]


# One folder, one run


def test_a_second_run_in_the_same_folder_is_refused_and_the_lock_ends_with_the_process(clicks, tmp_path):  # case 65
    with Checkpoint(tmp_path), pytest.raises(CheckpointError, match="another run is writing its checkpoints here"):
        train_in(tmp_path, clicks[0], options())
    assert isinstance(train_in(tmp_path, clicks[0], options())[-1], Finished)


def test_a_negative_time_between_states_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="checkpoint_seconds must be"):
        Checkpoint(tmp_path, seconds=-1)


# Divergence


def test_after_divergence_the_last_finite_state_is_kept(tmp_path):  # case 54
    """One row in the last block is far too large; the state before it stays."""
    data, _ = planted("regression", n_rows=900)
    chosen = options(task="regression", optimizer="sgd", learning_rate=30.0, n_epochs=50)
    with pytest.raises(DivergenceError, match=r"epoch \d+.*Lower learning_rate \(now 30\)") as caught:
        train_in(tmp_path, data, chosen)
    assert caught.value.epoch >= 1
    for path in states_of(tmp_path):
        header, arrays = read_container(path)
        assert header["position"]["epoch"] <= caught.value.epoch
        assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")


def test_a_state_that_is_not_finite_is_not_written_but_told_once(clicks, tmp_path):
    told = []
    with Checkpoint(tmp_path, tell=told.append) as checkpoint:
        checkpoint.capture = lambda: ({}, {"engine.bias": np.ones(2)})
        assert checkpoint.write() is not None
        checkpoint.capture = lambda: ({}, {"engine.bias": np.array([1, np.nan])})
        assert checkpoint.write() is checkpoint.write() is None
    assert len(states_of(tmp_path)) == len(told) == 1
    assert "no checkpoint written" in told[0]


# Interrupts


def interrupting(monkeypatch, number, at):
    """Let a signal arrive inside of the kernel, when it is called for the n-th time."""
    step, calls = record_engine.train_rows, []

    def interrupted(*arguments):
        found = step(*arguments)
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), number)
            time.sleep(0.01)
        return found

    monkeypatch.setattr(record_engine, "train_rows", interrupted)


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interrupt_inside_of_a_piece_waits_for_its_end(number, error, clicks, small_pieces, tmp_path, monkeypatch):
    expected = bytes_of(model_of(list(run_recipe(clicks[0], options()))))
    handlers = [signal.getsignal(known) for known in (signal.SIGINT, signal.SIGTERM)]
    told = []
    with monkeypatch.context() as patch:
        interrupting(patch, number, at=15)
        with pytest.raises(error) as caught:
            train_in(tmp_path, clicks[0], options(), seconds=3600, tell=told.append)
    assert error is KeyboardInterrupt or caught.value.code == TERMINATED
    assert [signal.getsignal(known) for known in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert told == [f"{tmp_path}: checkpoint written; run the same command again to resume"]
    position = read_container(states_of(tmp_path)[-1])[0]["position"]
    assert (position["epoch"], position["rows"]) == (2, 5 * 64)
    assert bytes_of(model_of(train_in(tmp_path, clicks[0], options(), seconds=3600))) == expected


def test_an_interrupt_while_the_loss_stops_being_finite_writes_nothing(clicks, small_pieces, tmp_path, monkeypatch):
    step, told = record_engine.train_rows, []

    def diverged(*arguments):
        step(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return 1.0, 5, 64

    monkeypatch.setattr(record_engine, "train_rows", diverged)
    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path, clicks[0], options(), tell=told.append)
    assert os.listdir(tmp_path) == ["lock"]
    assert told == []


def test_an_interrupt_in_whoever_reads_the_events_writes_a_state_too(clicks, small_pieces, tmp_path):
    def interrupted():
        with Checkpoint(tmp_path, 3600, lambda text: None) as checkpoint:
            for event in run_recipe(clicks[0], options(), None, Resources(checkpoint=checkpoint)):
                if isinstance(event, PieceFinished):
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read_container(states_of(tmp_path)[-1])[0]["position"]["rows"] == 64


def test_an_interrupt_just_after_a_state_is_renamed_overwrites_no_state(tmp_path, monkeypatch):
    # A disk under load may sync a directory for seconds; the state is in place by then, but not yet counted.
    sync, calls = os.fsync, []

    def interrupted(descriptor):
        sync(descriptor)
        calls.append(descriptor)
        if len(calls) == 2:  # the file, then its directory
            raise KeyboardInterrupt

    def write():
        with Checkpoint(tmp_path, tell=lambda text: None) as checkpoint:
            checkpoint.capture = lambda: ({"place": len(calls)}, {"engine.bias": np.ones(2)})
            checkpoint.write()

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write()
    assert [read_container(path)[0]["place"] for path in states_of(tmp_path)] == [0, 2]


def test_an_ignored_interrupt_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Checkpoint(tmp_path):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_trains_with_a_checkpoint_too(clicks, tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.extend(train_in(tmp_path, clicks[0], options())))
    thread.start()
    thread.join()
    assert isinstance(found[-1], Finished)


# The estimator


def test_a_fit_goes_on_from_its_folder(small_pieces, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (500, 12)), rng.integers(0, 2, 500)
    make = lambda: RaFMClassifier(ranks=(2, 4), rank_scale=0.1, n_epochs=3)  # noqa: E731
    expected = make().fit(X, y).decision_function(X)
    with monkeypatch.context() as patch:
        interrupting(patch, signal.SIGINT, at=10)
        with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="checkpoint written"):
            make().fit(X, y, checkpoint=tmp_path / "states")
    with warnings.catch_warnings(action="error"):
        again = make().fit(X, y, checkpoint=tmp_path / "states", checkpoint_seconds=5)
    np.testing.assert_array_equal(again.decision_function(X), expected)


# The command


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "train.svm").write_text(rows_of_pairs(150_000))
    (folder / "valid.svm").write_text(rows_of_pairs(2000, seed=1))
    assert run(*command(folder, folder / "whole.rafm")).code == 0
    return folder


def command(rows, out, *more):
    files = ("train", rows / "train.svm", "--valid", rows / "valid.svm", "--out", out)
    return (*files, "--ranks", "8,64", "--epochs", "12", "--patience", "12", *more)


def wait_for_state(folder, process):
    """Wait until a state is there that is not the one before."""
    before = states_of(folder)[-1:] if folder.exists() else []
    while process.poll() is None and (not folder.exists() or states_of(folder)[-1:] == before):
        time.sleep(0.01)


@pytest.mark.slow
def test_kills_later_the_model_has_the_same_bytes(rows, tmp_path):  # case 59
    resuming = command(rows, tmp_path / "m.rafm", "--checkpoint", tmp_path / "states", "--checkpoint-seconds", "0")
    draw, kills = random.Random(5), 0
    for _ in range(3):
        process = start(*resuming, stdin=subprocess.DEVNULL)
        wait_for_state(tmp_path / "states", process)
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        kills += finish(process).code == -signal.SIGKILL
    assert kills >= 2
    ran = run(*resuming)
    assert ran.code == 0
    assert f"resuming from {tmp_path / 'states'}: " in ran.out
    assert (tmp_path / "m.rafm").read_bytes() == (rows / "whole.rafm").read_bytes()
    assert run(*resuming).out.splitlines()[-3].endswith("training is complete after 12 epochs")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
def test_a_stopped_command_leaves_a_state_that_says_where_it_was(rows, tmp_path, number, code):  # case 58
    resuming = command(rows, tmp_path / "m.rafm", "--checkpoint", tmp_path / "states", "--checkpoint-seconds", "3600")
    process = start(*resuming, stdin=subprocess.DEVNULL)
    wait_for_state(tmp_path / "states", process)
    process.send_signal(number)
    ran = finish(process)
    assert ran.code == code
    written = f"{tmp_path / 'states'}: checkpoint written; run the same command again to resume"
    assert ran.err.splitlines()[0] == written
    assert "Traceback" not in ran.err
    assert not (tmp_path / "m.rafm").exists()
    assert run_alone(*resuming).code == 0
    assert (tmp_path / "m.rafm").read_bytes() == (rows / "whole.rafm").read_bytes()


def test_a_command_in_a_folder_in_use_or_of_another_run_is_one_line(tmp_path, monkeypatch):  # cases 60 and 65
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(60))
    arguments = ("train", "rows.svm", "--out", "m.rafm", "--epochs", "2", "--checkpoint", "states", "--l2", "0.003")
    arguments += ("--valid-share", "0")
    with Checkpoint("states"):
        ran = run(*arguments)
    assert ran.code == MODEL
    assert ran.error() == (
        "states: another run is writing its checkpoints here. Wait for it, or use another directory."
    )
    assert run(*arguments).code == 0
    ran = run(*arguments, "--l2", "0.01")
    assert ran.code == MODEL
    assert ran.error() == (
        "states: the checkpoint belongs to another run: l2 was 0.003, now 0.01. "
        "Repeat the command of that run, or use another directory."
    )


def test_divergence_names_what_to_change_and_leaves_no_model(tmp_path, monkeypatch):  # case 54
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(600, labels=("1", "5")))
    choices = ("--task", "regression", "--optimizer", "sgd", "--learning-rate", "1e6", "--checkpoint", "states")
    ran = run("train", "rows.svm", "--out", "m.rafm", *choices)
    assert ran.code == DIVERGED
    assert "of epoch 1" in ran.err
    assert "Lower --learning-rate (now 1e+06)" in ran.err
    assert not (tmp_path / "m.rafm").exists()


def test_a_full_disk_is_told_once_and_training_ends_well(rows, tmp_path):  # case 75
    """The limit on file sizes is above that of the model, and of states without a best epoch, but not of those with."""
    size = (rows / "whole.rafm").stat().st_size
    arguments = command(rows, tmp_path / "m.rafm", "--checkpoint", tmp_path / "states", "--checkpoint-seconds", "0")
    ran = run_alone(*arguments, limit=("RLIMIT_FSIZE", size + 100))
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"{tmp_path / 'states'}: no checkpoint written: File too large. Training continues")
    kept = [read_container(path)[0]["position"] for path in states_of(tmp_path / "states")]
    assert [(position["epoch"], position["rows"]) for position in kept] == [(1, 131_072), (1, 150_000)]
    assert not list((tmp_path / "states").glob(".*"))
    assert (tmp_path / "m.rafm").read_bytes() == (rows / "whole.rafm").read_bytes()


def test_a_full_disk_later_on_leaves_the_state_before_it(clicks, small_pieces, tmp_path, monkeypatch):  # case 75
    """The disk is full after the third state; the run is killed, and goes on from the third when there is room."""
    expected = bytes_of(model_of(list(run_recipe(clicks[0], options()))))
    write, told = os.fsync, []

    def full(descriptor):
        if len(states_of(tmp_path)) == 2:
            raise OSError(28, "No space left on device")
        write(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        train_in(tmp_path, clicks[0], options(), stop_after=20, tell=told.append)
    assert told == [
        f"{tmp_path}: no checkpoint written: No space left on device. Training continues; the previous one is kept."
    ]
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-1.rafm", "checkpoint-2.rafm", "lock"]
    assert bytes_of(model_of(train_in(tmp_path, clicks[0], options()))) == expected
