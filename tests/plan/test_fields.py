"""Fields of features: only those that occur, <other> for the rest, and how they go on with new features."""

import numpy as np
import pytest

from rafm.errors import DataValueError
from rafm.plan.fields import FeatureFields, continue_fields, plan_fields
from rafm.rows.fields import Fields

KNOWN = Fields.of_ids(("user", "day", "item"), np.array([1, 2, 5, 6]), np.array([0, 0, 2, 2]))


def named(found):
    return [found.names[number] for number in found.numbers]


def test_fields_that_do_not_occur_are_left_out():
    found = plan_fields(KNOWN, np.array([6, 1, 5]))
    assert (found.names, named(found)) == (("user", "item"), ["item", "user", "item"])
    assert found.counts().tolist() == [1, 2]
    assert plan_fields(None, np.array([6])) is None


def test_ids_without_a_field_share_one():
    found = plan_fields(KNOWN, np.array([6, 4, 1, 9]))
    assert named(found) == ["item", "<other>", "user", "<other>"]
    given = Fields.of_ids(("<other>", "user"), np.array([3, 4]), np.array([0, 1]))
    assert named(plan_fields(given, np.array([4, 3, 7]))) == ["user", "<other>", "<other>"]
    assert plan_fields(given, np.array([4, 3, 7])).n_fields == 2


BEFORE = FeatureFields(("item", "user"), np.array([0, 1], np.int32))  # of the ids 5 and 1


def test_a_model_that_goes_on_keeps_its_fields_and_their_numbers():
    ids, places = np.array([1, 6, 5, 2, 9]), np.array([2, 0])  # 5 and 1 are now numbers 2 and 0
    found = continue_fields(BEFORE, places, KNOWN, ids)
    assert named(found) == ["user", "item", "item", "user", "<other>"]
    assert found.names == ("item", "user", "<other>")
    without = continue_fields(BEFORE, places, None, ids)
    assert named(without) == ["user", "<other>", "item", "<other>", "<other>"]
    same = continue_fields(BEFORE, np.array([0, 1]), None, np.array([5, 1]))
    assert (same.names, same.numbers.tolist()) == (BEFORE.names, [0, 1])
    assert continue_fields(None, places, None, ids) is None
    assert named(continue_fields(None, places, KNOWN, ids)) == ["user", "item", "item", "user", "<other>"]


def test_a_new_field_follows_the_old_ones():
    fields = Fields.of_ids(("day", "user"), np.array([1, 7]), np.array([1, 0]))
    found = continue_fields(BEFORE, np.array([0, 2]), fields, np.array([5, 7, 1]))
    assert (found.names, named(found)) == (("item", "user", "day"), ["item", "day", "user"])


def test_another_field_than_that_of_the_model_is_refused():
    fields = Fields.of_ids(("day", "user"), np.array([1, 7]), np.array([0, 1]))
    with pytest.raises(DataValueError, match="feature id 1 is in field 'day', but in field 'user' of the model"):
        continue_fields(BEFORE, np.array([0, 2]), fields, np.array([5, 7, 1]))
