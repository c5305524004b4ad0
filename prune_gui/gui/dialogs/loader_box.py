"""A box with the Python code that loads a reparametrized checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.errors import one_line
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import OutputPath

VISIBLE_LINES: Final = 4


class LoaderBox(QGroupBox):
    """Shows the loader script of a reparametrized checkpoint, with an absolute path to copy."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Also saved: a script that loads it into a model"), parent)
        self._lines = QPlainTextEdit(readOnly=True)
        self._lines.setAccessibleName(tr("Python code that loads the checkpoint"))
        self._lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._lines.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._lines.setTabChangesFocus(True)
        margins = 2 * (self._lines.frameWidth() + round(self._lines.document().documentMargin()))
        self._lines.setFixedHeight(VISIBLE_LINES * self._lines.fontMetrics().height() + margins)
        self._file = QLabel()
        copy = QPushButton(tr("Cop&y"))
        copy.setAutoDefault(False)
        copy.setAccessibleDescription(tr("Copies the code to the clipboard"))
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._lines.toPlainText()))
        row = QHBoxLayout()
        row.addWidget(self._file, 1)
        row.addWidget(copy)
        layout = QVBoxLayout(self)
        layout.addWidget(self._lines)
        layout.addLayout(row)

    def show_for(self, checkpoint: Checkpoint, target: OutputPath) -> None:
        """Show the loader script for the output path of a pruned checkpoint."""
        from prune_gui.recipe.loader import loader_path, loader_text  # torch: slow to import

        self._lines.setPlainText(loader_text(checkpoint, target, anywhere=True))
        self._file.setText(tr("Saved as {name}", name=one_line(loader_path(target).name)))
