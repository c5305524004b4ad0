"""`prune-gui apply`: prune a checkpoint by a recipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from prune_gui.cli import arguments
from prune_gui.cli.arguments import on_cluster, opened_checkpoint
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    aligned,
    and_more,
    job,
    print_json,
    print_line,
    print_lines,
    shape_text,
)
from prune_gui.errors import PartsMissingError, RecipeError, one_line
from prune_gui.language import merged
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.recipe import OutputOptions, Recipe, Resolution


@click.command()
@click.argument("recipe", type=arguments.file)
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "-o",
    "--out",
    type=arguments.target,
    required=True,
    help="Output file, or folder for shards or a model; or the URL of one in an object store.",
)
@arguments.form
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace OUT, and the loader script saved with it, if they exist.",
)
@arguments.shard_size
@click.option(
    "--compressed",
    is_flag=True,
    help="Compress a .pt file with deflate. torch.load reads it, but not with mmap=True.",
)
@click.option(
    "--zero-moments",
    is_flag=True,
    help="Also set the optimizer's moments of pruned elements to zero (finalized torch files).",
)
@arguments.tensors_only
@arguments.model_files
@arguments.copy_code
@arguments.unloadable
@arguments.own_table
@arguments.one_state
@arguments.own_methods
@arguments.device
@arguments.cluster_address
@arguments.as_json
def apply(
    recipe: Path,
    checkpoint: Location,
    out: str,
    state: str | None,
    own: Sequence[Path],
    table: Path | None,
    cluster: str | None,
    *,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - the fields of `OutputOptions`
) -> None:
    """Prune a checkpoint by a recipe and save the result. If RECIPE is -, reads standard input."""
    from prune_gui.recipe import OutputOptions  # slow to import

    _check_order(recipe, checkpoint)
    arguments.use_methods(own)
    outputs = {out: OutputOptions(**options)}
    loaded = load_recipe(recipe, table)
    prune_and_save(loaded, checkpoint, outputs, as_json=as_json, state=state, cluster=cluster)


def _check_order(recipe: Path, checkpoint: Location) -> None:
    from prune_gui.checkpoint.write.documents import RECIPE_SUFFIXES  # slow to import

    named_as_recipe = [path.suffix.lower() in RECIPE_SUFFIXES for path in (recipe, checkpoint.path)]
    if named_as_recipe == [False, True]:
        raise click.UsageError(f"{checkpoint} is a recipe. RECIPE comes before CHECKPOINT.")


def load_recipe(
    path: Path | None, table: Path | None = None, *, start: Literal["dense", "zeros"] = "dense"
) -> Recipe:
    """Return the recipe in a file, "-" is standard input; without one, a recipe without steps."""
    from prune_gui.recipe import Recipe  # pydantic: slow to import

    if path is None:
        recipe = Recipe(start=start)
    elif path == Path("-"):
        recipe = _recipe_on_standard_input()
    else:
        recipe = Recipe.load(path)
    return recipe if table is None else recipe.with_table(table)


def _recipe_on_standard_input() -> Recipe:
    from prune_gui.plain_yaml import MAX_BYTES
    from prune_gui.recipe import Recipe  # pydantic: slow to import

    if sys.stdin is None:
        raise RecipeError("Standard input is closed. Specify the file of the recipe in place of -.")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RecipeError(f"The recipe on standard input is larger than {MAX_BYTES:,} bytes.")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RecipeError("The recipe on standard input is not UTF-8 text.") from error
    return Recipe.from_yaml(text, source="The recipe on standard input")


def prune_and_save(
    recipe: Recipe,
    checkpoint: Location,
    outputs: Mapping[str, OutputOptions],
    *,
    as_json: bool,
    state: str | None = None,
    cluster: str | None = None,
) -> None:
    """Prune a checkpoint by a recipe, save it in some forms, and print what was pruned."""
    from prune_gui.cluster import use_cluster  # torch: slow to import
    from prune_gui.recipe import OutputPath, loader_path, resolve
    from prune_gui.recipe.contents_note import contents_note
    from prune_gui.recipe.exporting import loader_script, parts_to_write, write

    with opened_checkpoint(checkpoint, state) as opened, on_cluster(cluster) as client:
        _remove_interrupted(outputs)
        with job("Pruning") as (progress, stop):
            resolution = resolve(recipe, opened, progress, stop, client)
        for out, options in outputs.items():
            with job(f"Saving {Path(out).name}") as (progress, stop), use_cluster(client):
                write(resolution, out, options, Monitor(progress, stop))
        loaders, notes = [], {}
        for out, options in outputs.items():
            target = OutputPath.of(opened, out, options)
            if loader_script(resolution, target, options):
                loaders.append(str(Location.at(loader_path(target))))
            entries = parts_to_write(resolution, options)
            notes[out] = contents_note(resolution, target, options.form, entries, options)
        if as_json:
            print_json({**_result_json(resolution, outputs, notes), "loaders": loaders})
            return
        print_lines(_table(resolution))
        for number, outcome in enumerate(resolution.outcomes, 1):
            for names, note in merged(outcome.notes):
                subject = f"{and_more(names)}: " if names[0] else ""  # a note on the whole step
                print_line(f"Note on step {number}: {subject}{note}")
        for out, options in outputs.items():
            print_line(f"Wrote {out} ({options.form}, {_size_on_disk(out):,} bytes)")
            if notes[out]:
                print_line(f"Note: {notes[out]}")
        for loader in loaders:
            print_line(f"Wrote {loader} (load(model) in it loads the checkpoint into a model)")


def _remove_interrupted(outputs: Iterable[str]) -> None:
    """Remove what killed processes uploaded, and say so, if there are remote outputs."""
    if any(Location.of(out).url is not None for out in outputs):
        from prune_gui.checkpoint.remote.destination import remove_interrupted  # optional

        for url in remove_interrupted():
            print_line(f"Removed what an interrupted upload to {url} left.", err=True)


def _size_on_disk(out: str) -> int:
    if (url := Location.of(out).url) is not None:
        from prune_gui.checkpoint.remote.stores import stored_nbytes

        return stored_nbytes(url)
    path = Path(out)
    files = filter(Path.is_file, path.rglob("*")) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def _result_json(
    resolution: Resolution, outputs: Mapping[str, OutputOptions], notes: Mapping[str, str]
) -> dict[str, object]:
    pruned, total = resolution.total
    pairs = zip(resolution.recipe.steps, resolution.outcomes, strict=True)
    return {
        "checkpoint": str(resolution.checkpoint.location),
        "warnings": list(resolution.checkpoint.warnings),
        "files": [
            {"path": out, "form": options.form, "bytes": _size_on_disk(out), "note": notes[out]}
            for out, options in outputs.items()
        ],
        "pruned": pruned,
        "total": total,
        "steps": [
            {**step.model_dump(mode="json"), "pruned": one.total[0], "notes": dict(one.notes)}
            for step, one in pairs
        ],
        "parameters": {
            name: dict(zip(("pruned", "total"), counts, strict=True))
            for name, counts in resolution.counts.items()
        },
    }


def _table(resolution: Resolution) -> Iterator[str]:
    """Yield the lines of a table of what is pruned of the parameters, and in total."""
    tensors = resolution.checkpoint.tensors
    rows = [
        (one_line(name, MAX_NAME_LENGTH), shape_text(tensors[name].shape), pruned, total)
        for name, (pruned, total) in resolution.counts.items()
    ]
    shown = [row for row in rows if row[2]] or rows
    lines = [
        (name, shape, f"{pruned:,}", f"{total:,}", f"{pruned / max(total, 1):.1%}")
        for name, shape, pruned, total in (*shown, ("total", shape_text(()), *resolution.total))
    ]
    return aligned([("Parameter", "Shape", "Pruned", "Total", "Sparsity"), *lines])


def _as_part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise ValueError(f"{text!r} is not a part such as 2/8.")
    return number, count


@click.command()
@click.argument("number", metavar="I/N", callback=arguments.parsed_by(_as_part))
@click.argument("recipe", type=arguments.file)
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "-o", "--out", type=arguments.target, required=True, help="Output file, or folder for shards."
)
@click.option(
    "--work",
    type=arguments.file,
    required=True,
    help="Folder for the files of the parts, on a file system that all of them see.",
)
@arguments.form
@click.option("--overwrite", is_flag=True, help="Replace OUT, if it exists.")
@arguments.shard_size
@click.option(
    "--wait",
    is_flag=True,
    help="Wait for the other parts, which must run at the same time, until all stages are done.",
)
@arguments.tensors_only
@arguments.one_state
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
    from prune_gui.recipe.shares import SharedJob, run_part

    _check_order(recipe, checkpoint)
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
    title = f"Part {number[0]} of {number[1]}"
    with job(title) as (progress, stop):
        try:
            run_part(shared, work, number[0], Monitor(progress, stop), wait=wait)
        except PartsMissingError as missing:
            print_line(str(missing))
            return
    print_line(f"{title} is done. When all are, run: prune-gui merge {work}")


@click.command()
@click.argument("work", type=arguments.file)
def merge(work: Path) -> None:
    """Write the output of the parts in the folder WORK, and delete their files."""
    from prune_gui.recipe.shares import merge as merge_parts  # torch: slow to import

    with job("Merging") as (progress, stop):
        shared, resolution = merge_parts(work, Monitor(progress, stop))
    arguments.print_warnings(resolution.checkpoint)
    pruned, total = resolution.total
    what = f"{shared.out} ({shared.options.form})"
    print_line(f"Wrote {what}: {pruned:,} of {total:,} weights are pruned")
