"""`prune-gui diff`: what differs between two checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from prune_gui.cli.arguments import as_json, checkpoint_file, cluster_address, on_cluster
from prune_gui.cli.arguments import opened_checkpoint as opened
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    aligned,
    job,
    number_of,
    print_json,
    print_lines,
    shape_text,
)
from prune_gui.errors import one_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint, TensorInfo
    from prune_gui.comparison.difference import Difference, Differences, State
    from prune_gui.comparison.tensor_diff import Zeros

HEADINGS: Final = (
    *("Tensor", "Change", "Shape", "Type", "Differing", "Largest change", "Zeros"),
    *("Gained", "Lost", "IoU", "n:m"),
)
ERROR: Final = "Error"
"""The heading of the errors of a reconstruction, if one is recorded in B or else in A."""
COUNTS: Final = ("differing", "same_number", "non_finite")
"""The fields of a `TensorDiff` that JSON has as they are."""
STATE_TEXTS: Final[dict[State, str]] = {
    "identical": "byte-identical",
    "equal": "equal but stored differently",
    "changed": "changed",
    "shape": "of another shape",
    "not_compared": "not compared",
    "only_in_a": "only in A",
    "only_in_b": "only in B",
}


@click.command()
@click.argument("a", type=checkpoint_file)
@click.argument("b", type=checkpoint_file)
@cluster_address
@as_json
def diff(a: Location, b: Location, cluster: str | None, *, as_json: bool) -> None:
    """Compare two checkpoints: names, shapes, types, values, zeros gained and lost.

    Tensors are compared by name and element by element; X_orig and X_mask count as one tensor X.
    The table shows the tensors that differ, --json shows all.
    """
    from prune_gui.comparison.difference import difference  # torch: slow to import

    with opened(a) as checkpoint_a, opened(b) as checkpoint_b:
        with on_cluster(cluster), job("Comparing") as (progress, stop):
            differences = difference(checkpoint_a, checkpoint_b, progress, stop)
        if as_json:
            print_json(
                {
                    "a": _checkpoint_json(checkpoint_a),
                    "b": _checkpoint_json(checkpoint_b),
                    "identical": differences.identical,
                    "states": {state: differences.states[state] for state in STATE_TEXTS},
                    "zeros": _zeros_json(differences.zeros),
                    "metadata": dict(differences.metadata),
                    "notes": differences.notes,
                    "tensors": [_row_json(row) for row in differences.rows],
                    "errors": dict(_errors(checkpoint_a, checkpoint_b)),
                }
            )
        else:
            print_lines(_table(checkpoint_a, checkpoint_b, differences))


def _table(a: Checkpoint, b: Checkpoint, differences: Differences) -> Iterator[str]:
    for label, checkpoint in (("A", a), ("B", b)):
        path = one_line(str(checkpoint.location))
        tensors = number_of(len(checkpoint.tensors), "tensor")
        yield f"{label}: {path}: {checkpoint.format}, {tensors}"
    errors = _errors(a, b)
    changed = [
        (*_cells(row), *([_error_text(errors.get(row.name))] if errors else ()))
        for row in differences.rows
        if row.state != "identical"
    ]
    if changed:
        yield from aligned([(*HEADINGS, *([ERROR] if errors else ())), *changed])
    for key, (before, after) in differences.metadata.items():
        change = "only in B" if before is None else "only in A" if after is None else "differs"
        yield f"Metadata {one_line(key, MAX_NAME_LENGTH)}: {change}"
    for note in differences.notes:
        yield f"Note: {note}"
    yield _summary(differences)


def _errors(a: Checkpoint, b: Checkpoint) -> Mapping[str, float]:
    """Return the errors of layers that a reconstruction recorded."""
    from prune_gui.recipe.recipe import reconstruction_errors  # pydantic: slow to import

    return reconstruction_errors(b.metadata) or reconstruction_errors(a.metadata)


def _error_text(error: float | None) -> str:
    return "" if error is None else f"{error:.2%}"


def _cells(row: Difference) -> tuple[str, ...]:
    """Return the cells of a row, fewer than there are headings if less is known."""
    a, b = row.a or row.shown, row.b or row.shown
    shape = _arrow(shape_text(a.shape), shape_text(b.shape))
    cells = [one_line(row.name, MAX_NAME_LENGTH), _change(row), shape, _arrow(a.dtype, b.dtype)]
    if found := row.tensor_diff:
        largest = "" if found.largest is None else f"{found.largest:.3g}"
        cells += [f"{found.differing:,}", largest]
        if zeros := found.zeros:
            cells += [_arrow(f"{zeros.a:,}", f"{zeros.b:,}")]
            cells += [f"{zeros.gained:,}", f"{zeros.lost:,}", f"{zeros.iou:.3f}"]
    if row.patterns:
        cells.append(_arrow(*[" ".join(names) or "none" for names in row.patterns]))
    return (*cells, *[""] * (len(HEADINGS) - len(cells)))


def _change(row: Difference) -> str:
    match row.state:
        case "changed":
            return "values" if row.a and row.b and row.a.dtype == row.b.dtype else "type, values"
        case "equal":
            return "type" if row.a and row.b and row.a.dtype != row.b.dtype else "form"
        case "not_compared":
            return f"not compared: {row.reason}"
        case state:
            return state.replace("_a", "_A").replace("_b", "_B").replace("_", " ")


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _summary(differences: Differences) -> str:
    states = ", ".join(
        f"{differences.states[state]:,} {text}"
        for state, text in STATE_TEXTS.items()
        if differences.states[state]
    )
    zeros = differences.zeros
    if differences.identical:
        states = "all byte-identical"
    change = _arrow(f"{zeros.a:,}", f"{zeros.b:,}")
    return (
        f"{number_of(len(differences.rows), 'tensor')}: {states}; zeros {change}: "
        f"{zeros.gained:,} gained, {zeros.lost:,} lost, IoU {zeros.iou:.3f}"
    )


def _checkpoint_json(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "warnings": list(checkpoint.warnings),
        "path": str(checkpoint.location),
        "format": checkpoint.format,
        "files": [str(Location.at(path)) for path in checkpoint.files],
        "state_dict": checkpoint.state_dict,
        "tensors": len(checkpoint.tensors),
    }


def _row_json(row: Difference) -> dict[str, object]:
    found = row.tensor_diff
    largest = found.largest if found is not None else None
    return {
        "name": row.name,
        "aliases": row.aliases,
        "state": row.state,
        "reason": row.reason or None,
        "a": _tensor_json(row.a, row.patterns and row.patterns[0]),
        "b": _tensor_json(row.b, row.patterns and row.patterns[1]),
        **{name: found and getattr(found, name) for name in COUNTS},
        "largest_difference": None if largest is None or math.isinf(largest) else largest,
        "zeros": found and found.zeros and _zeros_json(found.zeros),
    }


def _tensor_json(
    info: TensorInfo | None, patterns: tuple[str, ...] | None
) -> dict[str, object] | None:
    if info is None:
        return None
    return {
        "shape": list(info.shape),
        "dtype": info.dtype,
        "bytes": info.nbytes,
        "reparametrized": info.pair is not None,
        "n_m": None if patterns is None else list(patterns),
    }


def _zeros_json(zeros: Zeros) -> dict[str, object]:
    return {name: getattr(zeros, name) for name in ("a", "b", "both", "gained", "lost", "iou")}
