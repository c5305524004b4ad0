"""The mask of a parameter of any size: densities, or single elements if zoomed in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QPushButton, QWidget

from prune_gui import raster
from prune_gui.gui.views.controls import shortcut, switch
from prune_gui.gui.views.legend_text import SEPARATOR, legend, unbroken
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.text import PENDING
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.data import (
    Contrast,
    MaskPainter,
    coloured,
    local_contrast,
    step_table,
)
from prune_gui.gui.views.mask.group_overlay import GroupOverlay
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.gui.workbench import Workbench
from prune_gui.language import format_number, tr
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.group_patterns import GroupPattern, Verdict


class VerdictLine(QWidget):
    """Says how many groups follow the pattern of a parameter; hidden without a pattern."""

    def __init__(self, show_next: Callable[[], None]) -> None:
        super().__init__()
        self._text = ElidedLabel(tr("Whether the groups follow their pattern"))
        self._next = QPushButton(tr("Next broken group"))
        self._next.setToolTip(tr("Move to the next group that breaks the pattern (N)"))
        self._next.clicked.connect(show_next)
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
        low, high = (format_number(100 * end, ".3g") for end in self._contrast)
        text = tr(
            "{down:,} \N{MULTIPLICATION SIGN} {across:,} weights per cell, from pale to strong: "
            "{low} % to {high} % pruned",
            down=cell[0],
            across=cell[1],
            low=low,
            high=high,
        )
        self._cell_text.say(text if has_ramps else "", tip=text)
        return self._contrast != before

    def _pixels(self, levels: Pixels, cell: tuple[int, int]) -> Pixels:
        return coloured(levels, step_table(self.colours(), self._contrast))

    def legend(self) -> str:
        meaning = unbroken(self._cell_text.accessibleDescription())
        return SEPARATOR.join(filter(None, (super().legend(), meaning)))

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
        """Show the groups of the pattern and how many hold, as far as that is counted."""
        pattern = self._pattern
        is_counted = self._verdict_key == (subject.marked_key, pattern)
        verdict = self._verdict if is_counted else None
        if pattern is not None and verdict is None and (is_counted or pattern.is_guess):
            pattern = None
        self._groups.show(pattern, rendered)
        self._verdict_line.show_verdict(pattern, verdict, self.colours())

    def _complete_picture(self) -> None:
        super()._complete_picture()
        subject, pattern = self.subject, self._pattern
        if subject is None or pattern is None or not self._pipeline.is_current:
            return
        key = (subject.marked_key, pattern)
        if key == self._verdict_key:
            return

        def count(monitor: Monitor) -> Verdict | None:
            return raster.group_patterns.verdict(subject.marked, subject.name, pattern, monitor)

        def show(verdict: Verdict | None) -> None:
            self._verdict_key, self._verdict = key, verdict
            if self._pipeline.shown is not None:
                self._show_pattern(subject, self._pipeline.shown)

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

    def _recolour(self) -> None:
        super()._recolour()
        self._groups.recolour(self.colours())

    def _profile_titles(self, subject: Subject) -> Titles:
        if subject.zeros:
            columns = tr("Share zero or pruned of each column")
            rows = tr("Share zero or pruned of each row")
        else:
            columns, rows = tr("Share pruned of each column"), tr("Share pruned of each row")
        return Titles(columns, rows, shares=True)
