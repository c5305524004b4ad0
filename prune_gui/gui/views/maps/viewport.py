"""The visible region of a parameter, shared by all views of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF

from prune_gui.raster.kernel_layout import KernelLayout
from prune_gui.raster.slice_layout import SliceLayout
from prune_gui.session import Settings

if TYPE_CHECKING:
    from prune_gui.raster.slice_layout import ParameterLayout

LayoutKey = SliceLayout | KernelLayout | tuple[int, int] | None
"""A layout without further choices, the dimensions of a section, or None for the flattened layout.
"""


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The layout that the user chose for parameters of a shape.

    Attributes:
        shape: shape of the parameters.
        layout_key: the chosen layout.
        at: index along every dimension, which selects a section.
    """

    shape: tuple[int, ...]
    layout_key: LayoutKey
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ViewState:
    """The visible region and the pinned element, for layouts of one size.

    Attributes:
        size: number of rows and columns of the layouts.
        sight: visible region, x in columns and y in rows.
        pinned: row and column of the pinned element; None if there is none.
    """

    size: tuple[int, int]
    sight: QRectF
    pinned: tuple[int, int] | None = None


def head_key(name: str) -> str:
    """Return a key that is equal for parameters of the same module in every block of a network."""
    return re.sub(r"\d+", "*", name.rpartition(".")[0])


class Viewport:
    """The visible region of all views. The view in front sets it; others read it when shown.

    Attributes:
        choice: the last layout that the user chose; None before the first.
        view_state: the last visible region and pin; None before the first.
        square_cells: whether rows are as high as columns are wide; kept between runs.
        head_counts: the number of heads that the user chose, by `head_key`.
    """

    def __init__(self) -> None:
        self.choice: LayoutChoice | None = None
        self.view_state: ViewState | None = None
        self.square_cells = Settings.load().square_cells
        self.head_counts: dict[str, int] = {}

    def keep_square_cells(self, *, on: bool) -> None:
        """Choose whether rows are as high as columns are wide, also for later runs."""
        self.square_cells = on
        Settings.update(lambda settings: settings.model_copy(update={"square_cells": on}))

    def within(self, layout: ParameterLayout) -> ViewState | None:
        """Return the view state if it belongs to layouts of this size."""
        view_state = self.view_state
        return (
            view_state
            if view_state is not None and view_state.size == (layout.rows, layout.columns)
            else None
        )

    def look(self, layout: ParameterLayout, sight: QRectF) -> None:
        """Set the visible region; the pinned element stays if the layout has the same size."""
        previous = self.within(layout)
        pinned = previous.pinned if previous is not None else None
        self.view_state = ViewState((layout.rows, layout.columns), sight, pinned)

    def pin(self, element: tuple[int, int] | None) -> None:
        """Pin an element of the current layout; None releases it."""
        if self.view_state is not None:
            self.view_state = replace(self.view_state, pinned=element)
