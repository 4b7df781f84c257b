"""The paper replicated: searches resume, reruns repeat every digit but times, and sentences follow from figures."""

import functools
import gzip
import json
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from commands import run as run_rafm
from worlds import changed_rows

from experiments.datasets.prepared import PARTS
from experiments.paper.__main__ import main
from experiments.paper.artefact import table
from experiments.paper.budget import FULL, L2_GRID, QUICK, Budget, SampledStudy, SizeStudy, Study
from experiments.paper.command import ARTEFACTS, reproduce
from experiments.paper.competition import Competition, Contender, compete
from experiments.paper.complexity import GROWTH, order_of, ranks_of, sizes_of
from experiments.paper.lab import Lab, behaviour
from experiments.paper.search import beside_in_rate, choose_rate, loss_of, search, settle
from experiments.paper.store import Store
from experiments.paper.tables34 import claims, edges, winners_table
from experiments.paper.tasks import Run, clip, evaluate_model, options_of, rows_of, train_run
from experiments.paper.verdicts import p_value, standing
from rafm.errors import ConfigError
from rafm.plan.ranks import NearestRank, plan_ranks
from rafm.train.dispatch import train_model

run = functools.partial(run_rafm, main=main)
TINY = replace(
    QUICK,
    name="tiny",
    fm_ranks=(8, 16),
    sizes=(16,),
    coarse=(1e-2,),
    epochs=2,
    complexity_levels=(2,),
    complexity_rows=64,
    stream_rows_per_day=1000,
    stream_scales=(1 / 16,),
    size_studies=(SizeStudy("frappe", "binary", 600),),
    factors=(0.1, 1),
    sampled_studies=(
        SampledStudy("frappe", (2,), sweeps=4, n_seeds=1),
        SampledStudy("ml-1m", (8,), sweeps=4, n_seeds=2, share=0.5),
    ),
)


def write_set(folder, name, ratings=False, n_rows=200, seed=0):
    """Write a prepared data set of three columns with a long tail."""
    rng = np.random.default_rng(seed)
    (folder / name).mkdir(parents=True)
    for part, share in zip(PARTS, (1, 0.3, 0.3)):
        lines = []
        for _ in range(int(n_rows * share)):
            a, b, c = int(30 * rng.random() ** 3), 30 + int(20 * rng.random() ** 2), 50 + rng.integers(5)
            label = 1 + (a * b + c) % 5 if ratings else ((a + b) % 3 == 0) ^ (rng.random() < 0.1)
            lines.append(f"{int(label)} {a}:1 {b}:1 {c}:1\n")
        (folder / name / f"{name}.{part}.libfm").write_text("".join(lines))
    fields = "".join(f"{i}\t{'abc'[(i >= 30) + (i >= 50)]}\n" for i in range(55))
    (folder / name / "features.tsv.gz").write_bytes(gzip.compress(fields.encode()))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    for at, name in enumerate(("frappe", "ml10m-tag-popularity")):
        write_set(folder, name, seed=at)
    return write_set(folder, "ml-1m", ratings=True)


def make(folder, data, names=(), budget=TINY, **options):
    told = []
    with mock.patch("experiments.paper.equal_sizes.EPOCHS", 5):  # instead of 100
        reproduce(names, budget, data, folder, folder / "results.md", tell=told.append, **options)
    return told


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """All artefacts of a tiny budget."""
    folder = tmp_path_factory.mktemp("done")
    make(folder, data, with_authors=True)
    return folder


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(own) for name, own in value.items() if not name.endswith("seconds")}
    return [without_times(own) for own in value] if isinstance(value, list) else value


def timeless_page(folder):
    text = (folder / "results.md").read_text()
    text = re.sub(r"\d+\.\d\dx", "_x", text)
    return re.sub(r"\| \d+\.\d\d \|$", "| _ |", text, flags=re.MULTILINE)  # the last column of Table 1


def test_every_artefact_has_a_folder_with_config_result_and_how_to_rerun(done):
    for name in (*ARTEFACTS, "authors-protocol"):
        for file in ("config.json", "result.json"):
            json.loads((done / name / file).read_text())
        assert f"python -m experiments.paper {name}" in (done / name / "README.md").read_text()
    figures = sorted(path.name for path in done.rglob("*.png"))
    assert figures == ["figure1.png", "figure3.png", "figure4.png", "frontier.png"]


