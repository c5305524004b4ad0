"""Help: the window with the user guide, the report of a crash, and the About box."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt, QUrl, qVersion
from PySide6.QtGui import QGuiApplication, QImage, QKeySequence, QShortcut, QTextCursor
from PySide6.QtWidgets import QDialog, QLineEdit, QMessageBox, QTextBrowser, QWidget

from prune_gui.gui.dialogs import questions
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.language import SOURCE, language, tr
from prune_gui.resources import resource

if TYPE_CHECKING:
    from prune_gui.session import Crash

MARGIN_PX = 24
PICTURE_PX = 690
"""Width of a picture between the margins."""
SIZE_PX = QSize(760, 820)
TITLE_BAR_PX = 40
"""Maximum height of the title bar of the system."""


class GuideBrowser(QTextBrowser):
    """A browser with the pictures of the guide, in its width."""

    def loadResource(self, type: int, name: QUrl | str) -> object:  # noqa: A002, N802 - as Qt has it
        shipped, source = resource("guide", "pictures"), resource().parent / "docs" / "pictures"
        folder = shipped if shipped.is_dir() else source  # in a checkout
        picture = QImage(str(folder / QUrl(name).fileName()))
        if picture.isNull():
            return super().loadResource(type, name)
        ratio = self.devicePixelRatioF()
        width = min(picture.width(), round(PICTURE_PX * ratio))
        scaled = picture.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
        scaled.setDevicePixelRatio(ratio)
        return scaled


class HelpWindow(QDialog):
    """Shows the shipped user guide in the current language."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("User guide"))
        self.browser = layouts.described(GuideBrowser(openLinks=False), tr("User guide"))
        self.browser.document().setDocumentMargin(MARGIN_PX)
        self._show_guide()
        self.browser.anchorClicked.connect(self.follow)
        self.search = QLineEdit(clearButtonEnabled=True, placeholderText=tr("Find in the guide"))
        self.search.setAccessibleName(tr("Find in the guide"))
        self.search.textChanged.connect(self._find)
        self.search.returnPressed.connect(self._find_next)
        QShortcut(QKeySequence.StandardKey.Find, self, self.search.setFocus)
        layouts.column(layouts.row(self.search, margin=GAP_PX), self.browser, of=self, margin=0)
        self.browser.setFocus()
        free = parent.screen().availableSize() - QSize(0, TITLE_BAR_PX)
        self.resize(SIZE_PX.boundedTo(free))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # links keep the colour of their creation
            self._show_guide()

    def _show_guide(self) -> None:
        bar = self.browser.verticalScrollBar()
        place = bar.value()
        self.browser.setMarkdown(guide_path(language()).read_text(encoding="utf-8"))
        bar.setValue(place)

    def _find(self) -> None:
        """Select the text in the guide, where it is selected already or after that."""
        cursor = self.browser.textCursor()
        cursor.setPosition(cursor.selectionStart())
        self.browser.setTextCursor(cursor)
        self._find_next()

    def _find_next(self) -> None:
        """Select the next place with the text; after the last one, the first."""
        text = self.search.text()
        if text and not self.browser.find(text):
            self.browser.moveCursor(QTextCursor.MoveOperation.Start)
            self.browser.find(text)

    def follow(self, link: QUrl) -> None:
        """Scroll to a heading of the guide, or open an external link in the system's browser."""
        if link.scheme():
            questions.open_outside(self, link)
            return
        anchor, document = link.fragment(), self.browser.document()
        block = document.begin()
        while block.isValid():
            heading = block.blockFormat().headingLevel() > 0
            if heading and anchor_of(block.text()) == anchor:
                bar = self.browser.verticalScrollBar()
                top = document.documentLayout().blockBoundingRect(block).top()
                bar.setValue(round(top) - MARGIN_PX)
                return
            block = block.next()


def guide_path(code: str) -> Path:
    """Return the file of the guide in a language of the program."""
    return resource("guide", "guide.md" if code == SOURCE else f"guide.{code}.md")


def anchor_of(heading: str) -> str:
    """Return the fragment of links to a heading, as GitHub forms it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def show_crash(parent: QWidget, crash: Crash) -> None:
    """Show a crash report, and copy it to the clipboard if the user clicks Copy."""
    box = QMessageBox(QMessageBox.Icon.Information, tr("Last crash"), "", parent=parent)
    box.setText(tr("Prune GUI crashed at {when:%H:%M} on {when:%d %B %Y}.", when=crash.when))
    box.setInformativeText(
        tr("To report it, please include the text that Copy puts on the clipboard.")
    )
    box.setDetailedText(crash.text)
    copy = box.addButton(tr("&Copy"), QMessageBox.ButtonRole.AcceptRole)
    box.setEscapeButton(box.addButton(QMessageBox.StandardButton.Close))
    box.setDefaultButton(copy)
    box.exec()
    if box.clickedButton() is copy:
        QGuiApplication.clipboard().setText("\n".join([crash.text, *versions()]))


def show_about(parent: QWidget) -> None:
    """Show the About box with the versions of the libraries."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, tr("About Prune GUI"), "", parent=parent)
    box.setIconPixmap(parent.windowIcon().pixmap(64))
    purpose = tr("Prune neural networks by point and click.")
    box.setTextFormat(Qt.TextFormat.RichText)
    box.setText(f"<b>Prune GUI</b><br>{purpose}")
    box.setInformativeText("<br>\n".join(versions()))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.exec()


def versions() -> list[str]:
    """Return the versions of the program and its libraries, a line for each."""
    from importlib.metadata import version  # not needed at startup

    packages = ("prune-gui", "torch", "safetensors", "numpy", "numba", "PySide6-Essentials")
    lines = [f"{package} {version(package)}" for package in packages]
    return [
        *lines,
        f"Qt {qVersion()}",
        f"Python {platform.python_version()} on {platform.platform()}",
    ]
