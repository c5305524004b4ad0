"""A parameter in two states of the stack, or in two checkpoints, side by side."""

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

from prune_gui.audit.rendering.compare_picture import PicturePair, draw_pair, legend, total_text
from prune_gui.audit.rendering.mask_picture import Frame
from prune_gui.audit.view_data.element_text import describe_state
from prune_gui.audit.view_data.subject import Subject
from prune_gui.errors import one_line
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.views.axes import dim_names, layout_labels
from prune_gui.gui.views.compare.comparison_picker import ComparedState, ComparisonPicker
from prune_gui.gui.views.compare.linked_plot import LinkedPlot
from prune_gui.gui.views.compare.overlap_table import OverlapTable
from prune_gui.gui.views.maps.map_navigation import zoom_buttons
from prune_gui.gui.views.maps.slice_chooser import LayoutChooser
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import View
from prune_gui.gui.widgets.elided_label import ElidedLabel
from prune_gui.language import format_number, tr
from prune_gui.recipe.pruned_by_codes import KEPT

if TYPE_CHECKING:
    from prune_gui.audit.diff.comparison import Overlap
    from prune_gui.audit.statistics.element import Element
    from prune_gui.audit.table import Table
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Resolution
    from prune_gui.session.changes import Changes

TABLE_DELAY_MS: Final = 250
"""Delay between the last change and the update of the table of all parameters."""

TABLE_HEIGHT_PX: Final = 180
"""Initial height of the table."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two states.

    Attributes:
        left: the state that the stack is compared with.
        right: the stack, with the draft if there is one.
    """

    left: ComparedState
    right: Resolution

    def same_as(self, other: Compared | None) -> bool:
        """Return whether both compare the same states."""
        return other is not None and self.right is other.right and self.left.same_as(other.left)


