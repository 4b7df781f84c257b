"""Comparisons at equal size: candidates fit, settings are searched, and verdicts follow from the losses."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import planted

from experiments.paper.budget import SizeStudy
from experiments.paper.equal_sizes import FAMILIES, Entry, SizeTable, descend, entries, shapes
from experiments.paper.frontier import size_claims, sizes_table
from experiments.paper.large import nonzeros, pruned
from experiments.paper.tasks import LATER, Run
from rafm.options import resolve
from rafm.plan.ranks import NearestRank, plan_ranks
from rafm.train.dispatch import train_model

GOOD, LEVEL, BAD = [0.100, 0.101, 0.099], [0.1, 0.102, 0.098], [0.200, 0.201, 0.199]
STUDY = SizeStudy("frappe", "binary", 1000)
COUNTS = (10_000 / np.arange(1, 2001)).astype(int)  # a long tail
N_FIELDS = 2


def entry(parameters, losses, valid=None):
    of = lambda loss: {"parameters": parameters, "valid": valid or losses[0], "test": {"log_loss": loss, "auc": 0.5}}  # noqa: E731
    return Entry("it", [of(loss) for loss in losses])


def size_table(**changed):
    """All families level at both sizes, but for those that are given."""
    names = [*FAMILIES, "pruned FM", "pruned FM+t", "measured"]
    level = {name: [entry(900, LEVEL), entry(90, LEVEL)] for name in names}
    return SizeTable(STUDY, [100, 1000], level | changed)


# ---- Candidates and search


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [8_000, 30_000, 500_000])
def test_candidates_use_their_size_and_never_exceed_it(family, size):
    found = shapes(FAMILIES[family], STUDY, COUNTS, N_FIELDS, size)
    assert found
    for run in found:
        rule = NearestRank(run.rank_scale)
        plan = plan_ranks(run.model, run.ranks, COUNTS, rule)[0]
        n_parameters = replace(plan, n_field_vectors=N_FIELDS if run.model == "ffm" else 0).n_parameters
        assert 0.6 * size < n_parameters <= size, run.label


@pytest.mark.parametrize("family", FAMILIES)
def test_where_nothing_fits_there_is_no_candidate(family):
    assert shapes(FAMILIES[family], STUDY, COUNTS, N_FIELDS, 2 * COUNTS.size) == []


@pytest.mark.parametrize("best", [(0.025, 0.16), (0.4, 0.0025), (0.2, 0.005)])
def test_the_search_walks_to_the_best_rate_and_penalty(best):
    def losses(runs):
        return [abs(np.log(run.rate / best[0])) + abs(np.log(run.l2 / best[1])) for run in runs]

    found = descend(Run("frappe", "fm", (8,), rate=0.2, l2=0.005), losses, rounds=2)
    assert (found.rate, found.l2) == best


def test_later_additions_do_not_change_the_keys_of_earlier_runs():
    run = Run("frappe", "fm", (8,))
    assert not set(LATER) & set(run.task())
    assert replace(run, rate=0.1).task() == {**run.task(), "rate": 0.1}
    assert replace(run, field_weights=True, recipe="averaged").task()["field_weights"]


# ---- Pruning


@pytest.fixture(scope="module")
def model():
    rows, _ = planted(n_rows=1000)  # validation rows would choose the constant, which has no factors
    return train_model(rows, resolve(task="binary", model="fm", ranks=8, n_epochs=2))


def test_pruning_keeps_the_largest_coordinates_within_the_size(model):
    (before,) = model.parameters.factors
    room = 100
    small = pruned(model, model.n_parameters - before.size + room)
    (after,) = small.parameters.factors
    kept = after != 0
    assert kept.sum() == room
    assert np.array_equal(after[kept], before[kept])
    assert np.abs(before[kept]).min() > np.abs(before[~kept]).max()
    assert nonzeros(small) == model.n_parameters - before.size + room


def test_pruning_to_all_or_to_less_than_nothing(model):
    assert pruned(model, model.n_parameters) is model
    others = model.n_parameters - model.parameters.factors[0].size
    assert nonzeros(pruned(model, others)) == others
    assert pruned(model, others - 1) is None


def test_a_size_that_some_seed_cannot_reach_has_no_entry():
    one = {"parameters": 5, "valid": 0.1, "test": {"rmse": 0.2}}
    assert [each.losses for each in entries("x", [{"models": [None, one]}, {"models": [one, one]}])] == [[0.2, 0.2]]


# ---- Verdicts


def test_the_best_by_validation_that_is_no_larger_represents_a_family():
    found = size_table(FM=[entry(100, BAD), entry(900, GOOD, valid=0.3), entry(1000, LEVEL)])
    assert found.within("FM", 99) is None
    assert [found.within("FM", size).parameters for size in (100, 950, 1000)] == [100, 100, 1000]


@pytest.mark.parametrize(
    ("rafm", "fm", "holds"), [(GOOD, BAD, True), (GOOD, LEVEL, False), (BAD, GOOD, False)], ids=["won", "level", "lost"]
)
def test_the_papers_claim_needs_a_win_and_no_loss(rafm, fm, holds):
    told = size_claims([size_table(RaFM=[entry(90, rafm)], FM=[entry(90, fm)])])[0]
    assert told.startswith("* **Holds**" if holds else "* **Does not hold**")
    assert "at equal size RaFM is better than FM" in told


def test_measured_ranks_must_be_worse_nowhere():
    lines = size_claims([size_table()])
    assert any(line.startswith("* **Holds**: frappe: measured ranks are nowhere worse") for line in lines)
    lost = size_claims([size_table(**{"pruned FM+t": [entry(900, [0.05, 0.051, 0.049])]})])
    told = next(line for line in lost if "measured ranks" in line)
    assert told.startswith("* **Does not hold**")
    assert "worse than pruned FM+t at 0.001 M (0.1000 against 0.0500)" in told


def test_what_beats_the_paper_is_listed_best_first():
    better, best = [0.09, 0.0901, 0.0899], [0.08, 0.0801, 0.0799]
    found = size_table(measured=[entry(90, best)], **{"FM+t": [entry(90, better)]})
    assert size_claims([found])[-1].endswith("better beyond luck: measured 0.0800, FM+t 0.0900.")
    assert size_claims([size_table()])[-1].endswith("better beyond luck: nothing.")


def test_the_table_marks_the_best_and_what_is_level_with_it():
    lines = sizes_table(size_table(FM=[entry(900, BAD)], RaFM=[entry(900, GOOD)])).splitlines()
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in lines[2:]}
    assert rows["FM"][0] == ""
    assert rows["FM"][1] == "0.2000 ± 0.0010 |"
    assert rows["RaFM"][1].startswith("**0.1000")
    assert rows["measured"][1].startswith("**0.1000")
