"""Fields of ids as runs, and their collection from rows, against a dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.rows import fields as module
from rafm.rows.fields import NO_FIELD, Fields, FieldTable

IDS = st.dictionaries(st.integers(0, 30), st.integers(0, 3), max_size=20)


@given(IDS)
def test_fields_of_ids_are_those_given_and_others_have_none(known):
    ids = np.array(sorted(known), np.int64)
    fields = Fields.of_ids("abcd", ids, np.array([known[i] for i in ids.tolist()], np.int32))
    assert fields.of(np.arange(-1, 40)).tolist() == [known.get(i, NO_FIELD) for i in range(-1, 40)]
    assert (np.diff(fields.starts) > 0).all()
    assert (np.diff(fields.numbers) != 0).all()  # as few runs as there can be


@given(st.lists(st.integers(0, 4), max_size=6))
def test_fields_of_ranges_may_be_empty(lengths):
    firsts = [0, *np.cumsum(lengths).tolist()]
    expected = np.repeat(np.arange(len(lengths)), lengths).tolist()
    fields = Fields.of_ranges([f"f{k}" for k in range(len(lengths))], firsts)
    assert fields.of(np.arange(firsts[-1] + 2)).tolist() == [*expected, NO_FIELD, NO_FIELD]


def test_the_checksum_tells_fields_apart():
    some = [
        Fields.of_ids(names, np.array(ids), np.array(numbers))
        for names, ids, numbers in (
            (("a", "b"), [1, 2], [0, 1]),
            (("a", "c"), [1, 2], [0, 1]),
            (("a", "b"), [1, 3], [0, 1]),
        )
    ]
    assert len({fields.checksum() for fields in some}) == 3
    assert some[0].checksum() == Fields.of_ids(("a", "b"), np.array([1, 2]), np.array([0, 1])).checksum()


ENTRIES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=30)


@pytest.mark.parametrize("dense_ids", [1 << 24, 20], ids=["small ids", "large ids"])
@given(chunks=st.lists(ENTRIES, max_size=4))
def test_the_first_field_of_an_id_counts_and_the_first_other_one_is_found(dense_ids, chunks):
    table, known = FieldTable(), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DENSE_IDS", dense_ids)
        for chunk in chunks:
            found = table.add(np.array([i for i, _ in chunk], np.int64), np.array([f for _, f in chunk], np.int32))
            for i, field in chunk:
                known.setdefault(i, field)
            wrong = [place for place, (i, field) in enumerate(chunk) if known[i] != field]
            assert found == (wrong[0] if wrong else -1)
        fields = table.fields()
    if not known:
        assert fields is None
        return
    assert fields.names == tuple(str(field) for field in sorted(set(known.values())))
    numbers = fields.of(np.arange(45))
    assert {i: int(fields.names[k]) for i, k in enumerate(numbers.tolist()) if k != NO_FIELD} == known
