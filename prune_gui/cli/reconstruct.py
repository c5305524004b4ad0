"""`prune-gui reconstruct`: prune a model block by block, with calibration data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from prune_gui.cli import arguments
from prune_gui.cli.apply import load_recipe
from prune_gui.cli.printing import aligned, job, print_json, print_line, print_lines
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.reconstruction.block import LayerError
    from prune_gui.reconstruction.running import BlockError, Reconstruction

WORST: Final = 5
"""Number of layers that are listed at the end."""


@click.command()
@click.argument("folder", type=arguments.file)
@click.option("--recipe", type=arguments.file, required=True, help="Recipe to prune by.")
@click.option(
    "--calibration",
    type=arguments.file,
    required=True,
    help="Text; a .safetensors file of token ids; or a .py file with a function batches().",
)
@click.option("-o", "--out", type=arguments.file, required=True, help="Output folder.")
@click.option(
    "--masks",
    type=click.Choice(["solve", "recipe"]),
    default="solve",
    show_default=True,
    help="Which weights are kept: chosen in the solve, as many and in the pattern that the recipe "
    "says; or those of the recipe.",
)
@click.option(
    "--tune",
    "tuning_steps",
    type=click.IntRange(min=0),
    default=0,
    metavar="STEPS",
    help="Then train the kept weights of each block for so many steps, 200 for example.",
)
@click.option(
    "--rate", type=float, default=4e-4, show_default=True, help="Learning rate of --tune."
)
@click.option("--samples", type=click.IntRange(min=1), default=128, show_default=True)
@click.option(
    "--length",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Tokens of a sample.",
)
@click.option(
    "--damping",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="Share of the mean diagonal of the second moments that is added to it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order in tuning.")
@click.option(
    "--device",
    default="automatic",
    show_default=True,
    help="Where to compute: cpu, gpu, or a device of torch such as cuda:1.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@arguments.own_methods
@arguments.as_json
def reconstruct(
    folder: Path,
    recipe: Path,
    calibration: Path,
    out: Path,
    masks: Literal["solve", "recipe"],
    samples: int,
    length: int,
    device: str,
    own: Sequence[Path],
    *,
    overwrite: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - further fields of `Options`
) -> None:
    """Prune a model of transformers in FOLDER block by block, so that its outputs change least.

    Each block is pruned on what the pruned blocks before it give for the calibration data. Only
    one block is in memory. After Ctrl-C, the same command goes on after the last finished block.
    """
    from prune_gui.pruning.devices import find_device
    from prune_gui.recipe import OutputOptions
    from prune_gui.reconstruction.folder import CalibrationFile, reconstruct_folder
    from prune_gui.reconstruction.running import Options

    arguments.use_methods(own)
    progress_lines = _ProgressLines(is_shown=not as_json)
    with job("Reconstructing", with_bar=False) as (_, stop):
        result = reconstruct_folder(
            folder,
            load_recipe(recipe),
            CalibrationFile(calibration, samples, length),
            out,
            options=Options(choose=masks == "solve", **options),
            output=OutputOptions(overwrite=overwrite),
            device=find_device(device),
            monitor=Monitor(progress_lines.count, stop),
            report=progress_lines.show,
        )
    if as_json:
        print_json({"out": str(out), "blocks": [asdict(block) for block in result.blocks]})
    else:
        print_lines(_lines(out, result))


class _ProgressLines:
    """A line for each finished block, with the time that is left."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._start = time.monotonic()
        self._total = 0

    def count(self, _done: int, total: int) -> None:
        self._total = total

    def show(self, found: LayerError | BlockError) -> None:
        from prune_gui.reconstruction.running import BlockError

        if not self._is_shown or not isinstance(found, BlockError):
            return
        done = found.number + 1
        seconds = time.monotonic() - self._start
        left = seconds / done * (self._total - done)
        tuned = f", {found.after:.2%} after tuning" if found.after != found.before else ""
        print_line(
            f"Block {done} of {self._total}: error {found.before:.2%}{tuned}; "
            f"{seconds:.0f} s, about {left:.0f} s left"
        )


def _lines(out: Path, result: Reconstruction) -> Iterator[str]:
    kept = sum(layer.kept for layer in result.layers)
    total = sum(layer.total for layer in result.layers)
    yield f"{out}: {1 - kept / total:.2%} of {total:,} weights in the blocks are pruned."
    known = [(layer.error, layer) for layer in result.layers if layer.error is not None]
    rows = [("Largest errors of layers", "", "")]
    for error, layer in sorted(known, key=lambda pair: -pair[0])[:WORST]:
        rows.append((layer.name, f"{error:.2%}", layer.note))
    yield from aligned(rows)
