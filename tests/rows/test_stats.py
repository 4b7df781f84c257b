"""What a count_rows of a file tells is what counting by hand finds."""

from collections import Counter

import numpy as np
import pytest
from commands import read_in_pieces, rows_of_pairs

from rafm.read.open import ReadOptions, rows_of_ids
from rafm.rows.stats import count_rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.svm"


@pytest.mark.parametrize("size", [1 << 20, 32], ids=["one piece", "pieces"])
def test_totals_are_those_of_counting_by_hand(path, monkeypatch, size):
    read_in_pieces(monkeypatch, size)
    text = rows_of_pairs(200) + "1\n0 5000000:2 7:0\n"
    path.write_text(text)
    lines = [line.split() for line in text.splitlines()]
    entries = [entry.split(":") for _, *row in lines for entry in row]
    counts = Counter(int(i) for i, x in entries if float(x) != 0)
    labels = [float(line[0]) for line in lines]
    found = count_rows(rows_of_ids(path, ReadOptions("regression"), "regression"))
    assert (found.rows, found.nonzeros, found.n_features - 1) == (202, sum(counts.values()), 5_000_000)
    assert sorted(found.counts) == sorted(counts.values())
    assert found.label_mean == pytest.approx(np.mean(labels))
    assert found.label_range == (0.0, 1.0)


def test_labels_are_read_as_the_task_wants_them(path):
    path.write_text("-1 1:1\n1 1:1\n")
    assert count_rows(rows_of_ids(path, ReadOptions("binary"), "binary")).label_range == (0.0, 1.0)
    assert count_rows(rows_of_ids(path, ReadOptions("regression"), "regression")).label_range == (-1.0, 1.0)


def test_an_empty_file_has_nothing_in_it(path):
    path.write_bytes(b"")
    found = count_rows(rows_of_ids(path, ReadOptions("binary"), "binary"))
    assert (found.rows, found.nonzeros, found.counts.size, found.n_features, found.label_range) == (0, 0, 0, 0, (0, 0))
