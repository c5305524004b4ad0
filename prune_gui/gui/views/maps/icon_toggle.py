"""A button with an icon that turns something in a picture on and off."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QToolButton

from prune_gui.gui.widgets.theme import icon


class IconToggle(QToolButton):
    """A checkable button without a text."""

    def __init__(self, icon_name: str, name: str, tip: str) -> None:
        super().__init__()
        self._icon_name = icon_name
        self.setCheckable(True)
        self.setAutoRaise(True)
        self.setAccessibleName(name)
        self.setToolTip(f"{name}\n{tip}")
        self.setIcon(icon(icon_name))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.setIcon(icon(self._icon_name))