class CompareView(View[Subject]):
    """Shows what another state prunes on the left, and what the stack prunes on the right.

    Both pictures zoom and pan together, with the keys of the mask view. The table below lists every
    parameter; selecting a row chooses its parameter.

    Args:
        workbench: provides the stack and the other checkpoint.
        viewport: shared with the other views of a parameter.
    """

    lane = "compare"
    has_table = True

    def __init__(
        self, workbench: Workbench, viewport: Viewport, parent: QWidget | None = None
    ) -> None:
        super().__init__(workbench, lambda: workbench.subject, parent)
        self.setAccessibleName(tr("Compare"))
        self._drawn: tuple[Compared, Frame] | None = None
        self._tabulated: Compared | None = None
        self._cursor: tuple[int, int] | None = None
        self._picker = ComparisonPicker(workbench, ask_checkpoint)
        self._layout_chooser = LayoutChooser(viewport, kernel_grids=False)
        self._left, self._right = LinkedPlot(viewport), LinkedPlot(viewport)
        self._plots = QWidget()
        self._title = QLabel()
        self._table = OverlapTable()
        self._element_label = ElidedLabel(tr("Weight under the cursor on both sides"))
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
        halves.setSizes([3 * TABLE_HEIGHT_PX, TABLE_HEIGHT_PX])
        self._lay_out(
            [*zoom_buttons(self._left, self), self._layout_chooser], halves, [self._total]
        )
        self._picture_layout.addWidget(self._layout_chooser.sliders, 3, 0)
        self._picture_layout.addWidget(self._legend, 2, 0)  # it describes the pictures only
        self._table_timer = QTimer(self, singleShot=True, interval=TABLE_DELAY_MS)
        self._table_timer.timeout.connect(self._tabulate)
        self._connect(workbench)
        self._recolour()

    def fit(self) -> None:
        """Show the whole layout on both sides."""
        self._left.fit()

    def _name_widgets(self) -> None:
        for widget, name in (
            (self._left, tr("Picture of the comparison")),
            (self._right, tr("Picture of the stack")),
            (self._title, tr("What the right picture shows")),
            (self._total, tr("All parameters that can be compared")),
        ):
            widget.setAccessibleName(name)
        for label in (self._title, self._total):
            label.setMinimumWidth(1)
        self._element_label.setContentsMargins(8, 2, 8, 0)
        self._element_label.setMinimumHeight(self._element_label.fontMetrics().height() + 2)

    def _side_by_side(self) -> QWidget:
        widget = QWidget()
        self._picture_layout = QGridLayout(widget)
        self._picture_layout.setContentsMargins(0, 0, 0, 0)
        self._picture_layout.setSpacing(0)
        plots = QHBoxLayout(self._plots)
        plots.setContentsMargins(0, 0, 0, 0)
        plots.setSpacing(0)
        for plot in (self._left, self._right):
            plots.addWidget(plot, 1)
        self._picture_layout.addWidget(self._plots, 0, 0)
        self._picture_layout.setRowStretch(0, 1)
        self._picture_layout.addWidget(self._element_label, 1, 0)
        return widget

    def _under_titles(self) -> QWidget:
        """Return the pictures, each below a title that says what it shows."""
        widget = QWidget()
        layout = QGridLayout(widget)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setVerticalSpacing(4)
        layout.setHorizontalSpacing(0)
        for column, title in enumerate((self._picker, self._title)):
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
        self._layout_chooser.changed.connect(self.refresh)
        self._picker.changed.connect(self.refresh)
        self._table.chosen.connect(workbench.choose)
        for plot in (self._left, self._right):
            plot.pointed.connect(self._point_at)

    def _on_changed(self, changes: Changes) -> None:
        if changes.comparison:
            self._picker.choose_other()
        if changes.comparison or changes.resolution:  # the table is about all parameters
            self.refresh()
        else:
            super()._on_changed(changes)

    def _request_picture(self, subject: Subject) -> None:
        self._picker.offer()
        left = self._picker.chosen
        if left is None:
            return
        compared = Compared(left, subject.resolution)
        self._table.mark(subject.name)
        if not compared.same_as(self._tabulated):
            self._table_timer.start()
        if (problem := _incomparable(left, subject)) is not None:
            self._pictured = None
            self._show_message(problem)
            return
        self._layout_chooser.set_shape(subject.info.shape)
        frame = self._left.frame_of(self._layout_chooser.layout_chosen)
        if self._shows(subject, compared, frame):
            return
        colours = self.colours()
        self._run_picture_job(
            subject,
            lambda monitor: draw_pair(
                left.resolution(), subject.resolution, subject.name, frame, colours, monitor
            ),
            lambda pair: self._show(subject, compared, frame, pair),
        )

    def _shows(self, subject: Subject, compared: Compared, frame: Frame) -> bool:
        """Return whether these pictures are on the screen already."""
        return (
            self._drawn is not None
            and self._drawn[1] == frame
            and subject.same_parameter(self._pictured)
            and compared.same_as(self._drawn[0])
        )

    def _show(self, subject: Subject, compared: Compared, frame: Frame, pair: PicturePair) -> None:
        same = (
            self._drawn is not None
            and subject.same_parameter(self._pictured)
            and compared.same_as(self._drawn[0])
        )
        if frame.layout != self._left.layout_shown:
            self._set_cursor(None)
            module_type = self._workbench.module_type_of(subject.name)
            names = dim_names(module_type, subject.name, subject.info.shape)
            labels = layout_labels(names, frame.layout, self._layout_chooser.dims)
            for plot in (self._right, self._left):
                plot.show_layout(frame.layout, labels)
        for plot, pixels in ((self._left, pair.left), (self._right, pair.right)):
            plot.show_pixels(frame, pixels, same=same)
        self._drawn = compared, frame
        drafted = subject.draft is not None
        self._title.setText(
            tr("Right: the stack and the draft") if drafted else tr("Right: the stack")
        )
        self._legend.setText(legend(pair.overlap, self.colours()))
        self._pictures.setCurrentIndex(0)
        self._request_element()

    def _show_message(self, message: str) -> None:
        """Show a message in place of the pictures. The comparison can still be changed above it."""
        if self.subject is None or self._picker.chosen is None:
            super()._show_message(message)
            return
        self._stop_timers()
        self._drawn = None
        self._reason.setText(message)
        self._legend.clear()
        self._element_label.say("")
        self._pictures.setCurrentWidget(self._reason)
        self._pages.setCurrentWidget(self._picture_page)
        self.pictured.emit()

    def _tabulate(self) -> None:
        """Count the overlap of every parameter."""
        subject, left = self.subject, self._picker.chosen
        if subject is None or left is None or not self.isVisible():
            return
        compared = Compared(left, subject.resolution)

        def count(monitor: Monitor) -> tuple[tuple[Overlap, ...], str]:
            from prune_gui.audit.diff.comparison import (  # torch: slow to import
                comparable,
                left_out,
                overlaps,
                summed,
                with_patterns,
            )

            left_result, right = left.resolution(), compared.right
            names = [name for name in right.counts if comparable(left_result, right, name)]
            rows = overlaps(left_result, right, names, monitor)
            total = total_text(summed(rows), left_out(left_result, right))
            return with_patterns(rows, left_result, right, monitor), total

        self._run_job(
            "compare.table",
            subject,
            count,
            lambda result: self._show_table(compared, *result),
            long=True,
        )

    def _show_table(self, compared: Compared, rows: tuple[Overlap, ...], total: str) -> None:
        self._tabulated = compared
        self._table.show_rows(rows)
        self._total.setText(total)

    def picture(self) -> QWidget | None:
        """Return the widget with both pictures; None while a message replaces them."""
        visible = self._pictures.currentIndex() == 0 and super().picture() is not None
        return self._plots if visible else None

    def caption(self) -> tuple[str, str]:
        """Return the name of the parameter, and a description of both pictures."""
        name, what = super().caption()
        left = self._picker.chosen
        if left is None:
            return name, what
        right = self._title.text()
        return name, tr("{what}. Left: {left}. {right}", what=what, left=left.text, right=right)

    def table(self) -> Table | None:
        """Return how much both states prune of each parameter, in the order on the screen."""
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
            self._request_element()

    def _request_element(self) -> None:
        subject, layout, cursor = self.subject, self._left.layout_shown, self._cursor
        left = self._picker.chosen
        if (
            subject is None
            or left is None
            or layout is None
            or cursor is None
            or layout.shape != subject.info.shape
        ):
            self._element_label.say("")
            return

        def read(_: Monitor) -> tuple[Element, Element]:
            from prune_gui.audit.statistics.element import element_at  # torch: slow to import

            left_result = element_at(left.resolution(), subject.name, layout, *cursor)
            return left_result, element_at(subject.resolution, subject.name, layout, *cursor)

        self._run_job(
            "compare.entry",
            subject,
            read,
            lambda result: self._show_element(subject, result, cursor),
        )

    def _show_element(
        self, subject: Subject, result: tuple[Element, Element], cursor: tuple[int, int]
    ) -> None:
        if cursor == self._cursor:
            self._element_label.say(describe(subject, *result))

    def _recolour(self) -> None:
        for plot in (self._left, self._right):
            plot.recolour(self.colours())
        self._drawn = None

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timers."""
        super().hideEvent(event)
        self._table_timer.stop()


def describe(subject: Subject, left: Element, right: Element) -> str:
    """Describe an element: "[3, 17]   0.0125 kept   |   0.0125 pruned by step 2"."""
    left_result = tr("kept") if left.code == KEPT else tr("pruned")
    return (
        f"[{', '.join(map(str, right.index))}]   "
        f"{format_number(left.value, '.6g')} {left_result}   |   "
        f"{format_number(right.value, '.6g')} {describe_state(subject, right.code)}"
    )


def _incomparable(left: ComparedState, subject: Subject) -> str | None:
    """Return why the parameter cannot be compared, as a message; None if it can."""
    checkpoint, name = left.base.checkpoint, subject.name
    file = checkpoint.path.name
    info = checkpoint.tensors.get(name)
    if info is None:
        reason = tr("{file} has no parameter {name}.", file=file, name=name)
    elif info.shape != subject.info.shape:
        reason = tr(
            "{file}: {name} has shape {there}, but {here} in this checkpoint.",
            file=file,
            name=name,
            there=list(info.shape),
            here=list(subject.info.shape),
        )
    elif info.not_prunable is not None and name not in left.base.counts:
        why = tr(info.not_prunable)
        reason = tr("{file}: {name} cannot be pruned: {why}.", file=file, name=name, why=why)
    else:
        return None
    hint = tr("Choose another parameter, or something else to compare with.")
    return f"{one_line(reason)}\n{hint}"
