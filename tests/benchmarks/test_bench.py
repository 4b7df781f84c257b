"""The benchmarks at tiny sizes: the command, bounded processes, and the arithmetic of slopes, rooflines and targets."""

import functools
import importlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import run as run_rafm

from benchmarks.bench.__main__ import main
from benchmarks.bench.budget import FULL, QUICK
from benchmarks.bench.child import Ran, anonymous_kilobytes, call, watch
from benchmarks.bench.clock import epoch_seconds
from benchmarks.bench.command import choose_parts, run_bench, write_results
from benchmarks.bench.contestants import CONTESTANTS, SETTINGS, is_installed, library_of
from benchmarks.bench.growth import RANK_SETS, cases, slope
from benchmarks.bench.memory import RANK, TIMES, accumulators, rafm, run_memory
from benchmarks.bench.peers import PEERS, time_peer
from benchmarks.bench.race import run_once, soonest, target_of, write_files
from benchmarks.bench.report import WRITERS, number, speed_lines
from benchmarks.bench.roofline import Limits, bound, compare_with_limits, measure_limits, work_per_factor
from benchmarks.bench.shapes import even_rows, frappe_shaped
from benchmarks.bench.speed import describe_line, is_hopeless
from benchmarks.bench.trainee import CALM, Trainee
from rafm.rows.fields import Fields

run = functools.partial(run_rafm, main=main)
reads_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@pytest.mark.slow
def test_the_command_writes_tables_numbers_and_pictures(tmp_path):
    ran = run("parse", "growth", "--scale", 0.002, "--out", tmp_path, "--json")
    assert ran.code == 0, ran.err
    result = ran.json()
    assert result == json.loads((tmp_path / "bench.json").read_text())
    assert list(result["parts"]) == ["parse", "growth"]
    text = (tmp_path / "bench.txt").read_text()
    for words in ("Parsing libsvm text", "Time of an epoch"):
        assert words in text
    assert (tmp_path / "bench-growth.png").read_bytes().startswith(b"\x89PNG")


def call_here(module, function, limit, threads=1, **arguments):
    """Call a function of the benchmark in this process, which has imported all; others are started by other tests."""
    found = getattr(importlib.import_module(f"benchmarks.bench.{module}"), function)
    return {**found(**json.loads(json.dumps(arguments)), threads=threads), "peak": 0.0}


@pytest.mark.slow
def test_everyone_in_a_race_reaches_its_target(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.bench.race.call", call_here)
    budget = replace(FULL, race_rows=20_000, race_settings=1, race_epochs=1)
    result = run_bench(["race"], ["sklearn"], budget, str)
    write_results(result, tmp_path)
    race = result["parts"]["race"]
    assert not any("failed" in line for line in race["lines"])
    assert {name: [point["epochs"] for point in points] for name, points in race["runs"].items()} == {
        "rafm": [1],
        "rafm-ffm": [1],
        "sklearn": [1],
    }
    assert {(line["contestant"], line["threads"]) for line in race["lines"]} == {
        *((name, 1) for name in ("rafm", "rafm-ffm", "sklearn")),
        *((name, 2) for name in ("rafm", "rafm-ffm")),
    }
    assert all(line["loss"] <= race["target"] for line in race["lines"] if line["threads"] == 1)
    assert "From text to loss" in (tmp_path / "bench.txt").read_text()
    assert (tmp_path / "bench-race.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_speed_and_roofline_agree_with_each_other(tmp_path, monkeypatch):
    for caller in ("speed", "command"):
        monkeypatch.setattr(f"benchmarks.bench.{caller}.call", call_here)
    budget = replace(QUICK.scaled(0.01), ranks=(8,))
    result = run_bench(choose_parts(["roofline"]), [], budget, str)
    write_results(result, tmp_path)
    parts = result["parts"]
    assert list(parts) == ["speed", "roofline"]
    measured = {(line["shape"], line["rank"]): line for line in parts["speed"]["lines"] if line["threads"] == 1}
    assert len(measured) == 2
    for line in parts["roofline"]["lines"]:
        size, own = parts["speed"]["shapes"][line["shape"]], measured[line["shape"], line["rank"]]
        assert line["seconds"] * size["nonzeros"] * line["rank"] == pytest.approx(own["cpu"])
        assert line["share"] == pytest.approx(line["least_seconds"] / line["seconds"])
        assert 0 < line["share"] < 1
    assert (tmp_path / "bench-speed.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rase"], "unknown part 'rase'; choose from race, speed"),
        (["--peers", "xlern"], "unknown peer 'xlern'; choose from xlearn"),
        (["--peers", "libfm"], "peer 'libfm' is not installed"),
    ],
    ids=["part", "peer", "absent peer"],
)
def test_wrong_names_are_refused(arguments, message, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ran = run(*arguments)
    assert ran.code == 2
    assert message in ran.error()


# Processes


def test_a_process_that_hangs_is_stopped_with_all_it_started(tmp_path):
    marks = tmp_path / "marks"
    inner = f"import time\nwhile True:\n    open({str(marks)!r}, 'a').write('x'); time.sleep(0.02)"
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]).wait()"
    ran = watch([sys.executable, "-c", program], 3)
    assert ran.failure == "stopped after 3 s"
    size = marks.stat().st_size
    assert size > 0
    time.sleep(0.3)
    assert marks.stat().st_size == size


