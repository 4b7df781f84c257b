"""Features that rise to a higher level: pairs are kept as by the definition, and nothing else changes."""

import dataclasses
import json

import naive
import numpy as np
import pytest
from commands import run
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import planted, rows_of, seeds

from rafm import RaFMClassifier, RaFMRegressor
from rafm.checks import effective
from rafm.errors import CheckpointError
from rafm.model.model import Model
from rafm.optimizers import OPTIMIZERS
from rafm.options import resolve
from rafm.plan.features import PlannedFeatures
from rafm.plan.ranks import RankPlan, Thresholds
from rafm.rows.blocks import take_rows
from rafm.rows.checked import Batch, check_batch
from rafm.rows.numbering import Numbering
from rafm.rows.stats import count_rows
from rafm.train.checkpoint import Checkpoint, NoCheckpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Continued, Finished, PieceFinished
from rafm.train.resources import Resources
from rafm.train.steps import promotion
from rafm.train.steps.loader import as_source
from rafm.train.steps.warm_start import warm_start

RULE = {"others": promotion.OTHERS, "ridge": promotion.RIDGE, "least": promotion.LEAST_RIDGE}


@dataclasses.dataclass
class Rise:
    """A model before some of its features rise, as the equations and as the package have it."""

    family: str
    ranks: tuple
    before: np.ndarray
    after: np.ndarray  # falling
    seed: int = 0

    def __post_init__(self):
        draw = np.random.default_rng(self.seed)
        blocks = np.diff(self.ranks, prepend=0).tolist() if self.family == "difacto" else self.ranks
        self.model = naive.random_model(draw, blocks, self.before, family=self.family)
        self.fresh = naive.random_model(draw, blocks, self.after, spread=0.01)["v"]
        self.counts = draw.integers(1, 50, len(self.before))
        sizes = tuple(int((self.after >= level).sum()) for level in range(len(self.ranks) + 1))
        self.plan = RankPlan(self.family, self.ranks, (*sizes, 0))

    def factors(self):
        """Return the blocks that promotion starts from: vectors as they were, fresh ones where there were none."""
        both = zip(self.model["v"], self.fresh, self.plan.sizes[1:], self.plan.block_ranks)
        return [
            np.array([fresh[i] if old[i] is None else old[i] for i in range(size)]).reshape(size, rank)
            for old, fresh, size, rank in both
        ]

    def pair_counts(self, rows, weights):
        """Return how often promoted features meet others, counted by the package."""
        n = self.plan.n_features
        indptr = np.cumsum([0, *(len(ids) for ids, _ in rows)])
        ids, values = (np.concatenate([np.empty(0), *(row[part] for row in rows)]) for part in (0, 1))
        batch = check_batch(Batch(indptr, ids.astype(np.int32), values, n, weights=weights))
        features = PlannedFeatures(self.plan, Numbering(np.arange(n), n), self.counts, np.ones(n, np.float32))
        return promotion.count_pairs(batch, features, promotion.promoted_features(self.plan, self.before))

    def promoted(self, pair_counts):
        """Return the blocks after promotion, and the model of the equations with their numbers."""
        grown = promotion.promote(self.plan, self.before, self.counts, self.factors(), pair_counts)
        vectors = [[*block, *[None] * (self.plan.n_features - len(block))] for block in grown]
        return grown, {**self.model, "levels": self.after.tolist(), "v": vectors}


@st.composite
def rises(draw, family):
    ranks = sorted(draw(st.lists(st.integers(1, 9), min_size=2, max_size=3, unique=True)))
    levels = st.integers(0, len(ranks)).flatmap(lambda after: st.tuples(st.just(-after), st.integers(0, after)))
    drawn = sorted(draw(st.lists(levels, min_size=1, max_size=9)))
    after, before = np.array([-level for level, _ in drawn]), np.array([level for _, level in drawn])
    return Rise(family, tuple(ranks), before, after, draw(seeds()))


@st.composite
def rises_with_rows(draw, family):
    rise = draw(rises(family))
    rows = draw(st.lists(rows_of(rise.plan.n_features), max_size=6))
    weights = np.array(draw(st.lists(st.sampled_from((0.0, 0.5, 1.0)), min_size=len(rows), max_size=len(rows))))
    return rise, rows, weights


def full_house(seed=0):
    """Return more members than coordinates, so that not all can be kept, and rows in which all kinds meet."""
    draw = np.random.default_rng(seed)
    after = np.sort(draw.integers(0, 4, 40))[::-1]
    rise = Rise("rafm", (2, 3, 5), draw.integers(0, after + 1), after, seed)
    rows = [(np.sort(draw.choice(40, 12, replace=False)), draw.normal(size=12)) for _ in range(30)]
    return rise, rows, draw.random(30)


