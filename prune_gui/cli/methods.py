"""`prune-gui methods`: the pruning methods and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from prune_gui.cli.arguments import as_json, own_methods, use_methods
from prune_gui.cli.printing import print_json, print_line, print_lines
from prune_gui.resources import resource


@click.command()
@own_methods
@as_json
def methods(own: Sequence[Path], *, as_json: bool) -> None:
    """List every method and its parameters."""
    from prune_gui.pruning.methods import METHODS, Method  # pydantic: slow to import

    use_methods(own)
    if as_json:
        schemas = {name: method.model_json_schema() for name, method in METHODS.items()}
        print_json({name: {**schemas[name], "source": METHODS[name].source} for name in METHODS})
        return
    for name, method in METHODS.items():
        origin = "" if method.source == Method.source else f"  (from {method.source})"
        print_line(f"{name}{origin}")
        description = (method.__doc__ or "").strip().partition("\n")[0]
        print_line(f"    {description}")
        for field_name, field in method.model_fields.items():
            default = "required" if field.is_required() else f"{field.default}"
            print_line(f"    {field_name} [{default}]: {field.description}")
        print_line()
    print_line(
        "Infinity ranks above every finite score, and NaN above infinity: they are pruned last."
    )


EXAMPLES: Final = ("torch", "huggingface", "lightning")

example_option = click.option(
    "--example",
    required=True,
    is_flag=False,
    flag_value=EXAMPLES[0],
    type=click.Choice(EXAMPLES),
    help="The library that runs the model; torch by default.",
)


@click.command()
@example_option
def record(example: str) -> None:
    """Print a script that records statistics of a model, to rank its weights by them.

    Statistics come from the data and the loop of the user, so that no command can record them.
    """
    _print_script("calibration", f"record_{example}.py")


@click.command()
@example_option
def training(example: str) -> None:
    """Print a script that trains a pruned model under its masks, or prunes it while it is trained.

    Training is the loop of the user, so that no command can run it.
    """
    _print_script("training", f"train_{example}.py")


def _print_script(*path: str) -> None:
    script = resource(*path).read_text(encoding="utf-8")
    print_lines(script.splitlines())
