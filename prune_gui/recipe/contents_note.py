"""What a new file has besides the pruned parameters, in a sentence for the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from prune_gui.checkpoint import Checkpoint, ShardedCheckpoint, TensorWriter
from prune_gui.checkpoint.named_code import code_statement
from prune_gui.checkpoint.spans import SpanCheckpoint
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.record_copy import copy_plan
from prune_gui.checkpoint.torch.state_dict_search import State, name_of, state_dicts, tensors_of
from prune_gui.checkpoint.torch.writing import is_reduced
from prune_gui.checkpoint.write.entries import keyed_writers
from prune_gui.language import deferred, listed, tr
from prune_gui.monitor import Monitor
from prune_gui.recipe.compaction.note import plan_note
from prune_gui.recipe.compaction.plan import compact_plan
from prune_gui.recipe.exporting import surroundings
from prune_gui.recipe.extra_files import model_files_note
from prune_gui.recipe.output import DEFAULTS, Form, OutputOptions, OutputPath
from prune_gui.recipe.resolution import Resolution

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
TENSORS_ONLY: Final = deferred(
    "Saves only the tensors that are shown, not the other objects of {name}: torch.load accepts "
    "the new file with weights_only=True."
)
TENSORS: Final = deferred("Saves only the tensors that are shown, not the other objects of {name}.")
WITHOUT: Final = deferred("Saves only the tensors of {name}, without {objects}.")
METADATA: Final = deferred(
    "The shards have different metadata ({keys}); the new files have those of the last shard."
)


def contents_note(
    resolution: Resolution,
    target: OutputPath,
    form: Form,
    tensors: Sequence[TensorWriter],
    options: OutputOptions | None = None,
) -> str:
    """Return what is kept of a torch file, or of the units, and which other files are saved.

    Args:
        options: the choices of the user; None before these are made.

    Returns:
        Sentences; "" if nothing is to be said.
    """
    notes = (
        _weights_note(resolution, target, form, tensors, options or DEFAULTS),
        model_files_note(resolution.checkpoint, target, form, options),
    )
    return " ".join(filter(None, notes))


def _weights_note(
    resolution: Resolution,
    target: OutputPath,
    form: Form,
    tensors: Sequence[TensorWriter],
    options: OutputOptions,
) -> str:
    checkpoint = resolution.checkpoint
    if form == "compact":
        plan = compact_plan(resolution, Monitor(), allow_unloadable=options.allow_unloadable)
        return plan_note(plan, target)
    if form == "masks":
        return ""
    name = checkpoint.path.name
    if target.is_tensors_only and checkpoint.format == target.format.name:
        return tr(TENSORS_ONLY, name=name)
    is_sharded = isinstance(checkpoint, ShardedCheckpoint)
    if (
        target.format.name != checkpoint.format
        or target.is_sharded != is_sharded
        or target.shard_size is not None
    ):
        return " ".join(_lost(checkpoint))
    if not isinstance(checkpoint, TorchCheckpoint):
        return code_statement(checkpoint.foreign)
    template = surroundings(resolution, form)
    writers = keyed_writers(tensors, template)
    if copy_plan(writers, template) is not None:
        copy = COPY_WITH_MOMENTS if checkpoint.has_moments() else COPY
        note = tr(LEGACY_COPY if checkpoint.file.layout is None else copy)
        shared = [tr(SHARED, name=name) for name in _sharing_states(checkpoint)]
        return " ".join(filter(None, (note, *shared, code_statement(checkpoint.foreign))))
    if checkpoint.foreign and is_reduced(writers, checkpoint):
        return tr(STATE_DICT, name=name)
    return code_statement(checkpoint.foreign)


def _lost(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what files of another format or division do not keep, in sentences for the user."""
    name = checkpoint.path.name
    if objects := checkpoint.other_objects:
        yield tr(WITHOUT, name=name, objects=listed(objects))
    elif checkpoint.foreign or isinstance(checkpoint, SpanCheckpoint):
        yield tr(TENSORS, name=name)
    if isinstance(checkpoint, ShardedCheckpoint) and checkpoint.differing_metadata:
        yield tr(METADATA, keys=listed(checkpoint.differing_metadata))


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
