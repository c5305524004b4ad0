"""Somebody who does whatever a window allows, in no order: see `test_monkey.py`."""

from __future__ import annotations

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
from prune_gui.gui.dialogs.save import SaveDialog
from prune_gui.gui.window import MainWindow

Key, LEFT, NONE = Qt.Key, Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
NEVER = frozenset({"close_window", "quit"})
"""Actions that are left out: the window has to stay."""
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
LONGEST_TRAIL = 25


class Monkey:
    """Uses a window through its widgets, at random but the same way for the same seed.

    Args:
        window: with a checkpoint open, or none.
        seed: of its choices.
        files: what it opens when it is asked which file, some of them no checkpoints.
        folder: where it saves.

    Attributes:
        trail: the last things it did, for a person who has to repeat them.
        refused: what boxes told it, of what could not be done.
    """

    def __init__(self, window: MainWindow, seed: int, files: Sequence[Path], folder: Path) -> None:
        self.window = window
        self.trail: deque[str] = deque(maxlen=LONGEST_TRAIL)
        self.refused: list[str] = []
        self._random = random.Random(seed)
        self._files, self._folder = files, folder
        self._acts: dict[Callable[[], str | None], int] = {
            self._trigger: 8,
            self._select_in_tree: 5,
            self._use_draft: 10,
            self._type: 4,
            self._pick: 4,
            self._press_button: 4,
            self._slide: 3,
            self._turn_to_tab: 3,
            self._click_item: 4,
            self._drag_step: 1,
            self._sort: 1,
            self._use_picture: 9,
            self._drag_cut: 3,
            self._open: 1,
            self._use_menu: 2,
            self._drop: 1,
            self._cancel: 2,
        }

    def act(self) -> None:
        """Do one thing, and answer whatever comes of it."""
        [act] = self._random.choices(list(self._acts), list(self._acts.values()))
        self.trail.append(act.__name__)
        done = act()
        self.trail[-1] += f": {done}"
        if self._random.random() < 0.7:  # else the next thing follows at once
            QApplication.processEvents()
        self.close_boxes()

    def close_boxes(self) -> None:
        """Read and close what stands over the window."""
        while popup := QApplication.activePopupWidget():
            popup.close()
        for dialog in self.window.findChildren(QDialog):
            if isinstance(dialog, QMessageBox) and dialog.isVisible():
                assert "a fault in this program" not in dialog.text(), dialog.text()
                self.refused.append(dialog.text())
            if dialog.isVisible():
                dialog.close()

    def answers(self) -> ExitStack:
        """Return a context in which the dialogs that would wait for a person are answered."""
        stack = ExitStack()
        for where, what, answer in (
            (QFileDialog, "getOpenFileName", lambda *_, **__: (self._a_file(), "")),
            (QFileDialog, "getExistingDirectory", lambda *_, **__: self._a_file()),
            (QFileDialog, "getSaveFileName", lambda *_, **__: (self._a_target(), "")),
            (QFileDialog, "exec", lambda dialog: self._name_target(dialog)),
            (QInputDialog, "getText", lambda *_, **__: (self._random.choice("ab "), self._coin())),
            (QMessageBox, "exec", lambda box: self._answer_box(box)),
            (SaveDialog, "exec", lambda dialog: self._fill_in(dialog)),
            (RecipeMatchDialog, "exec", lambda _: int(self._coin())),
        ):
            stack.enter_context(patch.object(where, what, answer))
        return stack

    # What it answers.

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _a_file(self) -> str:
        return str(self._random.choice(self._files)) if self._random.random() < 0.8 else ""

    def _a_target(self) -> str:
        suffix = self._random.choice([".csv", ".yaml", ".safetensors", ""])
        return str(self._folder / f"saved{self._random.randrange(4)}{suffix}") * self._coin()

    def _name_target(self, dialog: QFileDialog) -> int:
        name = self._random.choice(["a.png", "b.svg", "saved.csv", "saved.yaml", "saved"])
        dialog.selectFile(str(self._folder / name))
        return int(self._coin())

    def _answer_box(self, box: QMessageBox) -> int:
        button = self._one_of(box.findChildren(QPushButton))
        if button is not None:
            button.click()
        return box.result()

    def _fill_in(self, dialog: SaveDialog) -> int:
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

    # What it does. Each returns what that was in detail, None if there is nothing to do it to.

    def _some(self, kind: type, parent: QWidget | None = None) -> QWidget | None:
        """Return a widget of a kind that a person could use now."""
        return self._one_of(
            widget
            for widget in (parent or self.window).findChildren(kind)
            if widget.isVisible() and widget.isEnabled()
        )

    def _one_of(self, some: object) -> object:
        found = list(some)  # type: ignore[call-overload]
        return self._random.choice(found) if found else None

    def _trigger(self) -> str:
        acts = self.window.acts._made
        action = self._one_of(a for n, a in acts.items() if a.isEnabled() and n not in NEVER)
        action.trigger()
        return action.objectName()

    def _index(self, model: QAbstractItemModel) -> QModelIndex:
        """Return an item, on any level of a tree."""
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
        where = tree.visualRect(index).center()
        QTest.mouseClick(tree.viewport(), LEFT, self._random.choice(MODIFIERS), where)
        return str(index.data())

    def _use_draft(self) -> str | None:
        draft = self.window.draft
        if not draft.isEnabled():
            return None
        use = self._random.choice((self._type, self._pick, self._slide, self._press_button))
        if self._random.random() < 0.25 and draft.commit.isEnabled():
            QTest.mouseClick(draft.commit, LEFT)
            return "commit"
        if self._random.random() < 0.2:
            draft.method.setCurrentIndex(self._random.randrange(draft.method.count()))
            draft.method.activated.emit(draft.method.currentIndex())
            return f"method {draft.method.currentText()}"
        return f"{use.__name__} {use(draft)}"

    def _type(self, parent: QWidget | None = None) -> str | None:
        line = self._some(QLineEdit, parent)
        if line is None:
            return None
        text = self._random.choice(TEXTS)
        line.setFocus()
        line.selectAll()
        QTest.keyClick(line, Key.Key_Backspace)
        for sign in text:  # QTest.keyClicks knows only those of ASCII
            press = QKeyEvent(QKeyEvent.Type.KeyPress, 0, MODIFIERS[0], sign)
            QApplication.sendEvent(line, press)
        if self._coin():
            QTest.keyClick(line, Key.Key_Return)
        return f"{line.accessibleName() or line.objectName()} {text!r}"

    def _pick(self, parent: QWidget | None = None) -> str | None:
        box = self._some(QComboBox, parent)
        if box is None or not box.count():
            return None
        place = self._random.randrange(box.count())
        text = box.itemText(place)
        box.setCurrentIndex(place)
        box.activated.emit(place)
        return f"{text!r}"

    def _press_button(self, parent: QWidget | None = None) -> str | None:
        button = self._some(QAbstractButton, parent)
        if button is None or (isinstance(button, QWidget) and _opens_menu(button)):
            return None
        text = button.text() or button.accessibleName() or button.toolTip()
        if text.replace("&", "") == "Quit":
            return None
        QTest.mouseClick(button, LEFT)
        return text

    def _slide(self, parent: QWidget | None = None) -> str | None:
        kind = self._random.choice((QAbstractSlider, QAbstractSpinBox))
        widget = self._some(kind, parent)
        if isinstance(widget, QAbstractSlider):
            for _ in range(self._random.randint(1, 5)):
                widget.setValue(self._random.randint(widget.minimum(), widget.maximum()))
        elif isinstance(widget, QAbstractSpinBox):
            widget.stepBy(self._random.choice([-100, -1, 1, 3, 1000]))
        return widget and f"{type(widget).__name__} {widget.accessibleName()}"

    def _turn_to_tab(self) -> str | None:
        bar = self._some(QTabBar)
        if bar is None or not bar.count():
            return None
        bar.setCurrentIndex(self._random.randrange(bar.count()))
        return bar.tabText(bar.currentIndex())

    def _click_item(self) -> str | None:
        view = self._some(QAbstractItemView)
        if view is None or isinstance(view, QHeaderView):
            return None
        index = self._index(view.model())
        if not index.isValid():
            return None
        view.scrollTo(index)
        where = view.visualRect(index)
        left = QPoint(where.left() + 10, where.center().y())  # where a check box is
        at = left if self._coin() else where.center()
        click = QTest.mouseDClick if self._random.random() < 0.3 else QTest.mouseClick
        click(view.viewport(), LEFT, self._random.choice(MODIFIERS), at)
        if self._random.random() < 0.3:
            QTest.keyClick(view, self._random.choice(KEYS), self._random.choice(MODIFIERS))
        return f"{view.accessibleName()} {index.data()}"

    def _drag_step(self) -> str | None:
        """Carry a step to another place, as a drag in the list does."""
        model = self.window.stack.list.model()
        rows = model.rowCount()
        if not rows:
            return None
        source, to = self._random.randrange(rows), self._random.randrange(rows + 1)
        model.moveRow(QModelIndex(), source, QModelIndex(), to)
        return f"{source} before {to}"

    def _sort(self) -> str | None:
        header = self._some(QHeaderView)
        if header is None or not header.count():
            return None
        section = self._random.randrange(header.count())
        at = header.sectionViewportPosition(section) + header.sectionSize(section) // 2
        middle = header.height() // 2
        QTest.mouseClick(
            header.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, QPoint(at, middle)
        )
        return str(section)

    def _use_picture(self) -> str | None:
        view = self._some(QGraphicsView, self.window.views)
        if view is None:
            return None
        one, other = self._place(view), self._place(view)
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
        """Drag the draft's cut in one of the views that have one, to anywhere."""
        views = self.window.views
        view = self._random.choice((views.distribution_view, views.norms_view))
        if not view.isVisible():
            views._tabs.setCurrentWidget(view)
            return "turned to it"
        share = self._random.random()
        if view is views.norms_view:
            view.cut_dragged.emit(share * 2)
        elif isinstance(view._wish(view.subject).of, int) if view.subject else False:
            view.score_cut_dragged.emit(share)
        else:
            view.cut_dragged.emit(share / 4)
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
        """Stop what runs, whether it has run for long enough to be shown or not."""
        self.window.status.cancel()
        return str(self.window.status._title.text())

    def _use_menu(self) -> str | None:
        """Choose from the menu of the tree, or from those that the window fills as they open."""
        if self._coin():
            viewport = self.window.tree.tree.viewport()
            at = self._place(viewport)
            kind = QContextMenuEvent.Reason.Mouse
            QApplication.sendEvent(viewport, QContextMenuEvent(kind, at, viewport.mapToGlobal(at)))
            menu = QApplication.activePopupWidget()
        else:
            menu = self._random.choice((self.window._recent, self.window._states))
            if menu.isEnabled():
                menu.aboutToShow.emit()
        if not isinstance(menu, QMenu) or not menu.isEnabled():
            return None
        action = self._one_of(a for a in menu.actions() if a.isEnabled() and not a.isSeparator())
        menu.close()
        if action is None:
            return None
        action.trigger()
        return str(action.text())

    def _place(self, widget: QWidget) -> QPoint:
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
        path = [start + (stop - start) * part for part in (0.0, 0.3, 0.7, 1.0)]
        sent = [(kinds.MouseMove, start, NONE, NONE), (kinds.MouseButtonPress, start, LEFT, LEFT)]
        sent += [(kinds.MouseMove, at, NONE, LEFT) for at in path]
        sent += [(kinds.MouseButtonRelease, stop, LEFT, NONE)]
        viewport = view.viewport()
        for kind, at, button, buttons in sent:
            everywhere = viewport.mapToGlobal(at)
            event = QMouseEvent(kind, at, everywhere, button, buttons, modifier)
            QApplication.sendEvent(viewport, event)
            QApplication.processEvents()


def _opens_menu(button: QWidget) -> bool:
    """Tell whether a click waits for a choice from a menu."""
    menu = getattr(button, "menu", None)
    return callable(menu) and menu() is not None
