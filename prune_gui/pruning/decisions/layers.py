"""The decision of `Layers`."""

from prune_gui.pruning.decisions.listed_or_ranked import decide

__all__ = ["decide"]
