"""`prune-gui trace`: the units of a network, from the code that builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli import arguments
from prune_gui.cli.printing import aligned, job, print_json, print_lines
from prune_gui.location import Location
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    from prune_gui.architecture.tables import ArchitectureTable


@click.command()
@click.argument("builder", metavar="FILE.py:FUNCTION")
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "-o", "--out", type=arguments.file, required=True, help="The table to write, a YAML file."
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@arguments.one_state
@arguments.as_json
def trace(
    builder: str,
    checkpoint: Location,
    out: Path,
    state: str | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Find the units of a network by running it, and write the table of its architecture.

    FUNCTION takes nothing and returns a torch.nn.Module and an example input: a tensor, a tuple of
    arguments, or a dictionary of named ones. It runs with all your rights, in a process of its own.
    Other commands take the table with --table; they need no code.
    """
    from prune_gui.checkpoint.write import documents
    from prune_gui.tracing.naming import as_yaml
    from prune_gui.tracing.process import trace_file

    out = documents.document_path(out, documents.RECIPE_SUFFIXES)
    documents.check_documents([out], overwrite=overwrite)
    with (
        arguments.opened_checkpoint(checkpoint, state) as opened,
        job("Tracing the network") as (progress, stop),
    ):
        table = trace_file(builder, opened, Monitor(progress, stop))
    documents.write_documents({out: as_yaml(table).encode()}, overwrite=overwrite)
    if as_json:
        print_json({"table": str(out), "units": _counts(table), "unknown": list(table.unknown)})
    else:
        print_lines(_lines(table))


def _counts(table: ArchitectureTable) -> list[dict[str, object]]:
    return [
        {
            "space": name,
            "groups": len(space.groups),
            "units": sum(group.size for group in space.groups),
            "exact": space.exact,
            "loadable_with": list(space.loadable_with),
        }
        for name, space in table.spaces.items()
    ]


def _lines(table: ArchitectureTable) -> Iterator[str]:
    header = ("space", "groups", "units", "without them")
    rows = []
    for name, space in table.spaces.items():
        note = "as with zeros" if space.exact else "other outputs than with zeros"
        if space.loadable_with:
            note = f"only with the same share of {', '.join(space.loadable_with)}"
        units = sum(group.size for group in space.groups)
        rows.append((name, f"{len(space.groups):,}", f"{units:,}", note))
    yield from aligned([header, *rows])
    yield from table.unknown
