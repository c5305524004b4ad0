"""`prune-gui methods`: the pruning methods and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from prune_gui.cli.options import as_json, own_methods, use_methods
from prune_gui.cli.printing import print_json, print_line


@click.command()
@own_methods
@as_json
def methods(own: Sequence[Path], *, as_json: bool) -> None:
    """List every method and its parameters."""
    from prune_gui.pruning.methods import METHODS, Method  # pydantic: slow to import

    use_methods(own)
    if as_json:
        print_json(
            {
                name: {**method.model_json_schema(), "source": method.source}
                for name, method in METHODS.items()
            }
        )
        return
    for name, method in METHODS.items():
        origin = "" if method.source == Method.source else f"  (from {method.source})"
        print_line(f"{name}{origin}")
        print_line(f"    {_first_line(method.__doc__)}")
        for field_name, field in method.model_fields.items():
            default = "required" if field.is_required() else f"{field.default}"
            print_line(f"    {field_name} [{default}]: {field.description}")
        print_line()
    print_line(
        "Infinity ranks above every finite score, and NaN above infinity: they are pruned last."
    )


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
