"""What a new file has besides the pruned parameters, in a sentence for the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from prune_gui.checkpoint import TensorWriter
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.format import TORCH
from prune_gui.checkpoint.torch.record_copy import copy_plan
from prune_gui.checkpoint.torch.state_dict_search import State, name_of, state_dicts, tensors_of
from prune_gui.checkpoint.write.entries import keyed_writers
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.recipe.compaction.note import plan_note
from prune_gui.recipe.compaction.plan import NO_OPTIONS, CompactOptions, compact_plan
from prune_gui.recipe.compaction.small_files import left_out_folders
from prune_gui.recipe.exporting import surroundings
from prune_gui.recipe.parts import Form
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.target import OutputPath

COPY: Final = deferred(
    "Only the values of pruned elements change. The pickle and all other values stay byte for byte."
)
COPY_WITH_MOMENTS: Final = deferred(
    "Only the values of pruned elements change, and their moments if that is chosen. The pickle "
    "and all other values stay byte for byte."
)
SHARED: Final = deferred(
    "The state dict {name!r} has the same values in the file; it is pruned, too."
)
LEGACY_COPY: Final = deferred(
    "Only the values of pruned elements change; all else stays byte for byte. The old format of "
    "torch.save has no place for the recipe."
)
STATE_DICT: Final = deferred(
    "Saves a plain state dict: the other objects of {name} need its code, which is not run."
)
TENSORS: Final = deferred("Saves only the tensors, not the other objects of {name}.")


def contents_note(
    resolution: Resolution,
    target: OutputPath,
    form: Form,
    tensors: Sequence[TensorWriter],
    options: CompactOptions = NO_OPTIONS,
) -> str:
    """Return what is kept of a torch file, or of the units; "" if nothing is to be said.

    Args:
        resolution: the resolution to write.
        target: the output path.
        form: the form to write.
        tensors: the tensors of the form.
        options: the options of the compact form.
    """
    checkpoint = resolution.checkpoint
    if form == "compact":
        plan = compact_plan(resolution, options, Monitor(None, None))
        left_out = left_out_folders(checkpoint) if target.is_folder and plan.config else []
        return plan_note(plan, target, left_out)
    if not isinstance(checkpoint, TorchCheckpoint) or form == "masks":
        return ""
    name = checkpoint.path.name
    if target.is_folder or target.format is not TORCH:
        return tr(TENSORS, name=name) if checkpoint.foreign else ""
    template = surroundings(resolution, form)
    if copy_plan(keyed_writers(tensors, template), template) is not None:
        copy = COPY_WITH_MOMENTS if checkpoint.has_moments() else COPY
        note = tr(LEGACY_COPY if checkpoint.file.layout is None else copy)
        return " ".join([note, *(tr(SHARED, name=name) for name in _sharing_states(checkpoint))])
    return tr(STATE_DICT, name=name) if checkpoint.foreign else ""


def _sharing_states(checkpoint: TorchCheckpoint) -> Iterator[str]:
    """Yield the names of other state dicts with storages of the open one."""
    states = state_dicts(checkpoint.content)
    own = _storages(checkpoint.state)
    for root, state in states.items():
        if root != checkpoint.root and not own.isdisjoint(_storages(state)):
            yield name_of(root)


def _storages(state: State) -> set[int]:
    """Return the addresses of the storages of the strided tensors of a state dict."""
    return {
        tensor.untyped_storage().data_ptr()
        for _, tensor in tensors_of(state)
        if tensor.layout == torch.strided and tensor.numel() and not tensor.is_meta
    }
