"""Fit a head to held-out rows: candidates are judged by folds of the values of the largest field.

Held-out rows are needed, since scores of rows that the model was trained on lean to their labels. Folds hold all rows
of a value, as folds of rows would promise too much: see decision 0039.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from ..checks import AUTO, OFF
from ..kernels.head import LIMIT, Network
from ..losses.loss import Loss
from ..metrics import metric_class
from ..metrics.evaluation import with_predictions
from ..metrics.metric import Mean
from ..model.head import Head
from ..model.model import Model
from ..options import Options
from ..rows.checked import CheckedRows
from ..rows.hashes import mixed
from ..rows.numbering import number_rows
from .events import Event, Finished, HeadFitted, HeadTrial
from .head_policy import HeadShape, head_batch, head_shape, head_shapes, is_clear_gain
from .steps.loader import labelled_blocks
from .validation import Validation

N_FOLDS = 5
RATE, DECAY = 2e-3, 1e-3
FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8
SMALL_DEVIATION = 1e-6


@dataclass(frozen=True)
class Accounts:
    """Accounts of held-out rows, with what a head is fitted to.

    groups: a number per row, equal for rows of the same value of the largest field.
    """

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    groups: np.ndarray

    def part(self, kept: np.ndarray) -> Accounts:
        """Return some of the rows."""
        return Accounts(self.inputs[kept], self.labels[kept], self.weights[kept], self.groups[kept])


def accounts_of(model: Model, blocks: Iterable[CheckedRows]) -> Accounts:
    """Return the accounts of rows, with labels."""
    assert model.fields is not None
    largest, parts, n_rows = int(model.fields.counts().argmax()), [], 0
    for block in blocks:
        rows = number_rows(block, model.numbering)
        scores = model.base_scores(rows)
        weights = np.ones(block.n_rows, np.float32) if block.weights is None else block.weights
        groups = _groups(rows.indptr, rows.indices, model.fields.numbers == largest, n_rows)
        parts.append((model.accountant.accounts(rows, scores), np.asarray(block.labels), weights, groups))
        n_rows += block.n_rows
    return Accounts(*(np.concatenate(part) for part in zip(*parts)))


def _groups(indptr: np.ndarray, indices: np.ndarray, is_largest: np.ndarray, first_row: int) -> np.ndarray:
    """Return the first feature of the largest field of each row; rows without one are groups of their own."""
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    chosen = np.flatnonzero(is_largest[indices])[::-1]  # the first of a row is written last
    groups = -1 - first_row - np.arange(indptr.size - 1, dtype=np.int64)
    groups[rows[chosen]] = indices[chosen]
    return groups


def fit_network(accounts: Accounts, shape: HeadShape, loss: Loss, seed: int) -> Network:
    """Return a network that lowers the loss of these rows, by Adam with decaying steps."""
    means, scales = _standardisation(accounts)
    inputs = standardised(accounts.inputs, means, scales)
    n, d = inputs.shape
    rng, size = np.random.default_rng(seed), 1 / np.sqrt(d)
    parameters = [
        rng.uniform(-size, size, (d, shape.units)).astype(np.float32),
        rng.uniform(-size, size, shape.units).astype(np.float32),
        np.zeros(shape.units, np.float32),
        np.zeros(1, np.float32),
    ]
    unit = np.float32(accounts.labels.std() or 1.0) if loss.scales_labels else np.float32(1)
    scores, labels, weights = (
        accounts.inputs[:, 0] / unit,
        accounts.labels / unit,
        accounts.weights / accounts.weights.mean(),
    )

    def slopes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return loss.slopes(scores, labels, float(unit))

    batch = head_batch(n)
    adam = _Adam(parameters, shape.epochs * (n // batch))
    with threadpool_limits(1, "blas"):  # sums of several threads depend on their number
        for _ in range(shape.epochs):
            for rows in rng.permutation(n)[: n // batch * batch].reshape(-1, batch):
                adam.step(gradients(parameters, inputs[rows], scores[rows], labels[rows], weights[rows], slopes))
    hidden, hidden_bias, output, output_bias = parameters
    return Network(means, scales, hidden, hidden_bias, output * unit, output_bias * unit)


def _standardisation(accounts: Accounts) -> tuple[np.ndarray, np.ndarray]:
    inputs = accounts.inputs.astype(float)
    deviations = inputs.std(axis=0)
    scales = np.where(deviations > SMALL_DEVIATION, 1 / np.maximum(deviations, SMALL_DEVIATION), 0)
    return inputs.mean(axis=0).astype(np.float32), scales.astype(np.float32)


def standardised(inputs: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return what the hidden layer takes in; kernels/head.py does the same."""
    return np.clip((inputs - means) * scales, -LIMIT, LIMIT)


def outputs(network: Network, inputs: np.ndarray) -> np.ndarray:
    """Return what the network adds to the scores of these accounts."""
    hidden = standardised(inputs, network.means, network.scales) @ network.hidden + network.hidden_bias
    return np.maximum(hidden, 0) @ network.output + network.output_bias[0]


