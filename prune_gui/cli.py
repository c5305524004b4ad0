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

from prune_gui.errors import Cancelled, PruneGuiError
from prune_gui.resources import resource

if TYPE_CHECKING:
    from prune_gui.audit.report import Report, Row
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.monitor import Progress
    from prune_gui.recipe import Form, Resolution

log = logging.getLogger(__name__)

INPUT_PROBLEM, INTERRUPTED = 1, 130

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
file = click.Path(path_type=Path)


class _WindowByDefault(click.Group):
    """A group whose first word may be a checkpoint instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help", "--version"):
            args = ["open", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_WindowByDefault, options_metavar="[CHECKPOINT] [--recipe FILE] |")
@click.version_option(package_name="prune-gui")
def cli() -> None:
    """Prune neural networks: in a window, or from here.

    With a CHECKPOINT, or nothing, the window opens.
    """


@cli.command("open", hidden=True)
@click.argument("checkpoint", type=file, required=False)
@click.option("--recipe", type=file, help="A recipe to begin with.")
def open_window(checkpoint: Path | None, recipe: Path | None) -> int:
    """Open the window."""
    from prune_gui.gui.app import run

    return run(checkpoint, recipe)


@cli.command()
@click.argument("checkpoint", type=file)
@as_json
def inspect(checkpoint: Path, *, as_json: bool) -> None:
    """Show the tree of a checkpoint: shapes, types, sparsity, warnings."""
    from prune_gui.audit.report import report
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.recipe import Recipe, resolve

    with open_checkpoint(checkpoint) as opened:
        with _job("Counting zeros") as (progress, stop):
            zeros = report(resolve(Recipe(start="zeros"), opened, progress, stop))
        if as_json:
            _print_json(_described(opened, zeros))
        else:
            _print_tree(opened, zeros)


@cli.command()
@click.argument("recipe", type=file)
@click.argument("checkpoint", type=file)
@click.option("-o", "--out", type=file, required=True, help="The file to write.")
@click.option(
    "--form",
    type=click.Choice(["finalized", "reparametrized", "masks"]),
    default="finalized",
    show_default=True,
    help="Zeros in place; X_orig and X_mask as torch keeps them; or the masks alone.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@as_json
def apply(
    recipe: Path, checkpoint: Path, out: Path, form: Form, *, overwrite: bool, as_json: bool
) -> None:
    """Prune a checkpoint by a recipe and save the result."""
    _apply(recipe, checkpoint, {out: form}, overwrite=overwrite, as_json=as_json)


@cli.command()
@as_json
def methods(*, as_json: bool) -> None:
    """List every method and its parameters."""
    from prune_gui.pruning.methods import METHODS

    if as_json:
        _print_json({name: method.model_json_schema() for name, method in METHODS.items()})
        return
    for name, method in METHODS.items():
        click.echo(f"{name}\n    {_summary(method.__doc__)}")
        for field_name, field in method.model_fields.items():
            given = "required" if field.is_required() else f"{field.default}"
            click.echo(f"    {field_name} [{given}]: {field.description}")
        click.echo()


@cli.command()
@click.option("--out", type=file, default=Path("prune-gui-demo"), show_default=True)
def demo(out: Path) -> int:
    """Open the window on the demo.

    On a machine without a display the same job is done here, and its results go to the folder OUT.
    """
    checkpoint = resource("demo", "digits_cnn.safetensors")
    recipe = resource("demo", "digits_cnn.yaml")
    from prune_gui.gui.display import display_problem

    problem = display_problem()
    if problem is None:
        from prune_gui.gui.app import run

        return run(checkpoint, recipe)
    click.echo(f"No window: {problem} Doing the same job without one.\n")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PruneGuiError(f"{out} cannot be made: {error.strerror}.") from error
    outputs: dict[Path, Form] = {
        out / "digits_cnn-finalized.safetensors": "finalized",
        out / "digits_cnn-reparametrized.safetensors": "reparametrized",
    }
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


def _apply(
    recipe_path: Path,
    checkpoint: Path,
    outputs: Mapping[Path, Form],
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    from prune_gui.audit.report import report
    from prune_gui.checkpoint import open_checkpoint
    from prune_gui.recipe import Recipe, export, resolve

    recipe = Recipe.load(recipe_path)
    with open_checkpoint(checkpoint) as opened:
        with _job("Pruning") as (progress, stop):
            resolution = resolve(recipe, opened, progress, stop)
        for out, form in outputs.items():
            with _job(f"Saving {out.name}") as (progress, stop):
                export(resolution, out, form, overwrite, progress, stop)
        if as_json:
            _print_json(_applied(resolution, outputs))
            return
        for row in _table(report(resolution)):
            click.echo(row)
        for number, outcome in enumerate(resolution.outcomes, 1):
            for about, note in outcome.notes.items():
                click.echo(f"Note on step {number}: {about}: {note}")
        for out, form in outputs.items():
            click.echo(f"Wrote {out} ({form}, {out.stat().st_size:,} bytes)")


def _applied(resolution: Resolution, outputs: Mapping[Path, Form]) -> dict[str, object]:
    pruned, total = resolution.total
    return {
        "checkpoint": str(resolution.checkpoint.path),
        "files": [
            {"path": str(out), "form": form, "bytes": out.stat().st_size}
            for out, form in outputs.items()
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
    rows = {row.name: row for row in zeros.rows}
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
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
                "zeros": rows[info.name].pruned if info.name in rows else None,
            }
            for info in checkpoint.tensors.values()
        ],
    }


def _print_tree(checkpoint: Checkpoint, zeros: Report) -> None:
    from prune_gui.checkpoint import module_tree

    rows = {row.name: row for row in zeros.rows}
    lines: list[tuple[str, ...]] = []
    waiting = [(0, child) for child in reversed(module_tree(checkpoint.tensors.values()).children)]
    while waiting:
        depth, node = waiting.pop()
        label = "  " * depth + node.name
        lines.append((label, *_cells(node.tensor, rows)) if node.tensor else (label, *[""] * 4))
        waiting += [(depth + 1, child) for child in reversed(node.children)]
    size = sum(info.nbytes for info in checkpoint.tensors.values())
    click.echo(
        f"{checkpoint.path}: {checkpoint.format}, {len(checkpoint.tensors):,} tensors, "
        f"{zeros.total.total:,} prunable parameters, {size:,} bytes"
    )
    for line in _aligned([("Module", "Shape", "Type", "Parameters", "Zeros"), *lines]):
        click.echo(line)
    for key, value in checkpoint.metadata.items():
        click.echo(f"{key}: {value}")
    for warning in checkpoint.warnings:
        click.echo(f"Warning: {warning}")


def _cells(info: TensorInfo, rows: Mapping[str, Row]) -> tuple[str, str, str, str]:
    row = rows.get(info.name)
    zeros = f"{row.sparsity:.1%}" if row else info.not_prunable or ""
    return _shape(info.shape), info.dtype, f"{info.numel:,}", zeros


def _table(pruned: Report) -> Iterator[str]:
    touched = [row for row in pruned.rows if row.pruned] or list(pruned.rows)
    lines = [
        (row.name, _shape(row.shape), f"{row.pruned:,}", f"{row.total:,}", f"{row.sparsity:.1%}")
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
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


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
