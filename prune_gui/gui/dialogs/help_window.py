"""The window with the user guide."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QSize, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QTextBrowser, QVBoxLayout, QWidget

from prune_gui.language import SOURCE, language, tr
from prune_gui.resources import resource

MARGIN_PX = 24
SIZE_PX = QSize(760, 820)
TITLE_BAR_PX = 40
"""Maximum height of the title bar of the system."""


class HelpWindow(QDialog):
    """Shows the shipped user guide in the current language."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("User guide"))
        self.browser = QTextBrowser()
        self.browser.setAccessibleName(tr("User guide"))
        self.browser.document().setDocumentMargin(MARGIN_PX)
        self.browser.setMarkdown(guide_path(language()).read_text(encoding="utf-8"))
        self.browser.setOpenLinks(False)
        self.browser.anchorClicked.connect(self.follow)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.browser)
        free = parent.screen().availableSize() - QSize(0, TITLE_BAR_PX)
        self.resize(SIZE_PX.boundedTo(free))

    def follow(self, link: QUrl) -> None:
        """Scroll to a heading of the guide, or open an external link in the system's browser."""
        if link.scheme():
            QDesktopServices.openUrl(link)
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
