"""The methods of recipes, one class each: its parameters, and what it decides to prune."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from prune_gui.errors import PluginError
from prune_gui.language import tr
from prune_gui.pruning.methods.base import (
    LAMP_KINDS,
    AllocatedMethod,
    Method,
    ScoredMethod,
    ScoreKind,
    summary_of,
)
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.methods.channels import Channels
from prune_gui.pruning.methods.correction import BatchNormStatistics, BiasCorrection, Refit
from prune_gui.pruning.methods.coupled import Coupled, DeadUnits
from prune_gui.pruning.methods.custom_mask import CustomFromMaskMethod, IdentityMethod
from prune_gui.pruning.methods.layer_adaptive import Balanced, Erk, Lamp
from prune_gui.pruning.methods.listed_units import Experts, Layers, ListedUnits, Tokens
from prune_gui.pruning.methods.n_m import NM
from prune_gui.pruning.methods.structured import LnStructuredMethod, RandomStructuredMethod
from prune_gui.pruning.methods.threshold import Threshold
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod, RandomUnstructuredMethod

__all__ = [
    "LAMP_KINDS",
    "METHODS",
    "AllocatedMethod",
    "Method",
    "ScoreKind",
    "ScoredMethod",
    "register",
    "summary_of",
]

_methods: dict[str, type[Method]] = {
    method.name: method
    for method in (
        L1UnstructuredMethod,
        LnStructuredMethod,
        Lamp,
        Balanced,
        Erk,
        Threshold,
        NM,
        Block,
        Channels,
        Coupled,
        Layers,
        Experts,
        ListedUnits,
        Tokens,
        DeadUnits,
        RandomUnstructuredMethod,
        RandomStructuredMethod,
        CustomFromMaskMethod,
        IdentityMethod,
        Refit,
        BiasCorrection,
        BatchNormStatistics,
    )
}
METHODS: Mapping[str, type[Method]] = MappingProxyType(_methods)
"""The methods by their names in recipes, in the order of the window's list."""


def register(methods: Sequence[type[Method]]) -> None:
    """Add the methods of a plug-in, in place of earlier ones from the same source.

    `PluginError` is raised if a method has the name of another method; nothing is changed.
    """
    added: dict[str, type[Method]] = {}
    for method in methods:
        other = added.get(method.name) or _methods.get(method.name, method)
        if method.name in added or other.source != method.source:
            raise PluginError(
                "{source}: the name {name} is already in use ({other}). Give the class another "
                "name, and load it again.",
                source=method.source,
                name=method.name,
                other=tr(other.source),
            )
        added[method.name] = method
    sources = {method.source for method in methods}
    for name, method in list(_methods.items()):
        if method.source in sources and name not in added:
            del _methods[name]
    _methods.update(added)  # not cleared first: concurrent readers find the unchanged methods
