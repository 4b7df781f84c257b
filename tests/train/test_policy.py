"""Every threshold of default training, tested on both sides of its boundary."""

from dataclasses import replace

import numpy as np
import pytest

from rafm.options import resolve
from rafm.rows.stats import RowStats
from rafm.train import policy
from rafm.train.decision import Facts, decide
from rafm.train.policy import Freedom, adapted
from rafm.train.recipe import Recipe
from rafm.train.resources import Resources


def stats(rows=20_000, nonzeros=2, n_features=100, task="binary", **changed):
    """Return the statistics of rows with this many nonzeros each, all of them 1."""
    counts = np.full(n_features, rows * nonzeros / n_features)
    labels = {"label_mean": 0.5, "label_spread": 0.5, "label_range": (0.0, 1.0)}
    if task == "regression":
        labels = {"label_mean": 3.5, "label_spread": 1.0, "label_range": (1.0, 5.0)}
    given = {"longest": nonzeros, "squares": counts, "weight": float(rows), "n_weighted": rows, **labels, **changed}
    return RowStats(rows=rows, nonzeros=rows * nonzeros, ids=np.arange(n_features), counts=counts, **given)


def suited(rows=10_000, nonzeros=10, n_features=100, spread=0.5, **given):
    """Return the options, and the recipe that suits rows."""
    options = resolve(**{"task": "binary", **given})
    return options, adapted(Recipe.of(options), stats(rows, nonzeros, n_features, label_spread=spread))


@pytest.mark.parametrize(
    ("optimizer", "nonzeros", "share"),
    [
        ("adagrad", 10, 1.0),
        ("adagrad", 46, (10 / 46) ** 1.5),
        ("adagrad", 47, 0.1),
        ("adagrad", 600, 0.1),
        ("sgd", 600, (10 / 600) ** 1.5),
    ],
)
def test_the_learning_rate_falls_with_the_length_of_rows_to_a_tenth_at_least(optimizer, nonzeros, share):  # case 132
    usual, recipe = suited(nonzeros=nonzeros, optimizer=optimizer)
    assert recipe.learning_rate == pytest.approx(share * usual.learning_rate)
    assert suited(nonzeros=nonzeros, optimizer=optimizer, learning_rate=0.3)[1].learning_rate == 0.3


@pytest.mark.parametrize(
    ("n_features", "spread", "times"),
    [(250, 0.5, 1), (1000, 0.5, 4), (9000, 0.5, 5), (9000, 0.25, 1.25), (9000, 0.08, 1)],
    ids=["enough rows", "few rows", "at most fivefold", "fewer clicks", "rare clicks"],
)
def test_l2_of_clicks_grows_with_features_per_row_but_not_where_clicks_are_rare(n_features, spread, times):
    usual, recipe = suited(1000, 8, n_features, spread)
    assert recipe.l2 == pytest.approx([times * penalty for penalty in usual.l2])
    assert suited(1000, 8, n_features, spread, l2=0.005)[1].l2 == (0.005,) * 3
    usual, recipe = suited(1000, 8, n_features, spread, task="regression")
    assert recipe.l2 == usual.l2


