"""Small coupled groups, and what methods prune of them."""

from __future__ import annotations

import numpy as np
import torch
from targets import target

from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.methods import METHODS

HIDDEN = 6


def tensors_of(group_sizes, seed=0, width=1):
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for i, size in enumerate(group_sizes):
        channels = size * width
        tensors[f"{i}.up"] = torch.randn(channels, HIDDEN, generator=generator)
        tensors[f"{i}.up_bias"] = torch.randn(channels, generator=generator)
        tensors[f"{i}.down"] = torch.randn(HIDDEN, channels, generator=generator)
    return tensors


def groups_of(group_sizes, width=1):
    return [
        CoupledGroup(
            "ffn",
            f"layer {i}",
            size,
            (
                Member(f"{i}.up", 0, 0, width),
                Member(f"{i}.up_bias", 0, 0, width, "bias"),
                Member(f"{i}.down", 1, 0, width, "consumes"),
            ),
        )
        for i, size in enumerate(group_sizes)
    ]


def targets_of(tensors, masks):
    masks = {key: mask.numpy() for key, mask in (masks or {}).items()}
    return {key: target(tensor, key, masks.get(key)) for key, tensor in tensors.items()}


def decisions_of(tensors, groups, name="coupled", masks=None, given=(), **parameters):
    """Return the decisions by tensor.

    `given` are the scores of the groups in a file, which the parameters name.
    """
    targets = list(targets_of(tensors, masks).values())
    method = METHODS[name].model_validate(parameters)
    decisions = method.decide_groups(groups, targets, Monitor(), given)
    return dict(zip(tensors, decisions, strict=True))


def decide(tensors, groups, name="coupled", masks=None, given=(), **parameters):
    """Return the pruned elements by tensor, after a check of the counts."""
    decisions = decisions_of(tensors, groups, name, masks, given, **parameters)
    pruned, targets = {}, targets_of(tensors, masks)
    for key, decision in decisions.items():
        one = targets[key]
        marked = (
            np.zeros(one.size, bool)
            if decision.predicate is None
            else decision.predicate.prunes(0, one.size)
        )
        remaining = True if one.remaining_mask is None else one.remaining_mask(0, one.size)
        assert decision.pruned == (marked & remaining).sum()
        pruned[key] = torch.from_numpy(marked).view(one.shape)
    return pruned


def units_of(pruned, index, width=1):
    return pruned[f"{index}.up_bias"].view(-1, width).all(1)
