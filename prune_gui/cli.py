"""The command line: the window, and everything that it does without one."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.byte_counts import parse_bytes
from prune_gui.errors import Cancelled, PruneGuiError, one_line
from prune_gui.resources import resource

if TYPE_CHECKING:
    from prune_gui.audit.report import Report, Row
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.monitor import Progress
    from prune_gui.recipe import Form, Resolution

log = logging.getLogger(__name__)

INPUT_PROBLEM, INTERRUPTED = 1, 130
LONGEST_NAME, LONGEST_LINE, ROLES_AT_MOST = 200, 2000, 8

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
file = click.Path(path_type=Path)
one_state = click.option(
    "--state",
    metavar="NAME",
    help="Which state dict of a training checkpoint to open; the largest, unless told.",
)
own_methods = click.option(
    "--methods",
    "own",
    type=file,
    multiple=True,
    help="A Python file of pruning methods. Naming it here runs it; may be given several times.",
)


def _bytes(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """Return how many bytes a text such as 500MB, 5GB or 2GiB means."""
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


class _WindowByDefault(click.Group):
    """A group whose first word may be a checkpoint instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help", "--version"):
            args = ["open", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_WindowByDefault, options_metavar="[CHECKPOINT] [--recipe FILE] [--methods FILE] |"
)
@click.version_option(package_name="prune-gui")
def cli() -> None:
    """Prune neural networks: in a window, or from here.

    With a CHECKPOINT, or nothing, the window opens.
    """


@cli.command("open", hidden=True)
@click.argument("checkpoint", type=file, required=False)
@click.option("--recipe", type=file, help="A recipe to begin with.")
@own_methods
def open_window(checkpoint: Path | None, recipe: Path | None, own: Sequence[Path]) -> int:
    """Open the window."""
    from prune_gui.gui.app import run

    return run(checkpoint, recipe, own)


@cli.command()
@click.argument("checkpoint", type=file)
@one_state
@as_json
def inspect(checkpoint: Path, state: str | None, *, as_json: bool) -> None:
    """Show the tree of a checkpoint: shapes, types, sparsity, warnings."""
    from prune_gui.audit.report import report
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.recipe import Recipe, resolve

    with open_checkpoint(checkpoint, state) as opened:
        with _job("Counting zeros") as (progress, stop):
            zeros = report(resolve(Recipe(start="zeros"), opened, progress, stop))
        if as_json:
            _print_json(_described(opened, zeros))
        else:
            _print_tree(opened, zeros)