def test_the_page_holds_all_artefacts_and_links_figures_that_exist(done):
    page = (done / "results.md").read_text()
    for place in re.findall(r"!\[.*\]\((.*)\)", page):
        assert (done / place).read_bytes().startswith(b"\x89PNG")
    assert page.count("\n## ") == len(ARTEFACTS) + 2  # the authors' protocol, and the claims
    assert all(word in page for word in ("S3", "RaFM-low", "0.1447", "Does not hold"))


def test_a_second_call_runs_nothing_and_writes_the_same(done, data):
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    told = make(done, data, with_authors=True)
    assert not [line for line in told if line.startswith("[")]
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before


def test_an_interrupted_search_continues_to_the_same_digits_and_workers_change_nothing(done, data, tmp_path):
    lines = (done / "runs.jsonl").read_bytes().splitlines(keepends=True)
    some = [line for number, line in enumerate(lines) if number % 5]  # runs of every kind are missing
    (tmp_path / "runs.jsonl").write_bytes(b"".join(some) + lines[0][:20])
    told = make(tmp_path, data, with_authors=True, workers=2)
    assert 0 < len([line for line in told if line.startswith("[")]) <= len(lines) - len(some)
    assert len(Store(tmp_path / "runs.jsonl").results) == len(lines)
    assert timeless_page(tmp_path) == timeless_page(done)
    for path in done.rglob("result.json"):
        other = tmp_path / path.relative_to(done)
        assert without_times(json.loads(other.read_text())) == without_times(json.loads(path.read_text()))


def test_with_stored_results_alone_nothing_is_run_and_what_is_missing_is_named(data, done, tmp_path):
    told = make(tmp_path, data, ["frontier"], stored=True)
    assert told == ["frontier", "frappe: left out of the frontier, because results are missing"]
    assert "Not complete, and left out: frappe." in (tmp_path / "results.md").read_text()
    with pytest.raises(ConfigError, match="2 runs are not stored"):
        make(tmp_path, data, ["figure1"], stored=True)
    (tmp_path / "runs.jsonl").write_bytes((done / "runs.jsonl").read_bytes())
    make(tmp_path, data, ["frontier"], stored=True)
    assert "### frappe" in (tmp_path / "results.md").read_text()


def test_other_data_or_another_engine_is_run_again(data, tmp_path, monkeypatch):
    task = Run("frappe", "fm", (4,), epochs=1).task()
    lab = Lab(data, Store(tmp_path / "a"), tell=str)
    other = Lab(write_set(tmp_path / "b", "frappe", seed=9), Store(tmp_path / "c"), tell=str)
    assert lab.key(task) != other.key(task)
    monkeypatch.setattr("rafm.train.steps.loader.NEIGHBOURS", 3)
    assert behaviour() != lab.engine


def test_keys_of_field_aware_runs_depend_on_their_own_engine_alone(data, tmp_path, monkeypatch):
    tasks = [Run("frappe", model, (4,), epochs=1).task() for model in ("fm", "ffm")]
    before = [Lab(data, Store(tmp_path / "a"), tell=str).key(task) for task in tasks]
    monkeypatch.setattr("rafm.train.steps.engine.LARGE_SUMS", 64)  # mini-batches of 4 rows of two fields, instead of 16
    after = [Lab(data, Store(tmp_path / "a"), tell=str).key(task) for task in tasks]
    assert [one == other for one, other in zip(before, after)] == [True, False]


def test_results_of_the_store_are_those_of_the_library(data):
    result = train_run({**vars(Run("frappe", "rafm", (2, 8), l2=0.01, epochs=3)), "ranks": [2, 8]}, data)
    found = rows_of(data, "frappe", None)
    model = train_model(
        found.parts[0], options_of(Run("frappe", "rafm", (2, 8), l2=0.01, epochs=3), found), found.parts[1]
    )
    assert result["parameters"] == model.n_parameters
    assert result["test"] == evaluate_model(model, found.parts[2])
    assert result["valid"] == min(entry["valid_log_loss"] for entry in model.history)


