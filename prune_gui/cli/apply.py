"""`prune-gui apply`: prune a checkpoint by a recipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prune_gui.cli.clusters import on_cluster
from prune_gui.cli.opening import opened_checkpoint
from prune_gui.cli.options import (
    as_bytes,
    as_json,
    checkpoint_file,
    cluster_address,
    copy_code,
    file,
    model_files,
    one_state,
    own_methods,
    own_table,
    target,
    tensors_only,
    unloadable,
    use_methods,
)
from prune_gui.cli.printing import MAX_NAME_LENGTH, aligned, job, print_json, print_line, shape_text
from prune_gui.errors import RecipeError, one_line
from prune_gui.language import merged
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.recipe import OutputOptions, Recipe, Resolution


@click.command()
@click.argument("recipe", type=file)
@click.argument("checkpoint", type=checkpoint_file)
@click.option(
    "-o",
    "--out",
    type=target,
    required=True,
    help="Output file, or folder for shards or a model; or the URL of one in an object store.",
)
@click.option(
    "--form",
    type=click.Choice(["finalized", "reparametrized", "masks", "compact"]),
    default="finalized",
    show_default=True,
    help="finalized: zeros in place; reparametrized: X_orig and X_mask as in torch; masks: the "
    "masks alone; compact: without the units that are pruned in all of their tensors.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace OUT, and the loader script saved with it, if they exist.",
)
@click.option(
    "--shard-size",
    callback=as_bytes,
    metavar="SIZE",
    help="Split the checkpoint into shards of this size, such as 500MB, 5GB or 2GiB, in the folder "
    "OUT.",
)
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
@tensors_only
@model_files
@copy_code
@unloadable
@own_table
@one_state
@own_methods
@cluster_address
@as_json
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

    use_methods(own)
    outputs = {out: OutputOptions(**options)}
    loaded = load_recipe(recipe, table)
    prune_and_save(loaded, checkpoint, outputs, as_json=as_json, state=state, cluster=cluster)


def load_recipe(path: Path, table: Path | None = None) -> Recipe:
    """Return the recipe in a file; "-" is standard input."""
    recipe = _loaded(path)
    return recipe if table is None else recipe.with_table(table)


def _loaded(recipe: Path) -> Recipe:
    from prune_gui.plain_yaml import MAX_BYTES
    from prune_gui.recipe import Recipe  # pydantic: slow to import

    if recipe != Path("-"):
        return Recipe.load(recipe)
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
    from prune_gui.monitor import Monitor
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
            entries = [part.entry for part in parts_to_write(resolution, options)]
            notes[out] = contents_note(resolution, target, options.form, entries, options)
        if as_json:
            print_json({**_result_json(resolution, outputs, notes), "loaders": loaders})
            return
        for row in _table(resolution):
            print_line(row)
        for number, outcome in enumerate(resolution.outcomes, 1):
            for names, note in merged(outcome.notes):
                more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
                subject = f"{names[0]}{more}: " if names[0] else ""  # a note on the whole step
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
    """Return the size of a file, or of all files in a folder, in bytes."""
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
            {
                **step.model_dump(mode="json"),
                "pruned": outcome.total[0],
                "notes": dict(outcome.notes),
            }
            for step, outcome in zip(resolution.recipe.steps, resolution.outcomes, strict=True)
        ],
        "parameters": {
            name: {"pruned": pruned_count, "total": count}
            for name, (pruned_count, count) in resolution.counts.items()
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
