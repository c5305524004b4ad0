"""One of two linked pictures of a layout, which zoom and pan together."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.map_navigation import add_pan_shortcuts
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.view import SETTLE_MS
from prune_gui.raster.slice_layout import ParameterLayout


class LinkedPlot(MapCanvas):
    """Shows pixels over a layout. The wheel zooms at the cursor; dragging and the arrow keys pan.

    Signals:
        settled: the visible region changed, and then stayed unchanged for `SETTLE_MS`.
    """

    settled = Signal()

    def __init__(self, viewport: Viewport) -> None:
        super().__init__(viewport)
        self._labels = "", ""
        self._settling = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settling.timeout.connect(self.settled)
        self.view.sigRangeChanged.connect(self._moved)
        self.view.sigResized.connect(self._moved)
        self.view.sigResized.connect(self._label_axes)
        add_pan_shortcuts(self)

    def show_layout(self, layout: ParameterLayout, labels: tuple[str, str]) -> None:
        """Show another layout; the visible region stays if the layout has the same size."""
        self.whole.hide()
        self.take(layout)
        self.plotItem.getAxis("left").end = layout.rows
        self.plotItem.getAxis("bottom").end = layout.columns
        self._labels = labels
        self._label_axes()

    def show_tiles(self, rendered: RenderedView, pixels: Pixels, *, has_overview: bool) -> None:
        """Show one of the pictures of rendered tiles, in the layout that is shown.

        Args:
            pixels: uint8 (cells down, cells across, 4): red, green, blue, opaque.
        """
        tile_grid = rendered.tile_grid
        self.whole.setVisible(has_overview)
        if tile_grid.is_whole and rendered.is_complete:
            self.show_whole(pixels)
            self.part.hide()
        else:
            self.show_part(pixels, tile_grid.rows, tile_grid.columns)
        self.show_undrawn(on=not (rendered.is_complete or has_overview))
        self.show_marks(rendered.painted.marks)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop the timer."""
        super().hideEvent(event)
        self._settling.stop()

    def _moved(self) -> None:
        if self.isVisible() and not self._settling.isActive():
            self._settling.start()

    def _label_axes(self) -> None:
        """Label both axes, elided to the length of each axis."""
        size, metrics = self.view.rect(), self.fontMetrics()
        for side, text, available in zip(
            ("left", "bottom"), self._labels, (size.height(), size.width()), strict=True
        ):
            self.label(side, metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(available)))
