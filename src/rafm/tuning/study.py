"""The study: trials and what they found, in an SQLite file that survives a kill, or in memory.

Each trial is committed when it ends. Suggestions depend on the seed and on the trials that ended before, so a study
that was killed and resumed goes on as if nothing had happened: only the trial that was running is run again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ..errors import CheckpointError, ConfigError
from ..files.atomic import PathLike
from ..files.lock import lock_file
from ..flag_values import AUTO
from ..metrics import metric_class
from .records import COMPLETE, TIMED_OUT, Record
from .space import Settings, Space

NAME = "rafm"
STARTUP_TRIALS = 8  # random ones, after the known ones
REDUCTION = 3  # one trial in three of each rung goes on
SEED_STEP = 1_000_003  # a prime, so that trials of neighbouring seeds draw differently


class Study:
    """Suggests settings, decides which trials go on, and keeps what they found."""

    def __init__(self, inner: Any, space: Space, seed: int):
        self.inner, self.space, self.seed = inner, space, seed
        self.records = [_record(trial) for trial in inner.trials if "record" in trial.user_attrs]
        self.n_rejected = sum("rejected" in trial.user_attrs for trial in inner.trials)

    def ask(self) -> tuple[Any, Settings]:
        """Return the next trial and its settings."""
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        done, known = len(self.records), self.space.known()
        # a new sampler for each trial: its state need not be saved
        seed = self.seed * SEED_STEP + done + self.n_rejected
        self.inner.sampler = TPESampler(seed=seed % 2**32, n_startup_trials=STARTUP_TRIALS + len(known))
        if done >= len(known):
            trial = self.inner.ask()
            return trial, self.space.suggest(trial)
        fixed, settings = known[done]
        if not self.inner.get_trials(deepcopy=False, states=[TrialState.WAITING]):  # left by a process that was killed
            self.inner.enqueue_trial(fixed)
        trial = self.inner.ask()
        return trial, self.space.suggest_known(trial, fixed, settings)

    @property
    def best(self) -> Record | None:
        """The complete trial with the best value, the first of equals."""
        complete = [record for record in self.records if record.is_complete]
        return next((one for one in complete if one.value == self.inner.best_value), None)

    def prune_from(self, epoch: int) -> None:
        """Let no trial end before this epoch."""
        from optuna.pruners import SuccessiveHalvingPruner

        self.inner.pruner = SuccessiveHalvingPruner(min_resource=max(1, epoch), reduction_factor=REDUCTION)

    def tell(self, trial: Any, record: Record, spent: float) -> None:
        """Keep what a trial found; spent: seconds of the whole study."""
        from optuna.trial import TrialState

        self.inner.set_user_attr("seconds", spent)
        if record.state == TIMED_OUT:  # not a result, so that a larger budget can try again
            self.inner.tell(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr("record", asdict(record))
        if record.state == COMPLETE:
            self.inner.tell(trial, record.value)
        else:
            self.inner.tell(trial, state=TrialState.PRUNED)
        self.records.append(record)

    def reject(self, trial: Any) -> None:
        """End a trial that would be too large; it is no record, but the next suggestion takes it into account."""
        from optuna.trial import TrialState

        trial.set_user_attr("rejected", True)
        self.inner.tell(trial, state=TrialState.PRUNED)
        self.n_rejected += 1

    @property
    def seconds(self) -> float:
        """Seconds spent by earlier processes."""
        return float(self.inner.user_attrs.get("seconds", 0.0))

    @property
    def model_digest(self) -> str | None:
        """Digest of the best model, where it was saved."""
        return self.inner.user_attrs.get("model")

    def set_model_digest(self, digest: str | None) -> None:
        self.inner.set_user_attr("model", digest)


@contextmanager
def open_study(path: PathLike | None, space: Space, identity: dict[str, Any]) -> Iterator[Study]:
    """Open a study exclusively; create it if the file does not exist, reject one of other data or options."""
    optuna = import_optuna()
    metric, seed = space.options.metric, space.options.seed
    direction = "maximize" if metric_class(metric).is_rising else "minimize"
    if path is None:
        yield Study(optuna.create_study(direction=direction), space, seed)
        return
    with open(path, "ab") as own:  # an empty file is an empty database
        refusal = f"{path}: another process is tuning with this study. Wait, or use another file."
        lock_file(own.fileno(), refusal)
        inner = _opened(optuna, path, direction)
        check_same(path, inner.user_attrs.get("identity"), identity)
        inner.set_user_attr("identity", identity)
        for trial in inner.trials:  # of a process that was killed
            if trial.state == optuna.trial.TrialState.RUNNING:
                inner.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        yield Study(inner, space, seed)


def import_optuna() -> Any:
    """Return Optuna; if it is missing, the error says how to install it."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("tuning needs Optuna: pip install '.[tune]' in a checkout of rafm", key="tune") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _opened(optuna: Any, path: PathLike, direction: str) -> Any:
    """Open or create the study in a file."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        storage = optuna.storages.RDBStorage("sqlite:///", engine_kwargs={"creator": lambda: connect(path)})
        return optuna.create_study(storage=storage, study_name=NAME, direction=direction, load_if_exists=True)
    except (SQLAlchemyError, sqlite3.Error, RuntimeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise CheckpointError(f"{path}: cannot be used as a study ({why}). Use another file.") from None


def connect(path: PathLike) -> sqlite3.Connection:
    """Open an SQLite file so that a commit survives a kill of the process, without waiting for the disk each time."""
    connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")  # after a power failure the last trials may be missing, no more
    return connection


def check_same(path: PathLike, before: dict[str, Any] | None, now: dict[str, Any]) -> None:
    """Reject a study of other data or options, naming a difference."""
    differing = [] if before is None else [key for key in {**now, **before} if before.get(key) != now.get(key)]
    if before is not None and differing:
        key = differing[0]
        raise CheckpointError(
            f"{path}: the study belongs to other data or options: {key} was {before.get(key)}, now {now.get(key)}. "
            "Repeat the command of that study, or use another file."
        )


def _record(trial: Any) -> Record:
    values = trial.user_attrs["record"]
    settings = values["settings"]
    if "ranks" in settings and settings["ranks"] != AUTO:  # JSON has no tuples
        settings = settings | {"ranks": tuple(settings["ranks"])}
    return Record(**values | {"settings": settings})
