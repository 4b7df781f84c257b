"""Read raw files into tables: one function per data set, named in the catalog.

Each takes the directory of raw files and the seed for sampled negatives. Errors name file and line.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from rafm.errors import DataFormatError

from .table import Table, TableBuilder, with_negatives

NEGATIVES = 2  # sampled per positive, as in the paper's ML Tag and Frappe
FRAPPE = ("user", "item", "daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city")


def movielens_100k(raw: Path, seed: int) -> Table:
    """Read u.data (user, movie, rating, time; tabs) and u.user (user, age, gender, occupation, zip; bars)."""
    people = {cells[0]: cells[1:] for _, cells in split_lines(raw / "u.user", "|", 5)}
    return _ratings_of_people(raw / "u.data", "\t", people, ("age", "gender", "occupation", "zip"))


def movielens_1m(raw: Path, seed: int) -> Table:
    """Read ratings.dat (user::movie::rating::time) and users.dat (user::gender::age::occupation::zip)."""
    people = {cells[0]: cells[1:] for _, cells in split_lines(raw / "users.dat", "::", 5)}
    return _ratings_of_people(raw / "ratings.dat", "::", people, ("gender", "age", "occupation", "zip"))


def movielens_10m(raw: Path, seed: int) -> Table:
    """Read ratings.dat: user::movie::rating::time."""
    return _ratings(raw / "ratings.dat", split_lines(raw / "ratings.dat", "::", 4))


def movielens_20m(raw: Path, seed: int) -> Table:
    """Read ratings.csv: a header, then user,movie,rating,time."""
    return _ratings(raw / "ratings.csv", split_lines(raw / "ratings.csv", ",", 4, header="userId"))


def movielens_10m_tags(raw: Path, seed: int) -> Table:
    """Read tags.dat (user::movie::tag::time) and sample negative tags."""
    # free_text: a tag may contain :: itself
    return _tags(("user", "movie", "tag"), split_lines(raw / "tags.dat", "::", 4, free_text=2), seed)


def movielens_20m_tags(raw: Path, seed: int) -> Table:
    """Read tags.csv (user,movie,tag,time; tags may be quoted) and sample negative tags."""
    return _tags(("user", "movie", "tag"), _quoted_lines(raw / "tags.csv", 4, header="userId"), seed)


def lastfm_tags(raw: Path, seed: int) -> Table:
    """Read user_taggedartists.dat (user, artist, tag and a date; tabs) and sample negative tags."""
    lines = split_lines(raw / "user_taggedartists.dat", "\t", 6, header="userID")  # day, month and year are cells
    return _tags(("user", "artist", "tag"), lines, seed)


def amazon_ratings(raw: Path, seed: int) -> Table:
    """Read ratings (user,item,rating,time), or else the 5-core reviews, one JSON object per line."""
    if (raw / "ratings_Movies_and_TV.csv").exists():
        return _ratings(raw / "ratings_Movies_and_TV.csv", split_lines(raw / "ratings_Movies_and_TV.csv", ",", 4))
    path = raw / "reviews_Movies_and_TV_5.json.gz"
    return _ratings(path, _reviews(path))


def ciao_ratings(raw: Path, seed: int) -> Table:
    """Read rating.mat, a matrix with columns user, product, category, rating and helpfulness."""
    from scipy.io import loadmat

    path = raw / "rating.mat"
    try:
        matrix = loadmat(path)["rating"]
    except (KeyError, ValueError, NotImplementedError) as error:
        raise DataFormatError(f"expected a MATLAB file with a matrix 'rating': {error}", path=str(path)) from None
    if matrix.ndim != 2 or matrix.shape[1] < 4:
        raise DataFormatError(f"expected user, product, category and rating, found shape {matrix.shape}", str(path))
    rows = TableBuilder("user", "item")
    for user, item, _, rating in matrix[:, :4].tolist():
        rows.add(float(rating), str(user), str(item))
    return rows.table("label = rating")


def frappe_log(raw: Path, seed: int) -> Table:
    """Read frappe.csv (tabs, with a header) and sample apps that the user never used, in the same contexts."""
    rows = TableBuilder(*FRAPPE)
    for _, cells in split_lines(raw / "frappe.csv", "\t", 11, header="user"):
        rows.add(1.0, cells[0], cells[1], *cells[3:])  # cell 2 counts uses, which would give the label away
    return with_negatives(rows.table(), "item", NEGATIVES, seed, known_by=("user",))


def _ratings_of_people(path: Path, separator: str, people: dict[str, list[str]], facts: tuple[str, ...]) -> Table:
    rows = TableBuilder("user", "movie", *facts)
    for line, (user, movie, rating, _) in split_lines(path, separator, 4):
        if user not in people:
            raise DataFormatError(f"unknown user {user!r}", str(path), line)
        rows.add(_number(rating, path, line), user, movie, *people[user])
    return rows.table("label = rating")


def _ratings(path: Path, lines: Iterator[tuple[int, list[str]]]) -> Table:
    rows = TableBuilder("user", "item")
    for line, (user, item, rating, *_) in lines:
        rows.add(_number(rating, path, line), user, item)
    return rows.table("label = rating")


def _tags(fields: tuple[str, ...], lines: Iterator[tuple[int, list[str]]], seed: int) -> Table:
    rows = TableBuilder(*fields)
    for _, cells in lines:
        rows.add(1.0, *cells[:3])
    return with_negatives(rows.table(), "tag", NEGATIVES, seed)


def _number(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataFormatError(f"expected a rating, found {text!r}", str(path), line) from None


def split_lines(
    path: Path, separator: str, n_cells: int, header: str | None = None, free_text: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line.

    header: skip the first line if it starts with this. free_text: position of a cell that may contain the separator.
    """
    with _open(path) as file:
        for line, text in enumerate(file, start=1):
            if line == 1 and header is not None and text.startswith(header):
                continue
            cells = text.rstrip("\r\n").split(separator)
            if free_text is not None and len(cells) > n_cells:  # join the surplus cells again
                end = len(cells) - (n_cells - free_text) + 1
                cells[free_text:end] = [separator.join(cells[free_text:end])]
            if len(cells) != n_cells:
                raise DataFormatError(f"expected {n_cells} cells, found {len(cells)}", str(path), line)
            yield line, cells


def _quoted_lines(path: Path, n_cells: int, header: str) -> Iterator[tuple[int, list[str]]]:
    with _open(path) as file:
        reader = csv.reader(file)
        for cells in reader:
            if reader.line_num == 1 and cells[:1] == [header]:
                continue
            if len(cells) != n_cells:
                raise DataFormatError(f"expected {n_cells} cells, found {len(cells)}", str(path), reader.line_num)
            yield reader.line_num, cells


def _reviews(path: Path) -> Iterator[tuple[int, list[str]]]:
    with _open(path) as file:
        for line, text in enumerate(file, start=1):
            try:
                review = json.loads(text)
                yield line, [review["reviewerID"], review["asin"], str(review["overall"])]
            except (ValueError, KeyError, TypeError) as error:
                raise DataFormatError(f"expected a review as JSON: {error!r}", str(path), line) from None


def _open(path: Path) -> TextIO:
    """Open plain or gzip text; only line feeds end lines."""
    file = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")  # stray bytes must not fail a set


TABLES: dict[str, Callable[[Path, int], Table]] = {
    function.__name__: function
    for function in (
        movielens_100k,
        movielens_1m,
        movielens_10m,
        movielens_20m,
        movielens_10m_tags,
        movielens_20m_tags,
        lastfm_tags,
        amazon_ratings,
        ciao_ratings,
        frappe_log,
    )
}
