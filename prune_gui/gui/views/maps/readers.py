"""What a map shows beside its tiles: profiles, texts in elements, and attention heads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPoint, QSignalBlocker
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QSpinBox, QToolTip

from prune_gui.gui.views.controls import IconToggle
from prune_gui.gui.views.maps.canvas import CellTexts, MapCanvas
from prune_gui.gui.views.maps.margins import Titles
from prune_gui.gui.views.maps.text import Texts, is_bright
from prune_gui.gui.views.maps.tile_pipeline import MapPainter, RenderedView, RunJob
from prune_gui.gui.views.maps.tiles import Pixels
from prune_gui.gui.views.maps.viewport import Viewport, head_key
from prune_gui.language import tr
from prune_gui.number_formats import sparsity
from prune_gui.raster.parameter_layouts import HeadBands, head_bands
from prune_gui.session.subjects import Subject

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.raster.cell_statistics import Profiles
    from prune_gui.raster.parameter_layouts import ParameterLayout


@dataclass(eq=False)
class Reader:
    """Computes what belongs to the picture of a canvas, in jobs of a lane."""

    canvas: MapCanvas
    lane: str
    run_job: RunJob


@dataclass(eq=False)
class ProfileReader(Reader):
    """Computes the profiles of a picture, and shows them in its margins while `box` is checked."""

    tip: str
    _key: tuple[Hashable, ParameterLayout] | None = None

    def __post_init__(self) -> None:
        self.box = IconToggle("profiles", tr("Profiles"), self.tip)
        self.box.setChecked(True)
        self.box.toggled.connect(lambda on: self.canvas.margins.set_visible(visible=on))
        self.canvas.margins.set_visible(visible=True)

    def request(self, painter: MapPainter, layout: ParameterLayout, titles: Titles) -> None:
        key = (painter.profile_key, layout)
        if not self.box.isChecked() or key == self._key:
            return

        def compute(monitor: Monitor) -> Profiles:
            return painter.profiles(layout, monitor)

        def show(profiles: Profiles) -> None:
            if layout == self.canvas.layout_shown:
                self._key = key
                self.canvas.margins.show_profiles(profiles, titles)

        self.run_job(self.lane, painter.subject, compute, show)

    def clear(self) -> None:
        self._key = None
        self.canvas.margins.clear()


@dataclass(eq=False)
class CellTextWriter(Reader):
    """Reads the texts of the visible elements, and writes them into a canvas."""

    colour: Callable[[Pixels], Pixels]
    _key: tuple[Hashable, range, range] | None = None

    def forget(self) -> None:
        """Write the texts anew with the next picture, because its colours have changed."""
        self._key = None

    def write(self, painter: MapPainter, rendered: RenderedView) -> None:
        tile_grid = rendered.tile_grid
        if not (rendered.is_complete and self.canvas.readable and tile_grid.cell == (1, 1)):
            self._key = None
            self.canvas.texts.set_texts(None)
            return
        sight = self.canvas.region_of(tile_grid.layout)
        rows, columns = sight.rows, sight.columns
        wanted = (rendered.key, rows, columns)
        if wanted == self._key:
            return
        self._key = wanted
        top, left = rows.start - tile_grid.rows.start, columns.start - tile_grid.columns.start
        part = rendered.painted.pixels[top : top + len(rows), left : left + len(columns)]
        bright = is_bright(self.colour(part))

        def show(texts: Texts) -> None:
            if self._key == wanted:
                self.canvas.texts.set_texts(CellTexts(rows, columns, texts, bright))

        def read(_: Monitor) -> Texts:
            return painter.texts(tile_grid.layout, rows, columns)

        self.run_job(self.lane, painter.subject, read, show)


OFF: Final = -1
AUTO: Final = 0
MAX_HEADS: Final = 4096


class HeadsBox(QSpinBox):
    """A spin box for a number of heads, for the number that the file states, or for none."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(OFF, MAX_HEADS)
        self.setValue(AUTO)
        self.setKeyboardTracking(False)
        self.setPrefix(tr("Heads: "))
        self.setAccessibleName(tr("Attention heads"))
        self.setToolTip(
            tr(
                "Lines between attention heads, and the share of each that is pruned, or zero in "
                "the file.\n"
                "auto: the number of heads in config.json; else type a number, or off."
            )
        )

    def textFromValue(self, value: int) -> str:  # noqa: N802
        if value == OFF:
            return tr("off")
        return tr("auto") if value == AUTO else str(value)

    def valueFromText(self, text: str) -> int:  # noqa: N802
        """Return the number of heads that the user typed; without a number, off or automatic."""
        typed = text.removeprefix(self.prefix()).strip()
        if typed.isdecimal():
            return min(int(typed), MAX_HEADS)
        return OFF if typed == tr("off") else AUTO

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        """Accept any text; `valueFromText` reads it."""
        return QValidator.State.Acceptable, text, at


