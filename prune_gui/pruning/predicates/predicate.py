"""The interface of all predicates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prune_gui.pruning.arrays import Codes, Flags, Ints
from prune_gui.pruning.lazy import Lazy


@dataclass(frozen=True, slots=True)
class ElementRank:
    """The score, cut and rank of one element in one step, or those of its channel or block."""

    pruned: bool
    unit: str = "entry"  # or a translated description such as "channel 3"
    score: float | None = None
    cut: float | None = None  # the highest score that is pruned
    rank: int | None = None  # how many of the ranked units are pruned before this one
    ranked: int | None = None
    factors: tuple[float, float] | None = None  # see `RowColumnScores`

    @property
    def margin(self) -> float | None:
        """The score minus the cut; at most 0 where pruned."""
        return None if self.score is None or self.cut is None else self.score - self.cut


class Predicate(ABC):
    """The elements of one parameter that a step prunes, independent of other steps' masks."""

    __slots__ = ()

    @property
    def lazy(self) -> Lazy[Any] | None:
        """The value that `note` depends on, computed on first use; None if `note` is constant."""
        return None

    @property
    def note(self) -> str:
        """A message for the user about the scores computed so far; "" for none."""
        count = self.lazy().non_finite if self.lazy is not None and self.lazy.is_computed else 0
        return self._note(count) if count else ""

    def _note(self, non_finite: int) -> str:
        raise NotImplementedError

    @abstractmethod
    def mark(self, start: int, step: int, codes: Codes) -> None:
        """Set the codes of pruned elements to `step`, where they are 0, from a flat index on."""

    @staticmethod
    def mark_each(every: Sequence[Any], bounds: Ints, step: int, codes: Codes) -> None:
        """Apply `mark` to whole concatenated parameters; `bounds` as in `selection.batched`."""
        for predicate, start, stop in zip(every, bounds, bounds[1:], strict=False):
            predicate.mark(0, step, codes[start:stop])

    def prunes(self, start: int, stop: int) -> Flags:
        """Return a boolean array over the flat indices [start, stop), True where pruned."""
        codes = np.zeros(stop - start, np.uint8)
        self.mark(start, 1, codes)
        return codes.view(np.bool_)

    def covers(self, other: Predicate) -> bool:
        """Return whether this is known to hold for every element for which `other` holds."""
        return False

    def element_rank(self, flat: int) -> ElementRank:
        """Return the score, cut and rank of the element at a flat index, if it has some."""
        return ElementRank(bool(self.prunes(flat, flat + 1)[0]))