# ---- Thresholds of numbers alone


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (policy.learning_rate_share(10.0, 0.1), 1.0),
        (policy.learning_rate_share(10.1, 0.1), 1.01**-1.5),
        (policy.learning_rate_share(1000.0, 0.1), 0.1),
        (policy.l2_times(1000, 10.0, 250, 0.5), 1.0),
        (policy.l2_times(1000, 10.0, 251, 0.5), 1.004),
        (policy.l2_times(1000, 10.0, 1251, 0.5), 5.0),
        (policy.l2_times(1000, 20.0, 10, 0.5), 4.0),
        (policy.init_scale(0.03, 9_999), 0.01),
        (policy.init_scale(0.03, 10_000), 0.03),
        (policy.safe_epochs(79_999), 3),
        (policy.safe_epochs(80_000), 4),
        (policy.is_early(3), True),
        (policy.is_early(4), False),
        (policy.is_worth_more("log_loss", 0.4996, 0.5), False),
        (policy.is_worth_more("log_loss", 0.4994, 0.5), True),
        (policy.is_worth_more("log_loss", 0.4996, 0.5, is_limited=True), True),
        (policy.is_worth_more("log_loss", 0.5, 0.5, is_limited=True), False),
        (policy.is_worth_more("auc", 0.8009, 0.8), True),
        (policy.is_worth_more("auc", 0.8007, 0.8), False),
        (policy.is_worth_more("auc", 0.8, None), True),
        (policy.is_worth_more("auc", None, 0.8), False),
        (policy.is_given_up("log_loss", 5, 0.56, 0.5, False), True),
        (policy.is_given_up("log_loss", 5, 0.54, 0.5, False), False),
        (policy.is_given_up("log_loss", 5, 0.44, 0.5, False), False),
        (policy.is_given_up("log_loss", 4, 0.9, 0.5, False), False),
        (policy.is_given_up("log_loss", 6, 0.9, 0.5, False), False),
        (policy.is_given_up("auc", 5, 0.7, 0.8, False), True),
        (policy.is_given_up("log_loss", 20, 0.56, 0.5, True), True),
        (policy.is_given_up("log_loss", 20, 0.54, 0.5, True), False),
        (policy.is_given_up("log_loss", 60, 0.516, 0.5, True), True),
        (policy.is_given_up("log_loss", 60, 0.514, 0.5, True), False),
        (policy.is_given_up("log_loss", 5, 0.9, 0.5, True), False),
        (policy.is_given_up("log_loss", 5, 0.9, None, False), False),
        (policy.is_as_good(0.50049, 0.5), True),
        (policy.is_as_good(0.50051, 0.5), False),
        (policy.sampled_rank(199_999), 8),
        (policy.sampled_rank(200_000), 16),
        (policy.ranks_to_cut(32_000), [32, 16, 8]),
        (policy.ranks_to_cut(31_999), [16, 8]),
        (policy.ranks_to_cut(15_999), [8]),
        (policy.ranks_to_cut(1), [8]),
        (policy.time_allowed(Resources()), 900.0),
        (policy.time_allowed(Resources(seconds=60.0)), 30.0),
        (policy.room_of(None), 2000.0),
        (policy.room_of(5.0), 5.0),
        (policy.sampler_bytes(stats(10, 2, 4), 7), 40 * 10 + 20 * 20 + 16 * 7),
    ],
)
def test_each_threshold_of_a_number_is_where_it_is_said_to_be(found, expected):
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("n_rows", "given", "expected"),
    [
        (5_000, {}, True),
        (5_001, {}, False),
        (5_000, {"ranks": "auto"}, False),
        (5_000, {"learning_rate": "auto"}, False),
        (5_000, {"rate_drops": 1}, False),
        (5_000, {"model": "fm", "optimizer": "gibbs"}, False),
    ],
)
def test_few_rows_are_dealt_into_folds_unless_the_recipe_needs_a_share(n_rows, given, expected):
    assert policy.deals_folds(n_rows, Recipe.of(resolve(task="binary", **given))) is expected


@pytest.mark.parametrize(
    ("n_rows", "click", "memory", "n_features", "rank"),
    [
        (51_200, True, None, 100, 512),
        (51_199, True, None, 100, 256),
        (6_400, False, None, 100, 64),
        (6_399, False, None, 100, 32),
        (10, True, None, 100, 16),
        (10**6, True, 6.3, 50, 256),
        (10**6, True, 1e-3, 50, 16),
    ],
)
def test_the_large_model_is_as_large_as_rows_and_memory_allow(n_rows, click, memory, n_features, rank):
    assert policy.large_rank(stats(n_rows, n_features=n_features), click, memory) == rank
    assert rank == 16 or memory is None or policy.large_megabytes(n_features, rank) <= memory
    assert memory is None or policy.large_megabytes(n_features, 2 * rank) > memory


def test_measuring_takes_the_time_of_its_passes():
    rows, nonzeros, rank = 1_000_000, 10, 512
    seconds = [rows * (4e-7 + nonzeros * (3e-8 + 3e-10 * of)) for of in (32, rank)]
    assert policy.measuring_seconds(stats(rows, nonzeros), rank) == pytest.approx(
        80 * 0.4 * seconds[0] + 40 * seconds[1]
    )


