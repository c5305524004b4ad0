"""The card beside the thumbnails: the file in numbers, and warnings that lead to their layer."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui.views.controls import fill
from prune_gui.gui.views.legend_text import SEPARATOR, unbroken
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.language import tr, trn

if TYPE_CHECKING:
    from prune_gui.gui.views.overview.text import CardRow, FileCard, Findings
    from prune_gui.raster.colours import Colours

WIDTH_PX: Final = 252
MAX_LINES: Final = 5
UNLIMITED_PX: Final = 16_777_215
"""Qt's QWIDGETSIZE_MAX: no maximum size."""
REMOVAL: Final = "removal"
KEYBOARD: Final = Qt.TextInteractionFlag.LinksAccessibleByKeyboard
MAX_NAME_PX: Final = 220
MAX_FLAT_ROWS: Final = 2


class CardPanel(QScrollArea):
    """Shows a card; it scrolls if it is long.

    Signals:
        opened: (names) the user clicked a row that leads to parameters.
        pointed: (names) the cursor is over such a row; empty if it is over none.
        removal_wanted: the user wants to prune what remains of dead units.
    """

    opened = Signal(object)
    pointed = Signal(object)
    removal_wanted = Signal()

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self.setAccessibleName(tr("The file in numbers"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._targets: list[tuple[str, ...]] = []
        self._card: FileCard | None = None
        self._colours: Colours | None = None
        self._flat = False
        labels = self._facts, self._warnings, self._patterns = QLabel(), QLabel(), QLabel()
        for label in labels:
            label.setTextFormat(Qt.TextFormat.RichText)
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.LinksAccessibleByMouse | KEYBOARD)
            label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
            label.linkActivated.connect(self._follow)
            label.linkHovered.connect(lambda link: self.pointed.emit(self._target(link)))
        content = QWidget()
        self._rows, margins = QVBoxLayout(content), (GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        fill(self._rows, *labels, margins=margins, spacing=GAP_PX)
        self._rows.addStretch()
        self.setWidget(content)

    def lay_flat(self, *, flat: bool) -> None:
        self._flat = flat
        self.setMinimumWidth(0 if flat else WIDTH_PX)
        self.setMaximumWidth(UNLIMITED_PX if flat else WIDTH_PX)
        if self._card is not None and self._colours is not None:
            self.show_card(self._card, self._colours)

    def show_card(self, card: FileCard, colours: Colours) -> None:
        self._card, self._colours = card, colours
        self._targets.clear()
        self._facts.setText(self._fact_text(card))
        self._warnings.setText(self._warning_text(card, colours))
        self._patterns.setText(self._pattern_text(card.patterns))
        for label in (self._patterns, self._warnings):
            label.setVisible(bool(label.text()))
        self._limit_height()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._limit_height()

    def _limit_height(self) -> None:
        if not self._flat:
            self.setMinimumHeight(0)
            self.setMaximumHeight(UNLIMITED_PX)
            return
        height = self._rows.totalHeightForWidth(self.viewport().width())
        lines_px = MAX_LINES * self._facts.fontMetrics().lineSpacing() + 4 * GAP_PX
        self.setFixedHeight(max(0, min(height, lines_px)))

    def _fact_text(self, card: FileCard) -> str:
        faint = f'style="color: {QApplication.palette().placeholderText().color().name()}"'
        if self._flat:
            return SEPARATOR.join(
                f"<span {faint}>{unbroken(row.label)}</span>&nbsp;"
                f"{self._link(row, unbroken(row.text))}"
                for row in card.facts
            )
        rows = "".join(
            f"<tr><td {faint}>{escape(row.label)}&nbsp;&nbsp;</td>"
            f"<td>{self._link(row, escape(one_line(row.text)))}</td></tr>"
            for row in card.facts
        )
        return f"<table cellspacing=0 cellpadding=2>{rows}</table>"

    def _list(self, heading: str, found: Findings) -> str:
        rows = found.rows[: MAX_FLAT_ROWS if self._flat else None]
        more = unbroken(tr("{count:,} more: see Layers", count=found.total - len(rows)))
        rest = [more] if found.total > len(rows) else []
        links = [self._link(row, unbroken(self._elided(row.label))) for row in rows]
        if self._flat:
            return SEPARATOR.join((heading, *links, *rest))
        texts = (
            f"{link}<br>{escape(one_line(row.text))}" for link, row in zip(links, rows, strict=True)
        )
        parts = (heading, *texts, *rest)
        return "".join(f'<p style="margin: 0 0 6px 0">{part}</p>' for part in parts)

    def _pattern_text(self, found: Findings) -> str:
        text = trn(
            "{count:,} parameter with a pattern",
            "{count:,} parameters with a pattern",
            found.parameters,
        )
        return self._list(f"<b>{unbroken(text)}</b>", found) if found.total else ""

    def _warning_text(self, card: FileCard, colours: Colours) -> str:
        found = card.warnings
        text = trn(
            "{count:,} parameter with warnings",
            "{count:,} parameters with warnings",
            found.parameters,
        )
        heading = f'<b style="color: {colours.warning}">{unbroken(text)}</b>'
        if card.has_dead:
            removal = unbroken(tr("Prune what remains of dead units"))
            heading += f"{SEPARATOR if self._flat else '<br>'}{self._linked(REMOVAL, removal)}"
        return self._list(heading, found) if found.total else ""

    def _link(self, row: CardRow, text: str) -> str:
        if not row.parameters:
            return text
        self._targets.append(row.parameters)
        return self._linked(str(len(self._targets) - 1), text)

    def _linked(self, link: str, text: str) -> str:
        colour = QApplication.palette().link().color().name()
        return f'<a style="color: {colour}" href="{link}">{text}</a>'

    def _follow(self, link: str) -> None:
        if link == REMOVAL:
            self.removal_wanted.emit()
        else:
            self.opened.emit(self._target(link))

    def _target(self, link: str) -> tuple[str, ...]:
        return self._targets[int(link)] if link not in ("", REMOVAL) else ()

    def _elided(self, name: str) -> str:
        metrics, middle = self._facts.fontMetrics(), Qt.TextElideMode.ElideMiddle
        return metrics.elidedText(one_line(name), middle, MAX_NAME_PX)
