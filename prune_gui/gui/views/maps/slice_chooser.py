"""A box to choose how the elements of a parameter are laid out in a picture."""

from __future__ import annotations

from itertools import combinations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QWidget

from prune_gui.gui.views.maps.viewport import LayoutChoice, Viewport
from prune_gui.gui.widgets.elided_combo_box import ElidedComboBox
from prune_gui.gui.widgets.spacing import GAP_PX
from prune_gui.language import deferred, tr
from prune_gui.raster.kernel_layout import KernelLayout
from prune_gui.raster.slice_layout import ParameterLayout, SliceLayout

FLAT = deferred("flattened")
KERNEL_GRID = deferred("grid of kernels")
WRAPPED = deferred("wrapped into a block")


class LayoutChooser(QWidget):
    """Offers the flattened layout, and sections along two dimensions with sliders for the others.

    If they are possible, the first choices are a grid of all kernels, and one long row wrapped
    into a block. The box is hidden if there is only one choice.

    Attributes:
        sliders: widget with the sliders, to be laid out by the parent; hidden if there are none.

    Signals:
        changed: `layout_chosen` has changed.
    """

    changed = Signal()

    def __init__(
        self, viewport: Viewport, parent: QWidget | None = None, *, kernel_grids: bool = True
    ) -> None:
        super().__init__(parent)
        self._viewport = viewport
        self._kernel_grids = kernel_grids
        self._shape: tuple[int, ...] = ()
        self._box = ElidedComboBox()
        self._box.setObjectName("layout")
        self._box.setAccessibleName(tr("Layout of the parameter"))
        self._box.setToolTip(tr("Flatten all weights, or show a slice along two dimensions"))
        self._sliders: dict[int, QSlider] = {}
        self.sliders = QWidget(self)
        self.sliders.hide()
        self._slider_layout = QHBoxLayout(self.sliders)
        self._slider_layout.setContentsMargins(GAP_PX, 0, GAP_PX, GAP_PX)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._box)
        self._box.currentIndexChanged.connect(self._choose)
        self.hide()

    @property
    def dims(self) -> tuple[int, int] | None:
        """The dimensions of the rows and columns of a section; None if all elements are shown."""
        chosen = self._box.currentData()
        return chosen if isinstance(chosen, tuple) else None

    @property
    def layout_chosen(self) -> ParameterLayout:
        """The chosen layout."""
        chosen = self._box.currentData()
        if isinstance(chosen, SliceLayout | KernelLayout):
            return chosen
        if self.dims is None:
            return SliceLayout.flattened(self._shape)
        return SliceLayout.section(self._shape, *self.dims, self._choice.at)

    @property
    def _choice(self) -> LayoutChoice:
        indices = (
            self._sliders[d].value() if d in self._sliders else 0 for d in range(len(self._shape))
        )
        return LayoutChoice(self._shape, self._box.currentData(), tuple(indices))

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Offer the layouts of a parameter, and apply the last choice for the same shape."""
        if shape != self._shape:
            self._offer(shape)
        chosen = self._viewport.choice
        if chosen is not None and chosen.shape == shape and chosen != self._choice:
            self._apply(chosen)

    def _offer(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._box.blockSignals(True)
        self._box.clear()
        kernel_grid = KernelLayout.of(shape) if self._kernel_grids else None
        for text, layout in ((KERNEL_GRID, kernel_grid), (WRAPPED, SliceLayout.wrapped(shape))):
            if layout is not None:
                self._box.addItem(tr(text), layout)
        self._box.addItem(tr(FLAT) if len(shape) > 1 else tr("one row"), None)
        for pair in combinations((dim for dim, size in enumerate(shape) if size > 1), 2):
            down, across = pair
            self._box.addItem(
                tr("dim {down} \N{MULTIPLICATION SIGN} dim {across}", down=down, across=across),
                pair,
            )
        self._box.blockSignals(False)
        self.setVisible(self._box.count() > 1 and len(shape) != 2)
        self._make_sliders()

    def _apply(self, choice: LayoutChoice) -> None:
        """Apply a choice that was made elsewhere, if it is offered here."""
        offered = [self._box.itemData(index) for index in range(self._box.count())]
        if choice.layout_key in offered:
            with QSignalBlocker(self._box):
                self._box.setCurrentIndex(offered.index(choice.layout_key))
            self._make_sliders(choice.at)

    def _choose(self) -> None:
        self._make_sliders()
        self._notify()

    def _notify(self) -> None:
        self._viewport.choice = self._choice
        self.changed.emit()

    def _make_sliders(self, indices: tuple[int, ...] = ()) -> None:
        while item := self._slider_layout.takeAt(0):
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
            slider.setValue(indices[dim] if indices else 0)
            say(slider.value())
            slider.valueChanged.connect(say)
            slider.valueChanged.connect(lambda _: self._notify())
            self._sliders[dim] = slider
            self._slider_layout.addWidget(label)
            self._slider_layout.addWidget(slider, 1)
        self.sliders.setVisible(bool(self._sliders))
