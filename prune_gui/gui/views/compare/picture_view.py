"""The pictures of a parameter in two states, or after each step, as a film."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QTabBar, QWidget

from prune_gui import statistics
from prune_gui.gui.views.compare.control_bars import BlinkBar, FilmBar
from prune_gui.gui.views.compare.data import PICTURES, ComparePainter, split
from prune_gui.gui.views.compare.picture_pair import MODES, Mode, PicturePair
from prune_gui.gui.views.compare.text import legend as compare_legend
from prune_gui.gui.views.controls import shortcut
from prune_gui.gui.views.legend_text import legend
from prune_gui.gui.views.maps.canvas import MapCanvas, SquareCells, zoom_buttons
from prune_gui.gui.views.maps.map_view import TiledView
from prune_gui.gui.views.maps.text import describe_sides
from prune_gui.gui.views.maps.tile_pipeline import Painter, RenderedView
from prune_gui.gui.views.maps.tiles import Pixels, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.data import MaskPainter, coloured, step_table
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import deferred, tr
from prune_gui.session.subjects import ComparedState, Subject, frame_title

if TYPE_CHECKING:
    from prune_gui.comparison.state_losses import StateLosses
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.session.changes import Changes
    from prune_gui.statistics.element_values import Element


BACK_ARROW: Final = "\N{LEFTWARDS ARROW}"
DELAY_MS: Final = 250  # delay between the last change and the update of the overview
IN_FRONT: Final = {False: deferred("Left: {side}"), True: deferred("Right: {side}")}
"""Name of the side in front; True is the right side."""


class ComparePictures(TiledView):
    """Shows the chosen parameter in two states, or after each step."""

    lane = "compare"
    list_wanted = Signal()  # the user wants to go back to the list of all parameters
    mode_changed = Signal()

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        super().__init__(workbench, viewport, tr("Compare"), kernel_grids=False)
        self._wanted: Painter | None = None  # of the pictures that are shown or about to be
        self._cursor: tuple[int, int] | None = None
        modes = QTabBar(drawBase=False, usesScrollButtons=False)  # those would hide modes
        self._modes = layouts.described(modes, tr("Kind of comparison"))
        self._modes.setElideMode(Qt.TextElideMode.ElideRight)
        for shown in MODES.values():
            self._modes.setTabToolTip(self._modes.addTab(tr(shown.text)), tr(shown.tip))
        self._blink_bar, self._film_bar = BlinkBar(), FilmBar()
        self.pair = PicturePair(viewport)
        self._losses: StateLosses | None = None  # of both states, as far as known
        self._element_label = ElidedLabel(tr("Weight under the cursor on both sides"))
        body = QWidget()
        back = layouts.tool_button(BACK_ARROW, self.list_wanted.emit, tr("Back to the list (Esc)"))
        back.setAccessibleName(tr("← All parameters"))
        self._square = SquareCells(viewport, *self.pair.plots)
        zoom = zoom_buttons(self.pair.left, self)
        self._lay_out([back, self._modes, self._square, *zoom], body, [])
        self._fill(body)
        self._delay_timer = self._timer(DELAY_MS, self._fill_in)
        self._connect()
        self._change_mode()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._square.follow()

    def take_losses(self, losses: StateLosses | None) -> None:
        self._losses = losses
        self._show_legend()

    @property
    def mode(self) -> Mode:
        return list(MODES)[self._modes.currentIndex()]

    def show_mode(self, mode: Mode) -> None:
        self._modes.setCurrentIndex(list(MODES).index(mode))

    def _fill(self, body: QWidget) -> None:
        self._element_label.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, 0)
        self._element_label.setMinimumHeight(self._element_label.fontMetrics().height() + 2)
        self._chooser.setContentsMargins(GAP_PX, 0, 0, 0)
        slices = layouts.row(self._chooser, (self._chooser.sliders, 1))
        slices.setAlignment(self._chooser, Qt.AlignmentFlag.AlignLeft)
        below = (self._element_label, self._legend, slices)
        bars = (self._blink_bar, self._film_bar)
        layouts.column(*bars, (self.pair, 1), *below, of=body, margin=0, gap=0)

    def _connect(self) -> None:
        for plot in self.pair.plots:
            plot.view.sigRangeChanged.connect(self._settle)
            plot.view.sigResized.connect(self._settle)
            plot.pointed.connect(self._set_cursor)
        self._film_bar.changed.connect(self.refresh)
        self._modes.currentChanged.connect(self._change_mode)
        self._blink_bar.changed.connect(self._blink)
        self.pair.divided.connect(self._split)
        self.pair.blinked.connect(self._name_front)
        self._space = shortcut("Space", self._toggle_playing, self.pair)
        shortcut("Esc", self.list_wanted.emit, self)

    def _change_mode(self) -> None:
        mode = self.mode
        self._blink_bar.setVisible(mode == "blink")
        self._film_bar.setVisible(mode == "film")
        self._space.setEnabled(mode in ("blink", "film"))
        self.pair.arrange(MODES[mode].arrangement)
        self._blink()
        blink, film = self._blink_bar.button, self._film_bar.slider
        control = {"swipe": self.pair.divider, "blink": blink, "film": film}.get(mode)
        if control is not None and not self._modes.hasFocus():
            control.setFocus()  # chosen with the mouse
        self._pipeline.forget_pictures()
        self.mode_changed.emit()
        self.refresh()

    def _toggle_playing(self) -> None:
        bar = self._film_bar if self.mode == "film" else self._blink_bar
        bar.button.toggle()

    def _blink(self) -> None:
        on = self.mode == "blink" and self._blink_bar.playing
        self.pair.set_blinking(on=on, interval_ms=self._blink_bar.interval_ms)
        self._name_front()

    def _name_front(self) -> None:
        right = self.pair.right_in_front
        state = self._workbench.comparison.state("right" if right else "left")
        if state is not None:
            text = tr(IN_FRONT[right], side=state.text)
            self._blink_bar.front.say(text, tip=text)

    def _on_changed(self, changes: Changes) -> None:
        super()._on_changed(changes)
        # Named states may have changed.
        if changes.comparison or changes.resolution or (changes.recipe and not changes.file):
            self.refresh()

    def _request_picture(self, subject: Subject) -> None:
        self._chooser.set_shape(subject.info.shape)
        painter = self._film_painter(subject) if self.mode == "film" else self._painter(subject)
        if painter is None:
            self._show_message(tr("Computing the masks…"))
            return
        self._wanted = painter
        plot, layout = self.pair.visible_plot, self._chooser.layout_chosen
        tile_grid = TileGrid.over(layout, plot.region_of(layout))
        if self._request_tiles(painter, plot, tile_grid):
            self._pages.setCurrentWidget(self._picture_page)

    def _painter(self, subject: Subject) -> ComparePainter | None:
        """Return the painter of both sides; None while a side is not resolved."""
        chosen = self._workbench.comparison
        left, right = chosen.state("left"), chosen.state("right")
        if left is None or right is None:
            return None
        self._delay_timer.start()
        self._name_front()
        problems = [state.obstacle(subject.info) or "" for state in (left, right)]
        self.pair.say(*problems)
        return ComparePainter(
            subject,
            None if problems[0] else left.subject(subject.name),
            None if problems[1] else right.subject(subject.name),
            self.colours(),
        )

    def _film_painter(self, subject: Subject) -> MaskPainter:
        resolved = self._workbench.resolved
        assert resolved is not None  # otherwise there is no subject
        resolution, draft = resolved.resolution, None
        if resolved.preview is not None:
            resolution, draft = resolved.preview, resolved.draft_number
        self._film_bar.set_last(len(resolution.recipe.steps))
        self.pair.say("", "")
        frame = self._film_bar.frame
        shown = ComparedState(resolution, frame, draft, "").subject(subject.name)
        title = frame_title(shown, frame)
        self._film_bar.title.say(title, tip=title)
        return MaskPainter(shown)

    def _show(self, subject: Subject, rendered: RenderedView | str) -> None:
        if isinstance(rendered, str):
            self._show_message(rendered)
            return
        if (rendered.painted.pixels.ndim == 2) != (self.mode == "film"):
            return  # of the previous mode; the picture of this one follows
        layout = rendered.tile_grid.layout
        if layout != self.pair.left.layout_shown or not subject.same_parameter(self._pictured):
            self._set_cursor(None)
            self._show_layout(subject, layout)
        self._show_tiles(rendered)
        self._show_legend()
        self._request_element()
        if rendered.is_complete:
            self._delay_timer.start()

    @property
    def _canvases(self) -> Sequence[MapCanvas]:
        return self.pair.plots

    def _pictures(self, rendered: RenderedView) -> list[Pixels]:
        pixels, arrangement = rendered.painted.pixels, self.pair.arrangement
        if pixels.ndim == 2:  # levels of a mask
            return [coloured(pixels, step_table(self.colours()))]
        painted = np.split(pixels, PICTURES, axis=2)
        if arrangement == "single":
            return painted[-1:]
        if arrangement == "swipe":
            columns = rendered.tile_grid.columns
            return [split(painted[0], painted[1], columns, self.pair.divided_column)]
        return painted[:2]

    def _split(self) -> None:
        if self._pipeline.shown is not None:
            self._show_again(self._pipeline.shown)

    def _show_legend(self) -> None:
        painter, losses, text = self._wanted, self._losses, ""
        if isinstance(painter, MaskPainter):
            text = legend(painter.subject, self.colours())
        elif isinstance(painter, ComparePainter) and losses is not None:
            names, name = losses.names, painter.subject.name
            row = names.index(name) if name in names else None
            if row is not None and losses.measures["known"][row] and not losses.unmatched[row]:
                corrected = painter.has_corrected
                text = compare_legend(losses.overlap(row), self.colours(), corrected=corrected)
        self._legend.setText(text)

    def _fill_in(self) -> None:
        """Compute what can wait: the overview of the pictures."""
        if self.subject is not None and self._wanted is not None and self._pipeline.is_current:
            self._pipeline.request_overview(self._wanted)

    def picture(self) -> QWidget | None:
        replaced = all(self.pair.messages)
        return None if replaced or super().picture() is None else self.pair

    def show_selection(self, *, on: bool) -> None:
        for plot in self.pair.plots:
            plot.pin(self._cursor if on else None)

    def caption(self) -> tuple[str, str]:
        name, what = super().caption()
        if self.mode == "film":
            frame = self._film_bar.title.accessibleDescription()
            return name, tr("{what}. {frame}", what=what, frame=frame)
        return name, self._workbench.comparison.captioned(what)

    def _set_cursor(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cursor:
            self._cursor = cell
            for plot in self.pair.plots:
                plot.pin(cell)
            self._request_element()

    def _request_element(self) -> None:
        subject, painter, cursor = self.subject, self._wanted, self._cursor
        layout = self.pair.left.layout_shown
        if subject is None or painter is None or layout is None or cursor is None:
            self._element_label.say("")
            return
        if layout.shape != subject.info.shape:
            self._element_label.say("")
            return
        sides = [painter.subject]
        if isinstance(painter, ComparePainter):
            sides = [side for side in (painter.left, painter.right) if side is not None]

        def read(_: Monitor) -> list[tuple[Subject, Element]]:
            element_at = statistics.element_values.element_at
            at = layout.flat(*cursor)
            return [(side, element_at(side.resolution, side.name, at)) for side in sides]

        def show(elements: list[tuple[Subject, Element]]) -> None:
            if cursor == self._cursor:
                self._element_label.say(describe_sides(elements))

        self._run_job("compare.entry", subject, read, show)

    def _recolour(self) -> None:
        self._pipeline.forget_pictures()