def test_a_crash_is_reported_and_not_fatal():
    found = call("race", "run_once", 600, contestant="rafm", folder="/no/such/folder", epochs=1, settings={})
    assert found["failed"].startswith("exit code 1: ")
    assert "train.libsvm" in found["failed"]


@reads_proc
def test_the_peak_counts_what_a_process_asked_for():
    ran = watch([sys.executable, "-c", "import time; x = bytearray(b'1') * 200_000_000; time.sleep(0.3)"], 60)
    assert 200 < ran.peak < 300
    assert anonymous_kilobytes(2**22 + 1) == 0


# The race


def test_targets_are_reached_by_all_and_the_soonest_run_is_chosen():
    runs = {"a": [{"loss": 0.5, "elapsed": 1.0}, {"loss": 0.4, "elapsed": 3.0}], "b": [{"loss": 0.45, "elapsed": 9.0}]}
    target = target_of({**runs, "crashed": [], "lost": [{"loss": 0.7, "elapsed": 1.0}]}, constant=0.6)
    assert target == 0.45
    assert soonest(runs["a"], target)["elapsed"] == 3.0
    assert soonest(runs["a"], 0.5)["elapsed"] == 1.0
    assert soonest(runs["b"], 0.4) is None


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_contestants_learn_from_the_text(contestant, tmp_path, monkeypatch):
    if contestant not in ("rafm", "rafm-ffm") and not is_installed(library_of(contestant)):
        pytest.skip(f"{contestant} is not installed")
    monkeypatch.chdir(tmp_path)
    constant = write_files(tmp_path, 20_000)["constant_loss"]
    found = run_once(contestant, str(tmp_path), 4, 1, SETTINGS[contestant][0])
    assert 0.3 < found["loss"] < constant
    assert found["elapsed"] > 0
    assert found["cpu"] > 0


def test_the_files_of_all_formats_have_the_same_rows(tmp_path):
    write_files(tmp_path, 400)
    for part in ("train", "valid"):
        libsvm, vw, ffm = (
            (tmp_path / f"{part}.{kind}").read_text().splitlines() for kind in ("libsvm", "vw", "libffm")
        )
        assert len(libsvm) == len(vw) == len(ffm)
        for plain, named, fielded in zip(libsvm, vw, ffm):
            label, *tokens = plain.split()
            assert named == f"{'1' if label == '1' else '-1'} |a " + " ".join(t.split(":")[0] for t in tokens)
            assert fielded.split() == [label, *(f"{field}:{token}" for field, token in enumerate(tokens))]


def test_every_contestant_has_settings():
    assert SETTINGS.keys() == CONTESTANTS.keys()
    assert all(len(tried) == 2 for tried in SETTINGS.values())


# Speed


@pytest.mark.parametrize("peer", PEERS)
def test_peers_are_timed(peer, tmp_path, monkeypatch):
    if not is_installed(peer):
        pytest.skip(f"{peer} is not installed")
    monkeypatch.chdir(tmp_path)
    found = time_peer(peer, "frappe", 200, rank=4, epochs=2, threads=1)
    assert found.keys() == {"elapsed", "cpu", "scored"}


