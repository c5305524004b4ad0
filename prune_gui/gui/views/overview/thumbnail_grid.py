"""The thumbnails of the overview, which scroll below headings that stay in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QLabel, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.overview.layout import PADDING_PX, OverviewLayout, Position
from prune_gui.gui.views.overview.thumbnail import proportions
from prune_gui.gui.widgets.theme import SMALL, bold, scaled
from prune_gui.language import tr
from prune_gui.number_formats import sparsity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.architecture.blocks import Section
    from prune_gui.gui.views.overview.data import OverviewData, Picture
    from prune_gui.raster.colours import Colours


CENTRE: Final = Qt.AlignmentFlag.AlignHCenter
WIDEST_NUMBER: Final = "100.0 %"
MARGIN_PX: Final = 8
TEXT_GAP_PX: Final = 2
"""Gap between a thumbnail and its texts, where the frame of the chosen one is."""
MAX_CAPTION_PX: Final = 110
MAX_MEASURED_ROWS: Final = 20
"""Limit of the rows of a section whose captions are measured, so that this takes no time."""
PAGE_ROWS: Final = 4
STEPS: Final = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_PageUp: (0, -PAGE_ROWS),
    Qt.Key.Key_PageDown: (0, PAGE_ROWS),
    Qt.Key.Key_Home: (-(1 << 30), 0),
    Qt.Key.Key_End: (1 << 30, 0),
}


class _Shown(NamedTuple):
    """What is on the screen."""

    data: OverviewData
    layout: OverviewLayout
    colours: Colours


class ThumbnailGrid(QAbstractScrollArea):
    """Draws the visible thumbnails.

    Signals:
        chosen: (name) the user moved to a parameter with the keyboard.
        opened: (name) the user clicked a parameter, or pressed Enter on it.
        pointed: (name) the cursor is over a parameter; "" if it is over none.
        moved: other thumbnails are visible.
    """

    chosen = Signal(str)
    opened = Signal(str)
    pointed = Signal(str)
    moved = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Thumbnails of the parameters"))
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self._shown: _Shown | None = None
        self._chosen: str | None = None
        self._pointed = ""
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.valueChanged.connect(self.moved)

    def show_data(self, data: OverviewData, colours: Colours) -> None:
        before = self._shown
        if before is not None and before.data.arrangement is data.arrangement:
            self._shown = _Shown(data, before.layout, colours)
        else:
            self._pointed = ""
            self._fit(data, colours)
            self.verticalScrollBar().setValue(0)
            self.horizontalScrollBar().setValue(0)
        self.viewport().update()

    def choose(self, name: str | None) -> None:
        if name != self._chosen:
            self._chosen = name
            self._show_chosen()
            self.viewport().update()

    def visible_names(self) -> tuple[str, str] | None:
        names = [name for name, _ in self._visible()]
        return (names[0], names[-1]) if names else None

    def rect_of(self, name: str) -> QRectF:
        assert self._shown is not None
        position = self._shown.data.arrangement.positions[name]
        return QRectF(*self._shown.layout.cell(position)).translated(self._offset())

    def _offset(self) -> QPointF:
        return QPointF(
            -self.horizontalScrollBar().value() + MARGIN_PX, -self.verticalScrollBar().value()
        )

    @property
    def _text_font(self) -> QFont:
        return scaled(self.font(), SMALL)

    def _fit(self, data: OverviewData, colours: Colours) -> None:
        metrics, size = QFontMetricsF(self._text_font), self.viewport().size()
        sections = data.arrangement.sections
        ends = [row for section in sections for row in (section.rows[0], section.rows[-1])]
        labels = {one_line(row.label) for row in ends}
        rows = [row for section in sections for row in section.rows[:MAX_MEASURED_ROWS]]
        captions = [one_line(caption) for row in rows for caption in row.captions]
        label_width = max(map(metrics.horizontalAdvance, labels)) + 1 + 2 * MARGIN_PX
        layout = OverviewLayout.fitting(
            data.arrangement,
            (size.width() - MARGIN_PX, size.height()),
            round(metrics.height()) + 1,
            round(min(label_width, size.width() / 4)),
            round(metrics.horizontalAdvance(WIDEST_NUMBER)),
            min(round(max(map(metrics.horizontalAdvance, captions), default=0)), MAX_CAPTION_PX),
        )
        self._shown = _Shown(data, layout, colours)
        width, height = layout.size
        size = self.viewport().size()
        for bar, whole, page, step in (
            (self.horizontalScrollBar(), width + MARGIN_PX, size.width(), layout.side),
            (self.verticalScrollBar(), height, size.height(), layout.side // 2),
        ):
            bar.setRange(0, max(0, whole - page))
            bar.setPageStep(page)
            bar.setSingleStep(step)

    def _fit_again(self) -> None:
        if self._shown is not None:
            self._fit(self._shown.data, self._shown.colours)

    def _show_chosen(self) -> None:
        name, shown = self._chosen, self._shown
        position = shown.data.arrangement.positions.get(name or "") if shown else None
        if name is None or shown is None or position is None:
            return
        data, layout, _ = shown
        rect, size = self.rect_of(name), self.viewport().size()
        top = layout.heading_height(data.arrangement.sections[position.section])
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        if rect.top() < top:
            down.setValue(down.value() + int(rect.top()) - top)
        elif rect.bottom() > size.height():
            down.setValue(down.value() + int(rect.bottom()) - size.height() + MARGIN_PX)
        if rect.left() < layout.label_width:
            across.setValue(across.value() + int(rect.left()) - layout.label_width)
        elif rect.right() > size.width():
            across.setValue(across.value() + int(rect.right()) - size.width())

    def _visible(self) -> Iterator[tuple[str, Position]]:
        if self._shown is None:
            return
        data, layout, _ = self._shown
        left = self.horizontalScrollBar().value() - MARGIN_PX
        top = self.verticalScrollBar().value()
        size = self.viewport().size()
        for index, rows in layout.rows_between(top, top + size.height()):
            section = data.arrangement.sections[index]
            pitch = layout.pitch(section)
            first = max(0, left // pitch)
            last = max(0, (left + size.width() - layout.label_width) // pitch + 1)
            for row in rows:
                for column, name in enumerate(section.rows[row].names[first:last], first):
                    if name is not None:
                        yield name, Position(index, row, column)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        shown = self._shown
        if shown is None:
            return
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), QColor(shown.colours.background))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._text_font)
        offset = self._offset()
        for name, position in self._visible():
            tile = QRectF(*shown.layout.tile(position)).translated(offset)
            self._draw_tile(shown, painter, name, position, tile)
        self._draw_row_labels(shown, painter)
        self._draw_headings(shown, painter)
        painter.end()

    def _draw_tile(
        self, shown: _Shown, painter: QPainter, name: str, position: Position, tile: QRectF
    ) -> None:
        colours, line = shown.colours, shown.layout.line
        resolution = shown.data.subject.resolution
        pruned, total = resolution.counts[name]
        width, height = proportions(resolution.checkpoint.tensors[name].shape)
        area = QRectF(0, 0, tile.width() * width, tile.height() * height)
        area.moveCenter(tile.center())
        area.moveBottom(tile.bottom())  # directly above the text
        picture = shown.data.pictures.get(name)
        if picture is None:
            painter.fillRect(area, QColor(colours.share(pruned / total)))
        else:
            image = image_of(picture.pixels)
            is_smaller = area.width() * self.devicePixelRatioF() < image.width()
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, is_smaller)
            painter.drawImage(area, image)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(colours.grid), 1.0))
        painter.drawRect(area.adjusted(-0.5, -0.5, 0.5, 0.5))
        cell = QRectF(tile.left(), tile.bottom(), shown.layout.cell(position).width, line)
        cell.moveCenter(QPointF(tile.center().x(), cell.center().y()))
        zeros = max(pruned, (picture.zeros if picture else None) or 0)
        painter.setPen(QColor(colours.foreground) if zeros else self._faint())
        below = cell.translated(0, TEXT_GAP_PX)
        painter.drawText(below, Qt.AlignmentFlag.AlignCenter, sparsity(zeros, total))
        row = shown.data.arrangement.sections[position.section].rows[position.row]
        if row.captions:
            cell.moveBottom(area.top() - TEXT_GAP_PX)
            painter.setPen(self._faint())
            self._write(painter, cell, row.captions[position.column])
        if name in (self._chosen, self._pointed):
            is_chosen = name == self._chosen
            has_focus = is_chosen and self.hasFocus()
            shade = self.palette().highlight().color() if has_focus else self._faint()
            painter.setPen(QPen(shade, 2.0 if is_chosen else 1.0))
            painter.drawRoundedRect(area.adjusted(-3, -3, 3, 3), 3, 3)

    def _draw_row_labels(self, shown: _Shown, painter: QPainter) -> None:
        layout, top = shown.layout, self.verticalScrollBar().value()
        size, tensors = self.viewport().size(), shown.data.subject.resolution.checkpoint.tensors
        painter.fillRect(
            QRectF(0, 0, layout.label_width, size.height()), QColor(shown.colours.background)
        )
        painter.setPen(self._faint())
        for index, rows in layout.rows_between(top, top + size.height()):
            section = shown.data.arrangement.sections[index]
            for row in rows:
                tile = layout.tile(Position(index, row, 0))
                names = filter(None, section.rows[row].names)
                height = tile.height * max(proportions(tensors[name].shape)[1] for name in names)
                width = layout.label_width - 2 * MARGIN_PX
                area = QRectF(MARGIN_PX, tile.y + tile.height - height - top, width, height)
                self._write(painter, area, section.rows[row].label, Qt.AlignmentFlag.AlignRight)

    def _draw_headings(self, shown: _Shown, painter: QPainter) -> None:
        layout, top = shown.layout, self.verticalScrollBar().value()
        bottom = top + self.viewport().height()
        several = len(shown.data.arrangement.sections) > 1
        for index, _ in layout.rows_between(top, bottom):
            section = shown.data.arrangement.sections[index]
            height = layout.heading_height(section)
            y = max(layout.tops[index], min(top, layout.tops[index + 1] - height)) - top
            area = QRectF(0, y, self.viewport().width(), height - PADDING_PX / 2)
            painter.fillRect(area, QColor(shown.colours.background))
            line = QRectF(MARGIN_PX, y + 4, area.width() - MARGIN_PX, layout.line)
            if section.title or several:
                painter.setFont(bold(self._text_font))
                painter.setPen(QColor(shown.colours.foreground))
                title = section.title or tr("Outside of blocks")
                self._write(painter, line, title, Qt.AlignmentFlag.AlignLeft)
                painter.setFont(self._text_font)
                line.translate(0, layout.line)
            if section.roles:
                self._draw_roles(shown, painter, section, line.top())

    def _draw_roles(self, shown: _Shown, painter: QPainter, section: Section, y: float) -> None:
        """Draw the labels of the columns, and above them those of groups of columns."""
        layout, line = shown.layout, shown.layout.line
        pitch = layout.pitch(section)
        left = layout.label_width + self._offset().x()
        painter.setClipRect(
            QRectF(layout.label_width, y, self.viewport().width(), 2 * line + MARGIN_PX)
        )
        has_groups = any(role.group for role in section.roles)
        start = 0
        for column, role in enumerate(section.roles):
            x = left + column * pitch
            painter.setPen(QColor(shown.colours.foreground))
            self._write(painter, QRectF(x, y + line * has_groups, pitch, line), role.label)
            is_last = column + 1 == len(section.roles)
            if is_last or section.roles[column + 1].group != role.group:
                area = QRectF(left + start * pitch, y, pitch, line)
                area.setRight(x + pitch)
                painter.setPen(self._faint())
                self._write(painter, area.adjusted(2, 0, -2, 0), role.group)
                if column > start:
                    painter.drawLine(
                        area.bottomLeft() + QPointF(8, 0), area.bottomRight() - QPointF(8, 0)
                    )
                start = column + 1
        painter.setClipping(False)

    def _write(
        self, painter: QPainter, area: QRectF, text: str, align: Qt.AlignmentFlag = CENTRE
    ) -> None:
        metrics, middle = painter.fontMetrics(), Qt.TextElideMode.ElideMiddle
        elided = metrics.elidedText(one_line(text), middle, int(area.width()))
        painter.drawText(area, align | Qt.AlignmentFlag.AlignVCenter, elided)

    def _faint(self) -> QColor:
        return self.palette().placeholderText().color()

    # Input

    def _name_at(self, at: QPointF) -> str:
        names = (name for name, _ in self._visible() if self.rect_of(name).contains(at))
        return next(names, "")

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._point_at(self._name_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        name = self._name_at(event.position())
        if name and event.button() == Qt.MouseButton.LeftButton:
            self.opened.emit(name)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._point_at("")

    def _point_at(self, name: str) -> None:
        if name != self._pointed:
            self._pointed = name
            self.viewport().update()
            self.pointed.emit(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, shown = Qt.Key(event.key()), self._shown
        positions = shown.data.arrangement.positions if shown else {}
        if shown is None or not positions:
            super().keyPressEvent(event)
            return
        current = self._chosen if self._chosen in positions else None
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current is not None:
            self.opened.emit(current)
        elif key in STEPS and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            first = next(iter(positions))
            target = shown.data.arrangement.neighbour(current, *STEPS[key]) if current else first
            self.chosen.emit(target)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.viewport().update()  # the chosen thumbnail is faint without the focus

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit_again()
        self.moved.emit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_again()


def image_of(pixels: NDArray[np.uint8]) -> QImage:
    """Return RGBA pixels (rows, columns, 4) as an image, valid as long as the array."""
    rows, columns, _ = pixels.shape
    return QImage(pixels.data, columns, rows, 4 * columns, QImage.Format.Format_RGBA8888)


SIDE_PX: Final = 240
GAP_PX: Final = 12


class Enlarged(QFrame):
    """A window like a tool tip with a large thumbnail and a text."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip | Qt.WindowType.WindowTransparentForInput)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setBackgroundRole(self.palette().ColorRole.ToolTipBase)
        self.setAutoFillBackground(True)
        self._image = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self._text = QLabel(wordWrap=True)
        for label in (self._image, self._text):
            label.setForegroundRole(self.palette().ColorRole.ToolTipText)
        self._text.setFixedWidth(SIDE_PX)
        layout = QVBoxLayout(self)
        layout.addWidget(self._image)
        layout.addWidget(self._text)

    def show_beside(
        self, thumbnail: QRect, picture: Picture | None, shape: tuple[int, ...], text: str
    ) -> None:
        self._text.setText(text)
        self._image.setVisible(picture is not None)
        if picture is not None:
            width, height = (round(SIDE_PX * side) for side in proportions(shape))
            large, ratio = QSize(width, height), self.devicePixelRatioF()
            pixmap = QPixmap.fromImage(image_of(picture.pixels)).scaled(large * ratio)
            pixmap.setDevicePixelRatio(ratio)
            self._image.setPixmap(pixmap)
        self.adjustSize()
        size, screen = self.size(), self.screen().availableGeometry()
        x, y = thumbnail.right() + GAP_PX, min(thumbnail.top(), screen.bottom() - size.height())
        if x + size.width() > screen.right():
            x = thumbnail.left() - GAP_PX - size.width()
        self.move(max(x, screen.left()), max(y, screen.top()))
        self.show()
