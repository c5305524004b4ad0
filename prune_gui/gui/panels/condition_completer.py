"""Completion of conditions on parameters in line edits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QStringListModel, Qt
from PySide6.QtWidgets import QCompleter, QLineEdit

from prune_gui.language import tr
from prune_gui.recipe.selector import condition_examples, condition_words

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

NO_WORD: Final = "\0"
"""A word that no condition begins with. An empty word would be completed to all conditions."""


class ConditionCompleter(QCompleter):
    """Completes the word before the cursor to a condition that some parameter satisfies."""

    def __init__(self, line: QLineEdit, workbench: Workbench, parts: str) -> None:
        super().__init__(line)
        self._line, self._workbench, self._separators = line, workbench, parts
        self._words_checkpoint: Checkpoint | None = None
        self._words = QStringListModel(self)
        self.setModel(self._words)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        line.setCompleter(self)
        line.textEdited.connect(self._load_words)

    def splitPath(self, path: str) -> list[str]:  # noqa: N802
        """Return the word before the cursor, or `NO_WORD`, as the only part."""
        typed = re.split(self._separators, path[: self._line.cursorPosition()])[-1]
        return [typed or NO_WORD]

    def pathFromIndex(self, index: QModelIndex | QPersistentModelIndex) -> str:  # noqa: N802
        """Return the text of the line with the word completed."""
        text, cursor = self._line.text(), self._line.cursorPosition()
        typed = re.split(self._separators, text[:cursor])[-1]
        return text[: cursor - len(typed)] + super().pathFromIndex(index) + text[cursor:]

    def _load_words(self) -> None:
        """Compute the conditions on the engine's thread, once per checkpoint."""
        session = self._workbench.session
        if session is None or session.checkpoint is self._words_checkpoint:
            return
        self._words_checkpoint = checkpoint = session.checkpoint
        self._words.setStringList([])

        def work(_: Monitor) -> list[str]:
            return condition_words(checkpoint)

        def then(conditions: list[str]) -> None:
            if checkpoint is self._words_checkpoint:
                self._words.setStringList(conditions)

        self._workbench.bridge.run_job("terms", work, then)


def conditions_help() -> str:
    """Return a sentence with one condition of each field."""
    return tr("Conditions narrow it down: {examples}.", examples=condition_examples())
