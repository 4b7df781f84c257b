"""Which of two labels is positive, and what becomes of others."""

import pytest

from rafm.errors import ConfigError
from rafm.rows.classes import BadLabel, BinaryLabels, are_classes, key_of, positive_of


@pytest.mark.parametrize(
    ("negative", "positive"),
    [
        (0, 1),
        (-1, 1),
        (1, 2),
        (0.5, 1.5),
        (False, True),
        ("0", "1"),
        ("9", "10"),  # as numbers, not as texts
        ("no", "yes"),
        ("NO", "YES"),
        ("N", "Y"),
        ("false", "true"),
        ("negative", "positive"),
        ("neg", "pos"),
        ("no click", "click"),
        ("skip", "click"),  # a known word wins over the alphabet
        ("no", "absent"),  # and loses against any other
        ("alpha", "beta"),
        ("Zebra", "ant"),  # by code points, as NumPy sorts
        ("5", "five"),
    ],
)
def test_the_positive_label_follows_from_the_two_in_any_order(negative, positive):
    for first, second in ((negative, positive), (positive, negative)):
        assert positive_of(first, second) == key_of(positive)
        labels = BinaryLabels()
        labels.meet(first)
        labels.meet(second)
        labels.finish()
        assert (labels.classes or [0, 1]) == [negative, positive]
        assert labels.is_positive(positive)
        assert not labels.is_positive(negative)


def test_the_user_may_choose_the_positive_label():
    labels = BinaryLabels("no")
    labels.meet("yes")
    labels.meet("no")
    labels.finish()
    assert labels.classes == ["yes", "no"]
    assert labels.describe() == "labels: 'no' is positive, 'yes' is negative"
    other = BinaryLabels("maybe")
    other.meet("yes")
    with pytest.raises(ConfigError, match="--positive maybe: no such label; there are 'yes'"):
        other.finish()


@pytest.mark.parametrize(("label", "classes"), [(1.0, None), (0.0, None), (-1.0, [-1, 1]), ("a", ["a"]), (3.0, [3])])
def test_a_single_label_may_imply_the_other(label, classes):
    labels = BinaryLabels()
    labels.meet(label)
    labels.finish()
    assert labels.classes == classes


def test_a_third_label_is_refused_with_the_way_out():
    labels = BinaryLabels()
    labels.meet(1)
    labels.meet(2)
    with pytest.raises(BadLabel, match=r"^a third label, 5, after 1 and 2: .*--task regression; .*OneVsRestClassifier"):
        labels.meet(5)
    words = BinaryLabels()
    words.meet("a")
    words.meet("b")
    with pytest.raises(BadLabel, match=r"^a third label, 'c', after 'a' and 'b': more than two classes") as caught:
        words.meet("c")
    assert "regression" not in str(caught.value)


@pytest.mark.parametrize("classes", [None, [-1, 1], [0, 1], [False, True]])
def test_a_model_of_0_and_1_takes_minus_1_too_but_not_both(classes):
    labels = BinaryLabels.known(classes)
    assert [labels.is_positive(label) for label in (0, -1, 1, "1", True)] == [False, False, True, True, True]
    labels.meet(-1, [1.0])
    with pytest.raises(BadLabel, match="mixed"):
        labels.meet(0, [-1.0])
    with pytest.raises(BadLabel, match="label 2 was never seen in training; the labels there are"):
        labels.meet(2)


def test_a_model_that_knew_one_label_takes_another_and_keeps_its_meaning():
    for known, positive in (("yes", "yes"), ("no", "other")):
        labels = BinaryLabels.known([known])
        labels.meet("other")
        assert labels.positive == positive


def test_codes_of_a_converted_file_mean_the_same_only_with_the_same_labels():
    labels = BinaryLabels.known(["no", "yes"])
    assert labels.matches(["no", "yes"])
    assert labels.matches(["yes"])
    assert not labels.matches(["yes", "no"])
    assert not labels.matches(None)
    assert BinaryLabels.known(None).matches([-1, 1])
    assert not BinaryLabels.known(None).matches([1, 2])


@pytest.mark.parametrize("found", [[1, 1], [1, "a"], [], "ab", [None, 1], [1, 2, 3], [True, 1]])
def test_what_no_file_stores_as_labels(found):
    assert not are_classes(found)


@pytest.mark.parametrize("word", ["1_0", "0x1", "\u0661", "nan", "inf", "1e999", ""])
def test_words_that_are_no_decimal_number_stay_words(word):
    assert key_of(word) == word
    assert key_of(" 1e3 ") == 1000
