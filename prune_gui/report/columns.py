"""The columns of the tables of a report, and the CSV file with all layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prune_gui.comparison.comparison import Overlap
from prune_gui.language import deferred, format_number, tr
from prune_gui.number_formats import SHAPE_SEPARATOR, percent, sparsity
from prune_gui.recipe.pruned_by_codes import IN_FILE
from prune_gui.report.records import FileRecord, Layer, Report
from prune_gui.statistics.zero_patterns import ZeroPatterns
from prune_gui.tables import Cell, Column, record_column, table_of

UNKNOWN: Final = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Row:
    """One layer of one of the files.

    Attributes:
        file: the file.
        layer: the layer.
        overlap: its overlap with the layer of the first file; None for the first file itself, and
            if it is not compared.
    """

    file: FileRecord
    layer: Layer
    overlap: Overlap | None


def rows_of(report: Report) -> list[Row]:
    """Return the layers of all files, file by file."""
    first = report.files[0].label
    with_first: Mapping[str, Mapping[str, Overlap]] = {
        pair.right: {overlap.name: overlap for overlap in pair.layers}
        for pair in report.pairs
        if pair.left == first
    }
    return [
        Row(file, layer, with_first.get(file.label, {}).get(layer.name))
        for file in report.files
        for layer in file.layers
    ]


def energy_text(share: float | None) -> str:
    """Return a kept share of energy as text."""
    if share is None:
        return UNKNOWN
    return percent(1.0) if share == 1 else tr("{percent:.2f} %", percent=100 * share)


def norm_text(norm: float | None) -> str:
    """Return a norm as text."""
    return UNKNOWN if norm is None else format_number(norm, ".4g")


def iou_text(overlap: Overlap | None) -> str:
    """Return the IoU of the zeros of two layers as text."""
    if overlap is None or overlap.kept == overlap.total:
        return UNKNOWN
    return format_number(overlap.iou, ".3f")


def _count(of: Callable[[Layer], int]) -> Callable[[Row], str]:
    return lambda row: format_number(of(row.layer))


def _pattern(row: Row) -> str:
    return row.layer.patterns.describe() if row.layer.patterns else ""


def _heads(found: ZeroPatterns) -> str:
    return " ".join(found.heads)


def _in_pattern(of: Callable[[ZeroPatterns], Cell]) -> Callable[[Row], Cell]:
    return lambda row: of(row.layer.patterns) if row.layer.patterns else None


NAME: Final[Column[Sequence[Row]]] = record_column(
    deferred("Name"), lambda row: row.layer.name, lambda row: row.layer.name, is_number=False
)
TYPE: Final[Column[Sequence[Row]]] = record_column(
    deferred("Type"), lambda row: row.layer.dtype, lambda row: row.layer.dtype, is_number=False
)
ELEMENTS: Final[Column[Sequence[Row]]] = record_column(
    deferred("Elements"), _count(lambda layer: layer.total), lambda row: row.layer.total
)
SPARSITY: Final[Column[Sequence[Row]]] = record_column(
    deferred("Sparsity"),
    lambda row: sparsity(row.layer.zeros, row.layer.total),
    lambda row: row.layer.sparsity,
)
COLUMNS: Final[tuple[Column[Sequence[Row]], ...]] = (
    record_column(
        deferred("Shape"),
        lambda row: f" {SHAPE_SEPARATOR} ".join(map(format_number, row.layer.shape)),
        lambda row: " x ".join(map(str, row.layer.shape)),
    ),
    TYPE,
    ELEMENTS,
    record_column(
        deferred("Zeros"), _count(lambda layer: layer.zeros), lambda row: row.layer.zeros
    ),
    SPARSITY,
    record_column(deferred("Patterns"), _pattern, _pattern, is_number=False),
    record_column(
        deferred("Kept energy"),
        lambda row: energy_text(row.layer.kept_energy),
        lambda row: row.layer.kept_energy,
    ),
    record_column(
        deferred("Norm before"),
        lambda row: norm_text(row.layer.norm_before),
        lambda row: row.layer.norm_before,
    ),
    record_column(
        deferred("Norm after"), lambda row: norm_text(row.layer.norm), lambda row: row.layer.norm
    ),
)
"""The columns of a layer after its name."""
PATTERN_COLUMNS: Final[tuple[Column[Sequence[Row]], ...]] = (
    record_column(deferred("Dead channels"), lambda _: "", lambda row: row.layer.dead_channels),
    record_column("n:m", lambda _: "", _in_pattern(lambda found: found.n_m)),
    record_column(deferred("Dead rows"), lambda _: "", _in_pattern(lambda found: found.rows)),
    record_column(deferred("Dead columns"), lambda _: "", _in_pattern(lambda found: found.columns)),
    record_column(deferred("Dead heads"), lambda _: "", _in_pattern(_heads)),
    record_column(deferred("Block side"), lambda _: "", _in_pattern(lambda found: found.block)),
    record_column(deferred("Empty blocks"), lambda _: "", _in_pattern(lambda found: found.blocks)),
)
"""What the column of patterns says, as numbers; only in the CSV file."""
WARNINGS: Final[Column[Sequence[Row]]] = record_column(
    deferred("Warnings"),
    lambda row: tr("; ").join(row.layer.warnings),
    lambda row: tr("; ").join(row.layer.warnings),
    is_number=False,
)
LABEL: Final[Column[Sequence[Row]]] = record_column(
    deferred("Label"), lambda row: row.file.label, lambda row: row.file.label, is_number=False
)
FILE: Final[Column[Sequence[Row]]] = record_column(
    deferred("File"), lambda row: row.file.name, lambda row: row.file.name, is_number=False
)
OVERLAP_COLUMNS: Final[tuple[Column[Sequence[Row]], ...]] = (
    record_column(
        deferred("IoU with A"),
        lambda row: iou_text(row.overlap),
        lambda row: row.overlap.iou if row.overlap else None,
    ),
    record_column(
        deferred("Revived since A"),
        lambda row: format_number(row.overlap.left) if row.overlap else UNKNOWN,
        lambda row: row.overlap.left if row.overlap else None,
    ),
)
"""The zeros of a layer beside those of the first file."""


def csv(report: Report) -> str:
    """Return the table of all layers of all files as CSV; see `Table.to_csv`."""
    rows = rows_of(report)
    columns = [NAME, *COLUMNS, *PATTERN_COLUMNS, *_step_columns(report), WARNINGS]
    if len(report.files) > 1:
        columns = [LABEL, FILE, *columns, *OVERLAP_COLUMNS]
    return table_of("", columns, rows).to_csv()


def _step_columns(report: Report) -> list[Column[Sequence[Row]]]:
    """Return a column for the zeros of each step that pruned something in any of the files."""
    codes = sorted({code for file in report.files for code in file.by_code} - {IN_FILE})

    def column(code: int) -> Column[Sequence[Row]]:
        def count(row: Row) -> Cell:
            return row.layer.by_code.get(code, 0)

        return record_column(deferred("Zeros by step {number}", number=code), str, count)

    return [column(code) for code in codes]
