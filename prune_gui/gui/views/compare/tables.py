"""The tables of a comparison: a summary of both sides, and the overlap of every parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from prune_gui import comparison, statistics
from prune_gui.gui.views.compare.text import (
    OVERLAP_COLUMNS,
    PATTERNS,
    summary_rows,
    total_text,
    worst_names,
)
from prune_gui.gui.views.maps.tile_pipeline import RunJob
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import ParameterTable
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import deferred, tr
from prune_gui.session.subjects import ComparedState, Subject

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Overlap
    from prune_gui.comparison.summary import Summary
    from prune_gui.monitor import Monitor


GROUPS: Final = (deferred("Left"), deferred("Right"), deferred("Difference"))
SCOPES: Final = (deferred("parameter"), deferred("all"))
SUMMARY_COLUMNS: Final = len(GROUPS) * len(SCOPES)
ALIGNMENT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
MIN_COLUMN_WIDTH_PX: Final = 48
MIN_NAME_WIDTH_PX: Final = 240
"""Minimum width of the names. Wider tables scroll."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two states."""

    left: ComparedState
    right: ComparedState

    def same_as(self, other: Compared | None) -> bool:
        if other is None:
            return False
        return self.left.same_as(other.left) and self.right.same_as(other.right)


class SummaryTable(QWidget):
    """Shows both sides and their difference, of the parameter and of all, and the worst layers."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Summary of the comparison"))
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        self._grid.setHorizontalSpacing(GAP_PX)
        self._grid.setVerticalSpacing(TIGHT_PX)
        for group, title in enumerate(GROUPS):
            self._grid.addWidget(_heading(tr(title)), 0, 1 + 2 * group, 1, 2)
            for scope, text in enumerate(SCOPES):
                self._grid.addWidget(_heading(tr(text)), 1, 1 + 2 * group + scope)
        for column in range(1, 1 + SUMMARY_COLUMNS):
            self._grid.setColumnStretch(column, 1)
        self._labels: list[list[QLabel]] = []
        for row, content in enumerate(summary_rows(None), start=2):
            labels = [QLabel(), *(QLabel(alignment=ALIGNMENT) for _ in content.cells)]
            for column, label in enumerate(labels):
                self._grid.addWidget(label, row, column)
            self._labels.append(labels)
        self._names = [
            ElidedLabel(tr("Worst layer"), elide=Qt.TextElideMode.ElideMiddle) for _ in range(2)
        ]
        for side, label in enumerate(self._names):
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            self._grid.addWidget(label, 2 + len(self._labels) + side, 0, 1, 1 + SUMMARY_COLUMNS)
        self.show_summary(None)

    def texts(self) -> list[list[str]]:
        return [[label.text() for label in labels] for labels in self._labels]

    def show_summary(self, summary: Summary | None) -> None:
        for labels, row in zip(self._labels, summary_rows(summary), strict=True):
            labels[0].setText(row.title)
            labels[0].setToolTip(row.tip)
            for label, cell in zip(labels[1:], row.cells, strict=True):
                label.setText(cell.text)
                label.setToolTip(cell.tip)
        for name_label, name in zip(self._names, worst_names(summary), strict=True):
            name_label.say(name, tip=name)
            name_label.setVisible(bool(name))


def _heading(text: str) -> QLabel:
    label = layouts.remark(text, wrapped=False)
    label.setAlignment(ALIGNMENT)
    return label


class OverlapTable(ParameterTable["Overlap"]):
    """Shows how much two states prune of each parameter."""

    def __init__(self) -> None:
        widths = {"min_name_px": MIN_NAME_WIDTH_PX, "min_column_px": MIN_COLUMN_WIDTH_PX}
        name = tr("Every parameter in both")
        super().__init__(OVERLAP_COLUMNS, name, lambda row: row.name, **widths)

    def show_rows(
        self, rows: Sequence[Overlap], marked: Callable[[Overlap], bool] | None = None
    ) -> None:
        """Replace the rows. Without any n:m pattern, their column makes room for the names."""
        super().show_rows(rows, marked)
        self.setColumnHidden(PATTERNS, all(row.patterns == ((), ()) for row in rows))
        self._fit_names()


class ComparedTables(QObject):
    """Computes and shows the tables of two states."""

    summarized = Signal()  # `overlap` is known

    def __init__(self, run_job: RunJob, run_long_job: RunJob, summary_table: SummaryTable) -> None:
        super().__init__(summary_table)
        self._run_job = run_job
        self._run_long_job = run_long_job
        self._summary_table = summary_table
        self.compared: Compared | None = None
        self.overlaps = OverlapTable()
        self.total = QLabel(wordWrap=True)
        self.total.setAccessibleName(tr("All parameters that can be compared"))
        self.total.setMinimumWidth(1)
        self.total.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, TIGHT_PX)
        self._summary: Summary | None = None
        self._summarized: Compared | None = None
        self._tabulated: Compared | None = None

    @property
    def overlap(self) -> Overlap | None:
        """The overlap of the parameter in the summary; None if it cannot be compared."""
        return None if self._summary is None else self._summary.overlap

    @property
    def is_tabulated(self) -> bool:
        return self._tabulated is not None

    def forget(self) -> None:
        self._summary = self._summarized = self._tabulated = self.compared = None

    def request_summary(self, subject: Subject, compared: Compared) -> None:
        """Compute the summary of a parameter in two states, in several jobs, unless it is shown."""
        self.compared = compared
        before, known = self._summary, compared.same_as(self._summarized)
        if before is not None and known and before.name == subject.name and before.is_complete:
            return

        def work(monitor: Monitor) -> Summary:
            if before is not None and known:
                left, right = (side.statistics.resolution for side in (before.left, before.right))
            else:
                left, right = compared.left.resolution(), compared.right.resolution()
            reference = subject.resolution
            is_fetched = reference.checkpoint.is_fetched
            wanted = (
                statistics.dispatch.read_budget(counted=known) if is_fetched else lambda _: False
            )
            return comparison.summary.summarize(
                subject.name, left, right, reference, before, wanted, monitor
            )

        def show(summary: Summary) -> None:
            if not compared.same_as(self.compared):
                return
            self._summary, self._summarized = summary, compared
            self._summary_table.show_summary(summary)
            self.summarized.emit()
            if summary.is_pending and self._summary_table.isVisible():
                self.request_summary(subject, compared)

        self._run_job("compare.summary", subject, work, show)

    def request_overlaps(self, subject: Subject) -> None:
        compared = self.compared
        if compared is None or compared.same_as(self._tabulated):
            return

        def count(monitor: Monitor) -> tuple[tuple[Overlap, ...], str]:
            mask_overlap = comparison.mask_overlap
            left, right = compared.left.resolution(), compared.right.resolution()
            names = [name for name in right.counts if mask_overlap.comparable(left, right, name)]
            rows = mask_overlap.overlaps(left, right, names, monitor)
            total = total_text(mask_overlap.summed(rows), mask_overlap.left_out(left, right))
            return mask_overlap.with_patterns(rows, left, right, monitor), total

        def show(result: tuple[tuple[Overlap, ...], str]) -> None:
            self._tabulated = compared
            rows, total = result
            self.overlaps.show_rows(rows)
            self.total.setText(total)

        self._run_long_job("compare.table", subject, count, show)
