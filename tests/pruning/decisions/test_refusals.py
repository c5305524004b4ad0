"""Targets to which a method is not applicable: the message names them, and is translated."""

from __future__ import annotations

import math

import pytest
import torch
from targets import decide, target

from prune_gui.errors import RecipeError

NAME = "layer.weight"
REFUSALS = [
    ("l1_unstructured", (7,), {"amount": 8}, "layer.weight: .*8 units: only 7 remain"),
    ("l1_unstructured", (5,), {"amount": 6, "scope": "global"}, "All targets.*6.*5"),
    ("l1_unstructured", (3, 4), {"amount": 5, "scope": "row"}, "row of layer.weight.*5.*4"),
    ("lamp", (5,), {"amount": 6}, "All targets.*6.*5"),
    ("erk", (5,), {"amount": 6}, "All targets.*6.*5"),
    ("ln_structured", (), {}, r"shape \[\].*two dimensions"),
    ("ln_structured", (4,), {}, r"shape \[4\].*two dimensions"),
    ("ln_structured", (4, 3), {"amount": 5}, "channels along dimension 0.*5.*4"),
    ("ln_structured", (4, 3), {"dim": 2}, "2 dimensions; dim 2 does not exist. Use -2 to 1"),
    ("ln_structured", (4, 3), {"dim": -3}, "dim -3 does not exist"),
    ("ln_structured", (4, 3), {"n": math.nan, "scope": "global"}, "layer.weight: n=nan"),
    ("ln_structured", (3, 4, 2, 2), {"n": "nuc"}, "4 dimensions; n='nuc' needs 3"),
    ("ln_structured", (3, 4, 4), {"n": "nuc", "scope": "global"}, "scope local"),
    ("channels", (), {"channels": [0]}, "Leave it out"),
    ("channels", (4, 3), {"channels": [1, 4]}, "has 4 channels.*channel 4.*0 to 3"),
    ("channels", (4, 3), {"channels": [3], "dim": 1}, "has 3 channels.*channel 3.*0 to 2"),
    ("channels", (4, 3), {"channels": [0], "dim": 2}, "dim 2 .*-2 to 1"),
    ("n_m", (), {}, "Leave it out"),
    ("n_m", (8,), {}, "dim 1 .*-1 to 0"),
    ("n_m", (4, 6), {}, "6 elements.*groups of 4.*keep"),
    ("n_m", (6, 4), {"dim": 0, "flatten": False}, "6 elements.*groups of 4.*keep"),
    ("block", (), {}, r"shape \[\].*two dimensions"),
    ("block", (8,), {}, r"shape \[8\].*two dimensions"),
    ("block", (6, 8), {}, "is 6 x 8.*4 x 4.*keep"),
    ("block", (8, 2, 3), {}, "is 8 x 6.*4 x 4.*keep"),
    ("block", (8, 8), {"amount": 5}, "blocks of 4 x 4.*5.*4 remain"),
    ("block", (8, 8), {"n": math.nan, "scope": "global"}, "layer.weight: n=nan"),
    ("block", (3, 3), {"amount": 1, "tail": "keep"}, "0 remain"),
    ("threshold", (1,), {"value": 1, "relative_to": "std"}, "layer.weight.*absolute"),
    ("custom_from_mask", (2,), {"mask": "masks"}, "masks: the mask of layer.weight"),
]
refusals = pytest.mark.parametrize(("method", "shape", "parameters", "says"), REFUSALS)


def refusal(method, shape, parameters):
    given = target(torch.ones(shape), NAME, masks=torch.full(shape, 0.5))
    with pytest.raises(RecipeError) as caught:
        decide(method, given, **parameters)
    return caught


@refusals
def test_the_message_names_the_target_and_the_reason(method, shape, parameters, says):
    refusal(method, shape, parameters).match(says)


@pytest.mark.parametrize("values", [[1.0, math.nan], [1e200, -1e200]])
def test_nan_and_huge_weights_have_no_standard_deviation(values):
    given = target(torch.tensor(values, dtype=torch.float64), NAME)
    with pytest.raises(RecipeError, match=r"layer\.weight.*absolute"):
        decide("threshold", given, value=1, relative_to="std")
