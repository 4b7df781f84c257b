"""The made-up click log: reproducible, long-tailed, and with a truth worth learning."""

import numpy as np
import pytest

from rafm.demo.click_log import FIELDS, ClickLog, make_click_log, write_fields, write_libsvm
from rafm.errors import ConfigError
from rafm.read.fields import read_fields

ARRAYS = ("indptr", "indices", "values", "labels", "probabilities", "offsets")


@pytest.fixture(scope="module")
def log() -> ClickLog:
    return make_click_log(n_rows=100_000, seed=3)


def log_loss(probabilities, labels):
    return -np.log(np.where(labels > 0, probabilities, 1 - probabilities)).mean()


def counts_of(log, field):
    """Count the rows of each value of a field, the slow way round."""
    start, end = log.offsets[FIELDS.index(field)], log.offsets[FIELDS.index(field) + 1]
    column = log.indices[(log.indices >= start) & (log.indices < end)]
    return np.bincount(column - start, minlength=end - start)


def smoothed_rates(table, labels, field):
    """Estimate the click rate of each value of one field, shrunk towards the base rate."""
    clicks = np.bincount(table[:, field], weights=labels)
    rows = np.bincount(table[:, field])
    return ((clicks + 4 * labels.mean()) / (rows + 4))[table[:, field]]


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    first, second = make_click_log(2000, seed=5), make_click_log(2000, seed=5)
    for name in ARRAYS:
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    write_libsvm(tmp_path / "first", first)
    write_libsvm(tmp_path / "second", second)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_another_seed_gives_another_log():
    assert not np.array_equal(make_click_log(500, seed=1).indices, make_click_log(500, seed=2).indices)


def test_types_are_those_of_a_batch(log):
    types = [getattr(log, name).dtype for name in ARRAYS]
    assert types == [np.int64, np.int64, np.float32, np.float32, np.float64, np.int64]


def test_every_row_has_one_rising_id_per_field_within_its_range(log):
    table = log.indices.reshape(len(log), len(FIELDS))
    assert log.field_names == tuple(field.name for field in FIELDS)
    assert np.array_equal(log.indptr, np.arange(len(log) + 1) * len(FIELDS))
    assert (table >= log.offsets[:-1]).all()
    assert (table < log.offsets[1:]).all()


def test_labels_are_zero_or_one_and_follow_the_probabilities(log):
    assert set(np.unique(log.labels)) == {0.0, 1.0}
    assert 0.15 < log.labels.mean() < 0.25
    deciles = np.array_split(np.argsort(log.probabilities), 10)
    for rows in deciles:  # 10,000 rows each: a standard error of at most 0.005, four of them allowed
        assert log.labels[rows].mean() == pytest.approx(log.probabilities[rows].mean(), abs=0.02)


def test_users_have_a_long_tail_and_a_heavy_head(log):
    counts = np.sort(counts_of(log, FIELDS[0]))[::-1]
    seen = counts[counts > 0]
    assert (seen <= 2).mean() > 0.4  # most users can support next to no structure
    assert counts[:300].sum() > 0.4 * len(log)  # and one in a hundred makes nearly half of the rows


def test_popularity_does_not_follow_the_numbering(log):
    counts = counts_of(log, FIELDS[1])
    assert abs(np.corrcoef(np.arange(counts.size), counts)[0, 1]) < 0.05


def test_an_item_has_one_category(log):
    table = log.indices.reshape(len(log), -1)
    pairs = np.unique(table[:, [1, 7]], axis=0)
    assert len(pairs) == len(np.unique(table[:, 1]))


def test_the_truth_is_far_better_than_the_base_rate_and_than_any_single_field(log):
    base = log_loss(np.full(len(log), log.labels.mean()), log.labels)
    table = log.indices.reshape(len(log), -1)
    single = [log_loss(smoothed_rates(table, log.labels, field), log.labels) for field in (2, 6, 7)]
    assert log.bayes_log_loss < 0.7 * base
    assert log.bayes_log_loss < 0.75 * min(single)


def test_frequent_users_have_the_richer_truth(log):
    users = log.indices.reshape(len(log), -1)[:, 0]
    rows_of_user = np.bincount(users)[users]
    scores = np.log(log.probabilities / (1 - log.probabilities))
    assert scores[rows_of_user > 300].std() > 1.3 * scores[rows_of_user < 5].std()


def test_a_split_deals_every_row_once(log):
    parts = log.split((0.7, 0.1, 0.2), seed=1)
    assert [len(part) for part in parts] == [70_000, 10_000, 20_000]
    together = np.concatenate([part.probabilities for part in parts])
    assert np.array_equal(np.sort(together), np.sort(log.probabilities))
    assert np.array_equal(log.split((0.7, 0.1, 0.2), seed=1)[1].indices, parts[1].indices)
    assert not np.array_equal(log.split((0.7, 0.1, 0.2), seed=2)[1].indices, parts[1].indices)


def test_taken_rows_keep_features_label_and_probability_together(log):
    part = log.take(np.array([17, 3]))
    assert np.array_equal(part.indices[8:], log.indices[24:32])
    assert (part.labels[1], part.probabilities[1]) == (log.labels[3], log.probabilities[3])


@pytest.mark.parametrize("fractions", [(0.5, 0.4), (1.5, -0.5)], ids=["short of one", "negative"])
def test_a_split_refuses_impossible_fractions(log, fractions):
    with pytest.raises(ConfigError, match="must be at least 0 and sum to 1"):
        log.split(fractions)


def test_a_log_needs_a_row():
    with pytest.raises(ConfigError, match="n_rows must be at least 1, found 0"):
        make_click_log(0)


def test_libsvm_lines_read_back_as_the_log(tmp_path):
    log = make_click_log(50, seed=0)
    write_libsvm(tmp_path / "log.libsvm", log)
    lines = (tmp_path / "log.libsvm").read_text().splitlines()
    assert [float(line.split()[0]) for line in lines] == log.labels.tolist()
    tokens = [token.split(":") for line in lines for token in line.split()[1:]]
    assert [int(i) for i, _ in tokens] == log.indices.tolist()
    assert {x for _, x in tokens} == {"1"}


def test_fields_read_back_as_those_of_the_log(tmp_path):
    log = make_click_log(50, seed=0)
    write_fields(tmp_path / "fields.tsv", log)
    fields = read_fields(tmp_path / "fields.tsv")
    assert fields.names == log.field_names
    assert np.array_equal(fields.of(log.indices).reshape(50, -1), np.tile(np.arange(len(FIELDS)), (50, 1)))


def test_the_default_log_has_300_000_rows():
    assert len(make_click_log()) == 300_000
