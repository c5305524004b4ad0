"""A parameter in two moments of the stack, or in two checkpoints, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.views.axes import dim_names, layout_labels
from prune_gui.gui.views.compare.compare_picture import Pair, draw_pair, in_total, legend
from prune_gui.gui.views.compare.comparison_picker import Comparison, ComparisonPicker
from prune_gui.gui.views.compare.linked_plot import PlanePlot
from prune_gui.gui.views.compare.overlap_table import OverlapTable
from prune_gui.gui.views.maps.element_text import fate
from prune_gui.gui.views.maps.map_navigation import zoom_buttons
from prune_gui.gui.views.maps.mask_picture import Frame
from prune_gui.gui.views.maps.slice_chooser import PlaneChooser
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.subject import Subject, kind_around
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import number, tr
from prune_gui.recipe.pruned_by_codes import KEPT

if TYPE_CHECKING:
    from prune_gui.audit.diff.comparison import Overlap
    from prune_gui.audit.statistics.element import Element
    from prune_gui.audit.table import Table
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution

CALM: Final = 250
"""Milliseconds without a change after which the table of all parameters follows."""

TABLE: Final = 180
"""Pixels that the table is high at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two moments.

    Attributes:
        left: what the stack is compared with.
        right: the stack, and the draft if there is one.
    """

    left: Comparison
    right: Resolution

    def same_as(self, other: Compared | None) -> bool:
        """Tell whether both are of the same moments."""
        return other is not None and self.right is other.right and self.left.same_as(other.left)


class CompareView(View):
    """What another moment pruned on the left, what the stack prunes on the right.

    Both pictures zoom and move together, with the keys of the mask. The table below has every
    parameter; to go to a row is to choose its parameter.

    Args:
        workbench: has what there is to look at.
        viewport: shared with other views of a parameter.
    """

    lane = "compare"
    has_table = True

    def __init__(
        self, workbench: Workbench, viewport: Viewport, parent: QWidget | None = None
    ) -> None:
        super().__init__(workbench, parent)
        self.setAccessibleName(tr("Compare"))
        self._drawn: tuple[Compared, Frame] | None = None
        self._tabulated: Compared | None = None
        self._cursor: tuple[int, int] | None = None
        self._moments = ComparisonPicker(workbench, ask_checkpoint)
        self._planes = PlaneChooser(viewport, sheets=False)
        self._left, self._right = PlanePlot(viewport), PlanePlot(viewport)
        self._plots = QWidget()
        self._title = QLabel()
        self._table = OverlapTable()
        self._entry = ElidedLabel(tr("Entry under the cursor in both"))
        self._total = QLabel(wordWrap=True)
        self._reason = QLabel(alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._reason.setForegroundRole(self._reason.palette().ColorRole.PlaceholderText)
        self._reason.setMargin(24)
        self._name_widgets()
        self._pictures = QStackedWidget()
        self._pictures.addWidget(self._side_by_side())
        self._pictures.addWidget(self._reason)
        halves = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        halves.addWidget(self._under_titles())
        halves.addWidget(self._table)
        halves.setStretchFactor(0, 1)
        halves.setSizes([3 * TABLE, TABLE])
        self._lay_out([*zoom_buttons(self._left, self), self._planes], halves, [self._total])
        self._beside.addWidget(self._planes.sliders, 3, 0)
        self._beside.addWidget(self._legend, 2, 0)  # it is about the pictures alone
        self._calm = QTimer(self, singleShot=True, interval=CALM)
        self._calm.timeout.connect(self._tabulate)
        self._connect(workbench)
        self._recolour()

    def fit(self) -> None:
        """Show the whole plane on both sides."""
        self._left.fit()

    def _name_widgets(self) -> None:
        for widget, name in (
            (self._left, tr("Picture of what it is compared with")),
            (self._right, tr("Picture of the stack")),
            (self._title, tr("What the right picture shows")),
            (self._total, tr("All parameters that can be compared")),
        ):
            widget.setAccessibleName(name)
        for label in (self._title, self._total):
            label.setMinimumWidth(1)
        self._entry.setContentsMargins(8, 2, 8, 0)
        self._entry.setMinimumHeight(self._entry.fontMetrics().height() + 2)

    def _side_by_side(self) -> QWidget:
        widget = QWidget()
        self._beside = QGridLayout(widget)
        self._beside.setContentsMargins(0, 0, 0, 0)
        self._beside.setSpacing(0)
        plots = QHBoxLayout(self._plots)
        plots.setContentsMargins(0, 0, 0, 0)
        plots.setSpacing(0)
        for plot in (self._left, self._right):
            plots.addWidget(plot, 1)
        self._beside.addWidget(self._plots, 0, 0)
        self._beside.setRowStretch(0, 1)
        self._beside.addWidget(self._entry, 1, 0)
        return widget

    def _under_titles(self) -> QWidget:
        """Return the pictures under what each of them shows."""
        widget = QWidget()
        layout = QGridLayout(widget)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setVerticalSpacing(4)
        layout.setHorizontalSpacing(0)
        for column, title in enumerate((self._moments, self._title)):
            title.setContentsMargins(8, 0, 8, 0)
            layout.addWidget(title, 0, column)
            layout.setColumnStretch(column, 1)
        layout.addWidget(self._pictures, 1, 0, 1, -1)
        layout.setRowStretch(1, 1)
        return widget

    def _connect(self, workbench: Workbench) -> None:
        self._right.view.setXLink(self._left.view)
        self._right.view.setYLink(self._left.view)
        self._left.settled.connect(self.refresh)
        self._planes.changed.connect(self.refresh)
        self._moments.changed.connect(self.refresh)
        self._table.chosen.connect(workbench.choose)
        workbench.other_changed.connect(self._use_other)
        for plot in (self._left, self._right):
            plot.pointed.connect(self._point_at)

    def _use_other(self) -> None:
        self._moments.choose_other()
        self.refresh()

    def _look(self, subject: Subject) -> None:
        self._moments.offer()
        left = self._moments.chosen
        if left is None:
            return
        compared = Compared(left, subject.resolution)
        self._table.mark(subject.name)
        if not compared.same_as(self._tabulated):
            self._calm.start()
        if (problem := _incomparable(left, subject)) is not None:
            self._pictured = None
            self._say(problem)
            return
        self._planes.set_shape(subject.info.shape)
        chosen = self._left.frame_of(self._planes.layout_chosen)
        if self._shows(subject, compared, chosen):
            return
        colours = self.colours()
        self._picture(
            subject,
            lambda monitor: draw_pair(
                left.resolution(), subject.resolution, subject.name, chosen, colours, monitor
            ),
            lambda pair: self._show(subject, compared, chosen, pair),
        )

    def _shows(self, subject: Subject, compared: Compared, chosen: Frame) -> bool:
        """Tell whether the pictures are those already."""
        return (
            self._drawn is not None
            and self._drawn[1] == chosen
            and subject.same_parameter(self._pictured)
            and compared.same_as(self._drawn[0])
        )

    def _show(self, subject: Subject, compared: Compared, drawn: Frame, pair: Pair) -> None:
        same = (
            self._drawn is not None
            and subject.same_parameter(self._pictured)
            and compared.same_as(self._drawn[0])
        )
        if drawn.plane != self._left.layout_shown:
            self._set_cursor(None)
            kind = kind_around(self._workbench, subject)
            names = dim_names(kind, subject.name, subject.info.shape)
            labels = layout_labels(names, drawn.plane, self._planes.dims)
            for plot in (self._right, self._left):
                plot.show_plane(drawn.plane, labels)
        for plot, pixels in ((self._left, pair.left), (self._right, pair.right)):
            plot.show_pixels(drawn, pixels, same=same)
        self._drawn = compared, drawn
        drafted = subject.draft is not None
        self._title.setText(
            tr("Right: the stack and the draft") if drafted else tr("Right: the stack")
        )
        self._legend.setText(legend(pair.overlap, self.colours()))
        self._pictures.setCurrentIndex(0)
        self._ask_about_entry()

    def _say(self, message: str) -> None:
        """Say it in place of the pictures, so that what they compare can still be chosen."""
        if self.subject is None or self._moments.chosen is None:
            super()._say(message)
            return
        self._impatience.stop()
        self._drawn = None
        self._reason.setText(message)
        self._legend.clear()
        self._entry.say("")
        self._pictures.setCurrentWidget(self._reason)
        self._pages.setCurrentWidget(self._content)
        self.pictured.emit()

    def _tabulate(self) -> None:
        """Count every parameter."""
        subject, left = self.subject, self._moments.chosen
        if subject is None or left is None or not self.isVisible():
            return
        compared = Compared(left, subject.resolution)

        def count(monitor: Monitor) -> tuple[tuple[Overlap, ...], str]:
            from prune_gui.audit.diff.comparison import (
                comparable,
                left_out,
                overlaps,
                summed,
                with_patterns,
            )

            before, right = left.resolution(), compared.right
            names = [name for name in right.counts if comparable(before, right, name)]
            rows = overlaps(before, right, names, monitor)
            total = in_total(summed(rows), left_out(before, right))
            return with_patterns(rows, before, right, monitor), total

        self._ask("compare.table", subject, count, lambda found: self._show_table(compared, *found))

    def _show_table(self, compared: Compared, rows: tuple[Overlap, ...], total: str) -> None:
        self._tabulated = compared
        self._table.show_rows(rows)
        self._total.setText(total)

    def picture(self) -> QWidget | None:
        """Return what shows both pictures; None while there is a reason for none."""
        shown = self._pictures.currentIndex() == 0 and super().picture() is not None
        return self._plots if shown else None

    def caption(self) -> tuple[str, str]:
        """Return the name of the parameter, and what the pictures show of it."""
        name, what = super().caption()
        left = self._moments.chosen
        if left is None:
            return name, what
        right = self._title.text()
        return name, tr("{what}. Left: {left}. {right}", what=what, left=left.text, right=right)

    def table(self) -> Table | None:
        """Return how much both prune of each parameter, in the order in which it is shown."""
        compared = self._tabulated
        if compared is None or self.picture() is None:
            return None
        path = compared.right.checkpoint.path
        return self._table.as_table(tr("{name} compared", name=path.name))

    def _point_at(self, cell: tuple[int, int] | None) -> None:
        self._set_cursor(cell)

    def _set_cursor(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cursor:
            self._cursor = cell
            for plot in (self._left, self._right):
                plot.pin(cell)
            self._ask_about_entry()

    def _ask_about_entry(self) -> None:
        subject, plane, cursor = self.subject, self._left.layout_shown, self._cursor
        left = self._moments.chosen
        if (
            subject is None
            or left is None
            or plane is None
            or cursor is None
            or plane.shape != subject.info.shape
        ):
            self._entry.say("")
            return

        def read(_: Monitor) -> tuple[Element, Element]:
            from prune_gui.audit.statistics.element import element_at

            before = element_at(left.resolution(), subject.name, plane, *cursor)
            return before, element_at(subject.resolution, subject.name, plane, *cursor)

        self._ask("compare.entry", subject, read, lambda found: self._tell(subject, found, cursor))

    def _tell(
        self, subject: Subject, found: tuple[Element, Element], cursor: tuple[int, int]
    ) -> None:
        if cursor == self._cursor:
            self._entry.say(describe(subject, *found))

    def _recolour(self) -> None:
        for plot in (self._left, self._right):
            plot.recolour(self.colours())
        self._drawn = None

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._calm.stop()


def describe(subject: Subject, left: Element, right: Element) -> str:
    """Say what became of an entry: "[3, 17]   0.0125 kept   |   0.0125 pruned by step 2"."""
    before = tr("kept") if left.code == KEPT else tr("pruned")
    return (
        f"[{', '.join(map(str, right.index))}]   "
        f"{number(left.value, '.6g')} {before}   |   "
        f"{number(right.value, '.6g')} {fate(subject, right.code)}"
    )


def _incomparable(left: Comparison, subject: Subject) -> str | None:
    """Return why there is nothing to see side by side, for a person; None if there is."""
    checkpoint, name = left.base.checkpoint, subject.name
    file = checkpoint.path.name
    info = checkpoint.tensors.get(name)
    if info is None:
        reason = tr("{file} has no parameter {name}.", file=file, name=name)
    elif info.shape != subject.info.shape:
        reason = tr(
            "{file}: {name} has shape {there}, here it has {here}.",
            file=file,
            name=name,
            there=list(info.shape),
            here=list(subject.info.shape),
        )
    elif info.not_prunable is not None:
        why = tr(info.not_prunable)
        reason = tr("{file}: {name} cannot be pruned: {why}.", file=file, name=name, why=why)
    else:
        return None
    hint = tr("Choose another parameter, or something else to compare with.")
    return f"{one_line(reason)}\n{hint}"
