"""One recipe on several checkpoints, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.folder import files_of, find_checkpoint, is_weights
from prune_gui.checkpoint.sharded.index import index_with, is_index
from prune_gui.errors import Cancelled, CheckpointError, PruneGuiError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.recipe_match import match_recipe

if TYPE_CHECKING:
    from prune_gui.recipe.parts import Form


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What a recipe comes to on one checkpoint.

    Attributes:
        path: of the checkpoint.
        targets: how many parameters the steps are for; None if it was not opened.
        unmatched: patterns that match no parameter of it, each once.
        pruned: entries, of all parameters that can be pruned.
        total: their entries; None if the recipe was not carried out.
        out: the file or folder that was written, if one was.
        error: what went wrong, or "".
    """

    path: Path
    targets: int | None = None
    unmatched: tuple[str, ...] = ()
    pruned: int = 0
    total: int | None = None
    out: Path | None = None
    error: str = ""

    @property
    def sparsity(self) -> float:
        """The share that is pruned."""
        return self.pruned / self.total if self.total else 0.0


def prune_file(
    recipe: Recipe,
    path: Path,
    out: Path | None,
    form: Form,
    monitor: Monitor,
    *,
    overwrite: bool = False,
) -> BatchRow:
    """Carry out a recipe on a checkpoint, and write it unless `out` is None.

    What cannot be opened, carried out or written is told in the row.

    Raises:
        Cancelled: the monitor said so; nothing is written then.
    """
    from prune_gui.recipe.exporting import write  # loads torch, for which the window does not wait
    from prune_gui.recipe.resolution import initial_resolution

    row = BatchRow(path)
    try:
        monitor.advance()
        with open_checkpoint(path) as checkpoint:
            fits = match_recipe(recipe, checkpoint)
            targets = {name for one in fits for name in one.targets}
            unmatched = dict.fromkeys(text for one in fits for text in one.unmatched)
            row = replace(row, targets=len(targets), unmatched=tuple(unmatched))
            resolution = initial_resolution(recipe, checkpoint, monitor)
            for step in recipe.steps:
                resolution = resolution.with_step(step, monitor)
            pruned, total = resolution.total
            row = replace(row, pruned=pruned, total=total)
            if out is not None:
                write(resolution, out, form, overwrite=overwrite, monitor=monitor)
                row = replace(row, out=out)
    except Cancelled:
        raise
    except PruneGuiError as error:
        row = replace(row, error=str(error))
    return row


def batch(
    recipe: Recipe,
    paths: Iterable[Path],
    folder: Path | None,
    form: Form,
    monitor: Monitor,
    *,
    overwrite: bool = False,
) -> list[BatchRow]:
    """Carry out a recipe on several checkpoints; one that cannot be used does not stop the others.

    Args:
        recipe: what to do.
        paths: of the checkpoints.
        folder: where to write the pruned ones, see `outputs`; None to write nothing.
        form: in which to write them, see `export`.
        monitor: told of the progress.
        overwrite: whether what is in the folder may be replaced.

    Raises:
        Cancelled: the monitor said so; what was written before stays.
    """
    paths = list(paths)
    targets = outputs(paths, folder) if folder is not None else [None] * len(paths)
    return [
        prune_file(recipe, path, out, form, monitor, overwrite=overwrite)
        for path, out in zip(paths, targets, strict=True)
    ]


def outputs(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Return where in a folder the pruned form of each checkpoint goes; a folder for shards.

    No two are the same, even where letters of either case are, and none is one of `paths`.
    """
    taken = {_key(path) for path in paths}
    taken |= {_key(path.absolute().parent) for path in paths if is_index(path)}
    found = []
    for path in paths:
        out = next(out for name in _names(path) if _key(out := folder / name) not in taken)
        taken.add(_key(out))
        found.append(out)
    return found


def checkpoints_in(folder: Path) -> list[Path]:
    """Return all checkpoints right in a folder, shards as the index that lists them.

    Without any, those that the folders in it mean, see `open_checkpoint`.

    Raises:
        CheckpointError: there are none there either, or the folder cannot be read.
    """
    try:
        files = [path for path in files_of(folder) if is_weights(path)]
        found = [path for path in files if is_index(path) or index_with(path) is None]
        if not found:
            within = (_meant_by(path) for path in sorted(folder.iterdir()) if path.is_dir())
            found = [path for path in within if path is not None]
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(
            tr("{path} cannot be read: {reason}.", path=folder, reason=reason)
        ) from error
    if not found:
        raise CheckpointError(
            tr("There is no checkpoint in {folder}, nor in the folders in it.", folder=folder)
        )
    return found


def _meant_by(folder: Path) -> Path | None:
    try:
        return find_checkpoint(folder)[0]
    except CheckpointError:
        return None


def _key(path: Path) -> str:
    return str(path.absolute()).casefold()


def _names(path: Path) -> Iterator[str]:
    """Yield names for the pruned form of a checkpoint, the most wanted first."""
    whole = path.absolute()
    if is_index(path):
        stem, suffix, parent = whole.parent.name, "", whole.parent.parent.name
    else:
        stem, suffix, parent = whole.stem, whole.suffix, whole.parent.name
    yield f"{stem}-pruned{suffix}"
    yield f"{parent}-{stem}-pruned{suffix}"
    for number in count(2):
        yield f"{stem}-pruned-{number}{suffix}"
