"""The commands that open the window: on a checkpoint, or on the demo."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli.apply import prune_and_save
from prune_gui.cli.options import (
    checkpoint_or_url,
    file,
    file_or_url,
    new_instance,
    own_methods,
    use_methods,
)
from prune_gui.cli.printing import print_line
from prune_gui.errors import PruneGuiError
from prune_gui.location import Location
from prune_gui.resources import resource

if TYPE_CHECKING:
    from prune_gui.recipe import Form


def _checked_path(
    ctx: click.Context, _param: click.Parameter, checkpoint: Location | None
) -> Path | None:
    """Return the path if it exists, or stands for a URL."""
    if checkpoint is None:
        return None
    if checkpoint.url is None and not os.path.exists(checkpoint):  # noqa: PTH110 - never raises
        group = ctx.find_root().command
        named_commands = group.commands.items() if isinstance(group, click.Group) else ()
        commands = ", ".join(name for name, command in named_commands if not command.hidden)
        raise click.UsageError(
            f"{str(checkpoint)!r} is neither a file or folder nor a command ({commands}).", ctx
        )
    return checkpoint.path


def _open(
    checkpoint: Path | None, recipe: Path | None, own: Sequence[Path], *, new_instance: bool
) -> int:
    # Qt: slow to import
    from prune_gui.gui.runtime.qt_import import import_qt

    import_qt()  # before the modules that use it
    from prune_gui.gui.app import run

    return run(checkpoint, recipe, own, new_instance=new_instance)


@click.command("open", hidden=True)
@click.argument("checkpoint", type=checkpoint_or_url, required=False, callback=_checked_path)
@click.option("--recipe", type=file_or_url, help="Recipe to load.")
@own_methods
@new_instance
def open_window(
    checkpoint: Path | None, recipe: Path | None, own: Sequence[Path], new_instance: bool
) -> int:
    """Open the window. If the program runs already, its window opens the checkpoint."""
    return _open(checkpoint, recipe, own, new_instance=new_instance)


@click.command()
@click.option("--out", type=file, default=Path("prune-gui-demo"), show_default=True)
@own_methods
@new_instance
def demo(out: Path, own: Sequence[Path], new_instance: bool) -> int:
    """Open the demo in the window.

    Without a display, prunes the checkpoint of the demo and saves the results in the folder OUT.
    """
    checkpoint = resource("demo", "digits_cnn.safetensors")
    recipe = resource("demo", "digits_cnn.yaml")
    from prune_gui.gui.runtime.qt_import import display_problem  # for the window only

    problem = display_problem()
    if problem is None:
        return _open(checkpoint, recipe, own, new_instance=new_instance)
    print_line(f"No window: {problem} Running without a window.")
    print_line()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PruneGuiError(f"{out} cannot be created: {error.strerror}.") from error
    from prune_gui.recipe import OutputOptions, Recipe  # pydantic: slow to import

    forms: tuple[Form, ...] = ("finalized", "reparametrized")
    outputs = {
        str(out / f"digits_cnn-{form}.safetensors"): OutputOptions(form, overwrite=True)
        for form in forms
    }
    use_methods(own)
    prune_and_save(Recipe.load(recipe), Location(checkpoint), outputs, as_json=False)
    return 0
