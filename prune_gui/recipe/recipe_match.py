"""Which parameters of a checkpoint the steps of a recipe are for, as names and shapes tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from re import Match
from typing import TYPE_CHECKING

from prune_gui.recipe.selector import CONDITION, select

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.recipe.recipe import Recipe
    from prune_gui.recipe.step import Step


@dataclass(frozen=True, slots=True)
class StepMatch:
    """How a step fits a checkpoint.

    Attributes:
        number: of the step, from 1.
        step: itself.
        targets: the names of the parameters that it is for, in file order.
        unmatched: its patterns that match no parameter, apart from excluding ones.
    """

    number: int
    step: Step
    targets: tuple[str, ...]
    unmatched: tuple[str, ...]


def match_recipe(recipe: Recipe, checkpoint: Checkpoint) -> tuple[StepMatch, ...]:
    """Return how each step that is switched on fits a checkpoint. Looks at no weight.

    A condition on the sparsity of a parameter is taken to hold, as that depends on earlier steps.
    """
    every = checkpoint.tensors.values()

    def matching(patterns: Iterable[str]) -> list[TensorInfo]:
        return select(tuple(patterns), every, kinds=lambda: checkpoint.kinds)

    spared = {info.name for info in matching(recipe.protect)} if recipe.protect else set()
    found = []
    for number, step in enumerate(recipe.steps, start=1):
        if not step.enabled:
            continue
        meant = {text: _whatever_sparsity(text) for text in step.targets}
        targets = tuple(
            info.name
            for info in matching(filter(None, meant.values()))
            if not info.not_prunable and info.name not in spared
        )
        wanted = [text for text in meant if not text.startswith("!")]
        unmatched = tuple(text for text in wanted if not matching([meant[text]]))
        found.append(StepMatch(number, step, targets, unmatched))
    return tuple(found)


def _whatever_sparsity(text: str) -> str:
    """Return a pattern without conditions on sparsity; "" if it then excludes nothing for sure."""

    def keep(condition: Match[str]) -> str:
        return "" if condition["field"] == "sparsity" else condition[0]

    excludes = text.startswith("!")
    meant = text.removeprefix("!")
    left = CONDITION.sub(keep, meant)
    if left == meant:
        return text
    return "" if excludes else left.strip() or "*"
