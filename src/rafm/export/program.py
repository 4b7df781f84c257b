"""Score rows with a model trained by rafm, by the standard library of Python alone.

    predict({3: 1.0, 17: 0.5})                    the prediction for a row of feature ids and values
    predict_record({"user": "ann", "age": 31})    the same for a row of a table, if the model was trained on one

As a program, it reads rows from standard input and prints a prediction for each: JSON objects of column values, one per
line, if the model was trained on a table, and libsvm lines otherwise. --encode prints JSON rows as libsvm lines.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any

MODEL: dict[str, Any] = {}

Row = dict[int, float]
MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (  # the primes of XXH64
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
WHOLE_LIMIT = 2.0**63  # whole floats below this are written like integers
MISSING_NUMBERS = ("NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")
A_NUMBER = "^[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?$"
CODE_LIKE = "^[+-]?(0[0-9]|[0-9]{16,}$)"  # a name, not a number
HAS_HOURS = "%[-_^0#]*[HIMSTRcXsrklp]"  # in a pattern of times
RARE, MISSING = -1, -2  # codes of values without a feature of their own, and of no value


# The model


def unpacked(kind: str, text: str) -> array[Any]:
    """Return an array that was written as text."""
    found = array(kind, zlib.decompress(base64.b64decode(text)))
    if sys.byteorder != "little":
        found.byteswap()
    return found


def unpacked_model(model: dict[str, Any]) -> dict[str, Any]:
    """Return the model with arrays in place of text."""
    arrays = {name: unpacked(*value) for name, value in model["arrays"].items()}
    numbers = {id: number for number, id in enumerate(arrays["ids"])}
    return {**model, **arrays, "numbers": numbers}


def vector(model: dict[str, Any], block: int, number: int) -> list[float]:
    """Return the vector of a feature."""
    rank, stored = model["ranks"][block], model[f"vectors.{block}"]
    own = stored[number * rank : (number + 1) * rank]
    if f"scales.{block}" not in model:
        return list(own)
    scale = model[f"scales.{block}"][number]
    return [scale * code for code in own]


def pairs_of_block(vectors: list[list[float]], x: list[float], y: list[float], dependents: int) -> float:
    """Return the pairs that have a feature behind the first `dependents`: each vector times the sum of those before it.

    With field weights t, y is (1 - t) x, and a pair counts 1 - t_a t_b = (1 - t_b) + (1 - t_a) t_b; without, y is x.
    """
    total = 0.0
    for coordinates in zip(*vectors):
        whole = rest = 0.0
        for q, v in enumerate(coordinates):
            if q >= dependents:
                total += v * (whole * y[q] + rest * (x[q] - y[q]))
            whole += v * x[q]
            rest += v * y[q]
    return total


def mixed_pair(model: dict[str, Any], known: list[tuple[int, float]]) -> float:
    """Return the pair of a mixture: the mean of its products at all ranks, weighted by both features."""
    (i, x), (j, z) = known
    n, mixture = len(model["ranks"]), model["mixture"]
    shares = [mixture[i * n + p] * mixture[j * n + p] for p in range(n)]
    products = [sum(a * b for a, b in zip(vector(model, p, i), vector(model, p, j))) for p in range(n)]
    return x * z * sum(share * product for share, product in zip(shares, products)) / sum(shares)


def pairs_of_row(model: dict[str, Any], known: list[tuple[int, float]]) -> float:
    """Return what the pairs of a row add to its score; features are sorted by number, which is by falling level."""
    if model["family"] == "mrma":
        return mixed_pair(model, known) if len(known) == 2 else 0.0
    numbers, values = [i for i, _ in known], [x for _, x in known]
    weighted = values
    if "field_weights" in model:
        weighted = [x * (1 - model["field_weights"][model["fields"][i]]) for i, x in known]
    total, sizes = 0.0, model["sizes"]
    for block in range(len(model["ranks"])):
        stop = sum(i < sizes[block] for i in numbers)
        last = block + 1 == len(model["ranks"]) or not model["nested"]
        dependents = 0 if last else sum(i < sizes[block + 1] for i in numbers)
        if dependents < stop > 1:
            vectors = [vector(model, block, i) for i in numbers[:stop]]
            total += pairs_of_block(vectors, values, weighted, dependents)
    return total


def lower_product(model: dict[str, Any], i: int, j: int) -> float:
    """Return the product of the vectors of features i and j, of which j has the lower level."""
    level = sum(j < size for size in model["sizes"])
    blocks = range(max(level - 1, 0) if model["nested"] else 0, level)
    return sum(a * b for p in blocks for a, b in zip(vector(model, p, i), vector(model, p, j)))


def account_of(model: dict[str, Any], score: float, known: list[tuple[int, float]]) -> list[float]:
    """Return what the network takes in: the score, pairs of fields, linear terms and log counts of fields."""
    n, fields, is_paired = model["head_fields"], model["fields"], model["head_paired"]
    pairs: dict[tuple[int, int], float] = dict.fromkeys(combinations(range(n), 2), 0.0)
    linear, counts = [0.0] * n, [0.0] * n
    for q, (j, z) in enumerate(known):
        if fields[j] < n:
            linear[fields[j]] += model["weights"][j] * z
            counts[fields[j]] += model["log_counts"][j]
            for i, x in known[:q]:
                if fields[i] < n and fields[i] != fields[j]:
                    low, high = sorted((fields[i], fields[j]))
                    pairs[low, high] += lower_product(model, i, j) * x * z
    sums = list(pairs.values())
    if not is_paired:
        sums = [sum(value for both, value in pairs.items() if field in both) for field in range(n)]
    return [score, *sums, *linear, *counts]


def network_output(model: dict[str, Any], account: list[float]) -> float:
    """Return what the network adds to the score."""
    means, scales, hidden = model["head.means"], model["head.scales"], model["head.hidden"]
    limit, units = model["head_limit"], list(model["head.hidden_bias"])
    for k, taken in enumerate(account):
        value = min(max((taken - means[k]) * scales[k], -limit), limit)
        for u in range(len(units)):
            units[u] += value * hidden[k * len(units) + u]
    return model["head.output_bias"][0] + sum(max(unit, 0.0) * w for unit, w in zip(units, model["head.output"]))


def score(row: Row) -> float:
    """Return the score of a row of feature ids, from 0 on, and their values; unknown ids add nothing."""
    if not all(id >= 0 and math.isfinite(value) for id, value in row.items()):
        raise ValueError("feature ids must be at least 0, and values finite")
    singles = array("f", row.values())  # the model was trained on float32 values
    known = [(LOADED["numbers"].get(id, -1), x) for id, x in zip(row, singles)]
    known = sorted((number, x) for number, x in known if number >= 0 and x != 0)
    linear = sum(LOADED["weights"][number] * x for number, x in known)
    found = LOADED["bias"] + linear + pairs_of_row(LOADED, known)
    if LOADED["head_fields"]:
        found += network_output(LOADED, account_of(LOADED, found, known))
    if not math.isfinite(found):
        raise ValueError("the score is not finite")
    return float(found)


def predict(row: Row) -> float:
    """Return the prediction for a row of feature ids: a probability, a value or an expected count."""
    found = score(row)
    if LOADED["link"] == "exp":
        return math.exp(found)
    if LOADED["link"] == "identity":
        return found
    small = math.exp(-abs(found))
    return (1.0 if found >= 0 else small) / (1 + small)


# Tables


def encode(record: dict[str, Any]) -> Row:
    """Return the features of a row of a table, given by the names of its columns."""
    row: Row = {}
    for column in LOADED["columns"] or ():
        if column["name"] not in record:
            raise ValueError(f"column {column['name']!r} is missing")
        try:
            entries = [*CODERS[column["kind"]](column, record[column["name"]])]
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"column {column['name']!r}: {error}") from None
        for code, value in entries:
            id = id_of(column, code)
            if id is not None:
                row[id] = row.get(id, 0.0) + value  # lists may hold an element twice
    return row


def predict_record(record: dict[str, Any]) -> float:
    """Return the prediction for a row of a table."""
    return predict(encode(record))


def id_of(column: dict[str, Any], code: int) -> int | None:
    """Return the feature id of a code of a column, or None if there is none."""
    if code == MISSING and LOADED["missing"] == "error":
        raise ValueError(f"column {column['name']!r}: a value is missing")
    last = column["first"] + column["n_values"]
    if code == RARE:
        return last if column["rare"] else None
    if code == MISSING:
        return last + column["rare"] if column["missing"] else None
    return int(column["first"] + code)


def is_missing(cell: Any) -> bool:
    """Return whether a cell has no value."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def text_of(cell: Any, family: str) -> str:
    """Return a cell as text; family: the type of the column's cells in training."""
    if isinstance(cell, bool):
        check_family(family, "boolean", cell)
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        check_family(family, "number", cell)
        return number_text(cell)
    if isinstance(cell, bytes):
        cell = cell.decode()
    if family == "boolean" and isinstance(cell, str) and cell.strip().lower() in ("true", "false"):
        return cell.strip().lower()
    if not isinstance(cell, str):
        raise TypeError(f"expected text, found {cell!r:.80}")
    check_family(family, "text", cell)
    return cell


