"""The commands that open the window: on a checkpoint, or on the demo."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from prune_gui.cli.arguments import checkpoint_or_url, file, file_or_url, own_methods, use_methods
from prune_gui.cli.printing import print_line
from prune_gui.errors import PruneGuiError
from prune_gui.language import suggestion
from prune_gui.location import Location
from prune_gui.resources import resource

new_instance = click.option(
    "--new-instance", is_flag=True, help="Start another program, even if one runs already."
)


def _checked_path(
    ctx: click.Context, _param: click.Parameter, checkpoint: Location | None
) -> Path | None:
    """Return the path if it exists, or stands for a URL."""
    if checkpoint is None:
        return None
    if checkpoint.url is None and not os.path.exists(checkpoint):  # noqa: PTH110 - never raises
        group = ctx.find_root().command
        assert isinstance(group, click.Group)
        names = [name for name in group.list_commands(ctx) if name != "open"]
        meant = suggestion(str(checkpoint), names) or f" ({', '.join(names)})"
        problem = f"is neither a file or folder nor a command{meant}."
        raise click.UsageError(f"{str(checkpoint)!r} {problem}", ctx)
    return checkpoint.path


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


def _open(
    checkpoint: Path | None, recipe: Path | None, own: Sequence[Path], *, new_instance: bool
) -> int:
    gc.disable()  # until the window collects by itself: imports leave no garbage, but take longer
    from prune_gui.gui.runtime.qt_import import import_qt  # Qt: slow to import

    import_qt()  # before the modules that use it
    from prune_gui.gui.app import run

    return run(checkpoint, recipe, own, new_instance=new_instance)


@click.command()
@click.option("--out", type=file, default=Path("prune-gui-demo"), show_default=True)
@own_methods
@new_instance
def demo(out: Path, own: Sequence[Path], new_instance: bool) -> int:
    """Open the demo in the window.

    Without a display, prunes the checkpoint of the demo and saves the results in the folder OUT.
    """
    from prune_gui.gui.runtime.qt_import import display_problem  # for the window only

    checkpoint, recipe = (resource("demo", f"digits_cnn.{end}") for end in ("safetensors", "yaml"))
    if (problem := display_problem()) is None:
        return _open(checkpoint, recipe, own, new_instance=new_instance)
    print_line(f"No window: {problem} Running without a window.")
    print_line()
    with PruneGuiError.on_os_error("{out} cannot be created: {reason}.", out=out):
        out.mkdir(parents=True, exist_ok=True)
    from prune_gui.cli.apply import prune_and_save  # not for the window
    from prune_gui.recipe import OutputOptions, Recipe  # pydantic: slow to import

    outputs = {
        str(out / f"digits_cnn-{options.form}.safetensors"): options
        for options in (
            OutputOptions("finalized", overwrite=True),
            OutputOptions("reparametrized", overwrite=True),
        )
    }
    use_methods(own)
    prune_and_save(Recipe.load(recipe), Location(checkpoint), outputs, as_json=False)
    return 0


def _install(ctx: click.Context, _param: click.Parameter, is_given: bool) -> None:
    if is_given:
        from prune_gui.gui.desktop import install  # Qt: slow to import

        folder = install()
        print_line(
            f"Prune GUI is in the menus of the desktop now, and opens checkpoints from the file "
            f"manager. Its files are in {folder}; --uninstall-desktop removes them."
        )
        ctx.exit()


def _uninstall(ctx: click.Context, _param: click.Parameter, is_given: bool) -> None:
    if is_given:
        from prune_gui.gui.desktop import uninstall  # Qt: slow to import

        what = "removed from" if uninstall() else "not in"
        print_line(f"Prune GUI was {what} the menus of the desktop.")
        ctx.exit()


_alone: Final[dict[str, Any]] = {"is_flag": True, "is_eager": True, "expose_value": False}
install_desktop = click.option(
    "--install-desktop",
    **_alone,
    callback=_install,
    help="Add the program to the menus of the desktop and to the file manager, for this user.",
)
uninstall_desktop = click.option(
    "--uninstall-desktop",
    **_alone,
    callback=_uninstall,
    help="Remove what --install-desktop added.",
)
