"""Spaces of which programs load fewer units only together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.tables import SpaceRule
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.compaction.rules import held_spaces

RULES = {
    "heads": SpaceRule(title="heads", loadable_with=("hidden",)),
    "hidden": SpaceRule(title="hidden channels", loadable_with=("heads",)),
    "ffn": SpaceRule(title="neurons"),
}


def units(space, size, gone):
    return CoupledGroup(space, "g", size, ()), np.arange(size) < gone


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(0, 11), st.integers(0, 4))
def test_shares_that_differ_hold_the_spaces_that_lose_units(heads, hidden, neurons):
    groups = [units("heads", 4, gone) for gone in heads]
    groups += [units("hidden", 12, hidden), units("ffn", 5, neurons)]
    expected = set()
    if any(gone * 3 != hidden for gone in heads):
        expected |= {"heads"} if any(heads) else set()
        expected |= {"hidden"} if hidden else set()
    assert held_spaces(RULES, groups).keys() == expected


def test_a_space_that_is_missing_or_masked_keeps_its_units():
    problems = held_spaces(RULES, [units("heads", 4, 1)])
    assert "heads: programs load fewer only with the same share of the hidden" in problems["heads"]


def test_groups_of_removed_layers_do_not_count():
    groups = [units("heads", 4, 4), units("heads", 4, 1), units("hidden", 12, 3)]
    assert not held_spaces(RULES, groups)


def test_units_that_depend_on_an_unknown_space_can_only_be_masked():
    problems = held_spaces({"heads": RULES["heads"]}, [units("heads", 4, 1)])
    assert problems["heads"].startswith("heads: no known program loads fewer.")