def check_family(family: str, found: str, cell: Any) -> None:
    """Reject a cell of another type than in training; a name may be a number, or the reverse."""
    if family not in (found, "nothing") and not {family, found} <= {"text", "number"}:
        raise TypeError(f"it was {family} in training, found {cell!r:.80}")


def number_text(number: float) -> str:
    """Return a number as it was read in training: 3 and 3.0 are the same."""
    if isinstance(number, int) or (number == math.floor(number) and abs(number) < WHOLE_LIMIT):
        return str(int(number))
    mantissa, _, exponent = repr(float(number)).partition("e")
    if not exponent:
        return mantissa
    sign, digits = exponent[0], exponent.lstrip("+-0")
    if sign == "-" and int(digits) <= 6:  # written without an exponent down to this
        return f"{number:.{len(mantissa.replace('.', '').lstrip('-')) - 1 + int(digits)}f}"
    return f"{mantissa}e{sign}{digits}"


def finite(cell: Any) -> float:
    """Return a cell as a finite number."""
    if isinstance(cell, str | bytes) or not math.isfinite(float(cell)):
        raise ValueError(f"expected a finite number, found {cell!r:.80}")
    return float(cell)


def hash64(data: bytes) -> int:
    """Return XXH64 of bytes, with seed 0."""
    lanes, at = [P1 + P2 & MASK, P2, 0, -P1 & MASK], 0
    while len(data) - at >= 32:
        for lane in range(4):
            lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
            at += 8
    found = P5
    if at:
        found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * P1 + P4) & MASK
    found = (found + len(data)) & MASK
    for size in (8, 4, 1):
        while len(data) - at >= size:
            part = int.from_bytes(data[at : at + size], "little")
            found = _mixed(found, part, size)
            at += size
    for by, prime in ((33, P2), (29, P3), (32, 1)):
        found = (found ^ found >> by) * prime & MASK
    return found


