"""`prune-gui part` and `prune-gui merge`: a job in parts, for batch systems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from prune_gui.cli.apply import load_recipe
from prune_gui.cli.opening import opened_checkpoint, print_warnings
from prune_gui.cli.options import (
    as_bytes,
    checkpoint_file,
    file,
    one_state,
    target,
    tensors_only,
)
from prune_gui.cli.printing import job as cli_job
from prune_gui.cli.printing import print_line
from prune_gui.location import Location
from prune_gui.monitor import Monitor


def _as_part(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[int, int]:
    """Return the numbers of a text such as 2/8."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise click.BadParameter(f"{text!r} is not a part such as 2/8.")
    return number, count


@click.command()
@click.argument("number", metavar="I/N", callback=_as_part)
@click.argument("recipe", type=file)
@click.argument("checkpoint", type=checkpoint_file)
@click.option("-o", "--out", type=target, required=True, help="Output file, or folder for shards.")
@click.option(
    "--work",
    type=file,
    required=True,
    help="Folder for the files of the parts, on a file system that all of them see.",
)
@click.option(
    "--form",
    type=click.Choice(["finalized", "reparametrized", "masks", "compact"]),
    default="finalized",
    show_default=True,
    help="As for apply.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, if it exists.")
@click.option(
    "--shard-size",
    callback=as_bytes,
    metavar="SIZE",
    help="Split the checkpoint into shards of this size, in the folder OUT.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait for the other parts, which must run at the same time, until all stages are done.",
)
@tensors_only
@one_state
def part(
    number: tuple[int, int],
    recipe: Path,
    checkpoint: Location,
    out: str,
    work: Path,
    state: str | None,
    *,
    wait: bool,
    **options: Any,  # noqa: ANN401 - fields of `OutputOptions`
) -> None:
    """Do part I of N of the work of apply, for arrays of a batch system such as SLURM.

    Each stage needs the results of all parts in the stage before it. With --wait, a part waits for
    them. Without it, a part does one stage and ends; run all parts again for the next stage, until
    they say that they are done. A part that was killed is run again. Then run merge.
    """
    from prune_gui.recipe.output import OutputOptions  # slow to import
    from prune_gui.recipe.shares import (  # torch: slow to import
        PartsMissingError,
        SharedJob,
        run_part,
    )

    with opened_checkpoint(checkpoint, state) as opened:
        shared = SharedJob(
            parts=number[1],
            recipe=load_recipe(recipe).to_yaml(),
            folder=str(recipe.absolute().parent),
            checkpoint=opened.url or str(checkpoint.path.absolute()),
            digest=opened.files_digest().hex(),
            state=state,
            out=Location.of(out).url or str(Path(out).absolute()),
            options=OutputOptions(**options),
        )
    work.mkdir(parents=True, exist_ok=True)
    with cli_job(f"Part {number[0]} of {number[1]}") as (progress, stop):
        try:
            run_part(shared, work, number[0], Monitor(progress, stop), wait=wait)
        except PartsMissingError as missing:
            print_line(str(missing))
            return
    print_line(f"Part {number[0]} of {number[1]} is done. When all are, run: merge {work}")


@click.command()
@click.argument("work", type=file)
def merge(work: Path) -> None:
    """Write the output of the parts in the folder WORK, and delete their files."""
    from prune_gui.recipe.shares import merge as merge_parts  # torch: slow to import

    with cli_job("Merging") as (progress, stop):
        job, resolution = merge_parts(work, Monitor(progress, stop))
    print_warnings(resolution.checkpoint)
    pruned, total = resolution.total
    print_line(f"Wrote {job.out} ({job.options.form}): {pruned:,} of {total:,} weights are pruned")
