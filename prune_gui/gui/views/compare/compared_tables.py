"""The tables of a comparison: a summary of both sides, and the overlap of every parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLabel

from prune_gui.audit.rendering.compare_picture import total_text
from prune_gui.audit.rendering.tile_pipeline import RunJob
from prune_gui.audit.view_data.subject import Subject
from prune_gui.gui.views.compare.overlap_table import OverlapTable
from prune_gui.gui.views.compare.summary_table import SummaryTable
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import tr
from prune_gui.session.compared_side import ComparedState

if TYPE_CHECKING:
    from prune_gui.comparison.mask_overlap import Overlap
    from prune_gui.comparison.summary import Summary
    from prune_gui.monitor import Monitor


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two states.

    Attributes:
        left: the state on the left.
        right: the state on the right.
    """

    left: ComparedState
    right: ComparedState

    def same_as(self, other: Compared | None) -> bool:
        """Return whether both compare the same states."""
        return (
            other is not None and self.left.same_as(other.left) and self.right.same_as(other.right)
        )


class ComparedTables(QObject):
    """Computes and shows the tables.

    Attributes:
        compared: the states to compare; None before the first request.
        overlaps: the table of all parameters.
        total: says how much both sides prune in all parameters, and what is left out.

    Signals:
        summarized: `overlap` is known.
    """

    summarized = Signal()

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
        """Whether `overlaps` has rows of the open file."""
        return self._tabulated is not None

    def forget(self) -> None:
        """Forget what was computed for the previous file."""
        self._summary = self._summarized = self._tabulated = self.compared = None

    def request_summary(self, subject: Subject, compared: Compared) -> None:
        """Compute the summary of a parameter in two states, unless it is shown.

        It takes several jobs, so that others can run meanwhile.
        """
        self.compared = compared
        before, known = self._summary, compared.same_as(self._summarized)
        if before is not None and known and before.name == subject.name and before.is_complete:
            return

        def work(monitor: Monitor) -> Summary:
            from prune_gui.comparison.summary import summarize  # torch: slow to import
            from prune_gui.statistics.dispatch import read_budget

            if before is not None and known:
                left, right = (side.statistics.resolution for side in (before.left, before.right))
            else:
                left, right = compared.left.resolution(), compared.right.resolution()
            reference = subject.resolution
            is_fetched = reference.checkpoint.is_fetched
            wanted = read_budget(counted=known) if is_fetched else lambda _: False
            return summarize(subject.name, left, right, reference, before, wanted, monitor)

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
        """Count the overlap of every parameter, unless it is shown."""
        compared = self.compared
        if compared is None or compared.same_as(self._tabulated):
            return

        def count(monitor: Monitor) -> tuple[tuple[Overlap, ...], str]:
            from prune_gui.comparison.mask_overlap import (  # torch: slow to import
                comparable,
                left_out,
                overlaps,
                summed,
                with_patterns,
            )

            left, right = compared.left.resolution(), compared.right.resolution()
            names = [name for name in right.counts if comparable(left, right, name)]
            rows = overlaps(left, right, names, monitor)
            total = total_text(summed(rows), left_out(left, right))
            return with_patterns(rows, left, right, monitor), total

        def show(result: tuple[tuple[Overlap, ...], str]) -> None:
            self._tabulated = compared
            self.overlaps.show_rows(result[0])
            self.total.setText(result[1])

        self._run_long_job("compare.table", subject, count, show)