def test_a_run_that_diverges_never_wins(tmp_path):
    (tmp_path / "odd").mkdir()
    for part, value in zip(PARTS, (1, 1e37, 1)):  # scores of the validation rows are not finite
        lines = "".join(f"{k % 7} {k % 2}:{value:g} {2 + k % 3}:{value:g}\n" for k in range(300))
        (tmp_path / "odd" / f"odd.{part}.libfm").write_text(lines)
    lab = Lab(tmp_path, Store(tmp_path / "runs.jsonl"), tell=str)
    (found,) = lab.results([Run("odd", "fm", (4,)).task()])
    assert found["valid"] is None
    assert "diverged" in found["diverged"]
    assert loss_of(found) == np.inf


# ---- The search and the budget


@pytest.mark.parametrize("best", L2_GRID)
def test_the_search_finds_the_best_l2_of_a_bowl(best):
    tried = set()

    def losses(runs):
        tried.update(run.l2 for run in runs)
        return [abs(np.log(run.l2 / best)) for run in runs]

    (found,) = search([Run("frappe", "fm", (8,))], FULL.coarse, True, losses)
    assert found.l2 == best
    assert len(tried) <= len(FULL.coarse) + (2 if best >= 1e-3 else 8)  # below the coarse values it walks


@pytest.mark.parametrize(("rate", "l2"), [(0.0125, 0.05), (0.2, 0.005), (3.2, 0.001)])
def test_rate_and_l2_walk_to_the_bottom_of_a_bowl(rate, l2):
    tried = []

    def losses(runs):
        tried.extend(runs)
        return [abs(np.log((run.rate or 0.2) / rate)) + abs(np.log(run.l2 / l2)) for run in runs]

    (found,) = settle([Run("frappe", "fm", (8,), l2=0.005)], 0.2, True, losses)
    assert (found.rate or 0.2, found.l2) == (rate, l2)
    assert len(tried) == len(set(tried))
    (found,) = settle([Run("frappe", "fm", (8,), l2=0.005)], 0.2, False, losses)
    assert (found.rate or 0.2, found.l2) == (rate, 0.005)


@pytest.mark.parametrize(("refine", "rate", "epochs"), [(True, 0.05, 8), (False, None, 2)], ids=["more", "no more"])
def test_lower_rates_have_the_epochs_that_they_need(data, tmp_path, refine, rate, epochs):
    def pretend(task, folder):
        needed = round(0.3 / task.get("rate", 0.2))  # epochs; with fewer, the loss is much higher
        history = [0.1 + abs(np.log2(task.get("rate", 0.2) / 0.05)) / 100 + max(needed - e, 0) for e in range(1, 99)]
        history = history[: min(needed, task["epochs"])]
        return {"valid": min(history), "history": history}

    lab = Lab(data, Store(tmp_path / "runs.jsonl"), tell=str, execute=pretend)
    (found,) = choose_rate(lab, [Run("frappe", "fm", (8,), l2=0.1, epochs=2)], 0.2, refine)
    assert (found.rate, found.epochs) == (rate, epochs)


def test_the_usual_rate_keeps_the_keys_of_runs_without_one():
    run = Run("frappe", "fm", (8,), l2=0.005)
    for faster_or_slower in beside_in_rate(run, 0.2):
        assert "rate" in faster_or_slower.task()
        assert run.task() in [back.task() for back in beside_in_rate(faster_or_slower, 0.2)]


# The best rates in a pretended lab.
RATE_OF = {"FM": 0.05, "DiFacto": 0.4, "RaFM": 0.1, "RaFM (Algorithm 1)": 1.6, "MRMA": 0.8}


def pretend(task, folder):
    """Return a validation loss that is least at that rate and at rank 16, and a test loss that is greatest there."""
    run = Run(**{name: value for name, value in task.items() if name != "kind"})
    valid = abs(np.log2((run.rate or 0.2) / RATE_OF[run.family])) + abs(run.ranks[0] - 16)
    result = {"valid": valid, "parameters": 100 * run.ranks[0], "test": {"log_loss": -valid, "auc": 0.5}}
    return result | {"pass_seconds": 1.0, "test_seconds": 1.0, "best_epoch": 1}


