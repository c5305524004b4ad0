"""The promises of the views, measured in the real window: first pictures, pauses, live updates.

Usage: ``python benchmarks/views.py [PART ...]``. The default is all parts, which takes about a
minute. The largest parameter has 872 million elements of two bytes. That many bytes must be free in
the temporary folder, and in memory for the file cache of the system. Memory is measured on Linux
only.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import HEADINGS, Figure, anonymous_memory, seconds, table_row, write_in_chunks
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QGraphicsView, QSlider, QTabWidget
from window import PauseMeter, is_resolved, opened_window, wait, wait_for

from prune_gui.gui.views.maps.canvas import MapCanvas
from prune_gui.gui.views.maps.map_view import MapView
from prune_gui.gui.views.view import View
from prune_gui.gui.window import MainWindow
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step

TENSORS = {
    "small": ("F32", (512, 512)),
    "medium": ("F32", (4096, 11008)),
    "large": ("BF16", (16384, 53248)),
}
ROUNDS = 3
CHUNK_ELEMENTS = 1 << 22
"""Number of elements written at once."""
DRAG_S = 4.0
"""Duration of a drag of a slider or a picture."""
MOVE_INTERVAL_MS = 8
"""Interval between two mouse moves, as with a fast mouse."""
Act = Callable[[float], object]
"""Performs one move, given the elapsed share of `DRAG_S`."""
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton


class RepeatedMove(QObject):
    """Calls `act` every `MOVE_INTERVAL_MS` for `DRAG_S` seconds.

    Args:
        act: performs one move.

    Signals:
        done: the time is over.
    """

    done = Signal()

    def __init__(self, act: Act) -> None:
        super().__init__()
        self._act = act
        self._start_time = 0.0
        self._timer = QTimer(self, interval=MOVE_INTERVAL_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._move)

    def start(self) -> None:
        """Start the moves."""
        self._start_time = time.perf_counter()
        self._timer.start()

    def _move(self) -> None:
        elapsed = (time.perf_counter() - self._start_time) / DRAG_S
        if elapsed < 1:
            self._act(elapsed)
        else:
            self._timer.stop()
            self.done.emit()


def main() -> int:
    """Measure and print; return 1 if a promise is broken, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory() as folder, opened_window() as window:
        path = Path(folder) / "model.safetensors"
        write_random(path)
        window.resize(1600, 960)
        wait_for(window.workbench.ready, window.workbench.warm_up)
        until_idle(window)
        print(table_row(HEADINGS))
        for name in options.parts or PARTS:
            for figure in PARTS[name](window, path):
                print(figure, flush=True)
                held &= figure.held is not False
    return 0 if held else 1