def test_a_peer_far_behind_is_spared_larger_ranks():
    ours = {"who": "rafm", "shape": "frappe", "rank": 8, "threads": 1, "seconds": 1.0}
    peer = {**ours, "who": "vw", "seconds": 0.9 * QUICK.slowest}
    assert not is_hopeless("vw", "frappe", [ours, peer], QUICK)
    assert is_hopeless("vw", "frappe", [ours, {**peer, "seconds": 1.1 * QUICK.slowest}], QUICK)
    assert not is_hopeless("vw", "criteo", [ours, {**peer, "seconds": 1.1 * QUICK.slowest}], QUICK)
    assert is_hopeless("vw", "frappe", [ours, {**peer, "failed": "stopped"}], QUICK)


def test_ratios_are_times_of_the_peer_over_ours():
    ours = {"who": "rafm", "shape": "frappe", "rank": 8, "threads": 1, "seconds": 2.0, "updates_per_second": 6e6}
    theirs = {**ours, "who": "vw", "seconds": 5.0, "updates_per_second": 2.4e6, "scored": None}
    shapes = {"frappe": {"rows": 1, "nonzeros": 1, "features": 1}}
    text = "\n".join(speed_lines({"shapes": shapes, "lines": [{**ours, "scored": 3e3}, theirs]}))
    assert "2.4 (2.5x)" in text


def test_a_time_that_noise_made_negative_is_no_figure():
    given = {"shape": "frappe", "rank": 8}
    assert describe_line("vw", given, 2, {"elapsed": -0.1, "cpu": 1.0})["failed"] == "too noisy to time"
    assert describe_line("vw", given, 1, {"elapsed": -0.1, "cpu": 1.0})["seconds"] == 1.0
    assert describe_line("vw", given, 2, {"elapsed": 0.5, "cpu": 1.0})["seconds"] == 0.5


def test_an_epoch_is_the_difference_of_many_and_one():
    trained = []

    def train(epochs):
        trained.append(epochs)
        time.sleep(0.4 * (epochs > 1))

    found = epoch_seconds(train, 4, repeats=3)
    assert trained == [1, 1, 1, 5, 5, 5]
    assert 0.05 < found.elapsed < 0.4  # a quarter of 0.4 seconds, less what the shortest of three calls took


def test_the_first_rows_of_a_shape_are_rows_of_it_too():
    rows = frappe_shaped(300)
    few = rows.first(20)
    assert (few.labels.size, few.indptr.size, few.n_features) == (20, 21, rows.n_features)
    np.testing.assert_array_equal(few.indices, rows.indices[:200])
    assert rows.first(1000).labels.size == 300
    assert str(few).startswith("frappe-shaped: 20 rows, 10 nonzeros per row, 5,382 features, ")


# Growth


def test_slopes_are_those_of_a_power_law():
    sizes = np.array([10, 20, 40, 80])
    for power in (0.0, 0.5, 1.0):
        assert slope(sizes, 3e-5 * sizes**power) == pytest.approx(power)


def test_each_axis_grows_alone_and_eightfold():
    for axis, sizes in cases(1000).items():
        assert sizes[-1][0] >= 8 * sizes[0][0], axis
        (key,) = (key for key in sizes[0][1] if len({case[key] for _, case in sizes}) > 1)
        assert [case[key] for _, case in sizes] == [size for size, _ in sizes]


def test_active_factors_are_counted_row_by_row():
    trainee = Trainee(frappe_shaped(300), "rafm", RANK_SETS["S1 {32,512}"], learning_rate=CALM)
    sizes, indices = trainee.engine.tables.sizes, trainee.rows.indices
    counted = sum(rank * (indices < size).sum() for rank, size in zip((32, 512), sizes[1:])) / 300
    assert trainee.active_factors == pytest.approx(counted)


# Roofline


def test_heads_do_less_and_move_nothing():
    tail, head, mixed = (work_per_factor(4, share) for share in (0.0, 1.0, 0.25))
    assert tail == (4 + 5 + 3 + 3 / 4, 4 * (3 + 2 + 3 + 5 / 4), 8)
    assert head == (4 + 3 + 3 / 4, 4 * (3 + 3 + 5 / 4), 0)
    assert mixed == pytest.approx(0.75 * np.array(tail) + 0.25 * np.array(head))


