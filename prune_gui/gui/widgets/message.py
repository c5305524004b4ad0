"""A label for warnings and remarks that is hidden while it is empty."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import Final, Literal

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QFontDatabase, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QWidget,
)

from prune_gui.gui.formatting import breakable
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import colours
from prune_gui.language import tr

FADE_DELAY_MS: Final = 400  # delay before an outdated text is shown faintly
Tone = Literal["warning", "caution", "remark"]
SELECTABLE: Final = Qt.TextInteractionFlag.TextSelectableByMouse
LINKS: Final = (
    Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
)
NUMBER_UNIT: Final = "\N{NO-BREAK SPACE}%"
"""In place of the end of "50.0 %", so that a line does not break before the unit."""
DETAILS_PX: Final = (720, 360)
"""Size of the dialog with the details of an error."""


class Message(QLabel):
    """A label with a text in the colour of warnings, of cautions or of remarks."""

    def __init__(self) -> None:
        super().__init__()
        self._tone: Tone = "warning"
        self._faded = False
        self._fading = QTimer(self, singleShot=True, interval=FADE_DELAY_MS)
        self._fading.timeout.connect(self._fade)
        self.setWordWrap(True)
        self.setTextInteractionFlags(SELECTABLE)
        self._said = ""
        self._act: Callable[[], object] | None = None
        self.linkActivated.connect(lambda _: self._act and self._act())
        self.hide()

    def text(self) -> str:
        """Return the text without its link."""
        return self._said

    def say(
        self,
        text: str,
        *,
        warning: bool = True,
        caution: bool = False,
        link: str = "",
        act: Callable[[], object] | None = None,
    ) -> None:
        """Show a text, and after it a link that acts; "" to hide the label."""
        tone: Tone = "caution" if caution else "warning" if warning else "remark"
        if (text, tone, False, None) == (self._said, self._tone, self._faded, act):
            self._fading.stop()
            return
        self._said, self._act = text, act
        self._tone, self._faded = tone, False
        self._fading.stop()
        self.setTextInteractionFlags(SELECTABLE | LINKS if link else SELECTABLE)
        self.setTextFormat(Qt.TextFormat.RichText if link else Qt.TextFormat.PlainText)
        shown = breakable(text.replace(" %", NUMBER_UNIT))
        self.setText(f'{escape(shown)} <a href="#">{escape(link)}</a>' if link else shown)
        self._colour()
        self.setVisible(bool(text))

    def say_error(self, text: str, details: str = "") -> None:
        """Show an error with a link to its details, if there are any."""
        show = partial(show_details, self, text, details)
        self.say(text, link=tr("Details") if details else "", act=show if details else None)

    def fade(self) -> None:
        """Mark the text as outdated: it becomes faint unless `say` is called within the delay."""
        if not self._faded and not self._fading.isActive():
            self._fading.start()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return at least the height of the lines at this width; less would overlap neighbours."""
        hint = super().minimumSizeHint()
        return QSize(hint.width(), max(hint.height(), self.heightForWidth(self.width())))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
        super().changeEvent(event)

    def _fade(self) -> None:
        self._faded = True
        self._colour()

    def _colour(self) -> None:
        palette = QPalette()  # colours that are not set are inherited, and follow the theme
        if self._faded:
            shade = QApplication.palette().color(QPalette.ColorRole.PlaceholderText)
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        elif self._tone != "remark":
            shade = QColor(getattr(colours(QApplication.palette()), self._tone))
            palette.setColor(QPalette.ColorRole.WindowText, shade)
        self.setPalette(palette)


def show_details(parent: QWidget, text: str, details: str) -> None:
    """Show an error with what does not fit in a line: paths, and what a process printed."""
    dialog = QDialog(parent)
    dialog.setWindowTitle(tr("Details"))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    shown = layouts.described(QPlainTextEdit(details, readOnly=True), tr("Details"))
    shown.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    buttons = layouts.dialog_buttons(dialog, QDialogButtonBox.StandardButton.Close)
    layouts.column(QLabel(text, wordWrap=True), (shown, 1), buttons, of=dialog)
    dialog.resize(*DETAILS_PX)
    dialog.open()


def keep_room(label: QLabel, *, lines: int) -> None:
    """Set the minimum height of a label to `lines` lines, so that widgets below do not move."""
    label.setMinimumHeight(lines * label.fontMetrics().lineSpacing())
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