def _mixed(found: int, part: int, size: int) -> int:
    if size == 8:
        return (_rotated(found ^ _round(0, part), 27) * P1 + P4) & MASK
    if size == 4:
        return (_rotated(found ^ part * P1 & MASK, 23) * P2 + P3) & MASK
    return _rotated(found ^ part * P5 & MASK, 11) * P1 & MASK


def _round(lane: int, part: int) -> int:
    return _rotated((lane + part * P2) & MASK, 31) * P1 & MASK


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & MASK


def word_code(column: dict[str, Any], text: str) -> int:
    """Return the code of a text: its place, or its bucket."""
    if "words" not in column:
        return hash64(text.encode()) % int(column["n_values"])
    if "codes" not in column:
        column["codes"] = {word: code for code, word in enumerate(column["words"])}
    return int(column["codes"].get(text, RARE))


Entries = Iterator[tuple[int, float]]  # codes and values of a cell


def code_category(column: dict[str, Any], cell: Any) -> Entries:
    """Yield one code."""
    if column["family"] == "number" and isinstance(cell, str):  # the name of a number
        cell = cell.strip()
        if cell in MISSING_NUMBERS:
            cell = None
        elif re.search(A_NUMBER, cell) and not re.search(CODE_LIKE, cell):
            cell = float(cell)
    yield MISSING if is_missing(cell) else word_code(column, text_of(cell, column["family"])), 1.0


def code_number(column: dict[str, Any], cell: Any) -> Entries:
    """Yield the standardised number."""
    yield (MISSING, 1.0) if is_missing(cell) else (0, (finite(cell) - column["mean"]) / column["spread"])


def code_bins(column: dict[str, Any], cell: Any) -> Entries:
    """Yield the bin of a number."""
    yield MISSING if is_missing(cell) else bisect_right(column["edges"], finite(cell)), 1.0


def code_log_bins(column: dict[str, Any], cell: Any) -> Entries:
    """Yield the logarithmic bin of a number."""
    if is_missing(cell):
        yield MISSING, 1.0
        return
    number = finite(cell)
    found = math.floor(math.log(number) ** 2 if number > 2 else number)
    yield column["bins"].index(found) if found in column["bins"] else RARE, 1.0


def code_datetime(column: dict[str, Any], cell: Any) -> Entries:
    """Yield the hour and the weekday of a time."""
    if is_missing(cell):
        yield MISSING, 1.0
        return
    time = time_of(cell, column["format"], column["times"])
    yield time.hour, 1.0
    yield 24 + time.weekday(), 1.0


