"""What the compact form keeps and which programs load it, in sentences for the user."""

from __future__ import annotations

import os
from pathlib import Path

from prune_gui.checkpoint.surroundings import CONFIG_NAME
from prune_gui.language import join_clauses, listed, tr, trn
from prune_gui.recipe.compaction.folding import unfolded_notes
from prune_gui.recipe.compaction.network import read_config
from prune_gui.recipe.compaction.plan import CompactPlan
from prune_gui.recipe.output import OutputPath


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


def loading_note(plan: CompactPlan, target: OutputPath | None = None) -> str:
    """Return which programs load the result, in sentences; without a target, from a new folder."""
    single = target is not None and not target.is_folder
    config_note = _config_note(plan, target.path.parent) if target and single else ""
    if plan.problems:
        return tr("No known program loads it: {problem}", problem=plan.problems[0])
    if plan.needs_loader:
        loader_note = tr("The loader script that is saved with it loads it.")
        return f"{loader_note} {config_note}".rstrip()
    if plan.config is None and plan.changes:
        changes = _changes(plan)
        return tr("To load it, change these fields of the config: {changes}.", changes=changes)
    return config_note if single else tr("from_pretrained loads the folder.")


def _multiply_adds_note(plan: CompactPlan) -> str:
    """Return the multiply-adds before and after in a sentence; "" if they are not known."""
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
    """Return a sentence on the config.json beside a single file; "" if there is nothing to say."""
    if plan.config is None:
        return ""
    if not os.path.lexists(folder / CONFIG_NAME) or read_config(folder) == plan.config:
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
