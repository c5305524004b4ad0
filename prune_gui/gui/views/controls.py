"""The controls above the pictures: choices and switches, made with their texts and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QSignalBlocker, Qt, SignalInstance
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QLabel, QSpinBox, QToolButton, QWidget

from prune_gui.gui.widgets.eliding import ElidedComboBox
from prune_gui.gui.widgets.theme import set_icon

if TYPE_CHECKING:
    from prune_gui.gui.views.plot import Plot


Items = Sequence[tuple[str, Any]]  # texts with their values
Access = tuple[Callable[[], Any], Callable[[Any], None], SignalInstance]


class Choice(ElidedComboBox):
    """Chooses one of several values."""

    def __init__(
        self,
        name: str,
        items: Items = (),
        changed: Callable[[], object] | None = None,
        *,
        tip: str = "",
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(elide=elide)
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.offer(items)
        if changed is not None:
            self.currentIndexChanged.connect(changed)

    @property
    def items(self) -> Items:
        return [(self.itemText(i), self.itemData(i)) for i in range(self.count())]

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever the items have
        return self.currentData()

    def choose(self, value: object) -> None:
        """Choose a value silently; the first one if it is not offered."""
        values = [value for _, value in self.items]
        with QSignalBlocker(self):
            self.setCurrentIndex(values.index(value) if value in values else 0)

    def offer(self, items: Items, default: object = None) -> None:
        """Offer values silently. The chosen one stays; if it is not offered, choose the default."""
        if items != self.items:
            chosen = self.value
            with QSignalBlocker(self):
                self.clear()
                for text, value in items:
                    self.addItem(text, value)
            self.choose(chosen if any(value == chosen for _, value in items) else default)


def accessors(field: QWidget) -> Access:
    """Return how to get and to set the value of a field, and the signal that it has changed."""
    match field:
        case Choice():
            return lambda: field.value, field.choose, field.currentIndexChanged
        case QCheckBox():
            return field.isChecked, field.setChecked, field.toggled
        case QSpinBox() | QDoubleSpinBox():
            field.setKeyboardTracking(False)
            return field.value, field.setValue, field.valueChanged
    raise TypeError(field)


def switch(
    text: str, tip: str = "", changed: Callable[..., object] | None = None, *, on: bool = False
) -> QCheckBox:
    """Return a check box."""
    box = QCheckBox(text)
    box.setToolTip(tip)
    box.setChecked(on)
    if changed is not None:
        box.toggled.connect(changed)
    return box


def note(name: str, *, tip: str = "", rich: bool = False) -> QLabel:
    """Return an empty label for a note below a picture."""
    label = QLabel(textFormat=Qt.TextFormat.RichText if rich else Qt.TextFormat.AutoText)
    label.setAccessibleName(name)
    label.setToolTip(tip)
    return label


class IconToggle(QToolButton):
    """A checkable button without a text."""

    def __init__(self, icon_name: str, name: str, tip: str) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setAutoRaise(True)
        self.setAccessibleName(name)
        self.setToolTip(f"{name}\n{tip}")
        set_icon(self, icon_name)


ZOOM_FACTOR: Final = 1.3
ZOOMS: Final = {"+": 1 / ZOOM_FACTOR, "=": 1 / ZOOM_FACTOR, "-": ZOOM_FACTOR}
PAN_SHARE: Final = 0.2
PANS: Final = {
    "Left": (-PAN_SHARE, 0.0),
    "Right": (PAN_SHARE, 0.0),
    "Up": (0.0, -PAN_SHARE),
    "Down": (0.0, PAN_SHARE),
}
"""By key: the zoom factor, and the pan as shares of the visible region, across and down."""


def add_axis_shortcuts(plot: Plot) -> None:
    """Let plus and minus zoom a plot along its horizontal axis, arrow keys pan it, and F fit it."""

    def move(share: float) -> None:
        plot.view.translateBy(x=share * plot.viewRect().width())

    def fit() -> None:
        plot.setXRange(*plot.view.state["limits"]["xLimits"], padding=0)

    for key, factor in ZOOMS.items():
        shortcut(key, partial(plot.view.scaleBy, x=factor), plot)
    for key in ("Left", "Right"):
        shortcut(key, partial(move, PANS[key][0]), plot)
    shortcut("F", fit, plot)


def shortcut(key: str, action: Callable[[], None], widget: QWidget) -> QShortcut:
    """Let a key act while a widget or a part of it has the focus."""
    made = QShortcut(QKeySequence(key), widget)
    made.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.activated.connect(action)
    return made