# ---- What is tried


def tried(facts, options, **resources):
    """Return (reason, names of the recipes) of the decision."""
    found = decide(facts, options, Resources(**resources))
    return found.reason, [recipe.name for recipe in found.recipes]


def facts(task="binary", rows=20_000, nonzeros=2, n_features=100, n_fields=2, changed=None, **given):
    return Facts(stats(rows, nonzeros, n_features, task, **(changed or {})), n_fields, **given)


USUAL = ["rafm", "lr", "fm", "sampled fm"]
MEASURED = ["measured", "lr", "fm", "sampled fm"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"rows": 5_000}, ("given", ["rafm", "lr", "fm"])),
        ({"rows": 5_001}, ("given", USUAL)),
        ({"rows": 19_999}, ("given", USUAL)),  # fewer than 10,000 of each class
        ({"rows": 20_000}, ("measured", MEASURED)),
        ({"rows": 400_000}, ("measured", MEASURED)),
        ({"rows": 400_001}, ("measured", ["measured"])),
        ({"rows": 100_000, "changed": {"label_mean": 0.0999}}, ("given", USUAL)),
        ({"rows": 100_000, "changed": {"label_mean": 0.1}}, ("measured", MEASURED)),
        ({"rows": 100_000, "changed": {"label_mean": 0.8999}}, ("measured", MEASURED)),
        ({"rows": 100_000, "changed": {"label_mean": 0.9001}}, ("given", USUAL)),
        ({"nonzeros": 40}, ("measured", MEASURED)),
        ({"nonzeros": 41}, ("measured", MEASURED[:-1])),  # long rows are not sampled
        ({"changed": {"has_unit_weights": False}}, ("measured", MEASURED[:-1])),
        ({"rows": 30_000, "changed": {"label_range": (0.0, 0.9)}}, ("measured", MEASURED[:-1])),
        ({"is_judged": False}, ("given", ["rafm"])),
        ({"are_copies": True}, ("measured", MEASURED[:-1])),
        ({"has_start": True}, ("given", ["rafm"])),
        ({"n_fields": None}, ("measured", MEASURED)),
        ({"rows": 10**8, "n_features": 10**6}, ("count", ["rafm"])),
    ],
    ids=str,
)
def test_which_models_are_tried_for_clicks(found, expected):
    assert tried(facts(**found), resolve(task="binary")) == expected


SAMPLED, STEPPED = ("sampled", ["sampled fm", "lr", "fm"]), ("given", USUAL)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"rows": 5_000}, ("given", ["rafm", "lr", "fm"])),
        ({"rows": 5_001}, SAMPLED),
        ({"nonzeros": 400}, SAMPLED),
        ({"n_fields": 1}, STEPPED),
        ({"n_fields": None}, SAMPLED),
        ({"n_fields": None, "nonzeros": 1}, STEPPED),
        ({"changed": {"label_range": (1.0, 13.0)}}, SAMPLED),
        ({"changed": {"label_range": (1.0, 13.1)}}, STEPPED),
        ({"changed": {"squares": np.full(100, 1e3)}}, SAMPLED),  # measured values
        ({"is_judged": False}, ("given", ["rafm"])),
        ({"are_copies": True}, SAMPLED),
        ({"rows": 400_001}, ("sampled", ["sampled fm"])),
        ({"in_memory": False}, ("given", ["rafm", "lr", "fm"])),
    ],
    ids=str,
)
def test_which_models_are_tried_for_ratings(found, expected):
    assert tried(facts("regression", **found), resolve(task="regression")) == expected


