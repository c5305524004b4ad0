"""Applying one recipe to several checkpoints in sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.folder import find_checkpoint, is_weight_file, visible_files
from prune_gui.checkpoint.formats import stem_and_suffix
from prune_gui.checkpoint.sharded.index import has_several_files, index_with, is_index, part_names
from prune_gui.errors import Cancelled, CheckpointError, PruneGuiError
from prune_gui.monitor import Monitor
from prune_gui.recipe.output import OutputOptions, OutputPath, with_ending
from prune_gui.recipe.patterns import match_recipe
from prune_gui.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The result of a recipe on one checkpoint; None if it was not opened, or not applied."""

    path: Path
    targets: int | None = None
    unmatched: tuple[str, ...] = ()
    pruned: int = 0
    total: int | None = None
    out: Path | None = None
    error: str = ""
    details: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def sparsity(self) -> float:
        """The share of elements that is pruned, in [0, 1]."""
        return self.pruned / self.total if self.total else 0.0


def prune_file(
    recipe: Recipe, path: Path, out: Path | None, options: OutputOptions, monitor: Monitor
) -> BatchRow:
    """Apply a recipe to a checkpoint, and write the result unless `out` is None.

    It is compressed if the kind of file allows it. A `PruneGuiError` is stored in the row.
    """
    from prune_gui.recipe.exporting import write  # torch: slow to import
    from prune_gui.recipe.resolution import resolved  # torch: slow to import

    row = BatchRow(path)
    try:
        monitor.advance()
        with open_checkpoint(path) as checkpoint:
            matches = match_recipe(recipe, checkpoint)
            targets = {name for match in matches for name in match.targets}
            unmatched = dict.fromkeys(text for match in matches for text in match.unmatched)
            row = replace(
                row, targets=len(targets), unmatched=tuple(unmatched), warnings=checkpoint.warnings
            )
            resolution = resolved(recipe, checkpoint, monitor)
            pruned, total = resolution.total
            row = replace(row, pruned=pruned, total=total)
            if out is not None:
                if not checkpoint.foreign:
                    options = replace(options, tensors_only=None)
                if not OutputPath.of(checkpoint, out, options).is_compressible:
                    options = replace(options, compressed=False)
                write(resolution, out, options, monitor)
                row = replace(row, out=out)
    except Cancelled:
        raise
    except PruneGuiError as error:
        row = replace(row, error=error.brief, details=error.details)
    return row


def outputs(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Return the output path in a folder for each checkpoint; a subfolder for a sharded one.

    They are distinct, also on a case-insensitive file system, and none is one of `paths`.
    """
    taken = {_key(path) for path in paths}
    taken |= {_key(path.absolute().parent) for path in paths if has_several_files(path)}
    result = []
    for path in paths:
        out = next(out for name in _names(path) if _key(out := folder / name) not in taken)
        taken.add(_key(out))
        result.append(out)
    return result


def checkpoints_in(folder: Path) -> list[Path]:
    """Return all checkpoints directly in a folder; shards and parts are represented by one file.

    Without any, returns those of its subfolders, see `open_checkpoint`.
    """
    with CheckpointError.on_os_error("{path} cannot be read: {reason}.", path=folder):
        files = [path for path in visible_files(folder) if is_weight_file(path)]
        further_parts = {name for path in files for name in part_names(path.name)[1:]}
        checkpoints = [
            path
            for path in files
            if is_index(path) or (index_with(path) is None and path.name not in further_parts)
        ]
        if not checkpoints:
            for path in sorted(folder.iterdir()):
                with suppress(CheckpointError):
                    checkpoints += [find_checkpoint(path)[0]] if path.is_dir() else []
    if not checkpoints:
        raise CheckpointError("{folder} and its subfolders contain no checkpoint.", folder=folder)
    return checkpoints


def _key(path: Path) -> str:
    return str(path.absolute()).casefold()


def _names(path: Path) -> Iterator[str]:
    absolute = path.absolute()
    if has_several_files(path):
        stem, suffix, parent = absolute.parent.name, "", absolute.parent.parent.name
    else:
        (stem, suffix), parent = stem_and_suffix(absolute), absolute.parent.name
    yield f"{with_ending(stem)}{suffix}"
    yield f"{parent}-{stem}-pruned{suffix}"
    for number in count(2):
        yield f"{stem}-pruned-{number}{suffix}"
