"""What a map shows beside its tiles: profiles, texts, attention heads and one element."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPoint, QSignalBlocker, QSize, Qt, QTimer
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QSizePolicy,
    QSpinBox,
    QToolTip,
    QWidget,
)

from prune_gui import raster, statistics
from prune_gui.architecture.projections import attention_heads, split_evenly
from prune_gui.gui.views.controls import IconToggle
from prune_gui.gui.views.maps.canvas import CellTexts, MapCanvas
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.text import (
    ElementText,
    StepRow,
    Texts,
    describe,
    describe_ranks,
    step_rows,
)
from prune_gui.gui.views.maps.tile_pipeline import MapPainter, RenderedView, RunJob
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.gui.views.maps.viewport import Viewport, head_key
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.table_widgets import RecordModel, TableView
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, bold
from prune_gui.language import deferred, tr
from prune_gui.number_formats import sparsity
from prune_gui.raster.colours import is_bright
from prune_gui.raster.parameter_layouts import HeadBands, head_bands
from prune_gui.session.subjects import Subject
from prune_gui.table import Column, record_column

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.parameter_layouts import ParameterLayout
    from prune_gui.recipe.outcome import Explanation
    from prune_gui.statistics.element_values import Element


@dataclass(eq=False)
class Reader:
    """Computes what belongs to the picture of a canvas, in jobs of a lane."""

    canvas: MapCanvas
    lane: str
    run_job: RunJob


@dataclass(eq=False)
class ProfileReader(Reader):
    """Computes the profiles of a picture, and shows them in its margins while `box` is checked."""

    tip: str
    _key: tuple[Hashable, ParameterLayout] | None = None

    def __post_init__(self) -> None:
        self.box = IconToggle("profiles", tr("Profiles"), self.tip)
        self.box.setChecked(True)
        self.box.toggled.connect(lambda on: self.canvas.margins.set_visible(visible=on))
        self.canvas.margins.set_visible(visible=True)

    def request(self, painter: MapPainter, layout: ParameterLayout, titles: Titles) -> None:
        key = (painter.profile_key, layout)
        if not self.box.isChecked() or key == self._key:
            return

        def show(profiles: Profiles) -> None:
            if layout == self.canvas.layout_shown:
                self._key = key
                self.canvas.margins.show_profiles(profiles, titles)

        self.run_job(self.lane, painter.subject, partial(painter.profiles, layout), show)

    def clear(self) -> None:
        self._key = None
        self.canvas.margins.clear()


@dataclass(eq=False)
class CellTextWriter(Reader):
    """Reads the texts of the visible elements, and writes them into a canvas."""

    colour: Callable[[Pixels], Pixels]
    _key: tuple[Hashable, range, range] | None = None

    def forget(self) -> None:
        """Write the texts anew with the next picture, because its colours have changed."""
        self._key = None

    def write(self, painter: MapPainter, rendered: RenderedView) -> None:
        tile_grid = rendered.tile_grid
        if not (rendered.is_complete and self.canvas.readable and tile_grid.cell == (1, 1)):
            self._key = None
            self.canvas.texts.set_texts(None)
            return
        sight = self.canvas.region_of(tile_grid.layout)
        rows, columns = sight.rows, sight.columns
        wanted = (rendered.key, rows, columns)
        if wanted == self._key:
            return
        self._key = wanted
        top, left = rows.start - tile_grid.rows.start, columns.start - tile_grid.columns.start
        part = rendered.painted.pixels[top : top + len(rows), left : left + len(columns)]
        bright = is_bright(self.colour(part))

        def show(texts: Texts) -> None:
            if self._key == wanted:
                self.canvas.texts.set_texts(CellTexts(rows, columns, texts, bright))

        read = partial(painter.texts, tile_grid.layout, rows, columns)
        self.run_job(self.lane, painter.subject, lambda _: read(), show)


OFF: Final = -1
AUTO: Final = 0
MAX_HEADS: Final = 4096


class HeadsBox(QSpinBox):
    """A spin box for a number of heads, for the number that the file states, or for none."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(OFF, MAX_HEADS)
        self.setValue(AUTO)
        self.setKeyboardTracking(False)
        self.setPrefix(tr("Heads: "))
        self.setAccessibleName(tr("Attention heads"))
        tip = tr(
            "Lines between attention heads, and the share of each that is pruned, or zero in "
            "the file.\n"
            "auto: the number of heads in config.json; else type a number, or off."
        )
        self.setToolTip(tip)

    def textFromValue(self, value: int) -> str:  # noqa: N802
        if value == OFF:
            return tr("off")
        return tr("auto") if value == AUTO else str(value)

    def valueFromText(self, text: str) -> int:  # noqa: N802
        """Return the number of heads that the user typed; without a number, off or automatic."""
        typed = text.removeprefix(self.prefix()).strip()
        if typed.isdecimal():
            return min(int(typed), MAX_HEADS)
        return OFF if typed == tr("off") else AUTO

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        return QValidator.State.Acceptable, text, at


