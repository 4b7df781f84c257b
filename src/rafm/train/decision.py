"""Which recipes default training tries for these rows and options; the thresholds are in policy.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..checks import SIZES, USUAL_OPTIMIZER
from ..flag_values import AUTO
from ..options import Options
from ..rows.stats import RowStats
from .policy import (
    BEST,
    LARGER_RANK,
    MOST_NONZEROS_TO_SOLVE,
    NEUTRAL,
    NEUTRAL_FOR_CLICKS,
    PASSED_ON,
    QUICK,
    QUICK_EPOCHS,
    SAMPLER,
    SMALL_MODEL,
    SMALL_RANK,
    SOLVED_RANKS,
    Freedom,
    are_compared,
    are_equal_clicks,
    are_ratings,
    can_be_sampled,
    has_many_of_each,
    has_pairs,
    is_limited,
    large_rank_by_default,
    measuring_seconds,
    obstacle_to_measuring,
    ranks_to_cut,
    sampled_rank,
    sampled_recipe,
)
from .recipe import Recipe
from .resources import Resources


@dataclass(frozen=True)
class Facts:
    """What decides which models are tried, besides options and resources.

    n_fields: None if fields are not known. is_judged: whether there are rows to choose by, given or to be held out.
    are_copies: whether the given ones are mostly training rows. has_start: whether training goes on from a model.
    has_folds: whether rows that judge are dealt out into folds.
    """

    found: RowStats
    n_fields: int | None = None
    in_memory: bool = True
    is_judged: bool = True
    are_copies: bool = False
    has_start: bool = False
    has_folds: bool = False


@dataclass(frozen=True)
class Decision:
    """The recipes to try, the usual one first; why it is usual, and what stands in the way of measured ranks.

    reason: "given", "quick", "sampled", "measured" or "count". seconds: what measuring takes, about. shortens: whether
    the model is cut to the ranks that its features need in the end, because no option asks for a model.
    """

    recipes: tuple[Recipe, ...]
    reason: str = "given"
    obstacle: str | None = None
    seconds: float = 0.0
    shortens: bool = False


def decide(facts: Facts, options: Options, resources: Resources) -> Decision:
    """Return the recipes to try: one if an option names the model, otherwise those that suit the rows."""
    if isinstance(options, Recipe) or facts.has_start:
        first, recipes, shortens = Decision(()), [Recipe.of(options)], False
    elif options.effort == QUICK and Freedom.of(options).may_compare:
        first, recipes = Decision((), "quick"), [quick_recipe(facts, options)]
        shortens = facts.is_judged and not is_limited(options)
    else:
        first = _usual(facts, options, resources)
        recipes = [first.recipes[0], *_others(facts, options, first.recipes[0], resources)]
        shortens = facts.is_judged and Freedom.of(options).may_compare and not is_limited(options)
    if facts.are_copies:  # scores of training rows are further apart than those of others
        recipes = [replace(one, calibrate="off") for one in recipes]
    return replace(first, recipes=tuple(recipes), shortens=shortens)


def quick_recipe(facts: Facts, options: Options) -> Recipe:
    """Return the only recipe of a quick training: a small FM, or a linear model where rows have no pairs."""
    shape = {"model": SMALL_MODEL, "ranks": SMALL_RANK} if has_pairs(facts) else {"model": "lr"}
    return Recipe.like(options, PASSED_ON, **shape, n_epochs=QUICK_EPOCHS)


def _usual(facts: Facts, options: Options, resources: Resources) -> Decision:
    """Return the recipe that the rows ask for: sampled, with measured ranks, or what the options say."""
    freedom, found = Freedom.of(options), facts.found
    if facts.is_judged and freedom.may_sample and (sampled := _sampled_ratings(facts, options, resources)):
        return Decision((sampled,), "sampled")
    if not (facts.is_judged and freedom.may_measure and has_many_of_each(found)):
        return Decision((Recipe.of(options),))
    rank = large_rank_by_default(found, options.loss.is_classification, resources.memory)
    seconds, obstacle = measuring_seconds(found, rank), obstacle_to_measuring(found, rank, resources)
    if obstacle is not None:
        return Decision((Recipe.of(options),), "count", obstacle, seconds)
    return Decision((Recipe.like(options, NEUTRAL_FOR_CLICKS, ranks=AUTO),), "measured", None, seconds)


def _sampled_ratings(facts: Facts, options: Options, resources: Resources) -> Recipe | None:
    """Return the recipe of a sampled FM, to be cut if ranks are measured; None if the rows are no ratings."""
    ranks = ranks_to_cut(facts.found.rows) if options.measured else [sampled_rank(facts.found.rows, options.effort)]
    possible = [rank for rank in ranks if can_be_sampled(facts, rank, resources)]
    if not possible or not has_pairs(facts) or not are_ratings(facts.found):
        return None
    if not options.measured:
        return sampled_recipe(options, NEUTRAL, possible[0])
    return replace(Recipe.like(options, (*NEUTRAL, *SIZES), ranks=AUTO, optimizer=SAMPLER), large_rank=possible[0])


def _others(facts: Facts, options: Options, usual: Recipe, resources: Resources) -> Iterator[Recipe]:
    """Yield the recipes that compete with the usual one: a linear model, a small FM, and a sampled one.

    Under a limit of size, what would be usual without it does so first, and is cut if it is too large. A sampled model
    of clicks is the last one: it is kept as it is, so nothing may be trained between it and the end. A ranking by the
    loss over all pairs competes with those of other ranks.
    """
    if not (options.optimizer.has_steps or options.optimizer.is_sampler):
        few = facts.is_judged and "ranks" not in options.given and facts.found.nonzeros <= MOST_NONZEROS_TO_SOLVE
        yield from (replace(usual, ranks=(rank,)) for rank in SOLVED_RANKS if few)
        return
    if not (facts.is_judged and Freedom.of(options).may_compare):
        return
    if is_limited(options):
        options = Recipe.like(options, PASSED_ON)
        (unlimited,) = _usual(facts, options, resources).recipes
        if not unlimited.measured and unlimited.ranks != (usual.large_rank,):  # else it is the same before the cut
            yield unlimited
    if not are_compared(facts.found.rows, options.effort):
        return
    yield Recipe.like(options, PASSED_ON, model="lr")
    yield Recipe.like(options, PASSED_ON, model=SMALL_MODEL, ranks=SMALL_RANK)
    if options.effort == BEST:
        yield from _more(facts, options, usual)
    if usual.optimizer.is_sampler or options.needs_state or (options.loss.is_classification and facts.are_copies):
        return
    rank = sampled_rank(facts.found.rows, options.effort)
    if _suits_sampling(facts, options) and can_be_sampled(facts, rank, resources):
        taken = tuple(name for name in PASSED_ON if name != "calibrate")  # it is calibrated whatever is asked for
        yield sampled_recipe(options, taken, rank)


def _more(facts: Facts, options: Options, usual: Recipe) -> Iterator[Recipe]:
    """Yield what competes as well if time does not matter: a larger FM, ranks by count, and measured ones."""
    yield Recipe.like(options, PASSED_ON, model="fm", ranks=LARGER_RANK)
    if usual.measured or usual.optimizer.is_sampler:
        yield Recipe.like(options, PASSED_ON)
    if not usual.measured and not facts.has_folds:
        yield Recipe.like(options, PASSED_ON, ranks=AUTO, optimizer=USUAL_OPTIMIZER)


def _suits_sampling(facts: Facts, options: Options) -> bool:
    return are_equal_clicks(facts.found) if options.loss.is_classification else options.loss.name == "squared"
