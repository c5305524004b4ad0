"""Non-finite values rank as the largest, NaN above infinity."""

from __future__ import annotations

import math

import pytest
import torch
from targets import target

from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS

ROWS = torch.tensor([[math.nan, 1], [5, 7], [-math.inf, 2], [9, 8]])
"""Every method prunes row 1 first, then rows 3, 2 and 0."""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1_unstructured", {}),
        ("lamp", {}),
        ("ln_structured", {"dim": 0}),
        ("block", {"height": 1, "width": 2}),
    ],
)
def test_nan_is_pruned_last_and_infinity_before_it(method, parameters, dtype):
    weights = ROWS.to(dtype)
    if method in ("l1_unstructured", "lamp"):
        weights = weights[:, :1].contiguous()
    gone: list[int] = []
    for amount in range(1, 5):
        model = METHODS[method].model_validate({"amount": amount, **parameters})
        [decision] = model.decide([target(weights)], Monitor())
        assert decision.predicate is not None
        pruned = decision.predicate.prunes(0, weights.numel()).reshape(weights.shape)[:, 0]
        [new] = set(pruned.nonzero()[0].tolist()) - set(gone)
        gone.append(new)
    assert gone == [1, 3, 2, 0]
