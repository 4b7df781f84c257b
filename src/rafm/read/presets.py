"""Presets for well-known files: how to read them, and the kinds of their columns.

`read_options()` are the options of read_delimited. `kinds` maps each column to "category", "log_bins" (counts with a
long tail), "datetime" (written as in `datetime_format`) or "ignore".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """One well-known file; names are the columns of a training file. Files to predict may lack the label."""

    delimiter: str
    names: tuple[str, ...]
    label: str
    kinds: Mapping[str, str]
    line: re.Pattern[bytes]
    quoting: bool = True
    datetime_format: Mapping[str, str] = field(default_factory=dict)

    def read_options(self) -> dict[str, Any]:
        """Return the options of read_delimited, which read the label as a number.

        >>> CRITEO.read_options()["columns"]["C1"]
        'category'
        """
        return {
            "delimiter": self.delimiter,
            "quoting": self.quoting,
            "header": self.names,
            "label": self.label,
            "columns": {**self.kinds, self.label: "number"},
        }

    def looks_like(self, lines: list[bytes]) -> bool:
        """Tell whether the first lines of a file fit: the first one is the header, or all of them are rows."""
        unlabelled = [name for name in self.names if name != self.label]
        headers = [self.delimiter.join(names).encode() for names in (self.names, unlabelled)]
        return lines[0] in headers or all(self.line.fullmatch(line) for line in lines)


CRITEO_NUMBERS = tuple(f"I{k}" for k in range(1, 14))
CRITEO_CATEGORIES = tuple(f"C{k}" for k in range(1, 27))
AVAZU_CATEGORIES = (
    *("C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category"),
    *("device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *("C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)

CRITEO = Preset(
    delimiter="\t",
    names=("label", *CRITEO_NUMBERS, *CRITEO_CATEGORIES),
    label="label",
    kinds=dict.fromkeys(CRITEO_NUMBERS, "log_bins") | dict.fromkeys(CRITEO_CATEGORIES, "category"),
    line=re.compile(rb"([01]\t)?(-?[0-9]*\t){13}([0-9a-f]{8}|)(\t([0-9a-f]{8}|)){25}"),
    quoting=False,  # tab-separated without quoting: a stray quote is data
)
AVAZU = Preset(
    delimiter=",",
    names=("id", "click", "hour", *AVAZU_CATEGORIES),
    label="click",
    kinds={"id": "ignore", "hour": "datetime"} | dict.fromkeys(AVAZU_CATEGORIES, "category"),
    # ids were written as floats in some copies: 1.0009e+18
    line=re.compile(rb"[0-9.e+]+,([01],)?[0-9]{8}(,-?[0-9a-f]*){21}"),
    datetime_format={"hour": "%y%m%d%H"},
)
