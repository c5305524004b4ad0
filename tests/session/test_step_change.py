"""What an edit changed in a step, in words."""

from __future__ import annotations

import pytest

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session.history import describe_change


def step(method="l1_unstructured", targets=("*",), **parameters):
    return Step(method=METHODS[method](**parameters), targets=targets)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (step(amount=0.6), step(amount=0.7), "60 % → 70 %"),
        (step(amount=1.0), step(amount=1), "100 % → 1 weight"),
        (step(), step(), ""),
        (step(), step("lamp"), "L1 unstructured → LAMP"),
        (step(), step(targets=("a", "b")), "other targets"),
        (step(), step(scope="row", amount_of="total"), "local → row, remaining units → of all"),
        (step("n_m"), step("n_m", n=1), "2:4 → 1:4"),
        (step(), step(importance="/folder/scores.pt"), "none → scores.pt"),
        (
            step(),
            step(amount=0.1, scope="global", max_sparsity=0.9),
            "50 % → 10 %, local → global and 1 more",
        ),
    ],
)
def test_the_change_is_named(before, after, change):
    assert describe_change(before, after) == change
