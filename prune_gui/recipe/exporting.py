"""Writing what a resolution decided, as a checkpoint that other programs load."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from prune_gui.checkpoint import (
    Entry,
    ShardedCheckpoint,
    TensorInfo,
    is_folder,
    write_checkpoint,
    write_shards,
)
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.pruning.keys import raw_bits
from prune_gui.pruning.parallel import chunks
from prune_gui.recipe import stack
from prune_gui.recipe.provenance import metadata_of
from prune_gui.recipe.resolution import Resolution

Form = Literal["finalized", "reparametrized", "masks"]
FORMS: tuple[Form, ...] = get_args(Form)


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

    Only weights are written: config.json, tokenizers and the like stay where they are.

    Args:
        resolution: what to prune.
        out: where to. A file: the suffix (``.safetensors``, ``.pt``, ...) says of which kind. A
            folder (there is one, or the name ends in none of these suffixes): shards like those of
            the input, each with the same tensors, and their index.
        form: ``finalized``: same keys, order and types, pruned entries exactly +0.
            ``reparametrized``: ``X_orig`` and ``X_mask`` in place of each pruned ``X``, as
            `torch.nn.utils.prune` keeps them. ``masks``: a boolean tensor per pruned parameter.
        overwrite: whether an existing file may be replaced; of a folder, the shards in it.
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
    sharded = shard_size is not None or isinstance(checkpoint, ShardedCheckpoint)
    to_folder = sharded and is_folder(out)
    if shard_size is not None and not to_folder:
        raise CheckpointError(
            f"{out} is the name of a single file. Give the name of a folder for the shards."
        )
    entries = list(_FORMS[form](resolution))
    if not entries:
        raise RecipeError("There are no masks to write: no step is for any parameter.")
    like = None if form == "masks" else checkpoint
    fingerprinted = sum(info.nbytes for info in checkpoint.tensors.values())
    written = sum(entry.nbytes for entry in entries)
    with monitor.plan(fingerprinted + 2 * written):  # it is read back, too
        metadata = metadata_of(
            resolution.recipe,
            form,
            checkpoint.fingerprint(monitor),
            {name: resolution.counts[name][0] for name in resolution.layers},
        )
        if to_folder:
            write_shards(
                Path(out),
                entries,
                source=checkpoint,
                like=like,
                metadata=metadata,
                shard_size=shard_size,
                overwrite=overwrite,
                monitor=monitor,
            )
        else:
            write_checkpoint(
                Path(out),
                entries,
                like=like,
                metadata={**checkpoint.metadata, **metadata},
                overwrite=overwrite,
                monitor=monitor,
            )


def _finalized(resolution: Resolution) -> Iterator[Entry]:
    for info in _dense(resolution):
        values = _pruned if info.name in resolution.layers else _original
        yield Entry(info.name, info.dtype, info.shape, partial(values, resolution, info))


def _reparametrized(resolution: Resolution) -> Iterator[Entry]:
    for info in _dense(resolution):
        original = partial(_original, resolution, info)
        mask = partial(_mask, resolution, info, info.dtype)
        if info.name in resolution.layers:
            yield Entry(f"{info.name}_orig", info.dtype, info.shape, original)
            yield Entry(f"{info.name}_mask", info.dtype, info.shape, mask)
        else:
            yield Entry(info.name, info.dtype, info.shape, original)


def _masks(resolution: Resolution) -> Iterator[Entry]:
    for info in _dense(resolution):
        if info.name in resolution.layers:
            mask = partial(_mask, resolution, info, "bool")
            yield Entry(info.name, "bool", info.shape, mask)


_FORMS: dict[Form, Callable[[Resolution], Iterator[Entry]]] = {
    "finalized": _finalized,
    "reparametrized": _reparametrized,
    "masks": _masks,
}


def _dense(resolution: Resolution) -> Iterator[TensorInfo]:
    """Yield the parameters to write; a torch file keeps special ones by itself."""
    for info in resolution.checkpoint.tensors.values():
        if info.special is None:
            yield info


def _original(resolution: Resolution, info: TensorInfo) -> Iterator[torch.Tensor]:
    flat = resolution.checkpoint.read(info.name).reshape(-1)
    for start, stop in chunks(flat.numel()):
        yield flat[start:stop]


def _pruned(resolution: Resolution, info: TensorInfo) -> Iterator[torch.Tensor]:
    """Yield the weights with pruned entries set to +0: all bits zero in every float type."""
    flat = resolution.checkpoint.read(info.name).reshape(-1)
    layers = resolution.layers[info.name]
    for start, stop in chunks(flat.numel()):
        part = torch.empty_like(flat[start:stop])
        kept = stack.kept(layers, start, stop)
        np.multiply(raw_bits(flat[start:stop]), kept, out=raw_bits(part))
        yield part


def _mask(resolution: Resolution, info: TensorInfo, dtype: str) -> Iterator[torch.Tensor]:
    layers = resolution.layers[info.name]
    for start, stop in chunks(info.numel):
        yield torch.from_numpy(stack.kept(layers, start, stop)).to(getattr(torch, dtype))
