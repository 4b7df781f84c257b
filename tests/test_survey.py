"""What a survey of a file tells is what counting by hand finds."""

import functools
from collections import Counter

import numpy as np
import pytest
from commands import rows_of_pairs
from hypothesis import given
from hypothesis import strategies as st

from rafm import data
from rafm.survey import BINS, Survey, suggest_ranks, survey


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.svm"


@pytest.mark.parametrize("size", [1 << 20, 32], ids=["one piece", "pieces"])
def test_totals_are_those_of_counting_by_hand(path, monkeypatch, size):
    monkeypatch.setitem(data.READERS, "libsvm", functools.partial(data.READERS["libsvm"], chunk_bytes=size))
    text = rows_of_pairs(200) + "1\n0 5000000:2 7:0\n"
    path.write_text(text)
    lines = [line.split() for line in text.splitlines()]
    entries = [entry.split(":") for _, *row in lines for entry in row]
    counts = Counter(int(i) for i, x in entries if float(x) != 0)
    labels = [float(line[0]) for line in lines]
    found = survey(data.open_rows(path, task="regression"))
    assert (found.rows, found.nonzeros, found.n_features - 1) == (202, sum(counts.values()), 5_000_000)
    assert sorted(found.counts) == sorted(counts.values())
    assert found.label_mean == pytest.approx(np.mean(labels))
    assert found.label_range == (0.0, 1.0)


def test_labels_are_read_as_the_task_wants_them(path):
    path.write_text("-1 1:1\n1 1:1\n")
    assert survey(data.open_rows(path, task="binary")).label_range == (0.0, 1.0)
    assert survey(data.open_rows(path, task="regression")).label_range == (-1.0, 1.0)


def test_an_empty_file_has_nothing_in_it(path):
    path.write_bytes(b"")
    report = survey(data.open_rows(path, task="binary")).report()
    assert (report["rows"], report["features"], report["largest_id"], report["per_row"]) == (0, 0, -1, 0)
    assert report["label_range"] == [0.0, 0.0]
    assert {line["share_of_nonzeros"] for line in report["frequencies"]} == {0.0}


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=40))
def test_every_feature_is_in_the_one_range_that_its_count_lies_in(counts):
    numbers = np.array(counts)
    found = Survey(1, 1, 1, numbers, numbers, numbers, 1.0, 0.0, 0.0, (0.0, 0.0)).histogram()
    assert [name.split("-")[0] for name, _, _ in found] == [str(low) for low in BINS]
    for name, size, share in found:
        low, high = (int(end) if end else 10**9 for end in name.split("-"))
        inside = [count for count in counts if low <= count <= high]
        assert size == len(inside)
        assert share == pytest.approx(sum(inside) / sum(counts))


def test_ranks_are_suggested_while_enough_features_would_get_them():
    assert suggest_ranks(np.full(1000, 2)) == (8,)
    assert suggest_ranks(np.repeat([2, 16], [10, 15])) == (8,)
    assert suggest_ranks(np.repeat([2, 16], [10, 16])) == (8, 32)
    assert suggest_ranks(np.repeat([2, 10_000], [10, 16])) == (8, 32, 128, 512)
    assert suggest_ranks(np.zeros(0, int)) == (8,)
