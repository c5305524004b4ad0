"""What a user finds in a view: texts, controls and tables, by the names on the screen."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QTableView, QWidget

ROOT = QModelIndex()


def text(view: QWidget, name: str) -> str:
    """Return the text of the label whose accessible name starts with `name`."""
    [label] = [one for one in view.findChildren(QLabel) if one.accessibleName().startswith(name)]
    return label.text().replace("&nbsp;", " ")


def visible_texts(view: QWidget) -> list[str]:
    """Return the texts of all labels on the screen."""
    return [label.text() for label in view.findChildren(QLabel) if label.isVisible()]


def box(view: QWidget, name: str) -> QComboBox:
    """Return a combo box by its accessible name."""
    return next(one for one in view.findChildren(QComboBox) if one.accessibleName() == name)


def choose(view: QWidget, name: str, wanted: str) -> None:
    """Choose a text in a combo box."""
    found = box(view, name)
    assert found.findText(wanted) >= 0
    found.setCurrentIndex(found.findText(wanted))
    found.activated.emit(found.currentIndex())


def button(view: QWidget, wanted: str) -> QAbstractButton:
    """Return the button, or check box, whose text starts with `wanted`."""
    return next(b for b in view.findChildren(QAbstractButton) if b.text().startswith(wanted))


def cells(table: QTableView) -> list[list[str]]:
    """Return the texts of a table, row by row."""
    model = table.model()
    return [
        [model.index(row, column).data() for column in range(model.columnCount())]
        for row in range(model.rowCount())
    ]


def options(box: QComboBox) -> list[str]:
    """Return the texts that a combo box offers."""
    return [box.itemText(index) for index in range(box.count())]


def sight(plot: QWidget) -> tuple[float, float, float, float]:
    """Return the ends of the visible region of a plot: left, right, top, bottom."""
    (left, right), (top, bottom) = plot.view.viewRange()
    return left, right, top, bottom


def tree_names(model: QAbstractItemModel, parent: QModelIndex = ROOT) -> dict[str, Any]:
    """Return a tree as nested dictionaries of names."""
    rows = (model.index(row, 0, parent) for row in range(model.rowCount(parent)))
    return {index.data(): tree_names(model, index) for index in rows}