def test_every_family_has_its_rate_tuned_by_validation_rows_alone(data, tmp_path):
    lab = Lab(data, Store(tmp_path / "runs.jsonl"), tell=str, execute=pretend)
    found = compete(lab, TINY, Study("frappe", mrma=True))
    assert {family: one.run.rate or found.usual_rate for family, one in found.winners.items()} == RATE_OF
    assert {len(one.results) for one in found.winners.values()} == {len(TINY.seeds)}
    assert found.is_tuned


def test_small_models_that_claims_compare_are_tuned_in_every_family(data, tmp_path):
    lab = Lab(data, Store(tmp_path / "runs.jsonl"), tell=str, execute=pretend)
    budget = replace(TINY, fm_ranks=(3, 2, 16), sizes=(64, 8))
    found = compete(lab, budget, Study("ml10m-tag-popularity"))
    assert found.winners["FM"].run.ranks == (16,)
    small = {family: found.within(family, found.limits[0]).run for family in found.families}
    assert small["FM"].ranks == (3,)
    assert {family: run.rate for family, run in small.items()} == {family: RATE_OF[family] for family in small}
    assert [one.run.rate for one in found.families["FM"]] == [0.05, None, 0.05]  # rank 2 is compared with nothing
    assert len(found.within("RaFM", found.limits[0]).results) == len(TINY.seeds)


def test_without_stored_rates_a_table_says_that_the_rate_is_the_default(data, tmp_path):
    folder, budget = tmp_path / "all", replace(TINY, seeds=(0,))
    make(folder, data, ["tables34", "update-rules"], budget, with_authors=True)
    lines = (folder / "runs.jsonl").read_text().splitlines()
    tasks = [json.loads(line)["task"] for line in lines]
    kept = [line for line, task in zip(lines, tasks) if task["data"] != "frappe" or "rate" not in task]
    assert len(kept) < len(lines)
    (tmp_path / "runs.jsonl").write_text("\n".join(kept) + "\n")
    told = make(tmp_path, data, ["tables34", "update-rules"], budget, with_authors=True, stored=True)
    assert "frappe: all models have the usual learning rate, because results are missing" in told
    page = (tmp_path / "results.md").read_text()
    assert "### frappe, default learning rate" in page
    assert page.count("Not complete: the learning rate is not tuned here") == 1
    whole = (folder / "results.md").read_text()
    assert "default learning rate\n" not in whole
    tags = "### ml10m-tag-popularity\n"
    assert page.split(tags)[1].split("\n## ")[0] == whole.split(tags)[1].split("\n## ")[0]


def test_every_model_has_as_many_candidates():
    for budget in (FULL, QUICK):
        for study in budget.studies:
            sizes = {family: len(set(runs)) for family, runs in budget.candidates(study, COUNTS).items()}
            assert set(sizes.values()) == {len(budget.fm_ranks)}, sizes
            assert ("MRMA" in sizes) == study.mrma


COUNTS = (10_000 / np.arange(1, 1001)).astype(int)  # a long tail


