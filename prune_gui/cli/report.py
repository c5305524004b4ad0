"""`prune-gui report`: a page that says what was pruned in one checkpoint or in several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli import arguments
from prune_gui.cli.arguments import on_cluster, opened_checkpoint
from prune_gui.cli.printing import MAX_NAME_LENGTH, aligned, job, print_json, print_lines
from prune_gui.errors import one_line
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.report.records import FileRecord, Layer, PairRecord, Report


@click.command()
@click.argument("files", type=arguments.checkpoint_file, nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--out", type=arguments.file, required=True, help="HTML file to write.")
@click.option(
    "--reference",
    type=arguments.file,
    help="The checkpoint before pruning, for kept energy, norms before and the zeros by step.",
)
@click.option("--csv", "table", type=arguments.file, help="CSV file to write, with all layers.")
@click.option("--paths", is_flag=True, help="Name the folders of the files in the report.")
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@arguments.one_state
@arguments.cluster_address
@arguments.as_json
def report(
    files: Sequence[Location],
    out: Path,
    reference: Path | None,
    table: Path | None,
    state: str | None,
    cluster: str | None,
    *,
    paths: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a page that says what was pruned in checkpoints, to read, print and send.

    The page is one HTML file without scripts that needs no network. Several FILEs are shown side
    by side, with the overlap of their zeros.
    """
    from prune_gui.report.collecting import report_on_files  # torch: slow to import
    from prune_gui.report.writing import check_targets, write

    with ExitStack() as stack:
        opened = [stack.enter_context(opened_checkpoint(path, state)) for path in files]
        before = stack.enter_context(opened_checkpoint(reference)) if reference else None
        out, table = check_targets(out, table, overwrite=overwrite)
        with on_cluster(cluster), job("Counting zeros") as (progress, stop):
            monitor = Monitor(progress, stop)
            result = report_on_files(opened, before, monitor, with_folders=paths)
        write(result, out, table, overwrite=overwrite)
        if as_json:
            print_json(
                {
                    "report": str(out),
                    "csv": str(table) if table else None,
                    "files": [_file_json(each) for each in result.files],
                    "pairs": [_pair_json(pair) for pair in result.pairs],
                    "versions": dict(result.versions),
                }
            )
            return
        print_lines(_lines(opened, result))
        written = (path for path in (out, table) if path is not None)
        print_lines(f"Wrote {path} ({path.stat().st_size:,} bytes)" for path in written)


def _lines(checkpoints: Sequence[Checkpoint], result: Report) -> Iterator[str]:
    lines = [
        (
            f"{each.label}  {one_line(str(checkpoint.location), MAX_NAME_LENGTH)}",
            f"{each.zeros:,}",
            f"{each.total:,}",
            f"{each.sparsity:.1%}",
            "-" if each.kept_energy is None else f"{each.kept_energy:.2%}",
        )
        for checkpoint, each in zip(checkpoints, result.files, strict=True)
    ]
    yield from aligned([("File", "Zeros", "Elements", "Sparsity", "Kept energy"), *lines])
    for pair in result.pairs:
        total = pair.total
        if not pair.layers:
            yield f"{pair.left} and {pair.right}: no layers in common"
            continue
        yield (
            f"{pair.left} and {pair.right}: IoU {total.iou:.3f}, {total.left:,} revived, "
            f"{total.right:,} newly zero"
        )


def _file_json(each: FileRecord) -> dict[str, object]:
    steps = [asdict(step) for step in each.steps or each.recorded]
    for step in steps:
        del step["number"]
    return {
        "label": each.label,
        "name": each.name,
        "folder": each.folder or None,
        "format": each.format,
        "fingerprint": each.fingerprint,
        "parameters": each.total,
        "zeros": each.zeros,
        "sparsity": each.sparsity,
        "kept_energy": each.kept_energy,
        "steps": steps,
        "steps_repeated": each.retraced,
        "warnings": list(each.warnings),
        "layers": [_layer_json(layer) for layer in each.layers],
    }


def _layer_json(layer: Layer) -> dict[str, object]:
    return {
        "name": layer.name,
        "shape": list(layer.shape),
        "dtype": layer.dtype,
        "elements": layer.total,
        "zeros": layer.zeros,
        "zeros_by_step": {str(code): count for code, count in layer.by_code.items()},
        "dead_channels": layer.dead_channels,
        "patterns": layer.patterns.fields() if layer.patterns else None,
        "kept_energy": layer.kept_energy,
        "norm_before": layer.norm_before,
        "norm_after": layer.norm,
        "warnings": list(layer.warnings),
    }


def _pair_json(pair: PairRecord) -> dict[str, object]:
    total = pair.total
    return {
        "a": pair.left,
        "b": pair.right,
        "iou": total.iou,
        "both": total.both,
        "revived": total.left,
        "newly_zero": total.right,
        "compared": len(pair.layers),
        "not_compared": pair.omitted,
    }