@example(full_house())
@given(rises_with_rows("rafm"))
def test_new_vectors_solve_the_equations_of_the_definition(drawn):
    rise, rows, weights = drawn
    pair_counts = rise.pair_counts(rows, weights)
    expected_meetings = naive.pair_counts(rows, weights, rise.plan.n_features)
    grown, after = rise.promoted(pair_counts)
    expected = naive.promote(rise.model, rise.after.tolist(), rise.fresh, rise.counts, expected_meetings, RULE)
    for block, vectors in zip(grown, expected["v"]):
        np.testing.assert_allclose(block, np.reshape(vectors[: len(block)], block.shape), rtol=1e-5, atol=1e-7)
    error = promotion.pair_error(rise.plan, rise.before, rise.factors(), grown, pair_counts)
    same = naive.pair_error(rise.model, after, expected_meetings)
    assert error == (None if same is None else pytest.approx(same, rel=1e-5))


@given(rises_with_rows("difacto"))
def test_difacto_scores_as_before_wherever_a_member_has_the_coordinates(drawn):
    rise, rows, weights = drawn
    pair_counts = rise.pair_counts(rows, weights)
    grown, after = rise.promoted(pair_counts)
    error = promotion.pair_error(rise.plan, rise.before, rise.factors(), grown, pair_counts)
    same = naive.pair_error(rise.model, after, naive.pair_counts(rows, weights, rise.plan.n_features))
    assert error == (None if same is None else pytest.approx(same, rel=1e-9))
    if all((rise.before >= level).any() for level in range(1, rise.after.max() + 1)):
        assert error is None or error < 1e-12
        for row in rows:
            assert naive.score(after, row) == naive.score(rise.model, row)


@pytest.mark.parametrize("n_members", [3, 40], ids=["fewer members than coordinates", "more"])
def test_what_can_be_kept_exactly_is_kept(n_members):
    before = np.array([2] * n_members + [1])
    rise = Rise("rafm", (3, 8), before, np.full(n_members + 1, 2), seed=1)
    plain = np.random.default_rng(2).normal(size=(3, 8))
    for j in range(n_members):  # then plain.T @ (vector of level 1) has all the old products
        rise.model["v"][0][j] = plain @ rise.model["v"][1][j]
    rows = [([j, n_members], [1.0, 1.0]) for j in range(n_members)]
    pair_counts = rise.pair_counts(rows, None)
    grown, _ = rise.promoted(pair_counts)
    assert promotion.pair_error(rise.plan, before, rise.factors(), grown, pair_counts) < 0.005
    assert promotion.pair_error(rise.plan, before, rise.factors(), rise.factors(), pair_counts) > 0.9


def test_features_that_rise_together_keep_their_pairs_without_any_member():
    rise = Rise("rafm", (3, 8), np.ones(6, int), np.full(6, 2))
    pair_counts = rise.pair_counts([(list(range(6)), [1.0] * 6)], None)
    grown, _ = rise.promoted(pair_counts)
    assert promotion.pair_error(rise.plan, rise.before, rise.factors(), grown, pair_counts) < 0.01
    assert grown[1].all()  # coordinates of 0 on both sides would never be learnt


def test_meetings_are_counted_in_as_many_rows_as_there_is_room_for(monkeypatch):
    rise = Rise("rafm", (2, 4), np.array([2, 1]), np.array([2, 2]))
    monkeypatch.setattr(promotion, "PAIRS", 11)
    assert rise.pair_counts([([0, 1], [1.0, 1.0])] * 4, None).toarray()[0, 0] == 2


# In training


def options(family="rafm", optimizer="adagrad", threshold=60, replan=True, task="binary", **chosen):
    ranks = {"lr": None, "fm": (8,)}.get(family, (4, 8))
    chosen = {"n_epochs": 1, **chosen}
    usual = dict(model=family, ranks=ranks, levels=Thresholds((threshold,)), optimizer=optimizer, **chosen)
    found = resolve(task=task, **effective(usual))
    return dataclasses.replace(found, shuffle=False, keep_state=True, replan=replan)


def events_of(data, chosen, start=None, checkpoint=None):
    return list(run_recipe(data, chosen, None, Resources(checkpoint=checkpoint or NoCheckpoint()), start))


def trained(data, chosen, start=None):
    last = events_of(data, chosen, start)[-1]
    assert isinstance(last, Finished)
    return last.model


def halves():
    data, _ = planted("binary", n_rows=3600)
    return take_rows(data, 0, 1200), take_rows(data, 1200, 2400)


def same_bytes(one, other):
    found, expected = one.parameters.arrays(), other.parameters.arrays()
    return found.keys() == expected.keys() and all(found[name].tobytes() == expected[name].tobytes() for name in found)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("family", ["rafm", "difacto"])
