"""Pruning of what remains of units without effect."""

from __future__ import annotations

import pytest
import torch
from coupled_groups import decide, groups_of, tensors_of, units_of
from hypothesis import given
from hypothesis import strategies as st

SIZE = 8
units = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).map(torch.tensor)


def masks_of(up, bias, down):
    """Return masks of a group, given which units each tensor keeps."""
    return {
        "0.up": up[:, None].repeat(1, 6),
        "0.up_bias": bias,
        "0.down": down.repeat(6, 1),
    }


def forward(tensors, masks, x):
    kept = {name: tensor * masks[name] for name, tensor in tensors.items()}
    return torch.relu(x @ kept["0.up"].T + kept["0.up_bias"]) @ kept["0.down"].T


@given(units, units, units)
def test_the_outputs_stay_as_they_are_and_all_units_without_effect_go(up, bias, down):
    tensors, groups = tensors_of([SIZE]), groups_of([SIZE])
    masks = masks_of(up, bias, down)
    pruned = decide(tensors, groups, "dead_units", masks=masks)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    left = {name: mask & ~pruned[name] for name, mask in masks.items()}
    assert torch.equal(forward(tensors, left, x), forward(tensors, masks, x))
    assert torch.equal(units_of(pruned, 0), ~down | ~(up | bias))


@pytest.mark.parametrize("fold", [True, False])
def test_a_unit_that_emits_a_constant_stays_and_is_counted(fold):
    tensors, groups = tensors_of([SIZE]), groups_of([SIZE])
    every = torch.ones(SIZE, dtype=torch.bool)
    masks = masks_of(~every, every, every)
    pruned = decide(tensors, groups, "dead_units", masks=masks, fold_constants=fold)
    assert not any(mask.any() for mask in pruned.values())
    notes = decide(tensors, groups, "dead_units", masks=masks, notes=True, fold_constants=fold)
    (note,) = set(notes.values())
    constant = "8 units have no weights and emit a constant, because a bias or a norm of them"
    assert note.startswith(f"{constant} remains")
    assert ("the compact form leaves them out" in note) == fold
