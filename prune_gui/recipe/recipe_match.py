"""Which parameters of a checkpoint the steps of a recipe target, from names and shapes only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from re import Match
from typing import TYPE_CHECKING

from prune_gui.recipe.condition_fields import CONDITION_FIELDS, CountField
from prune_gui.recipe.selector import CONDITION, select

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.recipe.recipe import Recipe
    from prune_gui.recipe.step import Step


@dataclass(frozen=True, slots=True)
class StepMatch:
    """The parameters of a checkpoint that a step matches.

    Attributes:
        number: the number of the step, from 1.
        step: the step.
        targets: the names of the targeted parameters, in file order.
        unmatched: the including patterns of the step that match no parameter.
    """

    number: int
    step: Step
    targets: tuple[str, ...]
    unmatched: tuple[str, ...]


def match_recipe(recipe: Recipe, checkpoint: Checkpoint) -> tuple[StepMatch, ...]:
    """Return the match of each enabled step with a checkpoint. Reads no weights.

    A condition on sparsity is assumed to hold, because it depends on earlier steps.
    """
    every = checkpoint.tensors.values()

    def matching(patterns: Iterable[str], *, every_kind: bool = False) -> list[TensorInfo]:
        module_types = partial(getattr, checkpoint, "module_types")
        return select(tuple(patterns), every, module_types=module_types, every_kind=every_kind)

    protecting = matching(recipe.protect, every_kind=True) if recipe.protect else []
    protected = {info.name for info in protecting}
    matches = []
    for number, step in enumerate(recipe.steps, start=1):
        if not step.enabled:
            continue
        reduced = {text: _without_counts(text) for text in step.targets}
        targets = tuple(
            info.name
            for info in matching(
                filter(None, reduced.values()), every_kind=step.method.takes_every_kind
            )
            if not info.not_prunable and info.name not in protected
        )
        including = [text for text in reduced if not text.startswith("!")]
        unmatched = tuple(
            text for text in including if not matching([reduced[text]], every_kind=True)
        )
        matches.append(StepMatch(number, step, targets, unmatched))
    return tuple(matches)


def most_targeted(recipe: Recipe, checkpoint: Checkpoint) -> str | None:
    """Return the first of the parameters that most steps of a recipe target; None if none is."""
    counts = Counter(name for match in match_recipe(recipe, checkpoint) for name in match.targets)
    order = {name: index for index, name in enumerate(checkpoint.tensors)}
    return min(counts, key=lambda name: (-counts[name], order[name]), default=None)


def _without_counts(text: str) -> str:
    """Return a pattern without its conditions on what is pruned.

    Returns "" for an excluding pattern with such a condition, because it may exclude nothing.
    """

    def keep(condition: Match[str]) -> str:
        is_on_counts = isinstance(CONDITION_FIELDS.get(condition["field"]), CountField)
        return "" if is_on_counts else condition[0]

    excludes = text.startswith("!")
    pattern = text.removeprefix("!")
    stripped = CONDITION.sub(keep, pattern)
    if stripped == pattern:
        return text
    return "" if excludes else stripped.strip() or "*"
