"""Explain what is wrong with a token of libsvm or libffm text that the scanner rejected."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import DataFormatError, DataValueError, RafmError, ResourceLimitError
from .scan import END_FIELD

CSV_HINT = "read comma-separated text with --format csv"
Fault = tuple[type[RafmError], str]  # class and message of an error
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
FORBIDDEN_BYTES = {
    b"\0": "a NUL byte, which text must not contain",
    b"\r": "a carriage return (CR) without a line feed (LF); end lines with LF or CRLF",
    b"\xef\xbb\xbf": "a byte order mark inside the text; it is allowed only at the start",
}


class Options(NamedTuple):
    """How one file is read; `name` is used in messages."""

    name: str
    has_fields: bool
    index_base: int
    duplicates: str
    max_features: int
    max_line_bytes: int

    @property
    def form(self) -> str:
        """Form of an entry, for messages."""
        return '"field:id:value"' if self.has_fields else '"id:value"'


def explain(line: bytes, at: int, options: Options) -> tuple[type[RafmError], str, int]:
    """Return class and message of the error about the token at a position, and its offset in the line."""
    if len(line) > options.max_line_bytes:
        rule = f"line longer than max_line_bytes = {options.max_line_bytes}"
        return ResourceLimitError, f"{rule}; check the line endings or raise the limit", 0
    token = re.split(rb"[ \t#]", line[at:].removesuffix(b"\r"), maxsplit=1)[0]
    for forbidden, message in FORBIDDEN_BYTES.items():
        if forbidden in token:
            return DataFormatError, f"found {message}", at + token.index(forbidden)
    is_label = not line[:at].strip(b" \t")  # nothing but blanks before it
    return *(_label_fault(token, options) if is_label else _entry_fault(token, options)), at


def _label_fault(token: bytes, options: Options) -> Fault:
    if b"," in token:
        return DataFormatError, f"expected a label, found {quote(token)}; {CSV_HINT}"
    if b":" in token:
        return DataFormatError, f"expected a label before the first {options.form}, found {quote(token)}"
    return _number_fault(token, token, "label")


def _entry_fault(token: bytes, options: Options) -> Fault:
    """Explain what is wrong with `id:value` or `field:id:value`."""
    *keys, value = token.split(b":")
    found = f"expected {options.form}, found {quote(token)}"
    if b"," in token:
        return DataFormatError, f"{found}; {CSV_HINT}"
    if keys[:1] == [b"qid"]:
        return DataValueError, f"{quote(token)} is not supported: rafm does not rank by query; remove it"
    if options.has_fields and len(keys) == 1 and value:
        return DataFormatError, f'{found}; read "id:value" with --format libsvm'
    if not options.has_fields and len(keys) > 1:
        return DataFormatError, f'{found}; read "field:id:value" with --format libffm'
    if len(keys) != 1 + options.has_fields or not value:
        return DataFormatError, found
    for key, name in zip(keys, ("field", "id") if options.has_fields else ("id",)):
        fault = _digits_fault(key, name, token, found)
        if fault is None:
            fault = _field_fault(key) if name == "field" else _id_fault(key, options)
        if fault:
            return fault
    return _number_fault(value, token, "value")


def _digits_fault(key: bytes, name: str, token: bytes, found: str) -> Fault | None:
    """Return what is wrong with an id or field that is not a whole number, or None."""
    if re.fullmatch(rb"-[0-9]+", key):
        return DataValueError, f"{name}s must not be negative, found {quote(token)}"
    if re.fullmatch(rb"[0-9]+", key):
        return None
    article = "an" if name == "id" else "a"
    return DataFormatError, f"{found}; {article} {name} is a whole number in decimal digits"


def _field_fault(digits: bytes) -> Fault | None:
    """Return what is wrong with a field that is too large, or None."""
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) <= 10 and int(digits) < END_FIELD:  # the length first: int() refuses thousands of digits
        return None
    return DataValueError, f"field {quote(digits)} does not fit into 32 bits; fields are below 2**31"


def _id_fault(digits: bytes, options: Options) -> Fault | None:
    """Return what is wrong with an id that is too small or too large, or None."""
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > 19 or int(digits) >= 2**63:
        return DataValueError, f"id {quote(digits)} does not fit into 64 bits; ids are below 2**63"
    number, largest = int(digits), options.max_features
    if number < options.index_base:
        return DataValueError, f"id {number} in a file with ids from {options.index_base}; check --index-base"
    if number - options.index_base < largest:
        return None
    table = f"needs a table of {4 * (number + 1) / 2**30:,.1f} GiB at 4 bytes per id"
    return ResourceLimitError, f"id {number} {table}, above max_features = {largest}; renumber ids or raise the limit"


def _number_fault(number: bytes, token: bytes, what: str) -> Fault:
    """Explain why a label or value is not a finite decimal number."""
    if NOT_FINITE.fullmatch(number):
        return DataValueError, f"a {what} must be finite, found {quote(token)}"
    if NUMBER.fullmatch(number):
        return DataValueError, f"a {what} must be at most 3.4e38 (float32), found {quote(token)}"
    return DataFormatError, f"expected a decimal number as the {what}, found {quote(token)}"


def quote(token: bytes) -> str:
    """Return a token in quotes, with unprintable characters escaped, shortened to 40 bytes.

    >>> print(quote(b"17;1"), quote(b"x" * 50))
    "17;1" "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    text = token[:40].decode("utf-8", "backslashreplace") + ("..." if len(token) > 40 else "")
    return '"' + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text) + '"'
