"""`prune-gui compact`: remove the pruned units of a checkpoint, or tell what that would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prune_gui.cli.apply import load_recipe, prune_and_save
from prune_gui.cli.opening import opened_checkpoint
from prune_gui.cli.options import (
    as_json,
    checkpoint_file,
    copy_code,
    file,
    model_files,
    one_state,
    own_methods,
    own_table,
    target,
    unloadable,
    use_methods,
)
from prune_gui.cli.printing import aligned, job, print_json, print_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.recipe import Recipe
    from prune_gui.recipe.compaction.plan import CompactPlan


@click.command()
@click.argument("checkpoint", type=checkpoint_file)
@click.option(
    "--recipe",
    type=file,
    help="Recipe to apply first. By default, the zeros in the file count as pruned.",
)
@click.option("-o", "--out", type=target, help="Output file or folder.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@model_files
@copy_code
@unloadable
@own_table
@one_state
@own_methods
@as_json
def compact(
    checkpoint: Location,
    recipe: Path | None,
    out: str | None,
    state: str | None,
    own: Sequence[Path],
    table: Path | None,
    *,
    dry_run: bool,
    allow_unloadable: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - further fields of `OutputOptions`
) -> None:
    """Remove the units of a checkpoint that are pruned in all of their tensors."""
    if dry_run == (out is not None):
        raise click.UsageError("Give either --dry-run or --out.")
    use_methods(own)
    steps = load_recipe(recipe, table) if recipe is not None else _zeros().with_table(table)
    if out is not None:
        from prune_gui.recipe import OutputOptions  # slow to import

        prune_and_save(
            steps,
            checkpoint,
            {out: OutputOptions("compact", allow_unloadable=allow_unloadable, **options)},
            as_json=as_json,
            state=state,
        )
        return
    plan, warnings = _plan(steps, checkpoint, state, allow_unloadable=allow_unloadable)
    if as_json:
        print_json({"checkpoint": str(checkpoint), "warnings": list(warnings), **_plan_json(plan)})
    else:
        for line in _lines(plan):
            print_line(line)


def _zeros() -> Recipe:
    from prune_gui.recipe import Recipe  # pydantic: slow to import

    return Recipe(start="zeros")


def _plan(
    recipe: Recipe, path: Location, state: str | None, *, allow_unloadable: bool
) -> tuple[CompactPlan, tuple[str, ...]]:
    """Return the plan of the compact form, with its problems, and the warnings of the file."""
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import resolve  # torch: slow to import
    from prune_gui.recipe.compaction.network import architecture_of
    from prune_gui.recipe.compaction.plan import check_source, planned

    with opened_checkpoint(path, state) as opened, job("Looking for units") as (progress, stop):
        check_source(opened)
        architecture = architecture_of(opened, recipe.table_path)
        resolution = resolve(recipe, opened, progress, stop)
        plan = planned(
            resolution, architecture, Monitor(progress, stop), allow_unloadable=allow_unloadable
        )
        return plan, opened.warnings


def _plan_json(plan: CompactPlan) -> dict[str, object]:
    return {
        "before": asdict(plan.before),
        "after": asdict(plan.after),
        "image_size": plan.image_size,
        "units": [asdict(space) for space in plan.spaces],
        "removed": list(plan.removed),
        "config": dict(plan.changes),
        "folded": [asdict(tensor) for tensor in plan.folded],
        "constant": [asdict(units) for units in plan.unfolded],
        "guessed": plan.guessed,
        "loads_with": _loads_with(plan),
        "problems": list(plan.problems),
    }


def _loads_with(plan: CompactPlan) -> str | None:
    """Return what loads the result; None if no known program does."""
    if plan.problems:
        return None
    return "loader script" if plan.needs_loader else "from_pretrained"


def _sample(plan: CompactPlan) -> str:
    """Return what the multiply-adds are counted for."""
    size = plan.image_size
    return f"image of {size} x {size}" if size else "token"


def _lines(plan: CompactPlan) -> Iterator[str]:
    from prune_gui.recipe.compaction.folding import unfolded_notes  # torch: slow to import
    from prune_gui.recipe.compaction.note import inexact_notes, loading_note

    before, after = plan.before, plan.after
    rows = [("", "Before", "After", "Share")]
    for name, old, new in (
        ("Tensors", before.tensors, after.tensors),
        ("Parameters", before.parameters, after.parameters),
        ("Bytes", before.nbytes, after.nbytes),
        (f"Multiply-adds per {_sample(plan)}", before.multiply_adds, after.multiply_adds),
        *((space.title, space.before, space.after) for space in plan.spaces),
    ):
        if old is not None and new is not None:
            rows.append((name, f"{old:,}", f"{new:,}", f"{new / max(1, old):.1%}"))
    yield from aligned(rows)
    if plan.image_size:
        yield "The multiply-adds assume the strides of torchvision's networks."
    for key, value in plan.changes.items():
        yield f"config.json: {key} becomes {value}"
    for tensor in plan.folded:
        yield (
            f"{tensor.name}: takes over the constants of {tensor.units:,} removed units; "
            f"{tensor.changed:,} elements change"
        )
    for problem in plan.problems:
        yield f"Problem: {problem}"
    if not plan.problems:
        yield f"Loading: {loading_note(plan)}"
    yield from inexact_notes(plan)
    yield from unfolded_notes(plan.unfolded)
