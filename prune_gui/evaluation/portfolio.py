"""The rankings that a search compares: by the weights, and by recordings beside the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from prune_gui.language import deferred

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class NamedRanking:
    """A way to choose what is pruned at a sparsity; the name is translated where it is shown."""

    name: str
    fields: Mapping[str, object]  # of the step, as in a recipe, without targets and amount
    tunable: Mapping[str, object] | None = None  # the same of a method with more parameters
    corrections: tuple[Mapping[str, object], ...] = ()  # of the steps after it

    def step(self, targets: Sequence[str], amount: float) -> dict[str, object]:
        """Return the fields of the step that prunes the targets up to a sparsity in [0, 1]."""
        fields = {"amount_of": "reach", **self.fields}
        return {**fields, "targets": list(targets), "amount": float(amount)}

    def steps(self, targets: Sequence[str], amount: float) -> list[Mapping[str, object]]:
        """Return the fields of the step and of its corrections."""
        return [self.step(targets, amount), *self.corrections]

    def corrected(self, corrections: Sequence[Mapping[str, object]]) -> NamedRanking:
        """Return the ranking with corrections of the kept weights."""
        name = deferred("{ranking}, corrected", ranking=self.name)
        return replace(self, name=name, corrections=tuple(corrections))

    def for_tuning(self) -> NamedRanking:
        """Return the ranking with the fields that prune the same and have more parameters."""
        return self if self.tunable is None else replace(self, fields=self.tunable)


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
RECORDED: Final[Mapping[str, Sequence[NamedRanking]]] = {
    "activations": (
        NamedRanking(deferred("Wanda, row"), {"method": "l1_unstructured", "scope": "row"}),
        NamedRanking(deferred("Wanda, LAMP"), {"method": "lamp"}),
    ),
    "ria": (
        NamedRanking(
            deferred("RIA with activations, local"),
            {"method": "l1_unstructured", "scope": "local"},
        ),
        NamedRanking(deferred("RIA with activations, LAMP"), {"method": "lamp"}),
    ),
    "obd": (
        NamedRanking(deferred("OBD, global"), {"method": "l1_unstructured", "scope": "global"}),
    ),
    "taylor": (
        NamedRanking(deferred("Taylor, global"), {"method": "l1_unstructured", "scope": "global"}),
    ),
}
"""Rankings by the scores of a recording, by its statistic."""


def portfolio_of(checkpoint: Checkpoint) -> tuple[NamedRanking, ...]:
    """Return the rankings for a checkpoint: also those of the recordings beside it."""
    from prune_gui.recipe.auxiliary_files import recordings_beside  # torch: slow to import

    own = (
        replace(ranking, fields={**ranking.fields, "importance": str(path)})
        for statistic, path in recordings_beside(checkpoint, RECORDED).items()
        for ranking in RECORDED[statistic]
    )
    return (*own, *PORTFOLIO)


def corrections_of(checkpoint: Checkpoint) -> tuple[Mapping[str, object], ...]:
    """Return the fields of the steps that correct kept weights with recordings beside it."""
    # torch: slow to import
    from prune_gui.recipe.correction.corrected_values import corrections_beside

    return tuple(step.model_dump(mode="json") for step in corrections_beside(checkpoint))
