"""The options that add the program to the menus of the desktop, and remove it again."""

from __future__ import annotations

import click

from prune_gui.cli.printing import print_line


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

        if uninstall():
            print_line("Prune GUI was removed from the menus of the desktop.")
        else:
            print_line("Prune GUI was not in the menus of the desktop.")
        ctx.exit()


install_desktop = click.option(
    "--install-desktop",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_install,
    help="Add the program to the menus of the desktop and to the file manager, for this user.",
)
uninstall_desktop = click.option(
    "--uninstall-desktop",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_uninstall,
    help="Remove what --install-desktop added.",
)
