"""The decision of `Tokens`."""

from prune_gui.pruning.decisions.listed_units import decide

__all__ = ["decide"]
