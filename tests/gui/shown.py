"""All texts of a widget, visible or not, including those for screen readers."""

from __future__ import annotations

from collections.abc import Iterator

import pyqtgraph as pg
from foreign import untranslated
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, QObject, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QGraphicsSimpleTextItem,
    QGraphicsTextItem,
    QGraphicsView,
    QLineEdit,
    QMenu,
    QMessageBox,
    QTabWidget,
)

from prune_gui.checkpoint import Checkpoint

IGNORED_PROPERTIES = {
    *("objectName", "styleSheet", "windowIconText", "windowRole", "windowFilePath"),
    *("html", "markdown", "plainText"),
}
"""Properties that are not shown, or contain documents, code or typed text."""
IGNORED_BY_CLASS: dict[type[QObject], set[str]] = {
    QLineEdit: {"text", "displayText", "selectedText"},
    QMessageBox: {"detailedText"},
}
"""Further ignored properties of some classes: text typed by the user, and log entries."""
ROLES = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.AccessibleTextRole,
)


def untranslated_in(root: QObject, *names: str) -> set[str]:
    """Return the texts in and below an object in which words are not of the foreign language."""
    return {text for text in texts_in(root) if untranslated(text, *names)}


def names_in(checkpoint: Checkpoint) -> list[str]:
    """Return what is called by its name wherever a checkpoint is shown."""
    path = checkpoint.path.absolute()
    parts = {part for name in checkpoint.tensors for part in name.split(".")}
    dtypes = {info.dtype for info in checkpoint.tensors.values()}
    kinds = set().union(*checkpoint.module_types.values())
    files = (str(path), path.name, str(path.parent), f"{path.parent.name}/{path.name}")
    return [*checkpoint.tensors, *parts, *dtypes, *kinds, *files]


def texts_in(thing: QObject) -> Iterator[str]:
    """Yield every text in and below an object."""
    yield from _of(thing)
    for child in thing.children():
        if not (isinstance(thing, pg.PlotWidget) and isinstance(child, QMenu)):  # never opened
            yield from texts_in(child)


def _of(thing: QObject) -> Iterator[str]:
    unseen = IGNORED_PROPERTIES.union(
        *(names for kind, names in IGNORED_BY_CLASS.items() if isinstance(thing, kind))
    )
    described = thing.metaObject()
    for index in range(described.propertyCount()):
        known = described.property(index)
        if known.typeName() == "QString" and known.name() not in unseen:
            yield known.read(thing)
    if isinstance(thing, QAbstractItemView | QComboBox) and thing.model() is not None:
        yield from _of_model(thing.model())
    elif isinstance(thing, QTabWidget):
        for index in range(thing.count()):
            yield from (thing.tabText(index), thing.tabToolTip(index))
    elif isinstance(thing, QGraphicsView) and thing.scene() is not None:
        for item in thing.scene().items():
            yield item.toolTip()
            if isinstance(item, QGraphicsTextItem):
                yield item.toPlainText()
            elif isinstance(item, QGraphicsSimpleTextItem):
                yield item.text()


def _of_model(model: QAbstractItemModel, parent: QModelIndex | None = None) -> Iterator[str]:
    parent = parent or QModelIndex()
    rows = model.rowCount(parent)
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)
    heads = [
        model.headerData(section, way, role)
        for way, count in ((Qt.Orientation.Horizontal, columns), (Qt.Orientation.Vertical, rows))
        for section in range(count)
        for role in ROLES
    ]
    places = [model.index(row, column, parent) for row in range(rows) for column in range(columns)]
    cells = [place.data(role) for place in places for role in ROLES]
    yield from (text for text in (*heads, *cells) if isinstance(text, str))
    for place in places:
        if model.rowCount(place):
            yield from _of_model(model, place)