@pytest.mark.parametrize(
    ("task", "given", "resources", "expected"),
    [
        ("binary", {"model": "rafm"}, {}, ("given", ["rafm"])),
        ("binary", {"negative_rate": 0.5}, {}, ("measured", ["measured"])),
        ("binary", {"field_weights": "on"}, {}, ("measured", ["measured"])),
        ("binary", {"field_weights": "off", "calibrate": "off", "seed": 3}, {}, ("measured", MEASURED)),
        ("binary", {"needs_state": True}, {}, ("measured", MEASURED[:-1])),
        ("binary", {"shuffle": False}, {}, ("given", ["rafm"])),
        ("binary", {}, {"seconds": 2.0}, ("count", USUAL)),
        ("binary", {}, {"memory": 0.1}, ("count", USUAL)),
        ("regression", {"optimizer": "adagrad"}, {}, ("given", ["rafm"])),
        ("regression", {"loss": "huber"}, {}, ("given", USUAL[:-1])),
        ("regression", {"field_weights": "off"}, {}, SAMPLED),
        ("regression", {"ranks": "auto"}, {}, ("sampled", ["sampled and cut"])),
        ("regression", {"max_parameters": 500}, {}, ("sampled", ["sampled and cut", "sampled fm", "lr", "fm"])),
        ("regression", {"max_bytes": 5000, "optimizer": "adagrad"}, {}, ("given", ["measured"])),
        ("binary", {"max_parameters": 500}, {}, ("given", MEASURED)),
        ("binary", {"ranks": "auto", "max_bytes": 5000}, {}, ("given", MEASURED)),
        ("binary", {"ranks": "auto"}, {}, ("given", ["measured"])),
        ("regression", {"needs_state": True}, {}, ("given", USUAL[:-1])),
        ("regression", {}, {"seconds": 1e-3}, ("given", USUAL[:-1])),
        ("count", {}, {}, ("given", USUAL[:-1])),
    ],
    ids=str,
)
def test_options_and_resources_bound_what_is_tried(task, given, resources, expected):
    kind = "regression" if task == "count" else task
    assert tried(facts(kind), resolve(task=task, **given), **resources) == expected


@pytest.mark.parametrize(
    ("task", "given", "found", "expected"),
    [
        ("binary", {}, {}, ("quick", ["fm"])),
        ("binary", {"metric": "auc"}, {"rows": 10**7}, ("quick", ["fm"])),
        ("binary", {}, {"n_fields": 1}, ("quick", ["lr"])),  # no pairs
        ("binary", {"max_parameters": 500}, {}, ("quick", ["fm"])),
        ("binary", {"model": "rafm"}, {}, ("given", ["rafm"])),
        ("regression", {}, {"is_judged": False}, ("quick", ["fm"])),
    ],
    ids=str,
)
def test_quick_is_one_small_model_for_few_epochs(task, given, found, expected):
    assert tried(facts(task, **found), resolve(task=task, effort="quick", **given)) == expected
    (recipe,) = decide(facts(task, **found), resolve(task=task, effort="quick", **given), Resources()).recipes
    if expected[0] == "quick":
        assert (recipe.n_epochs, recipe.ranks) == (10, () if recipe.model == "lr" else (8,))


@pytest.mark.parametrize(
    ("task", "found", "expected"),
    [
        ("binary", {}, ["measured", "lr", "fm", "fm", "rafm", "sampled fm"]),
        ("binary", {"rows": 400_001}, ["measured", "lr", "fm", "fm", "rafm", "sampled fm"]),
        ("binary", {"rows": 19_999}, ["rafm", "lr", "fm", "fm", "measured", "sampled fm"]),
        ("binary", {"rows": 5_000, "has_folds": True}, ["rafm", "lr", "fm", "fm"]),
        ("binary", {"rows": 5_000}, ["rafm", "lr", "fm", "fm", "measured"]),
        ("regression", {}, ["sampled fm", "lr", "fm", "fm", "rafm", "measured"]),
    ],
    ids=str,
)
def test_the_best_effort_tries_more_models_on_any_number_of_rows(task, found, expected):
    assert tried(facts(task, **found), resolve(task=task, effort="best"))[1] == expected


def test_the_best_effort_samples_longer_and_with_larger_ranks():
    standard, best = (decide(facts("regression"), resolve(task="regression", effort=one), Resources()).recipes[0]
                      for one in ("standard", "best"))  # fmt: skip
    assert (standard.ranks, best.ranks) == ((8,), (16,))
    assert best.n_epochs == 2 * standard.n_epochs == 400


