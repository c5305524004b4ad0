"""The card above the thumbnails: the file in numbers, and findings that lead to their layers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication

from prune_gui.errors import one_line
from prune_gui.gui.views.legend_text import SEPARATOR, unbroken
from prune_gui.gui.views.view import Legend
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.gui.views.overview.text import CardRow, FileCard, Findings
    from prune_gui.raster.colours import Colours

REMOVAL: Final = "removal"
LINKS: Final = (
    Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
)
MAX_LINES: Final = 7
MAX_NAME_PX: Final = 220


class CardPanel(Legend):
    """Shows a card in some lines; it scrolls if there are more.

    Signals:
        opened: (names) the user clicked a row that leads to parameters.
        pointed: (names) the cursor is over such a row; empty if it is over none.
        removal_wanted: the user wants to prune what remains of dead units.
    """

    opened = Signal(object)
    pointed = Signal(object)
    removal_wanted = Signal()

    def __init__(self) -> None:
        super().__init__(tr("The file in numbers"), MAX_LINES)
        self._targets: list[tuple[str, ...]] = []
        self._label.setTextInteractionFlags(LINKS)
        self._label.linkActivated.connect(self._follow)
        self._label.linkHovered.connect(lambda link: self.pointed.emit(self._target(link)))

    def show_card(self, card: FileCard, colours: Colours) -> None:
        self._targets.clear()
        name = unbroken(tr("Patterns"))
        patterns = self._list(f"<b>{name}</b>", card.patterns)
        lines = self._facts(card), self._warnings(card, colours), patterns
        self.setText("<br>".join(filter(None, lines)))

    def _facts(self, card: FileCard) -> str:
        faint = QApplication.palette().placeholderText().color().name()
        return SEPARATOR.join(
            f'<span style="color: {faint}">{unbroken(row.label)}</span>&nbsp;'
            f"{self._link(row, unbroken(row.text))}"
            for row in card.facts
        )

    def _warnings(self, card: FileCard, colours: Colours) -> str:
        name = unbroken(tr("Warnings"))
        heading = f'<b style="color: {colours.warning}">{name}</b>'
        if card.has_dead:
            removal = unbroken(tr("Prune what remains of dead units"))
            heading += f"{SEPARATOR}{self._linked(REMOVAL, removal)}"
        return self._list(heading, card.warnings)

    def _list(self, heading: str, found: Findings) -> str:
        if not found.total:
            return ""
        rows = (
            f"{self._link(row, unbroken(self._elided(row.label)))}: {escape(one_line(row.text))}"
            for row in found.rows
        )
        more = unbroken(tr("{count:,} more: see Layers", count=found.total - len(found.rows)))
        rest = [more] if found.total > len(found.rows) else []
        return SEPARATOR.join((heading, *rows, *rest))

    def _link(self, row: CardRow, text: str) -> str:
        if not row.parameters:
            return text
        self._targets.append(row.parameters)
        return self._linked(str(len(self._targets) - 1), text)

    def _linked(self, link: str, text: str) -> str:
        return f'<a href="{link}">{text}</a>'

    def _follow(self, link: str) -> None:
        if link == REMOVAL:
            self.removal_wanted.emit()
        else:
            self.opened.emit(self._target(link))

    def _target(self, link: str) -> tuple[str, ...]:
        return self._targets[int(link)] if link not in ("", REMOVAL) else ()

    def _elided(self, name: str) -> str:
        metrics, middle = self._label.fontMetrics(), Qt.TextElideMode.ElideMiddle
        return metrics.elidedText(one_line(name), middle, MAX_NAME_PX)
