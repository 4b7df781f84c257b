"""Sampled models of the paper's page: what is trained, how large it is, and what the table says."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from experiments.datasets.prepared import PARTS
from experiments.paper.budget import QUICK, SampledStudy
from experiments.paper.lab import Lab
from experiments.paper.sampling import sampled_run, sampled_table, sampling, tasks_of
from experiments.paper.store import Store
from experiments.paper.tasks import evaluate_model, fields_of, rows_of
from rafm.options import resolve
from rafm.rows.source import InMemory
from rafm.train.dispatch import train_model

STUDY = SampledStudy("ml-1m", (2, 8), sweeps=5, n_seeds=2, share=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A prepared set of ratings."""
    made, rng = tmp_path_factory.mktemp("sets"), np.random.default_rng(0)
    (made / "ml-1m").mkdir()
    for part, n_rows in zip(PARTS, (400, 100, 100)):
        ids = rng.integers(0, (20, 10), (n_rows, 2))
        lines = (f"{1 + a * b % 5} {a}:1 {20 + b}:1\n" for a, b in ids)
        (made / "ml-1m" / f"ml-1m.{part}.libfm").write_text("".join(lines))
    fields = "".join(f"{i}\t{'user' if i < 20 else 'item'}\n" for i in range(30))
    (made / "ml-1m" / "features.tsv.gz").write_bytes(gzip.compress(fields.encode()))
    return made


def lab_of(folder, tmp_path, **options):
    return Lab(folder, Store(tmp_path / "runs.jsonl"), tell=lambda line: None, **options)


def test_a_sampled_run_is_that_of_the_library(folder):
    found = sampled_run({"data": "ml-1m", "ranks": 2, "sweeps": 5, "seed": 3, "version": 1}, folder)
    training, valid, test = rows_of(folder, "ml-1m", None).parts
    options = resolve(task="regression", model="fm", ranks=2, optimizer="gibbs", n_epochs=5, seed=3)
    model = train_model(InMemory(training, fields_of(folder, "ml-1m")), options, valid)
    assert found["test"] == evaluate_model(model, test)
    assert found["valid"] == evaluate_model(model, valid)["rmse"]
    assert found["samples_valid"] == model.history[-1]["valid_rmse"]
    assert (found["parameters"], found["sweeps"]) == (1 + 30 * 3, 5)


def test_a_share_of_the_size_is_never_exceeded(folder, tmp_path):
    with lab_of(folder, tmp_path) as lab:
        tasks = tasks_of(lab, STUDY)
        assert [*tasks] == ["rank 2", "rank 8", "50% of rank 8"]
        assert [task["seed"] for task in tasks["rank 2"]] == [0, 1]
        small = tasks["50% of rank 8"]
        assert small[0]["max_parameters"] == (1 + 30 * 9) // 2
        (found,) = lab.results(small[:1])
    assert 60 < found["parameters"] <= small[0]["max_parameters"]


def test_a_table_has_a_line_for_each_model_and_our_peer_beside():
    one = {"parameters": 1200, "samples_valid": 0.9, "valid": 0.91, "test": {"rmse": 0.92, "mae": 0.7}}
    two = {**one, "samples_valid": 0.8, "valid": 0.81, "test": {"rmse": 0.94, "mae": 0.6}}
    results = [{**one, "train_seconds": 1.0}, {**two, "train_seconds": 2.0}]
    *_, line, last = sampled_table({"ciao": {"rank 8": results}, "frappe": {"rank 8": results[:1]}}).splitlines()
    losses = "0.8500 ± 0.0707 | 0.8600 ± 0.0707 | 0.9300 ± 0.0141"
    assert line == f"| ciao | rank 8 | 1,200 | 2 | {losses} | 0.9550 | 1.50 |"
    assert last == "| frappe | rank 8 | 1,200 | 1 | 0.9000 | 0.9100 | 0.9200 |  | 1.00 |"


def test_what_is_not_stored_is_left_out_and_named(folder, tmp_path):
    budget = replace(QUICK, sampled_studies=(SampledStudy("ml-1m", (1,), sweeps=2, n_seeds=1), STUDY))
    with lab_of(folder, tmp_path) as lab:
        lab.results(tasks_of(lab, budget.sampled_studies[0])["rank 1"])
    with lab_of(folder, tmp_path, stored=True) as lab:
        found = sampling(lab, budget)
    assert [*found.result["ml-1m"]] == ["rank 1"]
    assert found.text[-1] == "Not complete, and left out: ml-1m."
