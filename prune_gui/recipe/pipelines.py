"""Saving the folder of a pipeline whole: one of its models is pruned, the others are copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.model_files import is_code_name
from prune_gui.checkpoint.sharded.index import allowed_folders
from prune_gui.checkpoint.write.atomic import flush, replacing_folder
from prune_gui.errors import CheckpointError
from prune_gui.language import listed, tr
from prune_gui.location import Location
from prune_gui.monitor import Monitor
from prune_gui.recipe.output import OutputOptions, OutputPath


@contextmanager
def whole_pipeline(
    checkpoint: Checkpoint, target: OutputPath, options: OutputOptions, monitor: Monitor
) -> Iterator[OutputPath]:
    """Yield where to write a model: if the pipeline is saved whole, into a copy of the others.

    The copy replaces the folder of the output when the block succeeds.
    """
    if target.pipeline is None or checkpoint.pipeline is None:
        yield target
        return
    source, name = checkpoint.pipeline, target.path.name
    files, _ = _other_files(source, name, copy_code=options.copy_code)
    nbytes = sum((source / file).stat().st_size for file in files)
    kept = partial(_check_replaced, source=source, model=name)
    with replacing_folder(
        target.pipeline, nbytes=nbytes, overwrite=options.overwrite, kept_files=kept
    ) as folder:
        for file in monitor.each(files):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            with Path(shutil.copyfile(source / file, folder / file)).open("r+b") as copy:
                flush(copy)
        yield replace(target, location=Location(folder / name))


def pipeline_note(checkpoint: Checkpoint, target: OutputPath, options: OutputOptions) -> str:
    """Return what of a pipeline is saved with one of its models, in sentences; "" for nothing."""
    if target.pipeline is None or checkpoint.pipeline is None:
        return ""
    name = target.path.name
    files, left_out = _other_files(checkpoint.pipeline, name, copy_code=options.copy_code)
    parts = sorted({file.parts[0] for file in files})
    notes = [tr("Copied unchanged, with {name!r}: {names}.", name=name, names=listed(parts))]
    if left_out:
        names = listed([file.as_posix() for file in left_out])
        notes.append(tr("Files and folders that are not copied: {names}.", names=names))
    return " ".join(notes)


def _other_files(folder: Path, model: str, *, copy_code: bool) -> tuple[list[Path], list[Path]]:
    """Return the files of a pipeline without one model, relative: to copy, and left out.

    Code is copied only on request, and links out of their folder never; see `find_model_files`.
    """
    files: list[Path] = []
    left_out: list[Path] = []
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in file.parts)
        if is_hidden or file.parts[0] == model or not path.is_file():
            continue
        is_within = Path(os.path.realpath(path)).parent in allowed_folders(path.parent)
        is_copied = is_within and (copy_code or not is_code_name(path.name))
        (files if is_copied else left_out).append(file)
    return files, left_out


def _check_replaced(folder: Path, source: Path, model: str) -> tuple[str, ...]:
    """Check that a folder has no files but those of a pipeline; none of them is kept."""
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder)
        if file.parts[0] != model and not path.is_dir() and not (source / file).is_file():
            raise CheckpointError(
                "{folder} contains a file that is not in the pipeline: {name}. Choose another "
                "folder.",
                folder=folder,
                name=file.as_posix(),
            )
    return ()
