"""A picture that pans and zooms like a map, and its overlays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QPainter, QPaintEvent, QShowEvent, QStaticText
from PySide6.QtWidgets import QGraphicsRectItem, QPushButton, QStyleOptionGraphicsItem, QWidget

from prune_gui.gui.views.controls import PANS, ZOOMS, IconToggle, shortcut
from prune_gui.gui.views.maps.margins import HeadAxis, HeadOverlay, Margins
from prune_gui.gui.views.maps.text import MAX_CHARACTERS
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import (
    CellCentres,
    Pixels,
    TileRegion,
    grid_lines,
    visible_region,
)
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.plot import IndexAxis, Plot, axis_scales, axis_shifts, pen
from prune_gui.gui.widgets import layouts, theme
from prune_gui.language import tr
from prune_gui.raster.colours import Colours
from prune_gui.raster.parameter_layouts import ParameterLayout

OVERHANG_PX = 20  # by which the label of an axis may be longer than the axis
SIDES = "left", "bottom"
SHOWN_ELEMENT_PX = 16  # size of an element that the view moves to
MIN_GRID_CELL_PX = 12  # minimum cell size of one element for grid lines between elements
MAX_MARKED_CELL_PX = 8  # a ring marks a lone cell that is smaller than this
MARK_DIAMETER_PX = 13  # diameter of a ring
KEY_STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
"""Rows and columns to the neighbouring element, by key."""
MAX_ASPECT = 4
"""Maximum ratio of the sides of the canvas for which a picture with square cells can be fitted."""
FIT_MARGIN = 0.01  # margin on each side of a fitted picture, as a share of its size
MAX_PAPER_PX = 2048
PAPER_PX_PER_CELL = 8
"""Pixels of an image in a figure that is not whole: along a side, and of each of its cells."""
BUTTON_PADDING_PX = 24  # space beside the text of a button


class MapCanvas(Plot):
    """Shows images of a picture in row and column coordinates, which signals have too, or None."""

    pointed = Signal(object)  # the element under the cursor
    clicked = Signal(object)  # the element that was clicked or chosen by a key
    escaped = Signal()

    def __init__(self, viewport: Viewport) -> None:
        super().__init__(
            {side: IndexAxis(side) for side in SIDES}
            | {side: HeadAxis(side) for side in ("top", "right")}
        )
        self._viewport = viewport
        self.layout_shown: ParameterLayout | None = None
        self._labels = "", ""
        self.view.invertY(True)
        # The whole picture, if available, is below the visible part, for panning beyond the part.
        self.whole, self.part = (pg.ImageItem(axisOrder="row-major") for _ in range(2))
        self._hatching = Hatching()
        self._grid = pg.PlotCurveItem(connect="pairs")
        self.texts = ElementTexts()
        self._marks = pg.ScatterPlotItem(symbol="o", size=MARK_DIAMETER_PX, brush=None)
        self._pin = QGraphicsRectItem()
        self._pin_ring = pg.ScatterPlotItem(symbol="s", size=MARK_DIAMETER_PX, brush=None)
        self._pinned: tuple[int, int] | None = None
        images = (self._hatching, self.whole, self.part)
        for item in (*images, self._grid, self.texts, self._marks, self._pin, self._pin_ring):
            self.addItem(item, ignoreBounds=True)
        self.margins = Margins(self)
        self.heads = HeadOverlay(self)
        self._mark_centres: CellCentres = np.zeros((0, 2))
        self.scene().sigMouseMoved.connect(lambda at: self.pointed.emit(self._cell_at(at)))
        self.scene().sigMouseClicked.connect(self._click)
        self.left.connect(lambda: self.pointed.emit(None))
        self.view.sigRangeChanged.connect(self._update_overlay)
        self.view.sigRangeChanged.connect(self._update_viewport)
        self.view.sigResized.connect(self._update_overlay)
        self.view.sigResized.connect(self._label_axes)
        self.view.sigResized.connect(self._keep_whole)
        for key, (across, down) in PANS.items():
            shortcut(key, partial(self.pan, across, down), self)
        self.recolour(theme.colours(self.palette()))

    @property
    def sight(self) -> QRectF:
        """The visible region, in columns and rows."""
        region: QRectF = self.viewRect()
        return region

    def region_of(self, layout: ParameterLayout) -> TileRegion:
        """Return the region to draw: the visible one, or all of a layout that is new."""
        region, size = self._visible_rect(layout), self.view.rect()
        ratio = self.devicePixelRatioF()
        pixel = (
            region.width() / max(1.0, size.width() * ratio),
            region.height() / max(1.0, size.height() * ratio),
        )
        if self._viewport.has_square_cells(layout):
            pixel = max(pixel), max(pixel)
        x, y = (region.left(), region.right()), (region.top(), region.bottom())
        return visible_region(layout, x, y, pixel)

    def take(self, layout: ParameterLayout, labels: tuple[str, str]) -> None:
        sight, is_new = self._visible_rect(layout), not self._is_known(layout)
        self.layout_shown = layout
        if is_new:
            self.view.setAspectLocked(self._viewport.has_square_cells(layout))
            self._limit_range()
            self.setRange(sight, padding=0)
            self._update_viewport()
        self._update_overlay()
        axes = zip(SIDES, axis_scales(layout), axis_shifts(layout), strict=True)
        for side, (scale, end), shift in axes:
            axis = self.plotItem.getAxis(side)
            axis.end, axis.shift = end, shift
            axis.setScale(scale)
        self._labels = labels
        self._label_axes()

    def _keep_whole(self) -> None:
        """Fit a whole picture with square cells into a view of another size."""
        layout = self.layout_shown
        if layout is not None and self.has_square_cells and self.sight.contains(extent(layout)):
            self.fit()

    def _label_axes(self) -> None:
        """Label the axes, as far as their lengths allow."""
        size, metrics = self.view.rect(), self.fontMetrics()
        lengths = size.height(), size.width()
        for side, text, length in zip(SIDES, self._labels, lengths, strict=True):
            room = int(length) + OVERHANG_PX
            self.label(side, metrics.elidedText(text, Qt.TextElideMode.ElideRight, room))

    def _visible_rect(self, layout: ParameterLayout) -> QRectF:
        """Return the region to show of a layout; more of it is visible if the cells are square."""
        view_state, size = self._viewport.within(layout), self.view.rect().size()
        if view_state is None:
            return self.sight if self._is_known(layout) else fitted(layout)
        sight = view_state.sight
        if not self._viewport.has_square_cells(layout) or size.isEmpty():
            return sight
        if sight.contains(extent(layout)):
            return fitted(layout)
        # Views of different proportions would enlarge the region in turn, if each contained it.
        cell = math.sqrt(sight.width() * sight.height() / (size.width() * size.height()))
        region = QRectF(QPointF(), cell * size)
        region.moveCenter(sight.center())
        return region

    def _is_known(self, layout: ParameterLayout) -> bool:
        return self.layout_shown is not None and extent(layout) == extent(self.layout_shown)

    def _update_viewport(self) -> None:
        if self.layout_shown is not None and self.isVisible():
            self._viewport.look(self.layout_shown, self.sight)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        if self.layout_shown is not None:
            self.setRange(self._visible_rect(self.layout_shown), padding=0)

    def fit(self) -> None:
        if self.layout_shown is not None:
            self.setRange(fitted(self.layout_shown), padding=0)

    def one_to_one(self) -> None:
        """Show one element per pixel, around the same centre."""
        region = QRectF(QPointF(), self.view.rect().size() / self.devicePixelRatioF())
        region.moveCenter(self.sight.center())
        self.setRange(region, padding=0)

    def show_element(self, row: int, column: int) -> None:
        """Show an element in the middle, and so large that its group can be seen."""
        size = self.view.rect().size()
        wide, high = (side / SHOWN_ELEMENT_PX for side in (size.width(), size.height()))
        region = QRectF(0, 0, min(wide, self.sight.width()), min(high, self.sight.height()))
        region.moveCenter(QPointF(column, row))
        self.setRange(region, padding=0)

    def update_square_cells(self) -> None:
        """Follow the choice of square cells; the whole picture is shown if it has changed."""
        layout = self.layout_shown
        on = layout is not None and self._viewport.has_square_cells(layout)
        if on != self.has_square_cells:
            self.view.setAspectLocked(on)
            self._limit_range()
            self.fit()

    @property
    def has_square_cells(self) -> bool:
        return bool(self.view.state["aspectLocked"])

    def _limit_range(self) -> None:
        """Limit the zoom. With square cells, a long picture needs a wide range."""
        if self.layout_shown is None:
            return
        columns, rows = self.layout_shown.columns, self.layout_shown.rows
        if self.has_square_cells:
            columns = rows = MAX_ASPECT * max(columns, rows)
        across, down = 2 * columns + 8000, 2 * rows + 8000
        self.view.setLimits(minXRange=2, minYRange=2, maxXRange=across, maxYRange=down)

    def zoom(self, factor: float) -> None:
        self.view.scaleBy((factor, factor))

    def pan(self, across: float, down: float) -> None:
        region = self.sight
        self.view.translateBy((across * region.width(), down * region.height()))

    def show_tiles(self, rendered: RenderedView, pixels: Pixels, *, has_overview: bool) -> None:
        """Show rendered tiles above the overview, and hatching where neither covers the layout."""
        grid = rendered.tile_grid
        self.whole.setVisible(has_overview)
        if rendered.is_overview:
            self.show_whole(pixels)
            self.part.hide()
        else:
            _show(self.part, pixels, rectangle(grid.rows, grid.columns))
        is_undrawn = not (rendered.is_complete or has_overview)
        if is_undrawn:
            self._hatching.set_extent(extent(grid.layout))
        self._hatching.setVisible(is_undrawn)
        if not np.array_equal(rendered.painted.marks, self._mark_centres):
            self._mark_centres = rendered.painted.marks
            self._update_overlay()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw; for a figure only the visible part of images, because its file may not clip."""
        items = [item for item in (self.whole, self.part) if item.isVisible() and self.on_paper]
        shown = [(item.image, item.mapRectToParent(item.boundingRect())) for item in items]
        for item, (pixels, area) in zip(items, shown, strict=True):
            _show(item, *cropped(pixels, area, self.sight))
        super().paintEvent(event)
        for item, (pixels, area) in zip(items, shown, strict=True):
            _show(item, pixels, area)

    def show_whole(self, pixels: Pixels) -> None:
        assert self.layout_shown is not None
        _show(self.whole, pixels, extent(self.layout_shown))

    @property
    def readable(self) -> bool:
        size, sight, metrics = self.view.rect(), self.sight, self.fontMetrics()
        width = metrics.horizontalAdvance("0" * MAX_CHARACTERS) + 2 * TEXT_MARGIN_PX
        fits_across = size.width() >= width * sight.width()
        return bool(fits_across and size.height() >= metrics.height() * sight.height())

    def pin(self, cell: tuple[int, int] | None) -> None:
        if cell != self._pinned:
            self._pinned = cell
            self._update_overlay()

    def recolour(self, colours: Colours) -> None:
        super().recolour(colours)
        self._hatching.brush = QBrush(QColor(colours.grid), Qt.BrushStyle.BDiagPattern)
        self._grid.setPen(pen(colours.background))
        self._marks.setPen(pen(colours.foreground, width=1.5))
        for item in (self._pin, self._pin_ring):
            item.setPen(pen(colours.draft, width=2.5))
        self.margins.recolour(colours)
        self.heads.recolour(colours)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Emit `clicked`: Space for the pinned or central element, Shift+arrow for a neighbour."""
        key, shift = Qt.Key(event.key()), Qt.KeyboardModifier.ShiftModifier
        if key == Qt.Key.Key_Escape:
            self.escaped.emit()
        elif key == Qt.Key.Key_Space:
            middle = self.view.mapViewToScene(self.sight.center())
            self.clicked.emit(self._pinned or self._cell_at(middle))
        elif key in KEY_STEPS and event.modifiers() & shift and self._pinned is not None:
            self._move_pin(self._pinned, KEY_STEPS[key])
        else:
            super().keyPressEvent(event)

    def _move_pin(self, start: tuple[int, int], step: tuple[int, int]) -> None:
        row, column = start[0] + step[0], start[1] + step[1]
        if self.layout_shown is not None and self.layout_shown.holds(row, column):
            self.clicked.emit((row, column))
            region, cell = self.sight, QRectF(column - 0.5, row - 0.5, 1, 1)
            if not region.contains(cell):
                region.translate(step[1] * region.width() / 2, step[0] * region.height() / 2)
                self.setRange(region, padding=0)

    def _click(self, event: pg.GraphicsScene.mouseEvents.MouseClickEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not event.double():
            self.setFocus()
            self.clicked.emit(self._cell_at(event.scenePos()))

    def _cell_at(self, scene: QPointF) -> tuple[int, int] | None:
        at = self.view.mapSceneToView(scene)
        row, column = round(at.y()), round(at.x())
        layout = self.layout_shown
        inside = self.view.sceneBoundingRect().contains(scene)
        return (row, column) if inside and layout and layout.holds(row, column) else None

    def _update_overlay(self) -> None:
        if self.layout_shown is None:
            return
        size, sight = self.view.rect(), self.sight
        region = sight & extent(self.layout_shown)
        x, y = (region.left(), region.right()), (region.top(), region.bottom())
        across = size.width() > MIN_GRID_CELL_PX * sight.width()
        down = size.height() > MIN_GRID_CELL_PX * sight.height()
        self._grid.setData(*grid_lines(x, y, across=across, down=down))
        self.texts.setVisible(self.readable)
        cell_px = min(size.width() / sight.width(), size.height() / sight.height())
        small = cell_px < MAX_MARKED_CELL_PX
        centres = self._mark_centres if small else self._mark_centres[:0]
        self._marks.setData(x=centres[:, 1], y=centres[:, 0])
        pinned = [self._pinned] if self._pinned else []
        self._pin_ring.setData(
            x=[column for _, column in pinned if small], y=[row for row, _ in pinned if small]
        )
        self._pin.setVisible(bool(pinned) and not small)
        for row, column in pinned:
            self._pin.setRect(column - 0.5, row - 0.5, 1, 1)
        self.margins.draw()
        self.heads.update()


def fitted(layout: ParameterLayout) -> QRectF:
    """Return the region that shows a whole layout with a small margin."""
    margin = layout.columns * FIT_MARGIN, layout.rows * FIT_MARGIN
    return extent(layout).adjusted(-margin[0], -margin[1], *margin)


def extent(layout: ParameterLayout) -> QRectF:
    """Return the rectangle that the elements of a layout cover."""
    return rectangle(range(layout.rows), range(layout.columns))


def cropped(pixels: Pixels, area: QRectF, sight: QRectF) -> tuple[Pixels, QRectF]:
    """Return the part of an image in sight, whose pixels are enlarged so that it can cut them."""
    visible = area & sight
    if visible == area or visible.isEmpty():
        return pixels, area
    lines = []
    for start, length, first, extent, count in (
        (visible.top(), visible.height(), area.top(), area.height(), pixels.shape[0]),
        (visible.left(), visible.width(), area.left(), area.width(), pixels.shape[1]),
    ):
        seen = max(1, min(MAX_PAPER_PX, math.ceil(length / extent * count) * PAPER_PX_PER_CELL))
        middles = start + (np.arange(seen) + 0.5) * length / seen
        lines.append(np.clip((middles - first) / extent * count, 0, count - 1).astype(np.intp))
    return np.ascontiguousarray(pixels[np.ix_(*lines)]), visible


def _show(item: pg.ImageItem, pixels: Pixels, rect: QRectF) -> None:
    item.setImage(pixels, autoLevels=False, levels=None)
    item.setRect(rect)
    item.show()


_BLACK, _WHITE = QColor("#000000"), QColor("#ffffff")
TEXT_MARGIN_PX = 2  # minimum space between a text and the border of its element


@dataclass(frozen=True, slots=True, eq=False)
class CellTexts:
    """Texts in the elements of a rectangle.

    Attributes:
        texts: str (rows, columns); "" where there is no element.
        bright: bool (rows, columns); True where the picture is so bright that the text is black.
    """

    rows: range
    columns: range
    texts: NDArray[np.str_]
    bright: NDArray[np.bool_]


class Hatching(pg.GraphicsObject):  # type: ignore[misc]
    """A rectangle with hatching whose line spacing is the same at any zoom."""

    def __init__(self) -> None:
        super().__init__()
        self.brush = QBrush()
        self._extent = QRectF()
        self.hide()

    def set_extent(self, rect: QRectF) -> None:
        self.prepareGeometryChange()
        self._extent = rect

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self._extent

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        transform = painter.worldTransform()
        painter.resetTransform()
        painter.fillRect(transform.mapRect(self._extent), self.brush)


class ElementTexts(pg.GraphicsObject):  # type: ignore[misc]
    """Texts in elements, black or white for contrast with the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: CellTexts | None = None
        self._static_texts: dict[str, QStaticText] = {}

    def set_texts(self, cell_texts: CellTexts | None) -> None:
        self.prepareGeometryChange()
        self.shown = cell_texts
        unique = np.unique(cell_texts.texts).tolist() if cell_texts is not None else []
        known = self._static_texts
        self._static_texts = {text: known.get(text) or _static_text(text) for text in unique}
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        if self.shown is None:
            return QRectF()
        return rectangle(self.shown.rows, self.shown.columns)

    def paint(
        self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None
    ) -> None:
        """Draw each text in the centre of the visible part of its element, if it fits there."""
        if self.shown is None:
            return
        transform = painter.worldTransform()
        visible = transform.mapRect(QRectF(self.viewRect()))
        painter.resetTransform()
        for (i, j), text in np.ndenumerate(self.shown.texts):
            row, column = self.shown.rows[i], self.shown.columns[j]
            cell = transform.mapRect(QRectF(column - 0.5, row - 0.5, 1, 1)) & visible
            painter.setPen(_BLACK if self.shown.bright[i, j] else _WHITE)
            static_text = self._static_texts[text]
            size = static_text.size()
            if cell.width() < size.width() + 2 * TEXT_MARGIN_PX or cell.height() < size.height():
                continue  # cut off by the border of the view
            corner = cell.center() - QPointF(size.width() / 2, size.height() / 2)
            painter.drawStaticText(corner, static_text)


