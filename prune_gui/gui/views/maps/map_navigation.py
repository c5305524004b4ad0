"""Buttons and keyboard shortcuts to zoom and pan a picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QPushButton, QWidget

from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.views.maps.canvas import MapCanvas
    from prune_gui.gui.views.plot import Plot

ZOOM_FACTOR: Final = 1.3
ZOOMS: Final = {"+": 1 / ZOOM_FACTOR, "=": 1 / ZOOM_FACTOR, "-": ZOOM_FACTOR}
PAN_SHARE: Final = 0.2
PANS: Final = {
    "Left": (-PAN_SHARE, 0.0),
    "Right": (PAN_SHARE, 0.0),
    "Up": (0.0, -PAN_SHARE),
    "Down": (0.0, PAN_SHARE),
}
"""By key: the zoom factor, and the pan as shares of the visible region, across and down."""
BUTTON_PADDING_PX: Final = 24
"""Space beside the text of a button."""


def zoom_buttons(picture: MapCanvas, view: QWidget) -> list[QPushButton]:
    """Add shortcuts to a view: plus and minus zoom, F fits, 1 shows an element per pixel.

    Returns buttons for the last two.
    """
    for key, factor in ZOOMS.items():
        _shortcut(key, partial(picture.zoom, factor), view)
    buttons = []
    for text, tip, key, action in (
        (tr("Fit"), tr("Show the whole parameter (F)"), "F", picture.fit),
        ("1:1", tr("Show one weight per pixel (1)"), "1", picture.one_to_one),
    ):
        buttons.append(button := QPushButton(text))
        button.setToolTip(tip)
        button.setFixedWidth(button.fontMetrics().horizontalAdvance(text) + BUTTON_PADDING_PX)
        button.clicked.connect(action)
        _shortcut(key, action, view)
    return buttons


def add_pan_shortcuts(picture: MapCanvas) -> None:
    """Let the arrow keys pan a picture while it has the focus."""
    for key, (across, down) in PANS.items():
        _shortcut(key, partial(picture.pan, across, down), picture)


def add_axis_shortcuts(plot: Plot) -> None:
    """Let plus and minus zoom a plot along its horizontal axis, and the arrow keys pan it.

    F shows the whole range of the axis limits. The plot needs the focus.
    """

    def move(share: float) -> None:
        plot.view.translateBy(x=share * plot.viewRect().width())

    def fit() -> None:
        plot.setXRange(*plot.view.state["limits"]["xLimits"], padding=0)

    for key, factor in ZOOMS.items():
        _shortcut(key, partial(plot.view.scaleBy, x=factor), plot)
    for key in ("Left", "Right"):
        _shortcut(key, partial(move, PANS[key][0]), plot)
    _shortcut("F", fit, plot)


def _shortcut(key: str, action: Callable[[], None], widget: QWidget) -> None:
    buttons = QShortcut(QKeySequence(key), widget)
    buttons.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    buttons.activated.connect(action)