def test_the_slower_of_arithmetic_and_memory_binds():
    limits, work = Limits(1e9, 4e9, 1e9, 1000), work_per_factor(3, 0.0)
    assert bound(work, limits, 1000) == (pytest.approx(13e-9), "arithmetic")
    assert bound(work, limits._replace(cache_bytes=0.5e9), 1000) == (pytest.approx(16e-9), "cache")
    assert bound(work, limits._replace(memory_bytes=0.5e9), 1001) == (pytest.approx(16e-9), "memory")


def test_limits_are_in_an_order_that_machines_have():
    limits = Limits(**measure_limits(64))
    assert 0.2e9 < limits.memory_bytes < 1e12
    assert limits.memory_bytes < 2 * limits.cache_bytes
    assert 0.2e9 < limits.flops < 1e12  # a folded loop would seem faster than any core


def test_only_our_epochs_on_one_thread_are_placed():
    own = {"who": "rafm", "shape": "even", "rank": 8, "threads": 1, "cpu": 0.8, "head_share": 0.0, "record_bytes": 9}
    lines = [own, {**own, "threads": 2}, {**own, "who": "vw"}, {**own, "failed": "no"}]
    shapes = {"even": {"rows": 100, "nonzeros": 1000}}
    (line,) = compare_with_limits(Limits(1e9, 1e9, 1e9, 10), {"lines": lines, "shapes": shapes})
    assert line["seconds"] == pytest.approx(1e-4)
    assert line["share"] == pytest.approx(12.3e-9 / 1e-4)


def test_the_share_of_heads_is_that_of_features_frequent_enough():
    rows = even_rows(2000, 400, 4)
    assert Trainee(rows, "fm", (8,)).head_share == 0  # 16 rows of 4 nonzeros: 0.16 of each feature in a batch
    trainee = Trainee(even_rows(2000, 8, 4), "fm", (8,))
    assert trainee.head_share == 1  # 8 of each


def test_a_trainee_with_fields_has_a_weight_for_each():
    rows, fields = even_rows(100, 40, 4), Fields.of_ranges("abcd", range(0, 41, 10))
    assert Trainee(rows, "fm", (8,)).engine.field_weights is None
    assert Trainee(rows, "fm", (8,), fields=fields).engine.field_weights.shape[1] == 4


# Memory


@reads_proc
@pytest.mark.slow
def test_training_keeps_parameters_and_accumulators_but_no_rows(tmp_path, monkeypatch):
    def convert_here(*arguments):
        return Ran(0.0, 0.0, "", run_rafm(*arguments).err) if arguments[0] == "convert" else train(*arguments)

    train = rafm
    monkeypatch.setattr("benchmarks.bench.memory.rafm", convert_here)
    n_rows = 8000
    found = run_memory(n_rows, tmp_path)
    constant, (few, many) = found["constant"], found["lines"]
    assert many["rows"] == TIMES * few["rows"] == TIMES * n_rows
    assert next(iter(WRITERS["memory"](found))).startswith("Memory of training")
    seen = (few["parameters"] / 4 * 1e6 - 1) / (1 + RANK)
    assert seen == pytest.approx(n_rows, rel=0.01)
    assert few["accumulators"] == pytest.approx(4 * accumulators(seen, seen) / 1e6)
    kept = few["parameters"] + few["accumulators"]
    assert few["peak"] < constant + 8 * kept  # measured: 4 times, as numbers are copied in and out of the records
    assert many["peak"] - few["peak"] < 2 * (many["file"] - few["file"]) + 40  # measured: 12


def test_numbers_are_short():
    assert [number(value) for value in (0.5, 99.94, 123.4, 5120)] == ["0.5", "99.9", "123", "5,120"]
    assert WRITERS.keys() == {"race", "speed", "roofline", "parse", "growth", "memory"}


def test_plans_of_one_rank_have_that_many_factors_per_nonzero():
    trainee = Trainee(even_rows(100, 40, 4), "fm", (16,))
    assert trainee.active_factors == 4 * 16
    seconds = trainee.time()
    assert trainee.nanoseconds_per_row == pytest.approx(1e9 * seconds / 100)