@dataclass(eq=False)
class HeadReader(Reader):
    """Shows the heads of a parameter, as many as the file states or the user chose in `box`."""

    viewport: Viewport
    _subject: Subject | None = None
    _shown: Subject | None = None
    _bands: HeadBands | None = None
    _layout: ParameterLayout | None = None
    _key: Hashable = None

    def __post_init__(self) -> None:
        self.box = HeadsBox()
        self.box.valueChanged.connect(self._choose)

    def show(self, subject: Subject, layout: ParameterLayout) -> None:
        """Show the heads of the parameter on the screen; their shares follow with `request`."""
        self._subject = subject
        count = self.viewport.head_counts.get(head_key(subject.name), AUTO)
        with QSignalBlocker(self.box):
            self.box.setValue(count)
        self.box.setVisible(len(layout.shape) == 2)
        bands = _bands_of(subject, layout, count)
        is_other = (bands, layout) != (self._bands, self._layout)
        if is_other or not subject.same_parameter(self._shown):
            self._bands, self._layout, self._key, self._shown = bands, layout, None, subject
            self.canvas.heads.show_bands(bands, (layout.rows, layout.columns))

    def request(self) -> None:
        subject, layout, bands = self._subject, self._layout, self._bands
        if subject is None or layout is None or bands is None:
            return
        key = (subject.marked_key, layout, bands)
        if key == self._key:
            return
        size = subject.info.numel // len(bands.labels)

        def compute(monitor: Monitor) -> list[str]:
            head_shares = raster.density.head_shares
            shares = head_shares(subject.marked, subject.name, layout, bands, monitor)
            return [sparsity(round(float(share) * size), size) for share in shares]

        def show(shares: list[str]) -> None:
            if (layout, bands) == (self._layout, self._bands):
                self._key = key
                self.canvas.heads.show_bands(bands, (layout.rows, layout.columns), shares)

        self.run_job(self.lane, subject, compute, show)

    def _choose(self, count: int) -> None:
        subject, layout = self._subject, self._layout
        if subject is None or layout is None:
            return
        self.viewport.head_counts[head_key(subject.name)] = count
        self.show(subject, layout)
        self.request()
        if count > 0 and self._bands is None:
            message = tr("{count:,} heads do not divide this weight evenly.", count=count)
            QToolTip.showText(self.box.mapToGlobal(QPoint(0, self.box.height())), message, self.box)


def _bands_of(subject: Subject, layout: ParameterLayout, count: int) -> HeadBands | None:
    if count == OFF:
        return None
    checkpoint, name = subject.resolution.checkpoint, subject.name
    if count == AUTO:
        return head_bands(attention_heads(checkpoint, name), layout)
    return head_bands(split_evenly(checkpoint, name, count), layout)


