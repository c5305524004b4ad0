"""What a new file has, keeps and loses, and which programs load it, in sentences for the user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from prune_gui.checkpoint import Checkpoint, ShardedCheckpoint, TensorWriter
from prune_gui.checkpoint.folder import CONFIG_NAME, read_hf_config
from prune_gui.checkpoint.named_code import code_statement
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.spans import SpanCheckpoint
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.record_copy import copy_plan
from prune_gui.checkpoint.torch.state_dict_search import name_of, state_dicts, tensors_of
from prune_gui.checkpoint.torch.writing import is_reduced
from prune_gui.checkpoint.write.content import keyed_writers
from prune_gui.language import join_clauses, listed, tr, trn
from prune_gui.monitor import Monitor
from prune_gui.recipe.compaction.folding import unfolded_notes
from prune_gui.recipe.compaction.plan import CompactPlan, compact_plan
from prune_gui.recipe.extra_files import model_files_note
from prune_gui.recipe.loading_code import OF_TRANSFORMERS
from prune_gui.recipe.output import DEFAULTS, Form, OutputOptions, OutputPath
from prune_gui.recipe.pipelines import pipeline_note
from prune_gui.recipe.resolution import Resolution


def contents_note(
    resolution: Resolution,
    target: OutputPath,
    form: Form,
    tensors: Sequence[TensorWriter],
    options: OutputOptions | None = None,
) -> str:
    """Return what is kept and which other files are saved, in sentences; "" for nothing."""
    notes = (
        _weights_note(resolution, target, form, tensors, options or DEFAULTS),
        model_files_note(resolution.checkpoint, target, form, options),
        pipeline_note(resolution.checkpoint, target, options or DEFAULTS),
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
        return tr(
            "Saves only the tensors that are shown, not the other objects of {name}: torch.load "
            "accepts the new file with weights_only=True.",
            name=name,
        )
    is_sharded = isinstance(checkpoint, ShardedCheckpoint)
    is_same = (target.format.name, target.is_sharded) == (checkpoint.format, is_sharded)
    if not is_same or target.shard_size is not None:
        return " ".join(_lost(checkpoint))
    if not isinstance(checkpoint, TorchCheckpoint):
        return code_statement(checkpoint.foreign)
    writers = keyed_writers(tensors, checkpoint)
    if copy_plan(writers, checkpoint) is not None:
        return " ".join(filter(None, (*_copied(checkpoint), code_statement(checkpoint.foreign))))
    if checkpoint.foreign and is_reduced(writers, checkpoint):
        return tr(
            "Saves a plain state dict: the other objects of {name} need its code, which is not "
            "run.",
            name=name,
        )
    return code_statement(checkpoint.foreign)


def _lost(checkpoint: Checkpoint) -> Iterator[str]:
    name = checkpoint.path.name
    if objects := checkpoint.other_objects:
        yield tr(
            "Saves only the tensors of {name}, without {objects}.",
            name=name,
            objects=listed(objects),
        )
    elif checkpoint.foreign or isinstance(checkpoint, SpanCheckpoint):
        yield tr(
            "Saves only the tensors that are shown, not the other objects of {name}.", name=name
        )
    if isinstance(checkpoint, ShardedCheckpoint) and checkpoint.differing_metadata:
        yield tr(
            "The shards have different metadata ({keys}); the new files have those of the last "
            "shard.",
            keys=listed(checkpoint.differing_metadata),
        )


def _copied(checkpoint: TorchCheckpoint) -> Iterator[str]:
    if checkpoint.layout is None:
        yield tr(
            "Only the values of pruned elements change; all else stays byte for byte. The old "
            "format of torch.save has no place for the recipe."
        )
    elif checkpoint.has_moments():
        yield tr(
            "Only the values of pruned elements change, and their moments if that is chosen. The "
            "pickle and all other values stay byte for byte."
        )
    else:
        yield tr(
            "Only the values of pruned elements change. The pickle and all other values stay byte "
            "for byte."
        )
    storages = {
        root: {
            tensor.untyped_storage().data_ptr()
            for _, tensor in tensors_of(state)
            if tensor.layout == torch.strided and tensor.numel() and not tensor.is_meta
        }
        for root, state in state_dicts(checkpoint.content).items()
    }
    own = storages.get(checkpoint.root, set())
    for root, found in storages.items():
        if root != checkpoint.root and not own.isdisjoint(found):
            yield tr(
                "The state dict {name!r} has the same values in the file; it is pruned, too.",
                name=name_of(root),
            )


def plan_note(plan: CompactPlan, target: OutputPath) -> str:
    """Return a summary of a plan for an output path."""
    units = join_clauses(
        tr(
            "{title}: {after:,} of {before:,}",
            title=tr(space.title),
            after=space.after,
            before=space.before,
        )
        for space in plan.spaces
    )
    kept = trn(
        "Keeps {count:,} of {total:,} parameter ({units}).",
        "Keeps {count:,} of {total:,} parameters ({units}).",
        plan.after.parameters,
        total=plan.before.parameters,
        units=units,
    )
    notes = (
        kept,
        _multiply_adds_note(plan),
        loading_note(plan, target),
        *inexact_notes(plan),
        *constant_notes(plan),
    )
    return " ".join(filter(None, notes))


def constant_notes(plan: CompactPlan) -> list[str]:
    """Return what happens to units that emit a constant, in a few sentences."""
    names = [tensor.name for tensor in plan.folded]
    folded = trn(
        "{count:,} parameter takes over the constants of removed units: {names}.",
        "{count:,} parameters take over the constants of removed units: {names}.",
        len(names),
        names=listed(names),
    )
    return [*([folded] if names else []), *unfolded_notes(plan.unfolded)]


def inexact_notes(plan: CompactPlan) -> list[str]:
    """Return why the network may compute something else than with zeros, one sentence each."""
    guess = tr(
        "Which channels belong together is a guess from the shapes and the order of the file: "
        "compare the outputs with those of the finalized form."
    )
    inexact = [
        tr(
            "Without the pruned {title} the network may compute something else than with zeros in "
            "their place: evaluate it.",
            title=tr(space.title),
        )
        for space in plan.spaces
        if not space.exact
    ]
    return [*([guess] if plan.guessed else []), *inexact]


def loading_note(plan: CompactPlan, target: OutputPath | None = None, name: str = "") -> str:
    """Return which programs load the result, in sentences.

    Without a target, it is from a new folder with a checkpoint of this name.
    """
    single = target is not None and not target.is_folder
    config_note = _config_note(plan, target.path.parent) if target and single else ""
    if plan.problems:
        return tr("No known program loads it: {problem}", problem=plan.problems[0])
    if plan.needs_loader:  # it has the changes of config.json, too
        config = plan.config or {}
        if config.get("architectures") and "auto_map" not in config:
            return tr("The loader script that is saved with it loads it.")
        return tr(
            "The loader script that is saved with it loads it into the original network, which "
            "your code builds: load(model)."
        )
    if plan.config is None and plan.changes:
        changes = _changes(plan)
        return tr("To load it, change these fields of the config: {changes}.", changes=changes)
    if single:
        return config_note
    main = target.main if target else name
    if main in OF_TRANSFORMERS:
        return tr("from_pretrained loads the folder.")
    usual = "model.safetensors" if SAFETENSORS.suffixes[0] in main else "pytorch_model.bin"
    index = ".index.json" if main.endswith(".index.json") else ""
    return tr(
        "from_pretrained loads the folder if {name} is called {usual}.",
        name=main,
        usual=usual + index,
    )


def _multiply_adds_note(plan: CompactPlan) -> str:
    before, after, size = plan.before.multiply_adds, plan.after.multiply_adds, plan.image_size
    if before is None or after is None:
        return ""
    if size is None:
        return tr(
            "Needs {after:,} of {before:,} multiply-adds per token.", after=after, before=before
        )
    return tr(
        "Needs {after:,} of {before:,} multiply-adds per image of {size} x {size}, with the "
        "strides of torchvision's networks.",
        after=after,
        before=before,
        size=size,
    )


def _config_note(plan: CompactPlan, folder: Path) -> str:
    if plan.config is None:
        return ""
    if not os.path.lexists(folder / CONFIG_NAME) or read_hf_config(folder)[0] == plan.config:
        return tr("The config.json that fits is saved beside it.")
    if not plan.changes:
        return ""
    return tr(
        "{path} stays as it is. To load the file, change these fields in a copy of it: {changes}.",
        path=folder / CONFIG_NAME,
        changes=_changes(plan),
    )


def _changes(plan: CompactPlan) -> str:
    return listed([f"{key}: {value}" for key, value in plan.changes.items()])
