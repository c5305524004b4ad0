"""Resolving again after an edit, from the first step that changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prune_gui.checkpoint import Checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution


class Resolver:
    """Keeps the resolution after each step, so that an edit redoes only what follows it.

    A resolution is a few numbers per step and parameter, so keeping them costs little. Not for use
    from two threads at once: it belongs to the engine.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._after: list[Resolution] = []

    def resolve(self, recipe: Recipe, monitor: Monitor) -> Resolution:
        """Return the resolution of `recipe`.

        Raises:
            StepError: a step cannot be carried out; what was resolved before it is kept.
            Cancelled: the monitor said so; likewise.
        """
        from prune_gui.recipe import (
            initial_resolution,  # loads torch, for which the window does not wait
        )

        empty = recipe.with_steps(())
        if not self._after or self._after[0].recipe.start != empty.start:
            self._after = [initial_resolution(recipe, self._checkpoint, monitor)]
        elif self._after[0].recipe != empty:
            self._after = [replace(self._after[0], recipe=empty)]
        known = self._after[-1].recipe.steps
        same = 0
        while (
            same < min(len(known), len(recipe.steps))
            and known[same] == recipe.steps[same]
            and self._after[same + 1].is_current
        ):
            same += 1
        del self._after[same + 1 :]
        for step in recipe.steps[same:]:
            self._after.append(self._after[-1].with_step(step, monitor))
        return self._after[-1]

    def after(self, steps: int) -> Resolution | None:
        """Return what the first so many steps of the recipe last resolved came to.

        None if one of them could not be carried out.
        """
        return self._after[steps] if steps < len(self._after) else None
