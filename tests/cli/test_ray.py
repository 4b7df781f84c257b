"""`rafm train --ray none` and `rafm ray plan`; clusters themselves are tested in tests/distributed."""

import json
import subprocess
import sys

import numpy as np
import pytest
from clusters import write_ids, write_table
from commands import run

import rafm

MODELS = ("m.rafm", "parts")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ray")
    write_table(place / "clicks.parquet", 800)
    write_table(place / "valid.parquet", 200, seed=5)
    write_ids(place / "ids.parquet", 300)
    command = ["--label", "click", "--ray", "none", "--ranks", "4,8", "--epochs", "2", "--out", place / "m.rafm"]
    found = run("train", place / "clicks.parquet", *command, "--valid", place / "valid.parquet", "--json")
    assert found.code == 0, found.err
    (place / "report.json").write_text(found.out)
    return place


def test_training_reports_and_saves_a_model_that_other_commands_open(folder):
    report = json.loads((folder / "report.json").read_text())
    assert {"model", "task", "parameters", "model_bytes", "epochs", "best_epoch", "history"} <= set(report)
    found = json.loads(run("evaluate", folder / "m.rafm", folder / "valid.parquet", "--json").out)
    best = report["history"][report["best_epoch"] - 1]
    assert found["log_loss"] == pytest.approx(best["valid_log_loss"], rel=1e-6)
    assert found["auc"] == pytest.approx(best["valid_auc"], rel=1e-6)


def test_evaluation_and_prediction_agree_with_those_of_one_process(folder):
    model, data = folder / "m.rafm", folder / "valid.parquet"
    alone, units = (json.loads(run("evaluate", model, data, *more, "--json").out) for more in ((), ("--ray", "none")))
    assert alone.pop("coverage")
    assert units.pop("reliability") == alone.pop("reliability")
    assert units == pytest.approx(alone, rel=1e-12)
    one, other = (run("predict", model, data, *more).out for more in ((), ("--ray", "none")))
    assert one == other
    assert len(one.splitlines()) == 200


def test_a_folder_of_parts_takes_the_place_of_a_model_file(folder):
    command = ["--label", "click", "--ray", "none", "--ranks", "4,8", "--epochs", "2", "--out", f"{folder / 'parts'}/"]
    found = run("train", folder / "clicks.parquet", *command, "--valid", folder / "valid.parquet", "--json")
    assert found.code == 0, found.err
    files = [*(folder / "parts").iterdir()]
    assert "model.json" in {path.name for path in files}
    report, usual = json.loads(found.out), json.loads((folder / "report.json").read_text())
    assert report["model_bytes"] == sum(path.stat().st_size for path in files if path.suffix == ".rafm")
    assert all(report[name] == usual[name] for name in ("parameters", "history", "best_epoch"))
    model = rafm.load(folder / "parts")
    model.save(folder / "one.rafm")
    rafm.load(folder / "m.rafm").save(folder / "other.rafm")
    assert (folder / "one.rafm").read_bytes() == (folder / "other.rafm").read_bytes()
    for more in ((), ("--ray", "none")):
        for command in ("predict", "evaluate"):
            one, parts = (run(command, folder / name, folder / "valid.parquet", *more).out for name in MODELS)
            assert one == parts
            assert one


def test_a_folder_of_parts_is_written_with_ray_only_and_over_no_other_files(folder):
    data = folder / "clicks.parquet"
    plain = run("train", data, "--label", "click", "--out", folder)
    assert plain.code == 6
    assert "is a directory; give a file name" in plain.err
    plain = run("train", data, "--label", "click", "--out", f"{folder}/new/")
    assert plain.code == 2
    assert "folders are written with --ray; give a file name, or add --ray none" in plain.err
    other = run("train", data, "--label", "click", "--ray", "none", "--out", folder)
    assert other.code == 2
    assert "but no model; choose an empty or a new folder" in other.err


def test_rows_of_ids_are_trained_and_scored(folder):
    command = [
        "--ray",
        "none",
        "--ranks",
        "4",
        "--epochs",
        "1",
        "--valid-share",
        "0",
        "--checkpoint",
        folder / "states",
    ]
    assert run("train", folder / "ids.parquet", *command, "--out", folder / "ids.rafm").code == 0
    first = (folder / "ids.rafm").read_bytes()
    again = run("train", folder / "ids.parquet", *command, "--out", folder / "ids.rafm")
    assert "resum" in again.out.lower()
    assert (folder / "ids.rafm").read_bytes() == first
    found = run("predict", folder / "ids.rafm", folder / "ids.parquet", "--ray", "none")
    assert np.array(found.out.split(), float).size == 300