def _static_text(text: str) -> QStaticText:
    """Return a text with a cached layout, so that repeated painting is fast."""
    static_text = QStaticText(text)
    static_text.setTextFormat(Qt.TextFormat.PlainText)
    return static_text


def rectangle(rows: range, columns: range) -> QRectF:
    """Return the rectangle that elements cover: each extends half a unit around its index."""
    return QRectF(columns.start - 0.5, rows.start - 0.5, len(columns), len(rows))


class SquareCells(IconToggle):
    """Makes the cells of some pictures square; all views share the choice."""

    def __init__(self, viewport: Viewport, *pictures: MapCanvas) -> None:
        name, tip = tr("Square cells"), tr("Show rows as high as columns are wide")
        super().__init__("square-cells", name, tip)
        self._viewport, self._pictures = viewport, pictures
        self.clicked.connect(self._choose)

    def follow(self) -> None:
        """Take over what was chosen, maybe in another view, or is the default of a new layout."""
        for picture in self._pictures:
            picture.update_square_cells()
        self.setChecked(self._pictures[0].has_square_cells)

    def _choose(self, on: bool) -> None:
        self._viewport.keep_square_cells(on=on)
        self.follow()


def zoom_buttons(picture: MapCanvas, view: QWidget) -> list[QPushButton]:
    """Add the keys plus, minus, F and 1 to a view, and return buttons for the last two."""
    for key, factor in ZOOMS.items():
        shortcut(key, partial(picture.zoom, factor), view)
    buttons = []
    for text, tip, key, action in (
        (tr("Fit"), tr("Show the whole parameter (F)"), "F", picture.fit),
        ("1:1", tr("Show one weight per pixel (1)"), "1", picture.one_to_one),
    ):
        buttons.append(button := layouts.button(text, action, tip))
        button.setFixedWidth(button.fontMetrics().horizontalAdvance(text) + BUTTON_PADDING_PX)
        shortcut(key, action, view)
    return buttons
