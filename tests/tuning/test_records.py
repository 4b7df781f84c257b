"""The frontier is what brute force finds."""

from hypothesis import given
from hypothesis import strategies as st

from rafm.charts import Axis, Series, chart
from rafm.tuning.records import Record, frontier

TRIALS = st.lists(st.tuples(st.integers(1, 5), st.none() | st.integers(0, 5), st.booleans()), max_size=12)


def records_of(drawn):
    """Return records of (parameters, value, whether complete)."""
    return [Record(n, "complete" if is_complete else "pruned", v, p) for n, (p, v, is_complete) in enumerate(drawn, 1)]


def is_beaten(record, others, sign):
    """Tell whether another trial is as small and as good, and better in one of both or earlier."""
    own = (record.parameters, sign * record.value)
    for other in others:
        theirs = (other.parameters, sign * other.value)
        as_good = theirs[0] <= own[0] and theirs[1] <= own[1]
        if as_good and (theirs != own or other.number < record.number):
            return True
    return False


@given(TRIALS)
def test_the_frontier_has_the_trials_that_no_other_one_beats(drawn):
    for metric, sign in (("log_loss", 1), ("auc", -1)):
        complete = [record for record in records_of(drawn) if record.state == "complete" and record.value is not None]
        wanted = [record for record in complete if not is_beaten(record, complete, sign)]
        found = frontier(records_of(drawn), metric)
        assert found == sorted(wanted, key=lambda record: record.parameters)


def test_names_in_a_chart_are_inert():
    found = chart(
        "<script>alert(1)</script>", Axis('"x"'), Axis("<y>"), [Series("<b>", [1], [2], "marks", labels=["<i>"])]
    )
    assert "<script" not in found
    assert "<b>" not in found
    assert "<i>" not in found
    assert "<y>" not in found
