"""The buttons and keys by which one gets around in a picture."""

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

ZOOM: Final = 1.3
ZOOMS: Final = {"+": 1 / ZOOM, "=": 1 / ZOOM, "-": ZOOM}
PAN: Final = 0.2
PANS: Final = {"Left": (-PAN, 0.0), "Right": (PAN, 0.0), "Up": (0.0, -PAN), "Down": (0.0, PAN)}
"""By keys: to how many times as much, and by which shares of what is in sight."""
ROOM: Final = 24
"""Pixels beside the text of a button."""


def zoom_buttons(picture: MapCanvas, view: QWidget) -> list[QPushButton]:
    """Let plus and minus zoom a picture, and F and 1, which are buttons too, anywhere in a view."""
    for key, factor in ZOOMS.items():
        _shortcut(key, partial(picture.zoom, factor), view)
    made = []
    for text, tip, key, act in (
        (tr("Fit"), tr("Show the whole parameter (F)"), "F", picture.fit),
        ("1:1", tr("Show one entry per pixel (1)"), "1", picture.one_to_one),
    ):
        made.append(button := QPushButton(text))
        button.setToolTip(tip)
        button.setFixedWidth(button.fontMetrics().horizontalAdvance(text) + ROOM)
        button.clicked.connect(act)
        _shortcut(key, act, view)
    return made


def pan_by_arrows(picture: MapCanvas) -> None:
    """Let the arrows move a picture while it has the focus."""
    for key, (across, down) in PANS.items():
        _shortcut(key, partial(picture.pan, across, down), picture)


def go_along_by_keys(plot: Plot) -> None:
    """Let plus and minus zoom a plot along its lower axis while it has the focus, and arrows move.

    F shows all of it, as far as its limits reach.
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


def _shortcut(key: str, act: Callable[[], None], where: QWidget) -> None:
    made = QShortcut(QKeySequence(key), where)
    made.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.activated.connect(act)
