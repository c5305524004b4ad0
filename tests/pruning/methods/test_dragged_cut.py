"""How a dragged cut becomes the setting of a method."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.base import UnitCounts


@dataclass
class Cut:
    """A cut through 100 elements of weights 1 to 100, 20 of them pruned; 1000 in all targets."""

    ranks_weights: bool = True
    deviation: float = 2.0

    def up_to_weight(self, weight):
        return UnitCounts(int(weight), 80, 100) if self.ranks_weights else None

    def up_to_score(self, score):
        return UnitCounts(int(1000 * score), 800, 1000)

    def own_up_to_weight(self, weight):
        return self.up_to_weight(weight)

    def of_targets(self):
        return UnitCounts(0, 800, 1000)

    def own_pruned_with(self, **fields):
        assert fields["amount_of"] == "remaining"
        return fields["amount"] // 10 if fields["amount"] <= 800 else None

    def score_of(self, weight):
        return weight / 1000 if self.ranks_weights else None

    def standard_deviation(self):
        return self.deviation


@pytest.mark.parametrize(
    ("parameters", "amount"),
    [
        ({"amount": 0.5}, 0.25),
        ({"amount": 0.5, "amount_of": "total"}, 0.2),
        ({"amount": 0.5, "amount_of": "reach"}, 0.4),
        ({"amount": 7}, 20),
        ({"amount": 7, "amount_of": "reach"}, 40),
    ],
)
def test_the_amount_keeps_its_kind_and_its_base(parameters, amount):
    method = METHODS["l1_unstructured"](**parameters)
    setting = method.setting_for_weight(Cut(), 20.0)
    assert setting == ("amount", amount)
    assert type(setting[1]) is type(method.amount)


def test_a_share_of_nothing_is_zero():
    assert METHODS["erk"]().amount_for(UnitCounts(0, 0, 0)) == 0.0


@pytest.mark.parametrize("name", ["l1_unstructured", "lamp", "erk"])
def test_there_is_no_setting_if_the_draft_ranks_no_weights(name):
    assert METHODS[name]().setting_for_weight(Cut(ranks_weights=False), 20.0) is None


def test_a_lamp_cut_is_at_the_score_of_the_weight():
    lamp = METHODS["lamp"]()
    assert lamp.setting_for_weight(Cut(), 20.0) == lamp.setting_for_score(Cut(), 0.02)
    assert lamp.setting_for_weight(Cut(), 20.0) == ("amount", 20 / 800)


@pytest.mark.parametrize(("amount", "expected"), [(0.5, 209 / 800), (5, 209)])
def test_an_erk_amount_is_the_largest_that_prunes_no_more_of_the_target(amount, expected):
    erk = METHODS["erk"](amount=amount)
    assert erk.setting_for_weight(Cut(), 20.0) == ("amount", expected)


def test_a_threshold_is_the_score_itself_or_its_number_of_standard_deviations():
    absolute = METHODS["threshold"](value=1)
    relative = METHODS["threshold"](value=1, relative_to="std")
    for setting in (absolute.setting_for_weight, absolute.setting_for_score):
        assert setting(Cut(), 0.12345678) == ("value", 0.123457)
    for setting in (relative.setting_for_weight, relative.setting_for_score):
        assert setting(Cut(), 0.5) == ("value", 0.25)
    assert relative.setting_for_weight(Cut(deviation=0.0), 0.5) == ("value", 0.5)
