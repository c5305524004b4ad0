"""Steps that prune manually selected channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.pruning.methods.channels import Channels
from prune_gui.pruning.methods.structured import ChannelMethod

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.recipe import Step


def listed(channels: frozenset[int], dim: int, name: str, bench: Workbench) -> Step:
    """Return the step that prunes some channels of one parameter along `dim`; at least one."""
    from prune_gui.recipe import Step, patterns_for

    assert bench.session is not None
    targets = patterns_for([name], bench.session.checkpoint.tensors.values())
    return Step(method=Channels(channels=tuple(sorted(channels)), dim=dim), targets=targets)


def drafted_channels(bench: Workbench, dim: int) -> frozenset[int] | None:
    """Return the channels of the chosen parameter that the draft prunes along `dim`.

    None if the draft does not prune channels along `dim`, has other targets, or is not resolved.
    """
    draft, resolved, name = bench.draft.current, bench.resolved, bench.chosen
    if draft is None or resolved is None or name is None:
        return None
    method = draft.step.method
    if isinstance(method, Channels):
        channels = frozenset(method.channels)
        return channels if draft.step == listed(channels, dim, name, bench) else None
    if not isinstance(method, ChannelMethod) or resolved.draft != draft or not resolved.preview:
        return None
    outcome = resolved.preview.outcomes[(resolved.draft_number or 0) - 1]
    if list(outcome.pruned) != [name]:
        return None
    from prune_gui.pruning.predicates import ChannelCut

    predicate = outcome.predicates.get(name)
    if not isinstance(predicate, ChannelCut) or predicate.dim != dim:
        return None
    return frozenset(predicate.chosen().pruned.nonzero()[0].tolist())
