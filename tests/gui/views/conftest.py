"""Fixtures: a small checkpoint, a workbench, and helpers to inspect and operate a widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import QEvent, QPointF, Qt, QTimer
from PySide6.QtGui import QColor, QImage, QMouseEvent
from PySide6.QtWidgets import QApplication, QGraphicsView, QWidget
from pytestqt.qtbot import QtBot
from safetensors.torch import save_file
from waiting import draft_step

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.mask.view import MaskView
from prune_gui.gui.workbench import Workbench
from prune_gui.recipe import Recipe, Step, resolve
from prune_gui.session.subjects import Subject

LONG_NAME = "encoder.layer.11." * 8 + "LayerNorm.bias"
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
MOVE = QEvent.Type.MouseMove
Modifiers = Qt.KeyboardModifier
PLAIN = Modifiers.NoModifier


DELAYS = (
    "compare.picture_view.DELAY_MS",
    "maps.map_view.BACKGROUND_DELAY_MS",
    "maps.readers.REST_MS",
)


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch) -> None:
    """Let views compute at once what can wait."""
    for name in DELAYS:
        monkeypatch.setattr(f"prune_gui.gui.views.{name}", 1)


class Bench(Workbench):
    """A workbench that can wait for its engine."""

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        self.errors: list[object] = []
        self.failed.connect(lambda _, error: self.errors.append(error))
        self._qtbot = qtbot

    @staticmethod
    def step(method: str = "l1_unstructured", **parameters: object) -> Step:
        return Step.model_validate({"method": method, "targets": ["fc.weight"], **parameters})

    def until_idle(self) -> None:
        """Wait until all requested results are shown and no timer is active."""

        def idle() -> bool:
            timers = (t for w in QApplication.topLevelWidgets() for t in w.findChildren(QTimer))
            return not self.bridge._waiting and not any(timer.isActive() for timer in timers)

        self._qtbot.wait(1)
        self._qtbot.waitUntil(idle, timeout=60_000)

    def open_and_choose(self, path: Path, name: str) -> None:
        self.files.open(path)
        self.until_idle()
        self.show(name)

    def show(self, name: str) -> None:
        """Choose a parameter, and wait until it is shown."""
        self.choose(name)
        self.until_idle()

    def add(self, *steps: Step) -> None:
        for one in steps:
            self.edit(lambda session, one=one: session.add(one))
        self.until_idle()

    def draft_step(self, one: Step | None) -> None:
        draft_step(self, one)
        self.until_idle()

    def found(self) -> Subject:
        subject = self.subject
        assert isinstance(subject, Subject)
        return subject


class Hand:
    """Moves the cursor over a plot, no faster than pyqtgraph handles mouse events."""

    def __init__(self, qtbot: QtBot) -> None:
        self._qtbot = qtbot

    def point(self, plot: QGraphicsView, x: float, y: float) -> QPointF:
        return QPointF(plot.mapFromScene(plot.view.mapViewToScene(QPointF(x, y))))

    def hover(self, plot: QGraphicsView, at: QPointF) -> None:
        self._send(plot, MOVE, at, NONE, NONE)

    def click(self, plot: QGraphicsView, at: QPointF, modifiers: Modifiers = PLAIN) -> None:
        self._send(plot, QEvent.Type.MouseButtonPress, at, LEFT, LEFT, modifiers)
        self._send(plot, QEvent.Type.MouseButtonRelease, at, LEFT, NONE, modifiers)

    def drag(
        self, plot: QGraphicsView, start: QPointF, stop: QPointF, modifiers: Modifiers = PLAIN
    ) -> None:
        """Drag with the left button, in three moves."""
        self.hover(plot, start)
        self._send(plot, QEvent.Type.MouseButtonPress, start, LEFT, LEFT, modifiers)
        for part in (0.2, 0.6, 1.0):
            self._send(plot, MOVE, start + (stop - start) * part, NONE, LEFT, modifiers)
        self._send(plot, QEvent.Type.MouseButtonRelease, stop, LEFT, NONE, modifiers)

    def _send(
        self,
        plot: QGraphicsView,
        kind: QEvent.Type,
        at: QPointF,
        button: Qt.MouseButton,
        buttons: Qt.MouseButton,
        modifiers: Modifiers = PLAIN,
    ) -> None:
        viewport = plot.viewport()
        event = QMouseEvent(kind, at, viewport.mapToGlobal(at), button, buttons, modifiers)
        QApplication.sendEvent(viewport, event)
        self._qtbot.wait(15)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    random = torch.Generator().manual_seed(0)
    path = tmp_path / "small.safetensors"
    save_file(
        {
            "fc.weight": torch.randn(8, 6, generator=random),
            "other.weight": torch.randn(8, 6, generator=random),
            "conv.weight": torch.randn(4, 3, 5, 2, generator=random).bfloat16(),
            "fc.bias": torch.arange(8.0) - 3,
            "scale": torch.tensor(0.5),
            LONG_NAME: torch.ones(3),
            "steps": torch.tensor(7),
            "odd.weight": torch.tensor([[1.0, float("nan")], [float("inf"), 2.0], [0.5, 1.0]]),
        },
        path,
    )
    return path


@pytest.fixture
def bench(qtbot: QtBot) -> Iterator[Bench]:
    workbench = Bench(qtbot)
    yield workbench
    workbench.close()
    assert workbench.errors == []


@pytest.fixture
def shown(qtbot: QtBot) -> Callable[[QWidget], QWidget]:
    def show(widget: QWidget) -> QWidget:
        qtbot.addWidget(widget)
        widget.resize(700, 500)
        with qtbot.waitExposed(widget):
            widget.show()
        return widget

    return show


@pytest.fixture
def hand(qtbot: QtBot) -> Hand:
    return Hand(qtbot)


@pytest.fixture(scope="session")
def share_of() -> Callable[[QWidget, str], float]:
    """Return a function that measures the share of a widget's pixels with exactly a colour."""

    def measure(widget: QWidget, colour: str) -> float:
        image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        pixels = torch.frombuffer(bytearray(image.constBits()), dtype=torch.int32)
        return float((pixels == QColor(colour).rgb() - (1 << 32)).double().mean())

    return measure


@pytest.fixture
def mask(bench, checkpoint, shown):
    view = shown(MaskView(bench, Viewport()))
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.safetensors"
    weights = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0))
    save_file({"fc.weight": weights}, path)
    return path


@pytest.fixture
def subject_after(tmp_path: Path) -> Iterator[Callable[..., Subject]]:
    """Return a function of steps and keyword fields of the recipe; `draft` numbers the draft."""
    generator = torch.Generator().manual_seed(0)
    path = tmp_path / "small.safetensors"
    tensors = {
        "fc.weight": torch.randn(8, 6, generator=generator),
        "fc.bias": torch.arange(8.0) - 3,
    }
    save_file(tensors, path)
    with open_checkpoint(path) as checkpoint:

        def subject(*steps, name="fc.weight", draft=None, **fields):
            recipe = Recipe(steps=[{"targets": ["fc.weight"], **step} for step in steps], **fields)
            return Subject(resolve(recipe, checkpoint), checkpoint.tensors[name], draft)

        yield subject
