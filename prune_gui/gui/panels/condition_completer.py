"""Completion of conditions on parameters, wherever they are typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QStringListModel, Qt
from PySide6.QtWidgets import QCompleter, QLineEdit

from prune_gui.language import later
from prune_gui.recipe.selector import NUMBERS

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor

LANGUAGE: Final = later(
    "Conditions narrow it down: type:Linear, dtype:bfloat16, shape:768x*, dims>1, size>=1M, "
    "sparsity>90%."
)


NO_WORD: Final = "\0"
"""What no condition begins with: an empty word would be completed to all of them."""


class ConditionCompleter(QCompleter):
    """Completes the word before the cursor of a line to a condition that some parameter meets.

    Args:
        line: to complete in.
        workbench: whose checkpoint the parameters are of.
        parts: a regular expression for the letters that part words.
    """

    def __init__(self, line: QLineEdit, workbench: Workbench, parts: str) -> None:
        super().__init__(line)
        self._line, self._workbench, self._parts = line, workbench, parts
        self._offered: Checkpoint | None = None
        self._words = QStringListModel(self)
        self.setModel(self._words)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        line.setCompleter(self)
        line.textEdited.connect(self._offer)

    def splitPath(self, path: str) -> list[str]:  # noqa: N802
        """Return the word to complete: the one that is being typed."""
        typed = re.split(self._parts, path[: self._line.cursorPosition()])[-1]
        return [typed or NO_WORD]

    def pathFromIndex(self, index: QModelIndex | QPersistentModelIndex) -> str:  # noqa: N802
        """Return the line with the word completed."""
        text, at = self._line.text(), self._line.cursorPosition()
        typed = re.split(self._parts, text[:at])[-1]
        return text[: at - len(typed)] + super().pathFromIndex(index) + text[at:]

    def _offer(self) -> None:
        """Find out what conditions there are, once for a checkpoint."""
        session = self._workbench.session
        if session is None or session.checkpoint is self._offered:
            return
        self._offered = checkpoint = session.checkpoint
        self._words.setStringList([])

        def work(_: Monitor) -> list[str]:
            return words(checkpoint)

        def then(found: list[str]) -> None:
            if checkpoint is self._offered:
                self._words.setStringList(found)

        self._workbench.look("terms", work, then)


def words(checkpoint: Checkpoint) -> list[str]:
    """Return conditions that some parameter meets, and the beginnings of those on numbers."""
    kinds = sorted(frozenset().union(*checkpoint.kinds.values()))
    dtypes = sorted({tensor.dtype for tensor in checkpoint.tensors.values()})
    return [
        *(f"type:{kind}" for kind in kinds),
        *(f"dtype:{dtype}" for dtype in dtypes),
        "shape:",
        *(f"{field}>" for field in NUMBERS),
    ]
