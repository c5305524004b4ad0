"""The tensors of the compact form, computed chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.language import tr
from prune_gui.recipe.compaction.plan import CompactPlan, KeptTensor
from prune_gui.recipe.compaction.slicing import sliced
from prune_gui.recipe.form_tensors import FormTensor, Spans, finalized
from prune_gui.recipe.resolution import Resolution

WRITABLE_FORMATS = ("safetensors", "torch")


def check_format(file_format: FileFormat, name: str) -> None:
    """Check that the compact form can be written in a format."""
    if file_format.name not in WRITABLE_FORMATS:
        raise CheckpointError(
            "{name}: save the compact form as .safetensors or .pt instead.", name=name
        )


def compact_tensors(resolution: Resolution, plan: CompactPlan) -> Iterator[FormTensor]:
    """Yield the tensors that remain, without special ones, which the torch writer copies."""
    for info in resolution.checkpoint.tensors.values():
        if info.special is not None and info.name in plan.removed:
            raise _special_error(info.name, info.special)
    for tensor in plan.tensors:
        if tensor.info.special is None:
            yield _form_tensor(resolution, tensor)
        elif any(new != old for new, old in tensor.keys):
            raise _special_error(tensor.info.name, tensor.info.special)


def remaining_pruned(resolution: Resolution, plan: CompactPlan) -> dict[str, int]:
    """Return how many elements of each remaining tensor are pruned, by the new name."""
    counts = {}
    for tensor in plan.tensors:
        if tensor.info.name in resolution.layers:
            counts[tensor.keys[0][0]] = _pruned(resolution, tensor)
    return counts


def folded_units(plan: CompactPlan) -> dict[str, int]:
    """Return how many removed units have their constants in each tensor, by the new name."""
    units = {tensor.name: tensor.units for tensor in plan.folded}
    return {
        tensor.keys[0][0]: units[tensor.info.name]
        for tensor in plan.tensors
        if tensor.info.name in units
    }


def _pruned(resolution: Resolution, tensor: KeptTensor) -> int:
    """Return the number of pruned elements, without those that become other numbers than 0."""
    info = tensor.info
    if tensor.all_pruned and tensor.shift is None:
        pruned = resolution.counts.get(info.name, (0, 0))[0]
        return pruned - (info.numel - math.prod(tensor.shape))
    kept = resolution.mask(info.name)
    if tensor.shift is not None:
        kept |= torch.from_numpy(tensor.shift) != 0
    for dim, channels in tensor.kept.items():
        kept = kept.index_select(dim, torch.from_numpy(channels))
    return kept.numel() - int(kept.count_nonzero())


def _form_tensor(resolution: Resolution, tensor: KeptTensor) -> FormTensor:
    info = tensor.info
    if tensor.shift is None and not tensor.kept:
        return finalized(resolution, info, tensor.keys)
    if tensor.shift is None:
        values = partial(_values, resolution, tensor)
    else:
        values = partial(_shifted, resolution, tensor, tensor.shift)
    return FormTensor.of(tensor.keys[0][0], info.dtype, tensor.shape, values, tensor.keys)


def _values(resolution: Resolution, tensor: KeptTensor, spans: Spans) -> Iterator[torch.Tensor]:
    info = tensor.info
    steps = resolution.layers.get(info.name, ()) if _pruned(resolution, tensor) else ()
    flat = resolution.values(info.name).reshape(-1)
    return sliced(flat, info.shape, tensor.kept, steps, spans)


def _shifted(
    resolution: Resolution, tensor: KeptTensor, shift: NDArray[np.float64], spans: Spans
) -> Iterator[torch.Tensor]:
    added = torch.from_numpy(shift)
    (old,) = finalized(resolution, tensor.info).values([(0, tensor.info.numel)])
    new = torch.where(added == 0, old, (old.double() + added).to(old.dtype))
    for dim, channels in tensor.kept.items():
        new = new.index_select(dim, torch.from_numpy(channels))
    for start, stop in spans:
        yield new[start:stop]


def _special_error(name: str, special: str) -> RecipeError:
    return RecipeError(
        "{name} ({special}) cannot be removed or renamed. Leave its layer unpruned.",
        name=name,
        special=tr(special),
    )
