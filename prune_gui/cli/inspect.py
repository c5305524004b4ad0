"""`prune-gui inspect`: what a checkpoint holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from prune_gui.architecture.weight_layouts import weight_layouts
from prune_gui.checkpoint import module_tree
from prune_gui.checkpoint.roles import KINDS, counted
from prune_gui.cli.arguments import as_json, checkpoint_file, cluster_address, on_cluster, one_state
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    aligned,
    and_more,
    job,
    number_of,
    print_json,
    print_lines,
    shape_text,
)
from prune_gui.errors import one_line
from prune_gui.language import merged
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, ModuleNode, TensorInfo
    from prune_gui.statistics.file_zeros import FileZeros


MAX_SHOWN_ROLES: Final = 8


@click.command()
@click.argument("checkpoint", type=checkpoint_file)
@one_state
@cluster_address
@as_json
def inspect(checkpoint: Location, state: str | None, cluster: str | None, *, as_json: bool) -> None:
    """Show the tree of a checkpoint: shapes, types, sparsity, warnings."""
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.statistics.zero_scan import ZeroScan  # torch: slow to import

    with open_checkpoint(checkpoint, state) as opened:
        with on_cluster(cluster), job("Counting zeros") as (progress, stop):
            zeros = ZeroScan(opened).advance(math.inf, Monitor(progress, stop))
        if as_json:
            print_json(_checkpoint_json(opened, zeros))
        else:
            print_lines(_lines(opened, zeros))


def _checkpoint_json(checkpoint: Checkpoint, zeros: FileZeros) -> dict[str, object]:
    layouts, patterns = weight_layouts(checkpoint), zeros.patterns
    return {
        "path": str(checkpoint.location),
        "format": checkpoint.format,
        "files": [str(Location.at(path)) for path in checkpoint.files],
        "description": checkpoint.description,
        "state_dict": checkpoint.state_dict,
        "state_dicts": list(checkpoint.candidates),
        "foreign": list(checkpoint.foreign),
        "warnings": _warnings(checkpoint),
        "metadata": dict(checkpoint.metadata),
        "parameters": zeros.elements,
        "zeros": zeros.zeros,
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
                "layout": layouts[info.name]._asdict() if info.name in layouts else None,
                "kind": info.kind,
                "zeros": zeros.counts.get(info.name),
                "patterns": patterns[info.name].fields() if info.name in patterns else None,
            }
            for info in checkpoint.tensors.values()
        ],
        "modules": [
            {"path": node.path, "kind": node.module_type, "inferred": node.is_type_inferred}
            for node in _tree(checkpoint).walk()
            if node.module_type
        ],
    }


def _layout_lines(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield a line for each layout of weights that are not (out, in, ...)."""
    layouts = weight_layouts(checkpoint).items()
    by_name = {name: layout.describe(checkpoint.tensors[name].shape) for name, layout in layouts}
    for names, described in merged(by_name):
        yield f"Layout {described}: {and_more(names)}"


def _lines(checkpoint: Checkpoint, zeros: FileZeros) -> Iterator[str]:
    lines: list[tuple[str, ...]] = [("Module", "Shape", "Type", "Parameters", "Zeros")]
    patterns = ["Patterns" if zeros.patterns else ""]
    stack = [(0, child) for child in reversed(_tree(checkpoint).children)]
    while stack:
        depth, node = stack.pop()
        label = "  " * depth + one_line(node.name, MAX_NAME_LENGTH)
        is_inferred = node.module_type and node.is_type_inferred
        kind = f"{node.module_type}?" if is_inferred else node.module_type  # "?": not in the file
        cells = _cells(node.tensor, zeros) if node.tensor else ("", kind, "", "")
        lines.append((label, *cells))
        patterns.append(zeros.describe(node.tensor.name) if node.tensor else "")
        stack += [(depth + 1, child) for child in reversed(node.children)]
    size = sum(info.nbytes for info in checkpoint.tensors.values())
    parameters, zero_count = zeros.elements, zeros.zeros
    shards = f"{len(checkpoint.files):,} shards, " if len(checkpoint.files) > 1 else ""
    yield (
        f"{checkpoint.location}: {checkpoint.format}, {shards}"
        f"{number_of(len(checkpoint.tensors), 'tensor')}, "
        f"{number_of(parameters, 'prunable parameter')}, {number_of(size, 'byte')}"
    )
    yield f"Zeros: {zero_count:,} of {parameters:,} ({_share(zero_count, parameters)})"
    if checkpoint.description:
        yield f"Model: {checkpoint.description}"
    for line, pattern in zip(aligned(lines), patterns, strict=True):
        yield f"{line}  {pattern}".rstrip()
    for key, value in checkpoint.metadata.items():
        first, *more = value.splitlines() or [""]
        yield f"Metadata {key}: {first}"
        for line in more:  # indented, so that it cannot be mistaken for a line of the program
            yield f"    {line}"
    yield from _layout_lines(checkpoint)
    yield from _role_lines(checkpoint)
    for warning in _warnings(checkpoint):
        yield f"Warning: {warning}"


def _tree(checkpoint: Checkpoint) -> ModuleNode:
    return module_tree(checkpoint.tensors.values(), checkpoint.module_classes)


def _warnings(checkpoint: Checkpoint) -> tuple[str, ...]:
    from prune_gui.recipe.recipe import Provenance  # pydantic: slow to import

    provenance = Provenance.of(checkpoint.metadata, checkpoint.path.parent)
    return (*checkpoint.warnings, *(provenance.remarks if provenance else ()))


def _role_lines(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield a line on the tensors that are no weights, and some on parts of weights and codes."""
    every = checkpoint.tensors.values()
    kinds = Counter(info.kind for info in every if info.kind is not None)
    if kinds:
        counts = ", ".join(counted(kind, count) for kind, count in kinds.items())
        yield f"Left out by patterns such as *: {counts}"
    if scaled := [info.name for info in every if info.scale is not None]:
        yield f"Shown and pruned as codes x scales: {and_more(scaled)}"
    with_role = [info for info in every if info.role and info.kind is None]
    for info in with_role[:MAX_SHOWN_ROLES]:
        yield f"{info.name}: {info.role}"
    if len(with_role) > MAX_SHOWN_ROLES:
        yield f"and {len(with_role) - MAX_SHOWN_ROLES:,} more like these; --json lists all"


def _cells(info: TensorInfo, zeros: FileZeros) -> tuple[str, str, str, str]:
    count = zeros.counts.get(info.name)
    share = _share(count, info.numel) if count is not None else info.not_prunable or ""
    kind = f"{info.dtype}, {KINDS[info.kind]}" if info.kind else info.dtype
    return shape_text(info.shape), kind, f"{info.numel:,}", share


def _share(count: int, total: int) -> str:
    return f"{count / max(total, 1):.1%}"
