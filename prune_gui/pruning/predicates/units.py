"""Predicates that prune the slices of whole units of coupled groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import tr
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates.base import ElementRank, Predicate
from prune_gui.pruning.predicates.channels import ChannelCut, PrunedUnits


@dataclass(frozen=True, slots=True, eq=False)
class UnitSlices:
    """The channels of the units of a group along one dimension of a tensor.

    Attributes:
        label: the name of the group.
        units: which units are pruned, and their scores.
        offset: the first channel of the first unit.
        width: number of channels of each unit.
        owner: the unit that all channels of the tensor belong to; None if they are divided.
    """

    label: str
    units: PrunedUnits
    offset: int
    width: int
    owner: int | None = None

    def mark_pruned(self, channels: NDArray[np.bool_]) -> None:
        """Set the channels of pruned units in a bool array of all channels of the tensor."""
        if self.owner is not None:
            channels |= self.units.pruned[self.owner]
            return
        stop = self.offset + self.width * len(self.units.pruned)
        channels[self.offset : stop] |= np.repeat(self.units.pruned, self.width)

    def describe(self, unit: int) -> str:
        """Return the name of a unit, and where its score is from if that is a file."""
        if self.units.source:
            return tr(
                "unit {number:,} of {group}, score from {file}",
                number=unit,
                group=self.label,
                file=self.units.source,
            )
        return tr("unit {number:,} of {group}", number=unit, group=self.label)

    def unit_of(self, channel: int) -> int | None:
        """Return the unit of a channel; None if the channel belongs to none."""
        if self.owner is not None:
            return self.owner
        unit, inside = divmod(channel - self.offset, self.width)
        return unit if 0 <= unit < len(self.units.pruned) and inside >= 0 else None


@dataclass(frozen=True, slots=True, eq=False)
class UnitCut(ChannelCut):
    """Prunes the channels that belong to pruned units along one dimension.

    Attributes:
        slices: the units of the channels, of one or several groups.
    """

    slices: tuple[UnitSlices, ...]

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        dim: int,
        slices: Sequence[UnitSlices],
        remaining: NDArray[np.int64],
    ) -> UnitCut:
        """Return the predicate for the slices of a tensor.

        Args:
            shape: of the tensor.
            dim: in [0, len(shape)).
            slices: the units along `dim`.
            remaining: int64 (channels,), number of remaining elements of each channel.
        """
        pruned = np.zeros(shape[dim], np.bool_)
        for one in slices:
            one.mark_pruned(pruned)
        chosen = Lazy.of_value(PrunedUnits(pruned, None, remaining))
        return cls(shape, dim, chosen, tuple(slices))

    @property
    def has_scores(self) -> bool:
        """Whether a step ranked the units."""
        return any(one.units.ranks is not None for one in self.slices)

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank of the unit of the element at a flat index."""
        channel = flat // self._inner % self.shape[self.dim]
        for one in self.slices:
            unit = one.unit_of(channel)
            if unit is not None:
                return one.units.element_rank(unit, one.describe(unit))
        return ElementRank(False, tr("channel {number}", number=channel))


@dataclass(frozen=True, slots=True, eq=False)
class AnyCut(Predicate):
    """Prunes what at least one of several predicates prunes.

    Attributes:
        cuts: the predicates; at least one.
    """

    cuts: tuple[UnitCut, ...]

    @property
    def note(self) -> str:
        """The scores are known when the step is resolved; there is nothing to add."""
        return ""

    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set the codes of pruned elements to `step`, where they are 0."""
        for cut in self.cuts:
            cut.mark(start, step, codes)

    def element_rank(self, flat: int) -> ElementRank:
        """Return the rank in the first predicate that prunes the element, else in the first."""
        ranks = [cut.element_rank(flat) for cut in self.cuts]
        return next((rank for rank in ranks if rank.pruned), ranks[0])
