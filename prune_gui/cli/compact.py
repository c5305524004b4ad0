"""`prune-gui compact`: remove the pruned units of a checkpoint, or tell what that would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prune_gui.cli import arguments
from prune_gui.cli.apply import load_recipe, prune_and_save
from prune_gui.cli.printing import aligned, job, number_of, print_json, print_lines
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.recipe.compaction.plan import CompactPlan


@click.command()
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "--recipe",
    type=arguments.file,
    help="Recipe to apply first. By default, the zeros in the file count as pruned.",
)
@click.option("-o", "--out", type=arguments.target, help="Output file or folder.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@arguments.model_files
@arguments.copy_code
@arguments.unloadable
@arguments.own_table
@arguments.one_state
@arguments.own_methods
@arguments.device
@arguments.as_json
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
    from prune_gui.recipe import OutputOptions, resolve  # torch: slow to import
    from prune_gui.recipe.compaction.network import architecture_of
    from prune_gui.recipe.compaction.plan import check_source, planned

    arguments.use_methods(own)
    steps = load_recipe(recipe, table, start="zeros")
    if out is not None:
        output = OutputOptions("compact", allow_unloadable=allow_unloadable, **options)
        prune_and_save(steps, checkpoint, {out: output}, as_json=as_json, state=state)
        return
    with (
        arguments.opened_checkpoint(checkpoint, state) as opened,
        job("Looking for units") as (progress, stop),
    ):
        check_source(opened)
        architecture = architecture_of(opened, steps.table_path)
        resolution = resolve(steps, opened, progress, stop)
        monitor = Monitor(progress, stop)
        plan = planned(resolution, architecture, monitor, allow_unloadable=allow_unloadable)
    if as_json:
        print_json({"checkpoint": str(checkpoint), "warnings": opened.warnings, **_plan_json(plan)})
    else:
        print_lines(_lines(plan, opened.path.name))


def _plan_json(plan: CompactPlan) -> dict[str, object]:
    loader = "loader script" if plan.needs_loader else "from_pretrained"
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
        "loads_with": None if plan.problems else loader,
        "problems": list(plan.problems),
    }


def _lines(plan: CompactPlan, name: str) -> Iterator[str]:
    from prune_gui.recipe.compaction.folding import unfolded_notes  # torch: slow to import
    from prune_gui.recipe.contents_note import inexact_notes, loading_note

    before, after, size = plan.before, plan.after, plan.image_size
    sample = f"image of {size} x {size}" if size else "token"
    rows = [("", "Before", "After", "Share")]
    for title, old, new in (
        ("Tensors", before.tensors, after.tensors),
        ("Parameters", before.parameters, after.parameters),
        ("Bytes", before.nbytes, after.nbytes),
        (f"Multiply-adds per {sample}", before.multiply_adds, after.multiply_adds),
        *((space.title, space.before, space.after) for space in plan.spaces),
    ):
        if old is not None and new is not None:
            rows.append((title, f"{old:,}", f"{new:,}", f"{new / max(1, old):.1%}"))
    yield from aligned(rows)
    if plan.image_size:
        yield "The multiply-adds assume the strides of torchvision's networks."
    for key, value in plan.changes.items():
        yield f"config.json: {key} becomes {value}"
    for tensor in plan.folded:
        units, elements = number_of(tensor.units, "unit"), number_of(tensor.changed, "element")
        yield f"{tensor.name}: takes over the constants of {units}, which changes {elements}"
    for problem in plan.problems:
        yield f"Problem: {problem}"
    if not plan.problems:
        yield f"Loading: {loading_note(plan, name=name)}"
    yield from inexact_notes(plan)
    yield from unfolded_notes(plan.unfolded)
