"""Which models default training tries, on which rows, and when it gives up: every threshold, with its reason.

All functions here are pure: statistics of the rows, options and resources in; shares, sizes and recipes out. Models
must not depend on luck, so times are estimates by constant speeds, never measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import EFFORTS, SAMPLED_RANK, SIZES
from ..metrics import is_better
from ..optimizers import SAMPLERS
from ..options import Options
from ..rows.stats import RowStats
from .recipe import Recipe
from .resources import Resources

if TYPE_CHECKING:
    from .decision import Facts

# ---- What an option leaves to the rows

# Options that say nothing about the model or its steps: ratings may be sampled although they are given
NEUTRAL = ("loss", "metric", "validation_fraction", "effort", "max_seconds", "head", "seed", "threads")
NEUTRAL_FOR_CLICKS = (*NEUTRAL, "field_weights", "calibrate", "negative_rate")  # ranks may be measured all the same
PASSED_ON = (*NEUTRAL, "calibrate", "field_weights")  # to further candidates
SAMPLER = next(iter(SAMPLERS))
QUICK, STANDARD, BEST = EFFORTS


@dataclass(frozen=True)
class Freedom:
    """What rows may decide, because no option asks for a model: decisions 0022, 0034 and 0037."""

    may_sample: bool
    may_measure: bool
    may_compare: bool

    @classmethod
    def of(cls, options: Options) -> Freedom:
        """Return what these options leave to the rows."""
        loss, given = options.loss, options.given - ({"field_weights"} if options.field_weights == "off" else set())
        if loss.is_ranking or not options.shuffle:
            return cls(False, False, False)
        sizes = {"ranks", *SIZES} if options.measured else set[str]()
        limit = sizes if is_limited(options) else set[str]()  # not `ranks` alone: it asks for measured ones
        return cls(
            may_sample=loss.name == "squared" and given <= {*NEUTRAL, *sizes} and not options.needs_state,
            may_measure=loss.is_classification and given <= {*NEUTRAL_FOR_CLICKS},
            may_compare=given <= {*NEUTRAL, "calibrate", *limit},
        )


def is_limited(options: Options) -> bool:
    """Return whether the model has a maximum size."""
    return any(getattr(options, name) is not None for name in SIZES)


# ---- Settings that suit the rows

USUAL_NONZEROS = 10.0  # per row; a step moves all features of a row at once, so longer rows need a lower rate
MANY_ROWS = 10_000  # fewer cannot unlearn the noise of a larger spread of initial factors
SMALL_SPREAD = 0.01
KNOWN_FEATURES, MOST_SCARCITY = 0.25, 5.0  # features per row without effect on L2, and its largest effect


def learning_rate_share(nonzeros: float, least: float) -> float:
    """Return the factor of the default learning rate for rows of this many nonzeros.

    >>> [round(learning_rate_share(n, 0.1), 3) for n in (5, 10, 40, 400)]
    [1.0, 1.0, 0.125, 0.1]
    """
    return float(max(max(1.0, nonzeros / USUAL_NONZEROS) ** -1.5, least))


def l2_times(n_rows: int, nonzeros: float, n_features: int, label_spread: float) -> float:
    """Return the factor of the default L2 penalty of clicks.

    Long rows have more noise from pairs. Features of few rows need a stronger penalty, less so if clicks are rare: then
    the loss is flat, as its curvature is the variance of the labels.

    >>> l2_times(1000, 10, 100, 0.5), l2_times(1000, 10, 500, 0.5), l2_times(1000, 20, 9000, 0.5)
    (1.0, 2.0, 20.0)
    """
    scarcity = min(n_features / (n_rows * KNOWN_FEATURES), MOST_SCARCITY) * 4 * label_spread**2
    return float(max(1.0, nonzeros / USUAL_NONZEROS) ** 2 * max(1.0, scarcity))


def init_scale(usual: float, n_rows: int) -> float:
    """Return the spread of initial factors.

    >>> init_scale(0.03, 9_999), init_scale(0.03, 10_000)
    (0.01, 0.03)
    """
    return SMALL_SPREAD if n_rows < MANY_ROWS else usual


def adapted(recipe: Recipe, found: RowStats, n_features: int | None = None) -> Recipe:
    """Return the recipe with defaults that suit the rows; see decisions 0009, 0020 and 0028.

    n_features: those that occur, if they are not listed.

    >>> from rafm.options import resolve
    >>> found = RowStats(1000, 40_000, 40, np.arange(500), np.full(500, 80), np.full(500, 80.0), 1000, 0.5, 0.5, (0, 1))
    >>> suited = adapted(Recipe.of(resolve(task="binary")), found)
    >>> round(suited.learning_rate, 3), round(suited.l2[0], 3), suited.init_scale
    (0.025, 0.16, 0.01)
    """
    nonzeros, changed = found.counts.sum() / max(found.rows, 1), dict[str, Any]()
    if "learning_rate" in recipe.adaptable:
        share = learning_rate_share(nonzeros, recipe.optimizer.least_rate)
        changed["learning_rate"] = recipe.learning_rate * share
    if "l2" in recipe.adaptable and recipe.loss.is_classification:
        n_features = found.ids.size if n_features is None else n_features
        times = l2_times(found.rows, nonzeros, n_features, found.label_spread)
        changed["l2"] = tuple(penalty * times for penalty in recipe.l2)
    if "init_scale" in recipe.adaptable:
        changed["init_scale"] = init_scale(recipe.init_scale, found.rows)
    return replace(recipe, **changed)


# ---- Rows that judge

FOLD_ROWS = 5_000  # no more rows than these are dealt out into folds; see decision 0016
FEW_VALID_ROWS = 30  # with fewer, which epoch or model is the best is mostly luck
SAFE_EPOCHS, EPOCH_ROWS = 3, 20_000  # without validation rows, more epochs than both can be worse than a constant
NOISE_SWEEPS = 100  # of the sampler, enough to measure the noise on rows that are held out


def deals_folds(n_rows: int, recipe: Recipe) -> bool:
    """Return whether rows that are held out are dealt out into folds, instead of a single share."""
    return n_rows <= FOLD_ROWS and recipe.optimizer.has_steps and not recipe.needs_validation


def safe_epochs(n_rows: int) -> int:
    """Return how many epochs do no harm without rows to stop by.

    >>> safe_epochs(8_000), safe_epochs(1_000_000)
    (3, 50)
    """
    return max(SAFE_EPOCHS, n_rows // EPOCH_ROWS)


# ---- Trials

EARLY_EPOCH, SLOWER, MOST_RUNS = 3, 4.0, 3  # if the best epoch is that early, a lower learning rate is tried
LEAST_ADVANTAGE = 1e-3  # relative: with less, the first candidate stays
TIME_FOR_OTHERS = 0.4  # of a limit of time, after which no further candidate begins if all rows are trained on later
# A candidate that is this much worse than the best so far after an epoch, or sweep, is given up. Between these sweeps
# burn-in ends, after which the mean of few samples is worse than it will be.
GIVE_UP_LIMITS = {5: 0.1}, {20: 0.1, 60: 0.03}


def is_early(best_epoch: int) -> bool:
    """Return whether the best epoch is one of the first: the learning rate may be too high."""
    return best_epoch <= EARLY_EPOCH


def is_worth_more(metric: str, value: float | None, usual: float | None, is_limited: bool = False) -> bool:
    """Return whether the value of another candidate is better by more than LEAST_ADVANTAGE.

    Under a limit of size by any amount, so that more room is never worse.

    >>> is_worth_more("log_loss", 0.49, 0.5), is_worth_more("log_loss", 0.4999, 0.5), is_worth_more("auc", 0.8, 0.7)
    (True, False, True)
    """
    if value is None or usual is None:
        return value is not None
    least = 0.0 if is_limited else LEAST_ADVANTAGE
    return is_better(metric, value, usual) and abs(value - usual) > least * abs(usual)


def is_worth_trying(recipe: Recipe, values: Mapping[str, float | None]) -> bool:
    """Return whether a candidate may still win, given the values of those before; None: given up.

    Sampling clicks takes longer than all others together, and gains a few percent on an FM of a small rank by steps.
    Where such an FM was given up, large ranks matter.

    >>> from rafm.options import resolve
    >>> sampled = Recipe.of(resolve(task="binary", model="fm", optimizer="gibbs"))
    >>> is_worth_trying(sampled, {"measured": 0.4, "fm": None}), is_worth_trying(sampled, {"measured": 0.4, "fm": 0.42})
    (False, True)
    """
    is_sampled_click = recipe.optimizer.is_sampler and recipe.loss.is_classification and recipe.effort != BEST
    return not is_sampled_click or values.get(SMALL_MODEL, 0.0) is not None


def is_given_up(metric: str, epoch: int, value: float | None, best: float | None, is_sampled: bool) -> bool:
    """Return whether a candidate whose best value after an epoch, or sweep, is this is not worth another one.

    >>> is_given_up("log_loss", 5, 0.3, 0.2, is_sampled=False), is_given_up("log_loss", 5, 0.21, 0.2, is_sampled=False)
    (True, False)
    >>> is_given_up("log_loss", 31, 0.3, 0.2, is_sampled=True)
    False
    """
    limit = GIVE_UP_LIMITS[is_sampled].get(epoch)
    if limit is None or value is None or best is None:
        return False
    return is_better(metric, best, value) and abs(value - best) > limit * abs(best)


# ---- Time

MOST_SECONDS, SHARE_OF_TIME = 900.0, 0.5  # of measuring or sampling: without a limit of time, and of such a limit


def time_allowed(resources: Resources) -> float:
    """Return the seconds that measuring or sampling may take."""
    return MOST_SECONDS if resources.seconds is None else SHARE_OF_TIME * resources.seconds


# ---- Sampled models

LEAST_FIELDS = 2  # if they are known; as many features per row if not
MOST_NONZEROS = 40  # of a row of clicks
LABEL_SPREADS = 12.0  # ratings have no long tails: at most this range, in standard deviations
HIGHER_RANK, HIGHER_RANK_ROWS = 16, 200_000  # of a sampled model with many rows
RANK_TO_CUT, LEAST_RANK_TO_CUT, ROWS_PER_SAMPLED_RANK = 32, 8, 1000  # of a sampled model to be cut to a size
SWEEPS, SWEEP_SECONDS = 300, 5e-9  # those of both runs, and of a sweep for each nonzero and factor
ROW_BYTES, ENTRY_BYTES, NUMBER_BYTES = 40, 20, 16  # of a row, a nonzero and a parameter, as given and in the sampler


def sampled_rank(n_rows: int, effort: str = STANDARD) -> int:
    """Return the rank of a sampled model.

    >>> sampled_rank(199_999), sampled_rank(200_000), sampled_rank(200_000, "best")
    (8, 16, 32)
    """
    return (HIGHER_RANK if n_rows >= HIGHER_RANK_ROWS else SAMPLED_RANK) * (MORE_OF_ALL if effort == BEST else 1)


def sampled_recipe(options: Options, names: tuple[str, ...], rank: int) -> Recipe:
    """Return the recipe of a sampled FM, which takes these of the options; sampled for longer with more effort."""
    recipe = Recipe.like(options, names, model="fm", ranks=rank, optimizer=SAMPLER)
    return replace(recipe, n_epochs=MORE_OF_ALL * recipe.n_epochs) if options.effort == BEST else recipe


def ranks_to_cut(n_rows: int) -> list[int]:
    """Return possible ranks of a sampled model to be cut to a size, the best one first.

    >>> ranks_to_cut(1_000_000), ranks_to_cut(20_000), ranks_to_cut(500)
    ([32, 16, 8], [16, 8], [8])
    """
    ranks = [RANK_TO_CUT]
    while ranks[-1] > LEAST_RANK_TO_CUT:
        ranks.append(ranks[-1] // 2)
    return [rank for rank in ranks if rank * ROWS_PER_SAMPLED_RANK <= n_rows] or [LEAST_RANK_TO_CUT]


def sampler_bytes(found: RowStats, n_parameters: int) -> int:
    """Return how many bytes the sampler takes, with the rows as given."""
    return ROW_BYTES * found.rows + ENTRY_BYTES * int(found.counts.sum()) + NUMBER_BYTES * n_parameters


def can_be_sampled(facts: Facts, rank: int, resources: Resources) -> bool:
    """Return whether there are rows enough to sample, but not more than time and memory allow."""
    found = facts.found
    is_quick = SWEEPS * SWEEP_SECONDS * found.nonzeros * (rank + 1) <= time_allowed(resources)
    room = np.inf if facts.in_memory else 1e6 * (resources.memory or 0)
    return found.rows > FOLD_ROWS and is_quick and sampler_bytes(found, found.ids.size * (1 + rank)) <= room


def has_pairs(facts: Facts) -> bool:
    """Return whether a row has two fields, or two features if fields are not known."""
    if facts.n_fields is None:
        return facts.found.nonzeros >= LEAST_FIELDS * facts.found.rows
    return facts.n_fields >= LEAST_FIELDS


def are_ratings(found: RowStats) -> bool:
    """Return whether these are many rows, with labels that have no long tails.

    >>> found = RowStats(9000, 18000, 2, np.arange(3), np.full(3, 6000), np.full(3, 6000.0), 9000, 3.5, 1.0, (1, 5))
    >>> are_ratings(found), are_ratings(replace(found, rows=500)), are_ratings(replace(found, label_range=(0, 90)))
    (True, False, False)
    """
    low, high = found.label_range
    return found.rows > FOLD_ROWS and high - low <= LABEL_SPREADS * found.label_spread


def are_equal_clicks(found: RowStats) -> bool:
    """Return whether these are short rows of 0 and 1 of equal weight, as sampling of clicks needs."""
    is_short = found.nonzeros <= MOST_NONZEROS * found.rows
    return is_short and found.has_unit_weights and found.label_range == (0.0, 1.0)


# ---- Measured ranks

CLICK_RANK, RATING_RANK, LEAST_RANK = 512, 64, 16  # of the large model
LEAST_RANK_BY_DEFAULT = 128  # for lack of memory; cut from less, a model is not better than ranks by count
ROWS_PER_RANK = 100  # a large model is not worth more
MOST_MEGABYTES = 2000.0  # of a large model that is trained without a limit of memory
COPIES, LOSS_COPIES = 4, 2  # of the parameters of the large model, and of what each length of each vector loses
FIXED_MEGABYTES = 6.0  # what small parts take at a time, whatever the size
LEAST_OF_CLASS = 10_000  # rows of each class; with fewer, the tenth that is held out cannot tell which ranks are good
SEARCH_ROWS, SEARCH_RANK = 400_000, 32  # of the short runs that find learning rate and L2
SEARCH_PASSES, LARGE_PASSES = 80, 40  # over the rows, of the short runs together and of the large model
ROW_SECONDS, NONZERO_SECONDS, FACTOR_SECONDS = 4e-7, 3e-8, 3e-10  # of a pass: by row, nonzero, and factor of one


def has_many_of_each(found: RowStats) -> bool:
    """Return whether there are enough rows of both classes to measure ranks by default."""
    low, high = found.label_range
    share = (found.label_mean - low) / (high - low) if high > low else 0.0
    return min(share, 1 - share) * found.rows >= LEAST_OF_CLASS


def large_rank(found: RowStats, is_click: bool, memory: float | None, least: int = LEAST_RANK) -> int:
    """Return the rank of the large model, lower for few rows, and for lack of memory; least: for lack of memory."""
    rank = CLICK_RANK if is_click else RATING_RANK
    while rank > LEAST_RANK and rank * ROWS_PER_RANK > found.rows:
        rank //= 2
    while rank > least and large_megabytes(found.ids.size, rank) > room_of(memory):
        rank //= 2
    return rank


def room_of(memory: float | None) -> float:
    """Return how many megabytes a large model may take."""
    return MOST_MEGABYTES if memory is None else memory


def large_rank_by_default(found: RowStats, is_click: bool, memory: float | None) -> int:
    """Return the rank of the large model where no option asks for measured ranks."""
    return large_rank(found, is_click, memory, LEAST_RANK_BY_DEFAULT)


def large_megabytes(n_features: int, rank: int) -> float:
    """Return the memory that measuring takes, besides the rows."""
    from ..compress.lengths import lengths_up_to

    parameters, losses = 4 * n_features * (rank + 4), 8 * n_features * len(lengths_up_to(rank))
    return (COPIES * parameters + LOSS_COPIES * losses) / 1e6 + FIXED_MEGABYTES


def measuring_seconds(found: RowStats, rank: int) -> float:
    """Return about how long measuring takes on one core."""
    nonzeros = found.nonzeros / max(found.rows, 1)  # of a row

    def pass_of(n_rows: int, of_rank: int) -> float:
        return n_rows * (ROW_SECONDS + nonzeros * (NONZERO_SECONDS + FACTOR_SECONDS * of_rank))

    searched = pass_of(min(found.rows, SEARCH_ROWS), SEARCH_RANK)
    return SEARCH_PASSES * searched + LARGE_PASSES * pass_of(found.rows, rank)


def obstacle_to_measuring(found: RowStats, rank: int, resources: Resources) -> str | None:
    """Return why ranks are not measured by default, None if they are."""
    seconds, megabytes = measuring_seconds(found, rank), large_megabytes(found.ids.size, rank)
    if seconds > time_allowed(resources):
        return f"takes about {seconds:.0f} s on one core, more than the {time_allowed(resources):g} s allowed"
    if megabytes > room_of(resources.memory):
        return f"takes {megabytes:.0f} MB besides the rows, more than {room_of(resources.memory):g}"
    return None


# ---- The ranks that features need

# Vectors of a trained model are cut as long as its validation loss rises by no more than this share. Half of what two
# models may differ by: the rows that choose the size are a little too fond of it.
LOSS_OF_SHORTENING = 1e-3
MOST_HALVINGS, STEPS_OF_HALVING = 8, 4  # of the share of coordinates that is left: to 1 of 256, in steps of 16 %


def is_as_good(loss: float, whole: float) -> bool:
    """Return whether a shortened model is as good as the whole one on validation rows.

    >>> is_as_good(0.5004, 0.5), is_as_good(0.5006, 0.5), is_as_good(0.4, 0.5)
    (True, False, True)
    """
    return loss <= whole + LOSS_OF_SHORTENING * abs(whole)


# ---- Candidates

MOST_ROWS_TO_COMPARE = 400_000  # beyond these the usual model has not been seen to lose, and others take their time
SOLVED_RANKS = (64, 256)  # of FMs by the loss over all pairs, besides 128: decision 0041
MOST_NONZEROS_TO_SOLVE = 40_000_000  # beyond these three trials take many minutes
SMALL_MODEL, SMALL_RANK = "fm", 8  # that competes with the usual model, and the only one of a quick training
QUICK_EPOCHS = 10  # in all, on the rows that judge and again on all, no longer than twice an FM of twice the rank
MORE_OF_ALL = 2  # of the best effort: times the ranks and sweeps of sampling
LARGER_RANK = 32  # of an FM that competes with the best effort


def are_compared(n_rows: int, effort: str) -> bool:
    """Return whether other models compete with the usual one.

    >>> are_compared(400_000, "standard"), are_compared(400_001, "standard"), are_compared(400_001, "best")
    (True, False, True)
    """
    return n_rows <= MOST_ROWS_TO_COMPARE or effort == BEST
