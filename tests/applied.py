"""Recipes applied to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, Resolution, export, resolve


@contextmanager
def applied(path: Path, recipe: Recipe, state: str | None = None) -> Iterator[Resolution]:
    """Open a checkpoint, and yield what a recipe prunes in it."""
    with open_checkpoint(path, state) as checkpoint:
        yield resolve(recipe, checkpoint)


def exported(
    path: Path, out: Path | str, recipe: Recipe, form: str = "finalized", **options: object
) -> dict[str, torch.Tensor]:
    """Write what a recipe makes of a checkpoint, and return the masks."""
    with applied(path, recipe) as resolution:
        export(resolution, out, form, **options)
        return {name: resolution.mask(name) for name in resolution.layers}


class CancelAfter:
    """A cancel flag that is set after a number of calls."""

    def __init__(self, times: int) -> None:
        self.times = times

    def is_set(self) -> bool:
        self.times -= 1
        return self.times < 0