@cli.command()
@click.argument("recipe", type=file)
@click.argument("checkpoint", type=file)
@click.option(
    "-o",
    "--out",
    type=click.Path(),
    required=True,
    help="The file to write, or a folder of shards.",
)
@click.option(
    "--form",
    type=click.Choice(["finalized", "reparametrized", "masks"]),
    default="finalized",
    show_default=True,
    help="Zeros in place; X_orig and X_mask as torch keeps them; or the masks alone.",
)
@click.option(
    "--overwrite", is_flag=True, help="Replace OUT, and what is written beside it, if it exists."
)
@click.option(
    "--shard-size",
    callback=_bytes,
    metavar="SIZE",
    help="Split the checkpoint into shards of this size, as 500MB, 5GB or 2GiB, in the folder OUT.",
)
@one_state
@own_methods
@as_json
def apply(
    recipe: Path,
    checkpoint: Path,
    out: str,
    form: Form,
    shard_size: int | None,
    state: str | None,
    own: Sequence[Path],
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Prune a checkpoint by a recipe and save the result."""
    _load_methods(own)
    _apply(
        recipe,
        checkpoint,
        {out: form},
        overwrite=overwrite,
        as_json=as_json,
        shard_size=shard_size,
        state=state,
    )


@cli.command()
@own_methods
@as_json
def methods(own: Sequence[Path], *, as_json: bool) -> None:
    """List every method and its parameters."""
    from prune_gui.pruning.methods import METHODS, Method

    _load_methods(own)
    if as_json:
        _print_json(
            {
                name: {**method.model_json_schema(), "source": method.source}
                for name, method in METHODS.items()
            }
        )
        return
    for name, method in METHODS.items():
        origin = "" if method.source == Method.source else f"  (from {method.source})"
        click.echo(f"{name}{origin}\n    {_summary(method.__doc__)}")
        for field_name, field in method.model_fields.items():
            given = "required" if field.is_required() else f"{field.default}"
            click.echo(f"    {field_name} [{given}]: {field.description}")
        click.echo()


@cli.command()
@click.option("--out", type=file, default=Path("prune-gui-demo"), show_default=True)
@own_methods
def demo(out: Path, own: Sequence[Path]) -> int:
    """Open the window on the demo.

    On a machine without a display the same job is done here, and its results go to the folder OUT.
    """
    checkpoint = resource("demo", "digits_cnn.safetensors")
    recipe = resource("demo", "digits_cnn.yaml")
    from prune_gui.gui.display import display_problem

    problem = display_problem()
    if problem is None:
        from prune_gui.gui.app import run

        return run(checkpoint, recipe, own)
    click.echo(f"No window: {problem} Doing the same job without one.\n")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PruneGuiError(f"{out} cannot be made: {error.strerror}.") from error
    outputs: dict[str, Form] = {
        str(out / "digits_cnn-finalized.safetensors"): "finalized",
        str(out / "digits_cnn-reparametrized.safetensors"): "reparametrized",
    }
    _load_methods(own)
    _apply(recipe, checkpoint, outputs, overwrite=True, as_json=False)
    return 0


def main() -> None:
    """Run the command line and exit: 0 done, 1 a problem with the input, 2 usage, 130 Ctrl-C."""
    from prune_gui.session import start_log

    log_path = start_log()
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (Cancelled, click.Abort, KeyboardInterrupt):
        click.echo(str(Cancelled()), err=True)
        sys.exit(INTERRUPTED)
    except PruneGuiError as error:
        click.echo(f"prune-gui: {error}", err=True)
        sys.exit(INPUT_PROBLEM)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(INPUT_PROBLEM)
    except Exception:
        log.exception("A fault of the program")
        click.echo(f"prune-gui: a fault of the program; the log {log_path} has it.", err=True)
        sys.exit(INPUT_PROBLEM)


def _load_methods(own: Sequence[Path]) -> None:
    """Load the methods of installed packages, then those of the files that the user named."""
    from prune_gui.pruning.plugins import load_methods, use_installed

    for problem in use_installed():
        click.echo(f"prune-gui: {problem}", err=True)
    for path in own:
        load_methods(path)


def _apply(
    recipe_path: Path,
    checkpoint: Path,
    outputs: Mapping[str, Form],
    *,
    overwrite: bool,
    as_json: bool,
    shard_size: int | None = None,
    state: str | None = None,
) -> None:
    from prune_gui.audit.report import report
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.recipe import Recipe, Target, export, loader_path, resolve

    recipe = Recipe.load(recipe_path)
    with open_checkpoint(checkpoint, state) as opened:
        with _job("Pruning") as (progress, stop):
            resolution = resolve(recipe, opened, progress, stop)
        for out, form in outputs.items():
            with _job(f"Saving {Path(out).name}") as (progress, stop):
                export(resolution, out, form, overwrite, progress, stop, shard_size)
        loaders = [
            str(loader_path(Target.of(opened, out, shard_size)))
            for out, form in outputs.items()
            if form == "reparametrized"
        ]
        if as_json:
            _print_json({**_applied(resolution, outputs), "loaders": loaders})
            return
        for row in _table(report(resolution)):
            click.echo(row)
        for number, outcome in enumerate(resolution.outcomes, 1):
            for about, note in outcome.notes.items():
                click.echo(f"Note on step {number}: {about}: {note}")
        for out, form in outputs.items():
            click.echo(f"Wrote {out} ({form}, {_written(out):,} bytes)")
        for loader in loaders:
            click.echo(f"Wrote {loader} (its load(model) loads that into a model)")


def _written(out: str) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    path = Path(out)
    return sum(file.stat().st_size for file in (path.iterdir() if path.is_dir() else [path]))


def _applied(resolution: Resolution, outputs: Mapping[str, Form]) -> dict[str, object]:
    pruned, total = resolution.total
    return {
        "checkpoint": str(resolution.checkpoint.path),
        "files": [
            {"path": out, "form": form, "bytes": _written(out)} for out, form in outputs.items()
        ],
        "pruned": pruned,
        "total": total,
        "steps": [
            {
                **step.model_dump(mode="json"),
                "pruned": sum(outcome.pruned.values()),
                "notes": dict(outcome.notes),
            }
            for step, outcome in zip(resolution.recipe.steps, resolution.outcomes, strict=True)
        ],
        "parameters": {
            name: {"pruned": gone, "total": count}
            for name, (gone, count) in resolution.counts.items()
        },
    }


def _described(checkpoint: Checkpoint, zeros: Report) -> dict[str, object]:
    from prune_gui.checkpoint import module_tree

    rows = {row.name: row for row in zeros.rows}
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "files": [str(path) for path in checkpoint.files],
        "description": checkpoint.description,
        "state_dict": checkpoint.state_dict,
        "state_dicts": list(checkpoint.candidates),
        "warnings": list(checkpoint.warnings),
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
            {"path": node.path, "kind": node.kind, "inferred": True}
            for node in module_tree(checkpoint.tensors.values()).walk()
            if node.kind
        ],
    }


def _print_tree(checkpoint: Checkpoint, zeros: Report) -> None:
    from prune_gui.checkpoint import module_tree

    rows = {row.name: row for row in zeros.rows}
    lines: list[tuple[str, ...]] = []
    waiting = [(0, child) for child in reversed(module_tree(checkpoint.tensors.values()).children)]
    while waiting:
        depth, node = waiting.pop()
        label = "  " * depth + one_line(node.name, LONGEST_NAME)
        kind = f"{node.kind}?" if node.kind else ""  # it is inferred
        cells = _cells(node.tensor, rows) if node.tensor else ("", kind, "", "")
        lines.append((label, *cells))
        waiting += [(depth + 1, child) for child in reversed(node.children)]
    size = sum(info.nbytes for info in checkpoint.tensors.values())
    shards = f"{len(checkpoint.files):,} shards, " if len(checkpoint.files) > 1 else ""
    path = one_line(str(checkpoint.path))
    click.echo(
        f"{path}: {checkpoint.format}, {shards}{len(checkpoint.tensors):,} tensors, "
        f"{zeros.total.total:,} prunable parameters, {size:,} bytes"
    )
    if checkpoint.description:
        click.echo(f"Model: {checkpoint.description}")
    for line in _aligned([("Module", "Shape", "Type", "Parameters", "Zeros"), *lines]):
        click.echo(line)
    for key, value in checkpoint.metadata.items():
        for line in f"{key}: {value}".splitlines():
            click.echo(one_line(line, LONGEST_LINE))
    for note in _roles(checkpoint):
        click.echo(note)
    for warning in checkpoint.warnings:
        click.echo(f"Warning: {warning}")


def _roles(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what the first few tensors that are parts of a weight are for it."""
    parts = [info for info in checkpoint.tensors.values() if info.role]
    for info in parts[:ROLES_AT_MOST]:
        yield one_line(f"{info.name}: {info.role}", LONGEST_LINE)
    if len(parts) > ROLES_AT_MOST:
        yield f"and {len(parts) - ROLES_AT_MOST:,} more like these; --json names all"


def _cells(info: TensorInfo, rows: Mapping[str, Row]) -> tuple[str, str, str, str]:
    row = rows.get(info.name)
    zeros = f"{row.sparsity:.1%}" if row else info.not_prunable or ""
    return _shape(info.shape), info.dtype, f"{info.numel:,}", zeros


def _table(pruned: Report) -> Iterator[str]:
    touched = [row for row in pruned.rows if row.pruned] or list(pruned.rows)
    lines = [
        (
            one_line(row.name, LONGEST_NAME),
            _shape(row.shape),
            f"{row.pruned:,}",
            f"{row.total:,}",
            f"{row.sparsity:.1%}",
        )
        for row in (*touched, pruned.total)
    ]
    return _aligned([("Parameter", "Shape", "Pruned", "Of", "Sparsity"), *lines])


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines with the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]
        yield "  ".join(cells).rstrip()


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _print_json(value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text.encode(errors="backslashreplace").decode())  # names of files may be no text


@contextmanager
def _job(title: str) -> Iterator[tuple[Progress | None, threading.Event]]:
    """Give what shows progress on standard error, if that is a terminal, and what Ctrl-C sets.

    Ctrl-C a second time stops the program wherever it is.
    """
    stop = threading.Event()

    def interrupt(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        if sys.stderr.isatty():
            with click.progressbar(length=1, label=title, file=sys.stderr, width=0) as bar:

                def show(done: int, total: int) -> None:
                    bar.length = total
                    bar.update(done - bar.pos)

                yield show, stop
        else:
            yield None, stop
    finally:
        signal.signal(signal.SIGINT, before)


def _summary(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
