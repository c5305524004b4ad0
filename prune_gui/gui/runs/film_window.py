"""The window of the film of a run: sparsity over steps, and every mask at every step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyqtgraph as pg
import shiboken6
from PySide6.QtCore import QFileSystemWatcher, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QDialog, QLabel, QSlider, QWidget

from prune_gui.engine import Job
from prune_gui.gui.dialogs import questions
from prune_gui.gui.runs.film import (
    QUANTITIES,
    density,
    frame_text,
    pixels,
    survival_text,
    value_text,
    values_at,
)
from prune_gui.gui.views.controls import Choice
from prune_gui.gui.views.overview.block_grid import BlockGrid
from prune_gui.gui.views.overview.grid_painter import Cell, image_of
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import colours
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.gui.bridge import Bridge
    from prune_gui.monitor import Monitor
    from prune_gui.training.run_folder import Octets, Quantity, Run

FRAME_MS: Final = 33
LONGEST_FRAME_MS: Final = 200
FILM_MS: Final = 10_000
"""Time in which a film plays, unless it has so many or so few frames."""
DOT_PX: Final = 5
FOLDER: Final = deferred("Open the folder of a run")


class MaskPicture(QWidget):
    """The mask of a parameter, as large as the widget."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Mask"))
        self.setMinimumSize(QSize(160, 120))
        self._image: QImage | None = None

    def show_pixels(self, picture: np.ndarray[Any, Any] | None) -> None:
        """Show a picture, uint8 (height, width, 4): RGBA."""
        self._image = image_of(picture).copy() if picture is not None else None
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802
        if self._image is not None:
            painter = QPainter(self)
            painter.drawImage(QRectF(self.rect()), self._image)


