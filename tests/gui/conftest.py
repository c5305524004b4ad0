"""Fixtures for the tests of the GUI: workbench, window, steps and answers of message boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from foreign import foreign
from PySide6.QtCore import Qt, QTranslator
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget
from waiting import change

from prune_gui.checkpoint.remote.access import fetch_limit
from prune_gui.gui.dialogs import questions
from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session import Settings


@pytest.fixture(autouse=True)
def _settings_of_its_own(monkeypatch, tmp_path_factory) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    yield
    fetch_limit.set(None)  # a window sets it for the process


@pytest.fixture(autouse=True)
def _no_key_is_held(qapp) -> Iterator[None]:
    """Release modifier keys after a test. QTest leaves them pressed, which affects selections."""
    yield
    if qapp.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyClick(QWidget(), Qt.Key.Key_A)


@pytest.fixture(autouse=True)
def _no_theme_outlives_the_test(qapp) -> Iterator[None]:
    """Restore what a theme sets for the whole application."""
    style, palette, font = qapp.style().objectName(), qapp.palette(), qapp.font()
    yield
    if qapp.style().objectName() != style:
        qapp.setStyle(style)
    qapp.setPalette(palette)
    qapp.setFont(font)


class QtCatalogue(QTranslator):
    """A catalogue of Qt's own texts in the foreign language, except for names of keys."""

    def isEmpty(self) -> bool:  # noqa: N802 - as Qt has it
        return False

    def translate(self, context, text, disambiguation=None, n=-1) -> str:
        return text if context == "QShortcut" else foreign(text)


@pytest.fixture
def foreign_language(foreign_language, qapp) -> Iterator[None]:
    """Set the foreign language for Qt's own texts, too."""
    translator = QtCatalogue()
    qapp.installTranslator(translator)
    yield
    qapp.removeTranslator(translator)


@pytest.fixture
def workbench(qtbot) -> Iterator[Workbench]:
    """Return a workbench without a session."""
    bench = Workbench()
    yield bench
    bench.close()
    bench.deleteLater()


@pytest.fixture
def open_file(qtbot, workbench, settle) -> Callable[..., None]:
    """Return a function that opens a checkpoint and waits until it is resolved."""

    def open_and_wait(path: Path, recipe: Path | None = None) -> None:
        with change(qtbot, workbench, "file"):
            workbench.files.open(path, recipe)
        settle()

    return open_and_wait


@pytest.fixture
def window(qtbot, workbench) -> Iterator[MainWindow]:
    """Return a window without a checkpoint."""
    app = QApplication.instance()
    theme = Theme(app, "light")
    preferences = Preferences(Settings(), theme)
    theme.follow(preferences)
    made = MainWindow(workbench, preferences, Path("prune-gui.log"))
    made.show()
    qtbot.waitExposed(made)
    yield made
    workbench.bridge.close()
    made.hide()
    made.views.dismantle()
    made.deleteLater()
    theme.deleteLater()


@pytest.fixture
def demo_window(window, open_file, demo_checkpoint) -> MainWindow:
    """Return a window with the demo checkpoint, without steps."""
    open_file(demo_checkpoint)
    return window


@pytest.fixture
def active(window, qtbot) -> MainWindow:
    """Return the window, which has the focus."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


@pytest.fixture
def draft(demo_window, qtbot) -> DraftPanel:
    """Return the panel of the draft, with the targets of the selected parameter."""
    qtbot.waitUntil(lambda: bool(demo_window.draft.targets.patterns()))
    return demo_window.draft


@pytest.fixture
def settle(qtbot, workbench) -> Callable[[], None]:
    """Return a function that waits until the current recipe and draft are resolved.

    A panel updates the draft only some times a second.
    """

    def wait() -> None:
        panels = [one for one in QApplication.allWidgets() if isinstance(one, DraftPanel)]

        def settled() -> bool:
            resolved, session = workbench.resolved, workbench.session
            return (
                not any(panel._is_outdated for panel in panels)
                and resolved is not None
                and resolved.recipe is session.recipe
                and resolved.draft == workbench.draft.current
            )

        qtbot.waitUntil(settled, timeout=60_000)

    return wait


@pytest.fixture
def make_step() -> Callable[..., Step]:
    """Return a function that makes a step; the default targets are the demo's convolutions."""

    def make(method: str = "l1_unstructured", *targets: str, **parameters: object) -> Step:
        chosen = METHODS[method].model_validate(parameters)
        return Step(method=chosen, targets=targets or ("*.conv*.weight",))

    return make


@pytest.fixture
def answer_box(monkeypatch) -> Callable[[str], list[str]]:
    """Return a function that makes message boxes click a button, and lists the boxes' texts."""

    def prepare(text):
        asked = []

        def click(box):
            asked.append(box.text())
            buttons = {b.text().replace("&", ""): b for b in box.findChildren(QPushButton)}
            buttons[text].click()
            return box.result()

        monkeypatch.setattr(QMessageBox, "exec", click)
        return asked

    return prepare


@pytest.fixture
def export_figure(monkeypatch, qtbot):
    """Return a function that exports what the dialog shows that `trigger` opens, and closes it."""
    from prune_gui.gui.figures.dialog import FigureDialog  # pyqtgraph: slow to import

    def export(trigger, path):
        trigger()
        shown = [each for each in QApplication.topLevelWidgets() if isinstance(each, FigureDialog)]
        dialog = next(each for each in shown if each.isVisible())
        qtbot.waitUntil(lambda: not dialog.preview.pixmap().isNull(), timeout=60_000)
        dialog.fields["format"].setCurrentText(path.suffix[1:].upper())
        with monkeypatch.context() as patch:
            patch.setattr(questions, "ask_target", lambda *_: path)
            dialog.export.click()
        qtbot.waitUntil(lambda: dialog.note.isVisible(), timeout=60_000)
        dialog.close()

    return export