def write_random(path: Path) -> None:
    """Write random weights; large parameters repeat the same weights."""
    nbytes = sum(int(dtype[-2:]) // 8 * math.prod(shape) for dtype, shape in TENSORS.values())
    free = shutil.disk_usage(path.parent).free
    if free < nbytes:
        raise SystemExit(f"{path.parent} has {free:,} bytes free, {nbytes:,} are needed.")
    weights = np.random.default_rng(0).standard_normal(CHUNK_ELEMENTS, dtype=np.float32)
    by_dtype = {"F32": weights, "BF16": (weights.view(np.uint32) >> 16).astype(np.uint16)}

    def chunks() -> Iterator[object]:
        for dtype, shape in TENSORS.values():
            remaining = math.prod(shape)
            while remaining:
                count = min(remaining, CHUNK_ELEMENTS)
                yield np.roll(by_dtype[dtype], remaining % 9973)[:count]
                remaining -= count

    write_in_chunks(path, TENSORS, chunks())


def first_pictures(window: MainWindow, path: Path) -> Iterator[Figure]:
    """Measure the time from choosing a parameter of a newly opened file to its picture."""
    for view in (window.views.view("mask"), window.views.view("weights")):
        for name in TENSORS:
            first, complete = zip(
                *(time_pictures(window, path, view, name) for _ in range(ROUNDS)), strict=True
            )
            limit_s = 0.4 if name == "large" else 0.15
            yield Figure(
                f"{view.accessibleName()}, first picture of {type_and_shape(name)}",
                seconds(min(first)),
                wanted=f"<= {1000 * limit_s:.0f} ms",
                held=min(first) <= limit_s,
            )
            yield Figure("  all of it", seconds(min(complete)))


def time_pictures(window: MainWindow, path: Path, view: MapView, name: str) -> tuple[float, float]:
    """Return the seconds from choosing a parameter to its first and to its complete picture."""
    open_file(window, path, "small" if name != "small" else "medium", view)
    paint_times: list[float] = []

    def paint() -> None:
        picture = view.picture()
        if picture is not None:
            picture.viewport().repaint()
            paint_times.append(time.perf_counter())

    view.pictured.connect(paint)
    start_time = time.perf_counter()
    window.workbench.choose(name)
    until_idle(window)
    view.pictured.disconnect(paint)
    return paint_times[0] - start_time, paint_times[-1] - start_time


def pauses(window: MainWindow, path: Path) -> Iterator[Figure]:
    """Measure the longest pause of the window while the largest parameter is moved by mouse."""
    pause_meter = PauseMeter()
    maps = (window.views.view("mask"), window.views.view("weights"))
    for view in maps:
        open_file(window, path, "large", view)
        for gesture, using in (("dragged", dragging), ("zoomed", zooming)):
            with using(view) as act:
                mouse = RepeatedMove(act)
                timing = pause_meter.measure(mouse.start, mouse.done)
            until_idle(window)
            yield Figure(
                f"{view.accessibleName()} of {type_and_shape('large')}, {gesture}",
                seconds(timing.longest),
                wanted="no pause over 50 ms",
                held=timing.longest <= 0.05,
            )
    tile_bytes, all_bytes = sum(view.cached_bytes for view in maps), anonymous_memory()
    yield Figure("tiles that the two views hold then", f"{tile_bytes / 1e6:.0f} MB")
    yield Figure("memory beyond mapped pages, all of the process", f"{all_bytes / 1e6:.0f} MB")


@contextmanager
def dragging(view: MapView) -> Iterator[Act]:
    """Zoom into a picture and drag it in a figure of eight."""
    for _ in range(4):
        view.canvas.zoom(1 / 1.3)
    canvas, middle = canvas_of(view)
    send(canvas, QEvent.Type.MouseButtonPress, middle, LEFT)

    def act(elapsed: float) -> None:
        angle, reach = 6 * math.pi * elapsed, 0.3 * canvas.viewport().height()
        at = middle + reach * QPointF(math.sin(angle), math.sin(2 * angle))
        send(canvas, QEvent.Type.MouseMove, at, LEFT)

    yield act
    send(canvas, QEvent.Type.MouseButtonRelease, middle, NONE)


@contextmanager
def zooming(view: MapView) -> Iterator[Act]:
    """Zoom with the wheel until single elements are readable, and back."""
    canvas, middle = canvas_of(view)
    global_middle = QPointF(canvas.viewport().mapToGlobal(middle))

    def act(elapsed: float) -> None:
        turn = QPoint(0, 12 if elapsed < 0.5 else -12)
        modifiers, phase = Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
        event = QWheelEvent(middle, global_middle, QPoint(), turn, NONE, modifiers, phase, False)
        QApplication.sendEvent(canvas.viewport(), event)

    yield act


def updates(window: MainWindow, path: Path) -> Iterator[Figure]:
    """Measure the pictures per second while a slider or the cut is dragged."""
    views = window.views
    for view, dragged, using in (
        (views.view("mask"), "the slider of the amount", sliding),
        (views.view("distribution"), "the slider of the amount", sliding),
        (views.view("distribution"), "the cut in the picture", cutting),
    ):
        open_file(window, path, "medium", view, drafted=True)
        pictures: list[View[Any]] = []
        count = partial(pictures.append, view)
        with using(window) as act:
            mouse = RepeatedMove(act)
            view.pictured.connect(count)
            wait_for(mouse.done, mouse.start)
            view.pictured.disconnect(count)
        rate = len(pictures) / DRAG_S
        until_idle(window)
        yield Figure(
            f"{view.accessibleName()} of {type_and_shape('medium')}, {dragged}",
            seconds(1 / rate if rate else math.inf),
            ratio=f"{rate:.1f}/s",
            wanted=">= 30 updates a second",
            held=rate >= 30,
        )


@contextmanager
def sliding(window: MainWindow) -> Iterator[Act]:
    """Move the amount slider of the draft back and forth."""
    sliders = window.draft.form.findChildren(QSlider)
    slider = next(slider for slider in sliders if slider.isVisible())
    yield lambda elapsed: slider.setValue(round(500 + 400 * triangle_wave(elapsed)))


@contextmanager
def cutting(window: MainWindow) -> Iterator[Act]:
    """Drag the cut line of the draft back and forth, within the range that it can follow."""
    view = window.views.view("distribution")
    plot, [line] = view._plot, view._cuts.values()
    height = plot.view.viewRange()[1][1] / 2
    zero, start = (
        QPointF(plot.mapFromScene(plot.view.mapViewToScene(QPointF(value, height))))
        for value in (0.0, line._positive.value())
    )
    nearest, reach = 0.9 * zero + 0.1 * start, 0.15 * plot.viewport().width()
    send(plot, QEvent.Type.MouseMove, start, NONE)
    send(plot, QEvent.Type.MouseButtonPress, start, LEFT)

    def act(elapsed: float) -> None:
        at = nearest + QPointF(reach * (1 + triangle_wave(elapsed)), 0)
        send(plot, QEvent.Type.MouseMove, at, LEFT)

    yield act
    send(plot, QEvent.Type.MouseButtonRelease, start, NONE)


def triangle_wave(elapsed: float) -> float:
    """Return a triangle wave between -1 and 1, with 3.5 periods while `elapsed` goes to 1."""
    return 2 * abs(2 * ((3.5 * elapsed + 0.25) % 1) - 1) - 1


def open_file(
    window: MainWindow, path: Path, name: str, view: View[Any], *, drafted: bool = False
) -> None:
    """Open the file anew with a step in the stack or as the draft, and show a parameter."""
    bench = window.workbench
    step = Step(method=METHODS["l1_unstructured"](), targets=("*",))
    wait_for(bench.changed, lambda: bench.files.open(path), is_resolved)
    bench.choose(name)
    show(window, view)  # a file opens on the overview
    if drafted:
        window.draft.targets.choose(frozenset({name}))
    else:
        bench.edit(lambda session: session.add(step))
    until_idle(window)


def show(window: MainWindow, view: View[Any]) -> None:
    """Show the tab of a view."""
    tabs = window.views.findChild(QTabWidget)
    assert tabs is not None
    tabs.setCurrentWidget(view)


def until_idle(window: MainWindow) -> None:
    """Wait until the engine is idle and stays idle."""
    idle_checks = 0
    while idle_checks < 2:
        wait(250)  # longer than any timer of a view
        idle_checks = 0 if window.workbench.bridge._waiting else idle_checks + 1


def canvas_of(view: MapView) -> tuple[MapCanvas, QPointF]:
    """Return the canvas of a view, and the centre of its viewport."""
    canvas = view.picture()
    assert isinstance(canvas, MapCanvas)
    return canvas, QPointF(canvas.viewport().rect().center())


def send(canvas: QGraphicsView, kind: QEvent.Type, at: QPointF, buttons: Qt.MouseButton) -> None:
    """Send a mouse event of the left button to a canvas."""
    button = NONE if kind == QEvent.Type.MouseMove else LEFT
    global_position = QPointF(canvas.viewport().mapToGlobal(at))
    modifiers = Qt.KeyboardModifier.NoModifier
    event = QMouseEvent(kind, at, global_position, button, buttons, modifiers)
    QApplication.sendEvent(canvas.viewport(), event)


def type_and_shape(name: str) -> str:
    """Return dtype and shape of a parameter as "F32 512 x 512"."""
    dtype, shape = TENSORS[name]
    return f"{dtype} " + " x ".join(map(str, shape))


PARTS = {"first": first_pictures, "pauses": pauses, "updates": updates}


if __name__ == "__main__":
    sys.exit(main())
