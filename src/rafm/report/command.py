"""The `rafm train` command that trains a model again, as far as its file tells."""

from __future__ import annotations

from shlex import quote
from typing import Any

from ..checks import SIZES
from ..encode.spec import TableSpec
from ..flag_values import AUTO, flag_words
from ..model.describe import SHORTENED
from ..model.file import Saved
from ..model.model import Model
from ..optimizers import SAMPLERS
from ..options import declared_options, resolve
from ..train.policy import NEUTRAL

FOUND = ("ranks", "rank_scale", "learning_rate", "l2")  # in a measured model: results, not options
HELD_OUT = "validation_fraction"


def train_command(saved: Saved) -> str:
    """Return a `rafm train` command with the options that differ from the defaults, and placeholders for files."""
    model, is_measured = saved.model, has_measured_ranks(saved.model)
    is_default = SHORTENED in model.options  # the rows have chosen all but a few options
    family, ranks = (None, AUTO) if is_measured else (model.plan.family, model.plan.ranks or None)
    family, ranks = (None, None) if is_default else (family, ranks)
    words = ["rafm train TRAIN --out MODEL", f"--task {model.loss.task}", *_file_words(saved)]
    words += [] if family is None else [f"--model {family}"]
    words += _table_words(saved)
    if ranks:
        words.append(f"--ranks {ranks if is_measured else ','.join(map(str, ranks))}")
    sizes = {name: model.options[name] for name in SIZES if name in model.options}
    # what the same command would use by itself need not be said
    needed = {name: model.options[name] for name in ("item_fields",) if name in model.options}
    usual = resolve(task=model.loss.task, model=family, ranks=ranks, **needed).summary()
    for name, value in {**sizes, **needed}.items():
        words += flag_words(name, _as_tuple(value))
    for name, declared in declared_options():
        value = model.options.get(name)
        is_found = (is_measured and name in FOUND) or (is_default and name not in NEUTRAL)
        if value is None or name in SIZES or is_found or value == usual.get(name):
            continue
        words += flag_words(declared.flag or name, _as_tuple(value))
    return " ".join(words)


def missing_parts(saved: Saved) -> list[str]:
    """Return what the command may need besides, since the file of the model does not tell."""
    missing = ["--resume-from", "--duplicates sum", "--field-weights", "--calibrate", "--step-rows", "--keep-samples"]
    is_literal = SHORTENED not in saved.model.options and not has_measured_ranks(saved.model)
    if saved.model.options.get("optimizer") in SAMPLERS and is_literal:
        missing.append("--ranks auto (in place of --model and --ranks)")
    if saved.encoder is not None:
        missing.append("--column and --columns")
    return missing


def has_measured_ranks(model: Model) -> bool:
    """Return whether ranks were measured, so that family, ranks and penalties are results."""
    is_limited, is_sampled = any(name in model.options for name in SIZES), model.options.get("optimizer") in SAMPLERS
    return model.options.get("ranks") == AUTO or (is_sampled and (is_limited or not model.plan.ranks))


def placeholders(command: str) -> str:
    """Return a sentence about the names of files in a command.

    >>> placeholders("rafm train TRAIN --out MODEL --valid VALID")
    'TRAIN stands for the training rows, VALID for the validation rows.'
    """
    known = {"VALID": "the validation rows", "FIELDS": "the file of fields"}
    more = "".join(f", {name} for {what}" for name, what in known.items() if f" {name}" in command)
    return f"TRAIN stands for the training rows{more}."


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # JSON has no tuples


def _file_words(saved: Saved) -> list[str]:
    """Return the flags of files that were read, and how ids are counted."""
    model, words = saved.model, list[str]()
    if HELD_OUT not in model.options:  # kept by models whose epochs were chosen on rows held out
        is_judged = any(name.startswith("valid_") for entry in model.history for name in entry)
        words.append("--valid VALID" if is_judged else "--valid-share 0")
    # libffm rows have their own fields, which are numbers
    if saved.encoder is None and model.fields is not None and not all(map(str.isdigit, model.fields.names)):
        words.append("--fields FIELDS")
    return words + ([f"--index-base {saved.index_base}"] if saved.index_base else [])


def _table_words(saved: Saved) -> list[str]:
    """Return the flags that say what the columns of a table are."""
    spec = saved.encoder.spec if saved.encoder is not None else TableSpec()
    words = [f"--{name} {quote(column)}" for name in ("label", "weight") if (column := getattr(spec, name))]
    words += [f"--min-count {spec.min_count}"] if spec.min_count != TableSpec().min_count else []
    return words + ([f"--cross {quote(','.join(map('*'.join, spec.crosses)))}"] if spec.crosses else [])
