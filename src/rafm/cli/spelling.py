"""Spell option names in messages as flags, and suggest the right flag for names of other programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..aliases import COMMANDS, FLAGS, did_you_mean, nearest
from ..flag_values import flag_name
from ..options import declared_options, nearest_option

MOVED = {  # commands of a checkout, not of the package
    "paper": "experiments.paper",
    "datasets": "experiments.datasets",
    "bench": "benchmarks.bench",
}
# as versions of typer say it
NO_INTEGER = r"Input should be a valid integer, unable to parse string as an integer|'.*' is not a valid integer\."
READING = ("index_base", "min_count", "max_features", "max_line_bytes", "memory", "checkpoint_seconds", "duplicates")
FIRST_WORDS = ("level", "bits", "to")  # common words, which are names only at the start of a rule
RECOMMENDING = ("exclude_by",)


def _flags_of_names() -> dict[str, str]:
    """Return the flag of every name that messages of the library use."""
    own = {name: flag_name(declared.flag or name) for name, declared in declared_options()}
    return own | {name: flag_name(name) for name in ("task", "format", "thresholds", *READING, *RECOMMENDING)}


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
        (rf"^(set )?({'|'.join(FIRST_WORDS)})(?= must |, )", lambda found: (found[1] or "") + flag_name(found[2])),
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
    near = next((one for one, others in FLAGS.items() if one in own and wanted in others.split()), None)
    near = near or nearest_option(wanted, own)
    return f"no option {name}" + did_you_mean(near and flag_name(near), "--help lists all options")


def no_such_command(name: str, known: Iterable[str], program: str = "rafm") -> str:
    """Return the message about an unknown command; known: all commands of the program.

    >>> no_such_command("fit", ["train", "predict"])
    "no command 'fit'; did you mean `rafm train`?"
    >>> no_such_command("paper", ["train", "predict"])
    "no command 'paper'; it is `python -m experiments.paper` in a checkout of the repository"
    """
    if name.lower() == "help":
        return "no command 'help'; `rafm --help` lists all commands, and `rafm train --help` the options of one"
    if program == "rafm" and name in MOVED:
        return f"no command {name!r}; it is `python -m {MOVED[name]}` in a checkout of the repository"
    own = [*known]
    near = nearest(name, [*own, "--version"], COMMANDS)
    return f"no command {name!r}" + did_you_mean(near and f"`{program} {near}`", f"the commands are {', '.join(own)}")


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
        return no_such_command(found[1], context.command.list_commands(context), context.command_path)
    if found := re.match(r"Got unexpected extra argument\S* \((.*)\)", message):
        return unexpected_argument(found[1], context)
    return re.sub(NO_INTEGER, "expected a whole number, such as 100000", message)
