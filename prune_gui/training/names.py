"""Names of parameters without what wrappers add to them."""

from __future__ import annotations

import re
from typing import Final

from torch import nn

OUTER: Final = re.compile(r"^(?:module\.|_orig_mod\.|base_model\.model\.)+")
"""DistributedDataParallel and AveragedModel, torch.compile, PEFT."""
INNER: Final = re.compile(r"\.(?:_orig_mod|_checkpoint_wrapped_module|base_layer)(?=\.)")
"""torch.compile, activation checkpoints, PEFT."""


def named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of a model by the names that they have without wrappers.

    Tied parameters have all their names.
    """
    return {
        plain_name(name): parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def plain_name(name: str) -> str:
    """Return the name of a parameter in the model that is wrapped."""
    return INNER.sub("", OUTER.sub("", name))
