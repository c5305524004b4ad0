"""Every method a recipe can name, one class each. To add one, write its class and name it here."""

from collections.abc import Mapping
from types import MappingProxyType

from prune_gui.pruning.methods.base import Amount, Content, Decision, Method, ScoredMethod, Target
from prune_gui.pruning.methods.given import CustomFromMask, Identity
from prune_gui.pruning.methods.structured import LnStructured, RandomStructured
from prune_gui.pruning.methods.unstructured import L1Unstructured, RandomUnstructured

__all__ = ["METHODS", "Amount", "Content", "Decision", "Method", "ScoredMethod", "Target"]

METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {
        method.name: method
        for method in (
            L1Unstructured,
            LnStructured,
            RandomUnstructured,
            RandomStructured,
            CustomFromMask,
            Identity,
        )
    }
)
"""By their names in recipes, in the order in which the window offers them."""
