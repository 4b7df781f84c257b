"""Formats of well-known files: how to read them, and what their columns are.

A preset holds plain values only: `read_options()` are the options of read_delimited, `kinds` says what each column
is: "category", "log_bins" (whole numbers with a long tail), "datetime" (written as `datetime_format`) or "ignore".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """One format; names are the columns of a training file, of which files to predict may lack the label."""

    delimiter: str
    names: tuple[str, ...]
    label: str
    kinds: Mapping[str, str]
    quoting: bool = True
    datetime_format: Mapping[str, str] = field(default_factory=dict)

    def read_options(self) -> dict[str, Any]:
        """Return the options of read_delimited; the label is read as a number.

        >>> PRESETS["criteo"].read_options()["columns"]["C1"]
        'category'
        """
        return {
            "delimiter": self.delimiter,
            "quoting": self.quoting,
            "header": self.names,
            "label": self.label,
            "columns": {**self.kinds, self.label: "number"},
        }


CRITEO_NUMBERS = tuple(f"I{k}" for k in range(1, 14))
CRITEO_CATEGORIES = tuple(f"C{k}" for k in range(1, 27))
AVAZU_CATEGORIES = (
    *("C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category"),
    *("device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *("C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)

PRESETS = {
    "criteo": Preset(
        delimiter="\t",
        names=("label", *CRITEO_NUMBERS, *CRITEO_CATEGORIES),
        label="label",
        kinds=dict.fromkeys(CRITEO_NUMBERS, "log_bins") | dict.fromkeys(CRITEO_CATEGORIES, "category"),
        quoting=False,
    ),
    "avazu": Preset(
        delimiter=",",
        names=("id", "click", "hour", *AVAZU_CATEGORIES),
        label="click",
        kinds={"id": "ignore", "hour": "datetime"} | dict.fromkeys(AVAZU_CATEGORIES, "category"),
        datetime_format={"hour": "%y%m%d%H"},
    ),
}
TABLE_FORMATS = ("csv", "tsv", *PRESETS, "parquet")
