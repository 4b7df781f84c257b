"""Groups of flags: a command takes a group as one parameter, while typer sees the single flags."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from ..flag_values import flag_name
from ..options import declared_options

Flags = dict[str, inspect.Parameter]
KEYWORD = inspect.Parameter.KEYWORD_ONLY


class TrainingFlags(dict[str, Any]):
    """Value of every training option by its name in `rafm.options`; each has a flag."""


def training_flags() -> Flags:
    """Return the flags of all training options."""
    return {name: _flag(declared.flag or name, declared) for name, declared in declared_options()}


def _flag(flag: str, declared: Any) -> inspect.Parameter:
    # an option without a default stays None until it is resolved
    kind: Any = declared.flag_type if declared.default is not None else declared.flag_type | None
    annotation = Annotated[kind, typer.Option(help=in_flags(declared.help))]
    return inspect.Parameter(flag, KEYWORD, default=declared.default, annotation=annotation)


def in_flags(text: str) -> str:
    """Replace option names in backticks by their flags.

    >>> in_flags("Replaces `rank_scale`.")
    'Replaces --rank-scale.'
    """
    names = {name: declared.flag or name for name, declared in declared_options()}
    return re.sub(r"`(\w+)`", lambda found: flag_name(names.get(found[1], found[1])), text)


def parse_training_flags(given: dict[str, Any]) -> TrainingFlags:
    """Convert flag values to option values."""
    chosen = TrainingFlags()
    for name, declared in declared_options():
        value = given[declared.flag or name]
        is_text = declared.parse is not None and isinstance(value, str)  # a default is a value already
        chosen[name] = declared.parse(value, declared.flag or name) if is_text and declared.parse else value
    return chosen


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each group parameter replaced by its flags.

    A group is TrainingFlags, or a dataclass whose fields carry typer annotations.
    """
    hints = get_type_hints(command, include_extras=True)
    own, groups = [], {}
    for name, parameter in inspect.signature(command).parameters.items():
        if hints[name] is TrainingFlags:
            groups[name] = training_flags()
        elif is_dataclass(hints[name]):
            groups[name] = _dataclass_flags(hints[name])
        else:
            own.append(parameter.replace(kind=KEYWORD, annotation=hints[name]))
    flags = [flag for group in groups.values() for flag in group.values()]

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        collected = {}
        for name, group in groups.items():
            values = {flag.name: given.pop(flag.name) for flag in group.values()}
            collected[name] = parse_training_flags(values) if hints[name] is TrainingFlags else hints[name](**values)
        command(**given, **collected)

    # typer reads both: the signature for order and defaults, the annotations for types
    expanded.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *flags)}
    return expanded


def _dataclass_flags(group: Any) -> Flags:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name,
            KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    }
