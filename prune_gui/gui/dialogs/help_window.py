"""The user guide in a window of its own."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QTextBrowser, QVBoxLayout, QWidget

from prune_gui.language import SOURCE, language, tr
from prune_gui.resources import resource

MARGIN = 24
SIZE = QSize(760, 820)
TITLE_BAR = 40
"""Pixels that the system may put above a window."""


class HelpWindow(QDialog):
    """Shows the guide that is shipped with the program, in the language in use."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("User guide"))
        self.browser = QTextBrowser()
        self.browser.setAccessibleName(tr("User guide"))
        self.browser.document().setDocumentMargin(MARGIN)
        self.browser.setMarkdown(guide_path(language()).read_text(encoding="utf-8"))
        self.browser.setOpenLinks(False)
        self.browser.anchorClicked.connect(self.follow)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.browser)
        free = parent.screen().availableSize() - QSize(0, TITLE_BAR)
        self.resize(SIZE.boundedTo(free))

    def follow(self, link: QUrl) -> None:
        """Go to a heading of the guide, or open another page in the browser of the system."""
        if link.scheme():
            QDesktopServices.openUrl(link)
            return
        wanted, document = link.fragment(), self.browser.document()
        block = document.begin()
        while block.isValid():
            heading = block.blockFormat().headingLevel() > 0
            if heading and block.text().lower().replace(" ", "-") == wanted:
                bar = self.browser.verticalScrollBar()
                top = document.documentLayout().blockBoundingRect(block).top()
                bar.setValue(round(top) - MARGIN)
                return
            block = block.next()


def guide_path(code: str) -> Path:
    """Return the file of the guide in one of the languages of the program."""
    return resource("guide", "guide.md" if code == SOURCE else f"guide.{code}.md")