@pytest.mark.parametrize(
    ("given", "values", "expected"),
    [
        ({"model": "fm", "optimizer": "gibbs"}, {"measured": 0.4, "fm": None}, False),
        ({"model": "fm", "optimizer": "gibbs"}, {"measured": 0.4, "fm": 0.6}, True),
        ({"model": "fm", "optimizer": "gibbs"}, {"measured": 0.4}, True),
        ({"model": "fm", "optimizer": "gibbs", "effort": "best"}, {"measured": 0.4, "fm": None}, True),
        ({"model": "fm"}, {"measured": 0.4, "fm": None}, True),
    ],
    ids=str,
)
def test_clicks_are_sampled_only_where_a_small_model_is_not_hopeless(given, values, expected):
    assert policy.is_worth_trying(Recipe.of(resolve(task="binary", **given)), values) is expected


@pytest.mark.parametrize(
    ("task", "rows", "expected"),
    [
        ("regression", 15_999, [8, "lr", "fm"]),  # the sampled model of rank 8 is the usual one, too
        ("regression", 16_000, [16, "fm 8", "lr", "fm"]),
        ("regression", 32_000, [32, "fm 8", "lr", "fm"]),
        ("regression", 400_000, [32, "fm 16", "lr", "fm"]),
        ("regression", 400_001, [32, "fm 16"]),
        ("binary", 19_999, [None, "rafm", "lr", "fm", "sampled fm"]),
        ("binary", 20_000, [None, "lr", "fm", "sampled fm"]),  # ranks are measured without a limit, too
        ("binary", 400_001, [None]),
    ],
)
def test_under_a_limit_of_size_the_model_without_it_competes(task, rows, expected):  # case 141
    options = resolve(task=task, max_parameters=500)
    first, *others = decide(facts(task, rows=rows), options, Resources()).recipes
    names = [f"fm {one.ranks[0]}" if one.optimizer.is_sampler and task == "regression" else one.name for one in others]
    assert [first.large_rank, *names] == expected
    assert (first.measured, first.max_parameters) == (True, 500)


@pytest.mark.parametrize(
    ("given", "found", "expected"),
    [
        ({}, {}, True),
        ({"max_parameters": 500}, {}, False),  # what fits is not cut
        ({"metric": "auc", "calibrate": "off"}, {}, True),
        ({}, {"rows": 10**7}, True),
        ({}, {"is_judged": False}, False),
        ({}, {"has_start": True}, False),
        ({"model": "rafm"}, {}, False),
        ({"ranks": "auto"}, {}, False),
        ({"l2": 0.1}, {}, False),
    ],
    ids=str,
)
def test_only_models_that_nobody_asked_for_are_cut_to_the_ranks_that_features_need(given, found, expected):
    assert decide(facts(**found), resolve(task="binary", **given), Resources()).shortens is expected


def test_what_takes_too_long_or_too_much_room_says_so():
    options = resolve(task="binary")
    slow = decide(facts(rows=10**8), options, Resources())
    assert (slow.reason, slow.obstacle.startswith("takes about ")) == ("count", True)
    assert "more than the 900 s allowed" in slow.obstacle
    large = decide(facts(n_features=10**7), options, Resources())
    assert "MB besides the rows, more than 2000" in large.obstacle


def test_a_recipe_is_followed_to_the_letter_but_never_calibrated_on_training_rows():
    recipe = Recipe.of(resolve(task="binary"))
    assert decide(facts(), recipe, Resources()).recipes == (recipe,)
    (copied,) = decide(facts(are_copies=True), recipe, Resources()).recipes
    assert copied == replace(recipe, calibrate="off")


def test_nothing_is_free_where_rows_are_visited_once_or_compared_in_pairs():
    nothing = Freedom(False, False, False)
    assert Freedom.of(resolve(task="binary", shuffle=False)) == nothing
    assert Freedom.of(resolve(task="ranking", item_fields="item")) == nothing
    assert Freedom.of(resolve(task="binary")) == Freedom(False, True, True)
    assert Freedom.of(resolve(task="regression")) == Freedom(True, False, True)
    assert Freedom.of(resolve(task="count")) == Freedom(False, False, True)
