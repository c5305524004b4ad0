"""Which number of an evaluation counts, and how it compares with the dense one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prune_gui.errors import EvaluationError

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Metric:
    """The number of an evaluation that counts.

    Attributes:
        name: its name in the result; None for the only one, or the first of several.
        better: which values are better; None if the name decides.
        shown_name: how it is called; None for its own name.
    """

    name: str | None = None
    better: Literal["higher", "lower"] | None = None
    shown_name: str | None = None

    def name_in(self, evaluation: Evaluation) -> str:
        """Return the name of the number that counts."""
        from prune_gui.evaluation.metrics import chosen  # slow to import

        try:
            return chosen(evaluation.metrics, self.name)
        except EvaluationError:
            return self.name or next(iter(evaluation.metrics))

    def title(self, evaluation: Evaluation) -> str:
        """Return how the number that counts is called."""
        return self.shown_name or self.name_in(evaluation)

    def value(self, evaluation: Evaluation | None) -> float:
        """Return the number that counts; NaN if there is none."""
        if evaluation is None:
            return math.nan
        return evaluation.metrics.get(self.name_in(evaluation), math.nan)

    def higher_is_better(self, evaluation: Evaluation) -> bool:
        """Return whether higher values are better."""
        from prune_gui.evaluation.metrics import is_higher_better  # slow to import

        if self.better is not None:
            return self.better == "higher"
        return is_higher_better(self.name_in(evaluation))


def share_of(value: float, dense: float) -> float:
    """Return a value as a share of the dense one; NaN if that is zero or not finite."""
    return value / dense if dense and math.isfinite(dense) else math.nan
