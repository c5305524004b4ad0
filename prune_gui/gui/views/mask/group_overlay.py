"""Lines around the groups of a pattern in the picture of a mask; broken groups are red."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray

from prune_gui.gui.views.maps.canvas import SIDES, MapCanvas, extent
from prune_gui.gui.views.maps.tiles import grid_lines
from prune_gui.gui.views.mask.data import ALL
from prune_gui.gui.views.plot import pen
from prune_gui.raster.colours import Colours

if TYPE_CHECKING:
    from prune_gui.gui.views.maps.tile_pipeline import RenderedView
    from prune_gui.raster.group_patterns import GroupPattern

Ends = NDArray[np.float64]

MIN_ELEMENT_PX: Final = 4
"""Minimum height and width of an element: smaller groups would be all lines."""
LINE_PX: Final = 1.5
BROKEN_PX: Final = 2.5
HALO_PX: Final = 2.0  # beyond each side of a line
OUTLINE: Final = np.array([[0, 0], [1, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1], [0, 0]])
"""Ends of the four sides of a group, as x and y."""
MAX_OUTLINES: Final = 1000  # takes about 15 ms to draw
INSET: Final = 0.15
"""Distance of an outline from the line between groups, in elements: neighbours have their own."""


class GroupOverlay:
    """Draws the groups in sight, as soon as their elements are large enough."""

    def __init__(self, canvas: MapCanvas) -> None:
        self._canvas = canvas
        self._pattern: GroupPattern | None = None
        self._cells: tuple[int, int] | None = None
        self._rendered: RenderedView | None = None
        self._items = [pg.PlotCurveItem(connect="pairs") for _ in range(4)]
        for item in self._items:
            canvas.addItem(item, ignoreBounds=True)
        canvas.view.sigRangeChanged.connect(self.update)

    def show(self, pattern: GroupPattern | None, rendered: RenderedView) -> None:
        self._pattern, self._rendered = pattern, rendered
        self._cells = pattern.cells(rendered.tile_grid.layout) if pattern else None
        for side, size in zip(SIDES, self._cells or (1, 1), strict=True):
            axis = self._canvas.plotItem.getAxis(side)
            if axis.group != size:
                axis.group, axis.picture = size, None
        self.update()

    def recolour(self, colours: Colours) -> None:
        for item, colour, width in zip(
            self._items,
            (colours.background, colours.foreground, colours.background, colours.warning),
            (LINE_PX + HALO_PX, LINE_PX, BROKEN_PX + 2 * HALO_PX, BROKEN_PX),
            strict=True,
        ):
            item.setPen(pen(colour, width=width))

    def update(self) -> None:
        """Draw the groups again, after the picture or the visible region has changed."""
        rendered, cells = self._rendered, self._cells
        if rendered is None or cells is None or not self._is_large(cells):
            for item in self._items:
                item.hide()
            return
        sight = self._canvas.sight & extent(rendered.tile_grid.layout)
        x, y = (sight.left(), sight.right()), (sight.top(), sight.bottom())
        lines = grid_lines(x, y, across=cells[1] > 1, down=cells[0] > 1, cells=cells)
        broken: tuple[Ends, Ends] = np.zeros(0), np.zeros(0)
        if rendered.is_complete and rendered.tile_grid.cell == (1, 1):
            broken = self._outlines(rendered, cells)
        for item, ends in zip(self._items, (lines, lines, broken, broken), strict=True):
            item.setData(*ends)
            item.show()

    def _is_large(self, cells: tuple[int, int]) -> bool:
        size, sight = self._canvas.view.rect(), self._canvas.sight
        scales = size.height() / sight.height(), size.width() / sight.width()
        pairs = zip(cells, scales, strict=True)
        return all(scale >= MIN_ELEMENT_PX for lines, scale in pairs if lines > 1)

    def _outlines(self, rendered: RenderedView, cells: tuple[int, int]) -> tuple[Ends, Ends]:
        """Return the outlines of the broken groups in sight, as x and y of pairs of points."""
        assert self._pattern is not None
        grid, seen = rendered.tile_grid, self._canvas.region_of(rendered.tile_grid.layout)
        rows = _whole_groups(seen.rows, grid.rows, cells[0])
        columns = _whole_groups(seen.columns, grid.columns, cells[1])
        top, left = rows.start - grid.rows.start, columns.start - grid.columns.start
        levels = rendered.painted.pixels[top : top + len(rows), left : left + len(columns)]
        broken = self._pattern.broken((levels & ALL)[None] != ALL, cells)[0]
        down, across = (indices[:MAX_OUTLINES] for indices in np.nonzero(broken))
        corners = np.stack([columns.start + across * cells[1], rows.start + down * cells[0]], 1)
        ends = OUTLINE * (cells[1] - 2 * INSET, cells[0] - 2 * INSET) + (INSET - 0.5)
        x, y = (corners[:, None] + ends).reshape(-1, 2).T
        return x, y


def _whole_groups(seen: range, rendered: range, size: int) -> range:
    """Return the rendered lines of whole groups that are in sight, or partly."""
    start = max(seen.start // size, -(-rendered.start // size))
    stop = min(-(-seen.stop // size), rendered.stop // size)
    return range(start * size, max(start, stop) * size)
