"""The enlarged thumbnail beside the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from prune_gui.gui.views.overview.thumbnail import proportions
from prune_gui.gui.views.overview.thumbnail_grid import image_of

if TYPE_CHECKING:
    from prune_gui.gui.views.overview.data import Picture

SIDE_PX: Final = 240
GAP_PX: Final = 12
"""Gap between a thumbnail and its enlargement."""


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
        """Show a parameter beside its thumbnail.

        Args:
            picture: its pixels; None if they are not computed yet.
            shape: the shape of the parameter.
        """
        self._text.setText(text)
        self._image.setVisible(picture is not None)
        if picture is not None:
            width, height = (round(SIDE_PX * side) for side in proportions(shape))
            ratio = self.devicePixelRatioF()
            pixmap = QPixmap.fromImage(image_of(picture.pixels)).scaled(
                QSize(width, height) * ratio
            )
            pixmap.setDevicePixelRatio(ratio)
            self._image.setPixmap(pixmap)
        self.adjustSize()
        self.move(_beside(thumbnail, self.size(), self.screen().availableGeometry()))
        self.show()


def _beside(thumbnail: QRect, size: QSize, screen: QRect) -> QPoint:
    """Return the position of a window of `size` at the right of a thumbnail, or at its left."""
    x = thumbnail.right() + GAP_PX
    if x + size.width() > screen.right():
        x = thumbnail.left() - GAP_PX - size.width()
    y = min(thumbnail.top(), screen.bottom() - size.height())
    return QPoint(max(x, screen.left()), max(y, screen.top()))
