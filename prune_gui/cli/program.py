"""All commands as one program, and its exit codes."""

from __future__ import annotations

import logging
import sys
from typing import Final

import click

from prune_gui.cli.apply import apply
from prune_gui.cli.diff import diff
from prune_gui.cli.inspect import inspect
from prune_gui.cli.methods import methods
from prune_gui.cli.verify import verify
from prune_gui.cli.window import demo, open_window
from prune_gui.errors import Cancelled, PruneGuiError

log = logging.getLogger(__name__)

INPUT_PROBLEM: Final = 1
INTERRUPTED: Final = 130


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


for command in (open_window, inspect, apply, diff, verify, methods, demo):
    cli.add_command(command)


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
