"""A large thumbnail beside the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from prune_gui.gui.views.overview.grid_painter import image_of
from prune_gui.gui.views.overview.thumbnail import proportions

if TYPE_CHECKING:
    from prune_gui.gui.views.overview.data import Picture


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
