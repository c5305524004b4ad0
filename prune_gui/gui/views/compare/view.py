"""A parameter in two states of the stack, or in two checkpoints; or after each step, as a film."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from prune_gui import statistics
from prune_gui.gui.dialogs.questions import ask_checkpoint
from prune_gui.gui.views.compare.control_bars import BlinkBar, FilmBar, SegmentedSwitch, SidesBar
from prune_gui.gui.views.compare.data import ComparePainter, pictures, split
from prune_gui.gui.views.compare.picture_pair import MODES, Mode, PicturePair
from prune_gui.gui.views.compare.tables import Compared, ComparedTables
from prune_gui.gui.views.compare.text import legend as compare_legend
from prune_gui.gui.views.controls import shortcut
from prune_gui.gui.views.legend_text import legend
from prune_gui.gui.views.maps.canvas import MapCanvas, zoom_buttons
from prune_gui.gui.views.maps.map_view import TiledView
from prune_gui.gui.views.maps.text import describe_sides
from prune_gui.gui.views.maps.tile_pipeline import Painter, RenderedView
from prune_gui.gui.views.maps.tiles import Pixels, TileGrid
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.data import MaskPainter, coloured, step_table
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.frames import FitScrollArea
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import deferred, tr
from prune_gui.session.subjects import ComparedState, Subject, frame_title

if TYPE_CHECKING:
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.session.changes import Changes
    from prune_gui.statistics.element_values import Element
    from prune_gui.table import Table


DELAY_MS: Final = 250  # delay between the last change and the update of the tables and the overview
TABLE_HEIGHT_PX: Final = 120  # initial height of the table of all parameters
MIN_SIDES_PX: Final = 72
"""Minimum height of the sides and their summary, which scroll in a low window."""
IN_FRONT: Final = {False: deferred("Left: {side}"), True: deferred("Right: {side}")}
"""Name of the side in front; True is the right side."""


class CompareView(TiledView):
    """Shows a parameter in two states that the user chooses, or after each step."""

    lane = "compare"
    has_table = True

    def __init__(self, workbench: Workbench, viewport: Viewport) -> None:
        super().__init__(workbench, viewport, tr("Compare"), kernel_grids=False)
        self._wanted: Painter | None = None  # of the pictures that are shown or about to be
        self._cursor: tuple[int, int] | None = None
        modes = {mode: (tr(shown.text), tr(shown.tip)) for mode, shown in MODES.items()}
        self._switch: SegmentedSwitch[Mode] = SegmentedSwitch(tr("Kind of comparison"), modes)
        self._sides = SidesBar(workbench, ask_checkpoint)
        self._sides_area = FitScrollArea(self._sides, MIN_SIDES_PX)
        self._blink_bar, self._film_bar = BlinkBar(), FilmBar()
        self.pair = PicturePair(viewport)
        run_long = partial(self._run_job, long=True)
        self._tables = ComparedTables(self._run_job, run_long, self._sides.summary)
        self._lower = QWidget()
        self._element_label = ElidedLabel(tr("Weight under the cursor on both sides"))
        body = QWidget()
        self._lay_out([self._switch, *zoom_buttons(self.pair.left, self)], body, [])
        self._fill(body)
        self._delay_timer = self._timer(DELAY_MS, self._fill_in)
        self._connect()
        self._change_mode()
        self._recolour()

    @property
    def mode(self) -> Mode:
        return self._switch.value

    def _fill(self, body: QWidget) -> None:
        self._element_label.setContentsMargins(GAP_PX, TIGHT_PX, GAP_PX, 0)
        self._element_label.setMinimumHeight(self._element_label.fontMetrics().height() + 2)
        upper, lower = QWidget(), self._lower
        halves = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        self._chooser.setContentsMargins(GAP_PX, 0, 0, 0)
        slices = layouts.row(self._chooser, (self._chooser.sliders, 1))
        slices.setAlignment(self._chooser, Qt.AlignmentFlag.AlignLeft)
        below = (self._element_label, self._legend, slices)
        layouts.column((self.pair, 1), *below, of=upper, margin=0, gap=0)
        table, total = self._tables.overlaps, self._tables.total
        layouts.column((table, 1), total, of=lower, margin=0, gap=0)
        for half in (upper, lower):
            halves.addWidget(half)
        halves.setStretchFactor(0, 1)
        halves.setSizes([4 * TABLE_HEIGHT_PX, TABLE_HEIGHT_PX])
        bars = (self._sides_area, self._blink_bar, self._film_bar)
        layouts.column(*bars, (halves, 1), of=body, margin=0, gap=0)

    def _connect(self) -> None:
        for plot in self.pair.plots:
            plot.view.sigRangeChanged.connect(self._settle)
            plot.view.sigResized.connect(self._settle)
            plot.pointed.connect(self._set_cursor)
        self._film_bar.changed.connect(self.refresh)
        self._switch.changed.connect(self._change_mode)
        self._blink_bar.changed.connect(self._blink)
        self.pair.divided.connect(self._split)
        self.pair.blinked.connect(self._name_front)
        self._tables.summarized.connect(self._show_legend)
        self._tables.overlaps.chosen.connect(self._workbench.choose)
        self._space = shortcut("Space", self._toggle_playing, self.pair)

    def _change_mode(self) -> None:
        mode = self.mode
        for widget in (self._sides_area, self._lower):  # they are about two states
            widget.setVisible(mode != "film")
        self._blink_bar.setVisible(mode == "blink")
        self._film_bar.setVisible(mode == "film")
        self._space.setEnabled(mode in ("blink", "film"))
        self.pair.arrange(MODES[mode].arrangement)
        self._blink()
        blink, film = self._blink_bar.button, self._film_bar.slider
        control = {"swipe": self.pair.divider, "blink": blink, "film": film}.get(mode)
        if control is not None and not self._switch.has_focus:
            control.setFocus()  # chosen with the mouse
        self._pipeline.forget_pictures()
        self.refresh()

    def _toggle_playing(self) -> None:
        bar = self._film_bar if self.mode == "film" else self._blink_bar
        bar.button.toggle()

    def _blink(self) -> None:
        on = self.mode == "blink" and self._blink_bar.playing
        self.pair.set_blinking(on=on, interval_ms=self._blink_bar.interval_ms)
        self._name_front()

    def _name_front(self) -> None:
        compared = self._tables.compared
        if compared is not None:
            right = self.pair.right_in_front
            state = compared.right if right else compared.left
            text = tr(IN_FRONT[right], side=state.text)
            self._blink_bar.front.say(text, tip=text)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self._tables.forget()
        super()._on_changed(changes)
        # The tables are about all parameters, and named states may have changed.
        if changes.comparison or changes.resolution or (changes.recipe and not changes.file):
            self.refresh()

    def _request_picture(self, subject: Subject) -> None:
        self._tables.overlaps.mark(lambda row: row.name == subject.name)
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
        self._sides.offer()
        comparison = self._workbench.comparison
        left, right = comparison.state("left"), comparison.state("right")
        if left is None or right is None:
            return None
        self._tables.request_summary(subject, Compared(left, right))
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
        painted = pictures(pixels)
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
        painter, overlap, text = self._wanted, self._tables.overlap, ""
        if isinstance(painter, MaskPainter):
            text = legend(painter.subject, self.colours())
        elif overlap is not None and painter and overlap.name == painter.subject.name:
            assert isinstance(painter, ComparePainter)
            corrected = painter.has_corrected
            text = compare_legend(overlap, self.colours(), corrected=corrected)
        self._legend.setText(text)

    def _fill_in(self) -> None:
        """Compute what can wait: the overview of the pictures, and the table of all parameters."""
        if self.subject is None or self._wanted is None:
            return
        if self._pipeline.is_current:
            self._pipeline.request_overview(self._wanted)
        self._tables.request_overlaps(self.subject)

    def picture(self) -> QWidget | None:
        replaced = all(self.pair.messages)
        return None if replaced or super().picture() is None else self.pair

    def caption(self) -> tuple[str, str]:
        name, what = super().caption()
        compared = self._tables.compared
        if self.mode == "film":
            frame = self._film_bar.title.accessibleDescription()
            return name, tr("{what}. {frame}", what=what, frame=frame)
        if compared is None:
            return name, what
        left, right = compared.left.text, compared.right.text
        return name, tr("{what}. Left: {left}. Right: {right}", what=what, left=left, right=right)

    def table(self) -> Table | None:
        """Return the table on the screen: how much both states prune of each parameter."""
        visible = self.mode != "film" and self.picture() is not None
        if self.subject is None or not visible or not self._tables.is_tabulated:
            return None
        path = self.subject.resolution.checkpoint.path
        return self._tables.overlaps.as_table(tr("{name} compared", name=path.name))

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
        for plot in self.pair.plots:
            plot.recolour(self.colours())
        self._pipeline.forget_pictures()
