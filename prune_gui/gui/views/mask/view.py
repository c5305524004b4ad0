"""The mask of a parameter of any size: densities, or single elements if zoomed in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from prune_gui import raster
from prune_gui.gui.views.controls import switch
from prune_gui.gui.views.legend_text import legend, unbroken
from prune_gui.gui.views.maps.map_view import ColourBar, MapView
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.text import PENDING
from prune_gui.gui.views.maps.tile_pipeline import RenderedView
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.data import (
    MIN_CONTRAST,
    SHARE_BITS,
    Contrast,
    MaskPainter,
    colour_indices,
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
from prune_gui.raster.parameter_layouts import SliceLayout
from prune_gui.recipe.recipe import KEPT, ZERO
from prune_gui.session.changes import Changes
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.group_patterns import GroupPattern, Verdict

LENGTH_PX: Final = 140
MIN_LENGTH_PX: Final = 40
THICKNESS_PX: Final = 12
HANDLE_WIDTH_PX: Final = 7
TEXT_GAP_PX: Final = 4  # between the bar and the texts of its handles
KEY_STEP: Final = 0.01  # distance by which a key moves a handle


class DensityBar(ColourBar):
    """Shows the colours of all shares, and two handles that set the contrast range."""

    moved = Signal(object)  # (Contrast) the user moved a handle

    def __init__(self) -> None:
        tip = tr(
            "Share pruned of the weights in a cell, in the colour of the step that pruned most of "
            "them.\nDrag the handles for more contrast; a double click resets them.\nKeys: Left "
            "and Right move the upper handle, with Shift the lower one; Home resets both."
        )
        super().__init__(tr("Share pruned"), tip, LENGTH_PX, THICKNESS_PX)
        self.contrast = Contrast()
        self._colours: Colours | None = None
        self._shown: tuple[int, ...] = (2,)  # indices of the colours in the picture
        self._drags_low = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._describe()

    def show_contrast(
        self, contrast: Contrast, colours: Colours, shown: tuple[int, ...] = (2,)
    ) -> None:
        """Show a stripe for each colour in the picture, given by its index in `step_table`."""
        if (contrast, colours, shown) != (self.contrast, self._colours, self._shown):
            self.contrast, self._colours, self._shown = contrast, colours, shown
            self._describe()
            self.update()

    @property
    def texts(self) -> tuple[str, str]:
        low, high = (format_number(100 * end, ".3g") for end in self._ends)
        return tr("{share} %", share=low), tr("{share} % pruned", share=high)

    @property
    def html(self) -> str:
        if self._colours is None or self.isHidden():
            return ""
        low = escape(tr("{share} %", share="0"))
        return "&nbsp;".join((low, self._swatch(), unbroken(tr("{share} % pruned", share="100"))))

    def sizeHint(self) -> QSize:  # noqa: N802
        texts_px = self.width() - int(self._bar.width())
        return QSize(LENGTH_PX + texts_px, self.fontMetrics().height() + 2)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.sizeHint().width() - LENGTH_PX + MIN_LENGTH_PX, self.sizeHint().height())

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        if self._colours is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        role = QPalette.ColorRole
        bar, half = self._bar, HANDLE_WIDTH_PX / 2
        self._draw_colours(painter, bar.adjusted(0, 2, 0, -2))
        painter.setPen(self.palette().color(role.WindowText))
        painter.setBrush(self.palette().color(role.Highlight if self.hasFocus() else role.Button))
        for end in self._ends:
            handle = QRectF(bar.left() + end * bar.width(), bar.top(), 0, bar.height())
            painter.drawRoundedRect(handle.adjusted(0.5 - half, 0.5, half - 0.5, -0.5), 2, 2)
        before, beyond = bar.left() - half - TEXT_GAP_PX, bar.right() + half + TEXT_GAP_PX
        centred, (low, high) = Qt.AlignmentFlag.AlignVCenter, self.texts
        right = centred | Qt.AlignmentFlag.AlignRight
        painter.drawText(QRectF(0, 0, before, self.height()), right, low)
        painter.drawText(QRectF(beyond, 0, self.width(), self.height()), centred, high)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        low, high = self._ends
        at = self._share_at(event)
        self._drags_low = abs(at - low) < abs(at - high) or at < low
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._move(self._share_at(event), is_low=self._drags_low)

    def mouseDoubleClickEvent(self, _: QMouseEvent) -> None:  # noqa: N802
        self._set(Contrast())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        steps = {Qt.Key.Key_Left: -KEY_STEP, Qt.Key.Key_Right: KEY_STEP}
        key = Qt.Key(event.key())
        if key in steps:
            is_low = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._move(self._ends[not is_low] + steps[key], is_low=is_low)
        elif key == Qt.Key.Key_Home:
            self._set(Contrast())
        else:
            super().keyPressEvent(event)

    @property
    def _ends(self) -> tuple[float, float]:
        return self.contrast.low, self.contrast.high

    @property
    def _bar(self) -> QRectF:
        """The bar, between the texts of both handles."""
        longest = (tr("{share} %", share="88.8"), tr("{share} % pruned", share="88.8"))
        low, high = (self.fontMetrics().horizontalAdvance(text) for text in longest)
        beside = TEXT_GAP_PX + HANDLE_WIDTH_PX / 2
        width = self.width() - low - high - 2 * beside
        return QRectF(low + beside, (self.height() - THICKNESS_PX) / 2, width, THICKNESS_PX)

    def _share_at(self, event: QMouseEvent) -> float:
        return (event.position().x() - self._bar.left()) / max(1.0, self._bar.width())

    def _table(self) -> NDArray[np.uint8]:
        assert self._colours is not None
        levels = step_table(self._colours, self.contrast).reshape(-1, 1 << SHARE_BITS, 4)
        return levels[list(self._shown)]

    def _move(self, share: float, *, is_low: bool) -> None:
        low, high = self._ends
        if is_low:
            low = min(max(share, 0), high - MIN_CONTRAST)
        else:
            high = max(min(share, 1), low + MIN_CONTRAST)
        self._set(Contrast(low, high))

    def _set(self, contrast: Contrast) -> None:
        if contrast != self.contrast:
            self.contrast = contrast
            self._describe()
            self.update()
            self.moved.emit(contrast)

    def _describe(self) -> None:
        self.setAccessibleDescription(", ".join(self.texts))


class VerdictLine(QWidget):
    """Says how many groups follow the pattern of a parameter; hidden without a pattern."""

    def __init__(self, show_next: Callable[[], None]) -> None:
        super().__init__()
        self._text = ElidedLabel(tr("Whether the groups follow their pattern"))
        self._next = QPushButton(tr("Next broken group"))
        self._next.clicked.connect(show_next)
        policy = self._next.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # so that the picture does not move
        self._next.setSizePolicy(policy)
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
    bar: DensityBar

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        tip = tr("Show the share of each row and column that is pruned, or zero in the file")
        super().__init__(workbench, viewport, tr("Mask"), tr("Picture of the mask"), tip)
        self.bar = DensityBar()
        self.bar.moved.connect(self._set_contrast)
        tip = tr(
            "Fit the contrast to the visible cells: between the smallest and the largest share "
            "pruned,\nwithout 1 % of the cells at either end"
        )
        self._local = switch(tr("Local range"), tip)
        self._local.clicked.connect(self._toggle_local)
        self._cell_size = ElidedLabel(tr("Size of a cell"))
        self._verdict_line = VerdictLine(self._show_group)
        self._groups = GroupOverlay(self.canvas)
        self._pattern: GroupPattern | None = None
        self._verdict: Verdict | None = None
        self._verdict_key: Hashable = None
        self._lay_out_map([], [self.bar, self._local, self._cell_size])
        self._insert_below_picture(self._verdict_line)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:  # the contrast was set for the previous file
            self.bar.contrast = Contrast()
        super()._on_changed(changes)

    def _set_contrast(self) -> None:
        self._local.setChecked(False)
        self._repaint()

    def _toggle_local(self, on: bool) -> None:
        if not on:
            self.bar.contrast = Contrast()
        self._repaint()

    def _painter(self, subject: Subject) -> MaskPainter:
        return MaskPainter(subject)

    def _fit_bar(self, visible: Pixels, cell: tuple[int, int]) -> bool:
        before, dense = self.bar.contrast, cell != (1, 1)
        shown = _pruned_colours(self.subject)
        for widget in (self.bar, self._local):
            widget.setVisible(dense and bool(shown))
        local = local_contrast(visible) if dense and self._local.isChecked() else None
        self.bar.show_contrast(local or before, self.colours(), shown)
        down, across = cell
        size = tr(
            "{down:,} \N{MULTIPLICATION SIGN} {across:,} weights per cell", down=down, across=across
        )
        self._cell_size.say(size if dense else "")
        return self.bar.contrast != before

    def _pixels(self, levels: Pixels, cell: tuple[int, int]) -> Pixels:
        return coloured(levels, step_table(self.colours(), self.bar.contrast))

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
        if pattern is not None and pattern.is_guess and verdict is None:
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
        if verdict is None or not isinstance(layout, SliceLayout):
            return
        middle = self.canvas.sight.center()
        row = min(max(round(middle.y()), 0), layout.rows - 1)
        column = min(max(round(middle.x()), 0), layout.columns - 1)
        found = verdict.after(layout.flat(row, column))
        if found is not None:
            row, rest = divmod(found - layout.first, layout.row_stride)
            self.canvas.show_element(row, rest // layout.column_stride)

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


def _pruned_colours(subject: Subject | None) -> tuple[int, ...]:
    """Return the indices of the colours of what is pruned of a parameter, the most first."""
    if subject is None:
        return ()
    counts = subject.counts() | ({ZERO: subject.zeros} if subject.zeros else {})
    indices = colour_indices(subject.draft)
    codes = sorted(counts.keys() - {KEPT}, key=lambda code: -counts[code])
    return tuple(dict.fromkeys(int(indices[code]) for code in codes))
