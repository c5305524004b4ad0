"""The mask of a parameter of any size: densities, or single elements if zoomed in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QWidget

from prune_gui import raster
from prune_gui.gui.views.controls import shortcut, switch
from prune_gui.gui.views.legend_text import SEPARATOR, cell_meaning, legend, unbroken
from prune_gui.gui.views.maps.canvas import SIDES, MapCanvas, extent
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.text import PENDING
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Pixels, grid_lines
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.data import (
    ALL,
    Contrast,
    MaskPainter,
    coloured,
    local_contrast,
    step_table,
)
from prune_gui.gui.views.plot import pen
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import tr
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.raster.group_patterns import GroupPattern, Verdict


class VerdictLine(QWidget):
    """Says how many groups follow the pattern of a parameter; hidden without a pattern."""

    def __init__(self, show_next: Callable[[], None]) -> None:
        super().__init__()
        self._text = ElidedLabel(tr("Whether the groups follow their pattern"))
        tip = tr("Move to the next group that breaks the pattern (N)")
        self._next = layouts.button(tr("Next broken group"), show_next, tip)
        height = self._next.sizeHint().height() + TIGHT_PX
        self.setMinimumHeight(height)  # so that the picture does not move when a group breaks
        layouts.row((self._text, 1), self._next, of=self, margin=(GAP_PX, TIGHT_PX, GAP_PX, 0))
        self.hide()

    def show_verdict(
        self, pattern: GroupPattern | None, verdict: Verdict | None, colours: Colours
    ) -> None:
        """Show a verdict, or only the pattern while the groups are counted."""
        self.setVisible(pattern is not None)
        if pattern is None:
            return
        is_broken = verdict is not None and verdict.broken > 0
        self._next.setVisible(is_broken)
        palette = QPalette()
        if is_broken:
            palette.setColor(QPalette.ColorRole.WindowText, colours.warning)
        self._text.setPalette(palette)
        text = verdict.describe() if verdict else f"{pattern.title}: {PENDING}"
        self._text.say(text, tip=text)


class MaskView(MapView):
    """Shows which elements are kept, and which step pruned the others."""

    lane = "mask"

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        tip = tr("Show the share of each row and column that is pruned, or zero in the file")
        super().__init__(workbench, viewport, tr("Mask"), tr("Picture of the mask"), tip)
        self._contrast = Contrast()
        tip = tr(
            "Fit the contrast to the visible cells: between the smallest and the largest share "
            "pruned,\nwithout 1 % of the cells at either end"
        )
        self._local = switch(tr("Local range"), tip, self._repaint)
        self._cell_text = ElidedLabel(tr("Meaning of a cell"))
        self._verdict_line = VerdictLine(self._show_group)
        self._groups = GroupOverlay(self.canvas)
        self._pattern: GroupPattern | None = None
        self._verdict: Verdict | None = None
        self._verdict_key: Hashable = None
        self._lay_out_map([], [self._local, self._cell_text])
        self._insert_below_picture(self._verdict_line)
        shortcut("N", self._show_group, self)

    def _painter(self, subject: Subject) -> MaskPainter:
        return MaskPainter(subject)

    def _fit_visible(self, visible: Pixels, cell: tuple[int, int]) -> bool:
        before, subject = self._contrast, self.subject
        is_pruned = subject is not None and (subject.zeros or subject.counts().keys() != {KEPT})
        has_ramps = bool(is_pruned) and cell != (1, 1)
        local = local_contrast(visible) if has_ramps and self._local.isChecked() else None
        self._local.setVisible(has_ramps)
        self._contrast = local or Contrast()
        text = cell_meaning(cell, *self._contrast)
        self._cell_text.say(text if has_ramps else "", tip=text)
        return self._contrast != before

    def _pixels(self, levels: Pixels, cell: tuple[int, int]) -> Pixels:
        return coloured(levels, step_table(self.colours(), self._contrast))

    def legend(self) -> str:
        meaning, shown = unbroken(self._cell_text.accessibleDescription()), self.canvas.layout_shown
        hidden = ""
        if self._pattern is not None and shown is not None and not self._pattern.cells(shown):
            hidden = unbroken(tr("no lines: the groups are no rectangles in this layout"))
        return SEPARATOR.join(filter(None, (super().legend(), meaning, hidden)))

    def _picture_legend(self, subject: Subject, rendered: RenderedView) -> str:
        return legend(
            subject,
            self.colours(),
            marks=len(rendered.painted.marks),
            zeros=subject.zeros,
            is_dense=rendered.tile_grid.cell != (1, 1),
        )

    def _draw(self, subject: Subject, rendered: RenderedView) -> None:
        super()._draw(subject, rendered)
        pattern_of = raster.group_patterns.pattern_of
        self._pattern = pattern_of(subject.resolution, subject.info, subject.file_zeros)
        self._show_pattern(subject, rendered)

    def _show_pattern(self, subject: Subject, rendered: RenderedView) -> None:
        pattern = self._pattern
        is_counted = self._verdict_key == (subject.marked_key, pattern)
        verdict = self._verdict if is_counted else None
        if pattern is not None and verdict is None and (is_counted or pattern.is_guess):
            pattern = None
        self._groups.show(pattern, rendered, self.colours())
        self._verdict_line.show_verdict(pattern, verdict, self.colours())

    def _complete_picture(self) -> None:
        super()._complete_picture()
        subject, pattern = self.subject, self._pattern
        if subject is None or pattern is None or not self._pipeline.is_current:
            return
        key = (subject.marked_key, pattern)
        if key == self._verdict_key:
            return

        def show(verdict: Verdict | None) -> None:
            self._verdict_key, self._verdict = key, verdict
            if self._pipeline.shown is not None:
                self._show_pattern(subject, self._pipeline.shown)

        verdict_of = raster.group_patterns.verdict
        count = partial(verdict_of, subject.marked, subject.name, pattern)
        self._run_job(f"{self.lane}.verdict", subject, count, show)

    def _show_group(self) -> None:
        """Move to the next broken group after the middle of the picture."""
        layout, verdict = self.canvas.layout_shown, self._verdict
        if verdict is None or layout is None:
            return
        middle = self.canvas.sight.center()
        row = min(max(round(middle.y()), 0), layout.rows - 1)
        column = min(max(round(middle.x()), 0), layout.columns - 1)
        found = verdict.after(layout.flat(row, column))
        if found is not None and (position := layout.position(found)) is not None:
            self.canvas.show_element(*position)

    def _profile_titles(self, subject: Subject) -> Titles:
        if subject.zeros:
            columns = tr("Share zero or pruned of each column")
            rows = tr("Share zero or pruned of each row")
        else:
            columns, rows = tr("Share pruned of each column"), tr("Share pruned of each row")
        return Titles(columns, rows, shares=True)


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
        self._lines, self._outlines = (pg.PlotCurveItem(connect="pairs") for _ in range(2))
        for item in (self._lines, self._outlines):
            canvas.addItem(item, ignoreBounds=True)
        canvas.view.sigRangeChanged.connect(self.update)

    def show(self, pattern: GroupPattern | None, rendered: RenderedView, colours: Colours) -> None:
        self._lines.setPen(pen(colours.foreground, width=LINE_PX))
        self._lines.setShadowPen(pen(colours.background, width=LINE_PX + HALO_PX))
        self._outlines.setPen(pen(colours.warning, width=BROKEN_PX))
        self._outlines.setShadowPen(pen(colours.background, width=BROKEN_PX + 2 * HALO_PX))
        self._pattern, self._rendered = pattern, rendered
        self._cells = pattern.cells(rendered.tile_grid.layout) if pattern else None
        for side, size in zip(SIDES, self._cells or (1, 1), strict=True):
            axis = self._canvas.plotItem.getAxis(side)
            if axis.group != size:
                axis.group, axis.picture = size, None
        self.update()

    def update(self) -> None:
        """Draw the groups again, after the picture or the visible region has changed."""
        rendered, cells = self._rendered, self._cells
        if rendered is None or cells is None or not self._is_large(cells):
            self._lines.hide()
            self._outlines.hide()
            return
        sight = self._canvas.sight & extent(rendered.tile_grid.layout)
        x, y = (sight.left(), sight.right()), (sight.top(), sight.bottom())
        across, down = cells[1] > 1, cells[0] > 1
        self._lines.setData(*grid_lines(x, y, across=across, down=down, cells=cells))
        self._lines.show()
        has_elements = rendered.is_complete and rendered.tile_grid.cell == (1, 1)
        self._outlines.setVisible(has_elements)
        if has_elements:
            self._outlines.setData(*self._broken(rendered, cells))

    def _is_large(self, cells: tuple[int, int]) -> bool:
        size, sight = self._canvas.view.rect(), self._canvas.sight
        scales = size.height() / sight.height(), size.width() / sight.width()
        pairs = zip(cells, scales, strict=True)
        return all(scale >= MIN_ELEMENT_PX for lines, scale in pairs if lines > 1)

    def _broken(self, rendered: RenderedView, cells: tuple[int, int]) -> tuple[Ends, Ends]:
        assert self._pattern is not None
        grid, seen = rendered.tile_grid, self._canvas.region_of(rendered.tile_grid.layout)
        rows = _whole_groups(seen.rows, grid.rows, cells[0])
        columns = _whole_groups(seen.columns, grid.columns, cells[1])
        top, left = rows.start - grid.rows.start, columns.start - grid.columns.start
        levels = rendered.painted.pixels[top : top + len(rows), left : left + len(columns)]
        counts = self._pattern.counts((levels & ALL)[None] != ALL, cells)
        broken = self._pattern.broken(counts)[0]
        down, across = (indices[:MAX_OUTLINES] for indices in np.nonzero(broken))
        corners = np.stack([columns.start + across * cells[1], rows.start + down * cells[0]], 1)
        ends = OUTLINE * (cells[1] - 2 * INSET, cells[0] - 2 * INSET) + (INSET - 0.5)
        x, y = (corners[:, None] + ends).reshape(-1, 2).T
        return x, y


def _whole_groups(seen: range, rendered: range, size: int) -> range:
    start = max(seen.start // size, -(-rendered.start // size))
    stop = min(-(-seen.stop // size), rendered.stop // size)
    return range(start * size, max(start, stop) * size)
