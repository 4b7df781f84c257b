"""The line that says what was trained."""

from types import SimpleNamespace

import pytest

from rafm.model.describe import model_line
from rafm.plan.ranks import RankPlan


@pytest.mark.parametrize(
    ("plan", "optimizer", "expected"),
    [
        (RankPlan("lr", (), (100, 0)), "adagrad", "by adagrad, linear: 101 parameters"),
        (RankPlan("fm", (9,), (100, 100, 0)), "gibbs", "sampled, rank 9: 1,001 parameters, a plain FM"),
        (
            RankPlan("difacto", (4, 9), (100, 10, 5, 0)),
            "gibbs",
            "sampled, ranks 0 to 9: 166 parameters, 16.6 % of an FM of rank 9",
        ),
        (
            RankPlan("rafm", (4, 9), (100, 100, 5, 0)),
            None,
            "rafm, ranks 4 to 9: 546 parameters, 54.5 % of an FM of rank 9",
        ),
    ],
    ids=str,
)
def test_one_line_says_how_a_model_was_trained_and_compares_its_size_with_a_plain_fm(plan, optimizer, expected):
    assert (
        model_line(SimpleNamespace(plan=plan, n_parameters=plan.n_parameters, options={"optimizer": optimizer}))
        == expected
    )
