"""`prune-gui inspect`: what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from prune_gui.checkpoint import module_tree
from prune_gui.cli.options import as_json, file, one_state
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    aligned,
    job,
    print_json,
    print_line,
    shape_text,
)
from prune_gui.errors import one_line

if TYPE_CHECKING:
    from prune_gui.audit.pruned_counts import PrunedCounts, Row
    from prune_gui.checkpoint import Checkpoint, TensorInfo

MAX_SHOWN_ROLES: Final = 8


@click.command()
@click.argument("checkpoint", type=file)
@one_state
@as_json
def inspect(checkpoint: Path, state: str | None, *, as_json: bool) -> None:
    """Show the tree of a checkpoint: shapes, types, sparsity, warnings."""
    from prune_gui.audit.pruned_counts import pruned_counts  # torch: slow to import
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.recipe import Recipe, resolve

    with open_checkpoint(checkpoint, state) as opened:
        with job("Counting zeros") as (progress, stop):
            zeros = pruned_counts(resolve(Recipe(start="zeros"), opened, progress, stop))
        if as_json:
            print_json(_checkpoint_json(opened, zeros))
        else:
            _print_tree(opened, zeros)


def _checkpoint_json(checkpoint: Checkpoint, zeros: PrunedCounts) -> dict[str, object]:

    rows = {row.name: row for row in zeros.rows}
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "files": [str(path) for path in checkpoint.files],
        "description": checkpoint.description,
        "state_dict": checkpoint.state_dict,
        "state_dicts": list(checkpoint.candidates),
        "warnings": [*checkpoint.warnings, *_provenance_remarks(checkpoint)],
        "metadata": dict(checkpoint.metadata),
        "parameters": zeros.total.total,
        "zeros": zeros.total.pruned,
        "tensors": [
            {
                "name": info.name,
                "shape": list(info.shape),
                "dtype": info.dtype,
                "bytes": info.nbytes,
                "aliases": list(info.aliases),
                "reparametrized": info.pair is not None,
                "not_prunable": info.not_prunable,
                "role": info.role,
                "zeros": rows[info.name].pruned if info.name in rows else None,
            }
            for info in checkpoint.tensors.values()
        ],
        "modules": [
            {"path": node.path, "kind": node.module_type, "inferred": True}
            for node in module_tree(checkpoint.tensors.values()).walk()
            if node.module_type
        ],
    }


def _print_tree(checkpoint: Checkpoint, zeros: PrunedCounts) -> None:

    rows = {row.name: row for row in zeros.rows}
    lines: list[tuple[str, ...]] = []
    stack = [(0, child) for child in reversed(module_tree(checkpoint.tensors.values()).children)]
    while stack:
        depth, node = stack.pop()
        label = "  " * depth + one_line(node.name, MAX_NAME_LENGTH)
        kind = f"{node.module_type}?" if node.module_type else ""  # "?": the type is inferred
        cells = _cells(node.tensor, rows) if node.tensor else ("", kind, "", "")
        lines.append((label, *cells))
        stack += [(depth + 1, child) for child in reversed(node.children)]
    size = sum(info.nbytes for info in checkpoint.tensors.values())
    shards = f"{len(checkpoint.files):,} shards, " if len(checkpoint.files) > 1 else ""
    print_line(
        f"{checkpoint.path}: {checkpoint.format}, {shards}{len(checkpoint.tensors):,} tensors, "
        f"{zeros.total.total:,} prunable parameters, {size:,} bytes"
    )
    if checkpoint.description:
        print_line(f"Model: {checkpoint.description}")
    for line in aligned([("Module", "Shape", "Type", "Parameters", "Zeros"), *lines]):
        print_line(line)
    for key, value in checkpoint.metadata.items():
        first, *more = value.splitlines() or [""]
        print_line(f"Metadata {key}: {first}")
        for line in more:
            print_line(
                f"    {line}"
            )  # indented, so that it cannot be mistaken for a line of the program
    for note in _role_lines(checkpoint):
        print_line(note)
    for warning in (*checkpoint.warnings, *_provenance_remarks(checkpoint)):
        print_line(f"Warning: {warning}")


def _provenance_remarks(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the problems with the provenance that the metadata record."""
    from prune_gui.recipe.provenance import Provenance  # pydantic: slow to import

    provenance = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
    return provenance.remarks if provenance else ()


def _role_lines(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield a line on the role of each tensor that is part of a weight, up to `MAX_SHOWN_ROLES`."""
    with_role = [info for info in checkpoint.tensors.values() if info.role]
    for info in with_role[:MAX_SHOWN_ROLES]:
        yield f"{info.name}: {info.role}"
    if len(with_role) > MAX_SHOWN_ROLES:
        yield f"and {len(with_role) - MAX_SHOWN_ROLES:,} more like these; --json lists all"


def _cells(info: TensorInfo, rows: Mapping[str, Row]) -> tuple[str, str, str, str]:
    row = rows.get(info.name)
    zeros = f"{row.sparsity:.1%}" if row else info.not_prunable or ""
    return shape_text(info.shape), info.dtype, f"{info.numel:,}", zeros
