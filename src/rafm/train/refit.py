"""Train the chosen recipe on all rows, or keep the model of its trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..checks import USUAL_OPTIMIZER
from ..model.model import Model
from .calibration import calibrated
from .dispatch import run_recipe
from .events import Event, Finished, NotRetrained, Selected
from .outcome import Outcome
from .policy import NEUTRAL
from .recipe import Recipe
from .resources import Resources
from .scan import ScannedRows
from .validation import Validation

ALL_ROWS = 0  # number of the last run


def refit(
    outcome: Outcome,
    recipe: Recipe,
    scan: ScannedRows,
    validation: Validation,
    resources: Resources,
    start: Model | None,
) -> Iterator[Event]:
    """Yield the events up to the final model.

    recipe: as it was before its trial. The history is that of the trial. If time runs out, or if the rows that are held
    out were needed to calibrate a sampled model, that of the trial is kept.
    """
    model = outcome.model
    if not validation.is_held_out:
        assert model is not None
        yield Finished(model, outcome.reason, outcome.best_value, outcome.seconds)
        return
    keeps_first = recipe.optimizer.is_sampler and recipe.loss.is_classification
    if model is not None and (outcome.reason == "time" or keeps_first):
        if keeps_first:
            yield NotRetrained(model.n_rows, scan.found.rows - model.n_rows)
        yield Finished(_as_given(model, recipe), outcome.reason, outcome.best_value)
        return
    resources.stop.requested = False  # it ended the trial; the model is trained all the same
    final = final_recipe(outcome, recipe)
    schedule = outcome.schedule if recipe.needs_validation or recipe.optimizer.is_sampler else None
    n_fine = 0 if schedule is None or not final.n_epochs else schedule.fine_epochs
    yield Selected(final.n_epochs + n_fine, scan.found.rows)
    # without another model to keep, the limit of time does not count
    left = replace(resources, seconds=None) if model is None else resources.after(outcome.seconds)
    with resources.checkpoint.of_run(ALL_ROWS) as own:
        left = replace(left, checkpoint=own)
        for event in run_recipe(scan.source, final, None, left, start, schedule, scan.found):
            yield _finished(event, outcome, recipe, start) if isinstance(event, Finished) else event


def final_recipe(outcome: Outcome, recipe: Recipe) -> Recipe:
    """Return the recipe of the training on all rows."""
    if outcome.history and not outcome.best_epoch:
        return untrained(outcome.recipe)
    schedule = outcome.schedule if recipe.needs_validation else None
    n_epochs = outcome.best_epoch if schedule is None else schedule.n_epochs
    n_epochs = recipe.n_epochs if recipe.optimizer.is_sampler else max(n_epochs, 1)  # the trial may have been stopped
    final = replace(recipe, learning_rate=outcome.recipe.learning_rate, n_epochs=n_epochs, patience=None)
    final = replace(final, max_seconds=None)  # what is left of the time is up to the resources
    return final if schedule is None else final.with_settings(schedule.learning_rate, schedule.l2)


def untrained(recipe: Recipe) -> Recipe:
    """Return a recipe that trains nothing: the model is a constant, of the same family if it has one."""
    if recipe.measured or recipe.optimizer.is_sampler:
        recipe = Recipe.like(recipe, NEUTRAL, model=recipe.model, ranks=recipe.ranks, optimizer=USUAL_OPTIMIZER)
    return replace(recipe, n_epochs=0, patience=None, max_seconds=None, searched=())


def _finished(last: Finished, outcome: Outcome, recipe: Recipe, start: Model | None) -> Finished:
    """Return the final model with the options as given, and the history that chose them."""
    if last.reason == "time" and outcome.model is not None:
        return Finished(_as_given(outcome.model, recipe), "time")
    past = [] if start is None else start.history
    final = last.model if outcome.calibration is None else calibrated(last.model, *outcome.calibration)
    final = replace(
        _as_given(final, recipe),
        history=[*past, *({**entry, "epoch": entry["epoch"] + len(past)} for entry in outcome.history)],
        best_epoch=len(past) + outcome.best_epoch,
    )
    return Finished(final, "time" if last.reason == "time" else outcome.reason, outcome.best_value)


def _as_given(model: Model, recipe: Recipe) -> Model:
    """Return the model with the options that say how it was chosen."""
    given = {name: getattr(recipe, name) for name in ("n_epochs", "patience", "validation_fraction")}
    return replace(model, options={**model.options, **given})
