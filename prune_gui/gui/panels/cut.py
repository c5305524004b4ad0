"""From a cut that was dragged to the amount that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.pruning.methods import Method
    from prune_gui.recipe import Resolution


def amount_for_cut(
    method: Method, before: Resolution, names: tuple[str, ...], threshold: float, monitor: Monitor
) -> float:
    """Return the share with which `method` prunes the entries of at most this absolute value.

    Args:
        method: says what its amount is a share of.
        before: what earlier steps came to.
        names: the parameters that are cut as one.
        threshold: the absolute value.
        monitor: told of the work.
    """
    from prune_gui.audit.histogram import share_below

    below, remaining = share_below(before, names, threshold, monitor)
    total = sum(before.counts[name][1] for name in names)
    match getattr(method, "amount_of", "remaining"):
        case "total":
            return below / total
        case "reach":
            return (total - remaining + below) / total
    return below / remaining if remaining else 0.0
