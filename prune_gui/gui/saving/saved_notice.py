"""The notice that a pruned checkpoint was saved, with what can be done with it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QToolBar, QToolButton, QWidget

from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.eliding import ElidedLabel
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX, icon
from prune_gui.language import tr


class SavedNotice(QWidget):
    """Names the saved checkpoint, with buttons for what comes next; hidden at first.

    Buttons that do not fit into a narrow window are in a menu.
    """

    open_wanted = Signal(object)  # (path) this and the others: the user clicked the button
    compare_wanted = Signal(object)  # (path)
    folder_wanted = Signal(object)  # (path)
    code_wanted = Signal(object)  # (path)

    def __init__(self) -> None:
        super().__init__()
        self._path = Path()
        self._label = ElidedLabel(tr("Saved checkpoint"))
        self._bar = QToolBar()
        for text, wanted in (
            (tr("Open"), self.open_wanted),
            (tr("Compare with the original"), self.compare_wanted),
            (tr("Show in folder"), self.folder_wanted),
            (tr("Copy code to load"), self.code_wanted),
        ):
            action = self._bar.addAction(text)
            action.triggered.connect(lambda _=False, wanted=wanted: wanted.emit(self._path))
            button = self._bar.widgetForAction(action)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            if isinstance(button, QToolButton):
                button.setAutoRaise(False)
        tip = tr("Hide this notice")
        self._close = layouts.described(QToolButton(autoRaise=True), tip, tip)
        self._close.clicked.connect(self.hide)
        row = layouts.row((self._label, 1), self._close)
        layouts.column(row, self._bar, of=self, margin=(GAP_PX, TIGHT_PX) * 2, gap=TIGHT_PX)
        self._show_icon()
        self.hide()

    @property
    def text(self) -> str:
        return "" if self.isHidden() else self._label.accessibleDescription()

    def say(self, path: Path, text: str) -> None:
        """Offer what can be done with the checkpoint at a path."""
        self._path = path
        self._label.say(text, tip=str(path))
        self.show()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self._show_icon()
        super().changeEvent(event)

    def _show_icon(self) -> None:
        self._close.setIcon(icon("cancel"))
