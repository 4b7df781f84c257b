"""Training on one page.

    scan the rows once: statistics of features and labels
    decide which recipes to try: one if an option names the model, otherwise those that suit the rows (policy.py)
    split off rows that judge: those given, a share, folds of few rows, or none (validation.py)
    for each recipe:
        try it; again with a lower learning rate if its best epoch came early; give up what is far behind (trial.py)
    take the best; others must be better than the first by more than luck
    fit a small network to its account of the rows that judge, if that gains more than luck (head.py)
    train it on all rows, if some were held out (refit.py)

A run is one pass of a recipe through `dispatch.py`: by gradient steps (steps/) or by sampling (gibbs/). Everything that
happens is an event (events.py); progress, event log, checkpoints and estimators are consumers of events.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ..errors import DivergenceError
from ..model.model import Model
from ..options import Options
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from .dispatch import run_recipe
from .events import Chosen, Decided, Event, HeldOut, NotHeldOut, OneClass, Planned, Trying
from .head import find_head, with_head
from .outcome import GIVEN_UP, Outcome
from .policy import TIME_FOR_OTHERS, decide, is_worth_more, safe_epochs
from .recipe import Recipe
from .refit import refit
from .resources import Resources
from .scan import ScannedRows, scan
from .steps.loader import as_source
from .telling import with_telling_columns
from .trial import try_recipe
from .validation import Validation, split, with_doubts


def train(
    data: CheckedRows | RowSource,
    options: Options,
    valid: CheckedRows | RowSource | None = None,
    resources: Resources | None = None,
    start: Model | None = None,
) -> Iterator[Event]:
    """Train a model, yielding events; the last one holds it.

    Parameters
    ----------
    data : CheckedRows or RowSource
        Training rows.
    options : Options
        What the user asks for; a recipe is followed to the letter.
    valid : CheckedRows or RowSource, default=None
        Rows that judge. Without them, `options.validation_fraction` of the training rows are held out.
    resources : Resources, default=None
        What training may take; time is that of the options by default.
    start : Model, default=None
        A model to continue from; see `run_recipe`.
    """
    source, judges = as_source(data), None if valid is None else as_source(valid)
    resources = (resources or Resources()).within(options.max_seconds)
    found = scan(source, options, judges, resources, start)
    if found.identity is not None:
        resources.checkpoint.expect(found.identity)
    events = _events(found, options, judges, resources, start)
    yield from with_telling_columns(with_doubts(events, found.copies), source, options)


def _events(
    found: ScannedRows, options: Options, judges: RowSource | None, resources: Resources, start: Model | None
) -> Iterator[Event]:
    """Decide what to try, on which rows, and try it."""
    decision, n_rows = decide(found.facts, options, resources), found.found.rows
    usual = decision.recipes[0]
    if decision.reason != "given":
        yield Decided(decision, n_rows)
    if start is not None and judges is not None:
        yield from run_recipe(found.source, usual, judges, resources, start, None, found.found)
        return
    if found.has_one_class:
        yield OneClass(n_rows)
    validation = split(found, usual, judges, resources.room)
    if validation.parts:
        yield from _compare(options, decision.recipes, found, validation, resources, start)
        return
    if validation.is_held_out:
        yield HeldOut(n_rows, 0)
    for event in run_recipe(found.source, usual, None, resources, start, None, found.found):
        yield event
        if isinstance(event, Planned) and not validation.is_held_out and usual.n_epochs > safe_epochs(event.n_rows):
            yield NotHeldOut(event.n_rows, usual.n_epochs)


def _compare(
    options: Options,
    recipes: tuple[Recipe, ...],
    found: ScannedRows,
    validation: Validation,
    resources: Resources,
    start: Model | None,
) -> Iterator[Event]:
    """Try all recipes and finish the best one; others than the first must be clearly better."""
    usual, *others = recipes
    name = usual.name if others or validation.is_held_out else ""  # else its epochs are those of the model
    best = yield from _named(try_recipe(usual, validation, resources, start=start), name)
    winner, values, spent = usual, {usual.name: best.value}, best.seconds
    for place, recipe in enumerate(others, 1):
        if best.is_stopped or not _has_time(spent, validation, resources):
            break
        yield Trying(recipe)
        try:
            trial = try_recipe(recipe, validation, resources.after(spent), place, best.value)
            outcome = yield from _named(trial, recipe.name)
        except DivergenceError:
            continue
        spent += outcome.seconds
        if outcome.is_stopped:
            break
        values[recipe.name] = None if outcome.reason == GIVEN_UP else outcome.value
        if is_worth_more(usual.metric, values[recipe.name], best.value):
            winner, best = recipe, outcome
    if len(values) > 1:
        yield Chosen(usual.metric, values, winner)
    best.seconds = spent
    head = yield from find_head(best.model, validation, options)
    yield from with_head(refit(best, winner, found, validation, resources, start), head)


def _named(trial: Generator[Event, None, Outcome], name: str) -> Generator[Event, None, Outcome]:
    """Mark the events of a trial with the name of the candidate; return its outcome."""
    while True:
        try:
            event = next(trial)
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return outcome
        yield event.of(name) if name else event


def _has_time(spent: float, validation: Validation, resources: Resources) -> bool:
    """Return whether time is left for another candidate, and for training on all rows after it."""
    share = TIME_FOR_OTHERS if validation.is_held_out else 1.0
    return resources.seconds is None or spent < share * resources.seconds