def gradients(
    parameters: list[np.ndarray],
    inputs: np.ndarray,
    scores: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    slopes_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> list[np.ndarray]:
    """Return the gradient of the mean loss in each array of parameters."""
    hidden, hidden_bias, output, output_bias = parameters
    units = np.maximum(inputs @ hidden + hidden_bias, 0)
    added = scores + units @ output + output_bias[0]
    slopes = (weights * slopes_of(added, labels) / labels.size).astype(np.float32)
    back = slopes[:, None] * output * (units > 0)
    return [inputs.T @ back, back.sum(axis=0), units.T @ slopes, slopes.sum(keepdims=True)]


class _Adam:
    """Adam with decoupled decay of weights, and a rate that falls to 0."""

    def __init__(self, parameters: list[np.ndarray], n_steps: int):
        self.parameters, self.n_steps, self.done = parameters, n_steps, 0
        self.means = [np.zeros_like(one) for one in parameters]
        self.squares = [np.zeros_like(one) for one in parameters]

    def step(self, gradients: list[np.ndarray]) -> None:
        """Move the parameters, in place."""
        rate = RATE * (1 - self.done / self.n_steps)
        self.done += 1
        first, second = 1 - FIRST_MOMENT**self.done, 1 - SECOND_MOMENT**self.done
        for values, mean, square, gradient in zip(self.parameters, self.means, self.squares, gradients):
            mean += np.float32(1 - FIRST_MOMENT) * (gradient - mean)
            square += np.float32(1 - SECOND_MOMENT) * (gradient * gradient - square)
            values *= np.float32(1 - rate * DECAY)
            values -= np.float32(rate / first) * mean / (np.sqrt(square / np.float32(second)) + np.float32(TINY))


def try_heads(accounts: Accounts, loss: Loss, seed: int) -> Iterator[HeadTrial]:
    """Yield what each shape of the policy gains."""
    folds = mixed(accounts.groups.astype(np.uint64)) % np.uint64(N_FOLDS)
    for shape in head_shapes(accounts.labels.size):
        scores = accounts.inputs[:, 0].astype(float)
        for fold in np.unique(folds):
            inside = folds == fold
            if not inside.all():
                network = fit_network(accounts.part(~inside), shape, loss, seed)
                scores[inside] += outputs(network, accounts.inputs[inside])
        gains = _losses(accounts.inputs[:, 0], accounts, loss) - _losses(scores, accounts, loss)
        yield HeadTrial(shape, *_mean_and_error(gains, accounts))


def _losses(scores: np.ndarray, accounts: Accounts, loss: Loss) -> np.ndarray:
    """Return the loss of each row, as the first metric counts it."""
    rows = with_predictions(loss, accounts.labels, scores.astype(float), accounts.weights)
    metric = metric_class(loss.metrics[0])(loss)
    assert isinstance(metric, Mean)
    return metric.of_rows(rows)


def _mean_and_error(gains: np.ndarray, accounts: Accounts) -> tuple[float, float]:
    """Return the weighted mean, and its standard error if rows of a group are not independent."""
    shares = accounts.weights / accounts.weights.sum()
    mean = float(shares @ gains)
    _, groups = np.unique(accounts.groups, return_inverse=True)
    sums = np.bincount(groups, shares * (gains - mean))
    return mean, float(np.sqrt(sums @ sums))


def with_head(events: Iterable[Event], head: Head | None) -> Iterator[Event]:
    """Pass events through; give a head to the model of the last one."""
    for event in events:
        if head is not None and isinstance(event, Finished):
            event = replace(event, model=replace(event.model, head=head))
        yield event


def find_head(model: Model | None, validation: Validation, options: Options) -> Generator[Event, None, Head | None]:
    """Fit the head that options ask for to the rows that judge; by default, the best one if its gain is clear."""
    wanted = options.head
    if model is None or validation.has_folds or wanted == OFF or not can_have_head(model, options):
        return None
    began, (part,) = time.process_time(), validation.parts
    if wanted == AUTO and not head_shapes(validation.n_valid):
        return None
    accounts = accounts_of(model, labelled_blocks(part.valid, options.family))
    if wanted == AUTO:
        trials = [*try_heads(accounts, options.loss, options.seed)]
        clear = [trial for trial in trials if is_clear_gain(trial.gain, trial.error)]
        shape = max(clear, key=lambda trial: trial.gain).shape if clear else None
    else:
        trials, shape = [], head_shape(int(wanted))
    yield HeadFitted(accounts.labels.size, trials, shape, time.process_time() - began)
    if shape is None:
        return None
    return Head(fit_network(accounts, shape, options.loss, options.seed), model.accountant.n_fields)


def can_have_head(model: Model, options: Options) -> bool:
    """Return whether a head can be fitted to the model: it has pairs, of two fields or more, that no L1 removes."""
    has_fields = model.fields is not None and model.fields.n_fields > 1
    has_pairs = model.plan.traits.can_have_head and any(model.plan.sizes[1:]) and bool(model.best_epoch)
    return has_fields and has_pairs and not options.loss.is_pairwise and not options.optimizer.has_l1