class RunPane(QWidget):
    """One run: its parameters by block and role, and the mask of one of them."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.index = len(run.frames) - 1
        self.arrangement = Arrangement(())
        self.text = ElidedLabel(tr("Frame"))
        self.grid = BlockGrid(tr("Sparsity of the parameters of {name}", name=run.folder.name))
        self.picture = MaskPicture()
        self.name = ElidedLabel(tr("Parameter"))
        mask = QWidget()
        layouts.column(self.name, (self.picture, 1), of=mask, margin=0)
        layouts.column(self.text, layouts.row((self.grid, 2), (mask, 3)), of=self, margin=0)

    def arrange(self) -> None:
        """Arrange the parameters that there are now: a gradual run begins without any mask."""
        from prune_gui.architecture.blocks import sections

        self.arrangement = Arrangement(tuple(sections(self.run.shapes, vectors=True)))

    def show_frame(self, parameter: str, quantity: Quantity) -> None:
        """Show the values of the parameters in the current frame."""
        shades = colours(self.palette())
        self.text.say(f"{self.run.folder.name}: {frame_text(self.run, self.index)}")
        cells = {
            name: Cell(value_text(value, quantity), shades.share(share))
            for name, value, share in values_at(self.run, self.index, quantity)
        }
        known = parameter in cells
        self.name.say(f"{parameter}: {cells[parameter].text}" if known else "")
        self.grid.show_cells(self.arrangement, cells.__getitem__, shades)
        self.grid.choose(parameter)


class FilmWindow(QDialog):
    """Plays a run, and follows one that is written; a second one can be shown beside it."""

    def __init__(self, bridge: Bridge, run: Run, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Run {name}", name=run.folder.name))
        self._bridge = bridge
        self._is_reading = self._reads_again = False
        self.panes: list[RunPane] = []
        self.parameter = ""
        self._steps: list[int] = []
        self.plot = layouts.described(Plot(), tr("Sparsity by step"))
        self.plot.setMouseEnabled(x=False, y=False)
        self.plot.setLimits(yMin=0)
        self.plot.label("bottom", tr("step"))
        self.plot.scene().sigMouseClicked.connect(self._go_to_click)
        self._cursor = pg.InfiniteLine(angle=90)
        self.quantity = Choice(tr("Quantity"), changed=self._redraw)
        self.legend = QLabel(textFormat=Qt.TextFormat.RichText)
        self.survival = ElidedLabel(tr("What both runs keep"))
        self.slider = layouts.described(QSlider(Qt.Orientation.Horizontal), tr("Frame"))
        self.slider.setMaximum(0)
        self.slider.valueChanged.connect(self._show)
        self.play = layouts.button(tr("&Play"), self._toggle)
        self.play.setCheckable(True)
        self.beside = layouts.button(tr("Run &beside…"), self._ask_second)
        self.message = Message()
        self._row = layouts.row()
        layouts.column(
            (self._row, 3),
            self.survival,
            (self.plot, 1),
            layouts.row(self.quantity, (self.legend, 1)),
            layouts.row(self.play, (self.slider, 1), self.beside),
            self.message,
            of=self,
        )
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._advance)
        self._later = QTimer(self, interval=FRAME_MS, singleShot=True)
        self._later.timeout.connect(self._draw)
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._read)
        self._watcher.directoryChanged.connect(self._read)
        self.add(run)
        self.resize(1000, 680)

    def add(self, run: Run) -> None:
        """Show a run beside those that are shown."""
        pane = RunPane(run)
        pane.grid.opened.connect(self._choose)
        pane.grid.chosen.connect(self._choose)
        self.panes.append(pane)
        self._row.addWidget(pane, 1)
        shown = [pane.run.quantities for pane in self.panes]
        common = [
            (tr(text), one) for one, text in QUANTITIES.items() if all(one in q for q in shown)
        ]
        self.quantity.offer(common)
        self.quantity.setVisible(len(common) > 1)
        self._watch()
        self.beside.setEnabled(len(self.panes) == 1)
        self._follow()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._later.start()

    def _choose(self, name: str) -> None:
        self.parameter = name
        self._redraw()

    def _redraw(self, _: int = 0) -> None:
        self._draw_curves()
        self._show()

    def _follow(self) -> None:
        """Show the frames that there are now, the last one if the last one was shown."""
        for pane in self.panes:
            pane.arrange()
        self.parameter = self.parameter or next(iter(self.panes[0].run.shapes), "")
        at_end = self.slider.value() == self.slider.maximum()
        frames = (frame for pane in self.panes for frame in pane.run.frames)
        self._steps = sorted({frame.step for frame in frames})
        self.slider.setMaximum(len(self._steps) - 1)
        if at_end:
            self.slider.setValue(self.slider.maximum())
        self._redraw()

    def _watch(self) -> None:
        paths = {str(path) for pane in self.panes for path in pane.run.watched}
        watched = {*self._watcher.files(), *self._watcher.directories()}
        if new := paths - watched:
            self._watcher.addPaths(sorted(new))

    def _read(self, _: str = "") -> None:
        """Read what was written, once more if more is written meanwhile."""
        self._reads_again = self._is_reading
        if self._is_reading:
            return
        self._is_reading = True
        runs = [pane.run for pane in self.panes]
        job = Job(
            deferred("Reading the run"), lambda _: sum(run.update() for run in runs), long=True
        )
        self._bridge.run(job, self._take, self._fail)

    def _take(self, count: int) -> None:
        if not shiboken6.isValid(self):
            return
        self._is_reading = False
        self._watch()  # also a file that was replaced, not appended to
        if count:
            self._follow()
        if self._reads_again:
            self._read()

    def _fail(self, error: BaseException) -> None:
        if shiboken6.isValid(self):
            self._is_reading = False
            self.message.say_error(str(error), "")

    def _draw_curves(self) -> None:
        shades, labels = colours(self.palette()), []
        everything, changed = tr("all"), tr("changed")
        quantity: Quantity = self.quantity.value
        is_share, scale = quantity == "sparsity", 1 if quantity == "norm" else 100
        texts = {"sparsity": tr("sparsity, %"), "norm": tr("norm")}
        self.plot.label("left", texts.get(quantity, tr("moved, %")))
        self.plot.clear()
        self._cursor.setPen(pen(shades.foreground, dashed=True))
        self.plot.addItem(self._cursor, ignoreBounds=True)
        for number, pane in enumerate(self.panes):
            run, shade = pane.run, shades.steps[number]
            steps = [frame.step for frame in run.frames]
            holds = None if run.frames[0].event == "checkpoint" else "right"  # until the next frame
            curves = [(run.curve(quantity), pen(shade, width=2))]
            if self.parameter in run.shapes:
                line = pen(shade, width=2, dashed=True)
                curves.append((run.curve(quantity, self.parameter), line))
            for values, line in curves:
                shown = scale * values[: len(steps)]  # frames may come meanwhile
                self.plot.plot(steps, shown, pen=line, stepMode=holds)
            label = f"{escape(run.folder.name)}: {everything} —, {escape(self.parameter)} - -"
            if is_share and self.parameter in run.shapes:
                changes = scale * run.curve("changed", self.parameter)[: len(steps)]
                dots = {"symbolSize": DOT_PX, "symbolBrush": shade, "symbolPen": None}
                self.plot.plot(steps, changes, pen=None, symbol="o", **dots)
                label += f", {changed} •"
            labels.append(f'<span style="color: {shade}">■</span> {label}')
        self.legend.setText(" &nbsp; ".join(labels))

    def _show(self, _: int = 0) -> None:
        step = self._steps[self.slider.value()]
        self._cursor.setValue(step)
        for pane in self.panes:
            steps = [frame.step for frame in pane.run.frames]
            pane.index = max(bisect_right(steps, step) - 1, 0)
            pane.show_frame(self.parameter, self.quantity.value)
        self._draw()

    def _draw(self) -> None:
        name, shades = self.parameter, colours(self.palette())
        wanted = [
            (pane.run, pane.index, pane.picture.height(), pane.picture.width())
            for pane in self.panes
            if name in pane.run.shapes
        ]

        def work(_: object) -> list[tuple[Octets, np.ndarray[Any, Any]]]:
            found = []
            for run, index, height, width in wanted:
                bits = run.bits(name, index)
                shares = density(bits, run.shapes[name], height, width)
                found.append((bits, pixels(shares, shades)))
            return found

        self._bridge.run_job(f"film {id(self)}", work, self._take_pictures)

    def _take_pictures(self, found: list[tuple[Octets, np.ndarray[Any, Any]]]) -> None:
        if not shiboken6.isValid(self):
            return
        panes = [pane for pane in self.panes if self.parameter in pane.run.shapes]
        for pane, (_, picture) in zip(panes, found, strict=False):
            pane.picture.show_pixels(picture)
        text = ""
        if len(found) > 1 and len(found[0][0]) == len(found[1][0]):
            total = panes[0].run.total(self.parameter)
            text = survival_text(found[0][0], found[1][0], total)
        self.survival.say(text)

    def _toggle(self) -> None:
        if self.play.isChecked():
            if self.slider.value() == self.slider.maximum():
                self.slider.setValue(0)
            share = FILM_MS // len(self._steps)
            self._timer.start(max(FRAME_MS, min(share, LONGEST_FRAME_MS)))
        else:
            self._timer.stop()

    def _advance(self) -> None:
        self.slider.setValue(self.slider.value() + 1)
        if self.slider.value() == self.slider.maximum():
            self.play.setChecked(False)
            self._timer.stop()

    def _go_to_click(self, click: Any) -> None:  # noqa: ANN401 - of pyqtgraph
        x = self.plot.view.mapSceneToView(click.scenePos()).x()
        self.slider.setValue(int(np.argmin(np.abs(np.array(self._steps) - x))))

    def _ask_second(self) -> None:
        folder = questions.ask_folder(self, self.panes[0].run.folder.parent, FOLDER)
        if folder is not None:
            open_run(self._bridge, folder, self.add, self._fail)


def open_run(
    bridge: Bridge,
    folder: Path,
    then: Callable[[Run], None],
    failed: Callable[[BaseException], None] | None = None,
) -> None:
    """Read a run, or the checkpoints of a training, on the engine; see `Bridge.run`."""

    def work(monitor: Monitor) -> Run:
        from prune_gui.training.run_folder import EVENTS, Run

        if (folder / EVENTS).exists():
            return Run(folder)
        from prune_gui.training.checkpoint_run import CheckpointRun

        return CheckpointRun(folder, monitor)

    bridge.run(Job(deferred("Reading the run"), work, long=True), then, failed)
