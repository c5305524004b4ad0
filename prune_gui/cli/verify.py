"""`prune-gui verify`: check that checkpoints are what was saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from prune_gui.cli.arguments import as_json, checkpoint_file
from prune_gui.cli.printing import MAX_NAME_LENGTH, job, number_of, print_json, print_lines
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.recipe import Finding, Verification


@click.command()
@click.argument("files", type=checkpoint_file, nargs=-1, required=True, metavar="FILE...")
@as_json
def verify(files: Sequence[Location], *, as_json: bool) -> None:
    """Check the integrity of checkpoints.

    Reads the whole checkpoint. If this program saved it, checks the checksum of each tensor, and
    compares its number of zeros with the number of pruned elements. Otherwise, checks that all
    values are finite and that the records of a torch archive match their checksums. Values that
    were non-finite when the file was saved are reported as a note.

    FILE may be an index or a folder of shards, or a URL. If a check fails, prints the name of the
    tensor and exits with 1.
    """
    from prune_gui.recipe import verify as verify_file  # pydantic: slow to import

    results: list[Verification | PruneGuiError] = []
    for location in files:
        with job(f"Verifying {location.name}") as (progress, stop):
            try:
                results.append(verify_file(location, progress, stop))
            except PruneGuiError as error:
                if stop.is_set():
                    raise
                results.append(error)
    found = list(zip(files, results, strict=True))
    if as_json:
        print_json({"files": [_result_json(*each) for each in found]})
    else:
        print_lines(line for each in found for line in _lines(*each))
    if problems := [line for each in found for line in _problems(*each)]:
        more = f" And {len(problems) - 1:,} more." if len(problems) > 1 else ""
        raise PruneGuiError(f"{one_line(problems[0])}{more}")


def _lines(location: Location, result: Verification | PruneGuiError) -> Iterator[str]:
    yield from _problems(location, result)
    if isinstance(result, PruneGuiError):
        return
    for note in result.notes:
        yield f"{location}: note: {_finding_text(location, note)}"
    if not result.problems:
        compared = f", {result.compared:,} compared with checksums" if result.compared else ""
        size = f"{number_of(result.tensors, 'tensor')}, {number_of(result.nbytes, 'byte')}"
        yield f"{location}: sound: {size}{compared}"


def _problems(location: Location, result: Verification | PruneGuiError) -> list[str]:
    if isinstance(result, PruneGuiError):
        return [str(result)]
    return [f"{location}: {_finding_text(location, problem)}." for problem in result.problems]


def _finding_text(location: Location, finding: Finding) -> str:
    if finding.name == location.name:
        return finding.text
    return f"{one_line(finding.name, MAX_NAME_LENGTH)!r}: {finding.text}"


def _result_json(location: Location, result: Verification | PruneGuiError) -> dict[str, object]:
    if isinstance(result, PruneGuiError):
        return {"path": str(location), "sound": False, "error": str(result)}
    return {
        "path": str(location),
        "sound": not result.problems,
        "tensors": result.tensors,
        "bytes": result.nbytes,
        "compared": result.compared,
        "problems": [problem._asdict() for problem in result.problems],
        "notes": [note._asdict() for note in result.notes],
    }
