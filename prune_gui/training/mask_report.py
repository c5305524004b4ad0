"""What the masks of a run look like now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MaskReport:
    """The mask of one parameter, over all processes.

    Attributes:
        name: of the parameter.
        pruned: elements that the mask prunes.
        total: all elements.
        revived: pruned elements that are not 0 now.
    """

    name: str
    pruned: int
    total: int
    revived: int

    @property
    def sparsity(self) -> float:
        """The share of pruned elements, in [0, 1]."""
        return self.pruned / self.total