def test_any_number_of_threads_gives_the_same_bytes(family, optimizer):
    first, rest = halves()
    start = trained(first, options(family, optimizer, n_epochs=8))
    told = events_of(rest, options(family, optimizer), start)
    [continued] = [event for event in told if isinstance(event, Continued)]
    assert continued.promoted > 0
    assert continued.pair_error < 0.9
    assert told[-1].model.plan.sizes[2] == start.plan.sizes[2] + continued.promoted
    assert same_bytes(told[-1].model, trained(rest, options(family, optimizer, threads=2), start))


@pytest.mark.parametrize("family", ["rafm", "difacto", "fm", "lr"])
def test_if_no_feature_rises_nothing_changes(family):
    first, rest = halves()
    threshold = 60 if family in ("fm", "lr") else 10**6
    start = trained(first, options(family, threshold=threshold))
    again = trained(rest, options(family, threshold=threshold), start)
    assert same_bytes(again, trained(rest, options(family, threshold=threshold, replan=False), start))


def test_no_feature_falls():
    first, rest = halves()
    start = trained(first, options())
    later = trained(rest, options(threshold=10**6), start)
    assert start.levels().max() == 2
    assert (later.levels() >= start.levels()).all()


def test_difacto_predicts_as_before_right_after_promotion():
    first, rest = halves()
    start, chosen = trained(first, options("difacto")), options("difacto")
    begun = warm_start(start, count_rows([rest]), as_source(rest), 1.0, chosen)
    scale, features = begun.features.value_scales, begun.features
    now = Model(
        features.plan, features.numbering, features.counts, start.loss, begun.parameters.undo_scaling(1.0, scale), 1
    )
    assert begun.promoted > 0
    np.testing.assert_array_equal(now.scores(rest), start.scores(rest))


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path):
    first, rest = halves()
    start, chosen = trained(first, options()), options(n_epochs=2)
    whole = trained(rest, chosen, start)
    with Checkpoint(tmp_path, 0) as states:
        for event in run_recipe(rest, chosen, None, Resources(checkpoint=states), start):
            if not isinstance(event, PieceFinished | Continued) and states.number:
                break
    with Checkpoint(tmp_path, 0) as states:
        assert same_bytes(events_of(rest, chosen, start, states)[-1].model, whole)
    without = dataclasses.replace(chosen, replan=False)
    with Checkpoint(tmp_path, 0) as states, pytest.raises(CheckpointError, match="replan was True, now False"):
        events_of(rest, without, start, states)


@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor])
def test_partial_fit_promotes_when_asked(kind):
    draw = np.random.default_rng(0)
    X = (draw.random((300, 12)) < np.linspace(0.05, 0.6, 12)).astype(np.float32)
    y = (X[:, 10] == X[:, 11]).astype(int)
    model = kind(ranks=(2, 4), levels=Thresholds((60,))).partial_fit(X, y, replan=True)
    kept = model.levels_
    assert kept.min() < kept.max()
    np.testing.assert_array_equal(model.partial_fit(X, y).levels_, kept)
    np.testing.assert_array_equal(model.partial_fit(X, y, replan=True).levels_, 1 + (model.feature_counts_ >= 60))
    assert (model.levels_ > kept).any()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.libsvm").write_text("1 0:1 2:1\n0 1:1 2:1\n1 3:1\n" * 4)
    (tmp_path / "b.libsvm").write_text("1 0:1 3:1\n0 1:1 3:1\n1 2:1 3:1\n" * 4)
    choices = ("--ranks", "2,4", "--thresholds", "6", "--epochs", "2", "--keep-state")
    assert run("train", tmp_path / "a.libsvm", "--out", tmp_path / "m.rafm", *choices).code == 0
    return tmp_path


def test_the_command_says_how_many_rise_and_how_well_their_pairs_are_kept(files):
    command = ("train", files / "b.libsvm", "--resume-from", files / "m.rafm", "--out", files / "n.rafm")
    shown = run(*command, "--replan").out
    assert "promoted to a higher rank: 3 features; relative error of their pair products: " in shown
    report = run(*command, "--replan", "--json", "--events", files / "log").json()
    assert report["promoted"] == 3
    logged = [json.loads(line) for line in (files / "log").read_text().splitlines()]
    [continued] = [line for line in logged if line["event"] == "continued"]
    assert (continued["promoted"], continued["pair_error"]) == (3, report["pair_error"])
    assert 0 <= report["pair_error"] < 0.5
    without = run(*command, "--json")
    assert "promoted" not in without.json()
    assert "promoted" not in without.err


def test_planning_again_needs_a_model(files):
    done = run("train", files / "b.libsvm", "--out", files / "n.rafm", "--replan")
    assert done.code == 2
    assert "--replan raises features of an existing model: add --resume-from MODEL" in done.error()
