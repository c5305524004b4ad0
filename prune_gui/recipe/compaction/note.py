"""What the compact form keeps and which programs load it, in sentences for the user."""

from __future__ import annotations

from prune_gui.language import join_clauses, listed, tr, trn
from prune_gui.recipe.compaction.plan import CompactPlan
from prune_gui.recipe.target import OutputPath


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
    return " ".join((kept, loading_note(plan, in_folder=target.is_folder), *inexact_notes(plan)))


def inexact_notes(plan: CompactPlan) -> list[str]:
    """Return a sentence for each space whose units may have an effect as long as they are zeros."""
    return [
        tr(
            "Without the pruned {title} the network may compute something else than with zeros in "
            "their place: evaluate it.",
            title=tr(space.title),
        )
        for space in plan.spaces
        if not space.exact
    ]


def loading_note(plan: CompactPlan, *, in_folder: bool) -> str:
    """Return which programs load the result, in a sentence for the user.

    Args:
        plan: the plan.
        in_folder: whether a folder is written, with config.json.
    """
    if plan.problems:
        return tr("No known program loads it: {problem}", problem=plan.problems[0])
    if plan.needs_loader:
        return tr("The loader script that is saved with it loads it.")
    if plan.config is None and plan.changes:
        changes = listed([f"{key}: {value}" for key, value in plan.changes.items()])
        return tr("To load it, change these fields of the config: {changes}.", changes=changes)
    if not in_folder:
        return tr("Save it to a folder to get the config.json that fits.")
    return tr("from_pretrained loads the folder.")
