"""Steps that prune channels which the user selected by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.pruning.methods.channels import Channels
from prune_gui.recipe import Step, patterns_for

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Outcome


def listed(channels: frozenset[int], dim: int, name: str, checkpoint: Checkpoint) -> Step:
    """Return the step that prunes some channels of one parameter along `dim`; at least one."""
    targets = patterns_for([name], checkpoint.tensors.values())
    return Step(method=Channels(channels=tuple(sorted(channels)), dim=dim), targets=targets)


def drafted_channels(
    draft: Step, outcome: Outcome | None, dim: int, name: str, checkpoint: Checkpoint
) -> frozenset[int] | None:
    """Return the channels of a parameter that a draft prunes along `dim`.

    None if the draft does not prune channels along `dim`, has other targets, or is not resolved.

    Args:
        draft: the draft.
        outcome: its outcome; None if it is not resolved.
        dim: the dimension of the channels, not negative.
        name: name of the parameter.
        checkpoint: the open checkpoint.
    """
    method = draft.method
    if method.listed_channels is not None:
        channels = frozenset(method.listed_channels)
        return channels if draft == listed(channels, dim, name, checkpoint) else None
    if outcome is None or list(outcome.pruned) != [name]:
        return None
    from prune_gui.pruning.predicates import ChannelCut  # torch: slow to import

    predicate = outcome.predicates.get(name)
    if not isinstance(predicate, ChannelCut) or predicate.dim != dim:
        return None
    return frozenset(predicate.chosen().pruned.nonzero()[0].tolist())
