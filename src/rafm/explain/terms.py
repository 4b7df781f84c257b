"""Split scores into bias, linear terms and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..kernels.tables import Rows
from ..model.head import input_names
from ..model.model import Model, naming_rows
from ..model.pairs import pair_levels, pair_products
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows
from .names import FeatureNames

NETWORK = "network"  # name of the term of a head


@dataclass(frozen=True)
class Term:
    """What one feature, or one pair of features, adds to a score.

    Parameters
    ----------
    features : tuple of str
        One name, or two.
    value : float
        Amount added to the score.
    level : int or None
        Level at which a pair interacts; None for a linear term.
    rank : int or None
        Rank of that level.
    counts : tuple of int
        Number of training rows with each feature.
    ids : tuple of int
        Feature ids.
    """

    features: tuple[str, ...]
    value: float
    level: int | None = None
    rank: int | None = None
    counts: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The exact sum behind one score.

    Parameters
    ----------
    score : float
        Score of the row; bias and terms add up to it.
    prediction : float
        Prediction: the score through the link of the loss.
    bias : float
        Score of a row without features.
    terms : tuple of Term
        All nonzero terms, largest absolute value first.
    unseen : tuple of str
        Features or columns of the row that training never saw; they add 0.
    network : dict of str to float
        The term of the network, if the model has one, split over what it takes in: the score, pairs of fields, linear
        terms and counts of fields. Each adds its value, standardised, times the slope of the network there.
    """

    score: float
    prediction: float
    bias: float
    terms: tuple[Term, ...]
    unseen: tuple[str, ...] = ()
    network: dict[str, float] = field(default_factory=dict)

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the explanation as plain values, with the `top` largest terms (default: all)."""
        shown = [asdict(term) for term in self.terms[:top]]
        rest = sum(term.value for term in self.terms[len(shown) :])
        plain = {"score": self.score, "prediction": self.prediction, "bias": self.bias}
        split = {"network": self.network} if self.network else {}
        return plain | {"terms": shown, "rest": rest, "unseen": list(self.unseen)} | split

    def to_text(self, top: int | None = None) -> str:
        """Return a table for reading, with the `top` largest terms (default: all)."""
        shown = self.terms[:top]
        lines = [f"score {self.score:.6f}, prediction {self.prediction:.6f}", f"{self.bias:+11.6f}  bias"]
        for term in shown:
            level = "" if term.level is None else f"   (level {term.level}, rank {term.rank})"
            lines.append(f"{term.value:+11.6f}  {' x '.join(term.features)}{level}")
        if rest := self.terms[len(shown) :]:
            lines.append(f"{sum(term.value for term in rest):+11.6f}  {len(rest)} smaller terms")
        if self.unseen:
            lines.append(f"{0:+11.6f}  never seen in training: {', '.join(self.unseen)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()


class Explanations(Sequence[Explanation]):
    """Explanations of several rows; a sequence that also converts to a DataFrame."""

    def __init__(self, rows: Sequence[Explanation]):
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        return Explanations(self.rows[row]) if isinstance(row, slice) else self.rows[row]

    def __str__(self) -> str:
        return "\n\n".join(f"row {number}: {row}" for number, row in enumerate(self.rows, 1))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per row and term; the bias is a term without features."""
        import pandas as pd

        columns = ["row", "feature", "other", "level", "value"]
        lines = [
            (number, *feature_pair(term.features), term.level, term.value)
            for number, row in enumerate(self.rows)
            for term in (Term((), row.bias), *row.terms)
        ]
        return pd.DataFrame(lines, columns=columns).astype({"level": "Int64"})


def feature_pair(features: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the one or two names, completed by None."""
    first, second = (*features, None, None)[:2]
    return first, second


def explain_rows(model: Model, batch: CheckedRows, names: FeatureNames) -> Iterator[Explanation]:
    """Yield the explanation of every row."""
    with naming_rows(names.of_id):
        scores = model.scores(batch)
        predictions = model.link(scores.astype(float), batch)
    rows, bias = number_rows(batch, model.numbering), float(model.parameters.bias[0])
    for r, split in enumerate(_network_splits(model, rows)):
        known, given = slice(*rows.indptr[r : r + 2]), slice(*batch.indptr[r : r + 2])
        numbers, values = rows.indices[known], rows.values[known]
        terms = [*_linear_terms(model, numbers, values, names), *_pair_terms(model, numbers, values, names)]
        terms += [Term((NETWORK,), sum(split.values()))] if split else []
        terms.sort(key=lambda term: (-abs(term.value), term.features))
        unseen = names.unseen(batch.indices[given], batch.values[given])
        yield Explanation(float(scores[r]), float(predictions[r]), bias, tuple(terms), unseen, split)


def _network_splits(model: Model, rows: Rows) -> Iterator[dict[str, float]]:
    """Yield what each input of the head adds to the score of each row; nothing without a head."""
    if model.head is None or model.fields is None:
        yield from ({} for _ in rows.labels)
        return
    inputs = input_names(model.fields.names[: model.head.n_fields])
    for account in model.accountant.accounts(rows, model.base_scores(rows)):
        amounts, constant = model.head.split(account)
        yield {"constant": constant} | {name: float(amount) for name, amount in zip(inputs, amounts) if amount}


def _linear_terms(model: Model, numbers: np.ndarray, values: np.ndarray, names: FeatureNames) -> Iterator[Term]:
    amounts = model.parameters.weights[numbers].astype(float) * values
    for e in np.flatnonzero(amounts):
        yield _term(model, numbers[[e]], float(amounts[e]), names)


def _pair_terms(model: Model, numbers: np.ndarray, values: np.ndarray, names: FeatureNames) -> Iterator[Term]:
    if model.plan.traits.scores_pairs_of(numbers.size):
        amounts = pair_products(model, numbers, numbers) * np.outer(values, values)
        levels = pair_levels(model, numbers, numbers)
        for i, j in zip(*np.nonzero(np.triu(amounts, 1))):
            yield _term(model, numbers[[i, j]], float(amounts[i, j]), names, int(levels[i, j]))


def _term(model: Model, numbers: np.ndarray, value: float, names: FeatureNames, level: int | None = None) -> Term:
    ids = tuple(model.numbering.ids[numbers].tolist())
    rank = None if level is None else model.plan.ranks[level - 1]
    features = tuple(names.of_id(id) for id in ids)
    return Term(features, value, level, rank, tuple(model.counts[numbers].tolist()), ids)
