"""What changed in a window: the record that every panel gets, to update only what it concerns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution

MAX_COMPARED_NAMES: Final = 50_000
"""Limit of the names that `changed_parameters` collects, so that it takes less than 10 ms."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed.

    Attributes:
        file: another session is open; `recipe`, `saved` and `selection` are set too. Its
            resolution follows as a change of its own.
        recipe: the recipe, its history, or the named states.
        draft: the user changed the draft, which can be undone.
        parameters: the names of the parameters that this resolution treats differently from the one
            shown before; None if any may differ.
        stopped: the user cancelled resolving, or the cluster failed; the resolution stays out of
            date.
        comparison: a side of the comparison, or the reference.
    """

    file: bool = False
    recipe: bool = False
    draft: bool = False
    saved: bool = False
    resolution: bool = False
    parameters: frozenset[str] | None = None
    stopped: bool = False
    selection: bool = False
    comparison: bool = False
    methods: bool = False
    zeros: bool = False

    def concerns(self, name: str) -> bool:
        """Return whether there is a new resolution that may treat this parameter differently."""
        return self.resolution and (self.parameters is None or name in self.parameters)


OPENED: Final = Changes(file=True, recipe=True, saved=True, selection=True)


def changed_parameters(old: Resolution | None, new: Resolution | None) -> frozenset[str] | None:
    """Return the targets of all steps whose outcome is not the same object in both resolutions.

    None if any parameter may differ.
    `Resolver` keeps the outcomes before the first changed step, so all other parameters are pruned
    by the same steps in both. Corrected parameters depend on all steps, and are always included.
    """
    if (
        old is None
        or new is None
        or old.checkpoint is not new.checkpoint
        or old.recipe.start != new.recipe.start
        or old.recipe.table != new.recipe.table
    ):
        return None
    changed = [
        outcome.pruned
        for pair in zip_longest(old.outcomes, new.outcomes)
        if pair[0] is not pair[1]
        for outcome in pair
        if outcome is not None
    ]
    changed += [correction.sources for one in (old, new) for correction in one.corrections]
    if sum(map(len, changed)) > MAX_COMPARED_NAMES:
        return None
    return frozenset().union(*changed)
