"""Texts in bytes, each with its length before it."""

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.rows.texts import texts_of_bytes


def outcome(work, data):
    try:
        return work(data)
    except ValueError:  # also one of Arrow, and of Unicode
        return "refused"


texts = st.lists(st.text(max_size=300), max_size=8)


@given(texts, st.integers(0, 60), st.binary(max_size=6))
def test_texts_are_those_of_the_definition_or_refused(chosen, cut, more):
    data = b"".join(len(one.encode()).to_bytes(4, "little") + one.encode() for one in chosen)
    assert texts_of_bytes(memoryview(data)).to_pylist() == chosen
    for changed in (data[: len(data) - cut], data + more, more + data):
        found = outcome(lambda given: texts_of_bytes(given).to_pylist(), changed)
        assert found == outcome(naive.texts_of_bytes, changed)


@pytest.mark.parametrize("data", [b"\1\0\0\0", b"\1\0\0", b"\xff\xff\xff\xffa", b"\0\0\0\x80", b"\2\0\0\0a"])
def test_a_text_beyond_the_end_is_refused(data):
    with pytest.raises(ValueError, match="beyond the input"):
        texts_of_bytes(data)


def test_bytes_that_are_not_text_are_refused():
    with pytest.raises(ValueError, match="UTF8"):
        texts_of_bytes(b"\1\0\0\0\xff")
