"""What every predicate can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Standing:
    """How an entry, or the channel or block it belongs to, stood when a step ranked it.

    Attributes:
        pruned: whether the step prunes it.
        unit: what was ranked: "entry", "channel 3", "block (0, 2)", ...
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


class Predicate(Protocol):
    """Which entries of one parameter a step prunes, whatever other steps did to them."""

    @property
    def note(self) -> str:
        """What a person should know about the scores, as far as they have been looked at."""

    def prunes(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return a boolean array over the flat (row-major) entries [start, stop)."""

    def standing(self, flat: int) -> Standing:
        """Return how the entry of that flat index stood."""