PROGRAM = """
import json, sys, time
from contextlib import contextmanager
import ray
from rafm.cli import main
from rafm.distributed import training

@contextmanager
def seen(*given):
    with group_of(*given) as group:
        ray.get([actor.pid.remote() for actor in (*group.actors.shards, *group.actors.workers)])
        reserved, until = 0.0, time.monotonic() + 10
        while reserved < 8e8 and time.monotonic() < until:  # what is free is known with some delay
            reserved = ray.cluster_resources()["memory"] - ray.available_resources()["memory"]
            time.sleep(0.05)
        node, = ray.nodes()
        print(json.dumps({"reserved": reserved, "address": node["NodeManagerAddress"]}), file=sys.stderr)
        yield group

group_of, training.group_of = training.group_of, seen
main()
"""


@pytest.mark.slow
def test_a_cluster_on_this_machine_gives_the_model_of_one_process(folder):
    """It listens on the loopback alone, and reserves memory for its processes."""
    pytest.importorskip("ray")
    command = ["--label", "click", "--ranks", "4", "--epochs", "1", "--valid-share", "0"]
    files = [folder / "none.rafm", folder / "local.rafm"]
    assert run("train", folder / "clicks.parquet", *command, "--ray", "none", "--out", files[0]).code == 0
    local = ["--ray", "local", "--workers", "1", "--out", files[1]]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, "train", str(folder / "clicks.parquet"), *map(str, [*command, *local])],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    seen = json.loads(next(line for line in found.stderr.splitlines() if line.startswith("{")))
    assert seen["address"] == "127.0.0.1"
    assert seen["reserved"] == pytest.approx(600e6 + 300e6, rel=0.01)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--ray", "ray://head:10001"), "the client protocol of Ray is not supported"),
        (("--workers", "3"), "--workers is for a cluster: add --ray, or use --threads"),
        (("--ray", "none", "--model", "mrma"), "--model mrma cannot be used on a cluster"),
        (("--ray", "none", "--task", "ranking", "--item-fields", "f"), "--task ranking cannot be used on a cluster"),
        (("--ray", "none", "--optimizer", "gibbs"), "--optimizer gibbs cannot be used on a cluster"),
        (("--ray", "none", "--model", "ffm"), "--model ffm cannot be used on a cluster"),
        (("--ray", "none", "--calibrate", "on"), "--calibrate on cannot be used on a cluster"),
        (("--ray", "none", "--threads", "2"), "--threads cannot be combined with --ray"),
        (("--ray", "none", "--step-rows", "4096"), "fewer than 50 steps per epoch"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_in_one_line(folder, flags, message):
    model = () if "--model" in flags else ("--model", "fm")
    found = run("train", folder / "clicks.parquet", "--label", "click", *model, *flags, "--out", folder / "x.rafm")
    assert found.code == 2
    assert message in found.err
    assert len(found.err.strip().splitlines()) == 1


def test_text_files_must_be_converted_first(folder):
    (folder / "a.svm").write_text("1 2:1\n0 3:1\n" * 50)
    found = run("train", folder / "a.svm", "--ray", "none", "--out", folder / "x.rafm")
    assert found.code == 2
    assert "--ray reads Parquet and Arrow" in found.err


def test_without_ray_the_error_names_the_extra_and_all_else_works(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    found = run("train", folder / "clicks.parquet", "--label", "click", "--ray", "local", "--out", folder / "x.rafm")
    assert (found.code, found.err.strip()) == (
        2,
        "error: a cluster needs Ray: pip install '.[ray]' in a checkout of rafm",
    )
    assert rafm.load(folder / "m.rafm").n_parameters_ > 0
    assert callable(rafm.distributed.train)


def test_the_plan_of_a_cluster_is_printed_before_anything_starts(folder):
    found = run("ray", "plan", "--machines", "4")
    lines = found.out.splitlines()
    assert found.code == 0
    assert lines[0].startswith("1,700,000,000 rows, 120,000,000 features")
    assert [line.split()[0] for line in lines[-3:]] == ["1", "2", "4"]
    own = run("ray", "plan", "--data", folder / "clicks.parquet", "--label", "click", "--ranks", "4,8", "--json")
    assert json.loads(own.out)["rows"] == 800