VISIBLE_ROWS: Final = 3  # number of steps that are visible at once; more are scrolled
MIN_VIEW_PX: Final = 360  # a view of this height, or a lower one, has no rows of steps
ROW_MARGIN_PX: Final = 3
LABEL_WIDTHS: Final = (3, 4, 5, 3)  # of index, value, state and note, relative to each other
COLUMNS: Final[tuple[Column[Sequence[StepRow]], ...]] = (
    record_column(deferred("Step"), lambda row: row.step, lambda row: row.step, is_number=False),
    record_column(deferred("Score"), lambda row: row.score, lambda row: row.score),
    record_column(deferred("Cut"), lambda row: row.cut, lambda row: row.cut),
    record_column(deferred("Rank"), lambda row: row.rank, lambda row: row.rank),
)


class ElementInspector(QWidget):
    """Describes an element. Its height is the same for all elements of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Weight under the cursor, or the pinned one"))
        names = (tr("Index"), tr("Value"), tr("State"), tr("Whether it is pinned"))
        self._labels = [ElidedLabel(name) for name in names]
        self._labels[0].setFont(bold(self.font()))
        self._visible_rows = VISIBLE_ROWS
        self._model = RecordModel[StepRow](COLUMNS)
        self._table = TableView(self._model, tr("Score of the weight in every step"))
        self._table.setFrameShape(QFrame.Shape.NoFrame)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._table.verticalHeader().hide()
        header = self._table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(1)
        labels = zip(self._labels, LABEL_WIDTHS, strict=True)
        line = layouts.row(*labels, margin=(GAP_PX, 0, 0, 0))
        margin = (0, TIGHT_PX, 0, 0)
        layouts.column(line, (self._table, 1), of=self, margin=margin, gap=0)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.clear()
        self._fit()

    def show_element(self, text: ElementText, *, pinned: bool) -> None:
        note = tr("pinned (Esc)") if pinned else tr("click to pin")
        self._say(text.index, text.value, text.state, note)
        self._show_rows(text.rows)

    def clear(self, steps: Sequence[StepRow] = ()) -> None:
        """Describe no element; `steps` are those that touch the parameter."""
        self._say("", tr("point at a weight"), "", "")
        self._show_rows(steps)

    def limit_rows(self, view_height: int) -> None:
        """Show fewer steps at once in a low view, so that the picture stays large enough."""
        rows = (view_height - MIN_VIEW_PX) // self.fontMetrics().lineSpacing()
        self._visible_rows = min(max(rows, 0), VISIBLE_ROWS)
        self._fit()

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
            self._fit()

    def _say(self, *texts: str) -> None:
        for label, text in zip(self._labels, texts, strict=True):
            label.say(text, tip=text)
            label.setVisible(bool(text))

    def _show_rows(self, rows: Sequence[StepRow]) -> None:
        if rows != self._model.rows:
            is_longer = len(rows) != len(self._model.rows)
            self._model.show(tuple(rows))
            if is_longer:
                self._fit()

    def _fit(self) -> None:
        """Fit the height to the font and to the number of steps; the table is hidden without."""
        line_px = self.fontMetrics().height() + ROW_MARGIN_PX
        rows = min(len(self._model.rows), self._visible_rows)
        self._table.setVisible(rows > 0)
        self._table.verticalHeader().setDefaultSectionSize(line_px)
        header_px = self._table.horizontalHeader().sizeHint().height() + 2
        table_px = header_px + rows * line_px if rows else 0
        self.setFixedHeight(TIGHT_PX + line_px + table_px)


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
            self.inspector.clear(step_rows(shown[0]) if shown else ())
            return
        subject, layout = shown
        if subject.info.numel <= MAX_RESTED_ELEMENTS:
            self.rest_timer.start()

        def read(_: Monitor) -> Element:
            element_at = statistics.element_values.element_at
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

        explain = partial(subject.resolution.explain, subject.name, index)
        self.run_job(f"{self.lane}.pin", subject, lambda _: explain(), show)

    def _shown(self) -> tuple[Subject, ParameterLayout] | None:
        """Return the parameter and its layout; None while the picture is of another parameter."""
        subject, layout = self.current_subject(), self.canvas.layout_shown
        if subject is None or layout is None or layout.shape != subject.info.shape:
            return None
        return subject, layout