def time_of(cell: Any, pattern: str | None, learned: str | None = None) -> datetime:
    """Return a cell as a time: text and numbers by the pattern, text without one as ISO 8601.

    learned: the kind of times in training, None if the model does not tell. Those with a zone are taken in UTC.
    """
    is_date, has_zone = False, False
    if isinstance(cell, datetime):
        found = cell
    elif isinstance(cell, date):
        found, is_date = datetime(cell.year, cell.month, cell.day), True
    elif pattern in ("unix", "unix_ms"):
        seconds = math.floor(float(cell)) / (1 if pattern == "unix" else 1000)
        found, has_zone = datetime(1970, 1, 1) + timedelta(seconds=seconds), True
    else:
        text = cell if isinstance(cell, str) else number_text(cell)
        found = datetime.fromisoformat(text) if pattern is None else datetime.strptime(text, pattern)
        is_date = len(text) <= 10 if pattern is None else re.search(HAS_HOURS, pattern) is None
    check_time(found, is_date, has_zone or found.tzinfo is not None, learned)
    is_local = learned is None and isinstance(cell, datetime)
    return found if found.tzinfo is None or is_local else found.astimezone(UTC)


def check_time(time: datetime, is_date: bool, has_zone: bool, learned: str | None) -> None:
    """Reject a time of another kind than in training, which would shift hours."""
    if learned is None:
        return
    if has_zone != (learned == "aware"):
        raise ValueError(f"times had {'no' if has_zone else 'a'} time zone in training, found {time}")
    if learned == "naive" and is_date:
        raise ValueError(f"times were no dates in training, found {time.date()}")
    if learned == "date" and time.time() != datetime.min.time():
        raise ValueError(f"times were dates in training, found {time}")


def code_list(column: dict[str, Any], cell: Any) -> Entries:
    """Yield a code for each element; they share the value 1, or each has it."""
    if is_missing(cell):
        yield MISSING, 1.0
        return
    if isinstance(cell, str):
        cell = [part.strip() or None for part in cell.split(column["separator"])]
    codes = [word_code(column, text_of(part, "nothing")) for part in cell if not is_missing(part)]
    value = {"1": 1.0, "1/n": 1 / max(len(codes), 1), "1/sqrt(n)": max(len(codes), 1) ** -0.5}[column["scale"]]
    yield from ((code, value) for code in codes)


CODERS: dict[str, Callable[[dict[str, Any], Any], Entries]] = {
    "category": code_category,
    "number": code_number,
    "bins": code_bins,
    "log_bins": code_log_bins,
    "datetime": code_datetime,
    "list": code_list,
}
LOADED = unpacked_model(MODEL) if MODEL else {}


# The program


def parsed_line(line: str) -> Row | None:
    """Return the row of a libsvm line, or None if it has none."""
    words = line.partition("#")[0].split()
    if not words:
        return None
    if ":" not in words[0]:
        decimal(words.pop(0), "a number as the label, or id:value")
    row: Row = {}
    for word in words:
        id, _, value = word.partition(":")
        if not re.fullmatch("[0-9]+", id) or int(id) - LOADED["index_base"] in row:
            raise ValueError(f"expected id:value, and each id once, found {word!r:.80}")
        row[int(id) - LOADED["index_base"]] = decimal(value, "a number behind the id")
    return row


def decimal(text: str, rule: str) -> float:
    """Return a finite number that is written in decimal digits."""
    if not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text) or not math.isfinite(float(text)):
        raise ValueError(f"expected {rule}, found {text!r:.80}")
    return float(text)


def record_of(line: str) -> dict[str, Any]:
    """Return the row of a table that a line has as JSON."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        names = ", ".join(f'"{column["name"]}": ...' for column in LOADED["columns"][:3])
        raise ValueError(f"expected a JSON object of columns, {{{names}}}, found {line.strip()!r:.80}; this is not CSV")
    return found


def main() -> int:
    """Read rows from standard input and print predictions, or with --encode libsvm lines."""
    is_table = LOADED["columns"] is not None
    if {"-h", "--help"}.intersection(sys.argv[1:]):
        print(f"usage: python {os.path.basename(sys.argv[0])} [--encode] < ROWS\n\n{__doc__}")
        return 0
    unknown = [argument for argument in sys.argv[1:] if argument != "--encode"]
    if unknown:
        print(f"error: no option {unknown[0]!r}; rows are read from standard input, see --help", file=sys.stderr)
        return 2
    for number, line in enumerate(sys.stdin, start=1):
        try:
            row = (encode(record_of(line)) if line.strip() else None) if is_table else parsed_line(line)
            if row is not None:
                base = LOADED["index_base"]
                entries = " ".join(f"{id + base}:{value:.9g}" for id, value in sorted(row.items()))
                print(f"0 {entries}" if "--encode" in sys.argv else repr(predict(row)))
        except (ValueError, TypeError) as error:
            print(f"error: -:{number}: {error}", file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