@dataclass(eq=False)
class HeadReader(Reader):
    """Shows the heads of a parameter, as many as the file states or the user chose in `box`."""

    viewport: Viewport
    _subject: Subject | None = None
    _shown: Subject | None = None
    _bands: HeadBands | None = None
    _layout: ParameterLayout | None = None
    _key: Hashable = None

    def __post_init__(self) -> None:
        self.box = HeadsBox()
        self.box.valueChanged.connect(self._choose)

    def show(self, subject: Subject, layout: ParameterLayout) -> None:
        """Show the heads of the parameter on the screen; their shares follow with `request`."""
        self._subject = subject
        count = self.viewport.head_counts.get(head_key(subject.name), AUTO)
        with QSignalBlocker(self.box):
            self.box.setValue(count)
        self.box.setVisible(len(layout.shape) == 2)
        bands = _bands_of(subject, layout, count)
        is_other = (bands, layout) != (self._bands, self._layout)
        if is_other or not subject.same_parameter(self._shown):
            self._bands, self._layout, self._key, self._shown = bands, layout, None, subject
            self.canvas.heads.show_bands(bands, (layout.rows, layout.columns))

    def request(self) -> None:
        subject, layout, bands = self._subject, self._layout, self._bands
        if subject is None or layout is None or bands is None:
            return
        key = (subject.marked_key, layout, bands)
        if key == self._key:
            return
        size = subject.info.numel // len(bands.labels)

        def compute(monitor: Monitor) -> list[str]:
            from prune_gui.raster.density import head_shares  # torch: slow to import

            shares = head_shares(subject.marked, subject.name, layout, bands, monitor)
            return [sparsity(round(float(share) * size), size) for share in shares]

        def show(shares: list[str]) -> None:
            if (layout, bands) == (self._layout, self._bands):
                self._key = key
                self.canvas.heads.show_bands(bands, (layout.rows, layout.columns), shares)

        self.run_job(self.lane, subject, compute, show)

    def _choose(self, count: int) -> None:
        subject, layout = self._subject, self._layout
        if subject is None or layout is None:
            return
        self.viewport.head_counts[head_key(subject.name)] = count
        self.show(subject, layout)
        self.request()
        if count > 0 and self._bands is None:
            message = tr("{count:,} heads do not divide this weight evenly.", count=count)
            QToolTip.showText(self.box.mapToGlobal(QPoint(0, self.box.height())), message, self.box)


def _bands_of(subject: Subject, layout: ParameterLayout, count: int) -> HeadBands | None:
    from prune_gui.architecture import projections  # torch: slow to import

    if count == OFF:
        return None
    checkpoint, name = subject.resolution.checkpoint, subject.name
    if count == AUTO:
        return head_bands(projections.attention_heads(checkpoint, name), layout)
    return head_bands(projections.split_evenly(checkpoint, name, count), layout)
