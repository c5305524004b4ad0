"""The rankings that a search compares: each needs the weights only, no data and no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prune_gui.language import deferred


@dataclass(frozen=True, slots=True)
class NamedRanking:
    """A way to choose what is pruned at a sparsity; the name is translated where it is shown."""

    name: str
    fields: Mapping[str, object]  # of the step, as in a recipe, without targets and amount
    tunable: Mapping[str, object] | None = None  # the same of a method with more parameters

    def step(self, targets: Sequence[str], amount: float) -> dict[str, object]:
        """Return the fields of the step that prunes the targets up to a sparsity in [0, 1]."""
        fields = {"amount_of": "reach", **self.fields}
        return {**fields, "targets": list(targets), "amount": float(amount)}

    def for_tuning(self) -> NamedRanking:
        """Return the ranking with the fields that prune the same and have more parameters."""
        return self if self.tunable is None else NamedRanking(self.name, self.tunable)


MAGNITUDE: Final = {"method": "balanced", "row_power": 0.0, "column_power": 0.0}
"""Ranks by |w|; its parameter `over` chooses the scope."""

PORTFOLIO: Final[tuple[NamedRanking, ...]] = (
    NamedRanking(deferred("balanced, LAMP"), {"method": "balanced"}),
    NamedRanking(deferred("balanced, global"), {"method": "balanced", "over": "global"}),
    NamedRanking(deferred("RIA, LAMP"), {"method": "lamp", "score": "ria"}),
    NamedRanking(
        deferred("RIA, global"), {"method": "l1_unstructured", "scope": "global", "score": "ria"}
    ),
    NamedRanking(
        deferred("global L1"),
        {"method": "l1_unstructured", "scope": "global"},
        MAGNITUDE | {"over": "global"},
    ),
    NamedRanking(
        deferred("uniform L1"),
        {"method": "l1_unstructured", "scope": "local"},
        MAGNITUDE | {"over": "local"},
    ),
    NamedRanking(deferred("LAMP"), {"method": "lamp"}, MAGNITUDE | {"over": "lamp"}),
    NamedRanking(deferred("ERK"), {"method": "erk"}),
    NamedRanking(deferred("balanced, local"), {"method": "balanced", "over": "local"}),
)
"""In the order in which they are tried; of equally good ones, the first is chosen."""
