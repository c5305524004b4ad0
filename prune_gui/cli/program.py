"""The program with all its commands, and its exit codes."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Final, NoReturn

import click

from prune_gui.cli.launching import install_desktop, uninstall_desktop
from prune_gui.cli.printing import Interrupted
from prune_gui.errors import Cancelled, PruneGuiError, one_line
from prune_gui.memory import OutOfMemoryError, is_out_of_memory
from prune_gui.pruning.kernels.numba_control import ignore_config_file
from prune_gui.session import start_log

log = logging.getLogger(__name__)

INPUT_PROBLEM: Final = 1
INTERRUPTED: Final = 130


COMMANDS: Final = {
    "open": "launching:open_window",
    "demo": "launching:demo",
    "apply": "apply:apply",
    "merge": "apply:merge",
    "part": "apply:part",
    "compact": "compact:compact",
    "diff": "diff:diff",
    "evaluate": "evaluate:evaluate",
    "scan": "evaluate:scan",
    "inspect": "inspect:inspect",
    "methods": "methods:methods",
    "record": "methods:record",
    "reconstruct": "reconstruct:reconstruct",
    "report": "report:report",
    "search": "recipe_search:search",
    "trace": "trace:trace",
    "training": "methods:training",
    "verify": "verify:verify",
}
"""The function of each command, as "module:name" in this package; imported when it is needed."""


class _WindowByDefault(click.Group):
    """A group whose first argument may be a checkpoint instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own_options = (name for option in self.get_params(ctx) for name in option.opts)
        if not args or args[0] not in (*self.list_commands(ctx), *own_options):
            args = ["open", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, _: click.Context) -> list[str]:
        return sorted({*COMMANDS, *self.commands})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        module, function = COMMANDS[name].split(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), function)
        return command


@click.group(
    cls=_WindowByDefault,
    options_metavar="[CHECKPOINT] [--recipe FILE] [--methods FILE] [--new-instance] |",
)
@click.version_option(package_name="prune-gui", prog_name="prune-gui")
@install_desktop
@uninstall_desktop
def cli() -> None:
    """Prune neural networks in a window or on the command line.

    Without a COMMAND, the window opens, with CHECKPOINT if it is given.
    """


def run() -> NoReturn:
    """Run the command that `sys.argv` names, and exit; see `prune_gui.cli.main`."""
    ignore_config_file()
    log_path = start_log()
    code, message = _run_command(log_path)
    if message and sys.stderr:
        with suppress(OSError):
            click.echo(f"prune-gui: {message}", err=True)
    _discard_unwritable_output()
    sys.exit(code)


def _run_command(log_path: Path | None) -> tuple[int, str]:
    """Run a command, and return its exit code and the message for standard error, or ""."""
    log_hint = f" The log {log_path} has more." if log_path else ""
    try:
        os.getcwd()  # noqa: PTH109 - only to check; oneMKL ends a process without a working folder
    except OSError:
        return INPUT_PROBLEM, "the working folder no longer exists. Change to another folder."
    try:
        return int(cli.main(standalone_mode=False) or 0), ""
    except click.ClickException as error:
        vars(error)["message"] = one_line(error.message)  # it repeats arguments, such as file names
        usage = StringIO()
        error.show(usage)
        for line in usage.getvalue().splitlines():
            click.echo(one_line(line.expandtabs(2)), err=True)
        return error.exit_code, ""
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED, str(Cancelled())
    except PruneGuiError as error:
        return error.exit_code if isinstance(error, Interrupted) else INPUT_PROBLEM, str(error)
    except BrokenPipeError:
        return INPUT_PROBLEM, ""
    except ImportError as error:
        log.exception("A library cannot be loaded")
        reason = one_line(str(error)).rstrip(".")
        advice = "Close other programs, or install Prune GUI again."
        if reason.endswith("shared object file: No such file or directory"):
            advice = "Install the package of your system that has this file."
        return INPUT_PROBLEM, f"a library cannot be loaded: {reason}. {advice}{log_hint}"
    except OSError as error:
        log.exception("The operating system reported an error")
        file = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return INPUT_PROBLEM, one_line(f"{file}{error.strerror or error}.") + log_hint
    except Exception as error:
        if is_out_of_memory(error):
            log.exception("There is not enough memory")
            return INPUT_PROBLEM, str(OutOfMemoryError(error))
        log.exception("Internal error")
        what = one_line(f"{type(error).__name__}: {error}")
        return INPUT_PROBLEM, f"internal error ({what}).{log_hint}"


def _discard_unwritable_output() -> None:
    """Discard unwritable output, which Python would otherwise try to write, and report, at exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
