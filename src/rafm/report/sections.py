"""The sections of a report, each made from a model and what it does on test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..charts import Axis, Series, chart
from ..families import FAMILIES
from ..flag_values import value_text
from ..metrics import loss_heading, metric_class
from ..model.describe import model_line
from ..model.file import Saved
from ..model.model import Model
from ..plan.ranks import describe_plan
from .command import has_measured_ranks, missing_parts, placeholders, train_command
from .markup import bars, figure, figures, paragraph, section, table, text_of
from .results import Results

MOST_FIELDS, MOST_PAIRS, MOST_COLUMNS = 12, 15, 20  # of tables
CURVE_POINTS, N_BINS = 200, 40  # of curves and histograms
TASKS = {
    "binary": "clicks (two classes)",
    "regression": "ratings (numbers)",
    "count": "counts",
    "ranking": "ranking (positive rows only)",
}


def summary(saved: Saved, results: Results | None, n_bytes: int) -> str:
    """Describe the model, its training rows and its quality."""
    model = saved.model
    what = "one vector per feature, of measured length" if has_measured_ranks(model) else FAMILIES[model.plan.family]
    facts = [
        ("Model", f"{model.plan.family}: {what}"),
        ("Trained", model_line(model)),
        ("Task", f"{TASKS.get(model.loss.task, model.loss.task)}, {model.loss.name} loss"),
        ("Training rows", f"{model.n_rows:,}"),
        ("Features", f"{model.plan.n_features:,}"),
        ("Parameters", f"{model.n_parameters:,}"),
        ("Model file", f"{n_bytes:,} bytes"),
        ("Epochs", f"{len(model.history)}, of which epoch {model.best_epoch} was kept"),
    ]
    if saved.classes is not None and model.loss.is_classification:
        facts.append(("Labels", f"{saved.classes[1]!r} is positive, {saved.classes[0]!r} is negative"))
    if saved.encoder is not None:
        facts.append(("Columns", ", ".join(f"{column.name} ({column.kind})" for column in saved.encoder.columns)))
    if model.best_epoch and model.history:
        kept = model.history[min(model.best_epoch, len(model.history)) - 1]
        facts += [(f"Validation {_title(name)}", f"{value:.5f}") for name, value in _validated(kept).items()]
    parts = table("The model", ("property", "value"), facts, "words")
    if results is not None:
        names = [name for name in results.report if name != "reliability"]
        rows = [(_title(name), _number(results.report[name])) for name in names]
        parts += table(f"Quality on {results.name}", ("metric", "value"), rows)
    return section("Summary", figures(parts))


def _validated(entry: dict[str, Any]) -> dict[str, float]:
    found = {name.removeprefix("valid_"): value for name, value in entry.items() if name.startswith("valid_")}
    return {name: value for name, value in found.items() if value is not None}


def _title(name: str) -> str:
    return name.replace("_", " ")


def _number(value: Any) -> str:
    return "undefined" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.5f}"


def learning(model: Model) -> str:
    """Draw the loss on training and validation rows, epoch by epoch."""
    if not model.history:
        return ""
    epochs = [float(entry["epoch"]) for entry in model.history]
    name = model.loss.metrics[0]
    heading = metric_class(name).heading
    series = [
        Series(f"training {loss_heading(name)}", epochs, [entry["train_loss"] for entry in model.history], "line", 1)
    ]
    values = [(epoch, entry.get(f"valid_{name}")) for epoch, entry in zip(epochs, model.history)]
    if known := [(epoch, value) for epoch, value in values if value is not None]:
        series.append(Series(f"validation {heading}", *_columns(known), "line", 2))
    if best := [pair for pair in known if pair[0] == model.best_epoch]:
        series.append(Series("kept", *_columns(best), "marks", 2))
    drawn = chart(f"{heading} by epoch", Axis("epoch"), Axis(heading), series)
    caption = "The training loss is measured during the epoch, so early epochs look worse than they are."
    return section("Learning curves", figures(figure(drawn, caption)))


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def quality(model: Model, results: Results | None) -> str:
    """Draw reliability, ROC curve and histogram of predictions."""
    if results is None:
        return ""
    return section("Predictions", figures(_reliability(results), _roc(results), _histogram(model, results)))


def _reliability(results: Results) -> str:
    if points := results.report.get("reliability"):
        x, y = [point["mean_prediction"] for point in points], [point["mean_label"] for point in points]
        low, high, what = 0.0, max(*x, *y), "share of positives"
    else:
        order = np.argsort(results.predictions, kind="stable")
        parts = [part for part in np.array_split(order, 10) if part.size]
        x, y = ([float(values[part].mean()) for part in parts] for values in (results.predictions, results.labels))
        low, high, what = min(*x, *y), max(*x, *y), "mean label"
    series = [
        Series("perfect", [low, high], [low, high], "line", 5),
        Series("model", x, y, "line", 1),
        Series("", x, y, "marks", 1),
    ]
    title = f"reliability: {what} against mean prediction"
    drawn = chart(title, Axis("mean prediction"), Axis(what), series)
    caption = "Reliability: ten bins of rows by prediction. On the dotted line, predictions are right on average."
    return figure(drawn, caption)


def _roc(results: Results) -> str:
    if results.roc is None:
        return ""
    x, y = (values.tolist() for values in results.roc)
    series = [Series("chance", [0, 1], [0, 1], "line", 5), Series("model", x, y, "line", 1)]
    drawn = chart(
        "ROC curve", Axis("false positive rate", low=0, high=1), Axis("true positive rate", low=0, high=1), series
    )
    return figure(drawn, f"ROC curve; the area under it is the AUC, {_number(results.report.get('auc'))}.")


def _histogram(model: Model, results: Results) -> str:
    groups = {"all rows": results.predictions}
    if model.loss.is_classification:
        is_positive = results.labels > 0
        groups = {"negatives": results.predictions[~is_positive], "positives": results.predictions[is_positive]}
    edges = np.histogram_bin_edges(results.predictions, N_BINS)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    series = [
        Series(name, middles, (np.histogram(values, edges)[0] / results.predictions.size).tolist(), "bars", style)
        for style, (name, values) in enumerate(groups.items(), 1)
    ]
    drawn = chart("histogram of predictions", Axis("prediction"), Axis("share of rows"), series)
    return figure(drawn, "How often each prediction occurs.")


def frequencies(model: Model) -> str:
    """Draw the counts of features next to the ranks of their vectors."""
    plan, counts = model.plan, np.asarray(model.counts)
    if not counts.size or not plan.ranks:
        return ""
    order = np.argsort(-counts, kind="stable")
    # evenly spaced on the logarithmic axis
    places = np.unique(np.geomspace(1, counts.size, min(CURVE_POINTS, counts.size)).astype(int)) - 1
    ranks = np.array([0, *plan.ranks])[plan.levels()]
    x = (places + 1).astype(float).tolist()
    series = [
        Series("count in training", x, counts[order][places].astype(float).tolist(), "line", 1),
        Series("rank of its vector", x, np.maximum(ranks[order][places], 0.5).astype(float).tolist(), "steps", 2),
    ]
    drawn = chart(
        "counts and ranks of features",
        Axis("feature, the most frequent first", is_log=True),
        Axis("count, rank", is_log=True),
        series,
    )
    caption = "How often features occur in training, and how long their vectors are. Both axes are logarithmic."
    return section("Frequencies and ranks", figures(figure(drawn, caption)), _levels(model))


def _levels(model: Model) -> str:
    *levels, fm = describe_plan(model.plan, model.counts, model.n_rows)
    rows: list[tuple[Any, ...]] = [
        (level, f"{row['rank']:,}", f"{row['features']:,}", f"{row['share_of_nonzeros']:.1%}", f"{row['parameters']:,}",
         f"{row['bytes']:,}", f"{row['factors_per_row']:.1f}")
        for level, row in enumerate(levels, 1)
    ]  # fmt: skip
    whole, factors = fm["parameters"] + model.plan.n_features + 1, sum(row["factors_per_row"] for row in levels)
    size = model.n_parameters
    rows.append(("model", "", f"{model.plan.n_features:,}", "", f"{size:,}", f"{4 * size:,}", f"{factors:.1f}"))
    plain = (f"{fm['rank']:,}", f"{fm['features']:,}", f"{fm['share_of_nonzeros']:.1%}", f"{whole:,}", f"{4 * whole:,}")
    rows.append(("plain FM", *plain, f"{fm['factors_per_row']:.1f}"))
    heading = ("level", "rank", "features", "share of nonzeros", "parameters", "bytes", "factors per row")
    share = f"The model has {size / whole:.1%} of the parameters of a plain FM of the top rank."
    return table("Parameters by level", heading, rows) + paragraph(share)


def interactions(model: Model, results: Results | None) -> str:
    """Show the weights of field pairs, and the pairs of features that move scores most."""
    parts = _field_weights(model)
    if results is not None and results.terms is not None:
        terms = results.terms
        by_column = [(" x ".join(pair), size, f"{size:.4f}") for pair, size in [*terms.column_pairs.items()]]
        # rows of ids have as many columns as features: nothing to sum up
        if len({name for pair in terms.column_pairs for name in pair}) <= MOST_COLUMNS and by_column:
            parts += bars("Mean absolute size of pairs of columns", ("columns", "size"), by_column[:MOST_PAIRS])
        pairs = [(" x ".join(pair), size, f"{size:.4f}") for pair, size in [*terms.pairs.items()][:MOST_PAIRS]]
        if pairs:
            parts += bars("Mean absolute size of pairs of features", ("features", "size"), pairs)
    return section("Interactions", parts)


def _field_weights(model: Model) -> str:
    weights, fields = model.parameters.fields, model.fields
    if weights is None or fields is None or not model.plan.n_field_weights:
        return ""
    names, t = fields.names[:MOST_FIELDS], np.asarray(weights, float)[:MOST_FIELDS]
    rows = [(a, *(f"{1 - t[i] * t[j]:.2f}" for j in range(t.size))) for i, a in enumerate(names)]
    more = f", the first {MOST_FIELDS} of {fields.n_fields} fields" if fields.n_fields > MOST_FIELDS else ""
    return table(f"Weight of pairs by field{more}", ("field", *names), rows)


def importance(results: Results | None) -> str:
    """Show how much the loss rises when a column is permuted."""
    if results is None or not results.importance:
        return ""
    rows = [
        (one.column, one.importance, f"{one.importance:.5f} ± {one.standard_error:.5f}")
        for one in results.importance[:MOST_COLUMNS]
    ]
    text = "Increase of the loss when the values of a column are permuted among the rows, with its standard error."
    title = ("column", "increase of the loss")
    return section("Importance", paragraph(text), bars("Importance of columns", title, rows))


def coverage(results: Results | None) -> str:
    """Show how many values of the test rows were not seen in training."""
    if results is None:
        return ""
    columns = results.coverage.columns
    text = f"{results.unseen_share:.2%} of the nonzeros have a feature that the model does not know; they add nothing."
    if columns:  # the encoder has left out what it does not know
        text = "Values not seen in training add nothing to a score."
    rows = [
        (name, f"{one.seen:,}", f"{one.known:,}", f"{one.missing:,}", f"{one.unseen:,}", f"{1 - one.share:.1%}")
        for name, one in columns.items()
    ]
    heading = ("column", "values", "known", "missing", "unseen", "share of unseen")
    return section("Coverage", paragraph(text), table("Values by column", heading, rows) if rows else "")


def reproduction(saved: Saved, version: str) -> str:
    """Show how to train the model again."""
    model, command = saved.model, train_command(saved)
    rows = [(name, value_text(value)) for name, value in sorted(model.options.items()) if value is not None]
    text = (
        f"Made with rafm {version}. {placeholders(command)} The same rows, options and seed give the same file on the "
        f"same kind of processor. Add {_listed(missing_parts(saved))} if used: the model does not record them."
    )
    if has_measured_ranks(model):
        text += " Learning rate, L2 and ranks are those found."
    shown_command = f'<pre tabindex="0"><code>{text_of(command)}</code></pre>'
    options = table("Options", ("option", "value"), rows, "words")
    return section("Train it again", paragraph(text), shown_command, options)


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
