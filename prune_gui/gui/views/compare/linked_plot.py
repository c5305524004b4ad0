"""One of two pictures of a plane of entries that zoom and move together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent

from prune_gui.audit.raster.slice_layout import ParameterLayout
from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.map_navigation import pan_by_arrows
from prune_gui.gui.views.maps.mask_picture import Frame
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import SETTLE


class PlanePlot(MapCanvas):
    """Shows pixels over a plane. The wheel zooms at the cursor, dragging and the arrows move.

    Signals:
        settled: another part is in sight, for a moment already.
    """

    settled = Signal()

    def __init__(self, viewport: Viewport) -> None:
        super().__init__(viewport)
        self._labels = "", ""
        self._settling = QTimer(self, singleShot=True, interval=SETTLE)
        self._settling.timeout.connect(self.settled)
        self.view.sigRangeChanged.connect(self._moved)
        self.view.sigResized.connect(self._moved)
        self.view.sigResized.connect(self._label_axes)
        pan_by_arrows(self)

    def show_plane(self, plane: ParameterLayout, labels: tuple[str, str]) -> None:
        """Put another plane on the screen; the part in sight stays if it is as large.

        Args:
            plane: how a parameter is laid flat.
            labels: what runs down, and what runs across.
        """
        self.whole.hide()
        self.take(plane)
        self.plotItem.getAxis("left").end = plane.rows
        self.plotItem.getAxis("bottom").end = plane.columns
        self._labels = labels
        self._label_axes()

    def show_pixels(self, drawn: Frame, pixels: NDArray[np.uint8], *, same: bool) -> None:
        """Show the pixels of a frame.

        Args:
            drawn: of the plane that is shown.
            pixels: (cells down, cells across, 4), red, green, blue, opaque.
            same: whether they show the same as those before, of another part.
        """
        if not same:
            self.whole.hide()
        if (len(drawn.rows), len(drawn.columns)) == (drawn.plane.rows, drawn.plane.columns):
            self.show_whole(pixels)
            self.part.hide()
        else:
            self.show_part(pixels, drawn.rows, drawn.columns)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop waiting."""
        super().hideEvent(event)
        self._settling.stop()

    def _moved(self) -> None:
        if self.isVisible() and not self._settling.isActive():
            self._settling.start()

    def _label_axes(self) -> None:
        """Say what runs down and across, as far as there is room."""
        size, metrics = self.view.rect(), self.fontMetrics()
        for side, text, room in zip(
            ("left", "bottom"), self._labels, (size.height(), size.width()), strict=True
        ):
            self.label(side, metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(room)))
