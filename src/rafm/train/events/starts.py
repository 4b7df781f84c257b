"""Events before the first epoch of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...files.terminal import counted
from ...plan.ranks import RankPlan, describe_levels, describe_plan
from .event import Event


@dataclass(frozen=True)
class Planned(Event):
    """Ranks are assigned; training has not started.

    counts: of the features, by number; of a cluster's, occurrences of features of level k or higher instead: `seen`.
    """

    kind = "planned"
    plan: RankPlan
    counts: np.ndarray
    n_rows: int
    one_class: bool = False
    seen: tuple[float, ...] | None = None

    def levels(self) -> list[dict[str, float]]:
        """Describe the levels; see `describe_plan`."""
        if self.seen is not None:
            return describe_levels(self.plan, self.seen, self.n_rows)
        return describe_plan(self.plan, self.counts, self.n_rows)

    def lines(self) -> list[str]:
        """Return the plan as a table: the cost of each level, of the model, and of an FM of the top rank.

        >>> plan = RankPlan("rafm", (4, 16), (100, 100, 10, 0))
        >>> print("\\n".join(Planned(plan, np.arange(100, 0, -1), n_rows=1000).lines()))
        level  rank  features  share of nonzeros  parameters      bytes  factors/row
            1     4       100              1.000         400       1600         20.2
            2    16        10              0.189         160        640         15.3
        model                                            661       2644         35.5  rafm with weights and bias
           FM    16       100              1.000        1701       6804         80.8  for comparison
        """
        return level_lines(self.plan, self.levels())

    def values(self) -> dict[str, Any]:
        """Return the record."""
        *levels, _ = self.levels() or [{}]
        sizes = {"features": self.plan.n_features, "parameters": self.plan.n_parameters}
        return {"rows": self.n_rows, **sizes, "model": self.plan.family, "plan": levels}


def level_lines(plan: RankPlan, described: list[dict[str, float]]) -> list[str]:
    """Return the table of a plan from the output of `describe_plan`."""
    *levels, fm = described or [{}]
    lines = ["level  rank  features  share of nonzeros  parameters      bytes  factors/row"]
    lines += [_plan_line(str(level), row) for level, row in enumerate(levels, start=1)]
    work = sum(row["factors_per_row"] for row in levels)
    model = {"parameters": plan.n_parameters, "factors_per_row": work}
    fields = f", weights of {plan.n_field_weights} fields" if plan.n_field_weights else ""
    fields += f", vectors for {plan.n_field_vectors} fields" if plan.n_field_vectors else ""
    lines.append(_plan_line("model", model) + f"  {plan.family} with weights and bias{fields}")
    if fm and plan.family != "fm":
        fm = fm | {"parameters": fm["parameters"] + plan.n_features + 1}
        lines.append(_plan_line("FM", fm) + "  for comparison")
    return lines


def _plan_line(name: str, row: dict[str, float]) -> str:
    size = f"{row['rank']:5.0f} {row['features']:9.0f} {row['share_of_nonzeros']:18.3f}" if "rank" in row else " " * 34
    return f"{name:>5} {size} {row['parameters']:11.0f} {4 * row['parameters']:10.0f} {row['factors_per_row']:12.1f}"


@dataclass(frozen=True)
class Searched(Event):
    """Learning rate and L2 were found by this many short runs.

    rank: that a model to be cut is worth starting from, None if the larger the better, or if no rank is measured.
    """

    kind = "searched"
    learning_rate: float
    l2: float
    runs: int
    rank: int | None = None

    def lines(self) -> list[str]:
        """Return the line that says which settings were found.

        >>> Searched(0.05, 0.015, runs=9).lines()
        ['learning rate 0.05 and L2 0.015 chosen by 9 short runs on validation rows']
        """
        l2 = f" and L2 {self.l2:.3g}" if self.rank is None else f", L2 {self.l2:.3g} and initial rank {self.rank}"
        return [f"learning rate {self.learning_rate:.3g}{l2} chosen by {self.runs} short runs on validation rows"]


@dataclass(frozen=True)
class Measuring(Event):
    """A large model is trained first, from which the ranks will be measured.

    rank, parameters, megabytes: of that model in training. times: its training time, relative to a plain model.
    fallback: why it is not trained, and ranks are chosen by counts instead; None if it is.
    """

    kind = "measuring"
    rank: int
    parameters: int
    megabytes: float
    times: float
    fallback: str | None = None

    def lines(self) -> list[str]:
        """Return the line that says what measuring the ranks will cost, or why they are not measured.

        >>> Measuring(256, 1_382_404, megabytes=22.4, times=1.37).lines()[0][:72]
        'measuring ranks: starting from rank 256, 1382404 parameters, about 22 MB'
        """
        if self.fallback is not None:
            return [f"ranks by count, not measured: {self.fallback}"]
        size = f"starting from rank {self.rank}, {self.parameters} parameters, about {self.megabytes:.0f} MB"
        return [f"measuring ranks: {size}, about {self.times:.1f} times as long as a plain run"]


@dataclass(frozen=True)
class Cut(Event):
    """The large model is cut; training goes on with the small one.

    parameters, value: size and validation metric after the cut; before, value_before: the same before it.
    """

    kind = "cut"
    metric: str
    before: int
    value_before: float | None
    parameters: int
    value: float | None

    def lines(self) -> list[str]:
        """Return the line that says what the cut did.

        >>> Cut("log_loss", 1_382_404, 0.10543, 350_000, 0.10943).lines()
        ['cut from 1382404 to 350000 parameters: valid log_loss 0.10543 -> 0.10943; fine-tuning']
        """
        sizes = f"cut from {self.before} to {self.parameters} parameters"
        if self.value_before is None or self.value is None:  # no validation rows
            return [f"{sizes}; fine-tuning"]
        return [f"{sizes}: valid {self.metric} {self.value_before:.5f} -> {self.value:.5f}; fine-tuning"]


@dataclass(frozen=True)
class Resumed(Event):
    """Training resumes from a checkpoint, in this epoch after this many of its rows; best_value: metric so far."""

    kind = "resumed"
    folder: str
    epoch: int
    rows: int
    finished: bool
    best_value: float | None = None

    def lines(self) -> list[str]:
        """Return the line that says where training resumes.

        >>> Resumed("states", 3, 65536, finished=False).lines()
        ['resuming from states: epoch 3, after 65536 rows']
        """
        if self.finished:
            return [f"resuming from {self.folder}: training is complete after {counted(self.epoch - 1, 'epoch')}"]
        return [f"resuming from {self.folder}: epoch {self.epoch}, after {counted(self.rows, 'row')}"]


@dataclass(frozen=True)
class Continued(Event):
    """Training continues from an existing model.

    features: number of features of that model. new: number of new features. with_states: whether the model has
    optimiser state; otherwise it is initialised. promoted: number of features with a higher level, None without
    replanning. pair_error: relative change of their pair products. was_sampled: whether the model was sampled, which
    cannot go on; it continues by steps.
    """

    kind = "continued"
    features: int
    new: int
    with_states: bool
    promoted: int | None = None
    pair_error: float | None = None
    was_sampled: bool = False

    def lines(self) -> list[str]:
        """Return the lines that say which model training continues from.

        >>> print(*Continued(900, 20, with_states=False).lines(), sep="\\n")
        continuing from a model with 900 features; 20 new
        the training loss of the first epoch is progressive: each row is scored before it is trained on
        the model has no optimiser state: steps are as large as at the start of training
        >>> Continued(900, 20, True, promoted=12, pair_error=0.31).lines()[1]
        'promoted to a higher rank: 12 features; relative error of their pair products: 31%'
        """
        lines = [f"continuing from a model with {counted(self.features, 'feature')}; {self.new} new"]
        if self.promoted is not None:
            error = "" if self.pair_error is None else f"; relative error of their pair products: {self.pair_error:.0%}"
            lines.append(f"promoted to a higher rank: {counted(self.promoted, 'feature')}{error}")
        lines.append("the training loss of the first epoch is progressive: each row is scored before it is trained on")
        if self.was_sampled:
            lines.append("a sampled model cannot be continued by sampling; continuing with adagrad")
        elif not self.with_states:
            lines.append("the model has no optimiser state: steps are as large as at the start of training")
        return lines


@dataclass(frozen=True)
class Begun(Event):
    """Sampling begins at the parameters of a model; is_given: whether it was there before, or was trained first."""

    kind = "begun"
    features: int
    new: int
    is_given: bool = True

    def lines(self) -> list[str]:
        """Return the line that says where sampling starts.

        >>> Begun(900, 20).lines()
        ['sampling starts from a model with 900 features; 20 new']
        """
        if self.is_given:
            return [f"sampling starts from a model with {counted(self.features, 'feature')}; {self.new} new"]
        return ["sampling starts from a model trained by gradient steps, with its field weights"]
