"""The box that says how many attention heads a map shows."""

from __future__ import annotations

from typing import Final

from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QSpinBox

from prune_gui.language import tr

OFF: Final = -1
AUTO: Final = 0
MAX_HEADS: Final = 4096


class HeadsBox(QSpinBox):
    """A spin box for a number of heads, for the number that the file states, or for none."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(OFF, MAX_HEADS)
        self.setValue(AUTO)
        self.setKeyboardTracking(False)
        self.setPrefix(tr("Heads: "))
        self.setAccessibleName(tr("Attention heads"))
        self.setToolTip(
            tr(
                "Lines between attention heads, and the share of each that is pruned, or zero in "
                "the file.\n"
                "auto: the number of heads in config.json; else type a number, or off."
            )
        )

    def textFromValue(self, value: int) -> str:  # noqa: N802
        """Return the text of a number of heads."""
        if value == OFF:
            return tr("off")
        return tr("auto") if value == AUTO else str(value)

    def valueFromText(self, text: str) -> int:  # noqa: N802
        """Return the number of heads that the user typed; without a number, off or automatic."""
        typed = text.removeprefix(self.prefix()).strip()
        if typed.isdecimal():
            return min(int(typed), MAX_HEADS)
        return OFF if typed == tr("off") else AUTO

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        """Accept any text; `valueFromText` reads it."""
        return QValidator.State.Acceptable, text, at
