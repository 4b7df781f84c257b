"""Find the learning rate and L2 by short runs: of a small FM, on a sample of the rows, judged by validation rows.

Each is moved by a factor as long as the validation loss falls, first the learning rate, then L2, then both once more;
L2 at last by half a step. L2 is only searched if the sample has all rows, because fewer rows need a stronger penalty;
otherwise it keeps its default. If the ranks of clicks are to be measured, runs of other ranks say how large a model is
worth starting from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace

import numpy as np

from ...errors import ConfigError, DivergenceError
from ...rows.blocks import join_rows, pick_rows
from ...rows.checked import CheckedRows
from ...rows.source import InMemory, RowSource
from ...rows.stats import count_rows
from ..checkpoint import NoCheckpoint
from ..events import EpochFinished, Event, Searched
from ..policy import SEARCH_RANK, SEARCH_ROWS
from ..recipe import Recipe
from .job import Job, train_plain

VALID_ROWS = 50_000  # of the sample
SHORT_RATING_RANK = 64  # of the short runs; those of ratings depend more on the rank
EPOCHS, PATIENCE, LONG_PATIENCE = 40, 1, 3
FACTORS = {"learning_rate": 2.0, "l2": 3.0}
MAX_STEPS = 5  # in one direction
LEAST_GAIN = 2e-4  # a smaller relative gain is luck
HIGHER_RANKS, LOWER_RANKS = (64, 128), (16, 8)  # that are tried for the model to be cut
SEARCH_SHARE_OF_TIME = 0.5  # of a limit of time
FURTHER = 3.0  # a run gains at most this many times what its last epoch gained
Settings = tuple[float, float]  # learning rate and L2


def search_settings(job: Job, recipe: Recipe) -> Generator[Event, None, tuple[Recipe, Job]]:
    """Find what is to be found, or take it from the checkpoint; return the recipe, and the job that knows them."""
    if not recipe.searched:
        return recipe, job
    if job.state is not None:
        *known, rank = job.state[0]["settings"]
        return recipe.with_settings(*known), job._replace(settings=(*known, rank))
    begun = time.perf_counter()
    found, event = find_settings(job, recipe)
    yield event
    settings = (event.learning_rate, event.l2, event.rank)
    return found, job._replace(settings=settings, spent=time.perf_counter() - begun)


def find_settings(job: Job, recipe: Recipe) -> tuple[Recipe, Searched]:
    """Return the recipe with the settings that were to be found, and the event that tells them."""
    if job.valid is None:
        raise ConfigError(f"{recipe.searched[0]}='auto' needs validation rows to choose it by", key=recipe.searched[0])
    runs: dict[tuple[int, Settings], float] = {}
    sample, usual = _sample(job, recipe.seed), SEARCH_RANK if recipe.loss.is_classification else SHORT_RATING_RANK
    judge, best = _judge(sample, recipe, runs, usual), (float(recipe.learning_rate), (*recipe.l2, 0.0)[0])
    learns = True
    if recipe.measured and recipe.loss.is_classification and not (learns := runs_learn(sample, judge(best))):
        judge = _judge(sample, recipe, runs, HIGHER_RANKS[-1], LONG_PATIENCE)
    is_whole = job.found.rows <= SEARCH_ROWS
    names = [name for name in FACTORS if name in recipe.searched and (is_whole or name != "l2")]
    for name in names * 2 if len(names) > 1 else names:
        best = climb(judge, best, [*FACTORS].index(name), FACTORS[name])
    if "l2" in names:
        best = climb(judge, best, [*FACTORS].index("l2"), FACTORS["l2"] ** 0.5)
    rank = None
    if recipe.measured and recipe.loss.is_classification and learns:
        rank = find_rank(lambda rank: _judge(sample, recipe, runs, rank)(best))
    return recipe.with_settings(*best), Searched(*best, len(runs), rank)


def runs_learn(sample: Job, loss: float) -> bool:
    """Return whether a run is better than a constant; sample: its rows.

    Where only pairs tell something, weights overfit before vectors have grown: that takes patience, and higher ranks.
    """
    share = np.clip(sample.found.label_mean, 1e-9, 1 - 1e-9)
    return bool(loss < (1 - LEAST_GAIN) * -(share * np.log(share) + (1 - share) * np.log(1 - share)))


def find_rank(loss_at: Callable[[int], float]) -> int | None:
    """Return the rank that a model to be cut is worth starting from; None if larger ones are better still.

    >>> find_rank(lambda rank: 0.4 + abs(rank - 64) / 1000), find_rank(lambda rank: 1 / rank)
    (64, None)
    """
    best, loss = SEARCH_RANK, loss_at(SEARCH_RANK)
    for ranks in HIGHER_RANKS, LOWER_RANKS:
        for rank in ranks:
            if (found := loss_at(rank)) > loss * (1 - LEAST_GAIN):
                break
            best, loss = rank, found
        if best != SEARCH_RANK:
            break
    return None if best == HIGHER_RANKS[-1] else best


def climb(judge: Callable[[Settings], float], start: Settings, place: int, factor: float) -> Settings:
    """Return the settings that are best along one of them, in steps of a factor.

    >>> climb(lambda pair: abs(pair[0] - 0.1), (0.4, 1.0), place=0, factor=2)
    (0.1, 1.0)
    """
    best, loss = start, judge(start)
    for step in (1 / factor, factor):
        for _ in range(MAX_STEPS):
            moved = (best[0] * step, best[1]) if place == 0 else (best[0], best[1] * step)
            if np.isinf(found := judge(moved)) or found > loss * (1 - LEAST_GAIN):
                break
            best, loss = moved, found
        if best != start:
            break
    return best


def _judge(
    sample: Job,
    recipe: Recipe,
    runs: dict[tuple[int, Settings], float],
    rank: int,
    patience: int = PATIENCE,
) -> Callable[[Settings], float]:
    """Return a function that trains with given settings and returns the best validation loss; runs keeps its values."""
    name, limit = recipe.loss.metrics[0], sample.resources.seconds
    deadline = np.inf if limit is None else time.perf_counter() + SEARCH_SHARE_OF_TIME * limit
    unlimited = sample._replace(resources=replace(sample.resources, seconds=None))
    short = replace(
        recipe,
        model="fm",
        ranks=(rank,),
        l2=recipe.l2[:1],
        levels=None,
        n_epochs=EPOCHS,
        patience=patience,
        metric=name,
        averaging=True,
        rate_drops=0,
        measured=False,
        keep_state=False,
    )

    def loss_of(pair: Settings) -> float:
        if runs and (sample.resources.stop.requested or time.perf_counter() > deadline):
            return np.inf  # so that the search ends
        key = rank, (float(f"{pair[0]:.6g}"), float(f"{pair[1]:.6g}"))  # a step there and back is the same
        if key not in runs:
            try:
                events = train_plain(unlimited, short.with_settings(*pair))
                runs[key] = best_loss(events, name, min(runs.values(), default=np.inf))
            except DivergenceError:
                runs[key] = np.inf
            sample.checkpoint.capture = lambda: None  # it held the run, and its memory
        return runs[key]

    return loss_of


def best_loss(events: Iterable[Event], name: str, rival: float) -> float:
    """Return the lowest validation loss of a run, which ends once that of a rival is out of reach.

    >>> epochs = (EpochFinished(k, 0.5, {"log_loss": 0.5 + 0.1 / k}, 1.0, True) for k in range(1, 9))
    >>> round(best_loss(epochs, "log_loss", rival=0.4), 3), next(epochs).epoch
    (0.55, 3)
    """
    losses: list[float] = []
    for event in events:
        if isinstance(event, EpochFinished):
            found = event.metrics[name]
            losses.append(np.inf if found is None else found)
        if len(losses) > 1 and losses[-1] - FURTHER * max(losses[-2] - losses[-1], 0.0) > rival:
            break
    return min(losses, default=np.inf)


def _sample(job: Job, seed: int) -> Job:
    """Return a job with samples of the training and validation rows."""
    assert job.valid is not None
    rows, valid = (_some(source, most, seed) for source, most in ((job.source, SEARCH_ROWS), (job.valid, VALID_ROWS)))
    data, found = InMemory(rows, job.source.fields), count_rows([rows])
    resources = replace(job.resources, checkpoint=NoCheckpoint())
    sample = Job(data, InMemory(valid), found, job.label_scale, resources, None)
    return sample._replace(weight_scale=job.weight_scale)


def _some(source: RowSource, most: int, seed: int) -> CheckedRows:
    """Return at most `most` rows of a source, the same share of each block."""
    sizes = [source.block(number).n_rows for number in range(source.n_blocks)]
    share = min(1.0, most / max(sum(sizes), 1))
    return join_rows(list(_parts(source, share, np.random.default_rng([seed, 1]))))


def _parts(source: RowSource, share: float, draw: np.random.Generator) -> Iterator[CheckedRows]:
    for number in range(source.n_blocks):
        rows = source.block(number)
        size = int(np.ceil(share * rows.n_rows))
        yield rows if share == 1 else pick_rows(rows, np.sort(draw.permutation(rows.n_rows)[:size]))
