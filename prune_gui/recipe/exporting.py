"""Writing what a resolution decided, as a checkpoint that other programs load."""

from __future__ import annotations

import os

from prune_gui.checkpoint import (
    Checkpoint,
    check_shards_target,
    check_target,
    write_checkpoint,
    write_shards,
)
from prune_gui.checkpoint.write.checksums import CHECKSUMS
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe.loader import loader_path, loader_text
from prune_gui.recipe.parts import Form, FormTensor, parts
from prune_gui.recipe.provenance import metadata_of
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.target import OutputPath


def export(
    resolution: Resolution,
    out: str | os.PathLike[str],
    form: Form = "finalized",
    overwrite: bool = False,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
    shard_size: int | None = None,
) -> None:
    """Write the pruned checkpoint; the file, or the folder of shards, appears whole or not at all.

    Only weights are written: config.json, tokenizers and the like stay where they are. The file
    carries the recipe and a checksum of each tensor; `prune_gui.recipe.verify` compares them.

    A reparametrized file and the lines that load it are replaced together; an error leaves both as
    they were. The lines are renamed first, and only if they differ from those that are there: they
    differ if the file gets another state dict. A process that is killed between the two renames
    leaves the new lines beside the old file.

    Args:
        resolution: what to prune.
        out: where to. A file: the suffix (``.safetensors``, ``.pt``, ...) says of which kind. A
            folder (there is one, or the name ends in none of these suffixes): shards like those of
            the input, each with the same tensors, and their index.
        form: ``finalized``: same keys, order and types, pruned entries exactly +0.
            ``reparametrized``: ``X_orig`` and ``X_mask`` in place of each pruned ``X``, as
            `torch.nn.utils.prune` keeps them, and beside it a few lines of Python that load it into
            a model (see `loader_path`). ``masks``: a boolean tensor per pruned parameter.
        overwrite: whether existing files may be replaced; of a folder, the shards in it.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.
        shard_size: split the checkpoint anew, into shards of no more than so many bytes (or of a
            single tensor), named as Hugging Face does.

    Raises:
        RecipeError: there is nothing to write in this form.
        CheckpointError: the file cannot be written; what was there before is untouched.
        Cancelled: `cancel` was set; what was there before is untouched.
    """
    monitor = Monitor(progress, cancel)
    write(resolution, out, form, overwrite=overwrite, monitor=monitor, shard_size=shard_size)


def write(
    resolution: Resolution,
    out: str | os.PathLike[str],
    form: Form,
    *,
    overwrite: bool,
    monitor: Monitor,
    shard_size: int | None = None,
) -> None:
    """Do as `export`, reporting to a monitor."""
    checkpoint = resolution.checkpoint
    target = OutputPath.of(checkpoint, out, shard_size)
    entries = [part.entry for part in parts_to_write(resolution, form)]
    like = surroundings(resolution, form)
    beside = loader_of(resolution, target, form)
    if target.is_folder:
        written = check_shards_target(target.path, entries, beside=beside, overwrite=overwrite)
    else:
        written = check_target(target.path, entries, like=like, beside=beside, overwrite=overwrite)
    fingerprinted = sum(info.nbytes for info in checkpoint.tensors.values())
    fingerprinted += checkpoint.nbytes_beside()
    with monitor.plan(fingerprinted + 2 * written):  # it is read back, too
        metadata = metadata_for(resolution, form, checkpoint.fingerprint(monitor))
        metadata[CHECKSUMS] = ""  # to be filled in
        if target.is_folder:
            write_shards(
                target.path,
                entries,
                source=checkpoint,
                like=like,
                metadata=metadata,
                shard_size=shard_size,
                beside=beside,
                overwrite=overwrite,
                monitor=monitor,
            )
            return
        write_checkpoint(
            target.path,
            entries,
            like=like,
            metadata={**checkpoint.metadata, **metadata},
            beside=beside,
            overwrite=overwrite,
            monitor=monitor,
        )


def parts_to_write(resolution: Resolution, form: Form) -> list[FormTensor]:
    """Return the tensors of a form.

    Raises:
        RecipeError: there are none.
    """
    found = list(parts(resolution, form))
    if not found:
        raise RecipeError(tr("There are no masks to write: no step is for any parameter."))
    return found


def surroundings(resolution: Resolution, form: Form) -> Checkpoint | None:
    """Return the checkpoint whose order and surroundings the new one keeps, if it keeps any."""
    return None if form == "masks" else resolution.checkpoint


def metadata_for(resolution: Resolution, form: Form, fingerprint: str) -> dict[str, str]:
    """Return what is added to the metadata of the input."""
    pruned = {name: resolution.counts[name][0] for name in resolution.layers}
    return metadata_of(resolution.recipe, form, fingerprint, pruned)


def loader_of(resolution: Resolution, target: OutputPath, form: Form) -> dict[str, bytes]:
    """Return by its name what is written beside the tensors of a form, if anything is."""
    if form != "reparametrized":
        return {}
    return {loader_path(target).name: loader_text(resolution.checkpoint, target).encode()}
