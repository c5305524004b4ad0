"""The visible region of a parameter, shared by all views of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtWidgets import QLabel, QSlider, QWidget

from prune_gui.gui.views.controls import Choice
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX
from prune_gui.language import tr
from prune_gui.raster.parameter_layouts import KernelLayout, ParameterLayout, SliceLayout
from prune_gui.session import Settings

MAX_SQUARE_ASPECT: Final = 2
"""Maximum ratio of the sides of a picture whose cells are square by default."""


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The layout that the user chose for parameters of a shape.

    The key is a layout without further choices, the dimensions of a section, which `at` selects, or
    None for the flattened layout.
    """

    shape: tuple[int, ...]
    layout_key: SliceLayout | KernelLayout | tuple[int, int] | None
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ViewState:
    """The visible region, in columns and rows, and the pinned element, for layouts of one size."""

    size: tuple[int, int]
    sight: QRectF
    pinned: tuple[int, int] | None = None


def head_key(name: str) -> str:
    """Return a key that is equal for parameters of the same module in every block of a network."""
    return re.sub(r"\d+", "*", name.rpartition(".")[0])


class Viewport:
    """The visible region of all views. The view in front sets it; others read it when shown."""

    def __init__(self) -> None:
        self.choice: LayoutChoice | None = None
        self.view_state: ViewState | None = None
        self._square_cells = Settings.load().square_cells  # None if the user did not choose
        self.head_counts: dict[str, int] = {}
        self._file: Path | None = None

    def enter(self, file: Path) -> None:
        """Forget the visible region and the choices of another checkpoint."""
        if file != self._file:
            self._file, self.choice, self.view_state = file, None, None
            self.head_counts.clear()

    def has_square_cells(self, layout: ParameterLayout) -> bool:
        """Whether rows are as high as columns are wide. By default, long pictures fill the view."""
        if self._square_cells is not None:
            return self._square_cells
        short, long = sorted((layout.rows, layout.columns))
        return long <= MAX_SQUARE_ASPECT * short

    def keep_square_cells(self, *, on: bool) -> None:
        """Set it for later runs, too."""
        self._square_cells = on
        Settings.update(lambda settings: settings.model_copy(update={"square_cells": on}))

    def within(self, layout: ParameterLayout) -> ViewState | None:
        found = self.view_state
        return found if found and found.size == (layout.rows, layout.columns) else None

    def look(self, layout: ParameterLayout, sight: QRectF) -> None:
        """Set the visible region; the pinned element stays if the layout has the same size."""
        previous = self.within(layout)
        pinned = previous.pinned if previous is not None else None
        self.view_state = ViewState((layout.rows, layout.columns), sight, pinned)

    def pin(self, element: tuple[int, int] | None) -> None:
        if self.view_state is not None:
            self.view_state = replace(self.view_state, pinned=element)


class LayoutChooser(QWidget):
    """Offers the flattened layout, and sections along two dimensions with sliders for the others.

    If they are possible, the first choices are a grid of all kernels, and one long row wrapped
    into a block. The box is hidden if there is only one choice. The parent lays out the sliders.
    """

    changed = Signal()  # `layout_chosen` has changed

    def __init__(self, viewport: Viewport, *, kernel_grids: bool = True) -> None:
        super().__init__()
        self._viewport = viewport
        self._kernel_grids = kernel_grids
        self._shape: tuple[int, ...] = ()
        tip = tr("Flatten all weights, or show a slice along two dimensions")
        self._box = Choice(tr("Layout of the parameter"), changed=self._choose, tip=tip)
        self._box.setObjectName("layout")
        self._sliders: dict[int, QSlider] = {}
        self.sliders = QWidget(self)
        self.sliders.hide()
        self._slider_layout = layouts.row(of=self.sliders, margin=(GAP_PX, 0, GAP_PX, GAP_PX))
        layouts.row(self._box, of=self, margin=0)
        self.hide()

    @property
    def dims(self) -> tuple[int, int] | None:
        """The dimensions of the rows and columns of a section; None if all elements are shown."""
        chosen = self._box.value
        return chosen if isinstance(chosen, tuple) else None

    @property
    def layout_chosen(self) -> ParameterLayout:
        chosen = self._box.value
        if isinstance(chosen, SliceLayout | KernelLayout):
            return chosen
        if self.dims is None:
            return SliceLayout.flattened(self._shape)
        return SliceLayout.section(self._shape, *self.dims, self._choice.at)

    @property
    def _choice(self) -> LayoutChoice:
        at = {dim: slider.value() for dim, slider in self._sliders.items()}
        indices = tuple(at.get(dim, 0) for dim in range(len(self._shape)))
        return LayoutChoice(self._shape, self._box.value, indices)

    def set_shape(self, shape: tuple[int, ...]) -> None:
        """Offer the layouts of a parameter, and apply the last choice for the same shape."""
        if shape != self._shape:
            self._offer(shape)
        chosen = self._viewport.choice
        if chosen is not None and chosen.shape == shape and chosen != self._choice:
            self._apply(chosen)

    def _offer(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        items: list[tuple[str, object]] = []
        if self._kernel_grids and (kernel_grid := KernelLayout.of(shape)):
            items.append((tr("grid of kernels"), kernel_grid))
        if wrapped := SliceLayout.wrapped(shape):
            items.append((tr("wrapped into a block"), wrapped))
        items.append((tr("flattened") if len(shape) > 1 else tr("one row"), None))
        for down, across in combinations((dim for dim, size in enumerate(shape) if size > 1), 2):
            text = tr("dim {down} \N{MULTIPLICATION SIGN} dim {across}", down=down, across=across)
            items.append((text, (down, across)))
        self._box.offer(items)
        self._box.choose(items[0][1])
        self.setVisible(self._box.count() > 1 and len(shape) != 2)
        self._make_sliders()

    def _apply(self, choice: LayoutChoice) -> None:
        if choice.layout_key in [key for _, key in self._box.items]:
            self._box.choose(choice.layout_key)
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
                text = tr("dim {dim} at {index:,} of {size:,}", dim=dim, index=index, size=size)
                label.setText(text)

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
