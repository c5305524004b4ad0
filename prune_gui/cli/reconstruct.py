"""`prune-gui reconstruct`: prune a model block by block, with calibration data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from prune_gui.cli import arguments
from prune_gui.cli.apply import load_recipe
from prune_gui.cli.printing import (
    Interrupted,
    StatusLine,
    aligned,
    job,
    number_of,
    print_json,
    print_line,
    print_lines,
)
from prune_gui.monitor import Monitor
from prune_gui.number_formats import duration, short_bytes

if TYPE_CHECKING:
    import torch

    from prune_gui.reconstruction.block import LayerError
    from prune_gui.reconstruction.folder import FolderRun, Plan
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
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=4e-4,
    show_default=True,
    help="Learning rate of --tune.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Limit of the pieces or lines of text, or of the rows of token ids.",
)
@click.option(
    "--length",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Tokens of a sample of text; samples of token ids keep theirs.",
)
@click.option(
    "--damping",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="Share of the mean diagonal of the second moments that is added to it.",
)
@click.option(
    "--spread",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="How much the amounts of layers may differ from that of their step, 0.1 for example; more "
    "is pruned where the output of the block suffers less, and as much of each block.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order in tuning.")
@click.option(
    "--device",
    default="automatic",
    show_default=True,
    help="Where to compute: cpu, gpu, or a device of torch such as cuda:1.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists, also if it is FOLDER.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only check everything, and say what would be done and how much memory it takes.",
)
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
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - further fields of `Options`
) -> None:
    """Prune a model of transformers in FOLDER block by block, so that its outputs change least.

    Each block is pruned on what the pruned blocks before it give for the calibration data. Only
    one block is in memory. OUT gets the weights, config.json, the tokenizer and all small files.

    After Ctrl-C, or if the program is ended in any other way, the same command goes on after the
    last finished block, with the same result. The finished blocks are in OUT.unfinished.
    """
    from prune_gui.pruning.devices import find_device
    from prune_gui.recipe import OutputOptions
    from prune_gui.reconstruction.folder import CalibrationFile, FolderRun
    from prune_gui.reconstruction.running import Options

    arguments.use_methods(own)
    computing_on = find_device(device)
    status = StatusLine()
    lines = _ProgressLines(computing_on, status, is_shown=not as_json)
    try:
        with (
            job("Reconstructing", with_bar=False) as (_, stop),
            status.shown("Reading the calibration data"),
            FolderRun.opened(
                folder,
                load_recipe(recipe),
                CalibrationFile(calibration, samples, length),
                out,
                options=Options(choose=masks == "solve", **options),
                output=OutputOptions(overwrite=overwrite),
                device=computing_on,
            ) as run,
        ):
            if dry_run:
                plan = run.plan()
            else:
                lines.begin(run)
                result = run.run(Monitor(lines.count, stop), lines.show)
    except Interrupted as interrupted:
        done = number_of(lines.done, "block")
        message = f"Stopped after {done}; what is done is kept. Repeat the command to go on."
        raise Interrupted(
            interrupted.exit_code, message if lines.done else str(interrupted)
        ) from None
    if dry_run:
        print_json(asdict(plan)) if as_json else print_lines(_plan_lines(plan))
    elif as_json:
        print_json({"out": str(out), "blocks": [asdict(block) for block in result.blocks]})
    else:
        print_lines(_lines(out, result))


class _ProgressLines:
    """A line for each finished block, with the time that is left and the memory in use.

    On a terminal, the last line tells the last layer.
    """

    def __init__(self, device: torch.device, status: StatusLine, *, is_shown: bool) -> None:
        from prune_gui.reconstruction.running import Pace

        self._device = device
        self._status = status
        self._is_shown = is_shown
        self._pace = Pace()
        self._total = 0
        self.done = 0

    def count(self, done: int, _total: int) -> None:
        """Say which block begins, or that all are finished."""
        text = f"Block {done + 1} of {self._total}" if done < self._total else "Writing"
        if text != self._status.label:
            self._status.begin(text)

    def begin(self, run: FolderRun) -> None:
        """Say what runs."""
        self._total = len(run.blocks)
        self._status.begin("")
        if self._is_shown:
            folder = run.unfinished.folder
            blocks = number_of(len(run.blocks), "block")
            print_line(f"{blocks}; those that are finished are kept in {folder}")

    def show(self, found: LayerError | BlockError) -> None:
        from prune_gui.reconstruction.running import BlockError, memory_in_use

        self._pace.take(found)
        if not isinstance(found, BlockError):
            error = "" if found.error is None else f", error {found.error:.2%}"
            self._status.begin(f"Block {self.done + 1} of {self._total}: {found.name}{error}")
            return
        self.done = found.number + 1
        self._status.begin("")
        if not self._is_shown:
            return
        left = self._pace.seconds_left(self._total - self.done)
        parts = [f"error {found.before:.2%}"]
        if found.after != found.before:
            parts[0] += f", {found.after:.2%} after training"
        if left is None:
            parts.append("finished before")
        elif self.done < self._total:
            parts.append(f"about {duration(left)} left")
        parts.append(f"{short_bytes(memory_in_use(self._device))} of memory")
        print_line(f"Block {self.done} of {self._total}: {'; '.join(parts)}")


def _plan_lines(plan: Plan) -> Iterator[str]:
    finished = f", {plan.finished} finished before" if plan.finished else ""
    yield f"{plan.model}: {number_of(plan.blocks, 'block')} in {plan.list_name}{finished}"
    pruned, total = (sum(getattr(one, of) for one in plan.layers) for of in ("pruned", "total"))
    layers = f"{number_of(len(plan.layers), 'layer')} to prune"
    yield f"{layers}: {pruned:,} of {total:,} weights, {pruned / total:.2%}"
    patterns = Counter((layer.pattern, layer.is_chosen, layer.spread) for layer in plan.layers)
    for (pattern, is_chosen, spread), count in patterns.items():
        masks = "masks chosen in the solve" if is_chosen else "masks of the recipe"
        yield f"  {number_of(count, 'layer')}: {pattern}; {masks}"
        if spread:
            yield f"    The share of a layer may differ by up to {spread}, not that of a block."
    yield f"Calibration: {number_of(plan.samples, 'sample')}, {number_of(plan.tokens, 'token')}"
    yield f"Memory: about {short_bytes(plan.memory)}; disk: {short_bytes(plan.disk)}"


def _lines(out: Path, result: Reconstruction) -> Iterator[str]:
    kept = sum(layer.kept for layer in result.layers)
    total = sum(layer.total for layer in result.layers)
    yield f"{out}: {1 - kept / total:.2%} of {total:,} weights in the blocks are pruned."
    known = [(layer.error, layer) for layer in result.layers if layer.error is not None]
    rows = [("Largest errors of layers", "", "")]
    for error, layer in sorted(known, key=lambda pair: -pair[0])[:WORST]:
        rows.append((layer.name, f"{error:.2%}", layer.note))
    yield from aligned(rows)
