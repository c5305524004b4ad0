"""Incremental resolving: after an edit, only from the first changed step on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution


class Resolver:
    """Keeps the resolution after each step, so that an edit resolves only the steps from it on.

    Only one thread may use a resolver, but any thread may copy it.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._after: list[Resolution] = []
        self._masks: Resolution | None = None

    def copy(self) -> Resolver:
        """Return a resolver with the same resolutions, for another thread."""
        copied = Resolver(self.checkpoint)
        copied._after = self._after.copy()  # atomic: one list of steps at any moment
        copied._masks = self._masks
        return copied

    def resolve(self, recipe: Recipe, monitor: Monitor) -> Resolution:
        """Return the resolution of a recipe; a `StepError` keeps those before the step."""
        from prune_gui.recipe import (
            initial_resolution,  # imports torch, which must not delay the window
        )

        empty = recipe.with_steps(())
        if not self._after or self._after[0].recipe.start != empty.start:
            self._after = [initial_resolution(recipe, self.checkpoint, monitor)]
        elif self._after[0].recipe != empty:
            self._after = [replace(self._after[0], recipe=empty)]
        old_steps = self._after[-1].recipe.steps
        n_equal = 0
        while (
            n_equal < min(len(old_steps), len(recipe.steps))
            and old_steps[n_equal] == recipe.steps[n_equal]
            and self._after[n_equal + 1].is_current
        ):
            n_equal += 1
        del self._after[n_equal + 1 :]
        for step in recipe.steps[n_equal:]:
            self._after.append(self._after[-1].with_step(step, monitor))
        return self._after[-1]

    def masks(self, monitor: Monitor) -> Resolution:
        """Return a resolution without steps, whose parameters are the masks in the file."""
        from prune_gui.recipe import Resolution  # torch: slow to import
        from prune_gui.recipe.auxiliary_files import masks_in  # torch: slow to import

        if self._masks is None:
            masks = masks_in(self.checkpoint, monitor)
            self._masks = Resolution(self.checkpoint, *masks, Recipe())
        return self._masks

    def after(self, steps: int) -> Resolution | None:
        """Return the resolution after some steps; None if one of them could not be carried out."""
        return self._after[steps] if steps < len(self._after) else None