def test_candidates_are_no_larger_than_the_fm_they_are_matched_with():
    for family, runs in FULL.candidates(Study("frappe"), COUNTS).items():
        if family == "FM":
            continue
        for at, each in enumerate(runs):
            size = plan_ranks(each.model, each.ranks, COUNTS, NearestRank(each.rank_scale))[0].n_parameters
            limit = 1 + COUNTS.size * (1 + FULL.sizes[at // 2])
            assert 0.7 * limit < size <= limit, each


def test_equal_runs_of_different_artefacts_are_one_task():
    shared = FULL.candidates(Study(FULL.tag_data), COUNTS)["FM"]
    assert Run(FULL.tag_data, "fm", (512,), epochs=FULL.epochs).task() in [run.task() for run in shared]


# ---- The authors' protocol


def test_the_authors_protocol_counts_over_all_rows(data):
    found = rows_of(data, "frappe", None)
    counts = sum(np.bincount(part.indices, minlength=found.parts[0].n_features) for part in found.parts)
    rule = options_of(Run("frappe", "rafm", (2, 8, 32), protocol="authors"), found).rule
    assert rule.tolist() == [1 + (n > 4) + (n > 16) for n in counts]
    assert callable(options_of(Run("frappe", "rafm", (2, 8, 32)), found).rule)


def test_the_authors_protocol_clips_probabilities_and_clamps_ratings():
    labels = np.array([1, 2, 4], np.float32)
    assert clip(np.array([0.0, 3.0, 99.0]), "regression", labels).tolist() == [1, 3, 4]
    clipped = 1 / (1 + np.exp(-clip(np.array([-50.0, 0.0, 50.0]), "binary", labels)))
    assert clipped == pytest.approx([1e-4, 0.5, 1 - 1e-4], rel=1e-9)


def test_only_the_authors_protocol_clips(data):
    found = rows_of(data, "ml-1m", None)
    model = train_model(found.parts[0], options_of(Run("ml-1m", "lr"), found))
    test = found.parts[2]
    scores = model.scores(test)
    narrow = changed_rows(
        test, labels=np.clip(test.labels, scores.mean(), None).astype(np.float32)
    )  # few scores are inside
    rmse = lambda predicted: float(np.sqrt(np.mean((predicted - narrow.labels) ** 2)))  # noqa: E731
    assert evaluate_model(model, narrow)["rmse"] == pytest.approx(rmse(scores), rel=1e-6)
    expected = rmse(np.clip(scores, narrow.labels.min(), narrow.labels.max()))
    assert evaluate_model(model, narrow, "authors")["rmse"] == pytest.approx(expected, rel=1e-6)
    assert expected < rmse(scores)


# ---- Sentences


def contender(family, size, losses, data="frappe", areas=None, valid=None):
    model, update = {"FM": ("fm", "joint"), "RaFM": ("rafm", "joint")}.get(family, ("difacto", "joint"))
    results = [
        {"parameters": size, "valid": losses[0] if valid is None else valid, "pass_seconds": 2.0, "test_seconds": 1.0}
        | {"test": {"auc": area, "log_loss": loss}}
        for loss, area in zip(losses, areas or [0.99] * len(losses))
    ]
    return Contender(Run(data, model, (size,), update=update, l2=0.01), results)


GOOD, BAD = [0.100, 0.101, 0.099], [0.200, 0.201, 0.199]


def competition(fms, rafms, data="frappe"):
    of = {"FM": [contender("FM", *own, data) for own in fms], "RaFM": [contender("RaFM", *own, data) for own in rafms]}
    return Competition(Study(data), of)


def test_all_that_is_compared_is_decisive_and_nothing_else():
    found = competition([(1000, BAD), (5000, GOOD), (6000, BAD)], [(900, GOOD), (4000, BAD), (9000, BAD)])
    assert {(one.model, one.ranks) for one in found.decisive()} == {("fm", (5000,)), ("rafm", (900,))}


@pytest.mark.parametrize(("size", "losses", "holds"), [(1900, GOOD, True), (2100, GOOD, False), (1900, BAD, False)])
def test_on_tags_a_fifth_of_the_parameters_must_do(size, losses, holds):
    (told,) = claims([competition([(10_000, BAD)], [(size, losses)], "ml10m-tag-popularity")])
    assert "a fifth" in told
    assert told.startswith("* **Holds**" if holds else "* **Does not hold**")


@pytest.mark.parametrize(
    ("size", "area", "holds"), [(710_000, 0.982, True), (710_001, 0.982, False), (9, 0.981, False)]
)
def test_frappe_is_held_against_the_paper(size, area, holds):
    found = Competition(
        Study("frappe"),
        {"FM": [contender("FM", 10, BAD)], "RaFM": [contender("RaFM", size, GOOD, areas=[area] * 3)]},
    )
    told = next(line for line in claims([found]) if "the paper's RaFM" in line)
    assert told.startswith("* **Holds**" if holds else "* **Does not hold**")


def test_the_table_of_winners_shows_ours_beside_the_papers():
    lines = winners_table(competition([(1_380_000, BAD)], [(700_000, GOOD)])).splitlines()
    assert lines[3].startswith("| RaFM | {700000} | 0.01 | 0.2 | 0.1000 ± 0.0010 | 0.9900 ± 0.0000 | 0.700 M | 1.00x |")
    assert "| 1.00x | better (p < 0.001) |" in lines[3]
    assert lines[3].endswith("| 0.1447 ± 0.0015 | 0.9811 | 0.71 M | 0.73x |")


def test_the_table_of_winners_shows_a_tuned_rate():
    slow = contender("RaFM", 700_000, GOOD)
    found = Competition(
        Study("frappe"),
        {"FM": [contender("FM", 10, BAD)], "RaFM": [replace(slow, run=replace(slow.run, rate=0.05))]},
    )
    assert [line.split(" | ")[3] for line in winners_table(found).splitlines()[2:4]] == ["0.2", "0.05"]


def test_settings_at_an_end_are_reported():
    found = competition([(10, BAD)], [(10, GOOD)])
    for family, own in found.families.items():
        for each in own[0].results:
            each["best_epoch"] = 30 if family == "RaFM" else 29
    assert edges(found) == ["For some seed, the last epoch allowed is the best of RaFM."]
    own = found.families["FM"][0]
    found.families["FM"][0] = replace(own, run=replace(own.run, l2=0.1))
    assert edges(found)[0].startswith("The best L2 of FM is at an end")


def test_one_seed_decides_nothing():
    assert standing([0.1], [0.2]) == "level"
    assert p_value([0.1, 0.1], [0.2, 0.2]) == 0.0
    assert p_value([0.1, 0.1], [0.1, 0.1]) == 1.0


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("decay", GROWTH)
def test_the_papers_orders_bound_the_exact_costs(growth, decay):
    for m in (1, 2, 4, 8):
        exact = sum(r * s for r, s in zip(ranks_of(growth, m), sizes_of(decay, m))) / (ranks_of(growth, m)[-1] * 2048)
        assert exact <= 2 * order_of(growth, decay, m)
        assert exact >= order_of(growth, decay, m) / 8


def test_table_1_counts_what_theory_says(done):
    for line in json.loads((done / "table1" / "result.json").read_text()):
        assert line["counted"] == pytest.approx(line["theory"], rel=0.2)  # 64 rows of 32 features


def test_every_model_of_table_2_was_tried_with_half_and_twice_its_rate(done):
    tried = [json.loads(line)["task"] for line in (done / "runs.jsonl").read_text().splitlines()]
    for task in json.loads((done / "table2" / "config.json").read_text()).values():
        run = Run(**{name: value for name, value in task.items() if name != "kind"})
        assert all(each.task() in tried for each in beside_in_rate(run, 0.2)), run.label


def test_tables_are_markdown():
    assert table(["a", "b"], [["1", "2"]], n_words=2) == "| a | b |\n|---|---|\n| 1 | 2 |"


# ---- The command


def test_the_command_writes_where_it_is_told(data, tmp_path):
    page = tmp_path / "docs" / "results.md"
    ran = run("figure1", "--quick", "--data", data, "--out", tmp_path / "out", "--page", page, "--workers", 1)
    assert ran.code == 0, ran.err
    assert ran.out == f"written: {page}\n"
    assert "](../out/figure1/figure1.png)" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["figure9"], 2, "unknown artefact 'figure9'; choose from frontier"),
        (["figure1"], 6, "run `python -m experiments.datasets get frappe`"),
    ],
)
def test_what_cannot_be_run_is_explained(tmp_path, arguments, code, words):
    ran = run(*arguments, "--data", tmp_path, "--out", tmp_path / "x", "--workers", 1)
    assert ran.code == code
    assert words in ran.err.splitlines()[-1]


def test_without_matplotlib_the_command_says_what_to_install(data, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        make(tmp_path, data, ["figure1"])


def test_budgets_are_plain():
    assert isinstance(FULL, Budget)
    assert len(FULL.seeds) == 5
    assert set(FULL.coarse) <= set(L2_GRID)
