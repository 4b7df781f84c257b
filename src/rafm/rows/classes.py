"""The two labels of a binary task: which ones there are, and which of them is positive.

Numbers: the larger one is positive, as in 0 and 1, -1 and 1, 1 and 2. Words: a well-known one decides (POSITIVE,
NEGATIVE, in any case); otherwise the one that sorts last is positive, as in scikit-learn. Booleans: true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigError, DataValueError

POSITIVE = {"yes", "y", "true", "t", "on", "click", "clicked", "pos", "positive", "+"}
NEGATIVE = {"no", "n", "false", "f", "off", "noclick", "no click", "not clicked", "neg", "negative", "-", "none"}
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BOOLEANS = {"false": 0.0, "true": 1.0}
MIXED = "the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1"
MULTICLASS = (
    "more than two classes are not supported on the command line; in Python, use scikit-learn's "
    "OneVsRestClassifier(RaFMClassifier())"
)
Label = bool | int | float | str
Key = float | str


class BadLabel(Exception):
    """A label that cannot be used; the file and the line are added later."""


class WrongGuess(DataValueError):
    """A label shows that an earlier guess of the positive label was wrong; the file must be read again."""

    def __init__(self, path: str, n_rows: int, labels: BinaryLabels):
        positive = (labels.classes or [0, 1])[-1]
        message = f"the first {n_rows} rows have the same label; only the next shows that {shown(positive)} is positive"
        super().__init__(f"{message}. Say so: --positive {positive}", path=path)


def key_of(label: Label) -> Key:
    """Return what two spellings of the same label have in common.

    >>> key_of("1.0"), key_of(1), key_of("True"), key_of("maybe")
    (1.0, 1.0, 1.0, 'maybe')
    """
    if not isinstance(label, str):
        return float(label)
    text = label.strip()
    if not NUMBER.fullmatch(text):  # float() would take 1_0, and digits of other scripts
        return BOOLEANS.get(text.lower(), text)
    number = float(text)
    return number if math.isfinite(number) else text


def shown(label: Label) -> str:
    """Return a label for messages.

    >>> shown(2.0), shown("a b")
    ('2', "'a b'")
    """
    return repr(label) if isinstance(label, str | bool) else f"{label:.9g}"


def are_classes(found: Any) -> bool:
    """Return whether these are one or two distinct labels of one type, as files store them."""
    if not isinstance(found, list) or len({type(label) for label in found}) != 1:
        return False
    return type(found[0]) in (bool, int, float, str) and len(set(found)) == len(found) <= 2


def positive_of(a: Label, b: Label) -> Key:
    """Return the key of the positive one of two labels.

    >>> positive_of(2, 1), positive_of("click", "skip"), positive_of("no", "absent"), positive_of("a", "b")
    (2.0, 'click', 'absent', 'b')
    """
    keys = (key_of(a), key_of(b))
    if all(isinstance(key, float) for key in keys):
        return max(keys)
    hopes = [_hope(label) for label in (a, b)]
    if hopes[0] != hopes[1]:
        return keys[hopes.index(max(hopes))]
    return key_of(max(str(a), str(b)))


def _hope(label: Label) -> int:
    """Return 1 for a word that is positive in most files, -1 for a negative one, else 0."""
    word = str(label).strip().lower()
    return (word in POSITIVE or word == "1") - (word in NEGATIVE or word in ("0", "-1"))


def guess_of(label: Label) -> Key | None:
    """Return the key of a label that is probably positive, without knowing the other one; else None."""
    key = key_of(label)
    is_negative = key <= 0 if isinstance(key, float) else _hope(label) < 0
    return None if is_negative else key


class BinaryLabels:
    """The two labels of a binary task, learned from training rows, or known from a model.

    positive: the positive label, if the user chose it.

    >>> labels = BinaryLabels()
    >>> labels.meet("no"), labels.meet("yes")
    ('no', 'yes')
    >>> labels.classes
    ['no', 'yes']
    """

    def __init__(self, positive: str | None = None):
        self.chosen = positive
        self._seen: dict[Key, Label] = {}
        self.positive: Key | None = None  # None after one label: it is taken for the negative one
        self.is_known = False

    @classmethod
    def known(cls, classes: Sequence[Label] | None) -> BinaryLabels:
        """Return the labels of a model: the negative one first, or a single one; None stands for 0 and 1."""
        found, given = cls(), (0, 1) if classes is None else classes
        found._seen = {key_of(label): label for label in given}
        found.positive = key_of(given[-1]) if len(given) == 2 else guess_of(given[0])
        found.is_known = True
        return found

    def finish(self) -> None:
        """Expect no other labels from now on; a single one of -1, 0 and 1 implies the other one."""
        if self.chosen is not None and key_of(self.chosen) not in self._seen:
            raise ConfigError(f"--positive {self.chosen}: no such label; there are {self._listed()}", key="positive")
        numbers = [key for key, label in self._seen.items() if not isinstance(label, str | bool)]
        if self.chosen is None and len(self._seen) == 1 and numbers in ([-1.0], [0.0], [1.0]):
            negative = min(numbers[0], 0.0)
            self.positive, self._seen = 1.0, {negative: int(negative), 1.0: 1}
        self.is_known = True

    def adopt(self, classes: Sequence[Label] | None, path: str) -> None:
        """Take over the labels of a converted file."""
        known = BinaryLabels.known(classes)
        if self.chosen is not None and key_of(self.chosen) != known.positive:
            message = f"{path} was converted with another positive label: {known.classes or [0, 1]}, negative first"
            raise ConfigError(f"{message}. Convert its source again with --positive {self.chosen}", key="positive")
        self._seen, self.positive = known._seen, known.positive

    @property
    def are_words(self) -> bool:
        """Whether some label is not a number."""
        return any(isinstance(label, str | bool) for label in self._seen.values())

    def matches(self, classes: Sequence[Label] | None) -> bool:
        """Tell whether a converted file, which has codes instead of labels, has the labels of this model."""
        other = BinaryLabels.known(classes)
        if self._is_usual() and other._is_usual():
            return True
        return other.positive == self.positive and set(other._seen) <= set(self._seen)

    def is_positive(self, label: Label) -> bool:
        """Tell whether this is the positive label."""
        return key_of(label) == self.positive

    @property
    def classes(self) -> list[Label] | None:
        """The negative and the positive label, as a model file stores them: None for 0 and 1."""
        found = sorted(self._seen, key=lambda key: key == self.positive)
        labels = [self._seen[key] for key in found]
        if all(isinstance(label, float) and label.is_integer() and abs(label) < 2**53 for label in labels):
            labels = [int(label) for label in labels]
        is_usual = found == [0, 1] and not any(isinstance(label, bool | str) for label in labels)
        return None if is_usual or not labels else labels

    def describe(self) -> str | None:
        """Return a line that says which label is positive; None if they are 0 and 1, or -1 and 1."""
        classes = self.classes
        if classes is None or classes == [-1, 1]:
            return None
        if len(classes) == 1:
            return f"labels: all are {shown(classes[0])}"
        return f"labels: {shown(classes[1])} is positive, {shown(classes[0])} is negative"

    def meet(self, label: Label, met: Sequence[Key] = ()) -> Key:
        """Take note of a label and return its key; met: keys of the labels of this file so far.

        Raises BadLabel if it cannot be one of the two.
        """
        key = key_of(label)
        if isinstance(key, float) and not math.isfinite(key):
            raise BadLabel(f"a label must be finite, found {label}")
        if {key, *met} >= {0.0, -1.0}:
            raise BadLabel(f"{MIXED}, found {shown(label)}")
        if key in self._seen or (key in (0, -1) and self._is_usual()):
            return key
        if len(self._seen) == 2:
            never = f"label {shown(label)} was never seen in training; the labels there are {self._listed()}"
            raise BadLabel(never if self.is_known else self._third(label))
        self._seen[key] = label
        if not self.is_known:
            self.positive = self._choose()
        elif self.positive is None:
            self.positive = key
        return key

    def _is_usual(self) -> bool:
        """Tell whether the labels are known to be 0 and 1 or -1 and 1, which may stand for each other."""
        return self.is_known and self.positive == 1 and not {0.0, -1.0}.isdisjoint(self._seen)

    def _choose(self) -> Key | None:
        """Return the positive label of those seen so far: chosen, by the rule, or a guess after one label."""
        if self.chosen is not None:
            return key_of(self.chosen)
        seen = [*self._seen.values()]
        return positive_of(*seen) if len(seen) == 2 else guess_of(seen[0])

    def _third(self, label: Label) -> str:
        found = f"a third label, {shown(label)}, after {self._listed()}"
        if isinstance(key_of(label), str):
            return f"{found}: {MULTICLASS}"
        return f"{found}: --task binary has two. Ratings and amounts need --task regression; {MULTICLASS}"

    def _listed(self) -> str:
        return " and ".join(map(shown, self._seen.values()))
