"""`rafm recommend` and `rafm similar`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Duplicates, ExcludeBy, Format, Json, ModelPath, print_json, print_notes, read_options


def recommend(
    model: ModelPath,
    contexts: Annotated[str, typer.Argument(metavar="CONTEXTS", help="File with one row per context, e.g. user.")],
    items: Annotated[str, typer.Option(metavar="FILE", help="File with one row per item.")],
    top: Annotated[int, typer.Option(min=1, help="Items per context.")] = 10,
    exclude: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Pairs that were seen: rows with what names context and item."),
    ] = None,
    exclude_by: ExcludeBy = None,
    threads: Annotated[int, typer.Option(min=1, help="Worker threads. Results are the same for any value.")] = 1,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per context.")] = False,
) -> None:
    """Print the best items of a catalogue for each context.

    The result is exact. CONTEXTS needs the columns of the context only, --items those of the item. Each line has the
    row number of the context (from 1), the rank, the row number of the item (from 1), the score, and the features of
    the item.
    """
    from ..encode.coverage import Coverage
    from ..explain.names import FeatureNames
    from ..predictor import Predictor
    from ..recommend.excluded import read_excluded
    from ..recommend.partial import read_side
    from ..recommend.top import Catalogue

    predictor, coverage, options = Predictor.load(model), Coverage(), read_options("binary", format, duplicates)
    catalogue = Catalogue(predictor.saved.model, read_side(predictor, items, options, coverage))
    users = read_side(predictor, contexts, options, coverage)
    excluded = None
    if exclude is not None:
        excluded = read_excluded(predictor, (contexts, items, exclude), options, exclude_by, users, catalogue)
    found, names = catalogue.recommend(users, top, excluded, threads), FeatureNames.of(predictor.saved)
    titles = [names.of_row(catalogue.items, row) for row in range(catalogue.items.n_rows)]
    for number, (chosen, scores) in enumerate(zip(found.items.tolist(), found.scores.tolist()), 1):
        best = [(item, score) for item, score in zip(chosen, scores) if item >= 0]
        if json:
            entries = [{"item": item + 1, "score": score, "features": titles[item]} for item, score in best]
            told = {} if excluded is None else {"excluded": excluded[number - 1].size}
            print_json({"context": number, **told, "items": entries})
            continue
        for rank, (item, score) in enumerate(best, 1):
            print(f"{number}\t{rank}\t{item + 1}\t{score:.6f}\t{' '.join(titles[item])}")
    print_notes(coverage)


def similar(
    model: ModelPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help='Feature: "column=value" of a table, or an id.')],
    top: Annotated[int, typer.Option(min=1, help="Number of neighbours.")] = 10,
    level: Annotated[int | None, typer.Option(help="Level whose vectors are compared (default: the highest).")] = None,
    measure: Annotated[
        str,
        typer.Option(
            help="cosine, balanced (cosine with long axes shortened) or behaviour (interactions with all features)."
        ),
    ] = "balanced",
    damping: Annotated[float, typer.Option(help="Count at which the similarity of a rare feature is halved.")] = 20.0,
    json: Json = False,
) -> None:
    """Print the features most similar to a given one.

    For tables, only features of the same column are compared.
    """
    from ..explain.names import FeatureNames
    from ..files.terminal import counted
    from ..model.file import load
    from ..recommend.similar import named_neighbours

    saved = load(model)
    found = named_neighbours(saved.model, FeatureNames.of(saved), name, top, level, measure, damping)
    if json:
        neighbours = [{"name": n, "similarity": one.similarity, "count": one.count} for n, one in found]
        print_json({"name": name, "similar": neighbours})
        return
    for neighbour, one in found:
        print(f"{one.similarity:9.4f}  {neighbour}  ({counted(one.count, 'row')})")
