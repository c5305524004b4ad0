"""The strip below a map that describes one element: its value, and its score in every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from prune_gui.gui.views.controls import fill
from prune_gui.gui.views.maps.readers import Reader
from prune_gui.gui.views.maps.text import ElementText, StepRow, describe, describe_ranks
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import RecordModel, TableView
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.language import deferred, tr
from prune_gui.session.subjects import Subject
from prune_gui.table import Column, record_column

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.parameter_layouts import ParameterLayout
    from prune_gui.recipe.outcome import Explanation
    from prune_gui.statistics.element_values import Element


VISIBLE_ROWS: Final = 3  # number of steps that are visible at once; more are scrolled
ROW_MARGIN_PX: Final = 3
LABEL_CHARS: Final = 19  # width of the labels, in average characters
COLUMNS: Final[tuple[Column[Sequence[StepRow]], ...]] = (
    record_column(deferred("Step"), lambda row: row.step, lambda row: row.step, is_number=False),
    record_column(deferred("Score"), lambda row: row.score, lambda row: row.score),
    record_column(deferred("Cut"), lambda row: row.cut, lambda row: row.cut),
    record_column(deferred("Rank"), lambda row: row.rank, lambda row: row.rank),
)


class ElementInspector(QWidget):
    """Describes an element. Its height is the same for all elements, and without one."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Weight under the cursor, or the pinned one"))
        self._labels = [
            ElidedLabel(name)
            for name in (tr("Index"), tr("Value"), tr("State"), tr("Whether it is pinned"))
        ]
        self._labels[0].setFont(bold(self.font()))
        self._model = RecordModel[StepRow](COLUMNS, self)
        self._table = TableView(self._model, tr("Score of the weight in every step"))
        self._table.setFrameShape(QFrame.Shape.NoFrame)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._table.verticalHeader().hide()
        header = self._table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(1)
        self._side = QWidget()
        fill(QVBoxLayout(self._side), *self._labels, margins=(GAP_PX, 0, 0, 0))
        parts, margins = (self._side, self._table), (0, TIGHT_PX, 0, 0)
        fill(QHBoxLayout(self), *parts, margins=margins, spacing=GAP_PX, growing=[self._table])
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._fit_font()
        self.clear()

    def show_element(self, text: ElementText, *, pinned: bool) -> None:
        note = tr("pinned (Esc)") if pinned else tr("click to pin")
        self._say(text.index, text.value, text.state, note)
        if text.rows != self._model.rows:
            self._model.show(text.rows)

    def clear(self) -> None:
        self._say("", tr("point at a weight"), "", "")
        self._model.show(())

    @property
    def texts(self) -> list[str]:
        cells = [
            cell for row in self._model.rows for cell in (row.step, row.score, row.cut, row.rank)
        ]
        return [label.accessibleDescription() for label in self._labels] + cells

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the minimum width: the strip never makes the window grow."""
        return QSize(1, self.height())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_font()

    def _say(self, *texts: str) -> None:
        for label, text in zip(self._labels, texts, strict=True):
            label.say(text, tip=text)

    def _fit_font(self) -> None:
        metrics = self.fontMetrics()
        row_px = metrics.height() + ROW_MARGIN_PX
        self._table.verticalHeader().setDefaultSectionSize(row_px)
        header_px = self._table.horizontalHeader().sizeHint().height()
        margins = self.contentsMargins()
        self._side.setFixedWidth(LABEL_CHARS * metrics.averageCharWidth())
        self.setFixedHeight(header_px + VISIBLE_ROWS * row_px + margins.top() + 2)


REST_MS: Final = 200
"""Time for which the cursor must rest on an element before its ranks are computed."""
MAX_RESTED_ELEMENTS: Final = 1 << 26
"""Limit of the parameters whose ranks are computed when the cursor rests: ranks read all elements.
In larger parameters, only the pinned element has ranks."""


@dataclass(eq=False)
class ElementReader(Reader):
    """Reads the element that the user pinned by a click; if there is none, the hovered one."""

    viewport: Viewport
    current_subject: Callable[[], Subject | None]
    cursor: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.inspector = ElementInspector()
        self.rest_timer = QTimer(self.inspector, singleShot=True, interval=REST_MS)
        self.rest_timer.timeout.connect(self._read_ranks)
        self.canvas.pointed.connect(self._set_cursor)
        self.canvas.clicked.connect(self._set_pin)
        self.canvas.escaped.connect(lambda: self._set_pin(None))

    def update(self) -> None:
        """Describe the element again: in a new picture, or after another view pinned one."""
        self.canvas.pin(self._pin)
        self.rest_timer.stop()
        if self._pin is not None:
            self._read_ranks()
        else:
            self._read_hovered()

    def _set_cursor(self, cursor: tuple[int, int] | None) -> None:
        if cursor != self.cursor:
            self.cursor = cursor
            if self._pin is None:
                self._read_hovered()

    def _set_pin(self, cell: tuple[int, int] | None) -> None:
        self.viewport.pin(None if cell == self._pin else cell)
        self.update()

    @property
    def _pin(self) -> tuple[int, int] | None:
        layout = self.canvas.layout_shown
        view_state = self.viewport.within(layout) if layout is not None else None
        return view_state.pinned if view_state is not None else None

    def _read_hovered(self) -> None:
        shown, cursor = self._shown(), self.cursor
        if shown is None or cursor is None:
            self.rest_timer.stop()
            self.inspector.clear()
            return
        subject, layout = shown
        if subject.info.numel <= MAX_RESTED_ELEMENTS:
            self.rest_timer.start()

        def read(_: Monitor) -> Element:
            from prune_gui.statistics.element_values import element_at  # torch: slow to import

            return element_at(subject.resolution, subject.name, layout.flat(*cursor))

        def show(weight: Element) -> None:
            if cursor == self.cursor and self._pin is None:
                self.inspector.show_element(describe(subject, weight), pinned=False)

        self.run_job(f"{self.lane}.entry", subject, read, show)

    def _read_ranks(self) -> None:
        shown, pin = self._shown(), self._pin
        cell = pin or self.cursor
        if shown is None or cell is None:
            self.inspector.clear()
            return
        subject, layout = shown
        index = layout.index(*cell)

        def show(explanation: Explanation) -> None:
            if (pin, cell) == (self._pin, self._pin or self.cursor):
                text = describe_ranks(subject, explanation)
                self.inspector.show_element(text, pinned=pin is not None)

        def explain(_: Monitor) -> Explanation:
            return subject.resolution.explain(subject.name, index)

        self.run_job(f"{self.lane}.pin", subject, explain, show)

    def _shown(self) -> tuple[Subject, ParameterLayout] | None:
        """Return the parameter and its layout; None while the picture is of another parameter."""
        subject, layout = self.current_subject(), self.canvas.layout_shown
        if subject is None or layout is None or layout.shape != subject.info.shape:
            return None
        return subject, layout
