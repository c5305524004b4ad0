"""A mark at an end of an axis: how many numbers are beyond, and how far they go."""

from __future__ import annotations

from typing import Final, Literal

import pyqtgraph as pg

from prune_gui.gui.views.plot import Plot
from prune_gui.language import join_clauses, tr
from prune_gui.raster.colours import Colours

Side = Literal["left", "right", "top", "peak"]
ANCHORS: Final[dict[Side, tuple[float, float]]] = {
    "left": (0.0, 0.5),
    "right": (1.0, 0.5),
    "top": (1.0, 0.0),
    "peak": (0.0, 0.5),
}
MARK_Z: Final = 102
"""Stacking order: above the lines of cuts."""


class OverflowMark(pg.TextItem):  # type: ignore[misc]
    """A labelled arrow inside a plot: "▴ 12 beyond, up to 3.4"."""

    def __init__(self, plot: Plot, side: Side) -> None:
        super().__init__(anchor=ANCHORS[side])
        self._plot, self._side = plot, side
        self.setZValue(MARK_Z)
        self.hide()
        plot.addItem(self, ignoreBounds=True)

    def show_count(self, count: int, extreme: float, colours: Colours) -> None:
        """Show a mark for `count` numbers up to `extreme`; no mark if there are none."""
        self.setVisible(count > 0)
        if not count:
            return
        self._write(overflow_text(count, extreme, self._side), colours)
        (left, right), (bottom, top) = self._plot.view.viewRange()
        x = left if self._side == "left" else right
        self.setPos(x, top if self._side == "top" else bottom + 0.6 * (top - bottom))

    def show_peak(self, x: float, count: int, colours: Colours) -> None:
        """Show a mark beside the bar at a position, which stands for `count` weights."""
        self.show()
        self._write("▴ " + tr("{count:,} weights in this bin", count=count), colours)
        bottom, top = self._plot.view.viewRange()[1]
        self.setPos(x, bottom + 0.85 * (top - bottom))

    def _write(self, text: str, colours: Colours) -> None:
        self.fill = pg.mkBrush(colours.background)
        self.setText(text, colours.foreground)


def overflow_text(count: int, extreme: float, side: Side) -> str:
    """Return the text of a mark: in two lines at the side of a plot, where space is narrow."""
    beyond = tr("{count:,} beyond", count=count)
    if side == "left":
        return f"◂ {beyond}\n" + tr("down to {value:.3g}", value=extreme)
    up_to = tr("up to {value:.3g}", value=extreme)
    return f"▴ {join_clauses([beyond, up_to])}" if side == "top" else f"{beyond} ▸\n{up_to}"
