"""Choosing how the entries of a parameter are laid out in a picture."""

from __future__ import annotations

from itertools import combinations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QWidget

from prune_gui.audit.raster.kernel_grid import KernelGrid
from prune_gui.audit.raster.slice_layout import ParameterLayout, SliceLayout
from prune_gui.gui.views.maps.viewport import Choice, Viewport
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.language import later, tr

FLAT = later("flattened")
SHEET = later("sheet of kernels")
WRAPPED = later("wrapped into a block")


class PlaneChooser(QWidget):
    """Offers the flattened plane and sections along two dimensions, with a slider for each other.

    First come, where they are possible, a sheet of all kernels, or one long row wrapped into a
    block. Hidden where there is nothing to choose.

    Args:
        viewport: has the choice that was made last, here or elsewhere.
        sheets: whether to offer sheets, which are no planes.

    Attributes:
        sliders: for whoever shows the chooser to give them a place; hidden if there are none.

    Signals:
        changed: `layout_chosen` is another one.
    """

    changed = Signal()

    def __init__(
        self, viewport: Viewport, parent: QWidget | None = None, *, sheets: bool = True
    ) -> None:
        super().__init__(parent)
        self._whereabouts = viewport
        self._sheets = sheets
        self._shape: tuple[int, ...] = ()
        self._planes = ElidedComboBox()
        self._planes.setObjectName("layout")
        self._planes.setAccessibleName(tr("How the parameter is laid flat"))
        self._planes.setToolTip(tr("Lay all entries flat, or cut along two dimensions"))
        self._sliders: dict[int, QSlider] = {}
        self.sliders = QWidget(self)
        self.sliders.hide()
        self._rest = QHBoxLayout(self.sliders)
        self._rest.setContentsMargins(8, 0, 8, 6)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._planes)
        self._planes.currentIndexChanged.connect(self._choose)
        self.hide()

    @property
    def dims(self) -> tuple[int, int] | None:
        """The dimensions that run down and across; None where all are shown."""
        chosen = self._planes.currentData()
        return chosen if isinstance(chosen, tuple) else None

    @property
    def layout_chosen(self) -> ParameterLayout:
        """Where the entries lie, as chosen."""
        chosen = self._planes.currentData()
        if isinstance(chosen, SliceLayout | KernelGrid):
            return chosen
        if self.dims is None:
            return SliceLayout.flattened(self._shape)
        return SliceLayout.section(self._shape, *self.dims, self._choice.at)

    @property
    def _choice(self) -> Choice:
        at = (
            self._sliders[d].value() if d in self._sliders else 0 for d in range(len(self._shape))
        )
        return Choice(self._shape, self._planes.currentData(), tuple(at))

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Offer the planes of a parameter, and take the choice that was made for its shape."""
        if shape != self._shape:
            self._offer(shape)
        chosen = self._whereabouts.choice
        if chosen is not None and chosen.shape == shape and chosen != self._choice:
            self._take(chosen)

    def _offer(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._planes.blockSignals(True)
        self._planes.clear()
        sheet = KernelGrid.of(shape) if self._sheets else None
        for text, layout in ((SHEET, sheet), (WRAPPED, SliceLayout.wrapped(shape))):
            if layout is not None:
                self._planes.addItem(tr(text), layout)
        self._planes.addItem(tr(FLAT) if len(shape) > 1 else tr("one row"), None)
        for pair in combinations((dim for dim, size in enumerate(shape) if size > 1), 2):
            down, across = pair
            self._planes.addItem(
                tr("dim {down} \N{MULTIPLICATION SIGN} dim {across}", down=down, across=across),
                pair,
            )
        self._planes.blockSignals(False)
        self.setVisible(self._planes.count() > 1 and len(shape) != 2)
        self._make_sliders()

    def _take(self, choice: Choice) -> None:
        """Take a choice that was made elsewhere, if it is offered here."""
        offered = [self._planes.itemData(place) for place in range(self._planes.count())]
        if choice.laid_out in offered:
            with QSignalBlocker(self._planes):
                self._planes.setCurrentIndex(offered.index(choice.laid_out))
            self._make_sliders(choice.at)

    def _choose(self) -> None:
        self._make_sliders()
        self._tell()

    def _tell(self) -> None:
        self._whereabouts.choice = self._choice
        self.changed.emit()

    def _make_sliders(self, at: tuple[int, ...] = ()) -> None:
        while item := self._rest.takeAt(0):
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        self._sliders.clear()
        for dim, size in enumerate(self._shape):
            if self.dims is None or dim in self.dims or size == 1:
                continue
            slider = QSlider(Qt.Orientation.Horizontal)
            slider.setMaximum(size - 1)
            slider.setAccessibleName(tr("Index along dim {dim}", dim=dim))
            label = QLabel()

            def say(index: int, label: QLabel = label, dim: int = dim, size: int = size) -> None:
                label.setText(
                    tr("dim {dim} at {index:,} of {size:,}", dim=dim, index=index, size=size)
                )

            say(size)
            label.setMinimumWidth(label.sizeHint().width())
            slider.setValue(at[dim] if at else 0)
            say(slider.value())
            slider.valueChanged.connect(say)
            slider.valueChanged.connect(lambda _: self._tell())
            self._sliders[dim] = slider
            self._rest.addWidget(label)
            self._rest.addWidget(slider, 1)
        self.sliders.setVisible(bool(self._sliders))
