"""`rafm tune`."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.terminal import counted
from ..flag_values import flag_words
from ..losses import TASKS
from .arguments import (
    DataPath,
    Json,
    Task,
    check_positive,
    check_valid_flags,
    given_options,
    print_json,
    print_safely,
)
from .groups import TrainingFlags, with_groups
from .outputs import check_output
from .reading import ReadingFlags, check_flags
from .train import check_size, note_threads, open_rows

if TYPE_CHECKING:
    from ..model.file import Saved
    from ..model.model import Model
    from ..tuning.tune import Tuned

# not flags of `rafm train`, or not needed for the same model
SEARCH_FLAGS = ("data", "out", "valid", "trials", "budget_seconds", "study", "plot", "json", "threads")
SIZE_FLAGS = ("max_parameters", "max_bytes")


@dataclass(frozen=True)
class SearchFlags:
    """How long to search, and where to keep the study."""

    trials: Annotated[int | None, typer.Option(min=1, help="Number of trials (default: see --budget-seconds).")] = None
    budget_seconds: Annotated[
        float | None,
        typer.Option(
            help="Time for all trials, total across resumes (default: 30 times that of training with the defaults)."
        ),
    ] = None
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="SQLite file of the trials; the same command resumes from it (default: OUT.study)."
        ),
    ] = None
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="SVG file for a plot of loss against size of all trials.")
    ] = None


@with_groups
def tune(
    context: typer.Context,
    data: DataPath,
    out: Annotated[str, typer.Option(metavar="MODEL", help="Model file to write: the best trial.")],
    search: SearchFlags,
    training: TrainingFlags,
    reading: ReadingFlags,
    valid: Annotated[
        str | None, typer.Option(metavar="FILE", help="Validation rows to compare trials on (default: held out).")
    ] = None,
    task: Task = TASKS[0],
    json: Json = False,
) -> None:
    """Search for the best options and save the best model.

    Tries learning rate, L2, ranks and other options, and compares them on validation rows. The first trials use the
    defaults. Options that you set are not changed. With --max-parameters or --max-bytes, no larger model is trained.
    """
    from ..jit.compiling import seconds_without_compiling
    from ..read.open import converted_task_and_base

    begun, given = seconds_without_compiling(), given_options(context)
    task, base = converted_task_and_base(data, reading.format, task, reading.index_base, given)
    check_valid_flags(valid, given)
    study = f"{out}.study" if search.study is None else search.study
    for path in filter(None, (out, study, search.plot)):
        check_output(path)
    stream = sys.stderr if json else sys.stdout  # stdout must stay valid JSON
    files = reading.read_options(task, base, print_safely(stream))
    check_flags(data, files, reading, given)
    if "threads" not in given:  # more do not help a training
        training["threads"] = min(2, os.cpu_count() or 1)
    found, keeper = _search(data, valid, out, task, training, given, files, reading, search, study, stream, begun)
    if search.plot is not None:
        _draw(search.plot, found)
    command = shlex.join(train_command(context, data, valid, out, found.best.settings))
    if json:
        print_json(report_of(found, command, keeper.size))
        return
    say = print_safely(stream)
    for line in _closing_lines(found, command):
        say(line)
    say(f"saved {out}: {counted(found.best.parameters, 'parameter')}, {os.path.getsize(out)} bytes")


def _search(
    data: str,
    valid: str | None,
    out: str,
    task: str,
    training: TrainingFlags,
    given: set[str],
    files: Any,
    reading: ReadingFlags,
    search: SearchFlags,
    study: str,
    stream: Any,
    begun: float,
) -> tuple[Tuned, FileKeeper]:
    """Read the rows and run the trials."""
    from ..model.file import extra_bytes
    from ..options import declared_options
    from ..read.open import validation_rows
    from ..train.resources import Resources
    from ..train.steps.record_engine import threads_used
    from ..tuning.display import show_trials
    from ..tuning.study import import_optuna
    from ..tuning.tune import Limits, Subject, Tuned
    from ..tuning.tune import tune as run_trials

    import_optuna()  # before the rows are read
    names = {declared.flag or name: name for name, declared in declared_options()}
    fixed = frozenset(names[name] for name in given if name in names) - {*SIZE_FLAGS, "threads"}
    open_options = {name: value for name, value in training.items() if name not in SIZE_FLAGS}
    limits = Limits(search.trials, search.budget_seconds, training["max_parameters"], training["max_bytes"])
    checked = Subject(None, None, task, open_options, fixed).options({})  # type: ignore[arg-type]
    check_positive(reading.positive, checked.loss)
    if "threads" in given:
        note_threads(checked.threads, threads_used(checked))
    rows, encoder = open_rows(data, files, None, stream)
    check_size(encoder)
    held_out = None if valid is None else validation_rows(valid, files, encoder, rows)
    classes = files.labels.classes if checked.loss.is_classification else None
    n_bytes = extra_bytes(encoder, files.labels.classes)
    resources = Resources(memory=files.room.megabytes, reserved_bytes=n_bytes, room=files.room)
    subject = Subject(rows, held_out, task, open_options, fixed, resources)
    keeper = FileKeeper(out, encoder, files.index_base, classes)
    for event in show_trials(run_trials(subject, limits, keeper, study, begun), checked.metric, stream):
        last = event
    assert isinstance(last, Tuned)
    return last, keeper


class FileKeeper:
    """Keeps the best model so far in its file, so that it survives an interruption."""

    def __init__(self, out: str, encoder: Any, index_base: int, classes: Any):
        self.out, self.parts = out, (encoder, index_base, classes)

    def _saved(self, model: Model) -> Saved:
        from ..model.file import Saved

        return Saved(model, *self.parts)

    def keep(self, model: Model) -> str:
        """Save the model; return the digest of the file."""
        from ..model.file import save

        save(self.out, self._saved(model))
        return _digest(self.out)

    def has(self, digest: str | None) -> bool:
        """Return whether the file is still that of this digest."""
        return digest is not None and os.path.isfile(self.out) and _digest(self.out) == digest

    def n_bytes(self, model: Model) -> int:
        """Return the size that the file would have."""
        from ..model.file import file_bytes

        return file_bytes(self._saved(model))

    @property
    def size(self) -> int:
        return os.path.getsize(self.out)


def _digest(path: str) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _closing_lines(found: Tuned, command: str) -> list[str]:
    from ..tuning.display import frontier_lines

    first, lines = found.records[0], ["", *frontier_lines(found), ""]
    if found.best.number == first.number:
        lines.append("no trial was better than the first one, which has the defaults")
    elif first.value is not None and found.best.value is not None:
        lines.append(f"first trial {first.value:.5f}, best {found.best.value:.5f} in {found.seconds:.0f} seconds")
    return [*lines, "the same model:", f"  {command}"]


def report_of(found: Tuned, command: str, n_bytes: int) -> dict[str, Any]:
    """Return the result as plain values."""
    from dataclasses import asdict

    from ..tuning.records import frontier

    return {
        "metric": found.metric,
        "best": asdict(found.best),
        "model_bytes": n_bytes,
        "frontier": [record.number for record in frontier(found.records, found.metric)],
        "trials": [asdict(record) for record in found.records],
        "command": command,
        "seconds": round(found.seconds, 3),
    }


def train_command(
    context: typer.Context, data: str, valid: str | None, out: str, settings: dict[str, Any]
) -> list[str]:
    """Return the `rafm train` command that gives the same model."""
    from ..options import declared_options

    skipped = {*SEARCH_FLAGS, *(SIZE_FLAGS if settings.get("ranks") != "auto" else ())}  # given ranks have a size
    names = {name: declared.flag or name for name, declared in declared_options()}
    words = ["rafm", "train", data, *(["--valid", valid] if valid is not None else []), "--out", out]
    for name in sorted(given_options(context) - skipped):
        words += flag_words(name, context.params[name])
    for name, value in settings.items():
        words += flag_words(names[name], value)
    return words


def _draw(path: str, found: Tuned) -> None:
    from ..files.atomic import write_atomically
    from ..tuning.display import frontier_svg

    write_atomically(path, [frontier_svg(found).encode()])
