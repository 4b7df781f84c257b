"""What a fitted estimator offers besides predictions: explanations, importance, neighbours, recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..explain.importance import Importance
    from ..explain.levels import LevelLoss
    from ..explain.names import FeatureNames
    from ..explain.shapley import ShapleyValues
    from ..explain.terms import Explanations
    from ..explain.views import Overview
    from ..model.file import Saved
    from ..model.model import Model
    from ..recommend.top import Recommended
    from ..report.page import Report
    from ..rows.checked import CheckedRows


class Insight:
    """Methods that explain and use a fitted model."""

    encoder_: Any
    n_jobs: int | None

    def _fitted(self) -> Model:
        raise NotImplementedError

    def _rows(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, fitting: bool, coverage: Any = None
    ) -> CheckedRows:
        raise NotImplementedError

    def _saved(self, model: Model) -> Saved:
        raise NotImplementedError

    def _names(self) -> FeatureNames:
        from ..explain.names import FeatureNames

        names = None if self.encoder_ is not None else getattr(self, "feature_names_in_", None)
        columns = None if names is None else [str(name) for name in names]
        return FeatureNames(self._fitted().numbering, self.encoder_, columns)

    def explain(self, X: Any) -> Explanations:
        """Split the score of each row into bias, linear terms and pairs; they add up to the score exactly.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.

        Returns
        -------
        Explanations
            A sequence with one Explanation per row: `score`, `bias`, `terms` (each with `features`, `value` and, for
            pairs, `level` and `rank`) and `unseen`. `print` shows them; `to_frame()` returns a DataFrame.
        """
        from ..explain.terms import Explanations, explain_rows

        return Explanations([*explain_rows(self._fitted(), self._rows(X, fitting=False), self._names())])

    def shapley_values(self, X: Any, background: Any = None) -> ShapleyValues:
        """Return the exact Shapley value of every column for the score of each row.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        background : same as X, default=None
            Rows that supply the values of columns that are left out. By default, columns that are left out add 0, and
            the value of a column is its linear term plus half of its pairs.

        Returns
        -------
        ShapleyValues
            `values` (n_rows, n_columns), `base` (mean score of the background) and `columns`.
        """
        from ..explain.shapley import shapley_values

        others = None if background is None else self._rows(background, fitting=False)
        return shapley_values(self._fitted(), self._rows(X, fitting=False), self._names(), others)

    def importance(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        columns: Sequence[str] | None = None,
        repeats: int = 5,
        random_state: int = 0,
    ) -> list[Importance]:
        """Measure how much the loss rises when a column is permuted.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows, preferably not those of training.
        y : array of shape (n_rows,)
            Labels.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        columns : sequence of str, default=None
            Columns to examine (default: all, but at most the 100 most frequent).
        repeats : int, default=5
            Permutations of each column.
        random_state : int, default=0
            Random seed.

        Returns
        -------
        list of Importance
            Each with `column`, `importance` and `standard_error`; most important first.
        """
        from ..explain.importance import measure_importance
        from .arguments import threads_of

        rows = self._rows(X, y, sample_weight, fitting=False)
        chosen = columns, repeats, random_state, threads_of(self.n_jobs)
        return measure_importance(self._fitted(), rows, self._names(), *chosen)

    def overview(self, X: Any) -> Overview:
        """Return the mean absolute size of linear terms and pairs on rows, by column, column pair, pair and level.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.

        Returns
        -------
        Overview
        """
        from ..explain.views import overview

        return overview(self._fitted(), self._rows(X, fitting=False), self._names())

    def level_losses(self, X: Any, y: Any, sample_weight: Any = None) -> list[LevelLoss]:
        """Measure what each level of a RaFM adds: the loss of linear terms alone, then with every further level.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows, preferably not those of training.
        y : array of shape (n_rows,)
            Labels.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.

        Returns
        -------
        list of LevelLoss
            Each with `level` (0: linear terms), `rank`, `loss` and `gain` over the level below.
        """
        from ..explain.levels import level_losses

        return level_losses(self._fitted(), self._rows(X, y, sample_weight, fitting=False))

    def report(self, X: Any = None, y: Any = None, title: str = "model") -> Report:
        """Return a report about the model: what it was trained on, how well it predicts, and which features matter.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table, default=None
            Test rows, for quality, importance and coverage.
        y : array of shape (n_rows,), default=None
            Their labels.
        title : str, default="model"
            Name of the model on the page.

        Returns
        -------
        Report
            Displayed by notebooks; `save(path)` writes it as one HTML file.
        """
        from ..encode.coverage import Coverage
        from ..report.page import Report, report_page
        from ..report.results import evaluate_rows
        from .arguments import threads_of

        results, coverage = None, Coverage()
        if X is not None:
            if y is None:
                raise ConfigError("a report on rows needs their labels: pass y", key="y")
            rows = self._rows(X, y, fitting=False, coverage=coverage)
            results = evaluate_rows(
                self._fitted(), [rows], self._names(), "the test rows", coverage, threads_of(self.n_jobs)
            )
        return Report(report_page(self._saved(self._fitted()), results, title))

    def similar(
        self, name: str, top: int = 10, level: int | None = None, measure: str = "balanced", damping: float = 20.0
    ) -> list[tuple[str, float]]:
        """Return the features most similar to one, of the same column or, if fields are known, of the same field.

        Parameters
        ----------
        name : str
            Name of a feature: "column=value" for tables, the column for matrices.
        top : int, default=10
            Number of neighbours.
        level : int, default=None
            Level whose vectors are compared; by default the highest of the feature.
        measure : str, default="balanced"
            "cosine" of the vectors, "balanced" (the same with long axes shortened), or "behaviour", which compares
            how the features interact with all others.
        damping : float, default=20.0
            Similarities are multiplied by n / (n + damping), where n is the count of the rarer feature.

        Returns
        -------
        list of (str, float)
            Names and similarities, most similar first.
        """
        from ..recommend.similar import named_neighbours

        found = named_neighbours(self._fitted(), self._names(), name, top, level, measure, damping)
        return [(neighbour, one.similarity) for neighbour, one in found]

    def recommend(
        self,
        contexts: Any,
        items: Any,
        top: int = 10,
        exclude: Any = None,
        exclude_by: tuple[str, str] | None = None,
        history: Any = None,
    ) -> Recommended:
        """Return the best items for each context, exactly, without scoring all pairs one by one.

        Parameters
        ----------
        contexts : sparse matrix, array, DataFrame or Arrow table
            One row per context, e.g. the users. A table has only the columns of contexts.
        items : same as contexts
            One row per item of the catalogue. A table has only the columns of items.
        top : int, default=10
            Number of items per context.
        exclude : sparse matrix, sequence of int arrays or table, default=None
            Items not to recommend: a table of pairs that were seen; or nonzeros of a matrix of shape (n_contexts,
            n_items), or the row numbers of items per context.
        exclude_by : (str, str), default=None
            Columns that name contexts and items in a table of seen pairs, whose other columns do not matter. By
            default, the category of each side with the most values in the model.
        history : same as exclude, default=None
            Items that each context chose, of which the model need not know anything: with loss="whole-data", the best
            vector for them is found, given the rest of the model, and added to what the context's features say. The
            values of a sparse matrix are weights. They are not recommended.

        Returns
        -------
        Recommended
            `items` (n_contexts, top): row numbers in `items`, best first, -1 if there are no more; and `scores`.
        """
        from ..recommend.top import Catalogue
        from .arguments import threads_of

        catalogue = Catalogue(self._fitted(), self._side(items))
        rows = self._side(contexts)
        excluded, steps = None, None
        if exclude is not None:
            excluded = self._excluded(exclude, contexts, items, exclude_by, rows, catalogue)
        if history is not None:
            chosen = self._excluded(history, contexts, items, exclude_by, rows, catalogue)
            steps = catalogue.folding.steps(rows, chosen, _weights_of(history))
            excluded = chosen if excluded is None else [*map(np.union1d, excluded, chosen)]
        return catalogue.recommend(rows, top, excluded, threads_of(self.n_jobs), steps)

    def vectors(self, X: Any, side: str) -> np.ndarray:
        """Return vectors whose inner products rank items, for an index of inner products.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Contexts or items, as for `recommend`.
        side : str
            "context" or "item".

        Returns
        -------
        ndarray of shape (n_rows, n_dimensions), float32
        """
        from ..recommend.sides import side_vectors

        return side_vectors(self._fitted(), self._side(X), side)

    def _side(self, X: Any) -> CheckedRows:
        """Return contexts or items as rows; a table may have some of the columns only."""
        if self.encoder_ is None:
            return self._rows(X, fitting=False)
        from ..recommend.partial import PartialEncoder
        from .arguments import as_frame

        self._fitted()
        table = as_frame(X)
        return PartialEncoder.of(self.encoder_, table.schema.names).encode(table)

    def _excluded(self, exclude: Any, contexts: Any, items: Any, by: Any, rows: CheckedRows, catalogue: Any) -> Any:
        """Return the row numbers of excluded items for each context."""
        from scipy.sparse import issparse

        from ..read.frames import is_frame
        from ..recommend.excluded import excluded_by_numbers, excluded_items, excluded_rows, naming_columns
        from .arguments import as_frame

        if is_frame(exclude) and self.encoder_ is not None:
            tables = [as_frame(X) for X in (contexts, items, exclude)]
            names = naming_columns(self.encoder_, tables[0].column_names, tables[1].column_names, by)
            return excluded_rows(names, *tables)
        if by is not None:
            raise ConfigError("exclude_by names columns of exclude, which is no table here; drop it", key="exclude_by")
        if is_frame(exclude):
            return excluded_items(self._side(exclude), rows, catalogue)
        if issparse(exclude):
            shape = rows.n_rows, catalogue.items.n_rows
            if exclude.shape != shape:
                raise ConfigError(f"exclude has shape {exclude.shape}, expected {shape}", key="exclude")
            seen = exclude.tocsr()
            return [seen.indices[a:b] for a, b in zip(seen.indptr[:-1], seen.indptr[1:])]
        return [*excluded_by_numbers(exclude, catalogue.items.n_rows)]


def _weights_of(history: Any) -> list[np.ndarray] | None:
    """Return the values of each row of a sparse matrix; None for anything else."""
    from scipy.sparse import issparse

    if not issparse(history):
        return None
    found = history.tocsr()
    return [found.data[a:b] for a, b in zip(found.indptr[:-1], found.indptr[1:])]
