"""Engines and models to be timed; everything is checked and compiled beforehand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rafm.model.model import Model
from rafm.model.scores import score
from rafm.options import resolve
from rafm.plan.features import plan_features
from rafm.plan.layout import RecordLayout
from rafm.plan.ranks import describe_plan
from rafm.rows.fields import Fields
from rafm.rows.numbering import number_rows
from rafm.rows.stats import count_rows
from rafm.train.dispatch import train_model
from rafm.train.policy import adapted
from rafm.train.recipe import Recipe
from rafm.train.steps.engine import RowShape, arrange
from rafm.train.steps.field_choice import with_field_parameters
from rafm.train.steps.record_engine import RecordEngine

from .clock import Seconds, cpu_seconds, least_seconds
from .shapes import Rows

REPEATS = 3
CALM = 0.02  # a learning rate that suits few rows and long vectors; it does not affect the time
CHECKED = 50  # rows whose scores are checked against the definition


class Trainee:
    """An engine with its rows, ready to be timed; with fields, it has a weight per field."""

    def __init__(
        self,
        rows: Rows,
        family: str,
        ranks: tuple[int, ...],
        threads: int = 1,
        learning_rate: float | None = None,
        step_rows: int = 0,
        fields: Fields | None = None,
    ):
        batch = rows.batch()
        given: dict[str, Any] = {"learning_rate": learning_rate, "step_rows": step_rows}
        options = resolve(task="binary", model=family, ranks=ranks, threads=threads, **given)
        found = count_rows([batch])
        options = adapted(Recipe.of(options), found)
        features = plan_features(found, batch.n_features, options.model, options.ranks, options.rule, fields)
        features = with_field_parameters(features, options)
        shape = RowShape(found.rows, found.longest)
        plan, counts = features.plan, features.counts
        self.grouping = arrange(plan, counts, shape, options)
        arranged = features.arranged(self.grouping.order)
        self.rows = self.grouping.split(number_rows(batch, arranged.numbering))
        bias = options.loss.prior(found.label_mean, found.weight)
        kind = plan.traits.engine(options, self.grouping.step_rows > 0)
        engine = kind(plan, self.grouping, shape, options, bias, fields=arranged.fields)
        assert isinstance(engine, RecordEngine)
        self.engine = engine
        self.order = self.engine.visiting_order(batch.n_rows, np.random.default_rng(0))
        *self.levels, _ = describe_plan(plan, counts, batch.n_rows)
        self.best = np.inf  # CPU seconds of an epoch
        self.elapsed = np.inf

    def epoch(self) -> float:
        """Train one epoch; return the mean loss."""
        (train,) = self.engine.sweeps()  # FM and RaFM have a single sweep
        total, diverged = train(self.rows, self.order)
        assert diverged < 0, f"diverged at row {diverged}"
        return total / self.order.size

    def check(self) -> None:
        """Assert that the training loss falls; this also compiles before anything is timed."""
        losses = [self.epoch() for _ in range(3)]
        assert losses[2] < losses[1] < losses[0], f"the loss must fall, found {losses}"

    def settle(self) -> None:
        """Train until the probe has decided between one thread and the team, as it soon does in a long run."""
        while not self.engine.team.settled:
            self.epoch()

    def time(self, repeats: int = REPEATS) -> float:
        """Return the CPU seconds of the fastest epoch so far."""
        taken = least_seconds(self.epoch, repeats)
        self.best, self.elapsed = min(self.best, taken.cpu), min(self.elapsed, taken.elapsed)
        return self.best

    @property
    def seconds(self) -> Seconds:
        """Minimum elapsed and CPU seconds of an epoch so far."""
        return Seconds(self.elapsed, self.best)

    @property
    def active_factors(self) -> float:
        """Active factors of the mean row: the sum over levels of D_k times the nonzeros of level k or higher."""
        return float(sum(line["factors_per_row"] for line in self.levels))

    @property
    def nanoseconds_per_row(self) -> float:
        """CPU time per row in the fastest epoch."""
        return 1e9 * self.best / self.order.size

    @property
    def record_bytes(self) -> int:
        """Size of all parameters, including optimiser state."""
        return int(self.engine.state()["records"].nbytes)

    @property
    def head_share(self) -> float:
        """Share of nonzeros that belong to heads, the features that step once per mini-batch."""
        heads = np.zeros(int(self.rows.indices.max(initial=0)) + 1, bool)
        for begin, end in ((group[0], group[-1]) for group in self.grouping.bounds[:, 0]):
            heads[begin:end] = True
        return float(heads[self.rows.indices].mean())


class Scorer:
    """A model trained for one epoch, and the rows to score."""

    def __init__(self, rows: Rows, family: str, ranks: tuple[int, ...]):
        self.batch = rows.batch()
        options = resolve(task="binary", model=family, ranks=ranks, n_epochs=1)
        self.model = train_model(self.batch, options)
        self.rows = number_rows(self.batch, self.model.numbering)
        layout, parameters = RecordLayout(self.model.plan, with_states=False), self.model.parameters
        self.tables, self.records = layout.tables(), layout.pack(parameters.weights, parameters.factors)
        self.kernel_best = self.model_best = np.inf
        self.check()

    def kernel(self) -> np.ndarray:
        """Score rows whose features are already numbered."""
        return score(self.rows, self.tables, self.records, self.model.parameters.bias[0])

    def check(self) -> None:
        """Assert that scores match the definition; this also compiles before anything is timed."""
        ends = self.rows.indptr[: 1 + CHECKED]
        expected = [plain_score(self.model, self.rows.indices[a:b]) for a, b in pairwise(ends)]
        np.testing.assert_allclose(self.kernel()[:CHECKED], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(self.model.scores(self.batch), self.kernel())

    def time(self, repeats: int = REPEATS) -> None:
        """Update the CPU seconds of the fastest pass of kernel and model."""
        self.kernel_best = min(self.kernel_best, cpu_seconds(self.kernel, repeats))
        self.model_best = min(self.model_best, cpu_seconds(lambda: self.model.scores(self.batch), repeats))


def plain_score(model: Model, numbers: np.ndarray) -> float:
    """Return the score of a row whose values are all 1, by the definition: each pair at the lower of its two levels."""
    parameters, levels = model.parameters, model.plan.levels()
    total = parameters.bias[0].astype(float) + parameters.weights[numbers].sum(dtype=float)
    for place, i in enumerate(numbers):
        for j in numbers[:place]:
            block = parameters.factors[min(levels[i], levels[j]) - 1]
            total += block[i].astype(float) @ block[j].astype(float)
    return float(total)
