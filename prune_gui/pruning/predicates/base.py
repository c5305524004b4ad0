"""What every predicate can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ElementRank:
    """How an entry, or the channel or block it belongs to, stood when a step ranked it.

    Attributes:
        pruned: whether the step prunes it.
        unit: what was ranked: "entry" where no more needs to be said, or in words for a person
            "channel 3", "block (0, 2)", ...
        score: that it was ranked by; None if it was not ranked by a number.
        cut: the score of the last unit that goes; None if none goes, or likewise.
        rank: how many units of the parameter go before it, those pruned earlier left out.
        ranked: how many units of the parameter there were.
    """

    pruned: bool
    unit: str = "entry"
    score: float | None = None
    cut: float | None = None
    rank: int | None = None
    ranked: int | None = None

    @property
    def margin(self) -> float | None:
        """How far the score lies above the cut; at most 0 where pruned."""
        return None if self.score is None or self.cut is None else self.score - self.cut


class Predicate(ABC):
    """Which entries of one parameter a step prunes, whatever other steps did to them."""

    __slots__ = ()

    @property
    @abstractmethod
    def note(self) -> str:
        """What a person should know about the scores, as far as they have been looked at."""

    @abstractmethod
    def mark(self, start: int, step: int, codes: NDArray[np.uint8]) -> None:
        """Set to `step` those codes that are 0 and whose entry goes.

        Args:
            start: flat (row-major) index of the first code's entry.
            step: any code but 0.
            codes: of consecutive entries.
        """

    @staticmethod
    def mark_each(
        every: Sequence[Any], bounds: NDArray[np.int64], step: int, codes: NDArray[np.uint8]
    ) -> None:
        """Do as `mark` for whole parameters, one after the other.

        Args:
            every: one predicate for each, of one class.
            bounds: where each parameter begins, and where the last one ends.
            step: any code but 0.
            codes: of all entries.
        """
        for predicate, start, stop in zip(every, bounds, bounds[1:], strict=False):
            predicate.mark(0, step, codes[start:stop])

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat entries [start, stop)."""
        codes = np.zeros(stop - start, np.uint8)
        self.mark(start, 1, codes)
        return codes.view(np.bool_)

    @abstractmethod
    def element_rank(self, flat: int) -> ElementRank:
        """Return how the entry of that flat index stood."""
