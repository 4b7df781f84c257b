"""Spell option names in messages as flags, and suggest the right flag for names of other programs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from ..options import declared_options, nearest_option

# Flags that are no training options, and what other programs call them.
FLAGS = {
    "out": "output o output_file save model_out dest",
    "valid": "validation val eval_set eval test dev holdout validation_file",
    "label": "target y label_column target_column response",
    "weight": "weights sample_weight",
    "column": "kind dtype type",
    "columns": "schema spec",
    "min_count": "min_freq min_frequency threshold",
    "format": "type input_format fmt",
    "index_base": "base zero_based one_based offset",
    "positive": "pos_label positive_class positive_label",
    "task": "objective problem type",
    "checkpoint": "checkpoints checkpoint_dir save_dir",
    "resume_from": "resume warm_start init_model init continue model_in pretrained",
    "json": "as_json output_format",
    "events": "log log_file logfile",
    "memory": "max_memory mem ram",
    "spill": "tmp temp temp_dir tmpdir tmp_dir",
    "with": "id ids keep columns",
    "folder": "dir directory path data_dir",
    "like": "encoder model",
    "duplicates": "duplicate",
    "max_features": "n_features num_features max_id",
    "max_line_bytes": "max_line line_length",
    "checkpoint_seconds": "checkpoint_interval",
}
COMMANDS = {
    "train": "fit learn run build",
    "evaluate": "eval test score validate metrics measure",
    "predict": "infer inference apply classify prediction transform",
    "inspect": "info show describe check stats head analyze analyse profile summary",
    "convert": "prepare encode preprocess export",
    "datasets": "data download dataset get list",
    "recommend": "rank suggest",
    "similar": "neighbors neighbours nearest",
    "bench": "benchmark benchmarks",
    "--version": "version",
}
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"  # as typer says it
READING = ("index_base", "min_count", "max_features", "max_line_bytes", "memory", "checkpoint_seconds", "duplicates")
RECOMMENDING = ("exclude_by",)


def flag(name: str) -> str:
    """Return a parameter name spelled as a flag."""
    return f"--{name.replace('_', '-')}"


def _flags_of_names() -> dict[str, str]:
    """Return the flag of every name that messages of the library use."""
    own = {name: flag(declared.flag or name) for name, declared in declared_options()}
    return own | {name: flag(name) for name in ("task", "format", "thresholds", *READING, *RECOMMENDING)}


def in_flags(message: str) -> str:
    """Return a message of the library with parameters spelled as flags; texts in double quotes stay as they are.

    >>> in_flags("l1 requires optimizer='ftrl'"), in_flags("ranks must be ascending, found (8, 4)")
    ('--l1 requires --optimizer ftrl', '--ranks must be ascending, found 8,4')
    """
    flags = _flags_of_names()
    names = "|".join(sorted(flags, key=len, reverse=True))
    long = "|".join(name for name in flags if "_" in name)
    free = r"(?<![\w./'-])"  # not inside of a path, a flag or a name in quotes
    rules = [
        (rf"{free}({names}) ?= ?'?([\w.]+\b)'?", lambda found: f"{flags[found[1]]} {found[2]}"),
        (rf"{free}({names}) '([\w:.]+)'", lambda found: f"{flags[found[1]]} {found[2]}"),
        (rf"{free}({long})\b", lambda found: flags[found[1]]),
        (rf"^({names})(?= must | requires | needs )", lambda found: flags[found[1]]),
        (r"\((\d+(?:, \d+)*),?\)", lambda found: found[1].replace(" ", "")),
    ]
    parts = re.split(r'("[^"]*")', message.replace(' (duplicates="sum")', ""))
    for at in range(0, len(parts), 2):
        for pattern, replacement in rules:
            parts[at] = re.sub(pattern, replacement, parts[at])
    return "".join(parts)


def no_such_option(name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown option; known: the options of the command.

    >>> no_such_option("--lr", ["--l1", "--learning-rate"]), no_such_option("-o", ["--out"])
    ('no option --lr; did you mean --learning-rate?', 'no option -o; did you mean --out?')
    """
    own, wanted = [option.lstrip("-").replace("-", "_") for option in known], name.lstrip("-").replace("-", "_")
    by_meaning = [flag for flag, others in FLAGS.items() if flag in own and wanted in others.split()]
    near = by_meaning[0] if by_meaning else nearest_option(wanted, own)
    return f"no option {name}" + (f"; did you mean {flag(near)}?" if near else "; --help lists all options")


def no_such_command(name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown command; known: all commands.

    >>> no_such_command("fit", ["train", "predict"])
    "no command 'fit'; did you mean `rafm train`?"
    """
    if name.lower() == "help":
        return "no command 'help'; `rafm --help` lists all commands, and `rafm train --help` the options of one"
    own = [*known]
    by_meaning = [command for command, others in COMMANDS.items() if name.lower() in others.split()]
    near = by_meaning or difflib.get_close_matches(name.lower(), own, n=1)
    hint = f"did you mean `rafm {near[0]}`?" if near else f"the commands are {', '.join(own)}"
    return f"no command {name!r}; {hint}"


def unexpected_argument(more: str, context: Any) -> str:
    """Return the message about arguments after those that the command takes."""
    taken = [parameter.name for parameter in context.command.params if parameter.param_type_name == "argument"]
    last = context.params.get(taken[-1]) if taken else None
    message = f"unexpected argument {more!r}" + (f" after {last}" if last else "")
    if last is None or taken[-1] not in ("data", "contexts"):
        return f"{message}; --help shows how to call the command"
    return f"{message}: give one data file. Join files first, or give a folder of Parquet files"


def usage_message(error: Any) -> str:
    """Return the message of an error of the parser, with a hint for unknown options and commands."""
    context, message = getattr(error, "ctx", None), " ".join(error.format_message().split())
    if context is None:
        return message
    if name := getattr(error, "option_name", None):
        options = [spelled for parameter in context.command.params for spelled in parameter.opts]
        if type(error).__name__ == "NoSuchOption":
            return no_such_option(name, [option for option in options if option.startswith("--")])
    if found := re.match(r"No such command '(.*?)'", message):
        return no_such_command(found[1], context.command.list_commands(context))
    if found := re.match(r"Got unexpected extra argument\S* \((.*)\)", message):
        return unexpected_argument(found[1], context)
    return message.replace(NO_INTEGER, "expected a whole number, such as 100000")
