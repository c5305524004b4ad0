"""Opening the checkpoint of a command, and telling what there is to say about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prune_gui.cli.printing import print_line

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint


@contextmanager
def opened_checkpoint(path: os.PathLike[str], state: str | None = None) -> Iterator[Checkpoint]:
    """Open a checkpoint during the block, and print its warnings on standard error."""
    from prune_gui.checkpoint import open_checkpoint  # slow to import

    with open_checkpoint(path, state) as opened:
        print_warnings(opened)
        yield opened


def print_warnings(checkpoint: Checkpoint) -> None:
    """Print the warnings of a checkpoint on standard error, one line each."""
    for warning in checkpoint.warnings:
        print_line(f"Warning: {checkpoint.path.name}: {warning}", err=True)
