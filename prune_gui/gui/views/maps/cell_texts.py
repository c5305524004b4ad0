"""The texts in the elements of a map, where the elements are large enough."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.canvas_items import CellTexts
from prune_gui.gui.views.maps.cell_labels import Texts, is_bright
from prune_gui.gui.views.maps.tile_pipeline import RenderedView, RunJob, TextPainter
from prune_gui.gui.views.maps.tiles import Pixels

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor


class CellTextWriter:
    """Reads the texts of the visible elements, and writes them into a canvas."""

    def __init__(
        self,
        canvas: MapCanvas,
        lane: str,
        run_job: RunJob,
        colour: Callable[[Pixels], Pixels],
    ) -> None:
        self._canvas = canvas
        self._lane = lane
        self._run_job = run_job
        self._colour = colour
        self._key: tuple[Hashable, range, range] | None = None

    def forget(self) -> None:
        """Write the texts anew with the next picture, because its colours have changed."""
        self._key = None

    def write(self, painter: TextPainter, rendered: RenderedView) -> None:
        """Write the texts of a picture, or remove them if its elements are too small."""
        tile_grid = rendered.tile_grid
        if not (rendered.is_complete and self._canvas.readable and tile_grid.cell == (1, 1)):
            self._key = None
            self._canvas.write(None)
            return
        sight = self._canvas.frame_of(tile_grid.layout)
        rows, columns = sight.rows, sight.columns
        wanted = (rendered.key, rows, columns)
        if wanted == self._key:
            return
        self._key = wanted
        top, left = rows.start - tile_grid.rows.start, columns.start - tile_grid.columns.start
        part = rendered.painted.pixels[top : top + len(rows), left : left + len(columns)]
        bright = is_bright(self._colour(part))

        def show(texts: Texts) -> None:
            if self._key == wanted:
                self._canvas.write(CellTexts(rows, columns, texts, bright))

        def read(_: Monitor) -> Texts:
            return painter.texts(tile_grid.layout, rows, columns)

        self._run_job(self._lane, painter.subject, read, show)
