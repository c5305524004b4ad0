"""A generator of random user actions on a window: see `test_monkey.py`."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFileDialog,
    QGraphicsView,
    QHeaderView,
    QInputDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QPushButton,
    QRadioButton,
    QTabBar,
    QWidget,
)

from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog
from prune_gui.gui.evaluate.evaluate_panel import OptionsDialog
from prune_gui.gui.remote_files import LocationDialog
from prune_gui.gui.saving.save_dialog import SaveDialog
from prune_gui.gui.window import MainWindow
from prune_gui.pruning.methods import METHODS
from prune_gui.session.draft_request import CutRequest

Key, LEFT, NONE = Qt.Key, Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
EXCLUDED_ACTIONS = frozenset({"close_window", "quit"})
"""Actions that are never triggered, because they close the window."""
TEXTS = (
    "*.weight", "*", "", "!*.bias", "conv", "*.weight, !*.bn?.*", "type:Conv2d", "type:",
    "dims>1", "dims>", "size>", "size>=1k", "sparsity>10%", "sparsity<", "dtype:float32",
    "shape:*x3x3", "[", "[a", "conv1.weight,", "nothing.like.this", "0", "1", "2", "0.5", "-1",
    "1e-2", "50", "100", "7", "inf", "nuc", "1-3, 5", "row", "é", "0.0000001", "99999999999",
)  # fmt: skip
KEYS = (
    Key.Key_F, Key.Key_1, Key.Key_Plus, Key.Key_Minus, Key.Key_Left, Key.Key_Right, Key.Key_Up,
    Key.Key_Down, Key.Key_Home, Key.Key_End, Key.Key_PageUp, Key.Key_PageDown, Key.Key_Space,
    Key.Key_Return, Key.Key_Delete, Key.Key_Escape, Key.Key_Tab, Key.Key_P,
)  # fmt: skip
MODIFIERS = (
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
)
ENABLED = Qt.ItemFlag.ItemIsEnabled
MAX_TRAIL_LENGTH = 25


class Monkey:
    """Uses a window through its widgets, at random but reproducibly for a seed.

    Args:
        window: with or without an open checkpoint.
        seed: of the random choices.
        files: the answers to open dialogs; some of them are no checkpoints.
        folder: the target of everything saved.

    Attributes:
        trail: the latest actions, to reproduce a failure by hand.
        refused: the texts of the message boxes that were shown.
    """

    def __init__(self, window: MainWindow, seed: int, files: Sequence[Path], folder: Path) -> None:
        self.window = window
        self.trail: deque[str] = deque(maxlen=MAX_TRAIL_LENGTH)
        self.refused: list[str] = []
        self._random = random.Random(seed)
        self._files, self._folder = files, folder
        self._weights: dict[Callable[[], str | None], int] = {
            self._trigger: 8,
            self._select_in_tree: 5,
            self._use_draft: 10,
            self._type: 4,
            self._pick: 4,
            self._press_button: 4,
            self._slide: 3,
            self._switch_tab: 3,
            self._click_item: 4,
            self._drag_step: 1,
            self._sort: 1,
            self._use_view: 9,
            self._drag_cut: 3,
            self._open: 1,
            self._use_menu: 2,
            self._drop: 1,
            self._cancel: 2,
        }

    def act(self) -> None:
        """Perform one action, and close the dialogs that it opens."""
        [act] = self._random.choices(list(self._weights), list(self._weights.values()))
        self.trail.append(act.__name__)
        detail = act()
        self.trail[-1] += f": {detail}"
        if self._random.random() < 0.7:  # else the next action follows without event processing
            QApplication.processEvents()
        self.close_boxes()

    def close_boxes(self) -> None:
        """Close all pop-ups and dialogs, and record the texts of message boxes."""
        while popup := QApplication.activePopupWidget():
            popup.close()
        for dialog in self.window.findChildren(QDialog):
            if isinstance(dialog, QMessageBox) and dialog.isVisible():
                assert "an internal error" not in dialog.text(), dialog.text()
                self.refused.append(dialog.text())
            if dialog.isVisible():
                dialog.close()

    def answers(self) -> ExitStack:
        """Return a context in which modal dialogs are answered automatically."""
        stack = ExitStack()
        for dialog_class, method, answer in (
            (QFileDialog, "getOpenFileName", lambda *_, **__: (self._file_to_open(), "")),
            (QFileDialog, "getExistingDirectory", lambda *_, **__: self._file_to_open()),
            (QFileDialog, "getSaveFileName", lambda *_, **__: (self._file_to_save(), "")),
            (QFileDialog, "exec", lambda dialog: self._name_target(dialog)),
            (QInputDialog, "getText", lambda *_, **__: (self._random.choice("ab "), self._coin())),
            (QMessageBox, "exec", lambda box: self._answer_box(box)),
            (SaveDialog, "exec", lambda dialog: self._answer_save_dialog(dialog)),
            (RecipeMatchDialog, "exec", lambda _: int(self._coin())),
            (OptionsDialog, "exec", lambda _: int(self._coin())),
            (LocationDialog, "exec", lambda dialog: self._answer_location_dialog(dialog)),
        ):
            stack.enter_context(patch.object(dialog_class, method, answer))
        return stack

    # Answers to dialogs.

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _file_to_open(self) -> str:
        return str(self._random.choice(self._files)) if self._random.random() < 0.8 else ""

    def _file_to_save(self) -> str:
        suffix = self._random.choice([".csv", ".yaml", ".safetensors", ""])
        return str(self._folder / f"saved{self._random.randrange(4)}{suffix}") * self._coin()

    def _name_target(self, dialog: QFileDialog) -> int:
        name = self._random.choice(["a.png", "b.svg", "saved.csv", "saved.yaml", "saved"])
        dialog.selectFile(str(self._folder / name))
        return int(self._coin())

    def _answer_box(self, box: QMessageBox) -> int:
        button = self._choice_or_none(box.findChildren(QPushButton))
        if button is not None:
            button.click()
        return box.result()

    def _answer_save_dialog(self, dialog: SaveDialog) -> int:
        dialog.show()
        self._random.choice(dialog.findChildren(QRadioButton)).click()
        suffix = self._random.choice([".safetensors", ".pt", ".txt", ""])
        dialog._path.setText(str(self._folder / f"out{self._random.randrange(3)}{suffix}"))
        if self._random.random() < 0.2:
            dialog._split.click()
            dialog._shard_size.setText(self._random.choice(["1 kB", "100 kB", "nonsense"]))
        if self._coin():
            QApplication.processEvents()
        self._random.choice(dialog.findChildren(QPushButton)).click()
        if dialog.isVisible():
            dialog.reject()
        return dialog.result()

    def _answer_location_dialog(self, dialog: LocationDialog) -> int:
        dialog.url.setText(self._random.choice(["", "file", "s3:///file", "s3://key:secret@a/b"]))
        return int(self._coin())

    # Actions. Each returns a detail for the trail, or None if there is nothing to act on.

    def _usable_widget(self, kind: type, parent: QWidget | None = None) -> QWidget | None:
        """Return a random visible and enabled widget of a class, or None."""
        return self._choice_or_none(
            widget
            for widget in (parent or self.window).findChildren(kind)
            if widget.isVisible() and widget.isEnabled()
        )

    def _choice_or_none(self, items: object) -> object:
        candidates = list(items)  # type: ignore[call-overload]
        return self._random.choice(candidates) if candidates else None

    def _trigger(self) -> str:
        actions = self.window.menu_actions._made
        action = self._choice_or_none(
            a for n, a in actions.items() if a.isEnabled() and n not in EXCLUDED_ACTIONS
        )
        action.trigger()
        return action.objectName()

    def _index(self, model: QAbstractItemModel) -> QModelIndex:
        """Return a random item on any level of a tree."""
        index = QModelIndex()
        while rows := model.rowCount(index):
            index = model.index(self._random.randrange(rows), 0, index)
            if self._random.random() < 0.3:
                break
        return index

    def _select_in_tree(self) -> str:
        tree = self.window.tree.tree
        index = self._index(tree.model())
        tree.scrollTo(index)
        position, text = tree.visualRect(index).center(), str(index.data())
        QTest.mouseClick(tree.viewport(), LEFT, self._random.choice(MODIFIERS), position)
        return text

    def _use_draft(self) -> str | None:
        draft = self.window.draft
        if not draft.isEnabled():
            return None
        use = self._random.choice((self._type, self._pick, self._slide, self._press_button))
        if self._random.random() < 0.25 and not draft.obstacle:
            QTest.mouseClick(draft.commit, LEFT)
            return "commit"
        if self._random.random() < 0.2:
            draft.method.choose(self._random.choice(list(METHODS)))
            draft.method.activated.emit(draft.method.currentIndex())
            return f"method {draft.method.currentText()}"
        return f"{use.__name__} {use(draft)}"

    def _type(self, parent: QWidget | None = None) -> str | None:
        line = self._usable_widget(QLineEdit, parent)
        if line is None:
            return None
        text = self._random.choice(TEXTS)
        line.setFocus()
        line.selectAll()
        QTest.keyClick(line, Key.Key_Backspace)
        for character in text:  # QTest.keyClicks sends only ASCII
            press = QKeyEvent(QKeyEvent.Type.KeyPress, 0, MODIFIERS[0], character)
            QApplication.sendEvent(line, press)
        if self._coin():
            QTest.keyClick(line, Key.Key_Return)
        return f"{line.accessibleName() or line.objectName()} {text!r}"

    def _pick(self, parent: QWidget | None = None) -> str | None:
        box = self._usable_widget(QComboBox, parent)
        if box is None:
            return None
        model = box.model()
        enabled = [i for i in range(box.count()) if model.flags(model.index(i, 0)) & ENABLED]
        if not enabled:
            return None
        index = self._random.choice(enabled)
        text = box.itemText(index)
        box.setCurrentIndex(index)
        box.activated.emit(index)
        return f"{text!r}"

    def _press_button(self, parent: QWidget | None = None) -> str | None:
        button = self._usable_widget(QAbstractButton, parent)
        if button is None or (isinstance(button, QWidget) and _opens_menu(button)):
            return None
        text = button.text() or button.accessibleName() or button.toolTip()
        if text.replace("&", "") == "Quit":
            return None
        QTest.mouseClick(button, LEFT)
        return text

    def _slide(self, parent: QWidget | None = None) -> str | None:
        kind = self._random.choice((QAbstractSlider, QAbstractSpinBox))
        widget = self._usable_widget(kind, parent)
        if isinstance(widget, QAbstractSlider):
            for _ in range(self._random.randint(1, 5)):
                widget.setValue(self._random.randint(widget.minimum(), widget.maximum()))
        elif isinstance(widget, QAbstractSpinBox):
            widget.stepBy(self._random.choice([-100, -1, 1, 3, 1000]))
        return widget and f"{type(widget).__name__} {widget.accessibleName()}"

    def _switch_tab(self) -> str | None:
        bar = self._usable_widget(QTabBar)
        if bar is None or not bar.count():
            return None
        bar.setCurrentIndex(self._random.randrange(bar.count()))
        return bar.tabText(bar.currentIndex())

    def _click_item(self) -> str | None:
        view = self._usable_widget(QAbstractItemView)
        if view is None or isinstance(view, QHeaderView):
            return None
        index = self._index(view.model())
        if not index.isValid():
            return None
        view.scrollTo(index)
        rect, text = view.visualRect(index), str(index.data())
        check_box = QPoint(rect.left() + 10, rect.center().y())
        at = check_box if self._coin() else rect.center()
        click = QTest.mouseDClick if self._random.random() < 0.3 else QTest.mouseClick
        click(view.viewport(), LEFT, self._random.choice(MODIFIERS), at)
        if self._random.random() < 0.3:
            QTest.keyClick(view, self._random.choice(KEYS), self._random.choice(MODIFIERS))
        return f"{view.accessibleName()} {text}"  # the click may have removed the item

    def _drag_step(self) -> str | None:
        """Move a step to another row, as a drag in the list does."""
        model = self.window.stack.list.model()
        rows = model.rowCount()
        if not rows:
            return None
        source, target = self._random.randrange(rows), self._random.randrange(rows + 1)
        model.moveRow(QModelIndex(), source, QModelIndex(), target)
        return f"{source} before {target}"

    def _sort(self) -> str | None:
        header = self._usable_widget(QHeaderView)
        if header is None or not header.count():
            return None
        section = self._random.randrange(header.count())
        at = header.sectionViewportPosition(section) + header.sectionSize(section) // 2
        middle = header.height() // 2
        QTest.mouseClick(
            header.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, QPoint(at, middle)
        )
        return str(section)

    def _use_view(self) -> str | None:
        view = self._usable_widget(QGraphicsView, self.window.views)
        if view is None:
            return None
        one, other = self._random_point(view), self._random_point(view)
        modifier = self._random.choice(MODIFIERS)
        how = self._random.choice(("wheel", "click", "drag", "key", "hover", "double"))
        match how:
            case "wheel":
                self._wheel(view, one)
            case "click":
                QTest.mouseClick(view.viewport(), LEFT, modifier, one)
            case "double":
                QTest.mouseDClick(view.viewport(), LEFT, modifier, one)
            case "drag":
                self._drag(view, QPointF(one), QPointF(other), modifier)
            case "hover":
                QTest.mouseMove(view.viewport(), one)
            case "key":
                view.setFocus()
                for _ in range(self._random.randint(1, 4)):
                    QTest.keyClick(view, self._random.choice(KEYS), modifier)
        return f"{how} {view.accessibleName()}"

    def _drag_cut(self) -> str | None:
        """Drag the cut of the draft in Distribution or Norms to a random position."""
        views = self.window.views
        view = self._random.choice((views.view("distribution"), views.view("norms")))
        if not view.isVisible():
            views._tabs.setCurrentWidget(view)
            return "brought to the front"
        share = self._random.random()
        if view is views.view("norms"):
            request = CutRequest("rank", share * 2)
        elif isinstance(view._wish(view.subject).of, int) if view.subject else False:
            request = CutRequest("score", share)
        else:
            request = CutRequest("weight", share / 4)
        self.window.workbench.draft_wanted.emit(request)
        return f"{view.accessibleName()} {share}"

    def _open(self) -> str:
        path = self._random.choice(self._files)
        self.window.commands.open_path(path)
        return path.name

    def _drop(self) -> str:
        paths = self._random.sample(list(self._files), 2)
        self.window.commands.open_dropped(paths)
        return ", ".join(path.name for path in paths)

    def _cancel(self) -> str:
        """Cancel the running job, whether the status bar shows it yet or not."""
        self.window.status.cancel()
        return str(self.window.status._title.text())

    def _use_menu(self) -> str | None:
        """Choose from the context menu of the tree, or from a menu that is filled as it opens."""
        if self._coin():
            viewport = self.window.tree.tree.viewport()
            at = self._random_point(viewport)
            reason = QContextMenuEvent.Reason.Mouse
            QApplication.sendEvent(
                viewport, QContextMenuEvent(reason, at, viewport.mapToGlobal(at))
            )
            menu = QApplication.activePopupWidget()
        else:
            menu = self._random.choice((self.window._recent, self.window._states))
            if menu.isEnabled():
                menu.aboutToShow.emit()
        if not isinstance(menu, QMenu) or not menu.isEnabled():
            return None
        action = self._choice_or_none(
            a for a in menu.actions() if a.isEnabled() and not a.isSeparator()
        )
        menu.close()
        if action is None:
            return None
        action.trigger()
        return str(action.text())

    def _random_point(self, widget: QWidget) -> QPoint:
        return QPoint(
            self._random.randrange(max(widget.width(), 1)),
            self._random.randrange(max(widget.height(), 1)),
        )

    def _wheel(self, view: QGraphicsView, at: QPoint) -> None:
        turn = QPoint(0, self._random.choice((-1200, -120, 120, 1200)))
        event = QWheelEvent(
            QPointF(at),
            QPointF(view.viewport().mapToGlobal(at)),
            QPoint(),
            turn,
            NONE,
            self._random.choice(MODIFIERS),
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(view.viewport(), event)

    def _drag(
        self, view: QGraphicsView, start: QPointF, stop: QPointF, modifier: Qt.KeyboardModifier
    ) -> None:
        kinds = QMouseEvent.Type
        path = [start + (stop - start) * share for share in (0.0, 0.3, 0.7, 1.0)]
        sent = [(kinds.MouseMove, start, NONE, NONE), (kinds.MouseButtonPress, start, LEFT, LEFT)]
        sent += [(kinds.MouseMove, at, NONE, LEFT) for at in path]
        sent += [(kinds.MouseButtonRelease, stop, LEFT, NONE)]
        viewport = view.viewport()
        for kind, at, button, buttons in sent:
            global_position = viewport.mapToGlobal(at)
            event = QMouseEvent(kind, at, global_position, button, buttons, modifier)
            QApplication.sendEvent(viewport, event)
            QApplication.processEvents()


def _opens_menu(button: QWidget) -> bool:
    """Return whether a click opens a menu, which waits for a choice."""
    menu = getattr(button, "menu", None)
    return callable(menu) and menu() is not None
