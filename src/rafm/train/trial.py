"""Try one recipe on rows that judge it: slow down where training starts too fast, give up what is far behind."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from ..errors import DivergenceError
from ..metrics import is_better
from ..model.model import Model
from .dispatch import run_recipe
from .events import Event, Finished, HeldOut, Planned, Slowed
from .folds import run_on_folds
from .outcome import GIVEN_UP, Outcome
from .policy import MOST_RUNS, NOISE_SWEEPS, QUICK, SLOWER, is_early
from .recipe import Recipe
from .resources import Resources
from .validation import Validation


def try_recipe(
    recipe: Recipe,
    validation: Validation,
    resources: Resources,
    place: int = 0,
    best: float | None = None,
    start: Model | None = None,
) -> Generator[Event, None, Outcome]:
    """Find the number of epochs, the learning rate and the model of one candidate; return what was found.

    place: among the candidates. best: the best metric of those before. A learning rate that is not given is too high if
    the best epoch is one of the first, or if training diverges: then a lower one is tried, and the better one is used.
    """
    found, seconds, first = None, 0.0, recipe  # type: Outcome | None, float, Recipe
    may_change = "learning_rate" in recipe.adaptable
    for number in range(1, MOST_RUNS + 1):
        if number > 1:
            yield Slowed(recipe.learning_rate / first.learning_rate, found is None)
        try:
            outcome = yield from _run(recipe, validation, resources, MOST_RUNS * place + number, best, start)
        except DivergenceError:
            if found is None and (number == MOST_RUNS or not may_change):
                raise
            if found is not None:
                break
            recipe = slower(recipe)
            continue
        seconds += outcome.seconds
        is_best = found is None or is_better(recipe.metric, outcome.best_value, found.best_value)
        found = outcome if is_best else found
        is_over = outcome.is_stopped or outcome.reason == GIVEN_UP or not is_best or recipe.effort == QUICK
        if is_over or not may_change or not _is_too_fast(outcome, validation):
            break
        recipe, resources = slower(recipe), resources.after(outcome.seconds)
    assert found is not None
    return replace(found, seconds=seconds)


def slower(recipe: Recipe) -> Recipe:
    """Return the recipe with a lower learning rate."""
    return replace(recipe, learning_rate=recipe.learning_rate / SLOWER)


def _is_too_fast(outcome: Outcome, validation: Validation) -> bool:
    """Return whether the best epoch is one of the first and, on rows that are given, enough later ones were worse."""
    if outcome.recipe.needs_validation or not is_early(outcome.best_epoch):
        return False
    return validation.is_held_out or outcome.reason == "patience"


def _run(
    recipe: Recipe,
    validation: Validation,
    resources: Resources,
    number: int,
    best: float | None,
    start: Model | None,
) -> Generator[Event, None, Outcome]:
    """Train once on the parts of the rows; only the first run says what was held out, and how ranks are assigned."""
    outcome = Outcome(recipe, n_past=0 if start is None else len(start.history))
    if validation.has_folds:
        events = run_on_folds(recipe, validation.parts, resources, start, outcome)
        yield from _told(events, validation, recipe, number)
        return outcome
    (part,) = validation.parts
    with resources.checkpoint.of_run(number) as own:
        short = _for_noise(recipe) if validation.is_held_out else recipe
        events = run_recipe(part.rows, short, part.valid, replace(resources, checkpoint=own), start, None, part.found)
        for event in _told(events, validation, recipe, number):
            outcome.note(event)
            if not isinstance(event, Finished):
                yield event
            if outcome.gives_up(event, best):
                outcome.reason = GIVEN_UP
                return outcome
    return outcome


def _told(events: Iterator[Event], validation: Validation, recipe: Recipe, number: int) -> Iterator[Event]:
    """Pass events through, after the one that says what was held out: by then options and rows are known to be good."""
    is_told = number > 1 or not validation.is_held_out
    for event in events:
        if not is_told:
            n_folds, for_noise = max(len(validation.parts), 1), _for_noise(recipe) is not recipe
            yield HeldOut(validation.n_rows, validation.n_valid, n_folds, for_noise)
            is_told = True
        if number == 1 or not isinstance(event, Planned):
            yield event


def _for_noise(recipe: Recipe) -> Recipe:
    """Return the recipe with the sweeps that measure the noise of ratings; clicks have none, and need all sweeps."""
    if not recipe.optimizer.is_sampler or recipe.loss.is_classification:
        return recipe
    return replace(recipe, n_epochs=min(recipe.n_epochs, NOISE_SWEEPS))
