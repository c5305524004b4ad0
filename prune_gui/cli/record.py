"""`prune-gui record`: scripts that record statistics of a model in the user's own loop."""

from __future__ import annotations

from typing import Final

import click

from prune_gui.cli.printing import print_line
from prune_gui.resources import resource

EXAMPLES: Final = ("torch", "huggingface", "lightning")


@click.command()
@click.option(
    "--example",
    required=True,
    is_flag=False,
    flag_value=EXAMPLES[0],
    type=click.Choice(EXAMPLES),
    help="The library that runs the model; torch by default.",
)
def record(example: str) -> None:
    """Print a script that records statistics of a model, to rank its weights by them.

    Statistics come from the data and the loop of the user, so that no command can record them.
    """
    script = resource("calibration", f"record_{example}.py").read_text(encoding="utf-8")
    for line in script.splitlines():
        print_line(line)
