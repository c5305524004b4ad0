"""The zeros that the parameters of a checkpoint have in the file, as far as they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from prune_gui.audit.statistics.zero_patterns import ZeroPatterns
from prune_gui.language import tr
from prune_gui.number_formats import sparsity

NOTICEABLE_SHARE: Final = 0.01
"""Zeros are noticeable from this share of the file, or of a parameter with two dims, on."""

Counts = Mapping[str, tuple[int, int]]
"""(pruned elements, all elements) by parameter name, as in `Resolution.counts`."""


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

    def unpruned(self, in_file: Counts) -> dict[str, int]:
        """Return the zeros that do not count as pruned, by name; parameters without are left out.

        Args:
            in_file: the counts before the first step of the recipe.
        """
        left = {name: zeros - in_file[name][0] for name, zeros in self.counts.items() if zeros}
        return {name: zeros for name, zeros in left.items() if zeros > 0}

    def is_noticeable(self, in_file: Counts) -> bool:
        """Return whether enough zeros do not count as pruned to tell the user; see `unpruned`."""
        left = self.unpruned(in_file)
        return sum(left.values()) >= NOTICEABLE_SHARE * max(1, self.elements) or any(
            zeros >= NOTICEABLE_SHARE * in_file[name][1]
            for name, zeros in left.items()
            if name in self.patterns
        )

    def describe(self, name: str) -> str:
        """Return the patterns in the zeros of a parameter as a list for the user, or ""."""
        found = self.patterns.get(name)
        return found.describe() if found is not None else ""


def zeros_text(file_zeros: FileZeros, zeros: int) -> str:
    """Return how many zeros do not count as pruned, without a full stop.

    Args:
        file_zeros: the zeros of the file, which may not be complete.
        zeros: number of those that do not count as pruned; see `FileZeros.unpruned`.
    """
    share = sparsity(zeros, file_zeros.elements)
    if file_zeros.is_complete:
        return tr("{share} of the file is zero", share=share)
    read = 100 * file_zeros.done / file_zeros.total
    return tr("{share} of the weights read is zero ({read:.0f} % read)", share=share, read=read)
