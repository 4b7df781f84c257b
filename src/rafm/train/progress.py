"""Print training events as text: the rank plan first, then one line per epoch.

On a terminal, a progress bar below shows the current epoch; a pipe or file gets only the lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, TextIO

from ..files.board import LiveBoard, PlainBoard
from ..files.terminal import counted
from ..metrics import metric_class, shown_metrics
from ..options import TrainingOptions
from ..plan.ranks import RankPlan
from .events import (
    Begun,
    Calibrated,
    Challenged,
    Continued,
    Cut,
    Distilled,
    EpochFinished,
    Event,
    Finished,
    HeldOut,
    Measuring,
    MeasuringChosen,
    NotHeldOut,
    NotRetrained,
    PieceFinished,
    Planned,
    Resumed,
    RivalsJudged,
    SamplerChosen,
    Searched,
    Selected,
    Slowed,
    StartEvaluated,
)

SHOWN_SWEEPS = 10  # sweeps of a sampler per line


def plan_lines(event: Planned) -> list[str]:
    """Return the plan as a table: the cost of each level, of the model, and of an FM of the top rank beside others.

    >>> import numpy as np
    >>> from rafm.plan.ranks import RankPlan
    >>> plan = RankPlan("rafm", (4, 16), (100, 100, 10, 0))
    >>> print("\\n".join(plan_lines(Planned(plan, np.arange(100, 0, -1), n_rows=1000))))
    level  rank  features  share of nonzeros  parameters      bytes  factors/row
        1     4       100              1.000         400       1600         20.2
        2    16        10              0.189         160        640         15.3
    model                                            661       2644         35.5  rafm with weights and bias
       FM    16       100              1.000        1701       6804         80.8  for comparison
    """
    return level_lines(event.plan, event.levels())


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


def epoch_header(options: TrainingOptions, has_metrics: bool) -> str:
    """Return the heading of the epoch table."""
    names = shown_metrics(options.loss, options.metric)
    columns = ["epoch", f"train {metric_class(names[0]).heading}"]
    columns += [f"valid {metric_class(name).heading}" for name in names] if has_metrics else ()
    return "   ".join([columns[0], *(f"{name:>10}" for name in columns[1:]), "seconds"])


def epoch_line(event: EpochFinished) -> str:
    """Return one line of the epoch table.

    >>> epoch_line(EpochFinished(2, 0.45102, {"log_loss": 0.45711, "auc": 0.775}, 3.04, best=True))
    '    2      0.45102      0.45711      0.77500       3.0  best'
    """
    numbers = [event.train_loss, *event.metrics.values()]
    shown = "".join(f"   {number:10.5f}" if number is not None else f"   {'-':>10}" for number in numbers)
    return f"{event.epoch:5d}{shown}   {event.seconds:7.1f}{'  best' if event.best else ''}"


def start_line(event: StartEvaluated) -> str:
    """Return the line of the epoch table for the untrained model.

    >>> start_line(StartEvaluated({"log_loss": 0.69315, "auc": 0.5}))
    '    0            -      0.69315      0.50000         -  constant prediction'
    """
    shown = "".join(f"   {'-' if number is None else f'{number:.5f}':>10}" for number in event.metrics.values())
    return f"    0   {'-':>10}{shown}   {'-':>7}  constant prediction"


def show_events(
    events: Iterable[Event],
    options: TrainingOptions,
    enabled: bool = True,
    stream: TextIO | None = None,
    spell: Callable[[str], str] = lambda text: text.replace("`", ""),
) -> Iterator[Event]:
    """Pass events through, printing each; `spell` rewrites names of options, which are in backticks.

    Of models that compete with the usual one, only their names and results are shown.
    """
    if not enabled:
        yield from events
        return
    out, is_headed, is_one_class, is_rival = stream or sys.stdout, False, False, False
    with (_Bar if out.isatty() else PlainBoard)(out) as board:
        for event in events:
            if isinstance(event, SamplerChosen | MeasuringChosen | Challenged | RivalsJudged):
                options = event.options or options
            is_rival = isinstance(event, Challenged) or (is_rival and not isinstance(event, RivalsJudged | Finished))
            is_one_class |= isinstance(event, Planned) and event.one_class
            is_hint = is_one_class and isinstance(event, Finished) and event.reason == "epochs"
            lines = [] if is_hint else [spell(line) for line in event_lines(event)]  # more epochs teach nothing more
            if isinstance(event, HeldOut | Slowed | Challenged | Selected):
                is_headed = False  # a table of its own
            is_skipped = (
                isinstance(event, EpochFinished) and options.optimizer.is_sampler and event.epoch % SHOWN_SWEEPS
            )
            if is_skipped or (is_rival and not isinstance(event, Challenged)):
                lines = []
            elif isinstance(event, EpochFinished | StartEvaluated) and not is_headed:
                lines, is_headed = [epoch_header(options, bool(event.metrics)), *lines], True
            with suppress(OSError):  # a closed pipe or a full disk must not stop training
                board.show(lines)
                board.update(event)
            yield event


class _Bar(LiveBoard):
    """Shows speed, remaining time and loss of the epoch beside a bar."""

    def __init__(self, out: TextIO):
        from rich.progress import BarColumn, Progress

        super().__init__(out)
        columns = ("{task.fields[speed]} rows/s", "{task.fields[left]} left", "train loss {task.fields[loss]}")
        epoch = "epoch {task.fields[epoch]}"
        self.below = Progress(epoch, BarColumn(), *columns, console=self.console, transient=True)
        self.task = self.below.add_task("", visible=False, epoch=0, speed="", left="", loss="")

    def update(self, event: Event) -> None:
        """Move the bar, or hide it between epochs."""
        if isinstance(event, PieceFinished):
            done: Any = {"total": event.n_rows, "completed": event.rows, **_pace(event)}
            self.below.update(self.task, visible=True, **done)
        elif isinstance(event, EpochFinished):
            self.below.update(self.task, visible=False)


def _pace(event: PieceFinished) -> dict[str, str]:
    """Return epoch, speed, remaining time of the epoch (or of all, if it is known) and loss as text.

    >>> _pace(PieceFinished(2, rows=65536, n_rows=6_553_600, train_loss=0.4, seconds=2.0))
    {'epoch': '2', 'speed': '32,768', 'left': '0:03:18', 'loss': '0.40000'}
    """
    speed = event.rows_per_second
    seconds = (event.n_rows - event.rows) / speed if event.seconds_left is None else event.seconds_left
    left = timedelta(seconds=round(seconds))
    return {"epoch": f"{event.epoch}", "speed": f"{speed:,.0f}", "left": f"{left}", "loss": f"{event.train_loss:.5f}"}


def event_lines(event: Event) -> list[str]:
    """Return the lines to print for an event."""
    if isinstance(event, Planned):
        return plan_lines(event)
    if isinstance(event, SamplerChosen | MeasuringChosen):
        return [sampler_line(event) if isinstance(event, SamplerChosen) else choice_line(event)]
    if isinstance(event, Begun):
        return [begun_line(event)]
    if isinstance(event, Continued):
        return continued_lines(event)
    if isinstance(event, Searched):
        return [searched_line(event)]
    if isinstance(event, Measuring | Cut):
        return [measuring_line(event) if isinstance(event, Measuring) else cut_line(event)]
    if isinstance(event, Resumed):
        return [resumed_line(event)]
    if isinstance(event, Distilled | Calibrated):
        return [distilled_line(event) if isinstance(event, Distilled) else calibrated_line(event)]
    if isinstance(event, HeldOut | NotHeldOut | NotRetrained | Slowed | Selected):
        return [selection_line(event)]
    if isinstance(event, Challenged | RivalsJudged):
        return [rival_line(event)]
    if isinstance(event, StartEvaluated):
        return [start_line(event)]
    if isinstance(event, Finished):
        return finished_lines(event)
    return [epoch_line(event)] if isinstance(event, EpochFinished) else []


def selection_line(event: HeldOut | NotHeldOut | NotRetrained | Slowed | Selected) -> str:
    """Return the line that says which rows choose the number of epochs, and what they chose.

    >>> selection_line(HeldOut(n_rows=8000, n_valid=800))
    'holding out 800 of 8000 rows to choose the number of epochs'
    >>> selection_line(HeldOut(200, 200, n_folds=10))
    'holding out each of 10 folds of 200 rows to choose the number of epochs'
    >>> selection_line(Selected(n_epochs=7, n_rows=8000))
    'training on all 8000 rows for 7 epochs'
    """
    if isinstance(event, NotHeldOut):
        return (
            f"warning: no validation rows choose the number of epochs, and {event.n_epochs} may be too many for "
            f"{counted(event.n_rows, 'row')}; lower `n_epochs`, or hold out rows with `validation_fraction`"
        )
    if isinstance(event, NotRetrained):
        return f"the model was trained on {counted(event.n_rows, 'row')}; the {event.n_valid} held out calibrate it"
    if isinstance(event, Slowed):
        reason = "training diverged" if event.diverged else "the best epoch came early"
        return f"{reason}: trying {event.share:g} times the learning rate"
    if isinstance(event, Selected):
        return f"training on all {counted(event.n_rows, 'row')} for {counted(event.n_epochs, 'epoch')}"
    if not event.n_valid:
        if event.n_rows == 1:
            return "a single row cannot be held out: training on it"
        return f"{event.n_rows} rows are too few, or too similar, to hold any out: training on all of them"
    held_out = f"{event.n_valid} of" if event.n_folds == 1 else f"each of {event.n_folds} folds of"
    purpose = "measure the noise" if event.for_noise else "choose the number of epochs"
    return f"holding out {held_out} {event.n_rows} rows to {purpose}"


def rival_line(event: Challenged | RivalsJudged) -> str:
    """Return the line that says which other model is tried, or which model the validation rows have chosen.

    >>> rival_line(RivalsJudged("log_loss", {"rafm": 0.52, "lr": 0.517, "fm": None}, chosen="lr"))
    'validation log_loss: rafm 0.52000, lr 0.51700, fm given up; using lr (to choose another, set `model`)'
    """
    if isinstance(event, RivalsJudged):
        shown = (f"{name} {'given up' if value is None else f'{value:.5f}'}" for name, value in event.values.items())
        return f"validation {event.metric}: {', '.join(shown)}; using {event.chosen} (to choose another, set `model`)"
    given, ranks = event.options, ",".join(map(str, event.options.ranks))
    model = f"{given.model} of rank {ranks}" if ranks else given.model
    return f"for comparison: {'sampling' if given.optimizer.is_sampler else 'training'} {model}"


def sampler_line(event: SamplerChosen) -> str:
    """Return the line that says that a model is sampled, and how to train another one."""
    size = f"{event.rank}, to be cut to vectors of measured length" if event.options.measured else f"{event.rank}"
    model = f"a factorization machine of rank {size}"
    return f"{event.n_rows} ratings: sampling {model} (use `optimizer` adagrad for gradient steps)"


def choice_line(event: MeasuringChosen) -> str:
    """Return the line that says how ranks are chosen, and how to choose them otherwise.

    >>> choice_line(MeasuringChosen(None, 9_000_000, 7200.0, "takes about 120 minutes"))
    '9000000 rows: ranks by count, because measuring them takes about 120 minutes; use `ranks` auto to measure anyway'
    """
    if event.options is None:
        reason = f"because measuring them {event.obstacle}; use `ranks` auto to measure anyway"
        return f"{event.n_rows} rows: ranks by count, {reason}"
    return (
        f"{event.n_rows} rows: measuring ranks, about {event.seconds:.0f} s (use `ranks` 8,32,128 for ranks by count)"
    )


def finished_lines(event: Finished) -> list[str]:
    """Return the lines that say what is doubtful about the model."""
    if event.reason == "time":
        kept = event.model.best_epoch
        return [f"stopped: out of time; kept {f'epoch {kept}' if kept else 'the current parameters'}"]
    if event.best_value is None:  # no validation rows
        return []
    kept, epochs = event.model.best_epoch, len(event.model.history)
    if not kept:
        return ["no epoch was better than a constant on the validation rows: the model predicts a constant"]
    if event.reason == "epochs" and kept == epochs > 1:
        return [f"the last of {epochs} epochs was the best: more `n_epochs` may improve the model"]
    return []


def begun_line(event: Begun) -> str:
    """Return the line that says where sampling starts.

    >>> begun_line(Begun(900, 20, False))
    'sampling starts from a model with 900 features; 20 new'
    """
    if event.is_given:
        return f"sampling starts from a model with {counted(event.features, 'feature')}; {event.new} new"
    return "sampling starts from a model trained by gradient steps, with its field weights"


def continued_lines(event: Continued) -> list[str]:
    """Return the lines that say which model training continues from.

    >>> print(*continued_lines(Continued(900, 20, with_states=False)), sep="\\n")
    continuing from a model with 900 features; 20 new
    the training loss of the first epoch is progressive: each row is scored before it is trained on
    the model has no optimiser state: steps are as large as at the start of training
    >>> continued_lines(Continued(900, 20, True, promoted=12, pair_error=0.31))[1]
    'promoted to a higher rank: 12 features; relative error of their pair products: 31%'
    """
    lines = [f"continuing from a model with {counted(event.features, 'feature')}; {event.new} new"]
    if event.promoted is not None:
        error = "" if event.pair_error is None else f"; relative error of their pair products: {event.pair_error:.0%}"
        lines.append(f"promoted to a higher rank: {counted(event.promoted, 'feature')}{error}")
    lines.append("the training loss of the first epoch is progressive: each row is scored before it is trained on")
    if event.was_sampled:
        lines.append("a sampled model cannot be continued by sampling; continuing with adagrad")
    elif not event.with_states:
        lines.append("the model has no optimiser state: steps are as large as at the start of training")
    return lines


def measuring_line(event: Measuring) -> str:
    """Return the line that says what measuring the ranks will cost, or why they are not measured.

    >>> measuring_line(Measuring(256, 1_382_404, megabytes=22.4, times=1.37))
    'measuring ranks: starting from rank 256, 1382404 parameters, about 22 MB, about 1.4 times as long as a plain run'
    """
    if event.fallback is not None:
        return f"ranks by count, not measured: {event.fallback}"
    size = f"starting from rank {event.rank}, {event.parameters} parameters, about {event.megabytes:.0f} MB"
    return f"measuring ranks: {size}, about {event.times:.1f} times as long as a plain run"


def searched_line(event: Searched) -> str:
    """Return the line that says which settings were found.

    >>> searched_line(Searched(0.05, 0.015, runs=9))
    'learning rate 0.05 and L2 0.015 chosen by 9 short runs on validation rows'
    """
    l2 = f" and L2 {event.l2:.3g}" if event.rank is None else f", L2 {event.l2:.3g} and initial rank {event.rank}"
    return f"learning rate {event.learning_rate:.3g}{l2} chosen by {event.runs} short runs on validation rows"


def cut_line(event: Cut) -> str:
    """Return the line that says what the cut did.

    >>> cut_line(Cut("log_loss", 1_382_404, 0.10543, 350_000, 0.10943))
    'cut from 1382404 to 350000 parameters: valid log_loss 0.10543 -> 0.10943; fine-tuning'
    """
    sizes = f"cut from {event.before} to {event.parameters} parameters"
    if event.value_before is None or event.value is None:  # no validation rows
        return f"{sizes}; fine-tuning"
    return f"{sizes}: valid {event.metric} {event.value_before:.5f} -> {event.value:.5f}; fine-tuning"


def distilled_line(event: Distilled) -> str:
    """Return the line that says how close one model comes to the mean of many.

    >>> distilled_line(Distilled(170, 0.104, 0.0312, {"rmse": 0.9107}))
    'distilled 170 samples into one model; it differs from their mean score by 0.03120 (RMS), valid rmse 0.91070'
    """
    if not event.samples:
        return "stopped during burn-in: the model is the last sample"
    shown = "".join(f", valid {name} {value:.5f}" for name, value in event.metrics.items() if value is not None)
    gap = f"it differs from their mean score by {event.after:.5f} (RMS)"
    return f"distilled {event.samples} samples into one model; {gap}{shown}"


def calibrated_line(event: Calibrated) -> str:
    """Return the line that says how scores were calibrated.

    >>> calibrated_line(Calibrated(0.929, -0.013, 57_722, 0.11239, 0.11151))
    'calibrated on 57722 validation rows: scores times 0.929, less 0.013; their log loss 0.11239 -> 0.11151'
    """
    shift = f"{'plus' if event.offset >= 0 else 'less'} {abs(event.offset):.3f}"
    change = f"their log loss {event.before:.5f} -> {event.after:.5f}"
    return f"calibrated on {event.rows} validation rows: scores times {event.scale:.3f}, {shift}; {change}"


def resumed_line(event: Resumed) -> str:
    """Return the line that says where training resumes.

    >>> resumed_line(Resumed("states", 3, 65536, finished=False))
    'resuming from states: epoch 3, after 65536 rows'
    """
    if event.finished:
        return f"resuming from {event.folder}: training is complete after {counted(event.epoch - 1, 'epoch')}"
    return f"resuming from {event.folder}: epoch {event.epoch}, after {counted(event.rows, 'row')}"
