"""The zeros that the parameters of a checkpoint have in the file, as far as they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from prune_gui.language import tr
from prune_gui.number_formats import sparsity
from prune_gui.statistics.zero_patterns import ZeroPatterns

NOTICEABLE_SHARE: Final = 0.01
"""Zeros are noticeable from this share of the file, or of a parameter with two dims, on."""

Counts = Mapping[str, tuple[int, int]]
"""(pruned elements, all elements) by parameter name, as in `Resolution.counts`."""
NONE: Final[Counts] = MappingProxyType({})


@dataclass(frozen=True)
class FileZeros:
    """The zeros of the prunable parameters that are counted so far. Immutable.

    Attributes:
        counts: number of zeros by parameter name. Elements that the mask of a reparametrized pair
            prunes are zeros.
        patterns: by name, the patterns of the parameters with zeros and at least two dims.
        done: bytes of the parameters that are counted.
        total: bytes of all prunable parameters.
        elements: number of elements of the parameters that are counted.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    patterns: Mapping[str, ZeroPatterns] = field(default_factory=lambda: MappingProxyType({}))
    done: int = 0
    total: int = 1
    elements: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all parameters are counted."""
        return self.done == self.total

    @cached_property
    def zeros(self) -> int:
        """Number of zeros counted so far."""
        return sum(self.counts.values())

    def noticeable(self, in_file: Counts = NONE) -> int:
        """Return the number of zeros that do not count as pruned; 0 if they are too few to mention.

        Args:
            in_file: the counts before the first step of the recipe, where everything that is pruned
                is zero; without them, no zeros count as pruned.
        """
        pruned = {name: count for name, (count, _) in in_file.items() if count}
        left = self.zeros - sum(count for name, count in pruned.items() if name in self.counts)
        is_noticeable = left >= NOTICEABLE_SHARE * max(1, self.elements) or any(
            found.zeros - pruned.get(name, 0) >= NOTICEABLE_SHARE * found.total
            for name, found in self.patterns.items()
        )
        return left if is_noticeable else 0

    def describe(self, name: str) -> str:
        """Return the patterns in the zeros of a parameter as a list for the user, or ""."""
        found = self.patterns.get(name)
        return found.describe() if found is not None else ""

    def summary(self) -> str:
        """Return the share that is zero, such as "30.1 % of the file is zero"."""
        share = sparsity(self.zeros, self.elements)
        if self.is_complete:
            return tr("{share} of the file is zero", share=share)
        read = 100 * self.done / self.total
        return tr("{share} of the weights read is zero ({read:.0f} % read)", share=share, read=read)
